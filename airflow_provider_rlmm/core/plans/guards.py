# SPDX-License-Identifier: Apache-2.0
"""Limits of destructive work as value objects: what may be done at once, how much by one plan, and from what age on."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_rlmm.core.base.clock import HOUR_MS, MINUTE_MS
from airflow_provider_rlmm.core.base.declarations import check_fields
from airflow_provider_rlmm.core.base.documents import Share
from airflow_provider_rlmm.core.base.errors import ClusterMismatchError, ConfigurationError
from airflow_provider_rlmm.core.base.given import parameters
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.plans import limits
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.deletion_window import DeletionWindow

__all__ = ["CleanerLimits"]

FLOOR_UNREFERENCED_MS = 24 * HOUR_MS

SHORT_WAIT = "short_unreferenced_wait"


@dataclass(frozen=True, slots=True)
class CleanerLimits:
    """
    Limits of one cleaner run.

    :param min_absence_ms: how far apart the two observations of an absent topic id must be, ms.
    :param batch_segments: segments that are started, deleted and finished together, at most
        :data:`~airflow_provider_rlmm.core.plans.limits.MAX_BATCH_SEGMENTS`.
    :param max_missing_segments: how many segments with no object at all are tolerated before the run stops.
    :param allowed_quarantine: names out of :data:`~airflow_provider_rlmm.core.plans.limits.QUARANTINE_KINDS` that do not
        stop destructive work on a metadata partition.
    :param overrides: names out of :data:`~airflow_provider_rlmm.core.plans.limits.OVERRIDES`.
    :param objects_per_second: the most objects that a run deletes in a second on average, shared among its tasks; ``None``
        for as many as the store allows.
    :param deletion_window: the time of day at which deletion may run, as ``22:00-06:00 Europe/Berlin``; ``None`` for any.
    :param max_minutes: minutes from the start of deletion after which a run begins no further batch; ``None`` for no limit.
    :raises ConfigurationError: on a limit out of range, an unknown name, or a low limit without its override.
    """

    min_absence_ms: int = limits.MIN_ABSENCE.default
    batch_segments: int = limits.BATCH_SEGMENTS.default
    max_missing_segments: int = limits.MAX_MISSING_SEGMENTS.default
    allowed_quarantine: frozenset[str] = limits.ALLOWED_QUARANTINE.default
    overrides: frozenset[str] = limits.NAMED_OVERRIDES.default
    objects_per_second: int | None = limits.OBJECTS_PER_SECOND.default
    deletion_window: str | None = limits.DELETION_WINDOW.default
    max_minutes: int | None = limits.MAX_MINUTES.default

    def __post_init__(self) -> None:
        check_fields(self, limits.CLEANER)
        if self.min_absence_ms < limits.MIN_ABSENCE.default and "short_min_absence" not in self.overrides:
            raise ConfigurationError(
                f"min_absence_ms {self.min_absence_ms} is below 24 h: this needs the override 'short_min_absence'"
            )

    def why_closed(self, now_ms: int) -> str | None:
        """
        Return why nothing may be deleted at this time of day, ``None`` where it may.

        :param now_ms: ms since the epoch, proven.
        """
        if self.deletion_window is None:
            return None
        return DeletionWindow.of("deletion_window", self.deletion_window).why_closed(now_ms)

    def why_over(self, began_ms: int, now_ms: int) -> str | None:
        """
        Return why a run begins no further batch, ``None`` where its time is not over.

        :param began_ms: when it began to delete, ms since the epoch.
        :param now_ms: ms since the epoch.
        """
        if self.max_minutes is None or now_ms - began_ms < self.max_minutes * MINUTE_MS:
            return None
        return f"the time of the run is over ({self.max_minutes} min, by max_minutes)"

    def rest_s(self, objects: int, took_s: float, at_once: int = 1) -> float:
        """
        Return how long to rest after some deletions, seconds.

        :param objects: objects that were deleted.
        :param took_s: seconds since the deletion began.
        :param at_once: how many tasks of the run delete at the same time: each has its share of the rate.
        """
        return max(0.0, objects * at_once / self.objects_per_second - took_s) if self.objects_per_second else 0.0


@dataclass(frozen=True, slots=True)
class BlastRadius:
    """
    The most that one plan may delete.

    :param max_segments: segments.
    :param max_bytes: bytes.
    :param max_share: share of all known segments of the cluster, 0 to 1.
    :raises ConfigurationError: on a limit of another kind or out of its range.
    """

    max_segments: int = limits.MAX_SEGMENTS.default
    max_bytes: int = limits.MAX_BYTES.default
    max_share: Share = limits.MAX_SHARE.default

    def __post_init__(self) -> None:
        check_fields(self, limits.BLAST_RADIUS)

    def excess(self, planned: Count, known: Count) -> str | None:
        """
        Return which limits are passed, and by what; ``None`` where none is.

        :param planned: what would go.
        :param known: all there is.
        """
        passed = self._passed(planned, known)
        found = [
            f"{name} is {_shown(name, value, limit)}, the limit {_shown(name, limit, value)}"
            for name, value, limit, _ in passed
        ]
        return ", ".join(found) or None

    def remedy(self, planned: Count, known: Count) -> str:
        """
        Say how the limits that are passed are raised for one run, with the least values that would do.

        :param planned: what would go.
        :param known: all there is; more than a limit was passed.
        """
        return f"look at the plan, then raise the limit for one run by {parameters(self.least(planned, known))}"

    def least(self, planned: Count, known: Count) -> dict[str, float]:
        """
        Return the limits that are passed, by name, and the least value of each that would not be.

        :param planned: what would go.
        :param known: all there is.
        """
        return {name: enough for name, _, _, enough in self._passed(planned, known)}

    def _passed(self, planned: Count, known: Count) -> list[tuple[str, float, float, float]]:
        """Return name, value and limit of those that are passed, and the least limit that is not."""
        share, enough = float(planned.segments > 0), 1.0
        if known.segments:
            share = planned.segments / known.segments
            # Hundredths, rounded up: a limit that is rounded down would refuse the same plan again.
            enough = -(-planned.segments * 100 // known.segments) / 100
        measured: tuple[tuple[str, float, float, float], ...] = (
            ("max_segments", planned.segments, self.max_segments, planned.segments),
            ("max_bytes", planned.bytes, self.max_bytes, planned.bytes),
            ("max_share", share, self.max_share, enough),
        )
        return [found for found in measured if found[1] > found[2]]


def _shown(name: str, value: float, other: float) -> str:
    """Return an amount for people, to the last digit where it would read like the other one."""
    shown = limit_in_words(name, value, digits=4)
    return shown if shown != limit_in_words(name, other, digits=4) else str(value)


def limit_in_words(name: str, amount: float, digits: int = 6) -> str:
    """
    Return an amount of what a limit of the blast radius bounds, for people.

    :param name: of the limit.
    :param amount: segments, bytes, or a share from 0 to 1.
    :param digits: significant ones of a share, at most.
    """
    if name == limits.MAX_SHARE.name:
        return f"{amount * 100:.{digits}g} %"
    return human_bytes(int(amount)) if name == limits.MAX_BYTES.name else f"{int(amount):,}"


def check_cluster(cluster_id: str, expected_cluster_id: str | None, overrides: frozenset[str]) -> None:
    """
    Check that this is the cluster that was meant.

    :param cluster_id: id of the connected cluster.
    :param expected_cluster_id: id from the connection, ``None`` where none was given.
    :param overrides: overrides in force; any of them requires an expected cluster id.
    :raises ClusterMismatchError: if the ids differ.
    :raises ConfigurationError: if an override is used without an expected cluster id.
    """
    if expected_cluster_id and cluster_id != expected_cluster_id:
        raise ClusterMismatchError(
            f"connected to cluster {cluster_id!r}, expected {expected_cluster_id!r}: check the Kafka connection and "
            "expected_cluster_id of the rlmm connection"
        )
    if overrides and not expected_cluster_id:
        raise ConfigurationError(
            f"overrides {sorted(overrides)} need the id of the cluster that they are for, so that they can never reach "
            "another one: set expected_cluster_id in the rlmm connection; 'rlmm check' prints the id"
        )


@dataclass(frozen=True, slots=True)
class ScrubLimits:
    """
    Limits of what a scrub may delete.

    :param min_unreferenced_ms: how far apart the first and the last scrub that found an object without a record must be, and
        how old the object must be, ms.
    :param min_absence_ms: how long ago the topic of such an object must have been marked as deleted, ms.
    :param batch_segments: segments that are looked at and deleted together, at most
        :data:`~airflow_provider_rlmm.core.plans.limits.MAX_BATCH_SEGMENTS`.
    :param overrides: names out of :data:`~airflow_provider_rlmm.core.plans.limits.OVERRIDES`.
    :param objects_per_second: the most that is deleted on an average; ``None`` for all that the store allows.
    :param deletion_window: the time of day at which deletion may run, as ``22:00-06:00 Europe/Berlin``; ``None`` for any.
    :raises ConfigurationError: on a limit out of range, an unknown name, or a low limit without its override.
    """

    min_unreferenced_ms: int = limits.MIN_UNREFERENCED.default
    min_absence_ms: int = limits.MIN_ABSENCE.default
    batch_segments: int = limits.BATCH_SEGMENTS.default
    overrides: frozenset[str] = limits.NAMED_OVERRIDES.default
    objects_per_second: int | None = limits.OBJECTS_PER_SECOND.default
    deletion_window: str | None = limits.DELETION_WINDOW.default

    @property
    def of_the_cleaner(self) -> CleanerLimits:
        """Those that the cleaner has, too."""
        return CleanerLimits(
            min_absence_ms=self.min_absence_ms,
            batch_segments=self.batch_segments,
            overrides=self.overrides,
            objects_per_second=self.objects_per_second,
            deletion_window=self.deletion_window,
        )

    def __post_init__(self) -> None:
        limits.MIN_UNREFERENCED.check(self.min_unreferenced_ms)
        # It refuses what is wrong with the others.
        _ = self.of_the_cleaner
        if self.min_unreferenced_ms < FLOOR_UNREFERENCED_MS and SHORT_WAIT not in self.overrides:
            raise ConfigurationError(
                f"min_unreferenced_ms {self.min_unreferenced_ms} is below 24 h: this needs the override {SHORT_WAIT!r}"
            )
