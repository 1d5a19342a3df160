# SPDX-License-Identifier: Apache-2.0
"""A store as one Arrow IPC stream and back, without a copy of its columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from airflow_provider_rlmm.errors import MetadataError
from airflow_provider_rlmm.metadata.columnar.decoding.layout import Array
from airflow_provider_rlmm.metadata.columnar.fold.store import DEAD, NO_DELETION, TABLES, Store

_FORMAT = {b"format": b"airflow-provider-rlmm columnar state", b"version": b"2"}
_ORDER, _TOPICS, _STALE = "next_order", "topics", "stale"
_STALE_DTYPE = np.dtype([("epoch", "i8"), ("high", "u8"), ("low", "u8"), ("order", "i8")])
_LAST_PARTITION_DELETE_STATE = 2
_LAST_STATUS = 2


def to_ipc(store: Store) -> bytes:
    """
    Return a store as bytes.

    :param store: the store.
    """
    if store.live != store.segments.size or store.dead_entries:
        store = store.rebuilt()
    columns = {f"{name}.{column}": table[column] for name, table in store.tables.items() for column in TABLES[name]}
    stale = np.array([(*key, order) for key, order in store.stale.items()], _STALE_DTYPE)
    columns |= {_STALE: stale, _ORDER: np.array([store.next_order], np.int64)}
    arrays = {name: _one_value(values) for name, values in columns.items()}
    arrays[_TOPICS] = pa.array([store.topics.to_pylist()], pa.list_(pa.string()))
    schema = pa.schema([pa.field(name, array.type) for name, array in arrays.items()], metadata=_FORMAT)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(list(arrays.values()), schema=schema))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def from_ipc(data: bytes) -> Store:
    """
    Return the store that :func:`to_ipc` has written; its columns are the given bytes until they change.

    :param data: the bytes.
    :raises MetadataError: if they are something else, or of another version.
    """
    try:
        reader = pa.ipc.open_stream(data)
        if reader.schema.metadata != _FORMAT:
            raise MetadataError(f"not a columnar state of version 2: {reader.schema.metadata}")
        store = _store_of(reader.read_next_batch())
    except (pa.ArrowException, ValueError, KeyError, IndexError, TypeError, OSError, StopIteration) as e:
        raise MetadataError(f"not a columnar state: {e}") from e
    _check(store)
    return store


def _one_value(values: Array) -> Any:
    raw = np.ascontiguousarray(values).view(np.uint8)
    offsets = np.array([0, raw.size], np.int64)
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(raw)])


def _values(batch: Any, name: str, dtype: Any) -> Array:
    _, offsets, data = batch.column(name).buffers()
    first, behind = np.frombuffer(offsets, np.int64)[:2].tolist()
    if data is None:
        return np.empty(0, dtype)
    return np.frombuffer(data, np.uint8)[first:behind].view(dtype)


def _store_of(batch: Any) -> Store:
    store = Store()
    for name, table in store.tables.items():
        table.adopt({column: _values(batch, f"{name}.{column}", dtype) for column, dtype in TABLES[name].items()})
    store.topics = batch.column(_TOPICS)[0].values
    store.next_order = int(_values(batch, _ORDER, np.int64)[0])
    stale = _values(batch, _STALE, _STALE_DTYPE).tolist()
    store.stale = {(epoch, high, low): order for epoch, high, low, order in stale}
    store.live = store.segments.size
    return store


def _check(store: Store) -> None:
    """Refuse what would lead out of the tables."""
    for name, table in store.tables.items():
        if {table.size} != {table.size_of(column) for column in TABLES[name]}:
            raise MetadataError(f"not a columnar state: the columns of {name} differ in length")
    partitions, epochs, segments, entries = store.partitions, store.epochs, store.segments, store.entries
    ranges = {
        "topic": (partitions["topic"], len(store.topics)),
        "delete_state": (partitions["delete_state"] - NO_DELETION, _LAST_PARTITION_DELETE_STATE + 2),
        "user partition of an epoch": (epochs["key"] >> 32, partitions.size),
        "user partition of a segment": (segments["user_partition"], partitions.size),
        "state": (segments["state"], DEAD),
        "entries": (segments["entries_at"], entries.size + 1),
        "end of entries": (segments["entries_at"].astype(np.int64) + segments["entries_count"], entries.size + 1),
        "end of custom metadata": (
            segments["custom_at"] + np.maximum(segments["custom_length"], 0), store.tables["custom"].size + 1,
        ),
        "custom metadata": (segments["custom_at"], store.tables["custom"].size + 1),
        "epoch of an entry": (entries["epoch"], epochs.size),
        "segment of an entry": (entries["segment"], segments.size),
        "status": (entries["status"], _LAST_STATUS + 1),
        "epoch of a stale entry": (np.array([row for row, _, _ in store.stale], np.int64), epochs.size),
    }  # fmt: skip
    for what, (values, limit) in ranges.items():
        if values.size and not (values.min() >= 0 and values.max() < limit):
            raise MetadataError(f"not a columnar state: {what} out of range")
