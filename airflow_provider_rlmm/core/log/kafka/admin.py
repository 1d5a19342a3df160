# SPDX-License-Identifier: Apache-2.0
"""The cluster's topics, asked through Kafka's Admin API in ways that can never create one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from confluent_kafka import KafkaException

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import ClusterMismatchError, EventLogAccessError, EventLogUnavailableError
from airflow_provider_rlmm.core.log.answers import OffsetsByTime
from airflow_provider_rlmm.core.log.copy_lag import LAG_BYTES, LAG_MS, LOCAL_RETENTION_MS, CopyLag, copy_lag_of
from airflow_provider_rlmm.core.log.kafka.client import (
    METADATA_TOPIC,
    REQUEST_TIMEOUT_S,
    TOPIC_DENIED,
    UNKNOWN_TOPIC,
    KafkaAdmin,
    admin_api,
    chunks,
    is_error,
)
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.metadata_settings import TopicSettings
from airflow_provider_rlmm.core.log.protocol import DescribedTopics
from airflow_provider_rlmm.core.log.tiered_topics import TIERED
from airflow_provider_rlmm.core.records.topic_answers import NoTopic, TopicAnswer

_INT_SETTINGS = (
    "max.message.bytes", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms", "min.insync.replicas",
    "retention.bytes", "retention.ms", "segment.ms", LOCAL_RETENTION_MS, LAG_MS, LAG_BYTES,
)  # fmt: skip
_TEXT_SETTINGS = ("cleanup.policy", "message.timestamp.type")
_DISKLESS = "diskless.enable"
_BOOL_SETTINGS = (_DISKLESS, TIERED, "remote.log.copy.disable")


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """Where one metadata partition is kept."""

    partition: int  # its number
    has_leader: bool  # whether a broker leads it
    in_sync: int  # replicas that have everything
    replicas: int  # replicas that it should have


@dataclass(frozen=True, slots=True)
class MetadataTopicDescription:
    """
    The metadata topic as the cluster describes it.

    :param topic_id: its id.
    :param partition_count: number of metadata partitions.
    :param settings: its settings.
    :param authorized_operations: names of the operations that this principal may use on it, such as ``READ`` and
        ``WRITE``; ``None`` where the brokers do not say.
    :param replicas: one entry per metadata partition, in order.
    """

    topic_id: UUID
    partition_count: int
    settings: TopicSettings
    authorized_operations: frozenset[str] | None
    replicas: tuple[PartitionReplicas, ...]


@dataclass
class KafkaClusterTopics:
    """A :class:`~airflow_provider_rlmm.core.log.protocol.ClusterTopics` on Kafka's Admin API."""

    config: KafkaClientConfig  # the client's properties
    metadata_topic: str = METADATA_TOPIC  # asked for in every describe: its id says which cluster has answered
    request_timeout_s: float = field(default=REQUEST_TIMEOUT_S, kw_only=True)  # seconds for one request

    def __post_init__(self) -> None:
        self._admin = KafkaAdmin(self.config, self.request_timeout_s)

    def cluster_id(self) -> str:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.ClusterTopics`."""
        return self._admin.cluster_id()

    def topic_names(self) -> frozenset[str]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.ClusterTopics`. Internal topics are among them."""
        # list_topics blocks without looking at the error callback; this call finds wrong credentials at once.
        self.cluster_id()
        try:
            # Without a topic argument this request cannot create one.
            metadata = self._admin.client.list_topics(timeout=self._admin.request_timeout_s)
        except KafkaException as error:
            raise self._admin.watch.error("listing topics", error.args[0]) from None
        names = frozenset(metadata.topics)
        if self.metadata_topic not in names:
            raise EventLogAccessError(
                f"the listing of {number_of(len(names), 'topic')}, brokers {self._admin.config.bootstrap_servers}, lacks "
                f"{self.metadata_topic!r}: the principal needs DESCRIBE on every topic"
            )
        return names

    def describe_topics(self, names: Collection[str]) -> DescribedTopics:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.ClusterTopics`."""
        if "" in names:
            raise EventLogAccessError("a topic without a name cannot be described: no topic can have this name")
        answers: dict[str, TopicAnswer] = {}
        witnesses: set[UUID] = set()
        for chunk in list(chunks(sorted({*names} - {self.metadata_topic}))) or [[]]:
            described = self._admin.describe_topics([self.metadata_topic, *chunk])
            metadata_topic = self._admin.metadata_topic(self.metadata_topic, described.pop(self.metadata_topic))
            witnesses.add(self._admin.topic_id(self.metadata_topic, metadata_topic))
            answers.update((name, self._answer(name, outcome)) for name, outcome in described.items())
        if len(witnesses) > 1:
            raise ClusterMismatchError(
                f"brokers {self._admin.config.bootstrap_servers}: topic {self.metadata_topic!r} has "
                f"{number_of(len(witnesses), 'id')} in the answers to one look: these brokers are of different "
                "clusters, or the topic was replaced; name the brokers of one cluster only, then run again"
            )
        (witness,) = witnesses
        if self.metadata_topic in names:
            answers[self.metadata_topic] = witness
        return DescribedTopics(witness, answers)

    def list_topics(self) -> Mapping[str, UUID]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.ClusterTopics`."""
        topics: dict[str, UUID] = {}
        for name, answer in self.describe_topics(self.topic_names()).answers.items():
            if answer is NoTopic.DENIED:
                raise EventLogAccessError(
                    f"topic {name!r}, brokers {self._admin.config.bootstrap_servers}, was listed and may not be described: "
                    "the principal needs DESCRIBE on every topic"
                )
            # Deleted between the two requests: absent is what it is.
            if isinstance(answer, UUID):
                topics[name] = answer
        return topics

    def _answer(self, name: str, outcome: Any) -> TopicAnswer:
        if is_error(outcome, UNKNOWN_TOPIC):
            return NoTopic.UNKNOWN
        if is_error(outcome, TOPIC_DENIED):
            return NoTopic.DENIED
        if is_error(outcome, "TOPIC_EXCEPTION"):
            raise EventLogAccessError(f"topic {name!r} cannot be described: no topic can have this name")
        return self._admin.topic_id(name, outcome)

    def topic_settings(self, names: Iterable[str]) -> dict[str, TopicSettings]:
        """
        Return the settings that decide about a topic's remote log, in effect now.

        :param names: topics; those that do not exist are left out.
        :raises EventLogAccessError: if a topic's configuration may not be described.
        :raises EventLogUnavailableError: if the answer is partial or late.
        """
        settings: dict[str, TopicSettings] = {}
        for chunk in chunks(names):
            for name, outcome in self._admin.describe_configs(chunk).items():
                if not is_error(outcome, UNKNOWN_TOPIC):
                    what = f"describing the configuration of topic {name!r}"
                    settings[name] = settings_of(self._admin.checked(what, outcome))
        return settings

    def diskless_topics(self, names: Collection[str]) -> Mapping[str, str]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.ClusterTopics`."""
        told, denied = self._configurations(names)
        found = {
            name: f"{_DISKLESS} is {values[_DISKLESS] or 'withheld'}"
            for name, values in told.items()
            if values.get(_DISKLESS, "false") != "false"
        }
        # Brokers list a setting of every topic that they know at all: Kafka's own do not know this one.
        if denied and self._may_know(_DISKLESS):
            why = "DESCRIBE_CONFIGS is missing on it, and the brokers of this cluster may know diskless.enable"
            found.update(dict.fromkeys(denied, why))
        return found

    def copy_lags(self, names: Collection[str]) -> Mapping[str, CopyLag]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.ClusterTopics`."""
        told, denied = self._configurations(names)
        lags = {name: copy_lag_of(values) for name, values in told.items() if values.get(TIERED, "false") != "false"}
        found = {name: lag for name, lag in lags.items() if not lag.copies_at_once}
        # Brokers up to Kafka 4.3 do not know these settings, of any topic.
        if denied and self._may_know(LAG_MS):
            found.update(dict.fromkeys(denied, CopyLag(why_unknown="DESCRIBE_CONFIGS is missing on it")))
        return found

    def _configurations(self, names: Collection[str]) -> tuple[dict[str, dict[str, str | None]], list[str]]:
        """Return topic → setting → value, as brokers list them, and the topics whose configuration may not be described."""
        told: dict[str, dict[str, str | None]] = {}
        denied: list[str] = []
        for chunk in chunks(sorted(names)):
            for name, outcome in self._admin.describe_configs(chunk).items():
                if is_error(outcome, TOPIC_DENIED):
                    denied.append(name)
                elif not is_error(outcome, UNKNOWN_TOPIC):
                    entries = self._admin.checked(f"describing the configuration of topic {name!r}", outcome)
                    told[name] = {setting: entry.value for setting, entry in entries.items()}
        return told, denied

    def _may_know(self, setting: str) -> bool:
        """Tell whether brokers know a setting of topics, or may know it."""
        outcome = self._admin.describe_configs([self.metadata_topic])[self.metadata_topic]
        return not isinstance(outcome, Mapping) or setting in outcome

    def partition_counts(self, names: Iterable[str]) -> dict[str, int]:
        """
        Return the number of partitions of topics.

        :param names: topics; those that do not exist are left out.
        :raises EventLogAccessError: if a topic may not be described.
        :raises EventLogUnavailableError: if the answer is partial or late.
        """
        counts: dict[str, int] = {}
        for chunk in chunks(names):
            for name, outcome in self._admin.describe_topics(chunk).items():
                if not is_error(outcome, UNKNOWN_TOPIC):
                    counts[name] = len(self._admin.checked(f"describing topic {name!r}", outcome).partitions)
        return counts

    def log_start_offsets(self, partition_counts: Mapping[str, int]) -> dict[tuple[str, int], int]:
        """
        Return log start offsets; on a tiered topic they include the remote log.

        :param partition_counts: topic → number of its partitions.
        :return: (topic, partition) → offset; partitions that do not exist are left out.
        :raises EventLogAccessError: if a topic may not be described.
        :raises EventLogUnavailableError: if the answer is partial or late.
        """
        # Asked for the offsets of a partition that does not exist, librdkafka answers as for one without a leader.
        existing = self.partition_counts(partition_counts)
        partitions = [(topic, p) for topic, n in existing.items() for p in range(min(n, partition_counts[topic]))]
        return self._offsets(partitions, admin_api.OffsetSpec.earliest(), "log start offset")

    def offsets_by_time(self, topic: str, timestamp_ms: int) -> dict[int, OffsetsByTime]:
        """
        Return where the partitions of a topic begin and end, and where they reach a time.

        :param topic: its name.
        :param timestamp_ms: ms since the epoch.
        :return: partition → offsets; none where the topic does not exist.
        :raises EventLogAccessError: if the topic may not be described.
        :raises EventLogUnavailableError: if the answer is partial or late.
        """
        partitions = [(topic, p) for p in range(self.partition_counts([topic]).get(topic, 0))]
        # The time first: what is written meanwhile is behind it.
        reached = self._offsets(partitions, admin_api.OffsetSpec.for_timestamp(timestamp_ms), "offset by time")
        starts = self._offsets(partitions, admin_api.OffsetSpec.earliest(), "log start offset")
        ends = self._offsets(partitions, admin_api.OffsetSpec.latest(), "log end offset")
        told = reached.keys() & starts.keys() & ends.keys()
        if silent := [partition for _, partition in partitions if (topic, partition) not in told]:
            raise EventLogUnavailableError(
                f"brokers do not say where partitions {silent} of topic {topic!r} begin and end"
            )
        return {
            key[1]: OffsetsByTime(starts[key], None if reached[key] < 0 else reached[key], ends[key])
            for key in partitions
        }

    def _offsets(self, partitions: Sequence[tuple[str, int]], spec: Any, what: str) -> dict[tuple[str, int], int]:
        offsets: dict[tuple[str, int], int] = {}
        for chunk in chunks(partitions):
            for (topic, partition), outcome in self._admin.list_offsets(chunk, spec).items():
                if not is_error(outcome, UNKNOWN_TOPIC):
                    asked = f"asking for the {what} of {topic}-{partition}"
                    offsets[topic, partition] = self._admin.checked(asked, outcome).offset
        return offsets

    def describe_metadata_topic(self, topic: str = METADATA_TOPIC) -> MetadataTopicDescription:
        """
        Describe the metadata topic: what a connection test wants to know.

        :raises MetadataTopicNotFoundError: if it does not exist.
        :raises TopicIdMissingError: if it has no id.
        :raises EventLogAccessError: if it may not be described.
        :raises EventLogUnavailableError: if the brokers do not answer.
        """
        outcome = self._admin.describe_topics([topic], operations=True)[topic]
        description = self._admin.metadata_topic(topic, outcome)
        operations = description.authorized_operations
        return MetadataTopicDescription(
            topic_id=self._admin.topic_id(topic, description),
            partition_count=len(description.partitions),
            settings=self.topic_settings([topic]).get(topic, {}),
            authorized_operations=None if operations is None else frozenset(o.name for o in operations),
            replicas=tuple(
                PartitionReplicas(p.id, p.leader is not None, len(p.isr), len(p.replicas))
                for p in description.partitions
            ),
        )

    def broker_setting(self, name: str) -> dict[int, str | None]:
        """
        Return a setting of every broker that tells it; it takes DESCRIBE_CONFIGS on the cluster.

        :param name: Kafka's name of the setting.
        :return: broker → value, ``None`` where it has none or hides it; a broker that refuses or does not answer is left out.
        :raises EventLogAccessError: if the login fails.
        :raises EventLogUnavailableError: if no broker answers.
        """
        told = self._broker_configs()
        return {broker: e[name].value or None for broker, e in told.items() if e is not None and name in e}

    def broker_setting_names(self) -> dict[int, frozenset[str] | None]:
        """
        Return the names of the settings that each broker lists: by them its version is told.

        :return: broker → names, ``None`` where it refuses or does not answer; a broker that is down is not among them.
        :raises EventLogAccessError: if the login fails.
        :raises EventLogUnavailableError: if no broker answers.
        """
        told = self._broker_configs()
        return {broker: None if entries is None else frozenset(entries) for broker, entries in told.items()}

    def _broker_configs(self) -> dict[int, Mapping[str, Any] | None]:
        """Return broker → its entries by name, ``None`` where it refuses or does not answer."""
        api, timeout = admin_api, self._admin.request_timeout_s
        what = "describing the cluster"
        described = self._admin.results(what, lambda client: {what: client.describe_cluster(request_timeout=timeout)})
        found: dict[int, Mapping[str, Any] | None] = {}
        for node in self._admin.checked(what, described[what]).nodes:
            # Each broker answers for itself only, so one request can name one of them.
            resources = [api.ConfigResource(api.ResourceType.BROKER, str(node.id))]
            found[node.id] = None
            with suppress(EventLogUnavailableError):
                (outcome,) = self._admin.results(
                    f"describing the configuration of broker {node.id}",
                    partial(api.AdminClient.describe_configs, resources=resources, request_timeout=timeout),
                ).values()
                if isinstance(outcome, Mapping):
                    found[node.id] = outcome
        return found

    def close(self) -> None:
        """Let the client go."""
        self._admin.close()


def settings_of(entries: Mapping[str, Any]) -> TopicSettings:
    """
    Return a topic's settings; what a broker of another version does not know is left out.

    :param entries: name → confluent-kafka's entry, as :meth:`KafkaAdmin.describe_configs` returns them.
    """
    values = {name: entry.value for name, entry in entries.items()}
    found: dict[str, int | bool | str] = {n: int(values[n]) for n in _INT_SETTINGS if n in values}
    found.update({n: values[n] == "true" for n in _BOOL_SETTINGS if n in values})
    found.update({n: values[n] for n in _TEXT_SETTINGS if n in values})
    return found
