# SPDX-License-Identifier: Apache-2.0
"""Applies a decoded batch to a store, and says of each row that did not pass what became of it."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, empty_table
from airflow_provider_rlmm.core.records.decoding.decode import iter_events
from airflow_provider_rlmm.core.records.decoding.layout import Array
from airflow_provider_rlmm.core.records.fold.deletions import (
    PartEvents,
    UnfinishedAt,
    apply_deletions,
    opens_again,
)
from airflow_provider_rlmm.core.records.fold.events import Events, partitions_of
from airflow_provider_rlmm.core.records.fold.forgetting import Forgetting
from airflow_provider_rlmm.core.records.fold.segments import Part, SegmentFields, misnamed, note_copies, settle
from airflow_provider_rlmm.core.records.fold.steps import APPLIED, DROPPED, THROWN, steps_of, thrown_reason
from airflow_provider_rlmm.core.records.fold.store import NO_DELETION, NO_OFFSET, Store
from airflow_provider_rlmm.core.records.fold.unresolved import note_unresolved
from airflow_provider_rlmm.core.records.outcomes import DECODED_CODES, QUARANTINED_CODES, ErrorCode, EventFate
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState

_FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
_MISNAMED = "it says another end offset or leader epoch of its segment than what opened the segment's life"
_PART_EVENTS = 1 << 18  # what is worked on at once fits into the processor's cache


_FATE, _REASON = pa.field("fate", pa.int8()), pa.field("reason", pa.string())
_STATE_BEFORE = pa.field("state_before", pa.int8())


@functools.lru_cache(maxsize=16)
def _no_rows(schema: Any, *more: Any) -> Any:
    """Return an empty table with some more columns; making one takes longer than finding it."""
    return empty_table(pa.schema([*schema, *more], metadata=schema.metadata))


class Found:
    """Rows of a batch and, for each, what became of it and why."""

    def __init__(self) -> None:
        self._codes: dict[tuple[EventFate, str], int] = {}
        self._parts: list[tuple[Array, Array]] = []

    def add(self, rows: Array, fate: EventFate, reason: str | None = None) -> None:
        """Note rows of the batch, each once; a reason where more can be said than the fate's own reason."""
        if rows.size:
            code = self._codes.setdefault((fate, reason or fate.reason), len(self._codes))
            self._parts.append((rows, np.full(rows.size, code)))

    def table(self, batch: Any) -> Any:
        """Return the rows of the batch with ``fate`` and ``reason``, in order."""
        if not self._parts:
            return _no_rows(batch.schema, _FATE, _REASON)
        rows = np.concatenate([part for part, _ in self._parts])
        codes = np.concatenate([part for _, part in self._parts])
        order = np.argsort(rows)
        rows, codes = rows.take(order), codes.take(order)
        fates = array_of([fate for fate, _ in self._codes], pa.int8()).take(array_of(codes))
        reasons = array_of([reason for _, reason in self._codes], pa.string()).take(array_of(codes))
        found = pa.Table.from_batches([batch.take(array_of(rows))])
        return found.append_column(_FATE, fates).append_column(_REASON, reasons)


class Deletions:
    """Rows of partition-delete events, and for each the state of the one before it."""

    def __init__(self) -> None:
        self._parts: list[tuple[Array, Array]] = []

    def add(self, rows: Array, before: Array) -> None:
        """Note rows, in their order, and the states before, :data:`NO_DELETION` where there is none."""
        if rows.size:
            self._parts.append((rows, before))

    def table(self, batch: Any) -> Any:
        """Return the rows of the batch with ``state_before``."""
        if not self._parts:
            return _no_rows(batch.schema, _STATE_BEFORE)
        rows = np.concatenate([part for part, _ in self._parts])
        before = np.concatenate([part for _, part in self._parts])
        found = pa.Table.from_batches([batch.take(array_of(rows))])
        return found.append_column(_STATE_BEFORE, array_of(before, nulls=before == NO_DELETION))


@dataclass(slots=True)
class Outcome:
    """What became of a batch."""

    applied: int = 0  # number of events that were applied
    quarantined: Found = field(default_factory=Found)  # rows that are not good
    dropped: Found = field(default_factory=Found)  # rows that Kafka drops
    would_end_consumer: Found = field(default_factory=Found)  # rows that would end a broker's consumer
    deletions: Deletions = field(default_factory=Deletions)  # rows of partition-delete events
    misnamed: Found = field(default_factory=Found)  # updates that say something else of their segment than its add


def apply_batch(store: Store, batch: Any) -> Outcome:
    """Apply what ``decode`` returned to a store, which is changed."""
    outcome = Outcome()
    events = Events(batch)
    _find_bad_rows(outcome, events)
    _Work(store, events, outcome).apply_all()
    store.next_event += events.size
    return outcome


def _find_bad_rows(outcome: Outcome, events: Events) -> None:
    if not events.error_code.any():
        # Of nearly all batches all records are good.
        return
    bad = np.flatnonzero(np.isin(events.error_code, list(QUARANTINED_CODES)))
    if not bad.size:
        return
    errors = events.batch.column("error").take(array_of(bad)).to_pylist()
    # Many say the same, such as all records of a program that writes keys of its own.
    alike: dict[tuple[int, str], list[int]] = {}
    for row, code, error in zip(bad.tolist(), events.error_code.take(bad).tolist(), errors, strict=True):
        alike.setdefault((code, error), []).append(row)
    for (code, error), found in alike.items():
        rows, reason = np.array(found), f"{ErrorCode(code).name}: {error}"
        outcome.quarantined.add(rows, EventFate.BAD_RECORD, reason)
        if code not in DECODED_CODES:
            outcome.would_end_consumer.add(rows, EventFate.BAD_RECORD, reason)


class _Work:
    """The columns of a batch, and what becomes of its events part by part; store and outcome are changed."""

    def __init__(self, store: Store, events: Events, outcome: Outcome) -> None:
        self._store = store
        self._events = events
        self._outcome = outcome
        self._segment_ids = events.ids("segment_id")
        self._fields = SegmentFields(events.batch)
        event_ms = events.column("event_timestamp_ms")
        self._partition = partitions_of(store, events)
        self._all = PartEvents(
            partition=self._partition,
            metadata_partition=events.metadata_partition(),
            offset=events.offsets(store.next_event),
            is_deletion=events.is_deletion,
            state=events.state,
            broker_id=events.column("broker_id"),
            event_timestamp_ms=event_ms,
            observed_ms=np.maximum(event_ms, events.timestamp_ms()),
        )
        self._forgetting = Forgetting(store, events, self._segment_ids, self._partition)
        self._note_places()

    def _note_places(self) -> None:
        """Remember for each user partition where its first and its last event were read."""
        partitions, at = self._store.partitions, self._all
        partitions.write("metadata_partition", self._partition, at.metadata_partition)
        new = np.flatnonzero(partitions["first_offset"].take(self._partition) == NO_OFFSET)[::-1]
        partitions.write("first_offset", self._partition.take(new), at.offset.take(new))

    def apply_all(self) -> None:
        """Apply the events, and note in turn with them what the log cleaner is asked to forget."""
        size = self._events.size
        ends = {*range(_PART_EVENTS, size, _PART_EVENTS), *self._forgetting.breaks(self._segment_ids), size} - {0}
        self._forgetting.note(0)
        for first, last in pairwise((0, *sorted(ends))):
            self._apply(slice(first, last))
            self._forgetting.note(last)

    def _apply(self, some: slice) -> None:
        events = self._all.part(some)
        numbers = np.flatnonzero(~events.is_deletion)
        part = self._part_of(some, numbers)
        after_finished = self._after_finished(events, part, numbers)
        self._find(part, after_finished)
        unfinished_at = UnfinishedAt(self._store, part, numbers) if opens_again(self._store, events) else _nobody_asks
        note_unresolved(self._store, part, events.state.take(numbers))
        note_copies(self._store, part)
        settle(self._store, part)
        self._outcome.misnamed.add(part.rows.take(misnamed(self._store, part)), EventFate.APPLIED, _MISNAMED)
        deletions, before = apply_deletions(self._store, events, unfinished_at)
        self._outcome.deletions.add(self._events.rows[some].take(deletions), before)
        self._outcome.applied += int(events.is_deletion.sum())

    def _part_of(self, some: slice, numbers: Array) -> Part:
        """Return the segment events of a part, and what they do."""
        events = self._events
        mine: Array | slice = some if numbers.size == some.stop - some.start else numbers + some.start
        partition = self._partition[mine]
        steps = steps_of(self._store, self._segment_ids[mine], partition, events.api_key[mine], events.state[mine])
        return Part(self._fields, events.rows[mine], partition, self._all.offset[mine], steps)

    def _after_finished(self, events: PartEvents, part: Part, numbers: Array) -> Array:
        """Tell which segment events come after the end of their user partition's deletion."""
        partitions = self._store.partitions
        ends = np.flatnonzero(events.is_deletion & (events.state == _FINISHED))[::-1]
        if not ends.size and not partitions["was_finished"].any():
            return np.zeros(numbers.size, dtype=bool)
        finished_at = np.where(partitions["was_finished"], -1, len(events.partition))
        first = events.partition.take(ends)
        finished_at[first] = np.minimum(finished_at.take(first), ends)
        after: Array = finished_at.take(part.partition) < numbers
        return after

    def _find(self, part: Part, after_finished: Array) -> None:
        """Note what became of the segment events; each row is noted once as one that ends a broker's consumer."""
        found, rows, steps = self._outcome, part.rows, part.steps
        found.would_end_consumer.add(rows.take(np.flatnonzero(after_finished)), EventFate.AFTER_FINISHED)
        counts = steps.outcomes()
        found.applied += counts[APPLIED]
        for fate in DROPPED:
            if counts[fate]:
                found.dropped.add(rows.take(steps.with_outcome(fate)), fate)
        if counts[THROWN]:
            thrown = steps.with_outcome(THROWN)
            thrown = rows.take(thrown.take(np.flatnonzero(~after_finished.take(thrown))))
            for row, event in zip(thrown.tolist(), iter_events(self._events.batch.take(array_of(thrown))), strict=True):
                reason = thrown_reason(event)  # type: ignore[arg-type]
                found.would_end_consumer.add(np.array([row]), THROWN, reason)


def _nobody_asks(partition: int, event: int) -> bool:
    raise AssertionError(
        f"whether user partition {partition} has unfinished segments before event {event} was not counted"
    )
