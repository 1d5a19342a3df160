# SPDX-License-Identifier: Apache-2.0
"""The segments of a store that are not finished, in the order of a leader's walk, where they lie."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from airflow_provider_rlmm.core.records.decoding.layout import Array
from airflow_provider_rlmm.core.records.fold.index import spread
from airflow_provider_rlmm.core.records.fold.overlaps import finished_over
from airflow_provider_rlmm.core.records.fold.store import Store
from airflow_provider_rlmm.core.records.fold.tables import partitions_at, rank_of, segments_at


class LivingSegments:
    """
    The segments of a state that are not finished: user partition by user partition, these in the order of topic id, topic and
    number, and of each by start offset, end offset and id.

    Only their order takes memory, 8 bytes for each. A state that is advanced takes its segments along.

    :param store: the store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows = in_order(store, store.alive(), rank_of(store).astype(np.int32), ("start_offset", "end_offset"))
        partition = self._partition(slice(None))
        self._first = np.flatnonzero(np.diff(partition, prepend=-1))

    @property
    def size(self) -> int:
        """How many they are."""
        return int(self._rows.size)

    @property
    def first(self) -> Array:
        """Where each user partition begins, ascending."""
        return self._first

    @property
    def sizes(self) -> Array:
        """How many segments each user partition has."""
        return np.diff(self._first, append=self.size)

    @cached_property
    def partitions(self) -> Any:
        """A table of the user partitions: ``metadata_partition``, ``topic_id``, ``topic``, ``partition``."""
        return partitions_at(self._store, self._partition(self._first))

    @cached_property
    def uncertain(self) -> Array:
        """Where those are whose state is not certain, ascending."""
        if not self._store.unresolved:
            return np.empty(0, np.int64)
        maybe = self._store.may_be_uncertain(self.numbers("low", slice(None)))
        keys = (self.numbers(column, maybe) for column in ("user_partition", "high", "low"))
        return maybe.take(np.flatnonzero(self._store.are_uncertain(*keys)))

    def numbers(self, column: str, some: slice | Array) -> Array:
        """
        Return some numbers of a column.

        :param column: its name.
        :param some: which of these segments.
        """
        values: Array = self._store.segments[column].take(self._rows[some])
        return values

    @cached_property
    def finished_over(self) -> Array:
        """Of each user partition, see :func:`~airflow_provider_rlmm.core.records.fold.overlaps.finished_over`."""
        return finished_over(self._store, self._rows, self._first)

    def leader_epochs(self, some: Array) -> tuple[Array, Array, Array]:
        """
        Return how many leader epochs some segments have, and of all of these, one after the other, the epoch and the offset
        from which it is in its segment.

        :param some: which of these segments.
        """
        count, epochs = self.numbers("epochs_count", some), self._store.tables["epochs"]
        at, _ = spread(self.numbers("epochs_at", some), count)
        return count, epochs["leader_epoch"].take(at), epochs["start_offset"].take(at)

    def table(self, some: slice | Array, names: Collection[str]) -> Any:
        """
        Return columns of :attr:`~airflow_provider_rlmm.core.records.columnar.ColumnarState.segments`, in its order.

        :param some: which of these segments.
        :param names: which columns.
        """
        return segments_at(self._store, self._rows[some], names)

    def _partition(self, some: slice | Array) -> Array:
        return self.numbers("user_partition", some)


def in_order(store: Store, rows: Array, rank: Array, by: Sequence[str]) -> Array:
    """
    Return rows of segments in the order of their user partitions, then of some columns, then of their ids.

    :param store: the store.
    :param rows: numbers of segments.
    :param rank: the place of each user partition among all.
    :param by: names of the columns. The first one is looked at of all rows, the others of the few that agree in it.
    """
    segments = store.segments

    def keys(some: Array) -> tuple[Array, Array]:
        return segments[by[0]].take(some), rank.take(segments["user_partition"].take(some))

    rows = rows.take(np.lexsort(keys(rows)))
    first, partition = keys(rows)
    same = (first[1:] == first[:-1]) & (partition[1:] == partition[:-1])
    if same.any():
        tied = np.zeros(rows.size, bool)
        tied[1:] |= same
        tied[:-1] |= same
        some = rows[tied]
        # Halves of ids are read as this machine reads numbers; ids are compared from their first byte on.
        ids = (segments[half].take(some).view(">u8").astype(np.uint64) for half in ("low", "high"))
        others = (segments[column].take(some) for column in reversed(by[1:]))
        rows[tied] = some.take(np.lexsort((*ids, *others, *keys(some))))
    return rows
