# SPDX-License-Identifier: Apache-2.0
"""The public tables of a columnar state, made from its columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_rlmm.metadata.columnar.decoding.fields import FIELDS
from airflow_provider_rlmm.metadata.columnar.decoding.layout import Array
from airflow_provider_rlmm.metadata.columnar.fold.runs import spread
from airflow_provider_rlmm.metadata.columnar.fold.store import (
    NO_DELETION,
    NO_METADATA_PARTITION,
    REFERENCED,
    UNREFERENCED,
    Store,
)
from airflow_provider_rlmm.metadata.records import RemoteLogSegmentMetadata

_PARTITION = {"metadata_partition": pa.int32(), "topic_id": pa.binary(), "topic": pa.string(), "partition": pa.int32()}
_SEGMENT_FIELDS = [name for name in FIELDS if name in RemoteLogSegmentMetadata.__slots__]

SCHEMAS = {
    "user_partitions": pa.schema(_PARTITION),
    "segments": pa.schema(
        {**_PARTITION, "segment_id": pa.binary(), **{name: FIELDS[name][0] for name in _SEGMENT_FIELDS}}
    ),
    "epoch_offsets": pa.schema(
        {
            **_PARTITION,
            "leader_epoch": pa.int32(),
            "start_offset": pa.int64(),
            "segment_id": pa.binary(),
            "referenced": pa.bool_(),
        }
    ),
    "epoch_highest": pa.schema({**_PARTITION, "leader_epoch": pa.int32(), "highest_offset": pa.int64()}),
    "partition_deletes": pa.schema(
        {
            **_PARTITION,
            "state": pa.int8(),
            "event_timestamp_ms": pa.int64(),
            "broker_id": pa.int32(),
            "was_finished": pa.bool_(),
        }
    ),
}
"""The tables of a state."""


def table_of(store: Store, name: str) -> Any:
    """
    Return one of the tables of :data:`SCHEMAS`; user partitions are sorted by topic id, topic and number.

    :param store: the store.
    :param name: which one.
    """
    make = {
        "user_partitions": _user_partitions,
        "segments": _segments,
        "epoch_offsets": _epoch_offsets,
        "epoch_highest": _epoch_highest,
        "partition_deletes": _partition_deletes,
    }[name]
    columns = make(store)
    schema = SCHEMAS[name]
    return pa.Table.from_arrays([_typed(columns[field.name], field.type) for field in schema], schema=schema)


def _typed(column: Any, arrow_type: Any) -> Any:
    return column.cast(arrow_type) if isinstance(column, pa.Array) else pa.array(column, arrow_type)


def _user_partitions(store: Store) -> dict[str, Any]:
    return _key(store, np.argsort(_rank(store)))


def _segments(store: Store) -> dict[str, Any]:
    table, alive = store.segments, store.alive()
    by = (table["order"].take(alive), table["start_offset"].take(alive))
    rows = alive.take(np.lexsort((*by, _rank(store).take(table["user_partition"].take(alive)))))
    columns = {name: table[name].take(rows) for name in _SEGMENT_FIELDS if name not in _NESTED}
    count = table["entries_count"].take(rows)
    at, _ = spread(table["entries_at"].take(rows), count)
    epochs = pa.StructArray.from_arrays(
        [_leader_epochs(store, store.entries["epoch"].take(at)), store.entries["start_offset"].take(at)],
        fields=list(FIELDS["segment_leader_epochs"][0].value_type),
    )
    offsets = np.zeros(rows.size + 1, np.int32)
    np.cumsum(count, out=offsets[1:])
    return {
        **_key(store, table["user_partition"].take(rows)),
        "segment_id": ids_array(table["high"].take(rows), table["low"].take(rows)),
        **columns,
        "custom_metadata": _custom(store, rows),
        "segment_leader_epochs": pa.Array.from_buffers(
            FIELDS["segment_leader_epochs"][0], rows.size, [None, pa.py_buffer(offsets)], 0, children=[epochs]
        ),
    }


_NESTED = ("custom_metadata", "segment_leader_epochs")


def _custom(store: Store, rows: Array) -> Any:
    lengths = store.segments["custom_length"].take(rows)
    given = lengths >= 0
    lengths = np.maximum(lengths, 0)
    at, _ = spread(store.segments["custom_at"].take(rows), lengths)
    offsets = np.zeros(rows.size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    data = store.tables["custom"]["byte"].take(at)
    validity = pa.py_buffer(np.packbits(given, bitorder="little"))
    return pa.Array.from_buffers(pa.large_binary(), rows.size, [validity, pa.py_buffer(offsets), pa.py_buffer(data)])


def _epoch_offsets(store: Store) -> dict[str, Any]:
    table, entries, alive = store.segments, store.entries, store.alive()
    at, owner = spread(table["entries_at"].take(alive), table["entries_count"].take(alive))
    listed = np.flatnonzero(np.isin(entries["status"].take(at), (REFERENCED, UNREFERENCED)))
    at, segment = at.take(listed), alive.take(owner.take(listed))
    stale = list(store.stale.items())
    epoch = np.concatenate([entries["epoch"].take(at), np.array([row for (row, _, _), _ in stale], np.int32)])
    none = np.zeros(len(stale), np.int64)
    start = np.concatenate([entries["start_offset"].take(at), none])
    order = np.concatenate([entries["order"].take(at), np.array([order for _, order in stale], np.int64)])
    referenced = np.concatenate([entries["status"].take(at) == REFERENCED, none.astype(bool)])
    high = np.concatenate([table["high"].take(segment), np.array([high for (_, high, _), _ in stale], np.uint64)])
    low = np.concatenate([table["low"].take(segment), np.array([low for (_, _, low), _ in stale], np.uint64)])
    keys = store.epochs["key"].take(epoch)
    partition = keys >> 32
    leader_epoch = (keys & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    # Referenced ones by offset; of the others, those that one event superseded by descending offset.
    by = (np.where(referenced, start, ~start), np.where(referenced, 0, order), ~referenced, leader_epoch)
    rows = np.lexsort((*by, _rank(store).take(partition)))
    return {
        **_key(store, partition.take(rows)),
        "leader_epoch": leader_epoch.take(rows),
        "start_offset": pa.array(start.take(rows), mask=~referenced.take(rows)),
        "segment_id": ids_array(high.take(rows), low.take(rows)),
        "referenced": referenced.take(rows),
    }


def _epoch_highest(store: Store) -> dict[str, Any]:
    copied = np.flatnonzero(store.epochs["copied"])
    keys = store.epochs["key"].take(copied)
    leader_epoch = (keys & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    rows = np.lexsort((leader_epoch, _rank(store).take(keys >> 32)))
    return {
        **_key(store, (keys >> 32).take(rows)),
        "leader_epoch": leader_epoch.take(rows),
        "highest_offset": store.epochs["highest_offset"].take(copied.take(rows)),
    }


def _partition_deletes(store: Store) -> dict[str, Any]:
    table = store.partitions
    deleted = np.flatnonzero(table["delete_state"] != NO_DELETION)
    rows = deleted.take(np.argsort(_rank(store).take(deleted)))
    return {
        **_key(store, rows),
        "state": table["delete_state"].take(rows),
        "event_timestamp_ms": table["delete_event_timestamp_ms"].take(rows),
        "broker_id": table["delete_broker_id"].take(rows),
        "was_finished": table["was_finished"].take(rows),
    }


def _leader_epochs(store: Store, rows: Array) -> Array:
    epochs: Array = (store.epochs["key"].take(rows) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    return epochs


def _rank(store: Store) -> Array:
    """Return the place of each user partition among all."""
    table = store.partitions
    keys = pa.table(
        {
            "topic_id": ids_array(table["high"], table["low"]),
            "topic": store.topics.take(pa.array(table["topic"])),
            "partition": table["partition"],
        }
    )
    order = pc.sort_indices(keys, [(name, "ascending") for name in keys.schema.names]).to_numpy()
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    return rank


def _key(store: Store, rows: Array) -> dict[str, Any]:
    table = store.partitions
    metadata_partition = table["metadata_partition"].take(rows)
    return {
        "metadata_partition": pa.array(metadata_partition, mask=metadata_partition == NO_METADATA_PARTITION),
        "topic_id": ids_array(table["high"].take(rows), table["low"].take(rows)),
        "topic": store.topics.take(pa.array(table["topic"].take(rows))),
        "partition": table["partition"].take(rows),
    }


def ids_array(high: Array, low: Array) -> Any:
    """
    Return ids as an Arrow array of 16 bytes each.

    :param high: their first halves.
    :param low: the other halves.
    """
    offsets = np.arange(high.size + 1, dtype=np.int64) * 16
    data = np.stack([high, low], axis=1)
    # Positions in a binary array have 32 bits: enough for 128 million ids; more are refused by the cast.
    array = pa.Array.from_buffers(pa.large_binary(), high.size, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return array.cast(pa.binary())
