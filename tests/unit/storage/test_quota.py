# SPDX-License-Identifier: Apache-2.0
"""The quota of bytes per second."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.storage.quota import ByteQuota


class FakeTime:
    def __init__(self) -> None:
        self.now = 100.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@given(sizes=st.lists(st.integers(0, 5_000), min_size=1, max_size=50), pauses=st.data())
def test_over_any_time_no_more_passes_than_the_rate_and_one_chunk(sizes: list[int], pauses: st.DataObject) -> None:
    time = FakeTime()
    quota = ByteQuota(1_000, time.clock, time.sleep)
    passed = []
    for size in sizes:
        time.now += pauses.draw(st.sampled_from([0.0, 0.0, 0.3, 10.0]))
        quota.take(size)
        passed.append((time.now, size))
    for first, (begin, _) in enumerate(passed):
        for last in range(first, len(passed)):
            between = sum(size for _, size in passed[first:last])
            assert between <= (passed[last][0] - begin) * 1_000 + 1e-6


def test_what_the_rate_allows_does_not_wait() -> None:
    time = FakeTime()
    quota = ByteQuota(1_000, time.clock, time.sleep)
    quota.take(500)
    assert time.now == 100.0
    time.now += 0.5
    quota.take(500)
    assert time.now == 100.5
    quota.take(1)
    assert time.now == 101.0


def test_threads_share_it() -> None:
    waits = list[float]()
    quota = ByteQuota(1_000, lambda: 0.0, waits.append)
    threads = [threading.Thread(target=quota.take, args=(100,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(waits) == pytest.approx([0.1 * n for n in range(1, 8)])


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_a_quota_of_nothing_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        ByteQuota(rate)
