# SPDX-License-Identifier: Apache-2.0
"""The disk that topics take while copying is off, and what cannot be told of it."""

from __future__ import annotations

import pytest

from airflow_provider_rlmm.features.first_aid.rules import Disk, disk_of
from tests.unit.features.first_aid.looks import settings

HOUR, DAY = 3_600_000, 86_400_000


def disk(now: int | str = 100, replicas: int = 2, **own: str | None) -> Disk:
    return disk_of(settings({name.replace("_", "."): value for name, value in own.items()}), replicas, now)


def test_retention_by_time_takes_what_comes_in_that_time() -> None:
    found = disk(local_retention_ms=str(HOUR), retention_ms=str(7 * DAY))
    assert (found.about_bytes, found.bytes_per_day) == (100 * 7 * 24, 2400)
    assert (found.at_most_bytes, found.more_bytes, found.endless, found.cannot_tell) == (None, 16_700, False, "")


def test_retention_by_size_bounds_it_by_replica_and_a_segment_more() -> None:
    found = disk(local_retention_ms=str(HOUR), retention_bytes="5000")
    assert (found.at_most_bytes, found.about_bytes, found.more_bytes) == (2 * (5000 + 1000), None, 11_900)


@pytest.mark.parametrize(("about", "needed"), [(5, 5), (20, 10), (None, 10)])
def test_the_limit_that_is_reached_first_counts(about: int | None, needed: int) -> None:
    assert Disk(1, 10, about, None, endless=False, cannot_tell="").needed_bytes == needed


def test_what_is_kept_as_long_locally_takes_nothing_more() -> None:
    assert disk(local_retention_ms="-2").more_bytes == 0


def test_without_a_limit_it_grows_without_end() -> None:
    found = disk(retention_ms="-1", local_retention_ms=str(HOUR))
    assert (found.endless, found.about_bytes, found.bytes_per_day, found.needed_bytes) == (True, None, 2400, None)


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ({"local_retention_bytes": "10"}, "local.retention.bytes bounds"),
        ({"retention_bytes": "10"}, "local.retention.bytes bounds"),
        ({"local_retention_ms": "-1"}, "local.retention.ms is unlimited"),
        ({"retention_ms": "-1"}, "local.retention.ms is unlimited"),
        ({"local_retention_ms": "0"}, "local.retention.ms is 0"),
        ({"local_retention_ms": None}, "do not tell local.retention.ms"),
        ({"segment_bytes": None}, "do not tell segment.bytes"),
        ({"retention_ms": None}, "do not tell retention.ms"),
    ],
)
def test_what_nobody_can_tell_says_why(own: dict[str, str | None], why: str) -> None:
    found = disk(**own)
    assert why in found.cannot_tell
    assert (found.now_bytes, found.about_bytes, found.bytes_per_day) == (100, None, None)


def test_without_the_bytes_of_today_only_the_bound_is_told() -> None:
    found = disk("nobody has asked", retention_bytes="5000")
    assert (found.now_bytes, found.at_most_bytes, found.more_bytes) == (None, 12_000, None)
    assert found.cannot_tell == "nobody has asked"
