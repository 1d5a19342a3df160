# SPDX-License-Identifier: Apache-2.0
"""
Bytes of ``__remote_log_metadata`` to records and back, byte-identical with Kafka 4.3 (``RemoteLogMetadataSerde``).

A value is a frame version (1), an api key, an api version (0), and a body of that kind. :func:`deserialize` accepts
what Kafka's serde accepts: unknown tagged fields are skipped, superfluous varint bytes are tolerated, of repeated
leader epochs the last one counts. It refuses what Kafka refuses, the checks of the records' constructors included:
another frame or a newer api version, an unknown api key or state, truncation, bytes left over, no leader epochs, a
negative start offset, an end before the start. It refuses one thing more, a topic name that is not UTF-8
(:meth:`airflow_provider_rlmm.metadata.wire.Reader.compact_string` says why).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from uuid import UUID

from airflow_provider_rlmm.errors import MalformedMetadataError, NewerVersionError, UnknownApiKeyError
from airflow_provider_rlmm.metadata import wire
from airflow_provider_rlmm.metadata.records import (
    RemoteLogMetadata,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.metadata.wire import Reader

SEGMENT_API_KEY = 0
SEGMENT_UPDATE_API_KEY = 1
PARTITION_DELETE_API_KEY = 2
SNAPSHOT_API_KEY = 3

_FRAME_VERSION = 1
_API_VERSION = 0
_TXN_INDEX_EMPTY_TAG = 0

_AnySegment = RemoteLogSegmentMetadata | RemoteLogSegmentMetadataSnapshot


def serialize(event: RemoteLogMetadata) -> bytes:
    """
    Return the value that Kafka would write for a record.

    :param event: any record.
    :raises MalformedMetadataError: if a field does not fit its type, or :func:`deserialize` would refuse the result.
    """
    out = bytearray()
    wire.write_uvarint(out, _FRAME_VERSION)
    wire.write_uvarint(out, api_key_of(event))
    wire.write_uvarint(out, _API_VERSION)
    try:
        _write_body(out, event)
    except (ValueError, TypeError, AttributeError) as e:
        raise MalformedMetadataError(f"{event!r} cannot be written: {e}") from e
    return bytes(out)


def deserialize(data: bytes) -> RemoteLogMetadata:
    """
    Return the record that a value holds.

    :param data: the value of a record of the topic.
    :raises MalformedMetadataError: if Kafka would not accept it; as its subclasses ``UnknownApiKeyError`` and
        ``NewerVersionError`` where a newer Kafka may have written it.
    """
    reader = Reader(bytes(data))
    frame_version = _int16(reader, "frame version")
    if frame_version != _FRAME_VERSION:
        raise MalformedMetadataError(f"frame version {frame_version} is not {_FRAME_VERSION}")
    api_key = _int16(reader, "api key")
    version = _int16(reader, "api version")
    read = _READERS.get(api_key)
    if read is None:
        raise UnknownApiKeyError(f"api key {api_key} is unknown")
    if version > _API_VERSION:
        raise NewerVersionError(f"api version {version} of api key {api_key} is newer than {_API_VERSION}")
    event = read(reader)
    if reader.remaining:
        raise MalformedMetadataError(f"{reader.remaining} bytes are left over after api key {api_key}")
    _check(event)
    return event


def api_key_of(event: RemoteLogMetadata) -> int:
    """
    Return the api key of a record's kind.

    :param event: any record.
    :raises MalformedMetadataError: if it is none.
    """
    try:
        return _API_KEYS[type(event)]
    except KeyError:
        raise MalformedMetadataError(f"{type(event).__name__} is no record of __remote_log_metadata") from None


def _check(event: RemoteLogMetadata) -> None:
    """Refuse what the constructors of Kafka's records refuse; a snapshot's offsets are not checked there either."""
    if isinstance(event, RemoteLogSegmentMetadata):
        start, end = event.start_offset, event.end_offset
        if start < 0:
            raise MalformedMetadataError(f"start offset {start} of {event.remote_log_segment_id} is negative")
        if end < start:
            raise MalformedMetadataError(f"end offset {end} of {event.remote_log_segment_id} is below start {start}")
    if isinstance(event, _AnySegment) and not event.segment_leader_epochs:
        raise MalformedMetadataError("a segment without leader epochs")


def _write_body(out: bytearray, event: RemoteLogMetadata) -> None:
    _check(event)
    if isinstance(event, RemoteLogSegmentMetadata):
        _write_segment_id(out, event.remote_log_segment_id)
        _write_segment_fields(out, event)
    elif isinstance(event, RemoteLogSegmentMetadataUpdate):
        _write_segment_id(out, event.remote_log_segment_id)
        wire.write_int32(out, event.broker_id)
        wire.write_int64(out, event.event_timestamp_ms)
        wire.write_compact_nullable_bytes(out, event.custom_metadata)
        wire.write_int8(out, RemoteLogSegmentState(event.state))
        wire.write_no_tags(out)
    elif isinstance(event, RemotePartitionDeleteMetadata):
        _write_topic_id_partition(out, event.topic_id_partition)
        wire.write_int32(out, event.broker_id)
        wire.write_int64(out, event.event_timestamp_ms)
        wire.write_int8(out, RemotePartitionDeleteState(event.state))
        wire.write_no_tags(out)
    else:
        wire.write_uuid(out, event.segment_id)
        _write_segment_fields(out, event)


def _write_segment_fields(out: bytearray, segment: _AnySegment) -> None:
    """Write what the records of a segment and of a snapshot share."""
    wire.write_int64(out, segment.start_offset)
    wire.write_int64(out, segment.end_offset)
    wire.write_int32(out, segment.broker_id)
    wire.write_int64(out, segment.max_timestamp_ms)
    wire.write_int64(out, segment.event_timestamp_ms)
    epochs = [epoch for epoch, _ in segment.segment_leader_epochs]
    if any(left >= right for left, right in itertools.pairwise(epochs)):
        # Kafka keeps them in a sorted map: no other order can be read back as it was.
        raise ValueError(f"leader epochs {epochs} are not sorted, or repeat one")
    wire.write_uvarint(out, len(epochs) + 1)
    for leader_epoch, start_offset in segment.segment_leader_epochs:
        wire.write_int32(out, leader_epoch)
        wire.write_int64(out, start_offset)
        wire.write_no_tags(out)
    wire.write_int32(out, segment.segment_size_in_bytes)
    wire.write_compact_nullable_bytes(out, segment.custom_metadata)
    wire.write_int8(out, RemoteLogSegmentState(segment.state))
    if segment.txn_idx_empty:
        wire.write_uvarint(out, 1)
        wire.write_uvarint(out, _TXN_INDEX_EMPTY_TAG)
        wire.write_uvarint(out, 1)
        wire.write_int8(out, 1)
    else:
        # A tagged field with its default value is left out.
        wire.write_no_tags(out)


def _write_segment_id(out: bytearray, segment_id: RemoteLogSegmentId) -> None:
    _write_topic_id_partition(out, segment_id.topic_id_partition)
    wire.write_uuid(out, segment_id.id)
    wire.write_no_tags(out)


def _write_topic_id_partition(out: bytearray, topic_id_partition: TopicIdPartition) -> None:
    wire.write_compact_string(out, topic_id_partition.topic)
    wire.write_uuid(out, topic_id_partition.topic_id)
    wire.write_int32(out, topic_id_partition.partition)
    wire.write_no_tags(out)


def _read_segment(reader: Reader) -> RemoteLogSegmentMetadata:
    segment_id = _read_segment_id(reader)
    return RemoteLogSegmentMetadata(segment_id, *_read_segment_fields(reader))


def _read_snapshot(reader: Reader) -> RemoteLogSegmentMetadataSnapshot:
    segment_id = reader.uuid("segment id")
    return RemoteLogSegmentMetadataSnapshot(segment_id, *_read_segment_fields(reader))


_SegmentFields = tuple[
    int, int, int, int, int, int, bytes | None, RemoteLogSegmentState, tuple[tuple[int, int], ...], bool
]


def _read_segment_fields(reader: Reader) -> _SegmentFields:
    start_offset = reader.int64("start offset")
    end_offset = reader.int64("end offset")
    broker_id = reader.int32("broker id")
    max_timestamp_ms = reader.int64("max timestamp")
    event_timestamp_ms = reader.int64("event timestamp")
    epochs = _read_leader_epochs(reader)
    segment_size_in_bytes = reader.int32("segment size")
    custom_metadata = reader.compact_nullable_bytes("custom metadata")
    state = _read_segment_state(reader)
    return (
        start_offset,
        end_offset,
        max_timestamp_ms,
        broker_id,
        event_timestamp_ms,
        segment_size_in_bytes,
        custom_metadata,
        state,
        epochs,
        _read_txn_idx_empty(reader),
    )


def _read_leader_epochs(reader: Reader) -> tuple[tuple[int, int], ...]:
    count = reader.length("leader epochs")
    if not 0 <= count <= reader.remaining:
        raise MalformedMetadataError(f"leader epochs claim {count} entries, {reader.remaining} bytes are left")
    epochs: dict[int, int] = {}
    for _ in range(count):
        leader_epoch = reader.int32("leader epoch")
        epochs[leader_epoch] = reader.int64("start offset of a leader epoch")
        reader.skip_tags("tagged fields of a leader epoch")
    return tuple(sorted(epochs.items()))


def _read_txn_idx_empty(reader: Reader) -> bool:
    """Read the closing tagged fields of a segment; of the known one Kafka ignores the size and takes one byte."""
    txn_idx_empty = False
    what = "tagged fields of a segment"
    for _ in range(reader.uvarint(what)):
        tag = reader.uvarint(what)
        size = reader.uvarint(what)
        if tag == _TXN_INDEX_EMPTY_TAG:
            txn_idx_empty = reader.int8(what) != 0
        else:
            reader.array(size, what)
    return txn_idx_empty


def _read_update(reader: Reader) -> RemoteLogSegmentMetadataUpdate:
    segment_id = _read_segment_id(reader)
    broker_id = reader.int32("broker id")
    event_timestamp_ms = reader.int64("event timestamp")
    custom_metadata = reader.compact_nullable_bytes("custom metadata")
    state = _read_segment_state(reader)
    reader.skip_tags("tagged fields of a segment update")
    return RemoteLogSegmentMetadataUpdate(segment_id, event_timestamp_ms, custom_metadata, state, broker_id)


def _read_partition_delete(reader: Reader) -> RemotePartitionDeleteMetadata:
    topic_id_partition = _read_topic_id_partition(reader)
    broker_id = reader.int32("broker id")
    event_timestamp_ms = reader.int64("event timestamp")
    state_id = reader.int8("state")
    reader.skip_tags("tagged fields of a partition delete")
    try:
        state = RemotePartitionDeleteState(state_id)
    except ValueError as e:
        raise MalformedMetadataError(f"partition delete state {state_id} is unknown") from e
    return RemotePartitionDeleteMetadata(topic_id_partition, state, event_timestamp_ms, broker_id)


def _read_segment_state(reader: Reader) -> RemoteLogSegmentState:
    state_id = reader.int8("state")
    try:
        return RemoteLogSegmentState(state_id)
    except ValueError as e:
        raise MalformedMetadataError(f"segment state {state_id} is unknown") from e


def _read_segment_id(reader: Reader) -> RemoteLogSegmentId:
    topic_id_partition = _read_topic_id_partition(reader)
    segment_id: UUID = reader.uuid("segment id")
    reader.skip_tags("tagged fields of a segment id")
    return RemoteLogSegmentId(topic_id_partition, segment_id)


def _read_topic_id_partition(reader: Reader) -> TopicIdPartition:
    topic = reader.compact_string("topic")
    topic_id = reader.uuid("topic id")
    partition = reader.int32("partition")
    reader.skip_tags("tagged fields of a topic id partition")
    return TopicIdPartition(topic_id, topic, partition)


def _int16(reader: Reader, what: str) -> int:
    """Return a varint of the header as the 16-bit number that Kafka's ``AbstractApiMessageSerde`` makes of it."""
    value = reader.uvarint(what)
    if value >= 1 << 15:
        raise MalformedMetadataError(f"{what} {value} is too large")
    value &= (1 << 16) - 1
    return value - (1 << 16) if value >= 1 << 15 else value


_READERS: dict[int, Callable[[Reader], RemoteLogMetadata]] = {
    SEGMENT_API_KEY: _read_segment,
    SEGMENT_UPDATE_API_KEY: _read_update,
    PARTITION_DELETE_API_KEY: _read_partition_delete,
    SNAPSHOT_API_KEY: _read_snapshot,
}
_API_KEYS: dict[type, int] = {
    RemoteLogSegmentMetadata: SEGMENT_API_KEY,
    RemoteLogSegmentMetadataUpdate: SEGMENT_UPDATE_API_KEY,
    RemotePartitionDeleteMetadata: PARTITION_DELETE_API_KEY,
    RemoteLogSegmentMetadataSnapshot: SNAPSHOT_API_KEY,
}
