# SPDX-License-Identifier: Apache-2.0
"""
Bytes of ``__remote_log_metadata`` to records and back, byte-identical with Kafka 4.3 (``RemoteLogMetadataSerde``).

A value is a frame version (1), an api key, an api version (0), and a body of that kind. :func:`deserialize` accepts
what Kafka's serde accepts: unknown tagged fields are skipped, superfluous varint bytes are tolerated, of repeated
leader epochs the last one counts. It refuses what Kafka refuses, the checks of the records' constructors included:
another frame or a newer api version, an unknown api key or state, truncation, bytes left over, no leader epochs, a
negative start offset, an end before the start. It refuses one thing more, a topic name that is not UTF-8
(:meth:`airflow_provider_rlmm.core.records.wire.Reader.compact_string` says why).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from airflow_provider_rlmm.core.base.errors import MalformedMetadataError, NewerVersionError, UnknownApiKeyError
from airflow_provider_rlmm.core.records import wire
from airflow_provider_rlmm.core.records.records import (
    RemoteLogMetadata,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.core.records.wire import Reader

__all__ = ["deserialize", "serialize"]

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
    api_key = api_key_of(event)
    wire.write_uvarint(out, api_key)
    wire.write_uvarint(out, _API_VERSION)
    try:
        _check(event)
        _BODIES[api_key].write(out, event)
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
    return read_value(Reader(bytes(data)))


def read_value(reader: Reader) -> RemoteLogMetadata:
    """
    Return the record that a value holds; the reader says then whether newer Kafkas refuse it.

    :param reader: at the beginning of the value.
    :raises MalformedMetadataError: as :func:`deserialize`.
    """
    frame_version = _int16(reader, "frame version")
    if frame_version != _FRAME_VERSION:
        raise MalformedMetadataError(f"frame version {frame_version} is not {_FRAME_VERSION}")
    api_key = _int16(reader, "api key")
    version = _int16(reader, "api version")
    body = _BODIES.get(api_key)
    if body is None:
        raise UnknownApiKeyError(f"api key {api_key} is unknown")
    if version > _API_VERSION:
        raise NewerVersionError(f"api version {version} of api key {api_key} is newer than {_API_VERSION}")
    event: RemoteLogMetadata = body.read(reader)
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


def _int16(reader: Reader, what: str) -> int:
    """Return a varint of the header as the 16-bit number that Kafka's ``AbstractApiMessageSerde`` makes of it."""
    value = reader.uvarint(what)
    if value >= 1 << 15:
        raise MalformedMetadataError(f"{what} {value} is too large")
    value &= (1 << 16) - 1
    return value - (1 << 16) if value >= 1 << 15 else value


def _write_leader_epochs(out: bytearray, leader_epochs: tuple[tuple[int, int], ...]) -> None:
    epochs = [epoch for epoch, _ in leader_epochs]
    if any(left >= right for left, right in itertools.pairwise(epochs)):
        # Kafka keeps them in a sorted map: no other order can be read back as it was.
        raise ValueError(f"leader epochs {epochs} are not sorted, or repeat one")
    wire.write_uvarint(out, len(epochs) + 1)
    for leader_epoch, start_offset in leader_epochs:
        wire.write_int32(out, leader_epoch)
        wire.write_int64(out, start_offset)
        wire.write_no_tags(out)


def _read_leader_epochs(reader: Reader, what: str) -> tuple[tuple[int, int], ...]:
    count = reader.length(what)
    if not 0 <= count <= reader.remaining:
        raise MalformedMetadataError(f"{what} claim {count} entries, {reader.remaining} bytes are left")
    reader.note_limit(count, wire.MAX_ELEMENTS, what)
    epochs: dict[int, int] = {}
    for _ in range(count):
        leader_epoch = reader.int32("leader epoch")
        epochs[leader_epoch] = reader.int64("start offset of a leader epoch")
        reader.skip_tags("tagged fields of a leader epoch")
    return tuple(sorted(epochs.items()))


def _write_txn_idx_empty(out: bytearray, txn_idx_empty: bool) -> None:
    if txn_idx_empty:
        wire.write_uvarint(out, 1)
        wire.write_uvarint(out, _TXN_INDEX_EMPTY_TAG)
        wire.write_uvarint(out, 1)
        wire.write_int8(out, 1)
    else:
        # A tagged field with its default value is left out.
        wire.write_no_tags(out)


def _read_txn_idx_empty(reader: Reader, what: str) -> bool:
    """Read the closing tagged fields of a segment; of the known one Kafka ignores the size and takes one byte."""
    txn_idx_empty = False
    for _ in range(reader.tag_count(what)):
        tag = reader.uvarint(what)
        size = reader.uvarint(what)
        if tag == _TXN_INDEX_EMPTY_TAG:
            txn_idx_empty = reader.int8(what) != 0
        else:
            reader.array(size, what)
    return txn_idx_empty


class _Field(NamedTuple):
    """A field of a record: its name there, how it is written and read, and what it is called in messages."""

    name: str
    write: Callable[[bytearray, Any], None]
    read: Callable[[Reader, str], Any]
    what: str


class _Structure:
    """
    Fields in the order of their bytes, and an empty section of tagged fields behind them.

    :param make: the class of the record.
    :param what: its name in messages; ``None`` where the last field holds the tagged fields.
    :param fields: the fields.
    """

    def __init__(self, make: Callable[..., Any], what: str | None, *fields: _Field) -> None:
        self._make = make
        self._tags = what and f"tagged fields of {what}"
        self._fields = fields

    def write(self, out: bytearray, record: Any) -> None:
        """Append a record."""
        for name, write, _, _ in self._fields:
            write(out, getattr(record, name))
        if self._tags:
            wire.write_no_tags(out)

    def read(self, reader: Reader, what: str = "") -> Any:
        """Return a record; its fields say in messages what they are."""
        record = self._make(**{name: read(reader, field) for name, _, read, field in self._fields})
        if self._tags:
            reader.skip_tags(self._tags)
        return record


def _state(kind: type[RemoteLogSegmentState | RemotePartitionDeleteState], what: str) -> _Field:
    def write(out: bytearray, state: int) -> None:
        wire.write_int8(out, kind(state))

    def read(reader: Reader, what: str) -> RemoteLogSegmentState | RemotePartitionDeleteState:
        state_id = reader.int8("state")
        try:
            return kind(state_id)
        except ValueError as e:
            raise MalformedMetadataError(f"{what} {state_id} is unknown") from e

    return _Field("state", write, read, what)


_BROKER_ID = _Field("broker_id", wire.write_int32, Reader.int32, "broker id")
_EVENT_TIMESTAMP = _Field("event_timestamp_ms", wire.write_int64, Reader.int64, "event timestamp")
_CUSTOM_METADATA = _Field(
    "custom_metadata", wire.write_compact_nullable_bytes, Reader.compact_nullable_bytes, "custom metadata"
)
_SEGMENT_STATE = _state(RemoteLogSegmentState, "segment state")
# What the records of a segment and of a snapshot share.
_SEGMENT_FIELDS = (
    _Field("start_offset", wire.write_int64, Reader.int64, "start offset"),
    _Field("end_offset", wire.write_int64, Reader.int64, "end offset"),
    _BROKER_ID,
    _Field("max_timestamp_ms", wire.write_int64, Reader.int64, "max timestamp"),
    _EVENT_TIMESTAMP,
    _Field("segment_leader_epochs", _write_leader_epochs, _read_leader_epochs, "leader epochs"),
    _Field("segment_size_in_bytes", wire.write_int32, Reader.int32, "segment size"),
    _CUSTOM_METADATA,
    _SEGMENT_STATE,
    _Field("txn_idx_empty", _write_txn_idx_empty, _read_txn_idx_empty, "tagged fields of a segment"),
)
_TOPIC_ID_PARTITION = _Structure(
    TopicIdPartition,
    "a topic id partition",
    _Field("topic", wire.write_compact_string, Reader.compact_string, "topic"),
    _Field("topic_id", wire.write_uuid, Reader.uuid, "topic id"),
    _Field("partition", wire.write_int32, Reader.int32, "partition"),
)
_TIP_FIELD = _Field("topic_id_partition", _TOPIC_ID_PARTITION.write, _TOPIC_ID_PARTITION.read, "topic id partition")
_SEGMENT_ID = _Structure(
    RemoteLogSegmentId, "a segment id", _TIP_FIELD, _Field("id", wire.write_uuid, Reader.uuid, "segment id")
)
_ID_FIELD = _Field("remote_log_segment_id", _SEGMENT_ID.write, _SEGMENT_ID.read, "segment id")
_BODIES = {
    SEGMENT_API_KEY: _Structure(RemoteLogSegmentMetadata, None, _ID_FIELD, *_SEGMENT_FIELDS),
    SEGMENT_UPDATE_API_KEY: _Structure(
        RemoteLogSegmentMetadataUpdate,
        "a segment update",
        *(_ID_FIELD, _BROKER_ID, _EVENT_TIMESTAMP, _CUSTOM_METADATA, _SEGMENT_STATE),
    ),
    PARTITION_DELETE_API_KEY: _Structure(
        RemotePartitionDeleteMetadata,
        "a partition delete",
        *(_TIP_FIELD, _BROKER_ID, _EVENT_TIMESTAMP, _state(RemotePartitionDeleteState, "partition delete state")),
    ),
    SNAPSHOT_API_KEY: _Structure(
        RemoteLogSegmentMetadataSnapshot,
        None,
        _Field("segment_id", wire.write_uuid, Reader.uuid, "segment id"),
        *_SEGMENT_FIELDS,
    ),
}


_API_KEYS: dict[type, int] = {
    RemoteLogSegmentMetadata: SEGMENT_API_KEY,
    RemoteLogSegmentMetadataUpdate: SEGMENT_UPDATE_API_KEY,
    RemotePartitionDeleteMetadata: PARTITION_DELETE_API_KEY,
    RemoteLogSegmentMetadataSnapshot: SNAPSHOT_API_KEY,
}
