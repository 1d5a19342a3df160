# SPDX-License-Identifier: Apache-2.0
"""
The walk of :func:`~airflow_provider_rlmm.features.retention.rules.evaluate` over many live user partitions at once, in
columns.

What makes that possible: until the walk of a user partition stops, every segment before has gone. So the bytes above the
limit at a segment follow from the sizes before it alone, and with them whether the walk stops there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from airflow_provider_rlmm.core.plans.plan import Reason
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.features.retention.rules import EvaluationLimits, PartitionLimits, SegmentFacts, evaluate

Array = Any

REASONS = (
    Reason.DANGLING,
    Reason.LOG_START_OFFSET,
    Reason.RETENTION_MS,
    Reason.RETENTION_BYTES,
    Reason.DELETION_RETRIED,
    Reason.UNREFERENCED_EPOCH,
)
NONE = -1
"""The code of a segment that stays; that of any other is a place in :data:`REASONS`."""

DANGLING, LOG_START_OFFSET, RETENTION_MS, RETENTION_BYTES, DELETION_RETRIED, UNREFERENCED_EPOCH = range(len(REASONS))
FIELDS = ("state", "start_offset", "end_offset", "max_timestamp_ms", "event_timestamp_ms", "segment_size_in_bytes")
"""Columns of numbers that the walk goes by."""

_NEVER = -(2**63)  # nothing lies below it


@dataclass(frozen=True, slots=True)
class WalkedSegments:
    """
    The unfinished segments of some live user partitions, one after the other, each in the order of its walk.

    :param columns: the numbers of :class:`~airflow_provider_rlmm.features.retention.rules.SegmentFacts` by their names.
    :param first: where each user partition begins; none is empty.
    """

    columns: Mapping[str, Array]
    first: Array

    @property
    def partition(self) -> Array:
        """The number of each segment's user partition."""
        return np.repeat(np.arange(self.first.size), self.sizes)

    @property
    def sizes(self) -> Array:
        """The number of segments of each user partition."""
        return np.diff(self.first, append=self.columns["state"].size)


@dataclass(frozen=True, slots=True)
class Step:
    """
    What a walk does at each segment.

    :param reason: the code of the limit that the segment is past for itself alone, :data:`NONE` without one.
    :param counts: whether its bytes are of the partition's.
    :param stops: whether the walk ends there in any case.
    :param skips: whether the walk goes on, and leaves it.
    """

    reason: Array
    counts: Array
    stops: Array
    skips: Array


def reasons_of(segments: WalkedSegments, limits: Sequence[PartitionLimits]) -> Array:
    """
    Return the code of each segment's reason, by what can be told without the lineages of leaders.

    :param segments: the segments.
    :param limits: one for each user partition, all with the same evaluation.
    """
    codes = np.full(segments.columns["state"].size, NONE, np.int8)
    if not segments.first.size:
        return codes
    dangling = dangling_of(segments.columns, limits[0].evaluation)
    walked = walk(segments, _steps(segments, limits, dangling), by_partition(limits, "retention_bytes"))
    codes[walked != NONE] = walked[walked != NONE]
    codes[dangling] = DANGLING
    # Sizes below zero mean nothing, and with them bytes come back: the rules themselves say what becomes of such a partition.
    for number in np.unique(segments.partition[segments.columns["segment_size_in_bytes"] < 0]).tolist():
        some = slice(int(segments.first[number]), int(segments.first[number] + segments.sizes[number]))
        codes[some] = _one_by_one({name: column[some] for name, column in segments.columns.items()}, limits[number])
    return codes


def dangling_of(columns: Mapping[str, Array], limits: EvaluationLimits) -> Array:
    """
    Return of each segment whether its copy or deletion was started more than the minimum age ago, and not finished.

    :param columns: of the segments, ``state`` and ``event_timestamp_ms`` among them.
    :param limits: time and minimum age.
    """
    before_ms = max(limits.now_ms - limits.min_age_ms, _NEVER)
    unfinished_step = (columns["state"] == S.COPY_SEGMENT_STARTED) | (columns["state"] == S.DELETE_SEGMENT_STARTED)
    dangling: Array = unfinished_step & (columns["event_timestamp_ms"] < before_ms)
    return dangling


def _steps(segments: WalkedSegments, limits: Sequence[PartitionLimits], dangling: Array) -> Step:
    columns, partition = segments.columns, segments.partition
    state = columns["state"]
    # The broker tries a deletion that it has started again, and takes nothing off the bytes for it.
    skips = state == S.DELETE_SEGMENT_STARTED
    below_start = columns["end_offset"] < by_partition(limits, "log_start_offset").take(partition)
    old = ~below_start & (columns["max_timestamp_ms"] < by_partition(limits, "cleanup_until_ms").take(partition))
    reason = np.full(state.size, NONE, np.int8)
    reason[old] = RETENTION_MS
    reason[below_start] = LOG_START_OFFSET
    reason[skips] = NONE
    stops = (state == S.COPY_SEGMENT_STARTED) & ~dangling
    return Step(reason, state == S.COPY_SEGMENT_FINISHED, stops, skips)


def walk(segments: WalkedSegments, step: Step, retention_bytes: Array) -> Array:
    """
    Return the code of the limit that each segment is past, up to where the walk of its user partition ends.

    :param segments: the segments; no size is below zero.
    :param step: what happens at each of them.
    :param retention_bytes: of each user partition, negative for unlimited.
    """
    size = segments.columns["segment_size_in_bytes"].astype(np.int64)
    own = (step.reason == NONE) | (step.reason == RETENTION_MS)
    taken = np.where(own & ~step.skips, size, 0)
    over = _bytes_over(segments, np.where(step.counts, size, 0), retention_bytes).take(segments.partition)
    over -= _sums_before(taken, segments)
    open_to_size = (step.reason == NONE) & ~step.skips & ~step.stops
    too_large = open_to_size & (over > 0) & (over >= size)
    stops = step.stops | (open_to_size & ~too_large)
    walking = ~stops & (_sums_before(stops, segments) == 0)
    codes = np.full(size.size, NONE, np.int8)
    codes[walking] = step.reason[walking]
    codes[walking & too_large] = RETENTION_BYTES
    return codes


def by_partition(limits: Sequence[Any], name: str) -> Array:
    """Return a number of each user partition: what it has by that name, and one that nothing lies below for ``None``."""
    values = (getattr(limit, name) for limit in limits)
    return np.fromiter((_NEVER if value is None else value for value in values), np.int64, len(limits))


def _bytes_over(segments: WalkedSegments, counted: Array, retention_bytes: Array) -> Array:
    """Return how many bytes each user partition has above its limit, 0 without one."""
    # Sizes below zero are walked one by one, so nothing can overflow.
    over = np.maximum(np.add.reduceat(counted, segments.first), 0) - np.maximum(retention_bytes, 0)
    return np.where(retention_bytes >= 0, np.maximum(over, 0), 0)


def _sums_before(values: Array, segments: WalkedSegments) -> Array:
    """Return for each segment the sum of the values of those before it in its user partition."""
    before = np.cumsum(values, dtype=np.int64) - values
    return before - before.take(segments.first).repeat(segments.sizes)


def _one_by_one(columns: Mapping[str, Array], limits: PartitionLimits) -> Array:
    facts = [
        # In the order of the walk already: the number says which one it is.
        SegmentFacts(number.to_bytes(16, "big"), S(state), *rest)
        for number, (state, *rest) in enumerate(zip(*(columns[name].tolist() for name in FIELDS), strict=True))
    ]
    codes = np.full(len(facts), NONE, np.int8)
    for finding in evaluate(facts, limits):
        codes[int.from_bytes(finding.segment.segment_id, "big")] = REASONS.index(finding.reason)
    return codes
