# SPDX-License-Identifier: Apache-2.0
"""What the doctor says of leaders, by what they were asked last."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.features.doctor.examine import examine
from airflow_provider_rlmm.features.doctor.findings import Finding, FindingKind, Severity
from airflow_provider_rlmm.features.doctor.living_leaders import RememberedLeaders, RememberedPartition
from tests.unit.features.doctor.test_examine import live
from tests.unit.library.topics import new_log

HOUR_MS = 3_600_000
NOW_MS = 1_000 * HOUR_MS
ORDERS = UUID(int=7)
STUCK = RememberedPartition("orders", kafka_uuid_str(ORDERS), 2, 5, 5_000, NOW_MS - 9 * HOUR_MS, "look at broker 4")
ASKED = RememberedLeaders(asked_at_ms=NOW_MS - HOUR_MS, partitions=10)

UNTOLD = (
    "as leaders were asked 1 h 0 min ago, it could not be told what the leaders of 3 of 10 user partitions delete, and of 2 "
    "whether anything is overdue"
)


def findings(remembered: RememberedLeaders, limit: int = 100) -> tuple[dict[FindingKind, int], tuple[Finding, ...]]:
    asked: list[str] = []

    def leaders(cluster_id: str) -> RememberedLeaders:
        asked.append(cluster_id)
        return remembered

    cluster = live("orders")
    found = examine(new_log(), cluster, clock=lambda: NOW_MS, limit_per_kind=limit, leaders=leaders)
    assert asked == [cluster.cluster_id()]
    kinds = {FindingKind.OVERDUE, FindingKind.LEAKED, FindingKind.LEADERS_UNTOLD, FindingKind.COPYING_STOPPED}
    assert not found.critical
    return {k: n for k, n in found.counts.items() if k in kinds}, tuple(f for f in found.findings if f.kind in kinds)


def test_leaders_that_do_what_they_should_are_no_finding() -> None:
    assert findings(ASKED) == ({}, ())


def test_a_leader_that_is_stuck_is_named_with_the_age_of_the_answer() -> None:
    counts, (found,) = findings(replace(ASKED, overdue=[STUCK], overdue_partitions=1))
    assert counts == {FindingKind.OVERDUE: 1}
    assert (found.topic_id, found.topic, found.partition) == (kafka_uuid_str(ORDERS), "orders", 2)
    assert found.since_ms == STUCK.since_ms
    said = "5 segments, 4.9 KiB, are still there, as leaders were asked 1 h 0 min ago: look at broker 4"
    assert found.detail == said


def test_a_leader_that_has_stopped_copying_is_named_with_how_far_it_is_behind() -> None:
    stopped = replace(ASKED, hanging=[(STUCK, "351 offsets wait")], hanging_partitions=3)
    counts, (found,) = findings(stopped)
    assert counts == {FindingKind.COPYING_STOPPED: 3}
    assert (found.severity, found.topic, found.partition) == (Severity.WARNING, "orders", 2)
    said = "its leader has stopped copying: 351 offsets wait, as leaders were asked 1 h 0 min ago: look at broker 4"
    assert found.detail == said


def test_all_are_counted_whether_they_are_listed_or_not() -> None:
    many = replace(ASKED, overdue=[STUCK] * 3, overdue_partitions=7, leaked=[STUCK], leaked_partitions=4)
    counts, kept = findings(many, limit=2)
    assert counts == {FindingKind.OVERDUE: 7, FindingKind.LEAKED: 4}
    assert [found.kind for found in kept] == [FindingKind.OVERDUE] * 2 + [FindingKind.LEAKED]


def test_what_nobody_knows_is_a_finding_and_no_zero() -> None:
    for remembered, said in (
        (RememberedLeaders(), "it is not known whether a leader is stuck: they were not asked what they delete next"),
        (RememberedLeaders(why_not="it is torn"), "it is not known whether a leader is stuck: it is torn"),
        (
            replace(ASKED, asked_at_ms=NOW_MS - 73 * HOUR_MS),
            "as leaders were asked 73 h 0 min ago: a leader that is stuck since would not be seen",
        ),
        (
            replace(ASKED, hidden_topics=4),
            "as leaders were asked 1 h 0 min ago, 4 topics could not be described: of them nothing is known",
        ),
        (
            replace(ASKED, unresolved=3, not_judged=2),
            UNTOLD,
        ),
    ):
        counts, (found,) = findings(remembered)
        assert counts == {FindingKind.LEADERS_UNTOLD: 1}
        assert found.detail == said
