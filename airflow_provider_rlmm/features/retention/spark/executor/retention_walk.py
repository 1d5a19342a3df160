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
from airflow_provider_rlmm.features.retention.rules import PartitionLimits, SegmentFacts, evaluate

Array = Any

REASONS = (Reason.DANGLING, Reason.LOG_START_OFFSET, Reason.RETENTION_MS, Reason.RETENTION_BYTES)
NONE = -1
"""The code of a segment that stays; that of any other is a place in :data:`REASONS`."""

_DANGLING, _LOG_START_OFFSET, _RETENTION_MS, _RETENTION_BYTES = range(len(REASONS))
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


def reasons_of(segments: WalkedSegments, limits: Sequence[PartitionLimits]) -> Array:
    """
    Return the code of each segment's reason.

    :param segments: the segments.
    :param limits: one for each user partition, all with the same evaluation.
    """
    codes = np.full(segments.columns["state"].size, NONE, np.int8)
    if not segments.first.size:
        return codes
    dangling = _dangling(segments, limits[0])
    walked = _walk(segments, limits, dangling)
    codes[walked != NONE] = walked[walked != NONE]
    codes[dangling] = _DANGLING
    # Sizes below zero mean nothing, and with them bytes come back: the rules themselves say what becomes of such a partition.
    for number in np.unique(segments.partition[segments.columns["segment_size_in_bytes"] < 0]).tolist():
        some = slice(int(segments.first[number]), int(segments.first[number] + segments.sizes[number]))
        codes[some] = _one_by_one({name: column[some] for name, column in segments.columns.items()}, limits[number])
    return codes


def _dangling(segments: WalkedSegments, limits: PartitionLimits) -> Array:
    before_ms = max(limits.evaluation.now_ms - limits.evaluation.min_age_ms, _NEVER)
    state = segments.columns["state"]
    unfinished_step = (state == S.COPY_SEGMENT_STARTED) | (state == S.DELETE_SEGMENT_STARTED)
    dangling: Array = unfinished_step & (segments.columns["event_timestamp_ms"] < before_ms)
    return dangling


def _walk(segments: WalkedSegments, limits: Sequence[PartitionLimits], dangling: Array) -> Array:
    columns, partition = segments.columns, segments.partition
    state = columns["state"]
    size = columns["segment_size_in_bytes"].astype(np.int64)
    # The broker tries a deletion that it has started again, and takes nothing off the bytes for it.
    passed = state == S.DELETE_SEGMENT_STARTED
    below_start = columns["end_offset"] < _by_partition(limits, "log_start_offset").take(partition)
    old = ~below_start & (columns["max_timestamp_ms"] < _by_partition(limits, "cleanup_until_ms").take(partition))
    taken = np.where(passed | below_start, 0, size)
    over = _bytes_over(segments, limits, size).take(partition) - _sums_before(taken, segments)
    too_large = ~below_start & ~old & (over > 0) & (over >= size)
    being_copied = (state == S.COPY_SEGMENT_STARTED) & ~dangling
    stops = ~passed & (being_copied | ~(below_start | old | too_large))
    walking = ~passed & ~stops & (_sums_before(stops, segments) == 0)
    codes = np.full(state.size, NONE, np.int8)
    for reason, applies in ((_LOG_START_OFFSET, below_start), (_RETENTION_MS, old), (_RETENTION_BYTES, too_large)):
        codes[walking & applies] = reason
    return codes


def _by_partition(limits: Sequence[PartitionLimits], name: str) -> Array:
    values = (getattr(limit, name) for limit in limits)
    return np.fromiter((_NEVER if value is None else value for value in values), np.int64, len(limits))


def _bytes_over(segments: WalkedSegments, limits: Sequence[PartitionLimits], size: Array) -> Array:
    """Return how many bytes each user partition has above its limit, 0 without one."""
    copied = np.where(segments.columns["state"] == S.COPY_SEGMENT_FINISHED, size, 0)
    allowed = _by_partition(limits, "retention_bytes")
    # Sizes below zero are walked one by one, so nothing can overflow.
    over = np.maximum(np.add.reduceat(copied, segments.first), 0) - np.maximum(allowed, 0)
    return np.where(allowed >= 0, np.maximum(over, 0), 0)


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
