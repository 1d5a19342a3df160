# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError, StorageAccessError, StorageUnavailableError
from airflow_provider_rlmm.core.segments.pacing import ByteQuota, StoragePatience


class Time:
    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def test_bytes_flow_no_faster_than_the_quota() -> None:
    time = Time()
    quota = ByteQuota(1000, clock=time, sleep=time.sleep)
    begun = time.now
    for _ in range(5):
        quota.take(500)
    # What was taken last may still flow.
    assert time.now - begun == pytest.approx(2.0)


def test_a_quota_that_was_not_used_is_not_saved_up() -> None:
    time = Time()
    quota = ByteQuota(1000, clock=time, sleep=time.sleep)
    time.now += 3600
    quota.take(5000)
    quota.take(1)
    assert time.pauses == [pytest.approx(5.0)]


def test_without_a_quota_nobody_waits() -> None:
    time = Time()
    ByteQuota(None, clock=time, sleep=time.sleep).take(2**40)
    assert time.pauses == []


def test_a_quota_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="bytes_per_second is 0"):
        ByteQuota(0)


def failing(times: int, error: Exception) -> list[Exception | str]:
    return [*([error] * times), "answer"]


def call(patience: StoragePatience, answers: list[Exception | str]) -> str:
    def ask() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return patience.call(ask)


def test_a_storage_that_does_not_answer_is_asked_again_after_pauses_that_double() -> None:
    time = Time()
    patience = StoragePatience(60.0, clock=time, sleep=time.sleep, jitter=lambda: 1.0)
    assert call(patience, failing(4, StorageUnavailableError("down"))) == "answer"
    assert time.pauses == pytest.approx([0.1, 0.2, 0.4, 0.8])


def test_pauses_have_jitter() -> None:
    time = Time()
    patience = StoragePatience(60.0, clock=time, sleep=time.sleep, jitter=lambda: 0.0)
    call(patience, failing(2, StorageUnavailableError("down")))
    assert time.pauses == pytest.approx([0.05, 0.1])


def test_it_is_given_up_when_the_time_is_up() -> None:
    time = Time()
    patience = StoragePatience(30.0, clock=time, sleep=time.sleep, jitter=lambda: 0.5)
    with pytest.raises(StorageUnavailableError, match=r"down \(asked \d+ times in"):
        call(patience, failing(10**6, StorageUnavailableError("down")))
    assert 20 < time.now - 100 <= 30
    assert max(time.pauses) <= 10


def test_what_does_not_pass_is_not_asked_again() -> None:
    time = Time()
    with pytest.raises(StorageAccessError):
        call(StoragePatience(30.0, clock=time, sleep=time.sleep), failing(1, StorageAccessError("forbidden")))
    assert time.pauses == []


def test_without_patience_it_is_asked_once() -> None:
    time = Time()
    answers = failing(1, StorageUnavailableError("down"))
    with pytest.raises(StorageUnavailableError, match="asked 1 time in"):
        call(StoragePatience(0.0, clock=time, sleep=time.sleep), answers)
    assert answers == ["answer"]
