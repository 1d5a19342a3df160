# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.clock import time_text
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.deletion import AbsenceObservation
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.topic_answers import NoTopic, TopicAnswer
from airflow_provider_rlmm.core.world.absence import (
    OrphanCandidate,
    Presence,
    Settlement,
    first_observation,
    judge_orphans,
    names_in_doubt,
    not_asked_for,
    observe,
    observe_all,
    settle,
)

ID, OTHER = UUID(int=7), UUID(int=8)
NAMES = frozenset({"gone"})


@pytest.mark.parametrize("answer", [NoTopic.UNKNOWN, OTHER], ids=["unknown topic", "another id"])
def test_an_id_that_nothing_knows_is_absent(answer: TopicAnswer) -> None:
    listed = frozenset({"else", *({"gone"} if answer is OTHER else ())})
    observation = observe(ID, NAMES, {"else": UUID(int=1), "gone": answer}, listed)
    assert observation.presence is Presence.ABSENT
    assert kafka_uuid_str(ID) in observation.reason


@given(
    answers=st.dictionaries(
        st.sampled_from(["a", "b", "c", "d"]), st.sampled_from([ID, OTHER, NoTopic.UNKNOWN, NoTopic.DENIED])
    ),
    names=st.dictionaries(
        st.sampled_from([ID, OTHER, UUID(int=9)]), st.frozensets(st.sampled_from(["a", "b", "c", "d"]), max_size=2)
    ),
    listed=st.frozensets(st.sampled_from(["a", "b", "c", "d"])),
)
def test_many_ids_are_judged_as_each_of_them_alone(
    answers: dict[str, TopicAnswer], names: dict[UUID, frozenset[str]], listed: frozenset[str]
) -> None:
    found = observe_all(names, answers, listed)
    assert found == {topic_id: observe(topic_id, known, answers, listed) for topic_id, known in names.items()}
    for topic_id, observation in found.items():
        assert (observation.presence is Presence.PRESENT) == any(answer == topic_id for answer in answers.values())


def test_an_id_that_any_topic_has_is_present_whatever_its_name() -> None:
    observation = observe(ID, NAMES, {"renamed": ID, "gone": NoTopic.UNKNOWN}, frozenset({"renamed"}))
    assert observation.presence is Presence.PRESENT
    assert "exists in the cluster as 'renamed'" in observation.reason


@pytest.mark.parametrize("names", [frozenset(), frozenset({"a", "b"})])
def test_an_id_that_a_topic_has_is_present_even_if_its_name_is_ambiguous(names: frozenset[str]) -> None:
    assert observe(ID, names, {"gone": ID}, frozenset({"gone"})).presence is Presence.PRESENT


def test_an_id_that_only_describing_finds_is_present() -> None:
    observation = observe(ID, NAMES, {"gone": ID}, frozenset())
    assert observation.presence is Presence.PRESENT
    assert "though no listing had it" in observation.reason


@pytest.mark.parametrize("names", [frozenset(), frozenset({"a", "b"})])
def test_an_id_with_no_name_or_several_is_ambiguous(names: frozenset[str]) -> None:
    observation = observe(ID, names, dict.fromkeys(names, NoTopic.UNKNOWN), frozenset())
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
    assert text in observe(ID, frozenset(names), {}, frozenset()).reason


def test_a_name_that_was_not_described_is_ambiguous() -> None:
    observation = observe(ID, frozenset({"../gone"}), {}, frozenset())
    assert observation.presence is Presence.AMBIGUOUS
    assert "'../gone' was not described: no topic can have this name" in observation.reason


def test_a_name_that_is_listed_and_unknown_is_ambiguous() -> None:
    observation = observe(ID, NAMES, {"gone": NoTopic.UNKNOWN}, NAMES)
    assert observation.presence is Presence.AMBIGUOUS
    assert "is in the listing but" in observation.reason


@pytest.mark.parametrize("listed", [frozenset(), NAMES])
def test_a_name_that_may_not_be_described_is_never_absent(listed: frozenset[str]) -> None:
    observation = observe(ID, NAMES, {"gone": NoTopic.DENIED}, listed)
    assert observation.presence is Presence.DENIED
    assert "DESCRIBE on every topic" in observation.reason


def seen(*times_ms: int, bounded: bool = True) -> list[AbsenceObservation]:
    return [AbsenceObservation(offset, time_ms, bounded) for offset, time_ms in enumerate(times_ms, 10)]


def test_an_observation_that_was_voided_is_not_settled_however_old() -> None:
    settlement = settle([], foreign_offset=12, now_ms=10**12, min_absence_ms=0)
    assert not settlement.settled
    assert "a foreign segment event at offset 12 came after the marker" in settlement.reason
    assert "run the marker again" in settlement.what_to_do


def test_a_marker_without_a_time_is_not_settled_however_old() -> None:
    settlement = settle([], foreign_offset=None, now_ms=10**12, min_absence_ms=0)
    assert (settlement.settled, settlement.reason) == (False, "no marker says when its absence was observed")


def test_a_young_observation_is_not_settled_and_says_when_it_is() -> None:
    day, waited = 24 * 3_600_000, 13 * 60_000
    settlement = settle(seen(1_000), foreign_offset=None, now_ms=1_000 + waited, min_absence_ms=day)
    assert settlement == Settlement(
        False,
        "marked 13 min ago, less than min_absence of 24 h",
        "nothing: it is eligible in 23 h 47 min",
    )
    assert not settle(seen(1_000), foreign_offset=None, now_ms=1_099, min_absence_ms=100).settled


@pytest.mark.parametrize("time_ms", [2_000, 2**63 - 1])
def test_a_marker_from_the_future_is_not_settled(time_ms: int) -> None:
    assert not settle(seen(time_ms), foreign_offset=None, now_ms=1_000, min_absence_ms=0).settled


@pytest.mark.parametrize("now_ms", [1_100, 9_999])
def test_an_observation_of_min_absence_ago_is_settled(now_ms: int) -> None:
    assert settle(seen(1_000), foreign_offset=5, now_ms=now_ms, min_absence_ms=100) == Settlement(True)


@pytest.mark.parametrize("ahead_ms", [301_000, 10 * 365 * 86_400_000, 2**63 - 1])
def test_an_observation_from_the_future_is_replaced_by_the_next_sane_one(ahead_ms: int) -> None:
    now_ms = 1_000_000
    observations = seen(now_ms + ahead_ms, 400_000, 1)
    first = first_observation(observations, now_ms)
    assert first is not None
    assert first.time_ms == 400_000
    alone = settle(observations[:1], foreign_offset=None, now_ms=now_ms, min_absence_ms=0)
    assert not alone.settled
    says = f"it says {time_text(now_ms + ahead_ms)}, now is {time_text(now_ms)}"
    assert f"at offset 10 is from the future: {says}" in alone.reason
    assert "run the marker again" in alone.what_to_do


def test_an_observation_that_is_ahead_by_no_more_than_clocks_may_differ_stands() -> None:
    observations = seen(1_300_000, 1_000_000)
    assert first_observation(observations, 1_000_000) == observations[0]
    assert not settle(observations, foreign_offset=None, now_ms=1_000_000, min_absence_ms=0).settled


def test_a_repeated_marker_with_an_earlier_time_does_not_shorten_the_wait() -> None:
    settlement = settle(seen(2_000, 1_000), foreign_offset=None, now_ms=2_050, min_absence_ms=100)
    assert settlement.reason == "marked 0 s ago, less than min_absence of 100 ms"


def test_a_foreign_marker_that_nothing_bounds_is_no_observation() -> None:
    settlement = settle(seen(1, bounded=False), foreign_offset=None, now_ms=10**12, min_absence_ms=0)
    assert not settlement.settled
    assert "its marker at offset 10 was written by another program" in settlement.reason
    assert "run the marker again" in settlement.what_to_do


# --- which topic ids that a listing lacks may be called deleted -------------------------------------------------------


def candidate(*names: str, topic_id: UUID = ID) -> OrphanCandidate:
    return OrphanCandidate(topic_id, frozenset(names), Count(10, 1_000))


@pytest.mark.parametrize("answer", [NoTopic.UNKNOWN, OTHER], ids=["unknown", "another-id"])
def test_a_name_that_is_not_the_ids_proves_its_deletion(answer: TopicAnswer) -> None:
    verdict = judge_orphans([candidate("orders")], {"orders": answer})
    assert (verdict.absent, verdict.refusals) == ({(ID, "orders")}, ())


@pytest.mark.parametrize(
    ("names", "answers", "kind", "why"),
    [
        (["orders"], {"orders": NoTopic.DENIED}, RefusalKind.ACCESS_DENIED, "it cannot be told whether it exists"),
        (["orders"], {"orders": ID}, RefusalKind.TOPIC_PRESENT, "exists in the cluster as 'orders'"),
        (["orders"], {}, RefusalKind.AMBIGUOUS, "was not described"),
        (["orders"], {"payments": NoTopic.UNKNOWN}, RefusalKind.AMBIGUOUS, "was not described"),
        (["a", "b"], {"a": NoTopic.UNKNOWN, "b": NoTopic.UNKNOWN}, RefusalKind.AMBIGUOUS, "2 names"),
        (["a", "b"], {"a": NoTopic.UNKNOWN, "b": NoTopic.DENIED}, RefusalKind.AMBIGUOUS, "2 names"),
        (["../etc"], {}, RefusalKind.AMBIGUOUS, "no topic can have this name"),
        (["x\nforged"], {}, RefusalKind.AMBIGUOUS, "no topic can have this name"),
    ],
)
def test_everything_else_is_refused_by_name(
    names: list[str], answers: dict[str, TopicAnswer], kind: RefusalKind, why: str
) -> None:
    gone = candidate("gone", topic_id=OTHER)
    verdict = judge_orphans([candidate(*names), gone], {**answers, "gone": NoTopic.UNKNOWN})
    assert verdict.absent == {(OTHER, "gone")}, "the others go on"
    (refusal,) = verdict.refusals
    assert refusal.kind is kind
    assert kind.needs_person
    assert why in refusal.why
    assert "10 segments, 1000 bytes of it are not planned" in refusal.why
    assert refusal.what.endswith("id AAAAAAAAAAAAAAAAAAAABw")
    assert "\n" not in refusal.what + refusal.why


def test_a_denied_topic_is_named_with_the_right_that_is_missing() -> None:
    (refusal,) = judge_orphans([candidate("orders")], {"orders": NoTopic.DENIED}).refusals
    assert (refusal.topic, refusal.what) == ("orders", "topic orders, id AAAAAAAAAAAAAAAAAAAABw")
    assert "DESCRIBE on every topic" in refusal.what_to_do


def test_only_names_that_can_decide_are_asked_for() -> None:
    found = [candidate("orders"), candidate("a", "b"), candidate("../etc"), candidate(""), candidate("x" * 250)]
    assert names_in_doubt(found) == {"orders"}


def test_ids_that_are_too_many_need_a_person() -> None:
    refusal = not_asked_for(1)
    assert refusal.kind.needs_person
    assert "10000 of them at most" in refusal.why
