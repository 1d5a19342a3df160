# SPDX-License-Identifier: Apache-2.0
"""Durations as people write them, and as they were written before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.clock import duration_in_words, elapsed_in_words
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.values import MAX_INTEGER, duration_ms, duration_text

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (0, 0),
        (86_400_000, 86_400_000),
        ("86400000", 86_400_000),
        ("24 h", 24 * HOUR),
        (" 24h ", 24 * HOUR),
        ("23 h 47 min", 23 * HOUR + 47 * 60_000),
        ("3 d", 72 * HOUR),
        ("1 d 2 h 3 min 4 s 5 ms", 26 * HOUR + 3 * 60_000 + 4_005),
        ("90 min", 90 * 60_000),
        ("500 ms", 500),
        ("0 s", 0),
    ],
)
def test_words_and_numbers_say_the_same(value: Any, ms: int) -> None:
    assert duration_ms("wait", value) == ms


@pytest.mark.parametrize(
    ("ms", "text"),
    [(72 * HOUR, "72 h"), (5_400_000, "90 min"), (90_000, "90 s"), (86_400_005, "86400005 ms"), (0, "0 h")],
)
def test_a_form_shows_a_duration_in_one_unit(ms: int, text: str) -> None:
    assert duration_text(ms) == text


@given(st.integers(0, 10**11))
def test_what_a_form_shows_is_read_as_what_it_was(ms: int) -> None:
    assert duration_ms("wait", duration_text(ms)) == ms


@pytest.mark.parametrize(
    "value",
    [
        "", " ", "h", "a day", "24 hours", "1.5 h", "-1 h", "1 min 2 h", "2 h 2 h",
        "24 H", "\u0662 h", "1e3", None, True, 1.5, [], -1, "-1",
    ],
)  # fmt: skip
def test_what_only_resembles_a_duration_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^wait must be "):
        duration_ms("wait", value)


@pytest.mark.parametrize("value", ["23 h", 23 * HOUR, str(23 * HOUR), "2 d"])
def test_bounds_count_however_it_is_written(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^wait must be .* from 24 h to 25 h"):
        duration_ms("wait", value, 24 * HOUR, 25 * HOUR)


@given(st.integers(0, MAX_INTEGER // 1_000_000))
def test_what_we_say_in_words_is_understood(ms: int) -> None:
    # It is rounded up, to a minute at the most.
    assert ms <= duration_ms("wait", duration_in_words(ms)) < ms + 60_000


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 s"),
        (999, "0 s"),
        (59_999, "59 s"),
        (119_999, "1 min"),
        (24 * HOUR - 1, "23 h 59 min"),
        (24 * HOUR, "24 h 0 min"),
    ],
)
def test_what_has_passed_is_rounded_down_so_that_no_wait_looks_over_before_it_is(ms: int, text: str) -> None:
    assert elapsed_in_words(ms) == text
