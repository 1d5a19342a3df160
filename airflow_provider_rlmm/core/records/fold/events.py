# SPDX-License-Identifier: Apache-2.0
"""The events of a decoded batch as numpy arrays, and the rows of their user partitions in a store."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, binary_buffers, filled, numpy_of
from airflow_provider_rlmm.core.records.decoding.layout import Array
from airflow_provider_rlmm.core.records.fold.index import hash_of
from airflow_provider_rlmm.core.records.fold.store import NO_DELETION, NO_METADATA_PARTITION, NO_OFFSET, Store
from airflow_provider_rlmm.core.records.outcomes import APPLIED_CODES, ErrorCode
from airflow_provider_rlmm.core.records.serde import PARTITION_DELETE_API_KEY

_FIRST_LOOK = 4096
_AT_ONCE = 1 << 15  # what is compared at once stays in the processor's cache


class Events:
    """The rows of a decoded batch that are applied, in their order."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch
        self.error_code = numpy_of(batch.column("error_code"))
        applied = self.error_code == ErrorCode.GOOD
        for code in APPLIED_CODES - {ErrorCode.GOOD}:
            applied |= self.error_code == code
        self.rows = np.flatnonzero(applied)
        self._all = self.rows.size == batch.num_rows
        self.api_key = self.column("api_key")
        self.state = self.column("state")
        self.is_deletion = self.api_key == PARTITION_DELETE_API_KEY

    @property
    def size(self) -> int:
        """How many they are."""
        return int(self.rows.size)

    def column(self, name: str) -> Array:
        """Return a column of numbers; where it is null, anything."""
        values = numpy_of(self.batch.column(name))
        return values if self._all else values.take(self.rows)

    def ids(self, name: str) -> Array:
        """
        Return ids as rows of two 64-bit numbers; zeros where an id is null.

        :raises ValueError: if an id is not 16 bytes long.
        """
        column = self.batch.column(name)
        offsets, data = binary_buffers(column)
        length = np.diff(offsets)
        if ((length != 16) & (length != 0)).any():
            raise ValueError(f"an id in {name} is not 16 bytes long")
        words = data[int(offsets[0]) : int(offsets[-1])].view(np.uint64).reshape(-1, 2)
        if not column.null_count and self._all:
            return words
        if words.size == 0:
            return np.zeros((self.size, 2), np.uint64)
        at = np.minimum((offsets[:-1].astype(np.int64) - int(offsets[0])) // 16, len(words) - 1).take(self.rows)
        words = words.take(at, axis=0)
        words[length.take(self.rows) == 0] = 0
        return words

    def topics(self) -> Any:
        """Return the topics, an Arrow array."""
        topics = self.batch.column("topic")
        return topics if self._all else topics.take(array_of(self.rows))

    def offsets(self, next_event: int) -> Array:
        """Return the offsets; where none are given, the events are numbered, from ``next_event`` on."""
        column = self.batch.column("offset") if "offset" in self.batch.schema.names else None
        if column is None or column.null_count:
            return np.arange(next_event, next_event + self.size)
        return self.column("offset")

    def timestamp_ms(self) -> Array:
        """Return the times of the records, -1 where none is known."""
        return self._column_or("timestamp_ms", -1, np.int64)

    def metadata_partition(self) -> Array:
        """Return the metadata partitions, :data:`NO_METADATA_PARTITION` where none is known."""
        return self._column_or("metadata_partition", NO_METADATA_PARTITION, np.int32)

    def _column_or(self, name: str, missing: int, dtype: Any) -> Array:
        if name not in self.batch.schema.names:
            return np.full(self.size, missing, dtype)
        values = numpy_of(filled(self.batch.column(name), missing))
        return values if self._all else values.take(self.rows)


def partitions_of(store: Store, events: Events) -> Array:
    """Return the row of each event's user partition in a store; unknown ones are added."""
    ids, partition, topics = events.ids("topic_id"), events.column("partition"), events.topics()
    found = np.empty(events.size, np.int64)
    for first in range(0, events.size, _AT_ONCE):
        some = slice(first, min(first + _AT_ONCE, events.size))
        found[some] = _rows_of(store, ids[some], partition[some], topics[some])
    return found


def _rows_of(store: Store, ids: Array, partition: Array, topics: Any) -> Array:
    high, low = ids.T
    hashes = hash_of(high, low, partition)
    found = _find(store, hashes, high, low, partition)
    missing = np.flatnonzero(found < 0)
    while missing.size:
        # Most events are of few user partitions: look the others up again when some are known.
        some = missing[: max(_FIRST_LOOK, store.partitions.size)]
        part = some.take(_first_of_each(high.take(some), low.take(some), partition.take(some)))
        _append_partitions(store, high.take(part), low.take(part), partition.take(part), topics.take(array_of(part)))
        found[missing] = _find(
            store, hashes.take(missing), high.take(missing), low.take(missing), partition.take(missing)
        )
        missing = missing.take(np.flatnonzero(found.take(missing) < 0))
    other = _with_another_topic(store, found, topics)
    if other.size:
        found[other] = _rows_by_topic(
            store, ids.take(other, axis=0), partition.take(other), topics.take(array_of(other))
        )
    return found


def _rows_by_topic(store: Store, ids: Array, partition: Array, topics: Any) -> Array:
    """Return the rows of user partitions whose ids have several names: one look per id, partition and name."""
    names = topics.dictionary_encode()
    keys = np.stack(
        [ids[:, 0], ids[:, 1], partition.astype(np.uint64), numpy_of(names.indices).astype(np.uint64)], axis=1
    )
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    rows = [
        _partition_of(store, high, low, number, names.dictionary[code].as_py())
        for high, low, number, code in distinct.tolist()
    ]
    return np.array(rows, np.int64).take(which.ravel())


def _partition_of(store: Store, high: int, low: int, partition: int, topic: str) -> int:
    """Return the row of the user partition of a topic with this name; it is added if it is not known."""
    table = store.partitions
    key = np.array([high], np.uint64), np.array([low], np.uint64), np.array([partition], np.int32)

    def same(_: Array, row: Array) -> Array:
        equal: Array = (
            (table["high"][row] == high) & (table["low"][row] == low) & (table["partition"][row] == partition)
        )
        for at in np.flatnonzero(equal).tolist():
            equal[at] = store.topics[int(table["topic"][row[at]])].as_py() == topic
        return equal

    found = store.index("partitions").find(hash_of(*key), same)
    if found[0] < 0:
        found = _append_partitions(store, *key, array_of([topic], pa.string()))
    return int(found[0])


def _append_partitions(store: Store, high: Array, low: Array, partition: Array, topics: Any) -> Array:
    """Add user partitions, by the halves of their topics' ids, and return their rows."""
    values = {
        "high": high,
        "low": low,
        "partition": partition,
        "topic": store.topic_numbers(topics),
        "metadata_partition": NO_METADATA_PARTITION,
        "first_offset": NO_OFFSET,
        "last_foreign_offset": NO_OFFSET,
        "finished_segments": 0,
        "copying_offset": NO_OFFSET,
        "copying_event_timestamp_ms": 0,
        "copying_high": 0,
        "copying_low": 0,
        "delete_state": NO_DELETION,
        "delete_offset": NO_OFFSET,
        "delete_event_timestamp_ms": 0,
        "delete_broker_id": 0,
        "was_finished": False,
    }
    return store.append_partitions(high.size, values)


def _find(store: Store, hashes: Array, high: Array, low: Array, partition: Array) -> Array:
    """Find user partitions by the topic's id, under any name."""
    table = store.partitions
    highs, lows, partitions = table["high"], table["low"], table["partition"]

    def same(row: Array, high: Array, low: Array, partition: Array) -> Array:
        equal: Array = highs.take(row) == high
        equal &= lows.take(row) == low
        equal &= partitions.take(row) == partition
        return equal

    if not table.size:
        return np.full(hashes.size, -1, np.int64)
    index = store.index("partitions")
    found = index.guess(hashes)
    other = np.flatnonzero(~same(found, high, low, partition))
    key = high.take(other), low.take(other), partition.take(other)
    found[other] = index.find(hashes.take(other), lambda asked, row: same(row, *(half.take(asked) for half in key)))
    return found


def _first_of_each(*keys: Array) -> Array:
    order = np.lexsort(keys)
    first = np.ones(order.size, dtype=bool)
    first[1:] = np.any([key.take(order[1:]) != key.take(order[:-1]) for key in keys], axis=0)
    return order[first]


def _with_another_topic(store: Store, found: Array, topics: Any) -> Array:
    """Return the events whose topic has another name than that of the user partition found by its id."""
    if not found.size:
        return found
    expected = pc.take(store.topics, array_of(store.partitions["topic"].take(found)), boundscheck=False)
    # One comparison of all the bytes is several times as fast as one per name.
    if topics.equals(expected):
        return np.empty(0, np.int64)
    return np.flatnonzero(numpy_of(filled(pc.not_equal(topics, expected), False)))
