# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.plans.deletion_window import DeletionWindow
from airflow_provider_rlmm.core.plans.guards import CleanerLimits


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("window", "utc", "is_open"),
    [
        ("22:00-06:00 UTC", "2026-01-01T21:59:59.999", False),
        ("22:00-06:00 UTC", "2026-01-01T22:00:00", True),
        ("22:00-06:00 UTC", "2026-01-02T00:00:00", True),
        ("22:00-06:00 UTC", "2026-01-02T05:59:59.999", True),
        ("22:00-06:00 UTC", "2026-01-02T06:00:00", False),
        ("09:00-17:30 UTC", "2026-01-01T08:59:59", False),
        ("09:00-17:30 UTC", "2026-01-01T17:29:59", True),
        ("09:00-17:30 UTC", "2026-01-01T17:30:00", False),
        # An hour from UTC in winter, two in summer.
        ("22:00-06:00 Europe/Berlin", "2026-01-01T21:30:00", True),
        ("22:00-06:00 Europe/Berlin", "2026-01-01T20:30:00", False),
        ("22:00-06:00 Europe/Berlin", "2026-07-01T20:30:00", True),
        ("22:00-06:00 Europe/Berlin", "2026-07-01T04:30:00", False),
    ],
)
def test_the_window_is_open_by_the_time_of_its_zone(window: str, utc: str, is_open: bool) -> None:
    assert (DeletionWindow.of("deletion_window", window).why_closed(ms(utc)) is None) is is_open


def test_a_closed_window_says_what_time_it_is_there() -> None:
    why = CleanerLimits(deletion_window="22:00-06:00 Europe/Berlin").why_closed(ms("2026-01-01T12:00:00"))
    assert why == "it is 13:00 in Europe/Berlin, and deletion may run 22:00-06:00 Europe/Berlin"
    assert CleanerLimits().why_closed(0) is None


WRONG: list[Any] = [
    "", "22:00-06:00", "22:00-06:00 ", "22-06 UTC", "24:00-06:00 UTC", "22:60-06:00 UTC", "22:00-22:00 UTC",
    "22:00-06:00 Europe/Nowhere", "22:00-06:00 Europe", "22:00-06:00 ../../etc/passwd", "22:00-06:00 /etc/passwd",
    "22:00-06:00 UTC\n", "２２:00-06:00 UTC", 5, True, [],
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_anything_else_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="deletion_window must be two times of a day and a time zone"):
        CleanerLimits(deletion_window=wrong)


@pytest.mark.parametrize(("objects", "took_s", "rest_s"), [(0, 0.0, 0.0), (500, 1.0, 4.0), (500, 9.0, 0.0)])
def test_a_batch_rests_for_the_time_that_its_objects_may_take(objects: int, took_s: float, rest_s: float) -> None:
    assert CleanerLimits(objects_per_second=100).rest_s(objects, took_s) == rest_s
    assert CleanerLimits().rest_s(objects, took_s) == 0
