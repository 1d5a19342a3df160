# SPDX-License-Identifier: Apache-2.0
"""What goes before its storage class's minimum duration is paid for to its end; whose age is unknown is said, not guessed."""

from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.base.clock import DAY_MS
from airflow_provider_rlmm.core.plans.early_deletion import EarlyDeletion, early_deletion, early_in_words
from airflow_provider_rlmm.core.plans.prices import GIGABYTE, StorageClass, StoragePrice

NOW = 1_000 * DAY_MS
COOL = StoragePrice(30_000, StorageClass("Cool", 30))


def test_the_days_that_are_left_are_paid_for_and_a_begun_one_is_whole() -> None:
    # 21 days old: 9 of 30 days of 0.03 are left.
    assert early_deletion(COOL, [(GIGABYTE, NOW - 21 * DAY_MS)], NOW) == EarlyDeletion(1, GIGABYTE, 9_000, 0, 0)
    assert early_deletion(COOL, [(GIGABYTE, NOW - 21 * DAY_MS + 1)], NOW) == EarlyDeletion(1, GIGABYTE, 10_000, 0, 0)
    assert early_deletion(COOL, [(GIGABYTE, NOW - 30 * DAY_MS)], NOW) == EarlyDeletion(0, 0, 0, 0, 0)
    assert early_deletion(COOL, [(GIGABYTE, NOW - 30 * DAY_MS + 1)], NOW) == EarlyDeletion(1, GIGABYTE, 1_000, 0, 0)


def test_what_is_newer_than_now_is_paid_for_the_minimum_and_no_longer() -> None:
    assert early_deletion(COOL, [(GIGABYTE, NOW + 5 * DAY_MS)], NOW) == EarlyDeletion(1, GIGABYTE, 30_000, 0, 0)


def test_small_objects_are_paid_for_as_larger_ones() -> None:
    price = StoragePrice(30_000, StorageClass("GLACIER_IR", 90, 128 * 1024))
    found = early_deletion(price, [(1, NOW)] * 8_192, NOW)
    assert found == EarlyDeletion(8_192, 8_192, 90_000, 0, 0)


def test_of_what_nobody_can_tell_the_age_the_size_is_said() -> None:
    found = early_deletion(COOL, [(5, None), (7, -1), (GIGABYTE, NOW)], NOW)
    assert found == EarlyDeletion(1, GIGABYTE, 30_000, 2, 12)
    minimum, nobody = "before the 30 days of Cool are over", "their age is not known."
    assert early_in_words(COOL, found, "object") == (
        f"1 object, 1.0 GiB, goes {minimum}: that costs 0.03. Cannot tell whether 2 objects, 12 B, go {minimum}: {nobody}"
    )
    only = EarlyDeletion(0, 0, 0, 2, 12)
    assert early_in_words(COOL, only, "segment") == f"Cannot tell whether 2 segments, 12 B, go {minimum}: {nobody}"
    assert early_in_words(COOL, EarlyDeletion(0, 0, 0, 0, 0), "segment") == f"Nothing goes {minimum}."


def test_a_class_without_a_minimum_costs_nothing_whatever_the_age() -> None:
    free = StoragePrice(1, StorageClass("STANDARD", 0))
    assert early_deletion(free, [(5, None), (5, NOW)], NOW) == EarlyDeletion(0, 0, 0, 0, 0)
    assert early_in_words(free, EarlyDeletion(0, 0, 0, 0, 0), "object") == ""


@pytest.mark.parametrize(
    ("price", "why"),
    [
        (StoragePrice(1), "names no storage_class"),
        (StoragePrice(1, StorageClass("hot-eu")), "say no min_days of hot-eu"),
    ],
)
def test_without_a_known_minimum_nobody_can_tell(price: StoragePrice, why: str) -> None:
    assert early_deletion(price, [(5, NOW)], NOW) is None
    assert why in early_in_words(price, None, "object")


def test_without_a_price_there_is_no_cost() -> None:
    assert early_deletion(None, [(5, NOW)], NOW) is None
    assert early_in_words(None, None, "object") == ""
