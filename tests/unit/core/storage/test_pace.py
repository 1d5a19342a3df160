# SPDX-License-Identifier: Apache-2.0
"""The pace of deletions, by a clock that only the test moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.storage.bulk_delete import BulkDeletion, Refused
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.core.storage.pace import MOST_IN_A_ROW, PATIENCE_S, Pace, read_keys_per_second


class FakeTime:
    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def pace(self, jitter: float = 0.0, most: float | None = None) -> Pace:
        return Pace(self.clock, self.sleep, lambda: jitter, most)


class Store:
    """A store that does so many objects a second, and throttles whoever asks for more."""

    def __init__(self, time: FakeTime, most_per_s: float) -> None:
        self.time = time
        self.most_per_s = most_per_s
        self.tokens = most_per_s
        self.filled_at = time.now
        self.gone: list[str] = []
        self.throttled = 0

    def send(self, keys: object) -> Refused | None:
        assert isinstance(keys, list)
        self.time.now += 0.05
        self.tokens = min(self.most_per_s, self.tokens + (self.time.now - self.filled_at) * self.most_per_s)
        self.filled_at = self.time.now
        if len(keys) > self.tokens:
            self.throttled += 1
            return Refused("slow down", busy=True)
        self.tokens -= len(keys)
        self.gone += keys
        return None


def test_a_store_that_never_throttles_is_never_waited_for() -> None:
    time = FakeTime()
    pace = time.pace()
    for _ in range(5):
        assert pace.wait(1_000) == 1_000
        pace.answered()
    assert (pace.rate, time.slept) == (None, [])


def test_what_is_allowed_is_never_exceeded() -> None:
    time = FakeTime()
    pace, sent = time.pace(most=1_500), 0
    for _ in range(6):
        sent += pace.wait(4_000)
        # The store takes a tenth of a second for each request.
        time.now += 0.1
        pace.answered()
    assert sent == 6 * 1_500
    assert time.slept == pytest.approx([0.9] * 5)


def test_a_store_that_throttles_below_what_is_allowed_is_obeyed() -> None:
    time = FakeTime()
    store, pace = Store(time, 400), time.pace(most=1_000)
    keys = [str(number) for number in range(10_000)]
    began = time.now
    assert not BulkDeletion(store.send, lambda keys: list(keys), pace).delete(keys).failures
    assert pace.rate is not None
    assert len(store.gone) == 10_000
    assert time.now - began >= 10_000 / 400


@pytest.mark.parametrize("wrong", ["0", "3501", "-1", "1.5", "many", "", "²"])
def test_more_than_s3_allows_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="keys_per_second must be a number from 1 to 3500"):
        read_keys_per_second(wrong)


@pytest.mark.parametrize(
    ("uri", "options", "most"),
    [
        ("s3://bucket", {}, 1_000),
        ("s3://bucket", {"keys_per_second": "3500"}, 3_500),
        ("s3://bucket", {"aws_endpoint": "http://127.0.0.1:9000"}, None),
        ("s3://bucket", {"aws_endpoint": "http://127.0.0.1:9000", "keys_per_second": "20"}, 20),
        ("memory:///", {}, None),
    ],
)
def test_s3_itself_is_not_asked_for_all_that_it_takes(uri: str, options: dict[str, str], most: int | None) -> None:
    given = options | ({"aws_region": "us-east-1"} if uri.startswith("s3") else {})
    storage = ObjectStoreRemoteStorageManager(uri, AivenLayout(), options=given)
    assert storage._calls._pace.wait(10_000) == (most or 10_000)  # type: ignore[attr-defined]


def test_a_folder_has_no_pace(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="takes no options"):
        ObjectStoreRemoteStorageManager(tmp_path.as_uri(), AivenLayout(), options={"keys_per_second": "5"})


def test_throttled_it_halves_its_rate_and_waits_longer_each_time() -> None:
    time = FakeTime()
    pace = time.pace()
    for expected in (500, 250, 125):
        assert pace.wait(1_000) <= 1_000
        pace.throttled(1_000)
        assert pace.rate == expected
    pace.wait(1)
    assert time.slept == [0.25, 0.5, 1.0], "half of the wait is jitter"
    assert not pace.gives_up


def test_clients_that_were_throttled_together_do_not_come_back_together() -> None:
    waits = []
    for jitter in (0.0, 0.5, 0.99):
        time = FakeTime()
        pace = time.pace(jitter)
        pace.throttled(10)
        pace.wait(10)
        waits += time.slept
    assert len(set(waits)) == 3


def test_each_answer_makes_it_faster_by_the_same_step() -> None:
    time = FakeTime()
    pace = time.pace()
    pace.throttled(100)
    rates = []
    for _ in range(4):
        time.now += 10
        pace.wait(1_000)
        pace.answered()
        rates.append(pace.rate)
    assert rates == [55, 60, 65, 70]


def test_what_a_request_holds_is_paid_for_before_the_next_one() -> None:
    time = FakeTime()
    pace = time.pace()
    pace.throttled(200)
    assert pace.wait(1_000) == 100
    assert pace.rate is not None
    paid = 100 / pace.rate
    pace.answered()
    time.slept.clear()
    pace.wait(1_000)
    assert time.slept == [pytest.approx(paid)]


def test_its_patience_ends_by_requests_and_by_time_and_begins_anew_with_each_deletion() -> None:
    time = FakeTime()
    pace = time.pace()
    for _ in range(MOST_IN_A_ROW):
        assert not pace.gives_up
        pace.throttled(10)
    assert pace.gives_up
    pace.begin()
    assert not pace.gives_up
    pace.throttled(10)
    pace.answered()
    time.now += PATIENCE_S
    assert pace.gives_up


@pytest.mark.slow
@pytest.mark.parametrize("most_per_s", [40, 700, 3_500])
def test_it_settles_at_what_the_store_allows(most_per_s: int) -> None:
    time = FakeTime()
    store = Store(time, most_per_s)
    pace = time.pace(0.5)
    keys = [f"k{n}" for n in range(120 * most_per_s)]
    began = time.now
    for first in range(0, len(keys), 30 * most_per_s):
        report = BulkDeletion(store.send, lambda keys: list(keys), pace).delete(keys[first : first + 30 * most_per_s])
        assert not report.throttled
    assert sorted(store.gone) == sorted(keys)
    seconds = time.now - began
    assert seconds < 2.5 * 120, f"{len(keys) / seconds:.0f} a second of {most_per_s}"
    assert store.throttled < 80


def test_a_storm_ends_in_bounded_time_and_names_what_is_left() -> None:
    time = FakeTime()
    store = Store(time, 0)
    keys = [f"k{n}" for n in range(5_000)]
    report = BulkDeletion(store.send, lambda keys: list(keys), time.pace(0.99)).delete(keys)
    assert sum(time.slept) < 60
    assert store.throttled == MOST_IN_A_ROW
    assert set(report.throttled) == set(keys) == set(report.failures)
    assert len(report.sent) <= 1_000
