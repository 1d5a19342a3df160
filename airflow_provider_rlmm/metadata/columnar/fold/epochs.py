# SPDX-License-Identifier: Apache-2.0
"""
The index of leader epochs: which segments begin to serve reads, and which ones they take the place of.

A copied segment (Kafka: ``RemoteLogLeaderEpochState.handleSegmentWithCopySegmentFinishedState``) may supersede or replace
others of its leader epoch. It cannot where it starts and ends behind all that were copied before: those are settled
without a loop. Of the other leader epochs, the part that is concerned goes through the scalar state of an epoch.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from airflow_provider_rlmm.metadata.cache import LeaderEpochState
from airflow_provider_rlmm.metadata.columnar.decoding.layout import Array
from airflow_provider_rlmm.metadata.columnar.fold.runs import order_of, spread
from airflow_provider_rlmm.metadata.columnar.fold.store import NONE, REFERENCED, UNLISTED, UNREFERENCED, Store

_LARGEST = np.iinfo(np.int64).max


@dataclass(slots=True)
class Entries:
    """
    Events of segments, one element per leader epoch of theirs.

    :param at: rows of the entries.
    :param epoch: rows of the leader epochs.
    :param start: where the epoch starts in the segment.
    :param end: where it ends, inclusive.
    :param order: numbers of the events.
    :param owner: which of the given segments.
    """

    at: Array
    epoch: Array
    start: Array
    end: Array
    order: Array
    owner: Array

    def take(self, index: Array) -> Entries:
        """
        Return some of them.

        :param index: which.
        """
        columns = (self.at, self.epoch, self.start, self.end, self.order, self.owner)
        return Entries(*(column.take(index) for column in columns))


def entries_of(store: Store, rows: Array, order: Array) -> Entries:
    """
    Return the entries of segments.

    :param store: the store.
    :param rows: rows of the segments, which have an event each.
    :param order: numbers of the events.
    """
    at, owner = spread(store.segments["entries_at"].take(rows), store.segments["entries_count"].take(rows))
    start = store.entries["start_offset"].take(at)
    end = store.segments["end_offset"].take(rows).take(owner)
    followed = np.flatnonzero(owner[1:] == owner[:-1])
    end[followed] = start.take(followed + 1) - 1  # wraps around, as in Java
    return Entries(at, store.entries["epoch"].take(at).astype(np.int64), start, end, order.take(owner), owner)


@dataclass(slots=True)
class Outcome:
    """
    How entries are after some events, where that takes more than a look at their segments.

    :param at: rows of the entries.
    :param status: their status.
    :param order: numbers of the events that unreferenced them.
    :param epochs: their leader epochs: row, highest offset, largest start and whether they are ordered.
    """

    at: list[int] = field(default_factory=list)
    status: list[int] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    epochs: list[tuple[int, int, int, bool]] = field(default_factory=list)

    def write_epochs(self, store: Store) -> None:
        """
        Write what the leader epochs remember.

        :param store: the store.
        """
        row, highest, start, ordered = (list(column) for column in zip(*self.epochs, strict=True))
        rows = np.array(row)
        store.epochs.write("highest_offset", rows, highest)
        store.epochs.write("copied", rows, True)
        store.epochs.write("largest_start", rows, start)
        store.epochs.write("ordered", rows, store.epochs["ordered"].take(rows) & ordered)


def reference(
    store: Store, copied: Entries, again: Entries, serving: Array, unreferenced: Entries, new: int
) -> Outcome:
    """
    Let copied segments serve reads: write what the leader epochs remember, and return what is out of the ordinary.

    :param store: the store; its entries say how they were before the events, new ones how they would be in the ordinary.
    :param copied: segments that are copied for the first time, in the order of events.
    :param again: those that are said to be copied once more.
    :param serving: whether each of these was copied in the same events.
    :param unreferenced: those that are being deleted after they were copied.
    :param new: first entry that is new.
    """
    # Within an epoch, events stay in their order.
    order = order_of(copied.epoch)
    epoch, start, end = copied.epoch.take(order), copied.start.take(order), copied.end.take(order)
    is_first = np.ones(epoch.size, dtype=bool)
    is_first[1:] = epoch[1:] != epoch[:-1]
    first = np.flatnonzero(is_first)
    start_before, end_before = np.roll(start, 1), np.roll(end, 1)
    start_before[first] = store.epochs["largest_start"].take(epoch.take(first))
    end_before[first] = store.epochs["highest_offset"].take(epoch.take(first))
    disorder = np.flatnonzero((start <= start_before) | (end <= end_before))
    serves = serving.take(again.owner) | (store.entries["status"].take(again.at) == REFERENCED)
    # Where segments end in the order in which they start, one that serves and is copied again changes nothing.
    odd_again = np.flatnonzero(~(serves & store.epochs["ordered"].take(again.epoch)))
    last = np.append(first[1:], epoch.size)[: first.size] - 1
    if not disorder.size and not odd_again.size:
        _remember(store, epoch.take(last), start.take(last), end.take(last))
        return Outcome()
    odd = np.zeros(store.epochs.size, dtype=bool)
    odd[epoch.take(disorder)] = odd[again.epoch.take(odd_again)] = True
    is_odd = odd.take(epoch)
    outcome = _replay(store, odd, copied.take(order.take(np.flatnonzero(is_odd))), again, unreferenced, new)
    last = last.take(np.flatnonzero(~is_odd.take(last)))
    _remember(store, epoch.take(last), start.take(last), end.take(last))
    return outcome


def _remember(store: Store, epoch: Array, start: Array, end: Array) -> None:
    store.epochs.write("highest_offset", epoch, end)
    store.epochs.write("copied", epoch, True)
    store.epochs.write("largest_start", epoch, start)


@dataclass(slots=True)
class _Bounds:
    """
    What of each leader epoch the scalar state has to see.

    :param lowest: the offset from which on segments matter; it says nothing of leader epochs that are not odd.
    :param latest: number of the last event that is out of order.
    :param highest: the highest offset before the first event that matters.
    :param later: number of the last one of the copied entries if it comes after that, else -1.
    """

    lowest: Array
    latest: Array
    highest: Array
    later: Array


def _bounds(store: Store, odd: Array, mine: Entries, again: Entries) -> _Bounds:
    lowest, latest = np.full(odd.size, _LARGEST), np.full(odd.size, -1)
    repeated = again.take(np.flatnonzero(odd.take(again.epoch)))
    largest_start = np.maximum(_largest_before(mine.epoch, mine.start), store.epochs["largest_start"].take(mine.epoch))
    largest_end = np.maximum(_largest_before(mine.epoch, mine.end), store.epochs["highest_offset"].take(mine.epoch))
    disorder = mine.take(np.flatnonzero((mine.start <= largest_start) | (mine.end <= largest_end)))
    for entries in (disorder, repeated):
        np.minimum.at(lowest, entries.epoch, entries.start)
        np.maximum.at(latest, entries.epoch, entries.order)
    highest, later = store.epochs["highest_offset"].copy(), np.full(odd.size, -1)
    below = mine.take(np.flatnonzero((mine.start < lowest.take(mine.epoch)) & (mine.order < latest.take(mine.epoch))))
    np.maximum.at(highest, below.epoch, below.end)
    after = np.flatnonzero(mine.order > latest.take(mine.epoch))
    later[mine.epoch.take(after)] = after
    return _Bounds(lowest, latest, highest, later)


def _largest_before(epoch: Array, values: Array) -> Array:
    """Return for each value the largest of those of its epoch before it."""
    largest = np.full(values.size, NONE)
    if values.size:
        by_value = np.argsort(values, kind="stable")
        rank = np.empty_like(by_value)
        rank[by_value] = np.arange(values.size)
        running = np.maximum.accumulate(epoch << 32 | rank)
        same = np.flatnonzero(epoch[1:] == epoch[:-1])
        largest[same + 1] = values.take(by_value).take(running.take(same) & 0xFFFFFFFF)
    return largest


def _replay(store: Store, odd: Array, copied: Entries, again: Entries, unreferenced: Entries, new: int) -> Outcome:
    """Settle odd leader epochs one by one; of the copied entries, these are theirs, by epoch."""
    bounds = _bounds(store, odd, copied, again)
    events: dict[int, list[tuple[int, int, int, int, bool]]] = {}
    for of_kind, references in ((copied, True), (again, True), (unreferenced, False)):
        matters = odd.take(of_kind.epoch) & (of_kind.start >= bounds.lowest.take(of_kind.epoch))
        if references:
            matters &= of_kind.order <= bounds.latest.take(of_kind.epoch)
        mine = of_kind.take(np.flatnonzero(matters))
        columns = (mine.epoch.tolist(), mine.order.tolist(), mine.at.tolist(), mine.start.tolist(), mine.end.tolist())
        for epoch, order, at, start, end in zip(*columns, strict=True):
            events.setdefault(epoch, []).append((order, at, start, end, references))
    outcome = Outcome()
    serving = _serving(store, odd, bounds.lowest, new)
    status, order_of = store.entries["status"], store.entries["order"]
    for epoch, of_epoch in events.items():
        highest = int(bounds.highest[epoch])
        window = _Window(int(bounds.lowest[epoch]), None if highest == NONE else highest, serving.get(epoch, []))
        for order, at, start, end, references in sorted(of_epoch):
            if references:
                known = None if at < new and status[at] != UNREFERENCED else int(order_of[at])
                window.reference(order, at, start, end, known)
            else:
                window.unreference(order, at, start)
        window.write(epoch, outcome)
    outcome.write_epochs(store)
    last = copied.take(bounds.later.take(np.flatnonzero(bounds.later >= 0)))
    _remember(store, last.epoch, last.start, last.end)
    return outcome


def _serving(store: Store, odd: Array, lowest: Array, new: int) -> dict[int, list[tuple[int, int, int]]]:
    """Return those that may be superseded or replaced: row of the entry, start and end, by epoch."""
    by_epoch: dict[int, list[tuple[int, int, int]]] = {}
    if not (odd & (lowest <= store.epochs["largest_start"])).any():
        return by_epoch
    epochs, starts = store.entries["epoch"][:new], store.entries["start_offset"][:new]
    mine = np.flatnonzero(odd.take(epochs.astype(np.int64)))
    epoch = epochs.take(mine).astype(np.int64)
    serves = starts.take(mine) >= lowest.take(epoch)
    serves &= store.entries["status"].take(mine) == REFERENCED
    at = mine.take(np.flatnonzero(serves))
    owners = store.entries["segment"].take(at).astype(np.int64)
    last = at + 1 == store.segments["entries_at"].take(owners) + store.segments["entries_count"].take(owners)
    following = np.where(last, at, at + 1)
    end = np.where(last, store.segments["end_offset"].take(owners), store.entries["start_offset"].take(following) - 1)
    columns = (store.entries["epoch"].take(at).tolist(), at.tolist(), starts.take(at).tolist(), end.tolist())
    for number, row, start, last_offset in zip(*columns, strict=True):
        by_epoch.setdefault(number, []).append((row, start, last_offset))
    return by_epoch


class _Window:
    """The segments of a leader epoch from an offset on; rows of entries stand for their ids."""

    def __init__(self, low: int, highest: int | None, serving: list[tuple[int, int, int]]) -> None:
        self._low = low
        # Rows of entries are as good as ids: the rules compare them only.
        self._state: Any = LeaderEpochState({start: at for at, start, _ in serving}, {}, highest)  # type: ignore[misc]
        self._ends = {at: end for at, _, end in serving}
        self._starts = {at: start for at, start, _ in serving}
        self._orders: dict[int, int] = {}
        # Everything below ends before this, as long as the epoch is ordered.
        self._below = min((end for _, _, end in serving), default=(NONE if highest is None else highest) + 1)

    def reference(self, order: int, at: int, start: int, end: int, unreferenced_by: int | None) -> None:
        state = self._state
        if unreferenced_by is not None and at not in self._starts:
            self._orders[at] = unreferenced_by
            state.unreferenced[at] = None
        self._ends[at], self._starts[at] = end, start
        state.reference(start, at, end)
        self._orders.pop(at, None)
        self._number(order)

    def unreference(self, order: int, at: int, start: int) -> None:
        if at in self._starts:
            self._state.unreference(start, at)
            self._number(order)

    def _number(self, order: int) -> None:
        """Note the event that has unreferenced what stands last."""
        for at in reversed(self._state.unreferenced):
            if at in self._orders:
                break
            self._orders[at] = order

    def write(self, epoch: int, outcome: Outcome) -> None:
        state = self._state
        for at, start in self._starts.items():
            serves = state.referenced.get(start) == at
            outcome.at.append(at)
            outcome.status.append(REFERENCED if serves else UNREFERENCED if at in state.unreferenced else UNLISTED)
            outcome.order.append(self._orders.get(at, 0))
        ends = [self._ends[at] for _, at in sorted(state.referenced.items())]
        ordered = all(a < b for a, b in itertools.pairwise(ends)) and (not ends or ends[0] >= self._below)
        outcome.epochs.append((epoch, state.highest_offset, max(state.referenced, default=self._low), ordered))
