# SPDX-License-Identifier: Apache-2.0
"""What all Kafka adapters share: opening a client, bounded admin calls, and errors in this package's words."""

from __future__ import annotations

import base64
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from itertools import islice
from typing import Any, TypeVar
from uuid import UUID

import confluent_kafka.admin
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import (
    ClusterMismatchError,
    ConfigurationError,
    MetadataTopicNotFoundError,
    TopicIdMissingError,
)
from airflow_provider_rlmm.core.base.quoting import printable
from airflow_provider_rlmm.core.base.redaction import secrets_of, without_secrets
from airflow_provider_rlmm.core.log.kafka.client_watch import MAX_TEXT, ClientLog, ClientWatch
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig, check_files
from airflow_provider_rlmm.core.log.kafka.listening import SAY_AFTER_S, waiting_logger

METADATA_TOPIC = "__remote_log_metadata"
REQUEST_TIMEOUT_S = 15.0
CHUNK = 500
"""Topics per request: far below what a broker refuses, few round trips for a large cluster."""
UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PART"
TOPIC_DENIED = "TOPIC_AUTHORIZATION_FAILED"
"""The cluster's answer that there is no such topic or partition."""

_POLL_S = 0.05
# librdkafka times a request out by itself; ours is the net below it, for a client that is stuck.
_SLACK_S = 2.0
_RETRY_S = 0.1
# librdkafka drops a broker that another broker's answer does not name, as while brokers restart, with what it was asked.
_FORGOTTEN = "_DESTROY_BROKER"
# Between two leaders: brokers restart, and a moment later there is one.
_LEADERLESS = (
    "_NOENT", "FENCED_LEADER_EPOCH", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "OFFSET_NOT_AVAILABLE",
    "UNKNOWN_LEADER_EPOCH",
)  # fmt: skip

# librdkafka complains about a property under the one of its names that it likes best.
_ALSO_CALLED = {
    "compression.codec": "compression.type",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "message.send.max.retries": "retries",
    "queue.buffering.max.ms": "linger.ms",
    "sasl.mechanisms": "sasl.mechanism",
}

admin_api: Any = confluent_kafka.admin
"""Untyped: its annotations neither export nor type all of what it offers."""

K = TypeVar("K")
C = TypeVar("C")
T = TypeVar("T")


def open_client(factory: Callable[..., C], properties: Mapping[str, Any], watch: ClientWatch) -> C:
    """
    Open a Kafka client; this makes no network call that anyone waits for.

    :param factory: ``Producer``, ``Consumer`` or ``AdminClient``.
    :param properties: from :class:`~airflow_provider_rlmm.core.log.kafka.config.KafkaClientConfig`.
    :param watch: gets the client's errors.
    :raises ConfigurationError: if a file does not exist that a property names, or librdkafka refuses a property.
    """
    check_files(properties)
    try:
        return factory(dict(properties), error_cb=watch.on_error, logger=ClientLog(properties))
    except KafkaException as error:
        complaint = printable(without_secrets(error.args[0].str().strip(), secrets_of(properties)), MAX_TEXT)
        # The user is likely to have set it under its other name.
        also = next((f" (also called {other})" for name, other in _ALSO_CALLED.items() if f'"{name}"' in complaint), "")
        raise ConfigurationError(f"librdkafka refuses the Kafka connection: {complaint}{also}") from None
    except (TypeError, ValueError):
        # Its message may quote a value.
        text = "librdkafka refuses the Kafka connection: a property has a value of a wrong type"
        raise ConfigurationError(text) from None


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
    try:
        return call(seconds)
    except:  # noqa: E722 - nothing else catches a KafkaError
        raised: Any = sys.exc_info()[1]
        fatal = raised.__cause__ if isinstance(raised, SystemError) else raised
        if not isinstance(fatal, KafkaError | KafkaException):
            raise
    raise fatal if isinstance(fatal, KafkaException) else KafkaException(fatal)


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
            self._client = open_client(AdminClient, self.config.admin(), self.watch)
        return self._client

    def results(self, what: str, start: Callable[[AdminClient], Mapping[K, Future[Any]]]) -> dict[K, Any]:
        """
        Run one call and wait for all its futures; run it once more where the client has forgotten a broker that it asked.

        :param what: the call, for messages.
        :param start: starts it and returns its futures; it may be called twice.
        :return: per key the result, or the ``KafkaError`` where that one failed.
        :raises EventLogAccessError: as soon as authentication fails.
        :raises EventLogUnavailableError: if the call takes longer than the request timeout.
        """
        outcomes = self._outcomes(what, start)
        if any(is_error(outcome, _FORGOTTEN) for outcome in outcomes.values()):
            outcomes = self._outcomes(what, start)
        return outcomes

    def _outcomes(self, what: str, start: Callable[[AdminClient], Mapping[K, Future[Any]]]) -> dict[K, Any]:
        client = self.client
        self.watch.forget()
        futures, started, said = start(client), time.monotonic(), False
        while pending := wait(futures.values(), timeout=_POLL_S).not_done:
            client.poll(0)
            self.watch.raise_if_denied(what)
            waited_s = time.monotonic() - started
            if waited_s > self.request_timeout_s + _SLACK_S:
                raise self.watch.error(what, f"{number_of(len(pending), 'answer is', 'answers are')} late")
            if not said and waited_s > SAY_AFTER_S:
                said = True
                reported = f": {self.watch.reported}" if self.watch.troubled else ""
                brokers = self.config.bootstrap_servers
                waiting_logger.info("%s: no answer for %g s from brokers %s%s", what, SAY_AFTER_S, brokers, reported)
        outcomes: dict[K, Any] = {}
        for key, future in futures.items():
            # Raised, it would hold this frame and its callers', with the clients that they have, until the next collection.
            error = future.exception()
            outcomes[key] = error.args[0] if isinstance(error, KafkaException) else future.result()
        return outcomes

    def checked(self, what: str, outcome: Any) -> Any:
        """
        Return a result, raise an error.

        :param what: the call, for messages.
        :param outcome: one value of :meth:`results`.
        :raises EventLogAccessError: if the brokers refused it.
        :raises EventLogUnavailableError: if it failed otherwise.
        """
        if isinstance(outcome, KafkaError):
            raise self.watch.error(what, outcome)
        return outcome

    def cluster_id(self) -> str:
        """
        Ask the cluster for its id.

        :raises EventLogAccessError: if the login fails.
        :raises EventLogUnavailableError: if no broker answers.
        """
        what, timeout = "describing the cluster", self.request_timeout_s
        outcomes = self.results(what, lambda client: {what: client.describe_cluster(request_timeout=timeout)})
        return str(self.checked(what, outcomes[what]).cluster_id)

    def require_cluster(self, handle: Any, cluster_id: str, what: str) -> None:
        """
        Refuse a client that has reached another cluster: each client chooses for itself among the addresses that it is given.

        :param handle: a librdkafka client, freshly opened: the cluster id that it shows is that of its first connection.
        :param cluster_id: the cluster to be at.
        :param what: the client, for the message.
        :raises ClusterMismatchError: naming both clusters.
        :raises EventLogUnavailableError: if no broker answers.
        """
        try:
            # Without a topic this request cannot create one.
            found = handle.list_topics(timeout=self.request_timeout_s).cluster_id
        except KafkaException as error:
            raise self.watch.error(f"asking for the cluster of {what}", error.args[0]) from None
        if found != cluster_id:
            raise ClusterMismatchError(
                f"{what} has reached cluster {found!r}, and cluster {cluster_id!r} is being worked on, brokers "
                f"{self.config.bootstrap_servers}: name the brokers of one cluster only"
            )

    def describe_topics(self, names: Sequence[str], *, operations: bool = False) -> dict[str, Any]:
        """
        Describe topics in one request.

        :param names: the topics.
        :param operations: ask for the operations that the principal may use.
        :return: per topic its description, or the ``KafkaError`` where that failed.
        """
        return self.results(
            f"describing topic {names[0]!r}" if len(names) == 1 else f"describing {number_of(len(names), 'topic')}",
            lambda client: client.describe_topics(
                TopicCollection(list(names)),
                include_authorized_operations=operations,
                request_timeout=self.request_timeout_s,
            ),
        )

    def describe_configs(self, names: Sequence[str]) -> dict[str, Any]:
        """
        Describe the configurations of topics in one request.

        :param names: the topics.
        :return: per topic its entries by name, or the ``KafkaError`` where that failed.
        """
        resources = [admin_api.ConfigResource(admin_api.ResourceType.TOPIC, name) for name in names]
        outcomes = self.results(
            f"describing the configurations of {number_of(len(names), 'topic')}",
            lambda client: client.describe_configs(resources, request_timeout=self.request_timeout_s),
        )
        return {resource.name: outcome for resource, outcome in outcomes.items()}

    def metadata_topic(self, topic: str, outcome: Any) -> Any:
        """
        Return the description of the metadata topic, which must exist.

        :param topic: its name.
        :param outcome: one value of :meth:`describe_topics`.
        :return: confluent-kafka's ``TopicDescription``.
        :raises MetadataTopicNotFoundError: if it does not exist.
        :raises EventLogAccessError: if it may not be described.
        """
        if is_error(outcome, UNKNOWN_TOPIC):
            raise MetadataTopicNotFoundError(
                f"topic {topic!r} does not exist on the cluster at {self.config.bootstrap_servers}: it appears with the "
                "first tiered topic; it is never created here"
            )
        return self.checked(f"describing topic {topic!r}", outcome)

    def topic_id(self, name: str, outcome: Any) -> UUID:
        """
        Return the id of a described topic.

        :param name: the topic's name.
        :param outcome: one value of :meth:`describe_topics`.
        :raises TopicIdMissingError: if it has none.
        :raises EventLogAccessError: if it may not be described.
        """
        # str() of librdkafka's id is standard base64 with padding; its int() is a hash.
        description = self.checked(f"describing topic {name!r}", outcome)
        topic_id = UUID(bytes=base64.b64decode(str(description.topic_id) + "=="))
        if topic_id == UUID(int=0):
            raise TopicIdMissingError(
                f"describing topic {name!r}, brokers {self.config.bootstrap_servers}: the cluster gives no topic id; "
                "everything here goes by ids, and tiered storage has them on every broker"
            )
        return topic_id

    def list_offsets(
        self,
        partitions: Sequence[tuple[str, int]],
        spec: Any,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[tuple[str, int], Any]:
        """
        Ask for one offset per partition, of all partitions in one request; wait out a change of leaders.

        :param partitions: (topic, partition) pairs.
        :param spec: an ``OffsetSpec``, or one for each pair.
        :param isolation_level: READ_COMMITTED has the log end where the first open transaction begins.
        :return: per pair an answer with an ``offset``, or the ``KafkaError`` where that one failed.
        """
        of_each = spec if isinstance(spec, Mapping) else dict.fromkeys(partitions, spec)
        specs = {TopicPartition(*key): of_each[key] for key in partitions}
        deadline = time.monotonic() + self.request_timeout_s
        while True:
            outcomes = self.results(
                f"asking for offsets of {number_of(len(partitions), 'partition')}",
                lambda client: client.list_offsets(
                    specs,
                    isolation_level=isolation_level,
                    request_timeout=max(deadline - time.monotonic(), _RETRY_S),
                ),
            )
            leaderless = any(is_error(outcome, *_LEADERLESS) for outcome in outcomes.values())
            if time.monotonic() + _RETRY_S >= deadline or not leaderless:
                return {(key.topic, key.partition): outcome for key, outcome in outcomes.items()}
            time.sleep(_RETRY_S)
            # A client goes on asking the leader that it knows, with the epoch that it knows.
            self.close()

    def close(self) -> None:
        """Let the client go; the next call opens another."""
        self._client = None


def is_error(outcome: Any, *names: str) -> bool:
    """
    Say whether an outcome is one of some errors.

    :param outcome: one value of :meth:`KafkaAdmin.results`.
    :param names: of the errors, as ``KafkaError`` has them; none means any error.
    """
    return isinstance(outcome, KafkaError) and (not names or outcome.name() in names)


def chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield topics or partitions in lists that one request may name."""
    iterator = iter(items)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk
