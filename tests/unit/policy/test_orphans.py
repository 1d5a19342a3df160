# SPDX-License-Identifier: Apache-2.0
"""Which topic ids that a listing lacks may be called deleted: only those whose one name was asked for and is not theirs."""

from __future__ import annotations

from uuid import UUID

import pytest

from airflow_provider_rlmm.metadata.topic_answers import NoTopic, TopicAnswer
from airflow_provider_rlmm.policy.orphans import OrphanCandidate, judge_orphans, names_in_doubt, not_asked_for
from airflow_provider_rlmm.policy.plan import Count
from airflow_provider_rlmm.policy.refusals import RefusalKind

ID, OTHER = UUID(int=7), UUID(int=8)


def candidate(*names: str, topic_id: UUID = ID) -> OrphanCandidate:
    return OrphanCandidate(topic_id, frozenset(names), Count(10, 1_000))


@pytest.mark.parametrize("answer", [NoTopic.UNKNOWN, OTHER], ids=["unknown", "another-id"])
def test_a_name_that_is_not_the_ids_proves_its_deletion(answer: TopicAnswer) -> None:
    verdict = judge_orphans([candidate("orders")], {"orders": answer})
    assert (verdict.absent, verdict.refusals) == ({(ID, "orders")}, ())


@pytest.mark.parametrize(
    ("names", "answers", "kind", "why"),
    [
        (["orders"], {"orders": NoTopic.DENIED}, RefusalKind.ACCESS_DENIED, "nobody can tell whether it exists"),
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
