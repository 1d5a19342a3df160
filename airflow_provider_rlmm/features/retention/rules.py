# SPDX-License-Identifier: Apache-2.0
"""
Which segments of one user partition are to go, and why: pure rules, the one source of truth of every planner.

The walk over a live partition follows Kafka 4.3.1's ``RemoteLogManager.cleanupExpiredRemoteLogSegments``, its order, its
comparison operators and its book-keeping of bytes, except that

* the leader-epoch lineage is not in the metadata topic, so segments are walked by start offset instead of epoch by epoch
  and each counts as valid. Every row that depends on it says ``exact=False``. That includes the log start offset: the
  broker also demands that no epoch of the segment lies above the first epoch of the leader's lineage;
* bytes that are only on the leader's disk are not known and count as 0, which plans less, never more;
* which copies are in progress is not known: one that was started less than the minimum age ago is taken for one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.base.declarations import Declared, Duration
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.values import duration_text
from airflow_provider_rlmm.core.plans import limits
from airflow_provider_rlmm.core.plans.plan import Reason
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState

__all__ = ["EvaluationLimits", "PartitionLimits", "RetentionFinding", "SegmentFacts", "evaluate"]

MIN_AGE_FLOOR_MS = 24 * HOUR_MS
MIN_AGE: Final[Declared[int]] = replace(
    limits.MIN_AGE, kind=Duration(minimum=MIN_AGE_FLOOR_MS), sentence="Age from which unfinished work dangles"
)

UNFINISHED_STEPS = frozenset({RemoteLogSegmentState.COPY_SEGMENT_STARTED, RemoteLogSegmentState.DELETE_SEGMENT_STARTED})
"""States that some actor has to leave again; a segment that stays in one of them dangles."""


@dataclass(frozen=True, slots=True)
class EvaluationLimits:
    """
    What holds for a whole evaluation.

    :param now_ms: the time of the evaluation, ms since the epoch.
    :param min_age_ms: how long ago the last event of a copy or deletion must lie before it is taken for abandoned, ms.
    :param allow_low_min_age: the explicit override for a minimum age below 24 h.
    :raises ConfigurationError: if the minimum age is below its floor without the override, or negative.
    """

    now_ms: int
    min_age_ms: int = MIN_AGE.default
    allow_low_min_age: bool = False

    def __post_init__(self) -> None:
        if self.min_age_ms < 0:
            raise ConfigurationError(f"minimum age of {self.min_age_ms} ms is negative")
        if self.min_age_ms < MIN_AGE_FLOOR_MS and not self.allow_low_min_age:
            raise ConfigurationError(
                f"minimum age of {duration_text(self.min_age_ms)} is below the floor of "
                f"{duration_text(MIN_AGE_FLOOR_MS)}: work in progress would be taken for abandoned; raise it, or override "
                "the floor by name (allow_low_min_age)"
            )


@dataclass(frozen=True, slots=True)
class PartitionLimits:
    """
    What holds for one user partition.

    :param evaluation: time and minimum age.
    :param live: whether the topic id is in the cluster's complete listing.
    :param listed_at_ms: when that listing was asked for, ms since the epoch. Segments with events from then on are not
        called orphaned: their topic may be newer than the listing.
    :param log_start_offset: the partition's log start offset, inclusive; ``None`` where it is not known.
    :param retention_ms: ``retention.ms``; negative means unlimited.
    :param retention_bytes: ``retention.bytes``; negative means unlimited.
    """

    evaluation: EvaluationLimits
    live: bool
    listed_at_ms: int
    log_start_offset: int | None = None
    retention_ms: int = -1
    retention_bytes: int = -1

    @property
    def cleanup_until_ms(self) -> int | None:
        """
        Before this time the newest record of a segment is too old, ms since the epoch; ``None`` without a limit.

        One that reaches back beyond the epoch is none (Kafka: ``buildRetentionTimeData``).
        """
        until_ms = self.evaluation.now_ms - self.retention_ms
        return until_ms if self.retention_ms >= 0 and until_ms >= 0 else None


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """
    What the rules need of one segment that is not finished.

    :param segment_id: the 16 bytes of its id; breaks ties in the order of the walk.
    :param state: its state, never DELETE_SEGMENT_FINISHED.
    :param start_offset: first offset, inclusive.
    :param end_offset: last offset, inclusive.
    :param max_timestamp_ms: largest record timestamp, ms since the epoch; -1 where there is none.
    :param event_timestamp_ms: when its last event was made, ms since the epoch.
    :param segment_size_in_bytes: size of the log file.
    """

    segment_id: bytes
    state: RemoteLogSegmentState
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    event_timestamp_ms: int
    segment_size_in_bytes: int


@dataclass(frozen=True, slots=True)
class RetentionFinding:
    """
    A segment that is to go.

    :param segment: the segment.
    :param reason: the first reason that applies.
    :param exact: whether the broker's own rules would say the same for certain; otherwise it is an estimate.
    """

    segment: SegmentFacts
    reason: Reason
    exact: bool


def evaluate(segments: Iterable[SegmentFacts], limits: PartitionLimits) -> list[RetentionFinding]:
    """
    Return the segments of one user partition that are to go, by start offset.

    :param segments: every segment of the partition that is not finished; sizes and the order of the walk need them all.
    :param limits: what holds for the partition.
    """
    ordered = sorted(segments, key=lambda s: (s.start_offset, s.end_offset, s.segment_id))
    if not limits.live:
        # A complete listing does not have the topic id, whatever the lineage was: nothing is estimated.
        return [
            RetentionFinding(s, Reason.ORPHANED, exact=True)
            for s in ordered
            if s.event_timestamp_ms < limits.listed_at_ms
        ]
    walk = _RetentionWalk(ordered, limits)
    findings = []
    for segment in ordered:
        breach = walk.breach_of(segment)
        reason = Reason.DANGLING if _is_dangling(segment, limits.evaluation) else breach
        if reason is not None:
            findings.append(RetentionFinding(segment, reason, exact=False))
    return findings


def _is_dangling(segment: SegmentFacts, evaluation: EvaluationLimits) -> bool:
    """Tell whether a copy or deletion was started more than the minimum age ago and not finished."""
    age_ms = evaluation.now_ms - segment.event_timestamp_ms
    return segment.state in UNFINISHED_STEPS and age_ms > evaluation.min_age_ms


class _RetentionWalk:
    """The broker's walk over one live partition, oldest segment first, until a segment that stays."""

    def __init__(self, segments: Iterable[SegmentFacts], limits: PartitionLimits) -> None:
        self._limits = limits
        self._walking = True
        self._cleanup_until_ms = limits.cleanup_until_ms
        copied = (s for s in segments if s.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
        size = sum(s.segment_size_in_bytes for s in copied)
        self._bytes_over = max(0, size - limits.retention_bytes) if limits.retention_bytes >= 0 else 0

    def breach_of(self, segment: SegmentFacts) -> Reason | None:
        """Return the limit that the next segment in order is past, ``None`` if it stays or the walk never gets to it."""
        if not self._walking or segment.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
            # The broker tries a deletion that it has started again, and takes nothing off the bytes for it.
            return None
        copying = segment.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED
        is_being_copied = copying and not _is_dangling(segment, self._limits.evaluation)
        reason = None if is_being_copied else self._breached_limit(segment)
        self._walking = reason is not None
        return reason

    def _breached_limit(self, segment: SegmentFacts) -> Reason | None:
        log_start_offset = self._limits.log_start_offset
        if log_start_offset is not None and segment.end_offset < log_start_offset:
            return Reason.LOG_START_OFFSET
        size = segment.segment_size_in_bytes
        if self._cleanup_until_ms is not None and segment.max_timestamp_ms < self._cleanup_until_ms:
            self._bytes_over = max(0, self._bytes_over - size)
            return Reason.RETENTION_MS
        if self._bytes_over > 0 and self._bytes_over >= size:
            self._bytes_over -= size
            return Reason.RETENTION_BYTES
        return None
