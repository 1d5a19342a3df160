# SPDX-License-Identifier: Apache-2.0
"""Work on some things at a time: told in order, and begun no further ahead than that."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Barrier, current_thread

import pytest

from airflow_provider_rlmm.core.base.ahead import ahead


def test_some_work_is_under_way_at_the_same_time_and_comes_in_order() -> None:
    together = Barrier(3, timeout=60)

    def work(number: int) -> int:
        together.wait()
        return number * number

    assert list(ahead(work, range(9), 3, "test")) == [number * number for number in range(9)]


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_nothing_is_begun_further_ahead(at_once: int) -> None:
    begun: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(20):
            begun.append(number)
            yield number

    results = ahead(lambda number: number, numbers(), at_once, "test")
    assert begun == []
    for taken, result in enumerate(results, 1):
        assert result == taken - 1
        assert len(begun) <= taken + at_once


def test_one_at_a_time_takes_no_thread() -> None:
    (name,) = ahead(lambda _: current_thread().name, [0], 1, "test")
    assert name == current_thread().name
    (name,) = ahead(lambda _: current_thread().name, [0], 2, "test")
    assert name.startswith("test")


@pytest.mark.parametrize("at_once", [1, 4])
def test_what_goes_wrong_is_raised_where_its_result_would_have_come(at_once: int) -> None:
    def work(number: int) -> int:
        if number == 2:
            raise OSError("of the third")
        return number

    results = ahead(work, range(9), at_once, "test")
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(OSError, match="of the third"):
        next(results)
