# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_rlmm.core.runs import steps
from airflow_provider_rlmm.core.runs.steps import seconds_of_steps, step


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A clock that a test turns, ms."""
    now = [0]
    monkeypatch.setattr(steps, "monotonic_clock", lambda: now[0])
    return now


def take(folder: Path, name: str, ms: int, hands: list[int]) -> None:
    with step(str(folder), name):
        hands[0] += ms


def test_each_step_says_how_long_it_took_and_those_of_many_parts_add_up(tmp_path: Path, hands: list[int]) -> None:
    take(tmp_path, "plan", 1_500, hands)
    take(tmp_path, "clean-0", 2_000, hands)
    take(tmp_path, "clean-12", 500, hands)
    (tmp_path / "step-Plan.json").write_text("{}")
    (tmp_path / "clean-0.json").write_text("{}")
    assert seconds_of_steps(str(tmp_path)) == {"plan": 1.5, "clean": 2.5}


def test_a_step_that_fails_has_taken_its_time_too_and_another_try_counts_instead(
    tmp_path: Path, hands: list[int]
) -> None:
    def fail() -> None:
        with step(str(tmp_path), "mark"):
            hands[0] += 1_000
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        fail()
    assert seconds_of_steps(str(tmp_path)) == {"mark": 1.0}
    take(tmp_path, "mark", 3_000, hands)
    assert seconds_of_steps(str(tmp_path)) == {"mark": 3.0}


def test_a_time_that_cannot_be_noted_ends_nothing(
    tmp_path: Path, hands: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    take(tmp_path / "file", "plan", 1_000, hands)
    assert "step plan took 1.0 s, and that cannot be noted" in caplog.text


@pytest.mark.parametrize("text", ['{"seconds": -1}', '{"seconds": "1"}', "{}", "[]", "no JSON", '{"seconds": 1e999}'])
def test_what_is_no_time_is_left_out(
    tmp_path: Path, hands: list[int], caplog: pytest.LogCaptureFixture, text: str
) -> None:
    take(tmp_path, "check", 1_000, hands)
    (tmp_path / "step-plan.json").write_text(text)
    assert seconds_of_steps(str(tmp_path)) == {"check": 1.0}
    assert "not all is known of how long the steps took" in caplog.text
