# SPDX-License-Identifier: Apache-2.0
"""The seam to ``__remote_log_metadata``: what a log of metadata events can do, whoever keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

if TYPE_CHECKING:
    import pyarrow as pa


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


class MetadataEventLog(Protocol):
    """
    A partitioned, ordered, append-only log of metadata records (Kafka: the topic ``__remote_log_metadata``).

    Nothing publishes through this protocol directly: :class:`~airflow_provider_rlmm.manager.write_guard.GuardedPublisher`
    is the only way to write.
    """

    @property
    def partition_count(self) -> int:
        """Number of metadata partitions; the existing topic decides it."""
        ...

    def publish(self, records: Sequence[tuple[int, bytes]]) -> list[PublishOutcome]:
        """
        Append a batch, keeping the order within each metadata partition, and wait once for all of it.

        :param records: (metadata partition, value); keys are always null.
        :return: one outcome per record, in the same order.
        :raises MetadataPartitionOutOfRangeError: before anything is written.
        """
        ...

    def read(self, metadata_partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """
        Read a range of offsets, in order. Offsets may be missing from it: not every offset holds a record.

        :param metadata_partition: which partition.
        :param start: first offset, inclusive; offsets below the beginning are skipped.
        :param end: last offset, exclusive; must not exceed the high watermark.
        :return: batches with the columns ``offset`` int64, ``timestamp_ms`` int64, ``key`` binary, ``value`` binary.
        :raises MetadataPartitionOutOfRangeError: if there is no such partition.
        :raises ValueError: if ``end`` is above the high watermark.
        :raises EventLogUnavailableError: if the range could not be read whole; what was yielded before is valid.
        """
        ...

    def subscribe(self, assignment: Mapping[int, int]) -> tuple[EventStream, SubscriptionHandle]:
        """
        Follow metadata partitions from given offsets on, without end.

        :param assignment: metadata partition → offset to start at, inclusive; may be empty.
        :return: the stream, and the handle that changes what it follows.
        :raises MetadataPartitionOutOfRangeError: if there is no such partition.
        """
        ...

    def beginning_offsets(self) -> Mapping[int, int]:
        """Return the first offset that is still there, per metadata partition."""
        ...

    def high_water_marks(self) -> Mapping[int, int]:
        """Return the offset after the last durable record, per metadata partition."""
        ...


class EventStream(Protocol):
    """
    What is appended to the assigned metadata partitions, in order and once.

    Not thread-safe: whoever polls also uses the handle, and closes.
    """

    def poll(self, timeout_s: float) -> list[pa.RecordBatch]:
        """
        Return what has arrived, and wait for the first of it if nothing has.

        An error loses nothing: what had arrived with it was returned before, or is by the next call.

        :param timeout_s: seconds to wait at most, for as long as the brokers answer; an in-process log never waits.
        :return: batches of one metadata partition each, not empty: the columns ``metadata_partition`` int32 and those of
            :meth:`MetadataEventLog.read`.
        :raises OffsetOutOfRangeError: if a partition's next offset is not in the log. The partition is no longer
            assigned then, the others are.
        :raises EventLogUnavailableError: if the brokers do not answer; polling on is what retries.
        :raises EventLogAccessError: if authentication or authorisation has failed.
        :raises MetadataTopicNotFoundError: if the topic has disappeared.
        """
        ...

    def close(self) -> None:
        """Stop; nothing may be called afterwards but this."""
        ...


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
        ...

    def remove(self, metadata_partition: int) -> None:
        """
        Follow a partition no longer; nothing of it is returned afterwards.

        :param metadata_partition: which; no effect where it is not assigned.
        """
        ...

    def assigned(self) -> Mapping[int, int]:
        """Return metadata partition → position: everything below it was returned; offsets without a record count."""
        ...

    def end_offsets(self) -> Mapping[int, int]:
        """Return metadata partition → end of what is known to exist, as last heard: no call is made for it."""
        ...


class OffsetStore(Protocol):
    """Where the cleaner remembers which markers are settled. Losing it costs a replay and nothing else."""

    def committed(self) -> Mapping[int, int]:
        """Return the committed offset per metadata partition, absent where there is none."""
        ...

    def commit(self, offsets: Mapping[int, int]) -> None:
        """
        Remember offsets.

        :param offsets: metadata partition → first offset that holds a marker not yet settled.
        """
        ...


class ClusterTopics(Protocol):
    """What the cluster says about its topics, asked in ways that can never create one."""

    def cluster_id(self) -> str:
        """Return the id of the cluster."""
        ...

    def list_topics(self) -> Mapping[str, UUID]:
        """
        Return every topic, name → topic id.

        :raises EventLogAccessError: if any topic may not be described: a topic that one may not see must never look
            deleted.
        :raises EventLogUnavailableError: if the answer is partial or late.
        """
        ...

    def describe_topic(self, name: str) -> UUID | None:
        """
        Ask for one topic by name.

        :param name: the topic's name.
        :return: its topic id, ``None`` if the cluster answers UNKNOWN_TOPIC_OR_PARTITION.
        :raises EventLogAccessError: if the topic may not be described.
        """
        ...
