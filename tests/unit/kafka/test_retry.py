# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_rlmm.errors import ConfigurationError, EventLogAccessError, EventLogUnavailableError
from airflow_provider_rlmm.kafka.retry import MAX_WAIT_MS, Retry


class Hands:
    """A clock that only sleeping and working turn."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def hands() -> Hands:
    return Hands()


def retry_of(hands: Hands, *, interval_ms: int = 100, max_timeout_ms: int = 10_000, draw: float = 0.5) -> Retry:
    return Retry(interval_ms, max_timeout_ms, lambda: hands.now, hands.sleep, lambda: draw)


def failing(times: int, hands: Hands, cost_s: float = 0.0):
    """Return an attempt that fails so many times, and the list of the seconds it was given."""
    given: list[float] = []

    def attempt(left_s: float) -> str:
        given.append(left_s)
        hands.now += cost_s
        if len(given) <= times:
            raise EventLogUnavailableError("no answer") from OSError("refused")
        return "done"

    return attempt, given


def test_a_success_is_not_repeated(hands):
    attempt, given = failing(0, hands)

    assert retry_of(hands).call("asking", attempt) == "done"
    assert (len(given), hands.slept) == (1, [])


def test_waits_grow_exponentially_under_a_bound_and_are_drawn_in_full(hands):
    attempt, given = failing(9, hands)

    retry_of(hands, max_timeout_ms=1_000_000).call("asking", attempt)

    assert hands.slept == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, MAX_WAIT_MS / 2_000, MAX_WAIT_MS / 2_000]
    assert given[1] == pytest.approx(given[0] - 0.05)


@pytest.mark.parametrize("draw", [0.0, 0.999])
def test_jitter_spreads_over_the_whole_wait(hands, draw):
    attempt, _ = failing(1, hands)

    retry_of(hands, interval_ms=1_000, draw=draw).call("asking", attempt)

    assert hands.slept == [draw]


@pytest.mark.parametrize("kind", [ConfigurationError, EventLogAccessError])
def test_what_is_not_retriable_fails_at_once_as_it_is(hands, kind):
    original = kind("acks must be all")

    def attempt(left_s: float) -> None:
        raise original

    with pytest.raises(kind) as caught:
        retry_of(hands).call("asking", attempt)
    assert caught.value is original
    assert hands.slept == []


def test_other_exceptions_are_not_swallowed(hands):
    with pytest.raises(ZeroDivisionError):
        retry_of(hands).call("asking", lambda left_s: 1 / 0)


def test_the_maximum_ends_it_with_the_last_error_and_its_type(hands):
    attempt, given = failing(10**6, hands, cost_s=1.0)
    started = hands.now

    with pytest.raises(EventLogUnavailableError) as caught:
        retry_of(hands, max_timeout_ms=3_500).call("asking", attempt)

    assert str(caught.value) == f"asking failed for 3.5 s, attempts: {len(given)}; the last one: no answer"
    assert isinstance(caught.value.__cause__, OSError)
    assert hands.now - started <= 3.5 + 1.0
    assert given == sorted(given, reverse=True)
    assert given[-1] > 0


def test_no_wait_that_would_end_after_the_maximum_is_begun(hands):
    attempt, given = failing(10**6, hands)

    with pytest.raises(EventLogUnavailableError):
        retry_of(hands, interval_ms=60_000, max_timeout_ms=2_000).call("asking", attempt)
    assert (len(given), hands.slept) == (1, [])


def test_without_time_there_is_one_attempt(hands):
    attempt, given = failing(1, hands)

    with pytest.raises(EventLogUnavailableError, match="attempts: 1"):
        retry_of(hands, max_timeout_ms=0, draw=0.0).call("asking", attempt)
    assert given == [0.0]
