# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.base.clock import (
    HOUR_MS,
    MAX_PROOF_AGE_MS,
    ProvenClock,
    TimeProof,
    difference_text,
    system_clock,
    time_text,
)
from airflow_provider_rlmm.core.base.errors import ClockSkewError

NOON_MS = 1_800_000_000_000


class Hands:
    """A worker's clocks, and the brokers'; only a test moves them."""

    def __init__(self, worker_ahead_ms: int = 0) -> None:
        self.brokers_ms = NOON_MS
        self.worker_ms = NOON_MS + worker_ahead_ms
        self.monotonic_ms = 77
        self.proofs = 0

    def pass_time(self, ms: int) -> None:
        self.brokers_ms += ms
        self.worker_ms += ms
        self.monotonic_ms += ms

    def prove(self) -> TimeProof:
        self.proofs += 1
        return TimeProof(self.brokers_ms, self.worker_ms, "the brokers", True)

    def clock(self) -> ProvenClock:
        return ProvenClock(self.prove, worker_clock=lambda: self.worker_ms, monotonic=lambda: self.monotonic_ms)


def test_it_goes_by_the_proven_time_whatever_the_workers_own_clock_says() -> None:
    hands = Hands(worker_ahead_ms=25 * HOUR_MS)
    clock = hands.clock()
    assert clock() == NOON_MS
    hands.pass_time(1_234)
    assert (clock(), hands.proofs) == (NOON_MS + 1_234, 1)


def test_an_old_proof_is_renewed() -> None:
    hands = Hands()
    clock = hands.clock()
    hands.pass_time(MAX_PROOF_AGE_MS)
    clock()
    assert hands.proofs == 1
    hands.pass_time(1)
    hands.brokers_ms += 3
    assert (clock(), hands.proofs) == (hands.brokers_ms, 2)


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, 6_000])
def test_a_wall_clock_that_was_set_calls_for_a_new_proof(jump_ms: int) -> None:
    hands = Hands()
    clock = hands.clock()
    hands.worker_ms += jump_ms
    assert (clock(), hands.proofs) == (NOON_MS, 2)


def test_a_machine_that_slept_knows_the_time_again() -> None:
    hands = Hands()
    clock = hands.clock()
    hands.brokers_ms += 10 * HOUR_MS
    hands.worker_ms += 10 * HOUR_MS  # the monotonic clock stood still
    assert clock() == NOON_MS + 10 * HOUR_MS


def test_a_later_proof_that_fails_ends_the_clock() -> None:
    hands = Hands()
    clock = hands.clock()
    hands.pass_time(MAX_PROOF_AGE_MS + 1)

    def refuse() -> TimeProof:
        raise ClockSkewError("apart")

    clock._prove = refuse
    for _ in range(2):
        with pytest.raises(ClockSkewError):
            clock()


def test_it_says_whose_time_it_is_and_how_far_the_worker_is_from_it() -> None:
    clock = Hands(worker_ahead_ms=-3).clock()
    assert (clock.proof.proven, clock.proof.source, clock.proof.difference_ms) == (True, "the brokers", -3)
    assert str(clock) == (
        "Time 2027-01-15T08:00:00.000+00:00 is proven by the brokers; this worker's own clock is 3 ms behind."
    )


def test_an_unproven_time_says_so() -> None:
    proof = TimeProof(NOON_MS, NOON_MS, "this worker's own clock", False, ("Nobody was asked", "Nobody answered"))
    assert str(proof) == (
        "Time 2027-01-15T08:00:00.000+00:00 is unproven: it is this worker's own clock. Nobody was asked. Nobody answered."
    )


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (-1, "1969-12-31T23:59:59.999+00:00"),
        (2**63 - 1, "9223372036854775807 ms since 1970"),
        (-(2**63), "-9223372036854775808 ms since 1970"),
    ],
)
def test_every_time_can_be_said(time_ms: int, text: str) -> None:
    assert time_text(time_ms) == text


@pytest.mark.parametrize(
    ("difference_ms", "text"),
    [
        (0, "the same"),
        (-9_999, "9999 ms behind"),
        (301_499, "6 min ahead"),
        (25 * HOUR_MS, "25 h 0 min ahead"),
        (-(2**63), "2562047788015 h 13 min behind"),
    ],
)
def test_every_difference_can_be_said(difference_ms: int, text: str) -> None:
    assert difference_text(difference_ms) == text


def test_the_system_clock_is_in_ms_since_the_epoch() -> None:
    assert 1_700_000_000_000 < system_clock() < 10**14
