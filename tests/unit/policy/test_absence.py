# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from uuid import UUID

import pytest

from airflow_provider_rlmm.metadata.records import kafka_uuid_str
from airflow_provider_rlmm.policy.absence import Presence, Settlement, observe, settle

ID, OTHER = UUID(int=7), UUID(int=8)
NAMES = frozenset({"gone"})


@pytest.mark.parametrize("described", [None, OTHER], ids=["unknown topic", "another id"])
def test_an_id_that_nothing_knows_is_absent(described: UUID | None) -> None:
    listing = {"else": UUID(int=1), **({"gone": OTHER} if described else {})}
    observation = observe(ID, NAMES, listing, {"gone": described})
    assert observation.presence is Presence.ABSENT
    assert kafka_uuid_str(ID) in observation.reason


def test_an_id_in_the_listing_is_present_whatever_its_name() -> None:
    observation = observe(ID, NAMES, {"renamed": ID}, {"gone": None})
    assert observation.presence is Presence.PRESENT
    assert "exists in the cluster as 'renamed'" in observation.reason


@pytest.mark.parametrize("names", [frozenset(), frozenset({"a", "b"})])
def test_an_id_in_the_listing_is_present_even_if_its_name_is_ambiguous(names: frozenset[str]) -> None:
    assert observe(ID, names, {"gone": ID}, {}).presence is Presence.PRESENT


def test_an_id_that_only_describing_finds_is_present() -> None:
    observation = observe(ID, NAMES, {}, {"gone": ID})
    assert observation.presence is Presence.PRESENT
    assert "though no listing had it" in observation.reason


@pytest.mark.parametrize("names", [frozenset(), frozenset({"a", "b"})])
def test_an_id_with_no_name_or_several_is_ambiguous(names: frozenset[str]) -> None:
    observation = observe(ID, names, {}, dict.fromkeys(names))
    assert observation.presence is Presence.AMBIGUOUS
    assert f"has {len(names)} names in the metadata topic: {sorted(names)}" in observation.reason


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ({"a\u202eb"}, r"'a\u202eb' was not described"),
        ({"a\nERROR", "ש"}, r"['a\nERROR', '\u05e9']"),
        (set("abcdefgh"), "'e', …]"),
        ({"x" * 30_000}, f"'{'x' * 255}'… was"),
    ],
)
def test_names_from_the_log_are_quoted(names: set[str], text: str) -> None:
    assert text in observe(ID, frozenset(names), {}, {}).reason


def test_a_name_that_was_not_described_is_ambiguous() -> None:
    observation = observe(ID, frozenset({"../gone"}), {}, {})
    assert observation.presence is Presence.AMBIGUOUS
    assert "'../gone' was not described: no topic can have this name" in observation.reason


def test_a_name_that_is_listed_but_not_described_is_ambiguous() -> None:
    observation = observe(ID, NAMES, {"gone": OTHER}, {"gone": None})
    assert observation.presence is Presence.AMBIGUOUS
    assert "is in the listing but" in observation.reason


def test_an_observation_that_was_voided_is_not_settled_however_old() -> None:
    settlement = settle(first_observed_ms=None, foreign_offset=12, now_ms=10**12, min_absence_ms=0)
    assert not settlement.settled
    assert "a foreign segment event at offset 12 came after the marker" in settlement.reason
    assert "run the marker again" in settlement.what_to_do


def test_a_young_observation_is_not_settled_and_says_when_it_is() -> None:
    assert settle(first_observed_ms=1_000, foreign_offset=None, now_ms=1_099, min_absence_ms=100) == Settlement(
        False, "marked 99 ms ago, less than min_absence of 100 ms", "nothing: it is settled in 1 ms"
    )


def test_a_marker_from_the_future_is_not_settled() -> None:
    assert not settle(first_observed_ms=2_000, foreign_offset=None, now_ms=1_000, min_absence_ms=0).settled


@pytest.mark.parametrize("now_ms", [1_100, 9_999])
def test_an_observation_of_min_absence_ago_is_settled(now_ms: int) -> None:
    assert settle(first_observed_ms=1_000, foreign_offset=5, now_ms=now_ms, min_absence_ms=100) == Settlement(True)
