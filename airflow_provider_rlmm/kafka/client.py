# SPDX-License-Identifier: Apache-2.0
"""What all Kafka adapters share: bounded admin calls, what a client's threads report, and errors in this package's words."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from airflow_provider_rlmm.errors import (
    ClusterMismatchError,
    ConfigurationError,
    EventLogAccessError,
    EventLogError,
    EventLogUnavailableError,
)
from airflow_provider_rlmm.kafka.config import KafkaClientConfig, check_files
from airflow_provider_rlmm.kafka.tls_errors import explain_tls_refusal, is_tls_refusal
from airflow_provider_rlmm.quoting import printable
from airflow_provider_rlmm.redaction import secrets_of, without_secrets

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

METADATA_TOPIC = "__remote_log_metadata"
REQUEST_TIMEOUT_S = 15.0

_MAX_TEXT = 1_000
_POLL_S = 0.05
# librdkafka times a request out by itself; ours is the net below it, for a client that is stuck.
_SLACK_S = 2.0

# librdkafka complains about a property under the one of its names that it likes best.
_ALSO_CALLED = {
    "compression.codec": "compression.type",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "message.send.max.retries": "retries",
    "queue.buffering.max.ms": "linger.ms",
    "sasl.mechanisms": "sasl.mechanism",
}

_logger = logging.getLogger(__name__)

K = TypeVar("K")
C = TypeVar("C")


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


class _ClientLog:
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
        client_logger.log(level, "%s", printable(without_secrets(text, self._secrets), _MAX_TEXT))


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
        return printable(without_secrets(f"{error.name()}: {error.str()}", self._secrets), _MAX_TEXT)

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


def admin_api() -> Any:
    """Return ``confluent_kafka.admin``, untyped: its annotations neither export nor type all of what it offers."""
    import confluent_kafka.admin

    return confluent_kafka.admin


def open_client(factory: Callable[..., C], properties: Mapping[str, Any], watch: ClientWatch) -> C:
    """
    Open a Kafka client; this makes no network call that anyone waits for.

    :param factory: ``Producer``, ``Consumer`` or ``AdminClient``.
    :param properties: from :class:`~airflow_provider_rlmm.kafka.config.KafkaClientConfig`.
    :param watch: gets the client's errors.
    :raises ConfigurationError: if a file does not exist that a property names, or librdkafka refuses a property.
    """
    from confluent_kafka import KafkaException

    check_files(properties)
    try:
        return factory(dict(properties), error_cb=watch.on_error, logger=_ClientLog(properties))
    except KafkaException as error:
        complaint = printable(without_secrets(error.args[0].str(), secrets_of(properties)), _MAX_TEXT)
        raise ConfigurationError(f"librdkafka refuses the Kafka connection: {_named(complaint)}") from None
    except (TypeError, ValueError):
        # Its message may quote a value.
        raise ConfigurationError(
            "librdkafka refuses the Kafka connection: a property has a value of a wrong type"
        ) from None


def serve(call: Callable[[float], int], seconds: float) -> int:
    """
    Let a producer work and call its delivery reports.

    A fatal error, for example that it may not write at all, leaves confluent-kafka's call in one of three ways: as it should;
    as a ``SystemError``, where a report is called at that moment; or as the ``KafkaError`` itself, which is no exception, so
    that not even ``except BaseException`` holds it.

    :param call: ``flush`` or ``poll`` of a producer.
    :param seconds: how long it may take.
    :return: what the call returns.
    :raises KafkaException: with the fatal error, in each of the three cases.
    """
    from confluent_kafka import KafkaError, KafkaException

    try:
        return call(seconds)
    except:  # noqa: E722 - nothing else catches a KafkaError
        raised: Any = sys.exc_info()[1]
        fatal = raised.__cause__ if isinstance(raised, SystemError) else raised
        if not isinstance(fatal, KafkaError | KafkaException):
            raise
    raise fatal if isinstance(fatal, KafkaException) else KafkaException(fatal)


def _named(complaint: str) -> str:
    """Add the name by which the user is likely to have set the property."""
    found = next((other for name, other in _ALSO_CALLED.items() if f'"{name}"' in complaint), None)
    return complaint if found is None else f"{complaint} (also called {found})"


class KafkaAdmin:
    """
    One admin client, opened when first used, whose every call ends within the request timeout.

    The client stays referenced while its futures run: librdkafka would drop them with it.

    :param config: the client's properties.
    :param request_timeout_s: seconds for one call.
    """

    def __init__(self, config: KafkaClientConfig, request_timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        self.config = config
        self.request_timeout_s = request_timeout_s
        self.watch = ClientWatch(config)
        self._client: AdminClient | None = None

    @property
    def client(self) -> AdminClient:
        """The admin client; not to be shared across a fork."""
        if self._client is None:
            from confluent_kafka.admin import AdminClient

            self._client = open_client(AdminClient, self.config.admin(), self.watch)
        return self._client

    def results(self, what: str, start: Callable[[AdminClient], Mapping[K, Future[Any]]]) -> dict[K, Any]:
        """
        Run one call and wait for all its futures.

        :param what: the call, for messages.
        :param start: starts it and returns its futures.
        :return: per key the result, or the ``KafkaError`` where that one failed.
        :raises EventLogAccessError: as soon as authentication fails.
        :raises EventLogUnavailableError: if the call takes longer than the request timeout.
        """
        from confluent_kafka import KafkaException

        client = self.client
        self.watch.forget()
        futures = start(client)
        deadline = time.monotonic() + self.request_timeout_s + _SLACK_S
        while pending := wait(futures.values(), timeout=_POLL_S).not_done:
            client.poll(0)
            self.watch.raise_if_denied(what)
            if time.monotonic() > deadline:
                raise self.watch.error(what, f"{len(pending)} answers are late")
        outcomes: dict[K, Any] = {}
        for key, future in futures.items():
            try:
                outcomes[key] = future.result()
            except KafkaException as error:
                outcomes[key] = error.args[0]
        return outcomes

    def result(self, what: str, start: Callable[[AdminClient], Future[Any]]) -> Any:
        """
        Run one call that has one answer.

        :param what: the call, for messages.
        :param start: starts it and returns its future.
        :raises EventLogAccessError: if the brokers refuse it.
        :raises EventLogUnavailableError: if it fails otherwise.
        """
        return self.checked(what, self.results(what, lambda client: {None: start(client)})[None])

    def checked(self, what: str, outcome: Any) -> Any:
        """
        Return a result, raise an error.

        :param what: the call, for messages.
        :param outcome: one value of :meth:`results`.
        :raises EventLogAccessError: if the brokers refused it.
        :raises EventLogUnavailableError: if it failed otherwise.
        """
        from confluent_kafka import KafkaError

        if isinstance(outcome, KafkaError):
            raise self.watch.error(what, outcome)
        return outcome

    def close(self) -> None:
        """Let the client go; the next call opens another."""
        self._client = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Handle(Protocol):
    """A librdkafka client of any kind, for what all of them can be asked."""

    def list_topics(self, *, timeout: float) -> Any:
        """Return the cluster's metadata. Without a topic this request cannot create one."""
        ...


def cluster_id_of(admin: KafkaAdmin) -> str:
    """
    Ask a cluster for its id.

    :param admin: the client.
    :raises EventLogAccessError: if the login fails.
    :raises EventLogUnavailableError: if no broker answers.
    """
    timeout = admin.request_timeout_s
    described = admin.result("describing the cluster", lambda client: client.describe_cluster(request_timeout=timeout))
    return str(described.cluster_id)


def require_cluster(handle: Handle, cluster_id: str, what: str, admin: KafkaAdmin) -> None:
    """
    Refuse a client that has reached another cluster: each client chooses for itself among the addresses that it is given.

    :param handle: the client, freshly opened: the cluster id that a client shows is that of its first connection.
    :param cluster_id: the cluster to be at.
    :param what: the client, for the message.
    :param admin: the admin client of the same configuration, for its timeout and its messages.
    :raises ClusterMismatchError: naming both clusters.
    :raises EventLogUnavailableError: if no broker answers.
    """
    from confluent_kafka import KafkaException

    try:
        found = handle.list_topics(timeout=admin.request_timeout_s).cluster_id
    except KafkaException as error:
        raise admin.watch.error(f"asking for the cluster of {what}", error.args[0]) from None
    if found != cluster_id:
        raise ClusterMismatchError(
            f"{what} has reached cluster {found!r}, and cluster {cluster_id!r} is being worked on, brokers "
            f"{admin.config.bootstrap_servers}: name the brokers of one cluster only"
        )


def is_unknown_topic(outcome: Any) -> bool:
    """
    Say whether an outcome is the cluster's answer that there is no such topic or partition.

    :param outcome: one value of :meth:`KafkaAdmin.results`.
    """
    from confluent_kafka import KafkaError

    return isinstance(outcome, KafkaError) and outcome.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
