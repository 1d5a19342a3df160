# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.world.gate import Gate
from airflow_provider_rlmm.core.world.hold import Hold
from airflow_provider_rlmm.core.world.questions import Question, Writer

EIGHT_IN_THE_MORNING_MS = 8 * 3_600_000
AT_NIGHT = CleanerLimits(deletion_window="22:00-06:00 UTC", objects_per_second=10)
ASKS_ALL = Writer("writer", dict.fromkeys(Question, "always"), {})


def gate(writer: Writer = ASKS_ALL, *, is_dry: bool = False, **changes: Any) -> Gate:
    return Gate(writer, is_dry=is_dry, clock=lambda: EIGHT_IN_THE_MORNING_MS, limits=AT_NIGHT, **changes)


def test_it_answers_as_of_the_moment_at_which_it_is_asked() -> None:
    switch: list[str | None] = [None, "the kill switch is on"]
    holds = [Hold(), Hold.of(("payments",))]
    asked = gate(stop_source=lambda: switch.pop(0), hold_source=lambda: holds.pop(0))
    assert (asked.why_stopped(), asked.why_stopped()) == (None, "the kill switch is on")
    assert (asked.hold().entries, asked.hold().entries) == ((), ("payments",))
    assert "22:00-06:00 UTC" in str(asked.why_closed())
    assert asked.rest_s(30, took_s=1) == 2


def test_for_a_dry_run_it_is_open_and_says_what_would_close_it(caplog: pytest.LogCaptureFixture) -> None:
    asked = gate(is_dry=True, stop_source=lambda: "the kill switch is on", hold_source=lambda: Hold.of(("payments",)))
    assert (asked.why_stopped(), asked.why_closed(), asked.rest_s(30, took_s=1)) == (None, None, 0)
    assert "dry run: the kill switch is on; a real run would end here" in caplog.text
    assert asked.hold().entries == ("payments",), "what is held is left out of a dry run as well"


@pytest.mark.parametrize(
    ("question", "ask"),
    [
        (Question.SWITCH, Gate.why_stopped),
        (Question.HOLD, Gate.hold),
        (Question.TIME_OF_DAY, Gate.why_closed),
        (Question.PACE, lambda gate: gate.rest_s(1, 0)),
    ],
)
def test_it_answers_no_question_that_the_writer_has_not_declared(
    question: Question, ask: Callable[[Gate], object]
) -> None:
    others = {other: "always" for other in Question if other is not question}
    with pytest.raises(LookupError, match=f"the writer does not declare that it asks for {question.value}"):
        ask(gate(Writer("writer", others, {question: "not"})))
