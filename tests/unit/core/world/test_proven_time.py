# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest

from airflow_provider_rlmm.core.base.clock import HOUR_MS, TimeBound, TimeProof, TimeReading
from airflow_provider_rlmm.core.base.errors import (
    ClockSkewError,
    ConfigurationError,
    EventLogAccessError,
    EventLogUnavailableError,
    UnprovenClockError,
)
from airflow_provider_rlmm.core.plans.limits import OVERRIDES
from airflow_provider_rlmm.core.world.proven_time import (
    UNPROVEN_CLOCK,
    BoundSource,
    TimeSource,
    bound_of_run,
    check_agreement,
    prove_time,
)

NOW_MS = 1_800_000_000_000
SKEW_MS = 300_000
YEAR_MS = 365 * 24 * HOUR_MS


def reading(source: str = "broker 1", ahead_ms: int = 0) -> TimeSource:
    """A broker's clock; this worker's own clock is ahead of it."""
    return lambda: TimeReading(source, NOW_MS, NOW_MS + ahead_ms)


def failing(error: Exception) -> Callable[[], TimeReading]:
    def source() -> TimeReading:
        raise error

    return source


def bound(not_before_ms: int) -> BoundSource:
    return lambda: [TimeBound("the record at offset 9", not_before_ms)]


def prove(
    *sources: TimeSource,
    bounds: tuple[BoundSource, ...] = (),
    worker_ms: int = NOW_MS,
    required: bool = True,
    override: bool = False,
) -> TimeProof:
    overrides = frozenset({UNPROVEN_CLOCK}) if override else frozenset[str]()
    return prove_time(sources, bounds, lambda: worker_ms, required=required, overrides=overrides)


def test_the_first_source_that_answers_wins() -> None:
    denied = failing(EventLogAccessError("no READ on group 'x'"))
    hidden = failing(UnprovenClockError("a later time stands before the commit"))
    proof = prove(denied, hidden, reading("broker 2", ahead_ms=40), reading("broker 3"))
    assert (proof.time_ms, proof.source, proof.proven, proof.difference_ms) == (NOW_MS, "broker 2", True, 40)
    assert proof.remarks == ("no READ on group 'x'", "a later time stands before the commit")


@pytest.mark.parametrize("error", [EventLogUnavailableError("no answer"), ConfigurationError("CreateTime")])
def test_what_may_pass_or_is_set_up_wrongly_is_no_reason_to_ask_somebody_else(error: Exception) -> None:
    with pytest.raises(type(error)):
        prove(failing(error), reading())


@pytest.mark.parametrize("ahead_ms", [25 * HOUR_MS, 10 * YEAR_MS, -25 * HOUR_MS, SKEW_MS + 1, -SKEW_MS - 1])
def test_a_worker_that_contradicts_the_brokers_is_refused_with_both_times(ahead_ms: int) -> None:
    with pytest.raises(ClockSkewError) as caught:
        prove(reading(ahead_ms=ahead_ms))
    with pytest.raises(ClockSkewError):  # the override is for what nothing proves, not for what is disproved
        prove(reading(ahead_ms=ahead_ms), override=True)
    with pytest.raises(ClockSkewError):
        prove(reading(ahead_ms=ahead_ms), required=False)
    assert "this worker's own clock says 20" in str(caught.value)
    assert "broker 1 says 2027-01-15T08:00:00.000+00:00" in str(caught.value)


@pytest.mark.parametrize("ahead_ms", [SKEW_MS, -SKEW_MS])
def test_as_far_as_clocks_may_differ_the_proven_time_is_taken(ahead_ms: int) -> None:
    proof = prove(reading(ahead_ms=ahead_ms))
    assert (proof.time_ms, proof.difference_ms) == (NOW_MS, ahead_ms)


def test_nothing_to_compare_with_is_refused_and_says_why_and_the_way_out() -> None:
    with pytest.raises(UnprovenClockError) as caught:
        prove(failing(EventLogAccessError("no READ on group 'x'")))
    for part in ("no READ on group 'x'", "clock_topic", f"override '{UNPROVEN_CLOCK}'"):
        assert part in str(caught.value)
    assert UNPROVEN_CLOCK in OVERRIDES


@pytest.mark.parametrize(("required", "override"), [(False, False), (True, True)])
def test_by_name_or_where_nothing_is_deleted_the_workers_own_clock_will_do(required: bool, override: bool) -> None:
    denied = failing(EventLogAccessError("no READ on group 'x'"))
    proof = prove(denied, bounds=(bound(NOW_MS - 7),), required=required, override=override)
    assert (proof.time_ms, proof.source, proof.proven) == (NOW_MS, "this worker's own clock", False)
    assert proof.remarks == (
        "no READ on group 'x'",
        "the record at offset 9 says that it is not before 2027-01-15T07:59:59.993+00:00",
    )


def test_without_leave_to_write_it_says_that_nobody_was_asked() -> None:
    proof = prove(required=False)
    assert proof.remarks == ("Nothing may be written here, so that no broker's clock can be read",)


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("override", [False, True])
def test_a_worker_that_is_behind_what_brokers_wrote_is_refused_even_unproven(required: bool, override: bool) -> None:
    with pytest.raises(ClockSkewError, match=r"own clock says .*, the record at offset 9 says .*behind, more than"):
        prove(bounds=(bound(NOW_MS + SKEW_MS + 1),), required=required, override=override)


def test_a_proof_that_contradicts_a_record_is_refused_unless_overridden() -> None:
    ahead = bound(NOW_MS + SKEW_MS + 1)
    with pytest.raises(ClockSkewError, match=r"broker 1 says .*, the record at offset 9 says "):
        prove(reading(), bounds=(ahead,))
    proof = prove(reading(), bounds=(ahead,), override=True)
    assert proof.proven
    (remark,) = proof.remarks
    assert remark.startswith("Override 'unproven_clock' lets this pass: clocks contradict each other")


@pytest.mark.parametrize("not_before_ms", [NOW_MS + SKEW_MS, NOW_MS - 10 * YEAR_MS, -(2**63)])
def test_a_bound_that_the_time_does_not_contradict_lets_it_pass(not_before_ms: int) -> None:
    assert prove(reading(), bounds=(bound(not_before_ms),)).proven


def test_what_may_not_be_looked_at_bounds_nothing() -> None:
    def denied() -> list[TimeBound]:
        raise EventLogAccessError("no READ on the topic")

    assert prove(reading(), bounds=(denied,)).remarks == ("Not compared: no READ on the topic",)


def test_the_start_of_the_run_is_a_bound() -> None:
    start = datetime(2027, 1, 15, 10, tzinfo=timezone(timedelta(hours=2)))
    assert bound_of_run(start) == bound_of_run(start.astimezone(UTC)) == TimeBound("Airflow's time of the run", NOW_MS)
    with pytest.raises(ClockSkewError):
        prove(reading(), bounds=(lambda: [bound_of_run(start + timedelta(hours=1))],))


@pytest.mark.parametrize("other_ms", [NOW_MS + SKEW_MS + 1, NOW_MS - SKEW_MS - 1, 2**63 - 1])
def test_a_clock_that_was_read_at_the_same_moment_must_agree(other_ms: int) -> None:
    check_agreement("broker 1", NOW_MS, "last_modified of s3://bucket/stamp", NOW_MS + SKEW_MS)
    with pytest.raises(ClockSkewError, match=r"broker 1 says .*, last_modified of s3://bucket/stamp says "):
        check_agreement("broker 1", NOW_MS, "last_modified of s3://bucket/stamp", other_ms)
