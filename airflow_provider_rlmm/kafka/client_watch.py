# SPDX-License-Identifier: Apache-2.0
"""What a Kafka client reports by itself: its errors and its log lines, in words and without secrets."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.errors import EventLogAccessError, EventLogError, EventLogUnavailableError
from airflow_provider_rlmm.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.kafka.tls_errors import explain_tls_refusal, is_tls_refusal
from airflow_provider_rlmm.quoting import printable
from airflow_provider_rlmm.redaction import secrets_of, without_secrets

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


MAX_TEXT = 1_000
"""Characters of what a client says that are passed on."""

_logger = logging.getLogger(__name__)


def _no_failure_lines(record: logging.LogRecord) -> bool:
    """Drop librdkafka's line per failed connect, tens a second: the error callback gets the same, and says it once."""
    return not record.getMessage().startswith("FAIL ")


client_logger = logging.getLogger(f"{__name__}.librdkafka")
client_logger.addFilter(_no_failure_lines)


@cache
def access_codes() -> frozenset[int]:
    """Return the error codes that mean: wrong credentials, no trust, or no permission."""
    from confluent_kafka import KafkaError

    return frozenset(
        {
            KafkaError._AUTHENTICATION,
            KafkaError._SSL,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
            KafkaError.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
            KafkaError.DELEGATION_TOKEN_EXPIRED,
            KafkaError.GROUP_AUTHORIZATION_FAILED,
            KafkaError.ILLEGAL_SASL_STATE,
            KafkaError.SASL_AUTHENTICATION_FAILED,
            KafkaError.SECURITY_DISABLED,
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.UNSUPPORTED_SASL_MECHANISM,
        }
    )


def is_access_error(error: KafkaError) -> bool:
    """
    Tell whether an error means wrong credentials, no trust or no permission: nobody needs to try again.

    :param error: of librdkafka or of a broker.
    """
    # A certificate that is refused comes as _SSL or, at random, as a failure of the network.
    return error.code() in access_codes() or is_tls_refusal(error.str())


class ClientLog:
    """
    What a client takes for its logger: librdkafka's lines without the client's secrets, each in one line.

    :param properties: the client's.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._secrets = secrets_of(properties)

    def log(self, level: int, message: str, *arguments: object) -> None:
        """
        Take a line.

        :param level: Python's.
        :param message: with the places of the arguments.
        :param arguments: what belongs there.
        """
        text = str(message) % arguments if arguments else str(message)
        client_logger.log(level, "%s", printable(without_secrets(text, self._secrets), MAX_TEXT))


class ClientWatch:
    """
    What one librdkafka client reports through ``error_cb``: librdkafka retries forever, somebody has to look.

    :param config: for the brokers' names in messages.
    """

    def __init__(self, config: KafkaClientConfig) -> None:
        self._config = config
        self._secrets = config.secrets()
        self._last: KafkaError | None = None
        self._access: KafkaError | None = None

    def text_of(self, error: KafkaError) -> str:
        """
        Say an error of librdkafka or of a broker in words, without the client's secrets.

        :param error: the error.
        """
        return printable(without_secrets(f"{error.name()}: {error.str()}", self._secrets), MAX_TEXT)

    def on_error(self, error: KafkaError) -> None:
        """
        Take an error; runs inside ``poll`` and its like, on the calling thread.

        :param error: the error.
        """
        from confluent_kafka import KafkaError

        if self._last is None or self._last.code() != error.code():
            _logger.info("Kafka client at %s: %s", self._config.bootstrap_servers, self.text_of(error))
        # That all brokers are down comes right after the error that says why.
        if self._last is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._last = error
        if is_access_error(error):
            self._access = error

    @property
    def access_denied(self) -> bool:
        """Whether authentication or authorisation has failed since the last :meth:`forget`."""
        return self._access is not None

    @property
    def troubled(self) -> bool:
        """Whether anything was reported since the last :meth:`forget`."""
        return self._last is not None

    def forget(self) -> None:
        """Start a call: what was reported before it is not about it."""
        self._last = self._access = None

    def raise_if_denied(self, what: str) -> None:
        """
        Raise as soon as retrying is pointless.

        :param what: the call, for the message.
        :raises EventLogAccessError: if authentication or authorisation has failed.
        """
        if self._access is not None:
            raise self.error(what, self._access)

    def error(self, what: str, cause: KafkaError | str) -> EventLogError:
        """
        Build the error for a call.

        :param what: the call, for the message.
        :param cause: why it failed.
        """
        # A refused client's requests time out, so the cause alone may look like a broker that does not answer.
        denied = self.access_denied or (not isinstance(cause, str) and is_access_error(cause))
        text = cause if isinstance(cause, str) else self.text_of(cause)
        if self._last is not None and (isinstance(cause, str) or self._last.code() != cause.code()):
            text = f"{text}; last reported by the client: {self.text_of(self._last)}"
        message = f"{what}, brokers {self._config.bootstrap_servers}: {text}"
        if denied and (refusal := self._tls_refusal(cause)) is not None:
            return EventLogAccessError(f"{what}, brokers {self._config.bootstrap_servers}: {refusal}")
        if denied:
            return EventLogAccessError(f"{message}; check the credentials and ACLs of the Kafka connection")
        return EventLogUnavailableError(message)

    def _tls_refusal(self, cause: KafkaError | str) -> str | None:
        """Say why a certificate is refused, ``None`` where none is or the reason cannot be found out."""
        for error in (cause, self._access):
            if error is not None and not isinstance(error, str) and is_tls_refusal(error.str()):
                return explain_tls_refusal(error.str(), self._config.properties)
        return None
