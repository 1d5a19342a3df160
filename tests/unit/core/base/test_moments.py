# SPDX-License-Identifier: Apache-2.0
"""Points in time as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.values import moment_ms

NOON_MS = 1_772_366_400_000


@pytest.mark.parametrize(
    "value",
    [
        NOON_MS,
        str(NOON_MS),
        "2026-03-01T12:00:00Z",
        " 2026-03-01 13:00+01:00 ",
        "2026-03-01T12:00:00.000+00:00",
        datetime(2026, 3, 1, 12, tzinfo=UTC),
        datetime(2026, 3, 1, 7, tzinfo=timezone(timedelta(hours=-5))),
    ],
)
def test_one_moment_written_in_many_ways(value: Any) -> None:
    assert moment_ms("start", value) == NOON_MS


@pytest.mark.parametrize("value", ["2026-03-01", "2026-03-01T12:00:00", datetime(2026, 3, 1)])  # noqa: DTZ001
def test_a_time_without_a_zone_is_no_moment(value: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"^start must be a time with its zone.*add Z or \+01:00\), not '2026-03-01T"
    ):
        moment_ms("start", value)


@pytest.mark.parametrize(
    "value", ["", "noon", "1e3", "1.5", None, True, 1.5, [], -1, "-1", "1969-12-31T23:59:59Z", "12:00Z"]
)
def test_what_is_no_moment_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^start must be "):
        moment_ms("start", value)


@given(st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_nothing_is_lost_but_what_is_smaller_than_a_millisecond(moment: datetime) -> None:
    found = moment_ms("start", moment.isoformat())
    assert datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=found) <= moment
    assert moment - datetime.fromtimestamp(0, UTC) - timedelta(milliseconds=found) < timedelta(milliseconds=1)
