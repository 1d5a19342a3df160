# SPDX-License-Identifier: Apache-2.0
"""Applies a decoded batch to a store, and says of each row that did not pass what became of it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_provider_rlmm.metadata.columnar.decoding.decode import iter_events
from airflow_provider_rlmm.metadata.columnar.decoding.layout import Array
from airflow_provider_rlmm.metadata.columnar.fold.batch import APPLIED_CODES, Events, partitions_of
from airflow_provider_rlmm.metadata.columnar.fold.caches import clear, rows_of
from airflow_provider_rlmm.metadata.columnar.fold.effects import Part, SegmentFields, settle
from airflow_provider_rlmm.metadata.columnar.fold.steps import (
    APPLIED,
    DROPPED,
    THROWN,
    steps_of,
    thrown_reason,
)
from airflow_provider_rlmm.metadata.columnar.fold.store import Store
from airflow_provider_rlmm.metadata.outcomes import ErrorCode, EventFate
from airflow_provider_rlmm.metadata.states import RemotePartitionDeleteState

_FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
_PART_EVENTS = 1 << 18  # what is worked on at once fits into the processor's cache


@functools.lru_cache(maxsize=8)
def _no_rows(schema: Any) -> Any:
    """Return an empty table with fates and reasons; making one takes longer than finding it."""
    return schema.append(pa.field("fate", pa.int8())).append(pa.field("reason", pa.string())).empty_table()


class Found:
    """Rows of a batch and, for each, what became of it and why."""

    def __init__(self) -> None:
        self._codes: dict[tuple[EventFate, str], int] = {}
        self._parts: list[tuple[Array, Array]] = []

    def add(self, rows: Array, fate: EventFate, reason: str | None = None) -> None:
        """
        Note rows; each is noted once.

        :param rows: rows of the batch.
        :param fate: what became of them.
        :param reason: why, where more can be said than the fate's own reason.
        """
        if rows.size:
            code = self._codes.setdefault((fate, reason or fate.reason), len(self._codes))
            self._parts.append((rows, np.full(rows.size, code)))

    def table(self, batch: Any) -> Any:
        """
        Return the rows with ``fate`` and ``reason``, in order.

        :param batch: the batch.
        """
        if not self._parts:
            return _no_rows(batch.schema)
        rows = np.concatenate([part for part, _ in self._parts])
        codes = np.concatenate([part for _, part in self._parts])
        order = np.argsort(rows)
        rows, codes = rows.take(order), codes.take(order)
        fates = pa.array([fate for fate, _ in self._codes], pa.int8()).take(pa.array(codes))
        reasons = pa.array([reason for _, reason in self._codes], pa.string()).take(pa.array(codes))
        found = pa.Table.from_batches([batch.take(pa.array(rows))])
        return found.append_column("fate", fates).append_column("reason", reasons)


@dataclass(slots=True)
class Findings:
    """
    What became of a batch.

    :param applied: number of events that were applied.
    :param quarantined: rows that are not good.
    :param dropped: rows that Kafka drops.
    :param would_end_consumer: rows that would end a broker's consumer.
    """

    applied: int = 0
    quarantined: Found = field(default_factory=Found)
    dropped: Found = field(default_factory=Found)
    would_end_consumer: Found = field(default_factory=Found)


def apply_batch(store: Store, batch: Any) -> Findings:
    """
    Apply a batch to a store.

    :param store: the store, which is changed.
    :param batch: what ``decode`` returned.
    """
    findings = Findings()
    events = Events(batch)
    _find_bad_rows(findings, events)
    if not events.size:
        return findings
    partition = partitions_of(store, events)
    work = _Work(store, events, partition, findings)
    for first, behind in work.parts():
        work.apply(first, behind)
    _note_metadata_partitions(store, events, partition)
    return findings


def _find_bad_rows(findings: Findings, events: Events) -> None:
    bad = np.flatnonzero(events.error_code != ErrorCode.GOOD)
    if not bad.size:
        return
    errors = events.batch.column("error").take(pa.array(bad)).to_pylist()
    for row, code, error in zip(bad.tolist(), events.error_code.take(bad).tolist(), errors, strict=True):
        reason = f"{ErrorCode(code).name}: {error}"
        findings.quarantined.add(np.array([row]), EventFate.BAD_RECORD, reason)
        if code not in (*APPLIED_CODES, ErrorCode.MISROUTED):
            findings.would_end_consumer.add(np.array([row]), EventFate.BAD_RECORD, reason)


def _note_metadata_partitions(store: Store, events: Events, partition: Array) -> None:
    """Remember for each user partition where its last event was read."""
    metadata_partition = events.metadata_partition()
    if (store.partitions["metadata_partition"].take(partition) != metadata_partition).any():
        store.partitions.write("metadata_partition", partition, metadata_partition)


class _Work:
    def __init__(self, store: Store, events: Events, partition: Array, findings: Findings) -> None:
        self._store = store
        self._events = events
        self._partition = partition
        self._findings = findings
        self._segment_ids = events.ids("segment_id")
        self._fields = SegmentFields(events.batch)
        self._deletions = np.flatnonzero(events.is_deletion)
        self._broker_id = events.column("broker_id")
        self._timestamp = events.column("event_timestamp_ms")

    def parts(self) -> Iterator[tuple[int, int]]:
        """Yield runs of events; an event after the end of its user partition's deletion opens a new one."""
        cuts = set(range(0, self._events.size, _PART_EVENTS)) | set(self._after_finished())
        ordered = [*sorted(cuts), self._events.size]
        yield from itertools.pairwise(ordered)

    def _after_finished(self) -> Iterator[int]:
        ends = self._deletions.take(np.flatnonzero(self._events.state.take(self._deletions) == _FINISHED))
        if not ends.size:
            return
        ending = np.zeros(self._store.partitions.size, dtype=bool)
        ending[self._partition.take(ends)] = True
        mine = np.flatnonzero(ending.take(self._partition))
        finished: set[int] = set()
        is_end = self._events.is_deletion & (self._events.state == _FINISHED)
        for event, partition, ends_it in zip(
            mine.tolist(), self._partition.take(mine).tolist(), is_end.take(mine).tolist(), strict=True
        ):
            if ends_it:
                finished.add(partition)
            elif partition in finished and not self._events.is_deletion[event]:
                yield event
                finished.clear()

    def apply(self, first: int, behind: int) -> None:
        """Apply the events from ``first`` on, up to ``behind``, which is not one of them."""
        deletions = self._deletions[np.searchsorted(self._deletions, first) : np.searchsorted(self._deletions, behind)]
        if not deletions.size:
            self._apply_segment_events(slice(first, behind), behind - first)
        elif deletions.size < behind - first:
            segment_events = np.flatnonzero(~self._events.is_deletion[first:behind]) + first
            self._apply_segment_events(segment_events, segment_events.size)
        if deletions.size:
            self._apply_deletions(deletions)
        self._findings.applied += int(deletions.size)

    def _after_finished_of(self, rows: Array, partition: Array) -> Array:
        """Tell which events come after the end of a deletion; a part has none after an end that is in the part."""
        was_finished = self._store.partitions["was_finished"]
        if not was_finished.any():
            return np.zeros(rows.size, dtype=bool)
        after: Array = was_finished.take(partition)
        self._findings.would_end_consumer.add(rows.take(np.flatnonzero(after)), EventFate.AFTER_FINISHED)
        return after

    def _apply_segment_events(self, of: Array | slice, size: int) -> None:
        events, store = self._events, self._store
        rows, partition = events.rows[of], self._partition[of]
        after_finished = self._after_finished_of(rows, partition)
        steps = steps_of(store, self._segment_ids[of], partition, events.api_key[of], events.state[of])
        counts = steps.outcomes()
        self._findings.applied += counts[APPLIED]
        for fate in DROPPED:
            if counts[fate]:
                self._findings.dropped.add(rows.take(steps.with_outcome(fate)), fate)
        if counts[THROWN]:
            thrown = steps.with_outcome(THROWN)
            thrown = rows.take(thrown.take(np.flatnonzero(~after_finished.take(thrown))))
            for row, event in zip(thrown.tolist(), iter_events(events.batch.take(pa.array(thrown))), strict=True):
                reason = thrown_reason(event)  # type: ignore[arg-type]
                self._findings.would_end_consumer.add(np.array([row]), THROWN, reason)
        if counts[APPLIED]:
            order = np.arange(store.next_order, store.next_order + size)
            settle(store, events, Part(self._fields, rows, partition, order, steps))

    def _apply_deletions(self, deletions: Array) -> None:
        store, partition = self._store, self._partition.take(deletions)
        state = self._events.state.take(deletions)
        store.partitions.write("delete_state", partition, state)
        store.partitions.write("delete_event_timestamp_ms", partition, self._timestamp.take(deletions))
        store.partitions.write("delete_broker_id", partition, self._broker_id.take(deletions))
        finished = np.unique(partition.take(np.flatnonzero(state == _FINISHED)))
        if finished.size:
            store.partitions.write("was_finished", finished, True)
            clear(store, finished, rows_of(store, finished))
