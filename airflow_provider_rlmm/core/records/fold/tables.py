# SPDX-License-Identifier: Apache-2.0
"""The public tables of a columnar state, made from its columns."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, null_of, numpy_of
from airflow_provider_rlmm.core.records.decoding.fields import FIELDS
from airflow_provider_rlmm.core.records.decoding.layout import Array
from airflow_provider_rlmm.core.records.fold.index import spread
from airflow_provider_rlmm.core.records.fold.store import (
    DEAD,
    NO_DELETION,
    NO_METADATA_PARTITION,
    NO_OFFSET,
    Store,
)
from airflow_provider_rlmm.core.records.records import NOT_SAID, RemoteLogSegmentMetadata

PIECE_ROWS = 1 << 16
"""Segments that are taken at once by those who need no table of all."""

_PARTITION = {"metadata_partition": pa.int32(), "topic_id": pa.binary(), "topic": pa.string(), "partition": pa.int32()}
_SEGMENT_FIELDS = [name for name in FIELDS if name in RemoteLogSegmentMetadata.__slots__]
_SAID = "broker_leader_epoch"  # by records of api version 1 only
_NESTED = ("custom_metadata", "segment_leader_epochs")
_PLAIN = (*(n for n in _SEGMENT_FIELDS if n not in (_SAID, *_NESTED)), "added_offset", "event_offset")

SCHEMAS = {
    "user_partitions": pa.schema(
        {
            **_PARTITION,
            "first_offset": pa.int64(),
            "last_foreign_offset": pa.int64(),
            "finished_segments": pa.int64(),
            "was_finished": pa.bool_(),
            "copying_offset": pa.int64(),
            "copying_segment_id": pa.binary(),
            "copying_event_timestamp_ms": pa.int64(),
        }
    ),
    "segments": pa.schema(
        {
            **_PARTITION,
            "segment_id": pa.binary(),
            **{name: FIELDS[name][0] for name in _SEGMENT_FIELDS},
            "added_offset": pa.int64(),
            "event_offset": pa.int64(),
        }
    ),
    "finished_segments": pa.schema({**_PARTITION, "segment_id": pa.binary(), "event_offset": pa.int64()}),
    "unresolved": pa.schema(
        {
            **_PARTITION,
            "segment_id": pa.binary(),
            "offset": pa.int64(),
            "without_add": pa.bool_(),
            "maybe_finished": pa.bool_(),
        }
    ),
    "partition_deletes": pa.schema(
        {
            **_PARTITION,
            "state": pa.int8(),
            "offset": pa.int64(),
            "event_timestamp_ms": pa.int64(),
            "broker_id": pa.int32(),
            "was_finished": pa.bool_(),
        }
    ),
}
"""The tables of a state; an offset that is not known is null."""


def table_of(store: Store, name: str) -> Any:
    """Return one of the tables of :data:`SCHEMAS`; user partitions are sorted by topic id, topic and number."""
    make = {
        "user_partitions": _user_partitions,
        "segments": _segments,
        "finished_segments": _finished_segments,
        "unresolved": _unresolved,
        "partition_deletes": _partition_deletes,
    }[name]
    columns = make(store)
    schema = SCHEMAS[name]
    return pa.Table.from_arrays([_typed(columns[field.name], field.type) for field in schema], schema=schema)


def _typed(column: Any, arrow_type: Any) -> Any:
    return column.cast(arrow_type) if isinstance(column, pa.Array) else array_of(column, arrow_type)


def _user_partitions(store: Store) -> dict[str, Any]:
    table, rows = store.partitions, np.argsort(rank_of(store))
    offsets = {name: table[name].take(rows) for name in ("first_offset", "last_foreign_offset", "copying_offset")}
    is_copying = array_of(offsets["copying_offset"] != NO_OFFSET)
    copying = {
        "segment_id": ids_array(table["copying_high"].take(rows), table["copying_low"].take(rows)),
        "event_timestamp_ms": array_of(table["copying_event_timestamp_ms"].take(rows)),
    }
    return {
        **_key(store, rows),
        **{name: array_of(values, nulls=values == NO_OFFSET) for name, values in offsets.items()},
        "finished_segments": table["finished_segments"].take(rows),
        "was_finished": table["was_finished"].take(rows),
        **{f"copying_{name}": pc.if_else(is_copying, values, null_of(values.type)) for name, values in copying.items()},
    }


def _segments(store: Store) -> dict[str, Any]:
    table, alive = store.segments, store.alive()
    by = (table["added_offset"].take(alive), table["start_offset"].take(alive))
    rows = alive.take(np.lexsort((*by, rank_of(store).take(table["user_partition"].take(alive)))))
    return _segments_at(store, rows)


def segments_at(store: Store, rows: Array, names: Collection[str]) -> Any:
    """
    Return rows of the table of segments that are not finished.

    :param store: the store.
    :param rows: numbers of living segments, in the order that is wanted.
    :param names: the columns that are wanted; they come in the order of the table.
    """
    schema = pa.schema([field for field in SCHEMAS["segments"] if field.name in names])
    columns = _segments_at(store, rows, names)
    return pa.Table.from_arrays([_typed(columns[field.name], field.type) for field in schema], schema=schema)


def partitions_at(store: Store, rows: Array) -> Any:
    """
    Return the keys of user partitions.

    :param store: the store.
    :param rows: numbers of user partitions, in the order that is wanted.
    """
    columns = _key(store, rows)
    schema = pa.schema(_PARTITION)
    return pa.Table.from_arrays([_typed(columns[field.name], field.type) for field in schema], schema=schema)


def _segments_at(store: Store, rows: Array, names: Collection[str] = SCHEMAS["segments"].names) -> dict[str, Any]:
    table = store.segments
    columns = {**_segment_key(store, rows), **{name: table[name].take(rows) for name in _PLAIN if name in names}}
    if _SAID in names:
        epoch = table[_SAID].take(rows)
        columns[_SAID] = array_of(epoch, nulls=epoch == NOT_SAID)
    if "custom_metadata" in names:
        columns["custom_metadata"] = _custom(store, rows)
    if "segment_leader_epochs" in names:
        columns["segment_leader_epochs"] = _epochs(store, rows)
    return columns


def _epochs(store: Store, rows: Array) -> Any:
    count = store.segments["epochs_count"].take(rows)
    at, _ = spread(store.segments["epochs_at"].take(rows), count)
    heap, epochs_type = store.tables["epochs"], FIELDS["segment_leader_epochs"][0]
    epochs = pa.StructArray.from_arrays(
        [array_of(heap[name].take(at)) for name in ("leader_epoch", "start_offset")],
        fields=list(epochs_type.value_type),
    )
    offsets = np.zeros(rows.size + 1, np.int32)
    np.cumsum(count, out=offsets[1:])
    return pa.Array.from_buffers(epochs_type, rows.size, [None, pa.py_buffer(offsets)], 0, children=[epochs])


def custom_bytes(store: Store, rows: Array) -> Array:
    """
    Return the bytes of custom metadata, one after the other.

    :param store: the store.
    :param rows: numbers of segments.
    """
    given = rows.take(np.flatnonzero(store.segments["custom_length"].take(rows) > 0))
    return store.custom_bytes(store.segments["custom_at"].take(given), store.segments["custom_length"].take(given))


def _custom(store: Store, rows: Array) -> Any:
    lengths = store.segments["custom_length"].take(rows)
    given = lengths >= 0
    data = custom_bytes(store, rows)
    offsets = np.zeros(rows.size + 1, np.int64)
    np.cumsum(np.maximum(lengths, 0), out=offsets[1:])
    validity = pa.py_buffer(np.packbits(given, bitorder="little"))
    return pa.Array.from_buffers(pa.large_binary(), rows.size, [validity, pa.py_buffer(offsets), pa.py_buffer(data)])


def _finished_segments(store: Store) -> dict[str, Any]:
    table = store.segments
    dead = np.flatnonzero(table["state"] == DEAD) if store.keep_finished else np.empty(0, np.int64)
    rows = dead.take(np.lexsort((dead, rank_of(store).take(table["user_partition"].take(dead)))))
    return {**_segment_key(store, rows), "event_offset": table["event_offset"].take(rows)}


def _unresolved(store: Store) -> dict[str, Any]:
    keys = np.array(list(store.unresolved), np.uint64).reshape(-1, 3)
    offsets = np.array([uncertain.offset for uncertain in store.unresolved.values()], np.int64)
    without_add = np.array([uncertain.without_add for uncertain in store.unresolved.values()], bool)
    partition = keys[:, 0].astype(np.int64)
    rows = np.lexsort((offsets, rank_of(store).take(partition)))
    partition = partition.take(rows)
    finished_known = np.array([uncertain.finished_known for uncertain in store.unresolved.values()], bool)
    forgotten = (store.partitions["finished_segments"].take(partition) > 0) & ~finished_known.take(rows)
    return {
        **_key(store, partition),
        "segment_id": ids_array(keys[:, 1].take(rows), keys[:, 2].take(rows)),
        "offset": offsets.take(rows),
        "without_add": without_add.take(rows),
        "maybe_finished": forgotten,
    }


def _partition_deletes(store: Store) -> dict[str, Any]:
    table = store.partitions
    deleted = np.flatnonzero(table["delete_state"] != NO_DELETION)
    rows = deleted.take(np.argsort(rank_of(store).take(deleted)))
    return {
        **_key(store, rows),
        "state": table["delete_state"].take(rows),
        "offset": table["delete_offset"].take(rows),
        "event_timestamp_ms": table["delete_event_timestamp_ms"].take(rows),
        "broker_id": table["delete_broker_id"].take(rows),
        "was_finished": table["was_finished"].take(rows),
    }


def _segment_key(store: Store, rows: Array) -> dict[str, Any]:
    table = store.segments
    return {
        **_key(store, table["user_partition"].take(rows)),
        "segment_id": ids_array(table["high"].take(rows), table["low"].take(rows)),
    }


def rank_of(store: Store) -> Array:
    """Return the place of each user partition among all."""
    table = store.partitions
    keys = pa.table(
        {
            "topic_id": ids_array(table["high"], table["low"]),
            "topic": store.topics.take(array_of(table["topic"])),
            "partition": array_of(table["partition"]),
        }
    )
    order = numpy_of(pc.sort_indices(keys, [(name, "ascending") for name in keys.schema.names]))
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    return rank


def _key(store: Store, rows: Array) -> dict[str, Any]:
    table = store.partitions
    metadata_partition = table["metadata_partition"].take(rows)
    return {
        "metadata_partition": array_of(metadata_partition, nulls=metadata_partition == NO_METADATA_PARTITION),
        "topic_id": ids_array(table["high"].take(rows), table["low"].take(rows)),
        "topic": store.topics.take(array_of(table["topic"].take(rows))),
        "partition": table["partition"].take(rows),
    }


def ids_array(high: Array, low: Array) -> Any:
    """Return ids, given by their halves, as an Arrow array of 16 bytes each."""
    offsets = np.arange(high.size + 1, dtype=np.int64) * 16
    data = np.stack([high, low], axis=1)
    # Positions in a binary array have 32 bits: enough for 128 million ids; more are refused by the cast.
    array = pa.Array.from_buffers(pa.large_binary(), high.size, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return array.cast(pa.binary())
