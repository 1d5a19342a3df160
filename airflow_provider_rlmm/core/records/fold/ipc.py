# SPDX-License-Identifier: Apache-2.0
"""A store as one Arrow IPC stream and back, a column at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_provider_rlmm.core.base.arrow_arrays import array_of
from airflow_provider_rlmm.core.base.errors import MetadataError
from airflow_provider_rlmm.core.records.decoding.layout import Array
from airflow_provider_rlmm.core.records.deletion import AbsenceObservation, PartitionDeletion
from airflow_provider_rlmm.core.records.fold.store import DEAD, NO_DELETION, NO_OFFSET, TABLES, Store, Uncertain
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState

VERSION = 8
"""Of the fold: a state that another version has made may mean something else."""

_FORMAT = {b"format": b"airflow-provider-rlmm columnar state", b"version": str(VERSION).encode()}
_SCHEMA = pa.schema([("name", pa.string()), ("values", pa.large_binary())], metadata=_FORMAT)
_SMALL: dict[str, Any] = {
    "counters": np.dtype([("next_event", "i8"), ("live", "i8"), ("keep_finished", "u1")]),
    "deletions": np.dtype([("row", "i8"), ("state", "i1"), ("unsettled_marker_offset", "i8")]),
    "observations": np.dtype([("row", "i8"), ("offset", "i8"), ("time_ms", "i8"), ("bounded", "u1")]),
    "unresolved": np.dtype(
        [
            ("row", "i8"),
            ("high", "u8"),
            ("low", "u8"),
            ("offset", "i8"),
            ("without_add", "u1"),
            ("for_good", "u1"),
            ("finished_known", "u1"),
        ]
    ),
}
_UNDER_WAY = (RemotePartitionDeleteState.DELETE_PARTITION_MARKED, RemotePartitionDeleteState.DELETE_PARTITION_STARTED)
_LAST_PARTITION_DELETE_STATE = max(RemotePartitionDeleteState)


def write_ipc(store: Store, sink: Any, *, keep_finished: bool) -> None:
    """
    Write a store as a stream, of which each batch is one column: it takes the memory of the largest column, not of the store.

    :param store: the store, which does not change.
    :param sink: where to: an Arrow stream, or a file of Python.
    :param keep_finished: whether finished segments, where they were kept, go with it.
    """
    with pa.ipc.new_stream(sink, _SCHEMA) as writer:
        for name, values in _columns(store, keep_finished):
            writer.write_batch(
                pa.RecordBatch.from_arrays([array_of([name], pa.string()), _one_value(values)], schema=_SCHEMA)
            )


def _columns(store: Store, keep_finished: bool) -> Iterator[tuple[str, Array]]:
    counters = (store.next_event, store.live, keep_finished)
    for name, rows in _small_tables(store, counters).items():
        yield name, np.array(list(rows), _SMALL[name])
    topics = [topic.encode() for topic in store.topics.to_pylist()]
    yield "topics.ends", np.cumsum([0, *map(len, topics)], dtype=np.int32)
    yield "topics.text", np.frombuffer(b"".join(topics), np.uint8)
    yield from store.columns(keep_finished=keep_finished)


def _small_tables(store: Store, counters: tuple[int, int, bool]) -> dict[str, Iterator[tuple[Any, ...]]]:
    deletions = store.deletions.items()
    return {
        "counters": iter([counters]),
        "deletions": (
            (row, d.delete_state, NO_OFFSET if d.unsettled_marker_offset is None else d.unsettled_marker_offset)
            for row, d in deletions
        ),
        "observations": ((row, o.offset, o.time_ms, o.bounded) for row, d in deletions for o in d.observations),
        "unresolved": ((*key, *uncertain) for key, uncertain in store.unresolved.items()),
    }


def from_ipc(source: Any) -> Store:
    """
    Return the store that :func:`write_ipc` has written.

    :param source: its bytes, which the columns lie in until they change, or a file, of which each column takes memory of its
        own.
    :raises MetadataError: if it is something else, of another version, or a state that no replay leads to.
    """
    try:
        reader = pa.ipc.open_stream(source)
        if reader.schema != _SCHEMA or reader.schema.metadata != _FORMAT:
            raise MetadataError(f"not a columnar state of version {VERSION}: {reader.schema.metadata}")
        return _store_of(dict(_named(batch) for batch in reader))
    except (
        pa.ArrowException,
        ValueError,
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
        OSError,
        StopIteration,
    ) as e:
        raise MetadataError(f"not a columnar state: {e}") from e


def _named(batch: Any) -> tuple[str, Array]:
    """Return the name of a column, and its bytes."""
    batch.validate(full=True)
    if batch.num_rows != 1 or any(column.null_count for column in batch.columns):
        raise MetadataError("not a columnar state: a column is not of one value")
    _, offsets, data = batch.column("values").buffers()
    first, behind = np.frombuffer(offsets, np.int64)[:2].tolist()
    raw = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[first:behind]
    return batch.column("name")[0].as_py(), raw


def _one_value(values: Array) -> Any:
    raw = np.ascontiguousarray(values).view(np.uint8)
    offsets = np.array([0, raw.size], np.int64)
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(raw)])


def _store_of(columns: dict[str, Array]) -> Store:
    [counters] = columns["counters"].view(_SMALL["counters"])
    store = Store(keep_finished=bool(counters["keep_finished"]))
    store.next_event, store.live = int(counters["next_event"]), int(counters["live"])
    for name, table in store.tables.items():
        table.adopt({column: columns[f"{name}.{column}"].view(dtype) for column, dtype in TABLES[name].items()})
    ends = columns["topics.ends"].view(np.int32)
    if not ends.size:
        raise MetadataError("not a columnar state: its topics have no ends")
    text = [None, pa.py_buffer(ends), pa.py_buffer(columns["topics.text"])]
    store.topics = pa.Array.from_buffers(pa.string(), ends.size - 1, text)
    store.topics.validate(full=True)
    _check(store)
    _adopt_deletions(store, columns["deletions"].view(_SMALL["deletions"]))
    for row, offset, time_ms, bounded in _rows_of(store, columns["observations"].view(_SMALL["observations"])):
        store.deletions[row].observations.append(AbsenceObservation(offset, time_ms, bool(bounded)))
    for row, high, low, offset, *said in _rows_of(store, columns["unresolved"].view(_SMALL["unresolved"])):
        store.unresolved[row, high, low] = Uncertain(offset, *map(bool, said))
    return store


def _adopt_deletions(store: Store, deletions: Array) -> None:
    for row, state, offset in _rows_of(store, deletions):
        marker = None if offset == NO_OFFSET else offset
        store.deletions[row] = PartitionDeletion(
            delete_state=RemotePartitionDeleteState(state), unsettled_marker_offset=marker
        )
        if store.deletions[row].delete_state not in _UNDER_WAY:
            raise MetadataError("not a columnar state: a deletion that is finished is under way")


def _rows_of(store: Store, values: Array) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a small table, each of a user partition that is there."""
    rows = values["row"]
    if rows.size and not (rows.min() >= 0 and rows.max() < store.partitions.size):
        raise MetadataError("not a columnar state: user partition out of range")
    yield from values.tolist()


def _check(store: Store) -> None:
    """Refuse what would lead out of the tables, or what the tables cannot hold."""
    for name, table in store.tables.items():
        if {table.size} != {table.size_of(column) for column in TABLES[name]}:
            raise MetadataError(f"not a columnar state: the columns of {name} differ in length")
    partitions, segments = store.partitions, store.segments
    epochs, custom = store.tables["epochs"].size, store.tables["custom"].size
    lengths = np.maximum(segments["custom_length"], 0).astype(np.int64)
    counts = segments["epochs_count"].astype(np.int64)
    ranges = {
        "topic": (partitions["topic"], len(store.topics)),
        "delete_state": (partitions["delete_state"].astype(int) - NO_DELETION, _LAST_PARTITION_DELETE_STATE + 2),
        "was_finished": (partitions["was_finished"].view(np.uint8), 2),
        "user partition of a segment": (segments["user_partition"], partitions.size),
        "state": (segments["state"], DEAD + store.keep_finished),
        "txn_idx_empty": (segments["txn_idx_empty"].view(np.uint8), 2),
        "leader epochs": (segments["epochs_at"], epochs + 1),
        "number of leader epochs": (counts, epochs + 1),
        "custom metadata": (segments["custom_at"], custom + 1),
        "length of custom metadata": (lengths, custom + 1),
    }
    for what, (values, limit) in ranges.items():
        if values.size and not (values.min() >= 0 and values.max() < limit):
            raise MetadataError(f"not a columnar state: {what} out of range")
    # No replay lets two segments share a run, so all runs together fit into the columns.
    for what, at, size, limit in (
        ("leader epochs", segments["epochs_at"], counts, epochs),
        ("custom metadata", segments["custom_at"], lengths, custom),
    ):
        if size.sum() > limit or (at + size > limit).any():
            raise MetadataError(f"not a columnar state: {what} out of range")
    if store.live != int((segments["state"] != DEAD).sum()) or store.next_event < 0:
        raise MetadataError("not a columnar state: its counters do not fit it")
