# SPDX-License-Identifier: Apache-2.0
"""What a benchmark says of a budget."""

from __future__ import annotations

import pytest

from benchmarks.measuring import Budget, in_turns, turn_by_turn


@pytest.mark.parametrize(
    ("ratio", "at_least", "met", "said"),
    [
        (0.2, False, True, "met"),
        (0.3, False, False, "MISSED"),
        (0.3, True, True, "met"),
        (0.2, True, False, "MISSED"),
        (-0.7, False, False, "not measured"),
        (0.0, False, False, "not measured"),
    ],
)
def test_a_budget_is_met_by_what_was_measured(ratio: float, at_least: bool, met: bool, said: str) -> None:
    budget = Budget("P6 memory", ratio, 0.25, at_least, ["more"])
    assert budget.met is met
    line, more = str(budget).split("\n")
    assert line.endswith(f"x   {said}")
    assert more == "    more"


def test_works_run_in_turns() -> None:
    ran: list[str] = []

    def work(name: str) -> int:
        ran.append(name)
        return len(ran)

    assert in_turns([lambda: work("a"), lambda: work("b"), lambda: work("c")], 2) == [[1, 4], [2, 5], [3, 6]]
    assert ran == list("abcabc")
    assert turn_by_turn(lambda: 1.0, lambda: 2.0, 2) == ([1.0, 1.0], [2.0, 2.0])
