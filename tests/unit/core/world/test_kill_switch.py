# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.world.kill_switch import STOPPED_ADVICE, reason_of


def test_without_a_switch_runs_go_on() -> None:
    assert reason_of("the variable", None) is None


@pytest.mark.parametrize(
    "value",
    [
        "true",
        "on",
        "1",
        "Ada: the bucket moves",
        "false",
        "False",
        "OFF",
        "off ",
        "0",
        "no",
        "No\n",
        "none",
        "null",
        '"false"',
    ],
)
def test_whatever_it_says_stops_and_is_the_reason(value: str) -> None:
    why = reason_of("the variable x", value)
    assert why is not None
    assert why.startswith("the kill switch is on: the variable x is set, it says ")
    assert value.strip().replace('"', '\\"') in why or value.strip() in why


@pytest.mark.parametrize("value", ["", " ", " \n"])
def test_an_empty_one_stops_too(value: str) -> None:
    assert reason_of("the file", value) == "the kill switch is on: the file is set, it says nothing more"
    assert "any value stops, an empty one too" in STOPPED_ADVICE


def test_a_long_reason_is_cut() -> None:
    assert len(reason_of("the file", "x" * 5_000) or "") < 300
