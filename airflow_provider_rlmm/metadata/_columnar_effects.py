# SPDX-License-Identifier: Apache-2.0
"""
What applied events change: segments and the index of their leader epochs, without a loop over events.

Only a copied segment that begins to serve reads (Kafka: ``RemoteLogLeaderEpochState.handleSegmentWithCopySegmentFinishedState``)
touches others: it may supersede or replace them. It cannot where the segments of a leader epoch are copied in the order
of their offsets, starts and ends alike. User partitions with anything else go through the scalar cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_provider_rlmm.metadata._columnar_batch import Events, binary_buffers, numpy_of
from airflow_provider_rlmm.metadata._columnar_caches import caches_of, clear, rows_of, write_back
from airflow_provider_rlmm.metadata._columnar_decode import iter_events
from airflow_provider_rlmm.metadata._columnar_layout import Array
from airflow_provider_rlmm.metadata._columnar_steps import APPLIED, OUTCOME, Steps, outcome_in, step
from airflow_provider_rlmm.metadata._columnar_store import (
    DEAD,
    REFERENCED,
    UNREFERENCED,
    Store,
    spread,
    starts_of,
)
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState as S

_ADDED = step(S.COPY_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED, is_update=False)
_ADDED_AGAIN = step(S.COPY_SEGMENT_STARTED, S.COPY_SEGMENT_STARTED, is_update=False)
_COPIED = step(S.COPY_SEGMENT_FINISHED, S.COPY_SEGMENT_STARTED)
_COPIED_AGAIN = step(S.COPY_SEGMENT_FINISHED, S.COPY_SEGMENT_FINISHED)
_UNREFERENCED = step(S.DELETE_SEGMENT_STARTED, S.COPY_SEGMENT_FINISHED)

_OPENING = ("start_offset", "end_offset", "max_timestamp_ms", "segment_size_in_bytes", "txn_idx_empty")
_CHANGING = ("broker_id", "event_timestamp_ms")


class SegmentFields:
    """
    The columns of a batch that say something about a segment, by row of the batch.

    :param batch: what ``decode`` returned.
    """

    def __init__(self, batch: Any) -> None:
        self.numbers = {name: numpy_of(batch.column(name)) for name in (*_OPENING, *_CHANGING)}
        epochs = batch.column("segment_leader_epochs")
        offsets = epochs.offsets.to_numpy()
        self.epochs_at, self.epochs_count = offsets[:-1], np.diff(offsets)
        self.leader_epoch = numpy_of(epochs.values.field("leader_epoch"))
        self.epoch_start = numpy_of(epochs.values.field("start_offset"))
        custom = batch.column("custom_metadata")
        self._custom = None if custom.null_count == len(custom) else custom

    def append_custom(self, store: Store, rows: Array) -> tuple[Any, Any]:
        """
        Keep the custom metadata of some rows; return where it lies and its lengths, -1 where it is null.

        :param store: where to keep it.
        :param rows: rows of the batch.
        """
        if self._custom is None:
            return 0, -1
        taken = self._custom.take(pa.array(rows))
        offsets, data = binary_buffers(taken)
        first = store.tables["custom"].size
        used = data[int(offsets[0]) : int(offsets[-1])]
        store.tables["custom"].append(used.size, {"byte": used})
        length = np.diff(offsets)
        if taken.null_count:
            length[taken.is_null().to_numpy(zero_copy_only=False)] = -1
        return first + (offsets[:-1].astype(np.int64) - int(offsets[0])), length


@dataclass(slots=True)
class Part:
    """
    Events of segments that are applied together, in their order.

    :param fields: the batch's columns.
    :param rows: rows of the batch.
    :param partition: rows of the user partitions.
    :param order: the events' numbers.
    :param steps: what they do to their segments.
    """

    fields: SegmentFields
    rows: Array
    partition: Array
    order: Array
    steps: Steps


def settle(store: Store, events: Events, part: Part) -> None:
    """
    Change a store as events demand.

    :param store: the store.
    :param events: the batch.
    :param part: the events.
    """
    steps = part.steps
    exact = np.zeros(store.partitions.size, dtype=bool)
    last = steps.last(np.flatnonzero(OUTCOME.take(steps.step) == APPLIED))
    _find_odd_segments(store, part, exact)
    added = _add(store, part, last, exact)
    referenced = _referenced(store, part, exact)
    _find_odd_repetitions(store, part, exact)
    referenced.find_disorder(exact)
    if exact.any():
        odd = added.take(np.flatnonzero(exact.take(store.segments["user_partition"].take(added))))
        store.live -= int(np.count_nonzero(store.segments["state"].take(odd) != DEAD))
        store.segments.write("state", odd, DEAD)
    referenced.write(store, exact)
    _update(store, part, last, exact)
    store.next_order = int(part.order[-1]) + 1
    _replay(store, events, part, np.flatnonzero(exact))


def _find_odd_segments(store: Store, part: Part, exact: Array) -> None:
    """Segments that are announced twice or anew."""
    steps = part.steps
    exact[part.partition.take(steps.at(_ADDED_AGAIN))] = True
    added = steps.at(_ADDED)
    group = steps.group.take(added)
    anew = (steps.row.take(group) >= 0) | (steps.last(added).take(group) != added)
    exact[part.partition.take(added.take(np.flatnonzero(anew)))] = True
    for epoch_row, _, _ in store.stale:
        exact[int(store.epochs["key"][epoch_row]) >> 32] = True


def _outside(exact: Array, part: Part, events: Array) -> Array:
    """Return those of some events whose user partitions are settled in columns."""
    return events.take(np.flatnonzero(~exact.take(part.partition.take(events))))


def _add(store: Store, part: Part, last: Array, exact: Array) -> Array:
    """Add new segments as they are after all their events, and return their rows."""
    steps, fields = part.steps, part.fields
    added = _outside(exact, part, steps.at(_ADDED))
    group = steps.group.take(added)
    opening, latest = part.rows.take(added), part.rows.take(last.take(group))
    state, order, partition = steps.after.take(group), part.order.take(added), part.partition.take(added)
    count = fields.epochs_count.take(opening)
    entries_at = _add_entries(store, part, group, state, opening, order)
    custom_at, custom_length = fields.append_custom(store, latest)
    values = {
        "high": steps.high.take(group),
        "low": steps.low.take(group),
        "user_partition": partition,
        "order": order,
        **{name: fields.numbers[name].take(opening) for name in _OPENING},
        **{name: fields.numbers[name].take(latest) for name in _CHANGING},
        "state": state,
        "entries_at": entries_at,
        "entries_count": count,
        "custom_at": custom_at,
        "custom_length": custom_length,
    }
    rows = store.append("segments", added.size, values)
    steps.row[group] = rows
    dead = np.flatnonzero(state == DEAD)
    store.live += added.size - dead.size
    store.dead_entries += int(count.take(dead).sum())
    return rows


def _add_entries(store: Store, part: Part, group: Array, state: Array, opening: Array, order: Array) -> Array:
    fields, steps = part.fields, part.steps
    unreferencing = steps.last(steps.at(_UNREFERENCED)).take(group)
    late = np.flatnonzero(unreferencing >= 0)
    order = order.copy()
    order[late] = part.order.take(unreferencing.take(late))
    at, owner = spread(fields.epochs_at.take(opening), fields.epochs_count.take(opening))
    partition = steps.user_partition.take(group).take(owner)
    keys = partition << 32 | (fields.leader_epoch.take(at).astype(np.int64) & 0xFFFFFFFF)
    first = store.entries.size
    status = np.where(state == S.COPY_SEGMENT_FINISHED, REFERENCED, UNREFERENCED).astype(np.int8)
    values = {
        "epoch": store.epoch_rows(keys),
        "start_offset": fields.epoch_start.take(at),
        "status": status.take(owner),
        "order": order.take(owner),
    }
    store.entries.append(at.size, values)
    return first + starts_of(fields.epochs_count.take(opening))


@dataclass(slots=True)
class _Referenced:
    """
    Entries that begin to serve reads, by leader epoch and, within one, in the order of events.

    :param epoch: rows of the leader epochs.
    :param partition: rows of the user partitions.
    :param start: where the epoch starts in the segment.
    :param end: where it ends, inclusive.
    :param in_order: whether both lie behind those of all segments that were copied before.
    """

    epoch: Array
    partition: Array
    start: Array
    end: Array
    in_order: Array

    def find_disorder(self, exact: Array) -> None:
        exact[self.partition.take(np.flatnonzero(~self.in_order))] = True

    def write(self, store: Store, exact: Array) -> None:
        is_last = np.ones(self.epoch.size, dtype=bool)
        is_last[:-1] = self.epoch[1:] != self.epoch[:-1]
        is_last &= ~exact.take(self.partition)
        last = np.flatnonzero(is_last)
        epoch = self.epoch.take(last)
        store.epochs.write("highest_offset", epoch, self.end.take(last))
        store.epochs.write("largest_start", epoch, self.start.take(last))


def _referenced(store: Store, part: Part, exact: Array) -> _Referenced:
    steps, segments, entries = part.steps, store.segments, store.entries
    copied = _outside(exact, part, steps.at(_COPIED))
    row = steps.row.take(steps.group.take(copied))
    count = segments["entries_count"].take(row)
    at, owner = spread(segments["entries_at"].take(row), count)
    end = segments["end_offset"].take(row).take(owner)
    followed = np.flatnonzero(owner[1:] == owner[:-1])
    end[followed] = entries["start_offset"].take(at.take(followed) + 1) - 1
    epoch = entries["epoch"].take(at).astype(np.int64)
    # Events are in their order: a sort of plain numbers keeps it within an epoch.
    bits = max(at.size.bit_length(), 1)
    keys = epoch << bits | np.arange(at.size)
    keys.sort()
    index = keys & ((1 << bits) - 1)
    epoch = keys >> bits
    start, end = entries["start_offset"].take(at).take(index), end.take(index)
    first = np.ones(epoch.size, dtype=bool)
    first[1:] = epoch[1:] != epoch[:-1]
    firsts = np.flatnonzero(first)
    start_before, end_before = np.empty_like(start), np.empty_like(end)
    start_before[1:], end_before[1:] = start[:-1], end[:-1]
    start_before[firsts] = store.epochs["largest_start"].take(epoch.take(firsts))
    end_before[firsts] = store.epochs["highest_offset"].take(epoch.take(firsts))
    in_order = (start > start_before) & (end > end_before)
    return _Referenced(epoch, part.partition.take(copied).take(owner).take(index), start, end, in_order)


def _find_odd_repetitions(store: Store, part: Part, exact: Array) -> None:
    """
    Segments that are copied again although another one took their place.

    Where segments end in the order in which they start, copying one again that serves reads changes nothing.
    """
    steps = part.steps
    again = _outside(exact, part, steps.at(_COPIED_AGAIN))
    if not again.size:
        return
    group = steps.group.take(again)
    row = steps.row.take(group)
    at, owner = spread(store.segments["entries_at"].take(row), store.segments["entries_count"].take(row))
    serves = store.entries["status"].take(at) == REFERENCED
    # What was copied in this very part serves, as long as the part is settled in columns.
    serves |= (steps.before.take(group) != S.COPY_SEGMENT_FINISHED).take(owner)
    serves &= store.epochs["ordered"].take(store.entries["epoch"].take(at))
    exact[part.partition.take(again).take(owner.take(np.flatnonzero(~serves)))] = True


def _update(store: Store, part: Part, last: Array, exact: Array) -> None:
    """Change the segments that were known before."""
    steps, fields = part.steps, part.fields
    changed = (steps.before != DEAD) & (last >= 0) & ~exact.take(steps.user_partition)
    gone = np.flatnonzero(changed & (steps.after == DEAD))
    rows = steps.row.take(gone)
    store.segments.write("state", rows, DEAD)
    store.live -= rows.size
    store.dead_entries += int(store.segments["entries_count"].take(rows).sum())
    kept = np.flatnonzero(changed & (steps.after != DEAD))
    rows, latest = steps.row.take(kept), part.rows.take(last.take(kept))
    store.segments.write("state", rows, steps.after.take(kept))
    for name in _CHANGING:
        store.segments.write(name, rows, fields.numbers[name].take(latest))
    custom_at, custom_length = fields.append_custom(store, latest)
    store.segments.write("custom_at", rows, custom_at)
    store.segments.write("custom_length", rows, custom_length)
    _update_entries(store, part, kept)


def _update_entries(store: Store, part: Part, kept: Array) -> None:
    steps, segments, entries = part.steps, store.segments, store.entries
    was_copied = steps.last(steps.at(_COPIED)).take(kept) >= 0
    after = steps.after.take(kept)
    copied = steps.row.take(kept.take(np.flatnonzero(was_copied & (after == S.COPY_SEGMENT_FINISHED))))
    at, _ = spread(segments["entries_at"].take(copied), segments["entries_count"].take(copied))
    entries.write("status", at, REFERENCED)
    event = steps.last(steps.at(_UNREFERENCED)).take(kept)
    unreferenced = np.flatnonzero(event >= 0)
    rows = steps.row.take(kept.take(unreferenced))
    at, owner = spread(segments["entries_at"].take(rows), segments["entries_count"].take(rows))
    # What others had superseded keeps its place among the unreferenced.
    moved = np.flatnonzero(
        (entries["status"].take(at) != UNREFERENCED) | was_copied.take(unreferenced).take(owner)
    )
    entries.write("status", at.take(moved), UNREFERENCED)
    entries.write("order", at.take(moved), part.order.take(event.take(unreferenced)).take(owner.take(moved)))


def _replay(store: Store, events: Events, part: Part, partitions: Array) -> None:
    """Let the scalar cache apply the events of some user partitions."""
    if not partitions.size:
        return
    rows = rows_of(store, partitions)
    caches = caches_of(store, partitions.tolist(), rows)
    wanted = np.zeros(store.partitions.size, dtype=bool)
    wanted[partitions] = True
    mine = np.flatnonzero(wanted.take(part.partition))
    replayed = iter_events(events.batch.take(pa.array(part.rows.take(mine))))
    for partition, event in zip(part.partition.take(mine).tolist(), replayed, strict=True):
        outcome_in(caches[partition], event)  # type: ignore[arg-type]
    clear(store, partitions, rows)
    for partition, cache in caches.items():
        write_back(store, partition, cache)
