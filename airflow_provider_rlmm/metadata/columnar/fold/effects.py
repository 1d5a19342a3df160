# SPDX-License-Identifier: Apache-2.0
"""
What applied events change: segments and their entries in the index of leader epochs, without a loop over events.

A user partition with a segment that begins anew, or is announced twice in different ways, goes through the scalar cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_provider_rlmm.metadata.columnar.decoding.decode import iter_events
from airflow_provider_rlmm.metadata.columnar.decoding.layout import Array
from airflow_provider_rlmm.metadata.columnar.fold.batch import Events, binary_buffers, numpy_of
from airflow_provider_rlmm.metadata.columnar.fold.caches import caches_of, clear, leader_epoch_of, rows_of, write_back
from airflow_provider_rlmm.metadata.columnar.fold.epochs import Outcome, entries_of, reference
from airflow_provider_rlmm.metadata.columnar.fold.runs import spread, starts_of
from airflow_provider_rlmm.metadata.columnar.fold.steps import APPLIED, Steps, outcome_in, step
from airflow_provider_rlmm.metadata.columnar.fold.store import DEAD, REFERENCED, UNLISTED, UNREFERENCED, Store
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
        self._custom_length = np.diff(binary_buffers(custom)[0])
        if custom.null_count and self._custom is not None:
            self._custom_length = np.where(numpy_of(custom.is_valid()), self._custom_length, -1)

    def leader_epochs(self, row: int) -> list[int]:
        """
        Return the leader epochs of a segment.

        :param row: row of the batch.
        """
        first = int(self.epochs_at[row])
        epochs: list[int] = self.leader_epoch[first : first + int(self.epochs_count[row])].tolist()
        return epochs

    def opens_as(self, store: Store, row: int, segment: int) -> bool:
        """
        Tell whether a row announces a segment as it was announced before.

        :param store: the store.
        :param row: row of the batch.
        :param segment: row of the segment in the store.
        """
        table = store.segments
        if any(self.numbers[name][row] != table[name][segment] for name in _OPENING):
            return False
        known = slice(
            int(table["entries_at"][segment]), int(table["entries_at"][segment] + table["entries_count"][segment])
        )
        first, behind = int(self.epochs_at[row]), int(self.epochs_at[row] + self.epochs_count[row])
        keys = store.epochs["key"].take(store.entries["epoch"][known])
        return self.leader_epochs(row) == [leader_epoch_of(key) for key in keys.tolist()] and np.array_equal(
            self.epoch_start[first:behind], store.entries["start_offset"][known]
        )

    def append_custom(self, store: Store, rows: Array) -> tuple[Any, Any]:
        """
        Keep the custom metadata of some rows; return where it lies and its lengths, -1 where it is null.

        :param store: where to keep it.
        :param rows: rows of the batch.
        """
        if self._custom is None:
            return 0, -1
        length = self._custom_length.take(rows)
        offsets, data = binary_buffers(self._custom.take(pa.array(rows.take(np.flatnonzero(length > 0)))))
        first = store.tables["custom"].size
        used = data[int(offsets[0]) : int(offsets[-1])]
        store.tables["custom"].append(used.size, {"byte": used})
        return first + starts_of(np.maximum(length, 0)), length


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
    last = steps.last(steps.with_outcome(APPLIED))
    _find_odd_segments(store, part, exact)
    first_new = store.entries.size
    _add(store, part, last, exact)
    outcome = _reference(store, part, exact, first_new)
    _update(store, part, last, exact)
    at = np.array(outcome.at, np.int64)
    store.entries.write("status", at, np.array(outcome.status, np.int8))
    store.entries.write("order", at, np.array(outcome.order, np.int64))
    store.next_order = int(part.order[-1]) + 1
    _replay(store, events, part, np.flatnonzero(exact))


def _find_odd_segments(store: Store, part: Part, exact: Array) -> None:
    """Find segments that begin anew, or that are announced twice, and not in the same way."""
    steps = part.steps
    added, again = steps.at(_ADDED), steps.at(_ADDED_AGAIN)
    group = steps.group.take(added)
    first = steps.last_at(_ADDED)
    anew = (steps.row.take(group) >= 0) | (first.take(group) != added)
    exact[part.partition.take(added.take(np.flatnonzero(anew)))] = True
    for event, before in zip(again.tolist(), first.take(steps.group.take(again)).tolist(), strict=True):
        row = int(part.rows[event])
        if before >= 0:
            same = part.fields.leader_epochs(row) == part.fields.leader_epochs(int(part.rows[before]))
        else:
            same = part.fields.opens_as(store, row, int(steps.row[steps.group[event]]))
        if not same:
            exact[part.partition[event]] = True
    for epoch_row, _, _ in store.stale:
        exact[int(store.epochs["key"][epoch_row]) >> 32] = True


def _outside(exact: Array, part: Part, events: Array) -> Array:
    """Return those of some events whose user partitions are settled in columns."""
    if not exact.any():
        return events
    return events.take(np.flatnonzero(~exact.take(part.partition.take(events))))


def _add(store: Store, part: Part, last: Array, exact: Array) -> None:
    """Add new segments as they are after all their events."""
    steps, fields = part.steps, part.fields
    added = _outside(exact, part, steps.at(_ADDED))
    group = steps.group.take(added)
    opening = part.rows.take(np.maximum(steps.last_at(_ADDED), steps.last_at(_ADDED_AGAIN)).take(group))
    latest = part.rows.take(last.take(group))
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
    index, first = store.index("segments", added.size), store.segments.size
    store.segments.append(added.size, values)
    steps.row[group] = np.arange(first, first + added.size)
    # In the order of the segments' hashes, the index is written from one end to the other.
    is_new = np.zeros(steps.row.size, dtype=bool)
    is_new[group] = True
    new = np.flatnonzero(is_new)
    index.insert(steps.hashes.take(new), steps.row.take(new))
    dead = np.flatnonzero(state == DEAD)
    store.live += added.size - dead.size
    store.dead_entries += int(count.take(dead).sum())


def _add_entries(store: Store, part: Part, group: Array, state: Array, opening: Array, order: Array) -> Array:
    fields, steps = part.fields, part.steps
    unreferencing = steps.last_at(_UNREFERENCED).take(group)
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
        "segment": owner + store.segments.size,
        "start_offset": fields.epoch_start.take(at),
        "status": status.take(owner),
        "order": order.take(owner),
    }
    store.entries.append(at.size, values)
    return first + starts_of(fields.epochs_count.take(opening))


def _reference(store: Store, part: Part, exact: Array, first_new: int) -> Outcome:
    steps = part.steps
    kinds = [_outside(exact, part, steps.at(kind)) for kind in (_COPIED, _COPIED_AGAIN, _UNREFERENCED)]
    groups = [steps.group.take(kind) for kind in kinds]
    copied, again, unreferenced = (
        entries_of(store, steps.row.take(group), part.order.take(kind))
        for group, kind in zip(groups, kinds, strict=True)
    )
    serving = steps.before.take(groups[1]) != S.COPY_SEGMENT_FINISHED
    return reference(store, copied, again, serving, unreferenced, first_new)


def _update(store: Store, part: Part, last: Array, exact: Array) -> None:
    """Change the segments that were known before."""
    steps, fields = part.steps, part.fields
    changed = (steps.before != DEAD) & (last >= 0) & ~exact.take(steps.user_partition)
    gone = np.flatnonzero(changed & (steps.after == DEAD))
    rows = steps.row.take(gone)
    store.segments.write("state", rows, DEAD)
    store.live -= rows.size
    at, _ = spread(store.segments["entries_at"].take(rows), store.segments["entries_count"].take(rows))
    store.entries.write("status", at, UNLISTED)
    store.dead_entries += at.size
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
    was_copied = steps.last_at(_COPIED).take(kept) >= 0
    after = steps.after.take(kept)
    copied = steps.row.take(kept.take(np.flatnonzero(was_copied & (after == S.COPY_SEGMENT_FINISHED))))
    at, _ = spread(segments["entries_at"].take(copied), segments["entries_count"].take(copied))
    entries.write("status", at, REFERENCED)
    event = steps.last_at(_UNREFERENCED).take(kept)
    unreferenced = np.flatnonzero(event >= 0)
    rows = steps.row.take(kept.take(unreferenced))
    at, owner = spread(segments["entries_at"].take(rows), segments["entries_count"].take(rows))
    # What others had superseded keeps its place among the unreferenced.
    moved = np.flatnonzero((entries["status"].take(at) != UNREFERENCED) | was_copied.take(unreferenced).take(owner))
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
