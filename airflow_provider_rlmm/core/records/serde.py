# SPDX-License-Identifier: Apache-2.0
"""
Bytes of ``__remote_log_metadata`` to records and back, byte-identical with Kafka 4.3 (``RemoteLogMetadataSerde``).

A value is a frame version (1), an api key, an api version, and a body of that kind. Kafka up to 4.4 writes and reads version
0. Version 1 of a segment's two kinds comes with keys (KIP-1266), and is read only where a record has one: without a key it
would end the consumer of every broker of today. :func:`deserialize` accepts what Kafka's serde accepts: unknown tagged fields
are skipped, superfluous varint bytes are tolerated, of repeated leader epochs the last one counts. It refuses what Kafka
refuses, the checks of the records' constructors included: another frame or a newer api version, an unknown api key or state,
truncation, bytes left over, no leader epochs, a negative start offset, an end before the start. It refuses one thing more, a
topic name that is not UTF-8 (:meth:`airflow_provider_rlmm.core.records.wire.Reader.compact_string` says why).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import MalformedMetadataError, NewerVersionError, UnknownApiKeyError
from airflow_provider_rlmm.core.records import wire
from airflow_provider_rlmm.core.records.records import (
    NOT_SAID,
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
_KEYED_API_VERSION = 1

_AnySegment = RemoteLogSegmentMetadata | RemoteLogSegmentMetadataSnapshot


def serialize(event: RemoteLogMetadata) -> bytes:
    """
    Return the value that Kafka would write for a record: of api version 1 where only that says all that the record does.

    :param event: any record.
    :raises MalformedMetadataError: if a field does not fit its type, or :func:`deserialize` would refuse the result.
    """
    api_key, version = api_key_of(event), _version_of(event)
    # Three varints: each of them is small.
    out = bytearray((_FRAME_VERSION, api_key, version))
    try:
        _check(event)
        _BODIES[api_key][version].write(out, event)
    except (ValueError, TypeError, AttributeError) as e:
        raise MalformedMetadataError(f"{event!r} cannot be written: {e}") from e
    return bytes(out)


def deserialize(data: bytes, *, keyed: bool = False) -> RemoteLogMetadata:
    """
    Return the record that a value holds.

    :param data: the value of a record of the topic.
    :param keyed: whether the record has a key, so that its api version may be 1.
    :raises MalformedMetadataError: if Kafka would not accept it; as its subclasses ``UnknownApiKeyError`` and
        ``NewerVersionError`` where a newer Kafka may have written it.
    """
    return read_value(Reader(bytes(data)), keyed=keyed)


def read_value(reader: Reader, *, keyed: bool = False) -> RemoteLogMetadata:
    """
    Return the record that a value holds; the reader says then whether newer Kafkas refuse it.

    :param reader: at the beginning of the value.
    :param keyed: as :func:`deserialize`.
    :raises MalformedMetadataError: as :func:`deserialize`.
    """
    frame_version = _int16(reader, "frame version")
    if frame_version != _FRAME_VERSION:
        raise MalformedMetadataError(f"frame version {frame_version} is not {_FRAME_VERSION}")
    api_key = _int16(reader, "api key")
    version = _int16(reader, "api version")
    bodies = _BODIES.get(api_key)
    if bodies is None:
        raise UnknownApiKeyError(f"api key {api_key} is unknown")
    newest = len(bodies) - 1 if keyed else _API_VERSION
    if version > newest:
        raise NewerVersionError(f"api version {version} of api key {api_key} is newer than {newest}")
    # A negative one is 0 to Kafka's generated classes, none of whose fields came later.
    event: RemoteLogMetadata = bodies[max(version, _API_VERSION)].read(reader)
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


def _version_of(event: RemoteLogMetadata) -> int:
    """Return the lowest api version that says all that a record does."""
    end_offset = event.end_offset if isinstance(event, RemoteLogSegmentMetadataUpdate) else NOT_SAID
    later = getattr(event, "broker_leader_epoch", NOT_SAID), end_offset
    return _API_VERSION if later == (NOT_SAID, NOT_SAID) else _KEYED_API_VERSION


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
        raise MalformedMetadataError(
            f"{what} claim {number_of(count, 'entry', 'entries')}, {reader.remaining} bytes are left"
        )
    reader.note_limit(count, wire.MAX_ELEMENTS, what)
    epochs: dict[int, int] = {}
    for _ in range(count):
        leader_epoch = reader.int32("leader epoch")
        epochs[leader_epoch] = reader.int64("start offset of a leader epoch")
        reader.skip_tags("tagged fields of a leader epoch")
    return tuple(sorted(epochs.items()))


class _Field(NamedTuple):
    """A field of a record: its name there, how it is written and read, and what it is called in messages."""

    name: str
    write: Callable[[bytearray, Any], None]
    read: Callable[[Reader, str], Any]
    what: str


class _Tagged(NamedTuple):
    """A tagged field of a record, which is left out where it has its default: its name there, its bytes, how it is coded."""

    name: str
    default: Any
    size: int
    write: Callable[[bytearray, Any], None]
    read: Callable[[Reader, str], Any]


class _Structure:
    """
    Fields in the order of their bytes, and a section of tagged fields behind them.

    :param make: the class of the record.
    :param what: its name in messages.
    :param fields: the fields.
    :param tagged: the known tagged fields, by their tags.
    """

    def __init__(self, make: Callable[..., Any], what: str, *fields: _Field, tagged: tuple[_Tagged, ...] = ()) -> None:
        self._make = make
        self._what = f"tagged fields of {what}"
        self._fields = fields
        self._tagged = tagged

    def write(self, out: bytearray, record: Any) -> None:
        """Append a record."""
        for name, write, _, _ in self._fields:
            write(out, getattr(record, name))
        if not self._tagged:
            wire.write_no_tags(out)
            return
        given = [(tag, f) for tag, f in enumerate(self._tagged) if getattr(record, f.name) != f.default]
        wire.write_uvarint(out, len(given))
        for tag, field in given:
            wire.write_uvarint(out, tag)
            wire.write_uvarint(out, field.size)
            field.write(out, getattr(record, field.name))

    def read(self, reader: Reader, what: str = "") -> Any:
        """Return a record; its fields say in messages what they are."""
        values = {name: read(reader, field) for name, _, read, field in self._fields}
        for _ in range(reader.tag_count(self._what)):
            tag = reader.uvarint(self._what)
            size = reader.uvarint(self._what)
            if 0 <= tag < len(self._tagged):
                # Kafka ignores the size of a field that it knows.
                values[self._tagged[tag].name] = self._tagged[tag].read(reader, self._what)
            else:
                reader.array(size, self._what)
        return self._make(**values)


def _state(kind: type[RemoteLogSegmentState | RemotePartitionDeleteState], what: str) -> _Field:
    known = {int(state): state for state in kind}

    def write(out: bytearray, state: int) -> None:
        if state not in known:
            raise ValueError(f"{what} {state!r} is unknown")
        wire.write_int8(out, known[state])

    def read(reader: Reader, what: str) -> RemoteLogSegmentState | RemotePartitionDeleteState:
        state_id = reader.int8("state")
        if (state := known.get(state_id)) is None:
            raise MalformedMetadataError(f"{what} {state_id} is unknown")
        return state

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
)
_TXN_IDX_EMPTY = _Tagged("txn_idx_empty", False, 1, wire.write_int8, lambda reader, what: reader.int8(what) != 0)
_BROKER_LEADER_EPOCH = _Tagged("broker_leader_epoch", NOT_SAID, 4, wire.write_int32, Reader.int32)
_END_OFFSET = _Tagged("end_offset", NOT_SAID, 8, wire.write_int64, Reader.int64)
_TOPIC_ID_PARTITION = _Structure(
    TopicIdPartition,
    "a topic id partition",
    _Field("topic", wire.write_compact_string, Reader.compact_string, "topic"),
    _Field("topic_id", wire.write_uuid, Reader.uuid, "topic id"),
    _Field("partition", wire.write_int32, Reader.int32, "partition"),
)
_BEHIND_THE_TOPIC = 16 + 4 + 1
"""Bytes of a topic id partition behind the topic's name: id, partition and no tagged field."""


@lru_cache(maxsize=1024)
def _bytes_of(tip: TopicIdPartition) -> bytes:
    """Return the bytes of a user partition: many records are about the same."""
    out = bytearray()
    _TOPIC_ID_PARTITION.write(out, tip)
    return bytes(out)


@lru_cache(maxsize=1024)
def _tip_of(data: bytes) -> TopicIdPartition | None:
    """Return the user partition that bytes stand for; ``None`` where they are something else, or more than that."""
    reader = Reader(data)
    try:
        tip: TopicIdPartition = _TOPIC_ID_PARTITION.read(reader)
    except MalformedMetadataError:
        return None
    return None if reader.remaining or reader.beyond_limits is not None else tip


def _write_tip(out: bytearray, tip: TopicIdPartition) -> None:
    out += _bytes_of(tip)


def _read_tip(reader: Reader, what: str) -> TopicIdPartition:
    tip = reader.known(_BEHIND_THE_TOPIC, _tip_of)
    if tip is not None:
        return tip
    found: TopicIdPartition = _TOPIC_ID_PARTITION.read(reader, what)
    return found


_TIP_FIELD = _Field("topic_id_partition", _write_tip, _read_tip, "topic id partition")
_SEGMENT_ID = _Structure(
    RemoteLogSegmentId, "a segment id", _TIP_FIELD, _Field("id", wire.write_uuid, Reader.uuid, "segment id")
)
_ID_FIELD = _Field("remote_log_segment_id", _SEGMENT_ID.write, _SEGMENT_ID.read, "segment id")


def _added(*tagged: _Tagged) -> _Structure:
    return _Structure(RemoteLogSegmentMetadata, "a segment", _ID_FIELD, *_SEGMENT_FIELDS, tagged=tagged)


def _updated(*tagged: _Tagged) -> _Structure:
    fields = _ID_FIELD, _BROKER_ID, _EVENT_TIMESTAMP, _CUSTOM_METADATA, _SEGMENT_STATE
    return _Structure(RemoteLogSegmentMetadataUpdate, "a segment update", *fields, tagged=tagged)


_DELETED_PARTITION = _Structure(
    RemotePartitionDeleteMetadata,
    "a partition delete",
    *(_TIP_FIELD, _BROKER_ID, _EVENT_TIMESTAMP, _state(RemotePartitionDeleteState, "partition delete state")),
)
_SNAPSHOT = _Structure(
    RemoteLogSegmentMetadataSnapshot,
    "a segment",
    *(_Field("segment_id", wire.write_uuid, Reader.uuid, "segment id"), *_SEGMENT_FIELDS),
    tagged=(_TXN_IDX_EMPTY,),
)
_BODIES: dict[int, tuple[_Structure, ...]] = {
    SEGMENT_API_KEY: (_added(_TXN_IDX_EMPTY), _added(_TXN_IDX_EMPTY, _BROKER_LEADER_EPOCH)),
    SEGMENT_UPDATE_API_KEY: (_updated(), _updated(_BROKER_LEADER_EPOCH, _END_OFFSET)),
    PARTITION_DELETE_API_KEY: (_DELETED_PARTITION,),
    SNAPSHOT_API_KEY: (_SNAPSHOT,),
}
"""Kind of record → its body in each api version, from 0 on."""


_API_KEYS: dict[type, int] = {
    RemoteLogSegmentMetadata: SEGMENT_API_KEY,
    RemoteLogSegmentMetadataUpdate: SEGMENT_UPDATE_API_KEY,
    RemotePartitionDeleteMetadata: PARTITION_DELETE_API_KEY,
    RemoteLogSegmentMetadataSnapshot: SNAPSHOT_API_KEY,
}
