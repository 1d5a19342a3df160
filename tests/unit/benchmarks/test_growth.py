# SPDX-License-Identifier: Apache-2.0
"""What is superlinear."""

from __future__ import annotations

import pytest

from benchmarks.growth import Case, factors, judged
from benchmarks.processes import Taken


def case(name: str, size: float, cpu: float, rss: int = 100, folder: int = 10) -> Case:
    return Case(name, size, Taken(cpu, cpu, rss, rss), folder)


@pytest.mark.parametrize(("cpu", "superlinear"), [(1.0, False), (5.0, False), (5.9, False), (6.1, True), (25.0, True)])
def test_what_grows_by_more_than_the_size_and_a_fifth_is_superlinear(cpu: float, superlinear: bool) -> None:
    small, large = case("small", 1_000_000, 1.0), case("large", 5_000_000, cpu)
    assert factors(small, large)["CPU"] == pytest.approx(cpu / 5)
    (budget,) = judged([small, large])
    assert budget.met is not superlinear
    assert ("superlinear: CPU" in budget.details) is superlinear


def test_sizes_that_must_cost_the_same_are_compared_as_they_are() -> None:
    few, many = case("5 metadata partitions", 1, 10.0), case("50 metadata partitions", 1, 12.1)
    assert factors(few, many)["CPU"] == pytest.approx(1.21)


def test_the_worst_measure_decides() -> None:
    small, large = case("small", 1, 1.0, rss=100, folder=10), case("large", 10, 5.0, rss=900, folder=200)
    (budget,) = judged([small, large])
    assert budget.ratio == pytest.approx(2.0)
    assert "superlinear: work folder" in budget.details


def test_what_was_nothing_and_is_something_is_superlinear() -> None:
    nothing, still, some = (case("a run", 1, 1.0, folder=size) for size in (0, 0, 1))
    assert factors(nothing, still)["work folder"] == 0.0
    assert factors(nothing, some)["work folder"] == float("inf")


def test_each_size_is_judged_beside_the_next_smaller_one() -> None:
    cases = [case(str(size), size, size) for size in (1, 5, 20)]
    assert [budget.name for budget in judged(cases)] == ["growth: 5", "growth: 20"]
