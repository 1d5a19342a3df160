# SPDX-License-Identifier: Apache-2.0
"""
What a Kafka client reports by itself: its errors and its log lines, in words and without secrets.

Of a refused certificate librdkafka says the same for a wrong authority, a wrong host name and an expired one, under one of
two error codes (seen with 2.16.0). So the broker is asked once more with Python's TLS, which tells them apart: the same
authorities, the same host name, a handshake and nothing else.
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError

from airflow_provider_rlmm.core.base.errors import EventLogAccessError, EventLogError, EventLogUnavailableError
from airflow_provider_rlmm.core.base.quoting import in_quotes, printable
from airflow_provider_rlmm.core.base.redaction import secrets_of, without_secrets
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig

MAX_TEXT = 1_000
"""Characters of what a client says that are passed on."""

_TLS_TIMEOUT_S = 5.0
_ADDRESS = re.compile(r"\b(?:sasl_)?ssl://([^/\s]+)/", re.I)
# OpenSSL's, by number and by name: "SSL routines::certificate verify failed".
_NOT_VERIFIED = re.compile(r"0A000086|certificate verify failed", re.I)
_REFUSES_OURS = re.compile(
    r"alert (certificate required|bad certificate|unsupported certificate|certificate revoked|certificate expired"
    r"|certificate unknown|unknown ca|access denied)"
)
# OpenSSL's X509_V_ERR_….
_NOT_YET_VALID, _EXPIRED, _REVOKED = 9, 10, 23
_WRONG_NAME = frozenset({62, 64})
_WRONG_AUTHORITY = frozenset({2, 7, 18, 19, 20, 21, 24})

_logger = logging.getLogger(__name__)


def _no_failure_lines(record: logging.LogRecord) -> bool:
    """Drop librdkafka's line per failed connect, tens a second: the error callback gets the same, and says it once."""
    return not record.getMessage().startswith("FAIL ")


client_logger = logging.getLogger(f"{__name__}.librdkafka")
client_logger.addFilter(_no_failure_lines)


# Wrong credentials, no trust, or no permission.
_ACCESS = (
    "_AUTHENTICATION", "_SSL", "CLUSTER_AUTHORIZATION_FAILED", "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
    "DELEGATION_TOKEN_EXPIRED", "GROUP_AUTHORIZATION_FAILED", "ILLEGAL_SASL_STATE", "SASL_AUTHENTICATION_FAILED",
    "SECURITY_DISABLED", "TOPIC_AUTHORIZATION_FAILED", "UNSUPPORTED_SASL_MECHANISM",
)  # fmt: skip


def _is_access_error(error: KafkaError) -> bool:
    """Tell whether trying again is of no use."""
    # A certificate that is refused comes as _SSL or, at random, as a failure of the network.
    return error.name() in _ACCESS or is_tls_refusal(error.str())


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
    What one librdkafka client reports through ``error_cb``: librdkafka retries forever, so a caller has to look.

    :param config: for the brokers' names in messages.
    """

    def __init__(self, config: KafkaClientConfig) -> None:
        self._config = config
        self._secrets = config.secrets()
        self._last: KafkaError | None = None
        self._access: KafkaError | None = None

    def text_of(self, error: KafkaError) -> str:
        """Say an error of librdkafka or of a broker in words, without the client's secrets."""
        return printable(without_secrets(f"{error.name()}: {error.str()}", self._secrets), MAX_TEXT)

    def on_error(self, error: KafkaError) -> None:
        """Take an error; runs inside ``poll`` and its like, on the calling thread."""
        if self._last is None or self._last.code() != error.code():
            _logger.info("Kafka client at %s: %s", self._config.bootstrap_servers, self.text_of(error))
        # That all brokers are down comes right after the error that says why.
        if self._last is None or error.name() != "_ALL_BROKERS_DOWN":
            self._last = error
        if _is_access_error(error):
            self._access = error

    @property
    def access_denied(self) -> bool:
        """Whether authentication or authorisation has failed since the last :meth:`forget`."""
        return self._access is not None

    @property
    def troubled(self) -> bool:
        """Whether anything was reported since the last :meth:`forget`."""
        return self._last is not None

    @property
    def reported(self) -> str | None:
        """The last error since the last :meth:`forget`, in words, ``None`` where there was none."""
        return None if self._last is None else self.text_of(self._last)

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
        denied = self.access_denied or (not isinstance(cause, str) and _is_access_error(cause))
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


def is_tls_refusal(text: str) -> bool:
    """
    Tell whether an error says that one side refused the other's certificate: trying again is pointless.

    :param text: librdkafka's.
    """
    return _NOT_VERIFIED.search(text) is not None or _REFUSES_OURS.search(text) is not None


def explain_tls_refusal(text: str, properties: Mapping[str, Any]) -> str | None:
    """
    Say why the certificate is refused and what to do, ``None`` where that cannot be found out.

    It connects to the broker that the text names, and waits for five seconds at most.

    :param text: librdkafka's, for which :func:`is_tls_refusal` holds.
    :param properties: librdkafka's.
    """
    found = _ADDRESS.search(text)
    if found is None:
        return None
    address = found[1]
    if ours := _REFUSES_OURS.search(text):
        return (
            f"broker {address} refuses this client's certificate, or wants one ({ours[0]}): set ssl.certificate.location and "
            "ssl.key.location to a certificate that an authority of the broker has issued, and its key"
        )
    error = _refusal_of(address, properties)
    return None if error is None else _in_words(address, error, properties)


def _refusal_of(address: str, properties: Mapping[str, Any]) -> ssl.SSLCertVerificationError | None:
    """Return how a handshake ends, ``None`` where the certificate is not what it ends by."""
    host, _, port = address.rpartition(":")
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), timeout=_TLS_TIMEOUT_S) as connection,
            _tls_context(properties).wrap_socket(connection, server_hostname=host.strip("[]")),
        ):
            return None
    except ssl.SSLCertVerificationError as error:
        return error
    except (OSError, ValueError):
        return None


def _ca_location(properties: Mapping[str, Any]) -> str:
    location = str(properties.get("ssl.ca.location") or "")
    return "" if location == "probe" else location


def _tls_context(properties: Mapping[str, Any]) -> ssl.SSLContext:
    """Return a context that trusts whom the client trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = str(properties.get("ssl.endpoint.identification.algorithm", "https")).lower() != "none"
    if location := _ca_location(properties):
        context.load_verify_locations(**{"capath" if Path(location).is_dir() else "cafile": location})
    elif pem := str(properties.get("ssl.ca.pem") or ""):
        context.load_verify_locations(cadata=pem)
    else:
        context.load_default_certs()
    return context


def _authorities(properties: Mapping[str, Any]) -> str:
    if location := _ca_location(properties):
        return f"ssl.ca.location ({in_quotes(location)})"
    return "ssl.ca.pem" if properties.get("ssl.ca.pem") else "the authorities of this machine"


def _in_words(address: str, error: ssl.SSLCertVerificationError, properties: Mapping[str, Any]) -> str:
    code, said = error.verify_code, printable(str(error.verify_message)).rstrip(".")
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    if code in _WRONG_NAME:
        return (
            f"the certificate of broker {address} is for another host ({said}): connect by a name that it holds, in "
            "bootstrap.servers and in the brokers' advertised.listeners, or have it issued for this one"
        )
    if code == _EXPIRED:
        return (
            f"a certificate of broker {address} has expired: have it renewed there; if it has not, the clock of this machine "
            f"is ahead, it says {now}"
        )
    if code == _NOT_YET_VALID:
        return (
            f"a certificate of broker {address} is not valid yet: the clock of this machine is behind, it says {now}, or the "
            "certificate was issued for later"
        )
    if code in _WRONG_AUTHORITY:
        return (
            f"the certificate of broker {address} was not issued by an authority in {_authorities(properties)} ({said}): put "
            "the issuing authority's certificate into a PEM file on every worker, and its path into ssl.ca.location"
        )
    return f"the certificate of broker {address} is refused: {said}"
