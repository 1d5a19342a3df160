# SPDX-License-Identifier: Apache-2.0
"""Costs beside exact fractions: a month and the days that are left are rounded once, to the nearest millionth."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.clock import DAY_MS
from airflow_provider_rlmm.core.plans.early_deletion import MONTH_DAYS, early_deletion
from airflow_provider_rlmm.core.plans.prices import GIGABYTE, MICROS, StorageClass, StoragePrice, price_micros, spelled

pytestmark = pytest.mark.slow

PRICES = st.integers(0, 10**12)
SIZES = st.integers(0, 2**50)
NOW = 10_000 * DAY_MS
HALF = Fraction(1, 2)


@given(micros=PRICES, size=SIZES, objects=st.integers(0, 2**30), smallest=st.integers(0, 2**20))
def test_a_month_is_the_exact_cost_rounded_once(micros: int, size: int, objects: int, smallest: int) -> None:
    price = StoragePrice(micros, StorageClass("any", 0, smallest))
    exact = Fraction(max(size, objects * smallest) * micros, GIGABYTE)
    assert abs(price.month(size, objects) - exact) <= HALF


@given(micros=PRICES)
def test_a_price_is_read_as_it_is_spelled(micros: int) -> None:
    assert price_micros("price", spelled(micros)) == micros
    assert Fraction(spelled(micros)) == Fraction(micros, MICROS)


@given(
    micros=PRICES,
    days=st.integers(0, 400),
    found=st.lists(st.tuples(SIZES, st.none() | st.integers(NOW - 500 * DAY_MS, NOW + DAY_MS)), max_size=20),
)
def test_each_is_early_late_or_of_unknown_age_and_the_days_that_are_left_are_paid_for(
    micros: int, days: int, found: list[tuple[int, int | None]]
) -> None:
    told = early_deletion(StoragePrice(micros, StorageClass("any", days)), found, NOW)
    assert told is not None
    known = [(size, at) for size, at in found if at is not None]
    early = [(size, at + days * DAY_MS - NOW) for size, at in known if at + days * DAY_MS > NOW] if days else []
    assert (told.count, told.bytes) == (len(early), sum(size for size, _ in early))
    assert told.unknown == (len(found) - len(known) if days else 0)
    # Each object is paid for no longer than a begun day, and never for more than the minimum.
    least = sum(Fraction(size * min(left, days * DAY_MS), DAY_MS) for size, left in early)
    most = sum(size * min(Fraction(left, DAY_MS) + 1, Fraction(days)) for size, left in early)
    cost = Fraction(micros, GIGABYTE * MONTH_DAYS)
    assert least * cost - HALF <= told.micros <= most * cost + HALF
