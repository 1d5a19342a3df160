# SPDX-License-Identifier: Apache-2.0
"""
What time is it? Who waits for a day before he deletes must not believe one worker's clock.

The first source that can be read wins, and this worker's own clock must agree with it. What others said earlier are
bounds: they prove nothing, but the time must not contradict them. Where no source can be read the time is unproven.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from airflow_provider_rlmm.core.base.clock import (
    MAX_CLOCK_SKEW_MS,
    Clock,
    TimeBound,
    TimeProof,
    TimeReading,
    difference_text,
    time_text,
)
from airflow_provider_rlmm.core.base.errors import ClockSkewError, EventLogAccessError, UnprovenClockError
from airflow_provider_rlmm.core.base.values import duration_text

UNPROVEN_CLOCK = "unproven_clock"
"""The override that lets a run wait by a clock that nothing proves, or go on where an old bound contradicts a proof."""

WORKER = "this worker's own clock"

TimeSource = Callable[[], TimeReading]
"""
Reads somebody else's clock.

Raises :class:`~airflow_provider_rlmm.core.base.errors.EventLogAccessError` or
:class:`~airflow_provider_rlmm.core.base.errors.UnprovenClockError` where this cannot be done here: the next source is
asked then.
"""

BoundSource = Callable[[], Iterable[TimeBound]]
"""Says what others said earlier; raises ``EventLogAccessError`` where it may not look."""


def prove_time(
    sources: Sequence[TimeSource],
    bounds: Sequence[BoundSource],
    worker_clock: Clock,
    *,
    required: bool,
    overrides: frozenset[str] = frozenset(),
) -> TimeProof:
    """
    Ask the sources, in their order, until one answers; compare it with this worker's clock and with the bounds.

    :param sources: ways to read a clock, the best first; none where nothing may be written.
    :param bounds: what can be known without writing.
    :param worker_clock: this worker's own clock.
    :param required: whether a time that nothing proves is refused, unless overridden.
    :param overrides: named overrides in force.
    :raises ClockSkewError: if two clocks contradict each other.
    :raises UnprovenClockError: if no source could be read, though it is required.
    :raises EventLogUnavailableError: if the brokers do not answer.
    """
    known, remarks = _known_bounds(bounds)
    reading, failures = _first_reading(sources)
    if reading is None:
        worker_ms = worker_clock()
        for bound in known:
            _check_bound(bound, WORKER, worker_ms)
        if required and UNPROVEN_CLOCK not in overrides:
            raise UnprovenClockError(_unproven(failures))
        said = [f"{b.source} says that it is not before {time_text(b.not_before_ms)}" for b in known]
        why = failures or ["Nothing may be written here, so that no broker's clock can be read"]
        latest = max((bound.not_before_ms for bound in known), default=None)
        return TimeProof(worker_ms, worker_ms, WORKER, False, (*why, *said, *remarks), latest)
    check_agreement(WORKER, reading.worker_ms, reading.source, reading.time_ms)
    for bound in known:
        try:
            _check_bound(bound, reading.source, reading.time_ms)
        except ClockSkewError as e:
            if UNPROVEN_CLOCK not in overrides:
                raise
            remarks.append(f"Override {UNPROVEN_CLOCK!r} lets this pass: {e}")
    return TimeProof(reading.time_ms, reading.worker_ms, reading.source, True, (*failures, *remarks))


def check_agreement(source: str, time_ms: int, other: str, other_ms: int) -> None:
    """
    Check that two clocks agree that were read at the same moment; ``last_modified`` of an object just put is such a reading.

    :param source: whose time the first is: a noun.
    :param time_ms: the first time, ms since the epoch.
    :param other: whose time the second is: a noun.
    :param other_ms: the second time, ms since the epoch.
    :raises ClockSkewError: with both times.
    """
    if abs(time_ms - other_ms) > MAX_CLOCK_SKEW_MS:
        raise _skew(source, time_ms, other, other_ms)


def bound_of_run(started_at: datetime) -> TimeBound:
    """
    Return what Airflow's own time of a run says: its task cannot be earlier.

    :param started_at: when the scheduler started the DAG run, with a time zone.
    """
    return TimeBound("Airflow's time of the run", int(started_at.timestamp() * 1000))


def _check_bound(bound: TimeBound, source: str, time_ms: int) -> None:
    """Check that a time of some source is not before what another clock has said already."""
    if bound.not_before_ms > time_ms + MAX_CLOCK_SKEW_MS:
        raise _skew(source, time_ms, bound.source, bound.not_before_ms)


def _first_reading(sources: Sequence[TimeSource]) -> tuple[TimeReading | None, list[str]]:
    """Return the first reading that can be had, and why those before it could not."""
    failures: list[str] = []
    for source in sources:
        try:
            return source(), failures
        except (EventLogAccessError, UnprovenClockError) as e:
            failures.append(str(e))
    return None, failures


def _known_bounds(bounds: Sequence[BoundSource]) -> tuple[list[TimeBound], list[str]]:
    known: list[TimeBound] = []
    remarks: list[str] = []
    for source in bounds:
        try:
            known += source()
        except EventLogAccessError as e:
            remarks.append(f"Not compared: {e}")
    return known, remarks


def _skew(source: str, time_ms: int, other: str, other_ms: int) -> ClockSkewError:
    return ClockSkewError(
        f"clocks contradict each other: {source} says {time_text(time_ms)}, {other} says {time_text(other_ms)}; the first is "
        f"{difference_text(time_ms - other_ms)}, more than max_clock_skew of {duration_text(MAX_CLOCK_SKEW_MS)}: set "
        "the wrong one right (NTP), then run again"
    )


def _unproven(failures: Sequence[str]) -> str:
    why = "; ".join(failures) or "there is no source to ask"
    return (
        f"nothing proves what time it is, and the wait before a deletion is measured by it: {why}. Grant the right that is "
        "missing, or name a topic with message.timestamp.type=LogAppendTime as clock_topic in the rlmm connection; the "
        f"override {UNPROVEN_CLOCK!r} goes by {WORKER}"
    )
