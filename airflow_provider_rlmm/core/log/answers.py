# SPDX-License-Identifier: Apache-2.0
"""What a cluster answers about topics and their leaders, as value objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from airflow_provider_rlmm.core.log.copy_lag import AS_REMOTE, NO_LAG, CopyLag
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.segments.read_range import OffsetRange


@dataclass(frozen=True, slots=True)
class CopyConfigs:
    """
    The configs of a topic that decide whether a program other than its brokers may copy its segments (Kafka: ``TopicConfig``,
    effective values).

    :param remote_storage_enable: ``remote.storage.enable``.
    :param remote_log_copy_disable: ``remote.log.copy.disable``.
    :param cleanup_policy: the names in ``cleanup.policy``.
    :param retention_ms: ``retention.ms``, -1 for unlimited.
    :param retention_bytes: ``retention.bytes``, -1 for unlimited.
    :param diskless_enable: ``diskless.enable`` of Inkless; Kafka's own brokers do not know it.
    :param copy_lag: how long its leaders wait before they copy a closed segment, once they copy again.
    :param local_retention_ms: ``local.retention.ms``, -1 for unlimited, -2 for as long as remote segments are kept.
    :param segment_ms: ``segment.ms``, after which a segment is closed; ``None`` where it is not told.
    """

    remote_storage_enable: bool
    remote_log_copy_disable: bool
    cleanup_policy: frozenset[str]
    retention_ms: int
    retention_bytes: int
    diskless_enable: bool = False
    copy_lag: CopyLag = NO_LAG
    local_retention_ms: int = AS_REMOTE
    segment_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LeaderOffsets:
    """
    How far the leader's log reaches.

    :param log_start_offset: the first offset that the leader serves, inclusive; what remote storage serves counts.
    :param last_stable_offset: end for ``read_committed``, exclusive (Kafka: the last stable offset).
    :param high_watermark: end for ``read_uncommitted``, exclusive.
    """

    log_start_offset: int
    last_stable_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class LeaderAnswer:
    """
    What the cluster says about a user partition right now, asked in one go.

    :param topic_id_partition: the user partition with the topic id that its name has *now*.
    :param metadata_topic_id: id of the metadata topic in the same describe: it says which cluster answered.
    :param is_internal: whether Kafka calls the topic internal.
    :param configs: the topic's configs.
    :param offsets: how far the leader's log reaches, ``None`` where the partition has no leader.
    :param local_size_in_bytes: bytes of the leader's local log, all its segments; ``None`` where it cannot be told.
    :param leader: id of the broker that leads it, ``None`` where it has no leader, or it was not told.
    """

    topic_id_partition: TopicIdPartition
    metadata_topic_id: UUID
    is_internal: bool
    configs: CopyConfigs
    offsets: LeaderOffsets | None
    local_size_in_bytes: int | None = None
    leader: int | None = None


@dataclass(frozen=True, slots=True)
class NotTold:
    """That a question about one topic or user partition has no answer, while others have theirs."""

    why: str  # in words


@dataclass(frozen=True, slots=True)
class TopicLook:
    """
    What the cluster says about a topic.

    :param topic_id: its id.
    :param partitions: how many user partitions it has.
    :param configs: its settings, or why they are not told.
    """

    topic_id: UUID
    partitions: int
    configs: CopyConfigs | NotTold


@dataclass(frozen=True, slots=True)
class PartitionLook:
    """
    What the cluster says about a user partition in one look at many.

    :param topic_id_partition: the user partition with the topic id that its name has *now*.
    :param configs: the settings of its topic.
    :param log_start_offset: the first offset that its leader serves, inclusive; what remote storage serves counts.
    :param high_watermark: the end of what it serves, exclusive.
    :param leader_epoch: the epoch in which its leader leads, ``None`` where it does not say.
    :param leader: id of the broker that leads it.
    """

    topic_id_partition: TopicIdPartition
    configs: CopyConfigs
    log_start_offset: int
    high_watermark: int
    leader_epoch: int | None
    leader: int


@dataclass(frozen=True, slots=True)
class ServedRecord:
    """Where a leader has a record, and of which leader epoch."""

    offset: int  # of the record
    leader_epoch: int  # of its batch


@dataclass(frozen=True, slots=True)
class NewestRecord:
    """The record with the latest timestamp of those that a leader has on its disk."""

    offset: int  # of the record
    timestamp_ms: int  # of the record: the producer's time or the broker's, ms since the epoch


@dataclass(frozen=True, slots=True)
class LeaderRecord:
    """
    One record as the leader serves it, or as a log directory holds it: equal records are equal in all of this.

    :param offset: its offset.
    :param leader_epoch: the leader epoch of its batch.
    :param timestamp_ms: its timestamp, ms since the epoch.
    :param key: its key, ``None`` for null.
    :param value: its value, ``None`` for null.
    :param headers: its headers, in order.
    """

    offset: int
    leader_epoch: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetsByTime:
    """
    Where a living user partition begins and ends, and where it reaches a time.

    :param log_start_offset: its first offset, inclusive, be it remote or local.
    :param reached: offset of the first record with that timestamp or a later one, ``None`` where there is none.
    :param log_end_offset: its end, exclusive.
    """

    log_start_offset: int
    reached: int | None
    log_end_offset: int

    @property
    def wanted(self) -> OffsetRange:
        """The offsets of all that was written before the time."""
        end = self.log_end_offset if self.reached is None else self.reached
        return OffsetRange(self.log_start_offset, max(self.log_start_offset, end))


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """
    The topic that is written to.

    :param topic: its name.
    :param topic_id: its id: another one is another topic.
    :param begins: first offset of each partition.
    :param ends: end of each partition, exclusive.
    :param settings: Kafka's name of a setting → its value, in effect now.
    """

    topic: str
    topic_id: UUID
    begins: Mapping[int, int]
    ends: Mapping[int, int]
    settings: Mapping[str, int | bool | str]
