# SPDX-License-Identifier: Apache-2.0
"""
Values to columns: the public functions of :mod:`airflow_provider_rlmm.core.records.columnar`.

:func:`decode` says of every value what :func:`airflow_provider_rlmm.core.records.serde.deserialize` says of it: values in
Kafka's own layout are decoded without a loop over rows, all others by that function itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.arrow_arrays import array_of, equals, filled, numpy_of
from airflow_provider_rlmm.core.base.errors import MalformedMetadataError, NewerVersionError, UnknownApiKeyError
from airflow_provider_rlmm.core.records.decoding.fields import FIELDS, NO_KIND, Fields
from airflow_provider_rlmm.core.records.decoding.key_match import are_named
from airflow_provider_rlmm.core.records.decoding.layout import Array, canonical_blocks
from airflow_provider_rlmm.core.records.keys import RecordKey, parse_key
from airflow_provider_rlmm.core.records.outcomes import ErrorCode
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
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
from airflow_provider_rlmm.core.records.serde import (
    PARTITION_DELETE_API_KEY,
    SEGMENT_API_KEY,
    SNAPSHOT_API_KEY,
    read_value,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.core.records.wire import Reader

_MURMUR2_MULTIPLIER = np.uint32(0x5BD1E995)
_MURMUR2_START = np.uint32(((0x9747B28C ^ 4) * 0x5BD1E995) & 0xFFFFFFFF)
_JAVA_FACTOR = np.uint32(31)

_SEGMENT_STATES = {int(state): state for state in RemoteLogSegmentState}
_PARTITION_STATES = {int(state): state for state in RemotePartitionDeleteState}

_MISNAMED = "the key does not name what the value names, or is none that is known"
_FORGOTTEN = "the value is null, its key names a segment: the log cleaner is to forget what was said by that key"

CARRIED = {
    "metadata_partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp_ms": pa.int64(),
    "key": pa.binary(),
}
"""Columns that :func:`decode` carries through if they are given, in this order, and their types."""


def decoded_schema(*carried: str) -> Any:
    """
    Return the schema of :func:`decode`'s result.

    :param carried: names of the columns that are given to it, in any order: ``metadata_partition``, ``offset``,
        ``timestamp_ms``, ``key``.
    :raises ValueError: if a name is none of these.
    """
    unknown = set(carried) - set(CARRIED)
    if unknown:
        raise ValueError(f"decode carries no columns {sorted(unknown)}, only {sorted(CARRIED)}")
    fields = [pa.field(name, arrow_type) for name, arrow_type in CARRIED.items() if name in carried]
    fields += [pa.field(name, arrow_type) for name, (arrow_type, _) in FIELDS.items()]
    return pa.schema([*fields, pa.field("error_code", pa.int8(), nullable=False), pa.field("error", pa.string())])


def decode(
    values: Any,
    *,
    keys: Any = None,
    metadata_partition: Any = None,
    offset: Any = None,
    timestamp_ms: Any = None,
    num_partitions: int | None = None,
) -> Any:
    """
    Decode values into a :class:`pyarrow.RecordBatch` with one row per value, in order; bad bytes are reported, not
    raised.

    Columns: the given ones, by the names of :func:`decoded_schema`; ``api_key``; the fields under the records' names, ids as
    16 bytes, null where the kind of record has no such field or the value is refused; ``error_code`` (:class:`ErrorCode`)
    and ``error``.

    :param values: binary or large binary Arrow array (chunked or not) or a sequence of ``bytes | None``; at most 2 GiB.
    :param keys: the records' keys, likewise; a row whose key does not name what its value names is ``KEYED``.
    :param metadata_partition: the partition that the records were read from, one number or an array.
    :param offset: offsets in the metadata partition.
    :param timestamp_ms: the records' timestamps, ms since the epoch.
    :param num_partitions: number of metadata partitions; if given, records are checked to lie where they belong.
    :raises ValueError: if arguments do not fit together.
    """
    array = _binary_array(values)
    carried = _carried(len(array), metadata_partition, offset, timestamp_ms, keys)
    if num_partitions is not None and (metadata_partition is None or num_partitions < 1):
        raise ValueError("num_partitions must be positive and needs metadata_partition")
    keyed = None if keys is None or carried["key"].null_count == len(array) else numpy_of(carried["key"].is_valid())
    fields, code, errors = _decode_values(array, keyed)
    if num_partitions is not None:
        _flag_misrouted(fields, code, errors, carried["metadata_partition"], num_partitions)
    columns = {**carried, **fields.arrays()}
    if keyed is not None:
        _flag_keyed(columns, keyed, code, errors)
        _flag_forgotten(columns, keyed, code, errors, num_partitions)
    columns["error_code"] = array_of(code)
    columns["error"] = _error_array(len(array), errors)
    schema = decoded_schema(*carried)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def count_good(batch: Any) -> int:
    """
    Return how many records are good: each of them lies where our partitioner puts it.

    :param batch: what :func:`decode` returned.
    """
    return int(pc.sum(equals(batch.column("error_code"), int(ErrorCode.GOOD))).as_py() or 0)


def iter_events(batch: Any) -> Iterator[RemoteLogMetadata | None]:
    """
    Yield the record of each row of a decoded batch, ``None`` where the value was refused.

    :param batch: what :func:`decode` returned, or some of its rows.
    """
    columns = [batch.column(name).to_pylist() for name in FIELDS]
    # Most records are about a user partition that others are about, too.
    tips: dict[tuple[Any, ...], TopicIdPartition] = {}
    for row in zip(*columns, strict=True):
        yield _event(row, tips)


def forgotten_keys(batch: Any) -> list[tuple[int, RecordKey]]:
    """
    Return the keys by which the log cleaner is asked to forget, each with the row of the record that asks it.

    :param batch: what :func:`decode` returned.
    """
    rows = np.flatnonzero(numpy_of(batch.column("error_code")) == ErrorCode.FORGOTTEN)
    if not rows.size:
        return []
    keys = map(parse_key, batch.column("key").take(array_of(rows)).to_pylist())
    # All of them name a segment, or the record would be another one.
    return [(row, key) for row, key in zip(rows.tolist(), keys, strict=True) if key is not None]


def _event(row: tuple[Any, ...], tips: dict[tuple[Any, ...], TopicIdPartition]) -> RemoteLogMetadata | None:
    """Return the record of a row, whose values are in the order of :data:`FIELDS`."""
    (
        api_key, topic_id, topic, partition, segment_id, start_offset, end_offset, max_timestamp_ms, broker_id,
        event_timestamp_ms, size, custom_metadata, state, epochs, txn_idx_empty, leader_epoch,
    ) = row  # fmt: skip
    if api_key is None:
        return None
    if api_key == SNAPSHOT_API_KEY:
        return RemoteLogSegmentMetadataSnapshot(
            UUID(bytes=segment_id), start_offset, end_offset, max_timestamp_ms, broker_id, event_timestamp_ms, size,
            custom_metadata, _SEGMENT_STATES[state], _epochs(epochs), txn_idx_empty,
        )  # fmt: skip
    about = topic_id, topic, partition
    if (tip := tips.get(about)) is None:
        tips[about] = tip = TopicIdPartition(UUID(bytes=topic_id), topic, partition)
    if api_key == PARTITION_DELETE_API_KEY:
        return RemotePartitionDeleteMetadata(tip, _PARTITION_STATES[state], event_timestamp_ms, broker_id)
    segment, said_epoch = RemoteLogSegmentId(tip, UUID(bytes=segment_id)), _said(leader_epoch)
    if api_key == SEGMENT_API_KEY:
        return RemoteLogSegmentMetadata(
            segment, start_offset, end_offset, max_timestamp_ms, broker_id, event_timestamp_ms, size, custom_metadata,
            _SEGMENT_STATES[state], _epochs(epochs), txn_idx_empty, said_epoch,
        )  # fmt: skip
    return RemoteLogSegmentMetadataUpdate(
        segment, event_timestamp_ms, custom_metadata, _SEGMENT_STATES[state], broker_id, _said(end_offset), said_epoch
    )


def _epochs(epochs: list[dict[str, int]]) -> tuple[tuple[int, int], ...]:
    return tuple((epoch["leader_epoch"], epoch["start_offset"]) for epoch in epochs)


def _said(value: int | None) -> int:
    return NOT_SAID if value is None else value


def _decode_values(array: Any, keyed: Array | None) -> tuple[Fields, Array, dict[int, str]]:
    data, start, end = _bytes_of(array)
    vectorised = present = numpy_of(array.is_valid()) if array.null_count else np.ones(len(array), dtype=bool)
    fields = _collect(len(array), data, start, end, vectorised, keyed)
    invalid = fields.rows_with_invalid_topic()
    if invalid:
        vectorised = present.copy()
        vectorised[invalid] = False
        fields = _collect(len(array), data, start, end, vectorised, keyed)
    code = np.zeros(len(array), dtype=np.int8)
    errors: dict[int, str] = {}
    _flag(code, errors, np.flatnonzero(~present), ErrorCode.TOMBSTONE, "the value is null")
    for row in np.flatnonzero(present & (fields["api_key"] == NO_KIND)).tolist():
        try:
            reader = Reader(data[start[row] : end[row]].tobytes())
            fields.add_event(row, read_value(reader, keyed=keyed is not None and bool(keyed[row])))
        except MalformedMetadataError as e:
            code[row] = _code_of(e)
            errors[row] = str(e)
            continue
        if reader.beyond_limits is not None:
            _flag(code, errors, np.array([row]), ErrorCode.BEYOND_LIMITS, reader.beyond_limits)
    snapshots = np.flatnonzero(fields["api_key"] == SNAPSHOT_API_KEY)
    _flag(code, errors, snapshots, ErrorCode.SNAPSHOT, "a snapshot record, which belongs into no topic")
    return fields, code, errors


def _collect(size: int, data: Array, start: Array, end: Array, vectorised: Array, keyed: Array | None) -> Fields:
    fields = Fields(size, data)
    for block in canonical_blocks(data, start, end, vectorised, keyed):
        fields.add_block(block)
    return fields


def _code_of(error: MalformedMetadataError) -> ErrorCode:
    if isinstance(error, NewerVersionError):
        return ErrorCode.NEWER_VERSION
    if isinstance(error, UnknownApiKeyError):
        return ErrorCode.UNKNOWN_API_KEY
    return ErrorCode.MALFORMED


def _flag_misrouted(
    fields: Fields, code: Array, errors: dict[int, str], metadata_partition: Any, num_partitions: int
) -> None:
    expected = metadata_partitions(fields["topic_id"], fields["partition"], num_partitions)
    actual = numpy_of(filled(metadata_partition, -1))
    decoded = (code == ErrorCode.GOOD) | (code == ErrorCode.BEYOND_LIMITS)
    for row in np.flatnonzero(decoded & (expected != actual)).tolist():
        code[row] = ErrorCode.MISROUTED
        besides = f"; {errors[row]}" if row in errors else ""
        errors[row] = f"belongs into metadata partition {expected[row]}, was read from {actual[row]}{besides}"


def _flag_keyed(columns: Mapping[str, Any], keyed: Array, code: Array, errors: dict[int, str]) -> None:
    """Flag the good records whose key does not name what their value names; an event of no segment has none in any design."""
    good = np.flatnonzero(keyed & (code == ErrorCode.GOOD))
    of_a_partition = numpy_of(columns["api_key"]).take(good) == PARTITION_DELETE_API_KEY
    _flag(code, errors, good.take(np.flatnonzero(of_a_partition)), ErrorCode.KEYED, _MISNAMED)
    rows = good.take(np.flatnonzero(~of_a_partition))
    if not rows.size:
        return
    rest = rows.take(np.flatnonzero(~are_named(columns, rows)))
    if not rest.size:
        return
    keys = [parse_key(raw) for raw in columns["key"].take(array_of(rest)).to_pylist()]
    known = np.array([key is not None for key in keys])
    named = np.zeros(len(keys), dtype=bool)
    index = array_of(rest[known])
    of_known = pa.RecordBatch.from_arrays([columns[name].take(index) for name in FIELDS], list(FIELDS))
    named[known] = [
        key.names(event)
        for key, event in zip((key for key in keys if key is not None), iter_events(of_known), strict=True)
        if event is not None
    ]
    _flag(code, errors, rest[~named], ErrorCode.KEYED, _MISNAMED)


def _flag_forgotten(
    columns: Mapping[str, Any], keyed: Array, code: Array, errors: dict[int, str], num_partitions: int | None
) -> None:
    """Flag null values whose key names a segment, if its user partition's records lie where this one does."""
    for row in np.flatnonzero(keyed & (code == ErrorCode.TOMBSTONE)).tolist():
        key = parse_key(columns["key"][row].as_py())
        if key is None:
            continue
        if num_partitions is not None:
            tip = TopicIdPartition(key.topic_id, "", key.partition)
            if columns["metadata_partition"][row].as_py() != metadata_partition_for(tip, num_partitions):
                continue
        code[row], errors[row] = ErrorCode.FORGOTTEN, _FORGOTTEN


def metadata_partitions(topic_id: Array, partition: Array, num_partitions: int) -> Array:
    """Return the metadata partition of each user partition, as :mod:`airflow_provider_rlmm.core.records.partitioner` does."""
    words = np.frombuffer(np.ascontiguousarray(topic_id), dtype=">u4").reshape(-1, 4).astype(np.uint32)
    most, least = words[:, 0] ^ words[:, 1], words[:, 2] ^ words[:, 3]
    # Java's Objects.hash(least significant, most significant, partition), in wrapping 32-bit arithmetic.
    java_hash = ((_JAVA_FACTOR + least) * _JAVA_FACTOR + most) * _JAVA_FACTOR + partition.astype(np.uint32)
    # Kafka's murmur2 of its four big-endian bytes, which the hash reads as a little-endian word.
    k = java_hash.byteswap() * _MURMUR2_MULTIPLIER
    k ^= k >> np.uint32(24)
    k *= _MURMUR2_MULTIPLIER
    h = _MURMUR2_START ^ k
    h ^= h >> np.uint32(13)
    h *= _MURMUR2_MULTIPLIER
    h ^= h >> np.uint32(15)
    result: Array = ((h & np.uint32(0x7FFFFFFF)) % np.uint32(num_partitions)).astype(np.int32)
    return result


def _flag(code: Array, errors: dict[int, str], rows: Array, what: ErrorCode, why: str) -> None:
    code[rows] = what
    errors.update(dict.fromkeys(rows.tolist(), why))


def _error_array(size: int, errors: dict[int, str]) -> Any:
    if not errors:
        return pa.nulls(size, pa.string())
    index = np.full(size, -1)
    index[list(errors)] = np.arange(len(errors))
    return array_of(list(errors.values()), pa.string()).take(array_of(index, nulls=index < 0))


def _carried(size: int, metadata_partition: Any, offset: Any, timestamp_ms: Any, keys: Any) -> dict[str, Any]:
    if isinstance(metadata_partition, int):
        metadata_partition = np.full(size, metadata_partition, dtype=np.int32)
    given = {"metadata_partition": metadata_partition, "offset": offset, "timestamp_ms": timestamp_ms, "key": keys}
    carried = {name: _as_array(given[name], CARRIED[name]) for name in CARRIED if given[name] is not None}
    for name, column in carried.items():
        if len(column) != size:
            raise ValueError(f"{number_of(len(column), 'element')} of {name} for {number_of(size, 'value')}")
    return carried


def _binary_array(values: Any) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray) and pa.types.is_large_binary(values.type):
        return _one_chunk(values)
    return _as_array(values, pa.binary())


def _as_array(values: Any, arrow_type: Any) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return _one_chunk(values).cast(arrow_type)
    return array_of(values, arrow_type)


def _one_chunk(values: Any) -> Any:
    if not isinstance(values, pa.ChunkedArray):
        return values
    combined = values.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def _bytes_of(array: Any) -> tuple[Array, Array, Array]:
    """Return the bytes of all values, and where each one begins and ends in them."""
    _, offsets_buffer, data_buffer = array.buffers()
    if len(array) == 0:
        return np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64)
    dtype = np.int64 if pa.types.is_large_binary(array.type) else np.int32
    offsets = np.frombuffer(offsets_buffer, dtype)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    if last - first >= 1 << 31:
        raise ValueError(f"{last - first} bytes of values are too many for one batch: decode less than 2 GiB at once")
    offsets -= first
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)[first:last]
    return data, offsets[:-1], offsets[1:]
