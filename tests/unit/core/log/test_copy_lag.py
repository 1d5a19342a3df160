# SPDX-License-Identifier: Apache-2.0
"""When leaders copy a closed segment, by what brokers list of the topic's settings."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from airflow_provider_rlmm.core.log.copy_lag import NO_LAG, CopyLag, copy_lag_of

AT_LOCAL_RETENTION = "copied only when local retention is reached: remote.copy.lag.ms=-1, remote.copy.lag.bytes=-1"


def listed(ms: object, size_in_bytes: object) -> Mapping[str, object]:
    return {"retention.ms": "-1", "remote.copy.lag.ms": ms, "remote.copy.lag.bytes": size_in_bytes}


@pytest.mark.parametrize(
    ("settings", "lag", "text"),
    [
        ({"retention.ms": "-1"}, NO_LAG, "copied as soon as a segment is closed"),
        (listed("0", "-1"), CopyLag(0, -1), "copied as soon as a segment is closed"),
        (listed("-1", "0"), CopyLag(-1, 0), "copied as soon as a segment is closed"),
        (listed(60_000, -1), CopyLag(60_000, -1), "copied late: remote.copy.lag.ms=60000, remote.copy.lag.bytes=-1"),
        (listed("-1", "5"), CopyLag(-1, 5), "copied late: remote.copy.lag.ms=-1, remote.copy.lag.bytes=5"),
        (listed("-1", "-1"), CopyLag(-1, -1), AT_LOCAL_RETENTION),
        (
            listed(None, "-1"),
            CopyLag(why_unknown="the brokers withhold remote.copy.lag.ms or remote.copy.lag.bytes"),
            "",
        ),
        (
            listed("0", None),
            CopyLag(why_unknown="the brokers withhold remote.copy.lag.ms or remote.copy.lag.bytes"),
            "",
        ),
    ],
)
def test_a_segment_is_copied_at_once_only_where_that_is_known(
    settings: Mapping[str, int | bool | str | None], lag: CopyLag, text: str
) -> None:
    assert copy_lag_of(settings) == lag
    assert str(lag) == (text or f"whether it has a copy lag is not known: {lag.why_unknown}")
    assert lag.copies_at_once == str(lag).startswith("copied as soon")
