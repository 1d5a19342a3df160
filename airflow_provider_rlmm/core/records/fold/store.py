# SPDX-License-Identifier: Apache-2.0
"""
What a columnar state holds, as growing numpy columns.

Two tables have rows that others refer to: user partitions and segments. A segment refers to its user partition, to a run of
leader epochs and to a run of bytes, its custom metadata. A row of a segment that is finished stays, dead, until the store is
rebuilt without it; so do runs that a later announcement of the segment replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, numpy_of
from airflow_provider_rlmm.core.records.decoding.layout import Array
from airflow_provider_rlmm.core.records.deletion import PartitionDeletion
from airflow_provider_rlmm.core.records.fold.index import HashIndex, hash_of, spread, starts_of
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState

NO_OFFSET = -1
NO_METADATA_PARTITION = int(np.iinfo(np.int32).min)
NO_DELETION = -1
_LOOKED_AT_BITS = 16
DEAD = int(RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)

TABLES: dict[str, dict[str, str]] = {
    "partitions": {
        "high": "u8",
        "low": "u8",
        "partition": "i4",
        "topic": "i4",
        "metadata_partition": "i4",
        "first_offset": "i8",
        "last_foreign_offset": "i8",
        "finished_segments": "i8",
        "copying_offset": "i8",
        "copying_event_timestamp_ms": "i8",
        "copying_high": "u8",
        "copying_low": "u8",
        "delete_state": "i1",
        "delete_offset": "i8",
        "delete_event_timestamp_ms": "i8",
        "delete_broker_id": "i4",
        "was_finished": "?",
    },
    "segments": {
        "high": "u8",
        "low": "u8",
        "user_partition": "i4",
        "added_offset": "i8",
        "event_offset": "i8",
        "start_offset": "i8",
        "end_offset": "i8",
        "max_timestamp_ms": "i8",
        "broker_id": "i4",
        "event_timestamp_ms": "i8",
        "segment_size_in_bytes": "i4",
        "state": "i1",
        "txn_idx_empty": "?",
        "broker_leader_epoch": "i4",
        "epochs_at": "i8",
        "epochs_count": "i4",
        "custom_at": "i8",
        "custom_length": "i4",
    },
    "epochs": {"leader_epoch": "i4", "start_offset": "i8"},
    "custom": {"byte": "u1"},
}
"""
Columns and their types.

``partitions.first_offset`` is where a reader finds all that is about the user partition; ``copying_offset`` and its
neighbours are the first event that began a copy since one was last finished; ``delete_state`` and its neighbours are the last
deletion event, effective or not; ``was_finished`` outlives a marker that opens the user partition again, as such a
marker does not give a broker that serves it the cache back. ``segments.added_offset`` is the offset of the event that opened
the segment's life, ``event_offset`` of the last one that was applied.
"""

_TOLERATED = 1 << 12
"""So many dead rows are never worth a rebuild, nor 32 times as many bytes of custom metadata."""
_INDEXED_AT_ONCE = 1 << 16
_COPIED_AT_ONCE = 1 << 16
"""Segments whose runs are copied at once: where the elements of runs lie takes more memory than they do."""
_EPOCHS = tuple(TABLES["epochs"])
_LOADS = {"partitions": 1 / 8, "segments": 1 / 2}
"""How full indexes may be: user partitions are few, and every event looks for one."""
_CODES = {"partitions": "partition", "segments": "user_partition"}

SegmentKey = tuple[int, int, int]
"""Row of the user partition, first and other half of the segment's id."""


class Uncertain(NamedTuple):
    """Why the state of a segment is not certain."""

    offset: int  # of the last event that says so
    without_add: bool  # whether an update came without its add
    for_good: bool  # whether nothing can make it certain
    finished_known: bool  # whether the finished segments were known then, so that it is certain to be none of them


def _with_room(size: int) -> int:
    # The room to grow is memory, too: malloc hands out pages that were used before.
    return max(size + size // 4, 64)


class Columns:
    """
    Columns of one length that grow.

    :param name: the table's name in :data:`TABLES`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.size = 0
        self._arrays: dict[str, Array] = {column: np.empty(0, dtype) for column, dtype in TABLES[name].items()}

    def __getitem__(self, column: str) -> Array:
        return self._arrays[column][: self.size]

    def size_of(self, column: str) -> int:
        """Return how many values a column has room for."""
        return int(self._arrays[column].size)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return sum(array.itemsize for array in self._arrays.values()) * self.size

    def adopt(self, arrays: dict[str, Array]) -> None:
        """
        Take over whole columns; they may be read-only.

        :param arrays: one per column, of one length.
        """
        self._arrays = arrays
        self.size = next(iter(arrays.values())).size

    def append(self, count: int, values: dict[str, Any]) -> Array:
        """
        Add rows and return their numbers.

        :param count: how many.
        :param values: an array or one value per column.
        """
        rows = self.grow(count)
        if count:
            for column, array in self._arrays.items():
                array[rows] = values[column]
        return np.arange(rows.start, rows.stop)

    def grow(self, count: int) -> slice:
        """
        Add rows that say nothing until they are written, and return where they are.

        :param count: how many.
        """
        before, self.size = self.size, self.size + count
        for column, array in self._arrays.items():
            if array.size < self.size:
                self._arrays[column] = np.empty(_with_room(self.size), array.dtype)
                self._arrays[column][:before] = array[:before]
        return slice(before, self.size)

    def write(self, column: str, rows: Array | slice, values: Any) -> None:
        """
        Change rows; of several values for one row the last one stays.

        :param column: the column.
        :param rows: numbers of the rows, or a range of them.
        :param values: an array or one value.
        """
        array = self._arrays[column]
        if not array.flags.writeable:
            self._arrays[column] = array = array.copy()
        array[rows] = values

    def taken(self, rows: Array) -> Columns:
        """
        Return an independent copy of some rows, with room to grow.

        :param rows: numbers of the rows.
        """
        taken = Columns(self.name)
        taken._arrays = {column: np.empty(_with_room(rows.size), array.dtype) for column, array in self._arrays.items()}
        taken.size = rows.size
        for column in self._arrays:
            # The rows exist; the other modes take them into an array of their own first.
            np.take(self[column], rows, out=taken[column], mode="clip")
        return taken


class Store:
    """
    The contents of a state; the caller that changes it owns it.

    :param keep_finished: keep a row for every finished segment.
    """

    def __init__(self, *, keep_finished: bool = False) -> None:
        self.keep_finished = keep_finished
        self.tables = {name: Columns(name) for name in TABLES}
        self.topics: Any = array_of([], pa.string())
        self.next_event = 0
        """Numbers the events where it is not said at which offsets they lie."""
        self.live = 0
        self.deletions: dict[int, PartitionDeletion] = {}
        """Row of the user partition → its deletion, where that is under way."""
        self.unresolved: dict[SegmentKey, Uncertain] = {}
        """The segments that are not certain."""
        self._indexes: dict[str, HashIndex] = {}

    @property
    def partitions(self) -> Columns:
        """User partitions."""
        return self.tables["partitions"]

    @property
    def segments(self) -> Columns:
        """Segments, dead ones among them."""
        return self.tables["segments"]

    @property
    def nbytes(self) -> int:
        """Bytes in use, indexes included."""
        tables = sum(table.nbytes for table in self.tables.values())
        return tables + int(self.topics.nbytes) + sum(index.nbytes for index in self._indexes.values())

    def alive(self) -> Array:
        """Return the rows of the segments that are not finished."""
        return np.flatnonzero(self.segments["state"] != DEAD)

    def index(self, name: str, more: int = 0) -> HashIndex:
        """
        Return the index of a table; it is built when it is first needed.

        :param name: ``partitions`` or ``segments``.
        :param more: how many rows are going to be inserted.
        """
        index, size = self._indexes.get(name), self.tables[name].size
        if index is None or not index.has_room(more):
            index = self._indexes[name] = HashIndex(size + size // 2 + more, _LOADS[name])
            hashes = np.empty(size, np.uint64)
            for at in range(0, size, _INDEXED_AT_ONCE):
                rows = slice(at, min(at + _INDEXED_AT_ONCE, size))
                hashes[rows] = self._hashes(name, rows)
            index.insert(hashes, np.arange(size))
        return index

    def append_partitions(self, count: int, values: dict[str, Any]) -> Array:
        """
        Add user partitions, to their index too, and return their rows.

        :param count: how many.
        :param values: an array or one value per column.
        """
        index = self.index("partitions", count)
        rows = self.partitions.append(count, values)
        index.insert(self._hashes("partitions", slice(self.partitions.size - count, self.partitions.size)), rows)
        return rows

    def may_be_uncertain(self, low: Array) -> Array:
        """
        Return which of some segments have to be looked at, as their state may be uncertain: few others are among them.

        :param low: the lower halves of the segments' ids.
        """
        # A few bits of an id only say which ones to look at.
        bits = np.uint64((1 << max(_LOOKED_AT_BITS, len(self.unresolved).bit_length() + 4)) - 1)
        is_looked_at = np.zeros(int(bits) + 1, bool)
        is_looked_at[np.array([key[2] for key in self.unresolved], np.uint64) & bits] = True
        return np.flatnonzero(is_looked_at.take((low & bits).view(np.int64)))

    def are_uncertain(self, user_partition: Array, high: Array, low: Array) -> Array:
        """
        Tell of segments whether their state is uncertain; one by one, so of few.

        :param user_partition: the rows of their user partitions.
        :param high: one half of their ids.
        :param low: the other.
        """
        keys = zip(user_partition.tolist(), high.tolist(), low.tolist(), strict=True)
        return np.fromiter((key in self.unresolved for key in keys), bool, low.size)

    def topic_numbers(self, topics: Any) -> Array:
        """
        Return where topics lie in :attr:`topics`, which holds each name once; unknown ones are added.

        :param topics: their names, an Arrow array.
        """
        unknown = pc.unique(topics.filter(pc.invert(pc.is_in(topics, value_set=self.topics))))
        if len(unknown):
            self.topics = pa.concat_arrays([self.topics, unknown])
        return numpy_of(pc.index_in(topics, value_set=self.topics))

    def _hashes(self, name: str, rows: slice) -> Array:
        table = self.tables[name]
        return hash_of(table["high"][rows], table["low"][rows], table[_CODES[name]][rows])

    def is_wasteful(self) -> bool:
        """Tell whether so much is dead that a rebuilt store is worth its cost."""
        segments, custom, epochs = self.segments, self.tables["custom"].size, self.tables["epochs"].size
        dead = 0 if self.keep_finished else segments.size - self.live
        used_custom = segments["custom_length"].sum() if custom > 32 * _TOLERATED else 0
        used_epochs = segments["epochs_count"].sum() if epochs > _TOLERATED else 0
        return bool(
            dead > self.live // 2 + _TOLERATED
            or custom > 3 * used_custom + 32 * _TOLERATED
            or epochs > 3 * used_epochs + _TOLERATED
        )

    def rebuilt(self, *, keep_finished: bool) -> Store:
        """
        Return a store of the same contents without what is dead; this one is spent.

        :param keep_finished: whether finished segments, where they were kept, are kept on.
        """
        store = Store(keep_finished=keep_finished)
        store.tables["partitions"], store.topics = self.partitions, self.topics
        store.next_event, store.live = self.next_event, self.live
        store.deletions, store.unresolved = self.deletions, self.unresolved
        if "partitions" in self._indexes:
            store._indexes["partitions"] = self._indexes["partitions"]
        segments = store.tables["segments"] = self.segments if keep_finished else self.segments.taken(self.alive())
        if keep_finished and "segments" in self._indexes:
            store._indexes["segments"] = self._indexes["segments"]
        epochs = {column: self._epochs(column, segments["epochs_at"], segments["epochs_count"]) for column in _EPOCHS}
        store.tables["epochs"].adopt(epochs)
        custom_at, custom = self._custom(segments["custom_at"], segments["custom_length"])
        store.tables["custom"].adopt({"byte": custom})
        every = slice(0, segments.size)
        segments.write("epochs_at", every, starts_of(segments["epochs_count"]))
        segments.write("custom_at", every, custom_at)
        return store

    def columns(self, *, keep_finished: bool) -> Iterator[tuple[str, Array]]:
        """
        Yield the columns of all tables as :meth:`rebuilt` would leave them, each by the names of its table and its own; this
        store does not change, and of what is yielded only one column at a time is a copy.

        :param keep_finished: whether finished segments, where they were kept, are among them.
        """
        for column in TABLES["partitions"]:
            yield f"partitions.{column}", self.partitions[column]
        kept = None if keep_finished else self.alive()

        def of_kept(column: str) -> Array:
            values = self.segments[column]
            return values if kept is None else values.take(kept)

        for column in TABLES["segments"]:
            if column not in ("epochs_at", "custom_at"):
                yield f"segments.{column}", of_kept(column)
        yield "segments.epochs_at", starts_of(of_kept("epochs_count"))
        for column in _EPOCHS:
            yield f"epochs.{column}", self._epochs(column, of_kept("epochs_at"), of_kept("epochs_count"))
        custom_at, custom = self._custom(of_kept("custom_at"), of_kept("custom_length"))
        yield "segments.custom_at", custom_at
        del custom_at
        yield "custom.byte", custom

    def _epochs(self, column: str, at: Array, count: Array) -> Array:
        """Return a column of the leader epochs of segments, one run after the other."""
        values = self.tables["epochs"][column]
        found, size = np.empty(int(count.sum(dtype=np.int64)), values.dtype), 0
        for first in range(0, at.size, _COPIED_AT_ONCE):
            some = slice(first, first + _COPIED_AT_ONCE)
            positions, _ = spread(at[some], count[some])
            np.take(values, positions, out=found[size : size + positions.size], mode="clip")
            size += positions.size
        return found

    def _custom(self, at: Array, length: Array) -> tuple[Array, Array]:
        """Return where the custom metadata of segments lies when no gaps are left, and its bytes."""
        given = np.flatnonzero(length > 0)
        given = given.take(np.argsort(at.take(given), kind="stable"))
        place = np.zeros(at.size, np.int64)
        place[given] = starts_of(length.take(given))
        found, size = np.empty(int(length.take(given).sum(dtype=np.int64)), np.uint8), 0
        for first in range(0, given.size, _COPIED_AT_ONCE):
            some = given[first : first + _COPIED_AT_ONCE]
            copied = self.custom_bytes(at.take(some), length.take(some))
            found[size : size + copied.size] = copied
            size += copied.size
        return place, found

    def custom_bytes(self, at: Array, length: Array) -> Array:
        """
        Return custom metadata of segments, one after the other.

        :param at: where it begins.
        :param length: how many bytes it has, at least one.
        """
        if not at.size:
            return np.empty(0, np.uint8)
        order = np.argsort(at, kind="stable")
        begin = at.take(order)
        # Arrow copies strings faster than numpy copies bytes: every other one of these is wanted, in between lie gaps.
        ends = np.stack([begin, begin + length.take(order)], axis=1).ravel()
        data = [None, pa.py_buffer(ends), pa.py_buffer(self.tables["custom"]["byte"])]
        strings = pa.Array.from_buffers(pa.large_binary(), ends.size - 1, data)
        number = np.empty_like(order)
        number[order] = np.arange(0, ends.size, 2)
        taken = strings.take(array_of(number)).buffers()[2]
        return np.frombuffer(taken, np.uint8, int(length.sum(dtype=np.int64)))
