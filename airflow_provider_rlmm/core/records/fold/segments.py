# SPDX-License-Identifier: Apache-2.0
"""What applied events change in the table of segments, without a loop over events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, binary_buffers, filled, numpy_of
from airflow_provider_rlmm.core.records.decoding.layout import Array
from airflow_provider_rlmm.core.records.fold.index import spread, starts_of
from airflow_provider_rlmm.core.records.fold.steps import APPLIED, MORE_ALIVE, Steps, step
from airflow_provider_rlmm.core.records.fold.store import DEAD, NO_OFFSET, Store
from airflow_provider_rlmm.core.records.records import NOT_SAID
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S

ADDED = step(S.COPY_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED, is_update=False)
"""The event opens a segment's life."""
ADDED_AGAIN = step(S.COPY_SEGMENT_STARTED, S.COPY_SEGMENT_STARTED, is_update=False)
"""The event announces a segment that was announced and not copied yet; what it says replaces what was said."""

_COPIED = step(S.COPY_SEGMENT_FINISHED, S.COPY_SEGMENT_STARTED)
_COPIED_AGAIN = step(S.COPY_SEGMENT_FINISHED, S.COPY_SEGMENT_FINISHED)
_SAID = "broker_leader_epoch"  # by records of api version 1 only
_OPENING = ("start_offset", "end_offset", "max_timestamp_ms", "segment_size_in_bytes", "txn_idx_empty", _SAID)
_COMPARED = ("end_offset", _SAID)
_CHANGING = ("broker_id", "event_timestamp_ms")


class SegmentFields:
    """The columns of a decoded batch that say something about a segment, by row of the batch."""

    def __init__(self, batch: Any) -> None:
        self.numbers = {name: numpy_of(batch.column(name)) for name in (*_OPENING, *_CHANGING) if name != _SAID}
        self.numbers[_SAID] = numpy_of(filled(batch.column(_SAID), NOT_SAID))
        said = {name: batch.column(name) for name in _COMPARED}
        # Records of api version 0 say nothing that an update could be compared by.
        say_more = said[_SAID].null_count < batch.num_rows
        self.compared = {n: numpy_of(filled(c, NOT_SAID)) for n, c in said.items()} if say_more else {}
        epochs = batch.column("segment_leader_epochs")
        offsets = numpy_of(epochs.offsets)
        self._epochs_at, self._epochs_count = offsets[:-1], np.diff(offsets)
        self._leader_epoch = numpy_of(epochs.values.field("leader_epoch"))
        self._epoch_start = numpy_of(epochs.values.field("start_offset"))
        custom = batch.column("custom_metadata")
        self._custom = None if custom.null_count == len(custom) else custom
        self._custom_length = np.diff(binary_buffers(custom)[0])
        if custom.null_count and self._custom is not None:
            self._custom_length = np.where(numpy_of(custom.is_valid()), self._custom_length, -1)

    def append_epochs(self, store: Store, rows: Array) -> tuple[Array, Array]:
        """Keep the leader epochs of rows of the batch; return where they lie, and how many each row has."""
        count = self._epochs_count.take(rows)
        at, _ = spread(self._epochs_at.take(rows), count)
        epochs = store.tables["epochs"]
        first = epochs.size
        epochs.append(
            at.size, {"leader_epoch": self._leader_epoch.take(at), "start_offset": self._epoch_start.take(at)}
        )
        return first + starts_of(count), count

    def append_custom(self, store: Store, rows: Array) -> tuple[Any, Any]:
        """Keep the custom metadata of rows of the batch; return where it lies and its lengths, -1 where it is null."""
        if self._custom is None:
            return 0, -1
        length = self._custom_length.take(rows)
        offsets, data = binary_buffers(self._custom.take(array_of(rows.take(np.flatnonzero(length > 0)))))
        first = store.tables["custom"].size
        used = data[int(offsets[0]) : int(offsets[-1])]
        store.tables["custom"].append(used.size, {"byte": used})
        return first + starts_of(np.maximum(length, 0)), length


@dataclass(slots=True)
class Part:
    """Events of segments that are applied together, in their order."""

    fields: SegmentFields  # the batch's columns
    rows: Array  # rows of the batch
    partition: Array  # rows of the user partitions
    offset: Array  # where the events lie in their metadata partition
    steps: Steps  # what they do to their segments


def misnamed(store: Store, part: Part) -> Array:
    """Return the events of a part that say something else of their segment than the table does. To be called when settled."""
    if not part.fields.compared:
        return np.empty(0, np.int64)
    events = np.flatnonzero(part.steps.row.take(part.steps.group) >= 0)
    rows, differs = part.steps.row.take(part.steps.group.take(events)), np.zeros(events.size, dtype=bool)
    for name, said in part.fields.compared.items():
        mine, known = said.take(part.rows.take(events)), store.segments[name].take(rows)
        differs |= (mine != known) & (mine != NOT_SAID) & (known != NOT_SAID)
    return events.take(np.flatnonzero(differs))


def note_copies(store: Store, part: Part) -> None:
    """
    Note the first event that began a copy after the last one that finished a copy.

    A copy that ends in any other way, or is begun again, has copied nothing.
    """
    partitions, steps = store.partitions, part.steps
    copied = np.flatnonzero((steps.step == _COPIED) | (steps.step == _COPIED_AGAIN))
    begun = np.flatnonzero((steps.step == ADDED) | (steps.step == ADDED_AGAIN))
    if copied.size:
        last = np.full(partitions.size, -1, np.int64)
        last[part.partition.take(copied)] = copied
        partitions.write("copying_offset", part.partition.take(copied), NO_OFFSET)
        begun = begun.take(np.flatnonzero(begun > last.take(part.partition.take(begun))))
    idle = partitions["copying_offset"].take(part.partition.take(begun)) == NO_OFFSET
    # Of several values for one row the last one stays, and the first event is wanted.
    begun = begun.take(np.flatnonzero(idle))[::-1]
    rows, group = part.partition.take(begun), steps.group.take(begun)
    event_ms = part.fields.numbers["event_timestamp_ms"]
    partitions.write("copying_offset", rows, part.offset.take(begun))
    partitions.write("copying_event_timestamp_ms", rows, event_ms.take(part.rows.take(begun)))
    partitions.write("copying_high", rows, steps.high.take(group))
    partitions.write("copying_low", rows, steps.low.take(group))


def settle(store: Store, part: Part) -> None:
    """Change the segments of a store as the events of a part demand."""
    steps = part.steps
    _count(store, part)
    added, opening = steps.last_at(ADDED), np.maximum(steps.last_at(ADDED), steps.last_at(ADDED_AGAIN))
    last = steps.last(steps.with_outcome(APPLIED))
    alive = steps.after != DEAD
    known = steps.row >= 0
    _add(store, part, added, opening, last, ~known & (alive | store.keep_finished))
    changed = known & (last >= 0)
    _announce_again(store, part, np.flatnonzero(changed & (opening >= 0)), added, opening)
    _change(store, part, last, np.flatnonzero(changed & alive))
    _bury(store, part, last, np.flatnonzero(changed & ~alive))


def _count(store: Store, part: Part) -> None:
    more = MORE_ALIVE.take(part.steps.step)
    store.live += int(more.sum())
    finished = part.partition.take(np.flatnonzero(more < 0))
    if finished.size:
        rows, count = np.unique(finished, return_counts=True)
        before = store.partitions["finished_segments"].take(rows)
        store.partitions.write("finished_segments", rows, before + count)


def _add(store: Store, part: Part, added: Array, opening: Array, last: Array, new: Array) -> None:
    """Add new segments as they are after all their events, in the order in which they opened."""
    steps, fields = part.steps, part.fields
    events = steps.at(ADDED)
    group = steps.group.take(events)
    # One that was finished and opened again within the part begins with its last life.
    mine = np.flatnonzero((added.take(group) == events) & new.take(group))
    events, group = events.take(mine), group.take(mine)
    opening, latest = part.rows.take(opening.take(group)), part.rows.take(last.take(group))
    state = steps.after.take(group)
    epochs_at, epochs_count = fields.append_epochs(store, opening)
    custom_at, custom_length = fields.append_custom(store, latest)
    values = {
        "high": steps.high.take(group),
        "low": steps.low.take(group),
        "user_partition": part.partition.take(events),
        "added_offset": part.offset.take(events),
        "event_offset": part.offset.take(last.take(group)),
        **{name: fields.numbers[name].take(opening) for name in _OPENING},
        **{name: fields.numbers[name].take(latest) for name in _CHANGING},
        "state": state,
        "epochs_at": epochs_at,
        "epochs_count": epochs_count,
        "custom_at": custom_at,
        "custom_length": custom_length,
    }
    index = store.index("segments", events.size)
    steps.row[group] = store.segments.append(events.size, values)
    # In the order of the segments' hashes, the index is written from one end to the other.
    inserted = np.sort(group)
    index.insert(steps.hashes.take(inserted), steps.row.take(inserted))
    _forget_runs(store, steps.row.take(group.take(np.flatnonzero(state == DEAD))))


def _announce_again(store: Store, part: Part, groups: Array, added: Array, opening: Array) -> None:
    """Let known segments be what their last announcement says."""
    if not groups.size:
        return
    rows, announced = part.steps.row.take(groups), part.rows.take(opening.take(groups))
    for name in _OPENING:
        store.segments.write(name, rows, part.fields.numbers[name].take(announced))
    epochs_at, epochs_count = part.fields.append_epochs(store, announced)
    store.segments.write("epochs_at", rows, epochs_at)
    store.segments.write("epochs_count", rows, epochs_count)
    anew = np.flatnonzero(added.take(groups) >= 0)
    store.segments.write("added_offset", rows.take(anew), part.offset.take(added.take(groups.take(anew))))


def _change(store: Store, part: Part, last: Array, groups: Array) -> None:
    """Let known segments be in the state that their last applied event leaves them in."""
    rows, latest = part.steps.row.take(groups), part.rows.take(last.take(groups))
    segments = store.segments
    segments.write("state", rows, part.steps.after.take(groups))
    segments.write("event_offset", rows, part.offset.take(last.take(groups)))
    for name in _CHANGING:
        segments.write(name, rows, part.fields.numbers[name].take(latest))
    custom_at, custom_length = part.fields.append_custom(store, latest)
    segments.write("custom_at", rows, custom_at)
    segments.write("custom_length", rows, custom_length)


def _bury(store: Store, part: Part, last: Array, groups: Array) -> None:
    rows = part.steps.row.take(groups)
    store.segments.write("state", rows, DEAD)
    store.segments.write("event_offset", rows, part.offset.take(last.take(groups)))
    _forget_runs(store, rows)


def _forget_runs(store: Store, dead: Array) -> None:
    """Let finished segments refer to nothing: no caller asks for their leader epochs and custom metadata."""
    store.segments.write("epochs_count", dead, 0)
    store.segments.write("custom_length", dead, -1)
