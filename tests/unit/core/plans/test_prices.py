# SPDX-License-Identifier: Apache-2.0
"""What storing costs: exact to the millionth, by storage class, and never a 0 where nobody knows a price."""

from __future__ import annotations

import json

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.plans.prices import (
    GIGABYTE,
    StorageClass,
    StoragePrice,
    check_prices,
    money,
    no_price,
    price_micros,
    read_prices,
    spelled,
    storage_price,
)
from airflow_provider_rlmm.core.plans.storage_classes import KNOWN_CLASSES

KIB = 1024
TWO = '{"STANDARD": {"per_gb_month": "0.023"}, "GLACIER_IR": {"per_gb_month": 0.004, "per_1000_requests": "0.02"}}'


def test_a_price_is_exact_to_the_millionth_and_rounded_once() -> None:
    price = StoragePrice(23_000)
    assert price.month(GIGABYTE) == 23_000
    assert price.month(10**15 * GIGABYTE + 1) == 23_000 * 10**15
    assert (price.month(GIGABYTE // 46_000 * 2), price.month(GIGABYTE // 46_001), price.month(0)) == (1, 0, 0)
    assert price.month(-GIGABYTE) == -23_000


def test_small_objects_are_paid_for_as_larger_ones_where_the_class_says_so() -> None:
    price = StoragePrice(12_500, StorageClass("STANDARD_IA", 30, 128 * KIB))
    assert price.paid_bytes(10, objects=3) == 3 * 128 * KIB
    assert price.paid_bytes(GIGABYTE, objects=3) == GIGABYTE
    assert price.month(10, objects=8 * KIB) == 12_500
    assert (price.month(10), StoragePrice(12_500).month(10, objects=8 * KIB)) == (0, 0)
    assert price.month(-GIGABYTE) == -12_500


@pytest.mark.parametrize(
    ("storage_class", "objects", "cost"),
    [("STANDARD", 1_000, 5), ("STANDARD", 1_001, 10), ("Cool", 5_000, 5), ("Cool", 5_001, 10), ("X", 0, 5)],
)
def test_a_listing_costs_a_request_for_each_page(storage_class: str, objects: int, cost: int) -> None:
    assert StoragePrice(1, StorageClass(storage_class, micros_per_1000_requests=5_000)).listing(objects) == cost


def test_where_nobody_has_said_the_price_of_requests_a_listing_has_no_cost() -> None:
    assert (StoragePrice(1).listing(5), StoragePrice(1, StorageClass("STANDARD")).listing(5)) == (None, None)


def test_the_price_of_the_class_that_the_connection_names_counts() -> None:
    assert storage_price(TWO, "STANDARD") == StoragePrice(23_000, StorageClass("STANDARD", 0, 0))
    glacier = StorageClass("GLACIER_IR", 90, 128 * KIB, 20_000)
    assert storage_price(TWO, "GLACIER_IR", otherwise=1) == StoragePrice(4_000, glacier)
    assert storage_price(TWO, "GLACIER_IR", of_run=1, otherwise=2) == StoragePrice(1, glacier)


def test_a_class_without_a_price_of_its_own_has_that_of_all_others() -> None:
    assert storage_price(TWO, "STANDARD_IA") is None
    assert storage_price(TWO, "STANDARD_IA", otherwise=7) == StoragePrice(7, StorageClass("STANDARD_IA", 30, 128 * KIB))
    assert storage_price(None, None, otherwise=7) == StoragePrice(7)
    assert (storage_price(None, None), storage_price(None, "STANDARD")) == (None, None)
    assert storage_price(None, None, of_run=0) == StoragePrice(0)


def test_the_only_class_that_has_a_price_is_the_class() -> None:
    one = '{"COLDLINE": {"per_gb_month": "0.004"}}'
    assert storage_price(one, None) == StoragePrice(4_000, StorageClass("COLDLINE", 90))
    check_prices(one, None)
    with pytest.raises(ConfigurationError, match=r"\['GLACIER_IR', 'STANDARD'\].* name it in storage_class"):
        check_prices(TWO, None)
    assert (storage_price(TWO, None), storage_price(TWO, None, otherwise=7)) == (None, StoragePrice(7))
    check_prices(TWO, "NEARLINE")


def test_of_a_class_that_no_service_documents_a_person_says_the_minimums() -> None:
    assert storage_price('{"hot-eu": {"per_gb_month": 1}}', None) == StoragePrice(
        1_000_000, StorageClass("hot-eu", None, 0)
    )
    said = json.dumps({"STANDARD": {"per_gb_month": 1, "min_days": 90, "min_object_bytes": 4096}})
    assert storage_price(said, None) == StoragePrice(1_000_000, StorageClass("STANDARD", 90, 4096))


def test_each_documented_minimum_names_its_source() -> None:
    assert all(known.source.startswith("https://") for known in KNOWN_CLASSES.values())
    days = {name: known.min_days for name, known in KNOWN_CLASSES.items() if known.min_days}
    assert days == {
        "STANDARD_IA": 30, "ONEZONE_IA": 30, "GLACIER_IR": 90, "GLACIER": 90, "DEEP_ARCHIVE": 180,
        "NEARLINE": 30, "COLDLINE": 90, "ARCHIVE": 365, "Cool": 30, "Cold": 90, "Archive": 180,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0.023", "prices must be a JSON object such as"),
        ("{}", "prices must be a JSON object such as"),
        ('{"STANDARD": 0.023}', "prices.STANDARD must be an object with per_gb_month"),
        ('{"STANDARD": {"per_1000_requests": 1}}', "prices.STANDARD must be an object with per_gb_month"),
        ('{"STANDARD": {"per_gb_month": 1}, "STANDARD": {"per_gb_month": 2}}', "prices must be a JSON object such as"),
        ('{"STANDARD": {"per_gb_month": NaN}}', "prices must be a JSON object such as"),
        ('{"STANDARD": {"per_gb_month": true}}', "prices.STANDARD.per_gb_month must be a number from 0"),
        ('{"STANDARD": {"per_gb_month": "1_0"}}', "prices.STANDARD.per_gb_month must be a number from 0"),
        ('{"STANDARD": {"per_gb_month": "9e99"}}', "prices.STANDARD.per_gb_month must be a number from 0"),
        ('{"STANDARD": {"per_gb_month": 0.0000001}}', "with at most 6 decimals"),
        ('{"STANDARD": {"per_gb_month": -1}}', "prices.STANDARD.per_gb_month must be a number from 0"),
        ('{"STANDARD": {"per_gb_month": 1e300}}', "prices.STANDARD.per_gb_month must be a number from 0"),
        ('{"STANDARD": {"per_gb_month": 1, "min_days": "30"}}', "prices.STANDARD.min_days must be an integer"),
        ('{"STANDARD": {"per_gb_month": 1, "min_days": true}}', "prices.STANDARD.min_days must be an integer"),
        ('{"STANDARD": {"per_gb_month": 1, "per_put": 1}}', r"unknown fields \['per_put'\]"),
        ('{"standard_ia": {"per_gb_month": 1}}', "prices must be STANDARD_IA, in capitals as the store has it"),
        ('{"archive": {"per_gb_month": 1}}', "prices must be ARCHIVE or Archive, in capitals"),
        ('{"a b": {"per_gb_month": 1}}', "prices must be a storage class"),
    ],
)
def test_prices_that_are_none_are_refused_by_name(text: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        read_prices("prices", text)


def test_prices_are_read_as_they_were_written() -> None:
    for value in ("0.0125", " 0.0125 ", 0.0125, "125e-4"):
        assert price_micros("price", value) == 12_500
    assert (price_micros("price", 1e-05), price_micros("price", 1_000_000), price_micros("price", "0")) == (
        10,
        10**12,
        0,
    )
    assert (spelled(12_500), spelled(1_000_000), spelled(10), spelled(20_000_000)) == ("0.0125", "1", "0.00001", "20")


def test_money_for_people_never_makes_a_little_nothing() -> None:
    assert [money(n) for n in (0, 1, 10_000, 1_234_567_890, -1, -2_500_000)] == [
        "0.00", "< 0.01", "0.01", "1,234.57", "> -0.01", "-2.50",
    ]  # fmt: skip


def test_words_say_by_which_class_costs_are_reckoned() -> None:
    assert "no storage_class is named" in StoragePrice(23_000).in_words
    said = StoragePrice(12_500, StorageClass("STANDARD_IA", 30, 128 * KIB)).in_words
    named = "reckoned as STANDARD_IA, the storage class that the connection names, at 0.0125 for 2^30 bytes in a month;"
    assert said.startswith(named)
    assert said.endswith("smaller objects than 128.0 KiB are paid for as such, so it is at least what is told")


def test_without_a_price_one_line_says_how_to_set_it() -> None:
    assert no_price("set prices to {prices}") == (
        'No cost is told, as no price is set: set prices to {"STANDARD": {"per_gb_month": "0.023"}}.'
    )
    assert no_price("set prices to {prices}", "GLACIER_IR") == (
        "No cost is told, as storage class 'GLACIER_IR' has no price: set prices to "
        '{"GLACIER_IR": {"per_gb_month": "0.023"}}.'
    )
