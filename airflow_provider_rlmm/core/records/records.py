# SPDX-License-Identifier: Apache-2.0
"""
The four kinds of records of ``__remote_log_metadata`` as immutable value objects (KIP-405).

They hold what the wire holds, no more: whether Kafka's own constructors would refuse a value is
:mod:`airflow_provider_rlmm.core.records.serde`'s to say, in both directions, and whether we may write it the write guard's.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from uuid import UUID

from airflow_provider_rlmm.core.base.quoting import name_in_text
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState

__all__ = [
    "RemoteLogSegmentId",
    "RemoteLogSegmentMetadata",
    "RemoteLogSegmentMetadataSnapshot",
    "RemoteLogSegmentMetadataUpdate",
    "RemotePartitionDeleteMetadata",
    "TopicIdPartition",
    "kafka_uuid_str",
    "parse_kafka_uuid",
]

OWN_BROKER_ID = -1
"""The ``broker_id`` of every event that this package writes: no broker has it, so our events can be told apart."""

COPIER_BROKER_ID = -2
"""
The ``broker_id`` of the copier's events, which are about living topics: marker and cleaner take them for another program's.
"""

NOT_SAID = -1
"""What a record of api version 0 says of a leader epoch or an end offset that only version 1 names."""

MAX_CUSTOM_METADATA_BYTES = 128
"""Kafka's default for the most custom metadata of a segment (``remote.log.metadata.custom.metadata.max.bytes``)."""


def kafka_uuid_str(value: UUID) -> str:
    """
    Return Kafka's text form of an id: URL-safe base64 of its 16 bytes, without padding (Kafka: ``Uuid.toString``).

    :param value: the id.
    """
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def parse_kafka_uuid(text: str) -> UUID:
    """
    Parse Kafka's text form of an id; standard base64 (as ``confluent_kafka`` prints it) is accepted too.

    :param text: 22 characters, with or without ``==`` padding.
    :raises ValueError: if the text is not the base64 of exactly 16 bytes.
    """
    stripped = text.rstrip("=").translate(str.maketrans("+/", "-_"))
    try:
        raw = base64.b64decode(stripped + "=" * (-len(stripped) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as e:
        raise ValueError(f"not a Kafka id: {text!r}") from e
    if len(raw) != 16:
        raise ValueError(f"not a Kafka id: {text!r} holds {len(raw)} bytes, not 16")
    return UUID(bytes=raw)


@dataclass(frozen=True, slots=True)
class TopicIdPartition:
    """
    A user partition of one incarnation of a topic (Kafka: ``TopicIdPartition``).

    :param topic_id: the topic's id: a re-created topic has another one.
    :param topic: the topic's name, as data only: it never decides what is deleted.
    :param partition: the user partition, 0 or more.

    As text it is Kafka's, but a name that Kafka would not allow stands in quotes.
    """

    topic_id: UUID
    topic: str
    partition: int

    def __hash__(self) -> int:
        # The fields' own hashes cost several times as much, for every event that is replayed; so does their comparison.
        return hash((self.topic_id.int, self.partition))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TopicIdPartition):
            return NotImplemented
        return (
            self.topic_id.int == other.topic_id.int and self.partition == other.partition and self.topic == other.topic
        )

    def __str__(self) -> str:
        return f"{kafka_uuid_str(self.topic_id)}:{name_in_text(self.topic)}-{self.partition}"


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentId:
    """
    The universally unique id of one copy of a log segment (Kafka: ``RemoteLogSegmentId``).

    :param topic_id_partition: the user partition that the segment belongs to.
    :param id: the id of this copy.
    """

    topic_id_partition: TopicIdPartition
    id: UUID

    def __hash__(self) -> int:
        return hash(self.id.int)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RemoteLogSegmentId):
            return NotImplemented
        return self.id.int == other.id.int and self.topic_id_partition == other.topic_id_partition

    def __str__(self) -> str:
        return f"{self.topic_id_partition}/{kafka_uuid_str(self.id)}"


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentMetadata:
    """
    A segment and its state; on the wire it opens the segment's life (Kafka: ``RemoteLogSegmentMetadata``, apiKey 0).

    :param remote_log_segment_id: id of the segment.
    :param start_offset: first offset, inclusive.
    :param end_offset: last offset, inclusive.
    :param max_timestamp_ms: largest record timestamp, ms since the epoch; -1 where there is none.
    :param broker_id: the broker that wrote the last event, -1 for this package.
    :param event_timestamp_ms: when the last event was made, ms since the epoch.
    :param segment_size_in_bytes: size of the log file, without indexes.
    :param custom_metadata: what the storage plugin keeps about the segment, ``None`` where it keeps nothing.
    :param state: the state.
    :param segment_leader_epochs: (leader epoch, its start offset within the segment), sorted by epoch.
    :param txn_idx_empty: whether the segment has no aborted transactions.
    :param broker_leader_epoch: epoch of the leader that copied it; only records of api version 1 say it (KIP-1266), others
        have :data:`NOT_SAID`.
    """

    remote_log_segment_id: RemoteLogSegmentId
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    segment_size_in_bytes: int
    custom_metadata: bytes | None
    state: RemoteLogSegmentState
    segment_leader_epochs: tuple[tuple[int, int], ...]
    txn_idx_empty: bool = False
    broker_leader_epoch: int = NOT_SAID

    def with_update(self, update: RemoteLogSegmentMetadataUpdate) -> RemoteLogSegmentMetadata:
        """
        Return this segment after ``update`` (Kafka: ``createWithUpdates``): custom metadata is replaced, not merged.

        :param update: an event of the same segment.
        :raises ValueError: if the event is of another segment.
        """
        if update.remote_log_segment_id != self.remote_log_segment_id:
            raise ValueError(f"update of {update.remote_log_segment_id} does not fit {self.remote_log_segment_id}")
        return RemoteLogSegmentMetadata(
            self.remote_log_segment_id,
            self.start_offset,
            self.end_offset,
            self.max_timestamp_ms,
            update.broker_id,
            update.event_timestamp_ms,
            self.segment_size_in_bytes,
            update.custom_metadata,
            update.state,
            self.segment_leader_epochs,
            self.txn_idx_empty,
            self.broker_leader_epoch,
        )


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentMetadataUpdate:
    """
    A step in a segment's life (Kafka: ``RemoteLogSegmentMetadataUpdate``, apiKey 1).

    :param remote_log_segment_id: id of the segment.
    :param event_timestamp_ms: when the event was made, ms since the epoch.
    :param custom_metadata: replaces the segment's custom metadata; delete events repeat it.
    :param state: the new state.
    :param broker_id: the writer, -1 for this package.
    :param end_offset: the segment's last offset, inclusive; only records of api version 1 say it (KIP-1266), others have
        :data:`NOT_SAID`.
    :param broker_leader_epoch: epoch of the leader that copied the segment, likewise.
    """

    remote_log_segment_id: RemoteLogSegmentId
    event_timestamp_ms: int
    custom_metadata: bytes | None
    state: RemoteLogSegmentState
    broker_id: int
    end_offset: int = NOT_SAID
    broker_leader_epoch: int = NOT_SAID


@dataclass(frozen=True, slots=True)
class RemotePartitionDeleteMetadata:
    """
    A step in the deletion of a user partition (Kafka: ``RemotePartitionDeleteMetadata``, apiKey 2).

    :param topic_id_partition: the user partition.
    :param state: the new state.
    :param event_timestamp_ms: when the event was made, ms since the epoch.
    :param broker_id: the writer, -1 for this package.
    """

    topic_id_partition: TopicIdPartition
    state: RemotePartitionDeleteState
    event_timestamp_ms: int
    broker_id: int


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentMetadataSnapshot:
    """
    A segment in a broker's own snapshot file (Kafka: ``RemoteLogSegmentMetadataSnapshot``, apiKey 3).

    It names no topic partition, belongs into no topic, and is **never written**: it ends a broker's consumer.

    :param segment_id: id of the segment copy; the other fields are those of :class:`RemoteLogSegmentMetadata`.
    """

    segment_id: UUID
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    segment_size_in_bytes: int
    custom_metadata: bytes | None
    state: RemoteLogSegmentState
    segment_leader_epochs: tuple[tuple[int, int], ...]
    txn_idx_empty: bool = False


RemoteLogMetadata = (
    RemoteLogSegmentMetadata
    | RemoteLogSegmentMetadataUpdate
    | RemotePartitionDeleteMetadata
    | RemoteLogSegmentMetadataSnapshot
)
"""Any record of the topic."""

SegmentEvent = RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate
"""A record about one segment of a user partition."""


def topic_id_partition_of(event: SegmentEvent | RemotePartitionDeleteMetadata) -> TopicIdPartition:
    """
    Return the user partition that an event is about; it decides the event's metadata partition.

    :param event: any event that may be written.
    """
    if isinstance(event, RemotePartitionDeleteMetadata):
        return event.topic_id_partition
    return event.remote_log_segment_id.topic_id_partition
