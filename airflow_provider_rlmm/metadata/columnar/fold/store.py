# SPDX-License-Identifier: Apache-2.0
"""
What a columnar state holds, as growing numpy columns, with a log that leads back to the state before.

Four tables refer to each other by row: user partitions, leader epochs (of one user partition), segments, and entries
(one per segment and leader epoch of it; those of a segment lie side by side). A row of a segment that is gone stays,
dead, until the store is rebuilt without it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_provider_rlmm.metadata.columnar.decoding.layout import Array
from airflow_provider_rlmm.metadata.columnar.fold.index import HashIndex, hash_of, hash_of_number
from airflow_provider_rlmm.metadata.columnar.fold.runs import order_of, spread, starts_of
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState

NONE = np.iinfo(np.int64).min
"""Stands for "no offset yet"."""

NO_METADATA_PARTITION = int(np.iinfo(np.int32).min)
NO_DELETION = -1
DEAD = int(RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)

UNREFERENCED, REFERENCED, UNLISTED = range(3)
"""Status of an entry; an unlisted one lost its place to a segment with the same start offset."""

TABLES: dict[str, dict[str, str]] = {
    "partitions": {
        "high": "u8",
        "low": "u8",
        "partition": "i4",
        "topic": "i4",
        "metadata_partition": "i4",
        "delete_state": "i1",
        "delete_event_timestamp_ms": "i8",
        "delete_broker_id": "i4",
        "was_finished": "?",
    },
    "epochs": {"key": "i8", "highest_offset": "i8", "copied": "?", "largest_start": "i8", "ordered": "?"},
    "segments": {
        "high": "u8",
        "low": "u8",
        "user_partition": "i4",
        "order": "i8",
        "start_offset": "i8",
        "end_offset": "i8",
        "max_timestamp_ms": "i8",
        "broker_id": "i4",
        "event_timestamp_ms": "i8",
        "segment_size_in_bytes": "i4",
        "state": "i1",
        "txn_idx_empty": "?",
        "entries_at": "i4",
        "entries_count": "i4",
        "custom_at": "i8",
        "custom_length": "i4",
    },
    "entries": {"epoch": "i4", "segment": "i4", "start_offset": "i8", "status": "i1", "order": "i8"},
    "custom": {"byte": "u1"},
}
"""
Columns and their types.

``partitions.was_finished`` outlives a marker that opens the user partition again: another marker does not give a broker
that serves it the cache back. ``epochs.key`` is the user partition's row in its upper and the leader epoch in its lower
half; ``copied`` says that there is a highest offset, which may be the smallest of all numbers; ``largest_start`` is at
least every start offset that is referenced; ``ordered`` says that the referenced segments end in the order in which
they start. ``order`` numbers events: for segments their first one, for entries the one that unreferenced them.
"""

_TOLERATED = 1 << 12
"""So many dead rows are never worth a rebuild, nor 32 times as many bytes of custom metadata."""
_INDEXED_AT_ONCE = 1 << 16
_LOADS = {"partitions": 1 / 8, "epochs": 1 / 2, "segments": 1 / 2}
"""How full indexes may be: user partitions are few, and every event looks for one."""


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
        self.log: list[tuple[str, str, Array, Array]] | None = None

    def __getitem__(self, column: str) -> Array:
        return self._arrays[column][: self.size]

    def size_of(self, column: str) -> int:
        """
        Return how many values a column has room for.

        :param column: the column.
        """
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

    def append(self, count: int, values: dict[str, Any]) -> None:
        """
        Add rows.

        :param count: how many.
        :param values: an array or one value per column.
        """
        if not count:
            return
        before, self.size = self.size, self.size + count
        for column, array in list(self._arrays.items()):
            if array.size < self.size:
                self._arrays[column] = np.empty(_with_room(self.size), array.dtype)
                self._arrays[column][:before] = array[:before]
            self._arrays[column][before : self.size] = values[column]

    def write(self, column: str, rows: Array, values: Any) -> None:
        """
        Change rows, and log what they held.

        :param column: the column.
        :param rows: numbers of the rows.
        :param values: an array or one value.
        """
        array = self._arrays[column]
        if not array.flags.writeable:
            self._arrays[column] = array = array.copy()
        if self.log is not None:
            self.log.append((self.name, column, rows, array.take(rows)))
        array[rows] = values

    def copy(self) -> Columns:
        """Return an independent copy, without a log."""
        copied = Columns(self.name)
        copied.adopt({column: self[column].copy() for column in self._arrays})
        return copied

    def taken(self, rows: Array) -> Columns:
        """
        Return an independent copy of some rows, with room to grow and without a log.

        :param rows: numbers of the rows.
        """
        taken = Columns(self.name)
        taken._arrays = {column: np.empty(_with_room(rows.size), array.dtype) for column, array in self._arrays.items()}
        taken.size = rows.size
        for column in self._arrays:
            # The rows exist; the other modes take them into an array of their own first.
            np.take(self[column], rows, out=taken[column], mode="clip")
        return taken


@dataclass(frozen=True, slots=True)
class Undo:
    """
    Leads back to how a store was.

    :param sizes: sizes of its tables.
    :param counters: its other attributes.
    :param log: what changed, in order: table, column, rows, values before.
    """

    sizes: dict[str, int]
    counters: dict[str, Any]
    log: list[tuple[str, str, Array, Array]] = field(default_factory=list)


_COUNTERS = ("topics", "next_order", "live", "dead_entries", "stale")


class Store:
    """The contents of a state; whoever changes it owns it."""

    def __init__(self) -> None:
        self.tables = {name: Columns(name) for name in TABLES}
        self.topics: Any = pa.array([], pa.string())
        self.next_order = 0
        self.live = 0
        self.dead_entries = 0
        # Entries that outlived their segment's epochs: {(epoch's row, high, low): order}; replaced, never changed.
        self.stale: dict[tuple[int, int, int], int] = {}
        self._indexes: dict[str, HashIndex] = {}

    @property
    def partitions(self) -> Columns:
        """User partitions."""
        return self.tables["partitions"]

    @property
    def epochs(self) -> Columns:
        """Leader epochs."""
        return self.tables["epochs"]

    @property
    def segments(self) -> Columns:
        """Segments, dead ones among them."""
        return self.tables["segments"]

    @property
    def entries(self) -> Columns:
        """Entries."""
        return self.tables["entries"]

    @property
    def nbytes(self) -> int:
        """Bytes in use, indexes included."""
        tables = sum(table.nbytes for table in self.tables.values())
        return tables + int(self.topics.nbytes) + sum(index.nbytes for index in self._indexes.values())

    def begin(self) -> Undo:
        """Log all changes from now on."""
        undo = Undo(
            {name: table.size for name, table in self.tables.items()}, {name: getattr(self, name) for name in _COUNTERS}
        )
        for table in self.tables.values():
            table.log = undo.log
        return undo

    def commit(self) -> None:
        """End the log."""
        for table in self.tables.values():
            table.log = None

    def revert(self, undo: Undo) -> None:
        """
        Go back.

        :param undo: the log of the latest changes.
        """
        self.commit()
        for name, column, rows, values in reversed(undo.log):
            self.tables[name].write(column, rows, values)
        for name, size in undo.sizes.items():
            self.tables[name].size = size
        for name, value in undo.counters.items():
            setattr(self, name, value)
        self._indexes = {}

    def copy(self) -> Store:
        """Return an independent copy, without indexes."""
        copied = Store()
        copied.tables = {name: table.copy() for name, table in self.tables.items()}
        for name in _COUNTERS:
            setattr(copied, name, getattr(self, name))
        return copied

    def alive(self) -> Array:
        """Return the rows of the segments that are not finished."""
        return np.flatnonzero(self.segments["state"] != DEAD)

    def index(self, name: str, more: int = 0) -> HashIndex:
        """
        Return the index of a table; it is built when it is first needed.

        :param name: ``partitions``, ``epochs`` or ``segments``.
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

    def append(self, name: str, count: int, values: dict[str, Any]) -> Array:
        """
        Add rows to a table and to its index, and return their numbers.

        :param name: ``partitions``, ``epochs`` or ``segments``.
        :param count: how many.
        :param values: an array or one value per column.
        """
        index, table = self.index(name, count), self.tables[name]
        table.append(count, values)
        rows = slice(table.size - count, table.size)
        numbers = np.arange(rows.start, rows.stop)
        index.insert(self._hashes(name, rows), numbers)
        return numbers

    def _hashes(self, name: str, rows: slice) -> Array:
        table = self.tables[name]
        if name == "epochs":
            return hash_of_number(table["key"][rows])
        code = "partition" if name == "partitions" else "user_partition"
        return hash_of(table["high"][rows], table["low"][rows], table[code][rows])

    def epoch_rows(self, keys: Array) -> Array:
        """
        Return the rows of leader epochs; unknown ones are added.

        :param keys: as in the table.
        """
        order = order_of(keys)
        ordered = keys.take(order)
        is_new = np.ones(keys.size, dtype=bool)
        is_new[1:] = ordered[1:] != ordered[:-1]
        rows = np.empty(keys.size, np.int64)
        rows[order] = self._rows_of_distinct(ordered.take(np.flatnonzero(is_new))).take(np.cumsum(is_new) - 1)
        return rows

    def _rows_of_distinct(self, keys: Array) -> Array:
        known = self.epochs["key"]

        def same(asked: Array, row: Array) -> Array:
            equal: Array = known.take(row) == keys.take(asked)
            return equal

        rows = self.index("epochs").find(hash_of_number(keys), same)
        missing = np.flatnonzero(rows < 0)
        values = {"highest_offset": NONE, "copied": False, "largest_start": NONE, "ordered": True}
        rows[missing] = self.append("epochs", missing.size, {"key": keys.take(missing), **values})
        return rows

    def is_wasteful(self) -> bool:
        """Tell whether so many rows are dead that a rebuilt store is worth its cost."""
        dead = self.segments.size - self.live
        return dead > self.live // 2 + _TOLERATED or self._wasted_elsewhere()

    def _wasted_elsewhere(self) -> bool:
        entries, custom = self.entries.size, self.tables["custom"].size
        used = self.segments["custom_length"].sum() if custom > 32 * _TOLERATED else 0
        return self.dead_entries > entries // 2 + _TOLERATED or custom > 3 * used + 32 * _TOLERATED

    def rebuilt(self) -> Store:
        """Return an independent store of the same contents without dead rows."""
        store = self.copy_of_small_tables()
        alive = self.alive()
        segments = store.tables["segments"] = self.segments.taken(alive)
        at, owner = spread(segments["entries_at"], segments["entries_count"])
        store.tables["entries"] = self.entries.taken(at)
        store.entries["segment"][:] = owner
        segments["entries_at"][:] = starts_of(segments["entries_count"])
        self._copy_custom(store)
        store.live, store.dead_entries = alive.size, 0
        return store

    def _copy_custom(self, store: Store) -> None:
        """Give a store the custom metadata of its segments, which still say where it is here."""
        segments = store.segments
        given = np.flatnonzero(segments["custom_length"] > 0)
        given = given.take(np.argsort(segments["custom_at"].take(given)))
        at, lengths = segments["custom_at"].take(given), segments["custom_length"].take(given)
        # Arrow copies strings faster than numpy copies bytes: every other one of these is wanted, in between lie gaps.
        ends = np.stack([at, at + lengths], axis=1).ravel()
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(self.tables["custom"]["byte"])]
        strings = pa.Array.from_buffers(pa.large_binary(), max(ends.size - 1, 0), buffers)
        data = strings.take(pa.array(np.arange(0, ends.size, 2))).buffers()[2]
        used = int(lengths.sum())
        store.tables["custom"].adopt({"byte": np.frombuffer(data, np.uint8, used) if used else np.empty(0, np.uint8)})
        segments["custom_at"][:] = 0
        segments["custom_at"][given] = starts_of(lengths)

    def copy_of_small_tables(self) -> Store:
        """Return a store with the same user partitions and leader epochs and no segments."""
        store = Store()
        for name in ("partitions", "epochs"):
            store.tables[name] = self.tables[name].copy()
        for name in _COUNTERS:
            setattr(store, name, getattr(self, name))
        store._indexes = {name: index.copy() for name, index in self._indexes.items() if name != "segments"}
        return store
