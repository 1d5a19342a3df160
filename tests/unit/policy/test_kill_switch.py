# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_rlmm.policy.kill_switch import reason_of, switched_on


@pytest.mark.parametrize("value", [None, "", "  ", "false", "False", "OFF", "off ", "0", "no", "No\n"])
def test_these_let_runs_go_on(value: str | None) -> None:
    assert reason_of("the variable", value) is None


@pytest.mark.parametrize("value", ["true", "on", "1", "Ada: the bucket moves", "offf", "none", "null", "00", '"false"'])
def test_anything_else_stops_and_is_the_reason(value: str) -> None:
    why = reason_of("the variable x", value)
    assert why is not None
    assert why.startswith("the kill switch is on: the variable x is set, it says ")
    assert value.replace('"', '\\"') in why or value in why


def test_a_long_reason_is_cut_and_an_empty_one_is_said() -> None:
    assert len(switched_on("the file", "x" * 5_000)) < 300
    assert switched_on("the file", " \n") == "the kill switch is on: the file is set, it says nothing more"
