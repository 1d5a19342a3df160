# SPDX-License-Identifier: Apache-2.0
"""The seam to ``__remote_log_metadata``: what a log of metadata events can do, wherever it is kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from airflow_provider_rlmm.core.log.copy_lag import CopyLag
from airflow_provider_rlmm.core.records.era import LogEra
from airflow_provider_rlmm.core.records.lost_records import LostRecords
from airflow_provider_rlmm.core.records.topic_answers import TopicAnswer

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Acked",
    "ClusterTopics",
    "EventStream",
    "Failed",
    "MetadataEventLog",
    "MetadataLogReader",
    "MetadataLogWriter",
    "OffsetStore",
    "SubscriptionHandle",
    "Unknown",
]


@dataclass(frozen=True, slots=True)
class Acked:
    """
    The record is durable: all in-sync replicas have it.

    :param offset: its offset in the metadata partition.
    """

    offset: int


@dataclass(frozen=True, slots=True)
class Failed:
    """
    The record was certainly not written.

    :param reason: why, in words.
    :param retriable: whether trying again may help.
    """

    reason: str
    retriable: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """
    The record may or may not have been written; only reading back tells.

    :param reason: why, in words.
    """

    reason: str


PublishOutcome = Acked | Failed | Unknown


class MetadataTopic(Protocol):
    """Which topic a log is."""

    @property
    def partition_count(self) -> int:
        """Number of metadata partitions; the existing topic decides it."""

    @property
    def topic_id(self) -> UUID:
        """Id of the topic that is read and written: two clusters share names and addresses, never this."""

    def cleanup_policy(self) -> frozenset[str]:
        """
        Return the names in the topic's ``cleanup.policy`` as of now: a log that is compacted loses what it has said.

        :raises EventLogAccessError: if the topic's configuration may not be described.
        :raises EventLogUnavailableError: if the brokers do not answer.
        """


class MetadataLogReader(MetadataTopic, Protocol):
    """
    A partitioned, ordered, append-only log of metadata records (Kafka: the topic ``__remote_log_metadata``), to be read.

    Hooks hand out these: what reads the log cannot write to it.
    """

    def read(self, metadata_partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """
        Read a range of offsets, in order. Offsets may be missing from it: not every offset holds a record.

        :param metadata_partition: which partition.
        :param start: first offset, inclusive.
        :param end: last offset, exclusive.
        :return: batches with the columns ``offset`` int64, ``timestamp_ms`` int64, ``key`` binary, ``value`` binary.
        :raises MetadataPartitionOutOfRangeError: if there is no such partition.
        :raises OffsetOutOfRangeError: if the log no longer has the whole range: ``start`` lies below the beginning, or
            ``end`` above the high watermark. A caller that was told of the range has to do with a log that lost records.
        :raises EventLogUnavailableError: if the range could not be read whole; what was yielded before is valid.
        """

    def read_many(self, ranges: Mapping[int, tuple[int, int]]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """
        Read ranges of several metadata partitions at once, which costs little more than one of them.

        :param ranges: metadata partition → first offset, inclusive, and last one, exclusive.
        :return: (metadata partition, batch), in the order of the offsets within each partition; batches as of :meth:`read`.
        :raises MetadataPartitionOutOfRangeError: if there is no such partition.
        :raises OffsetOutOfRangeError: as :meth:`read`, before anything is yielded.
        :raises EventLogUnavailableError: if a range could not be read whole; what was yielded before is valid.
        """

    def subscribe(self, assignment: Mapping[int, int]) -> tuple[EventStream, SubscriptionHandle]:
        """
        Follow metadata partitions from given offsets on, without end.

        :param assignment: metadata partition → offset to start at, inclusive; may be empty.
        :return: the stream, and the handle that changes what it follows.
        :raises MetadataPartitionOutOfRangeError: if there is no such partition.
        """

    @property
    def losses(self) -> Mapping[int, LostRecords]:
        """
        The metadata partitions that do not hold what earlier runs have read of them, as far as that is known.

        Nothing may be concluded there from what the log does not name; where a loss is not confirmed nothing is done at all.
        """

    @property
    def era(self) -> LogEra:
        """
        The era of the log, as its configuration shows it, and where earlier runs are remembered these and the keys that were
        read. Where the configuration may not be described it is the plain one, and says that this is not known.

        :raises EventLogUnavailableError: if the brokers do not answer.
        """

    @property
    def explained_gaps(self) -> Mapping[int, Sequence[tuple[int, int]]]:
        """Offsets that hold no record and of which a person has said why: first, inclusive, and last, exclusive."""

    def beginning_offsets(self) -> Mapping[int, int]:
        """Return the first offset that is still there, per metadata partition."""

    def high_water_marks(self) -> Mapping[int, int]:
        """Return the offset after the last durable record, per metadata partition."""


class MetadataLogWriter(MetadataTopic, Protocol):
    """
    The same log, to be written to.

    Only :class:`~airflow_provider_rlmm.core.log.write_guard.GuardedPublisher` holds one.
    """

    def publish(self, records: Sequence[tuple[int, bytes]]) -> list[PublishOutcome]:
        """
        Append a batch, keeping the order within each metadata partition, and wait once for all of it.

        :param records: (metadata partition, value); keys are always null.
        :return: one outcome per record, in the same order.
        :raises MetadataPartitionOutOfRangeError: before anything is written.
        """


class MetadataEventLog(MetadataLogReader, MetadataLogWriter, Protocol):
    """Reader and writer in one: what keeps the log, a fake for instance, is both."""


class EventStream(Protocol):
    """
    What is appended to the assigned metadata partitions, in order and once.

    Not thread-safe: the thread that polls also uses the handle, and closes.
    """

    def poll(self, timeout_s: float) -> list[pa.RecordBatch]:
        """
        Return what has arrived, and wait for the first of it if nothing has.

        An error loses nothing: what had arrived with it was returned before, or is by the next call.

        :param timeout_s: seconds to wait at most, for as long as the brokers answer; an in-process log never waits.
        :return: batches of one metadata partition each, not empty: the columns ``metadata_partition`` int32 and those of
            :meth:`MetadataLogReader.read`.
        :raises OffsetOutOfRangeError: if a partition's next offset is not in the log. The partition is no longer
            assigned then, the others are.
        :raises EventLogUnavailableError: if the brokers do not answer; polling on is what retries.
        :raises EventLogAccessError: if authentication or authorisation has failed.
        :raises MetadataTopicNotFoundError: if the topic has disappeared.
        """

    def close(self) -> None:
        """Stop; nothing may be called afterwards but this."""


class SubscriptionHandle(Protocol):
    """What an :class:`EventStream` follows; changes of one partition leave the others undisturbed."""

    def add(self, metadata_partition: int, start: int) -> None:
        """
        Follow one more partition.

        :param metadata_partition: which; must not be assigned.
        :param start: first offset, inclusive.
        :raises MetadataPartitionOutOfRangeError: if there is no such partition.
        :raises ValueError: if it is assigned already.
        """

    def remove(self, metadata_partition: int) -> None:
        """
        Follow a partition no longer; nothing of it is returned afterwards.

        :param metadata_partition: which; no effect where it is not assigned.
        """

    def assigned(self) -> Mapping[int, int]:
        """Return metadata partition → position: everything below it was returned; offsets without a record count."""

    def end_offsets(self) -> Mapping[int, int]:
        """Return metadata partition → end of what is known to exist, as last heard: no call is made for it."""


class OffsetStore(Protocol):
    """Where the cleaner remembers which markers are settled. Losing it costs a replay and nothing else."""

    def committed(self) -> Mapping[int, int]:
        """Return the committed offset per metadata partition, absent where there is none."""

    def commit(self, offsets: Mapping[int, int]) -> None:
        """
        Remember offsets.

        :param offsets: metadata partition → first offset that holds a marker not yet settled.
        """


@dataclass(frozen=True, slots=True)
class DescribedTopics:
    """What one describe answered; a large one is several requests, each of which held the metadata topic."""

    metadata_topic_id: UUID  # id of the metadata topic in every one of these requests: it says which cluster answered
    answers: Mapping[str, TopicAnswer]  # per name the topic's id, or why there is none


@dataclass(frozen=True, slots=True)
class ProvenLook:
    """Which topic ids a look at the cluster found absent, and by which cluster that was said."""

    metadata_topic_id: UUID  # id of the metadata topic in the same answers
    absent: frozenset[UUID]  # topic ids that were found absent; an id that is not in here counts as living


class ClusterTopics(Protocol):
    """What the cluster says about its topics, asked in ways that can never create one."""

    def cluster_id(self) -> str:
        """Return the id of the cluster."""

    def topic_names(self) -> frozenset[str]:
        """
        Return the names of all topics that may be described, the metadata topic among them.

        A listing leaves out what a principal may not describe, so it only supplies names and proves nothing.

        :raises EventLogAccessError: if not even the metadata topic is in it.
        :raises EventLogUnavailableError: if the answer is partial or late.
        """

    def describe_topics(self, names: Collection[str]) -> DescribedTopics:
        """
        Ask for topics by name, and for the metadata topic in the same requests.

        :param names: names that Kafka allows.
        :raises MetadataTopicNotFoundError: if the metadata topic is unknown where the names were asked.
        :raises ClusterMismatchError: if two of the requests reached different clusters.
        :raises EventLogAccessError: if the metadata topic may not be described.
        :raises EventLogUnavailableError: if an answer is partial or late.
        """

    def diskless_topics(self, names: Collection[str]) -> Mapping[str, str]:
        """
        Return which topics have ``diskless.enable`` (Inkless): where their logs begin ListOffsets does not say.

        Where a topic's configuration may not be described, it is one unless the brokers do not know the setting.

        :param names: topics; those that do not exist are left out.
        :return: name → what shows it, in words.
        :raises EventLogAccessError: if the login fails.
        :raises EventLogUnavailableError: if an answer is partial or late.
        """

    def topic_settings(self, names: Iterable[str]) -> Mapping[str, Mapping[str, int | bool | str]]:
        """
        Return topic → Kafka's name of a setting → its effective value.

        :param names: the topics.
        :raises EventLogAccessError: if the settings of one may not be described.
        :raises EventLogUnavailableError: if the cluster does not answer.
        """

    def copy_lags(self, names: Collection[str]) -> Mapping[str, CopyLag]:
        """
        Return which tiered topics are not surely copied as soon as a segment is closed.

        Where a topic's configuration may not be described, its lag is unknown unless the brokers do not know the settings.

        :param names: topics; those that do not exist are left out.
        :return: name → its copy lag; topics without one are left out.
        :raises EventLogAccessError: if the login fails.
        :raises EventLogUnavailableError: if an answer is partial or late.
        """

    def list_topics(self) -> Mapping[str, UUID]:
        """
        Return every topic that may be described, name → topic id.

        :raises EventLogAccessError: if a listed topic may not be described.
        :raises EventLogUnavailableError: if the answer is partial or late.
        """
