# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.plans.plan_files import plan_schema
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.records import OWN_BROKER_ID, kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.core.records.told_era import EraName, ToldEra
from airflow_provider_rlmm.core.world.hold import Hold
from airflow_provider_rlmm.core.world.only import Chosen
from airflow_provider_rlmm.features.cleanup.planner import CleanupPlanner, sizes_and_ages
from tests.builders import CLUSTER_ID, DAY_MS, Cluster, add, deletion, once, tip, update

GONE = tip()


@pytest.fixture
def cluster() -> Cluster:
    """A deleted topic with three segments, marked a day ago."""
    cluster = Cluster()
    cluster.segments(GONE, 2)
    cluster.segment(GONE, 2, S.DELETE_SEGMENT_STARTED)
    cluster.mark_and_wait()
    return cluster


def test_the_plan_holds_every_unfinished_segment_of_a_settled_partition(cluster: Cluster) -> None:
    plan = cluster.plan()
    rows = plan.rows.to_pylist()
    assert [row["start_offset"] for row in rows] == [0, 10, 20]
    assert [S(row["state"]) for row in rows] == [S.COPY_SEGMENT_FINISHED] * 2 + [S.DELETE_SEGMENT_STARTED]
    assert {(row["topic"], row["partition"], row["reason"], row["exact"]) for row in rows} == {
        ("gone", 0, "ORPHANED", True)
    }
    assert plan.rows.schema.equals(plan_schema())


def test_the_age_of_a_copy_is_told_by_the_event_that_ended_it_and_by_no_other(cluster: Cluster) -> None:
    rows = cluster.plan().rows
    times = rows["event_timestamp_ms"].to_pylist()
    assert list(sizes_and_ages(rows)) == [(1_000, times[0]), (1_000, times[1]), (1_000, None)]


def test_a_topic_that_is_marked_while_the_plan_is_made_is_left_to_the_next_one(cluster: Cluster) -> None:
    later = tip("later", topic_id=8)
    cluster.segment(later, 20)
    cluster.log.after_effect = once("read", lambda: cluster.foreign(deletion(later, P.DELETE_PARTITION_MARKED)))
    assert {row["topic"] for row in cluster.plan().rows.to_pylist()} == {"gone"}
    assert "marked 0 s ago" in cluster.plan().summary.refusals[0].why


def test_the_summary_counts(cluster: Cluster) -> None:
    summary = cluster.plan().summary
    assert summary.planned == Count(3, 3000)
    assert summary.known == Count(4, 4000)
    assert summary.by_reason == {"ORPHANED": Count(3, 3000)}
    assert summary.by_metadata_partition == {0: Count(3, 3000)}
    assert summary.read_until == dict(cluster.log.high_water_marks())
    assert (summary.quarantined, summary.unresolved, summary.refusals) == ({}, 0, ())


def test_the_plan_says_the_era_of_the_log(cluster: Cluster) -> None:
    era = cluster.plan().summary.era
    assert era is not None
    assert era.is_plain
    cluster.log.policy = frozenset({"compact"})
    summary = cluster.plan().summary
    assert summary.era == ToldEra(EraName.COMPACTED, "its cleanup.policy is compact")
    assert [refusal.kind for refusal in summary.refusals].count(RefusalKind.LOG_ERA) == 1


def test_the_plan_is_for_this_cluster_and_for_a_while(cluster: Cluster) -> None:
    summary = cluster.plan().summary
    summary.check_valid(CLUSTER_ID, cluster.now_ms + HOUR_MS - 1)
    with pytest.raises(PlanError, match="expired 0 s ago; make a new plan"):
        summary.check_valid(CLUSTER_ID, cluster.now_ms + HOUR_MS)
    with pytest.raises(PlanError, match="was made for cluster"):
        summary.check_valid("another", cluster.now_ms)


def test_a_partition_without_segments_that_only_needs_to_be_finished_is_planned_with_0(cluster: Cluster) -> None:
    for number in range(3):
        cluster.foreign(update(GONE, number, S.DELETE_SEGMENT_STARTED, broker_id=-1))
        cluster.foreign(update(GONE, number, S.DELETE_SEGMENT_FINISHED, broker_id=-1))
    assert cluster.plan().summary.by_metadata_partition == {0: Count(0, 0)}


def test_a_young_marker_is_refused(cluster: Cluster) -> None:
    cluster.now_ms -= 1
    summary = cluster.plan().summary
    assert (summary.planned, summary.by_metadata_partition) == (Count(0, 0), {})
    assert "less than min_absence" in summary.refusals[0].why
    assert (summary.refusals[0].kind, summary.refusals[0].topic) == (RefusalKind.WAITING, "gone")
    assert (summary.refusals[0].metadata_partition, summary.waiting) == (0, Count(3, 3000))


def test_a_marker_for_a_living_topic_is_refused(cluster: Cluster) -> None:
    cluster.topics.create("gone", GONE.topic_id)
    summary = cluster.plan().summary
    assert summary.by_metadata_partition == {}
    assert "exists in the cluster as 'gone'" in summary.refusals[0].why
    assert summary.refusals[0].kind is RefusalKind.TOPIC_PRESENT


def test_incomplete_history_is_unresolved_and_never_planned(cluster: Cluster) -> None:
    broken = tip("broken", 0, 9)
    cluster.segment(broken, 0)
    cluster.foreign(update(broken, 8, S.COPY_SEGMENT_FINISHED))
    cluster.mark_and_wait()
    plan = cluster.plan()
    assert plan.summary.unresolved == 1
    assert {row["topic"] for row in plan.rows.to_pylist()} == {"gone"}
    assert "incomplete history" in plan.summary.refusals[0].why
    assert plan.summary.refusals[0].kind is RefusalKind.INCOMPLETE_HISTORY


def test_quarantined_records_are_counted_and_named_and_the_rest_is_planned(cluster: Cluster) -> None:
    offset = cluster.foreign(add(cluster.alive, 5), key=b"k")
    cluster.log.append(0, None)
    plan = cluster.plan()
    assert plan.summary.quarantined == {0: 2}
    assert [f"offset {offset}: KEYED" in plan.summary.refusals[0].why, len(plan.summary.refusals)] == [True, 2]
    first = plan.summary.refusals[0]
    assert (first.kind, first.metadata_partition, first.offset) == (RefusalKind.QUARANTINED, 0, offset)
    assert plan.rows.num_rows == 3
    allowed = CleanerLimits(allowed_quarantine=frozenset({"KEYED", "TOMBSTONE"}))
    assert len(cluster.plan(allowed).summary.refusals) == 2, "what stops nothing is to be looked at all the same"


def test_a_lost_beginning_is_named_and_the_rest_is_planned(cluster: Cluster) -> None:
    cluster.log.truncate(0, 1)
    plan = cluster.plan()
    (refusal,) = plan.summary.refusals
    assert (refusal.kind, refusal.metadata_partition, refusal.offset) == (RefusalKind.LOST_RECORDS, 0, 1)
    assert plan.rows.num_rows == 3


def test_what_needs_a_person_is_named_though_nothing_is_marked() -> None:
    cluster = Cluster()
    offset = cluster.log.append(0, None)
    assert [(r.kind, r.offset) for r in cluster.plan().summary.refusals] == [(RefusalKind.QUARANTINED, offset)]


@pytest.mark.parametrize("entry", ["gone", "g*", "g?ne", kafka_uuid_str(GONE.topic_id)])
def test_a_held_topic_is_not_planned_and_said_so(cluster: Cluster, entry: str) -> None:
    plan = cluster.plan(hold=Hold((entry,)))
    assert plan.rows.num_rows == 0
    assert plan.summary.hold == (entry,)
    (refusal,) = plan.summary.refusals
    assert (refusal.kind, refusal.topic, refusal.kind.needs_person) == (RefusalKind.HELD, "gone", False)
    assert f"held by the entry {entry!r}" in refusal.why
    assert cluster.plan(hold=Hold(("other",))).rows.num_rows == 3


def test_a_canary_run_takes_as_many_segments_as_it_is_told_and_says_what_is_left(cluster: Cluster) -> None:
    cluster.segment(tip("later", 0, 12), 8)
    cluster.mark_and_wait()
    plan = cluster.plan(max_segments=2)
    assert [row["start_offset"] for row in plan.rows.to_pylist()] == [0, 10]
    assert plan.summary.planned.segments == 2
    (refusal,) = plan.summary.refusals
    assert refusal.kind is RefusalKind.NEXT_RUN
    assert "takes 2 segments at most, 2 more are left" in refusal.why
    assert cluster.plan(max_segments=4).summary.refusals == ()


def test_quarantined_records_are_listed_one_by_one_wherever_they_lie_and_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(metadata_partitions=2)
    cluster.segments(GONE, 2)
    cluster.mark_and_wait()
    # Where nothing is marked, where something is, and where their kind stops nothing.
    offsets = {p: [cluster.log.append(p, b"?") for _ in range(3)] for p in range(2)}
    for limits in (CleanerLimits(), CleanerLimits(allowed_quarantine=frozenset({"MALFORMED"}))):
        summary = cluster.plan(limits).summary
        listed = [(r.metadata_partition, r.offset) for r in summary.refusals if r.kind is RefusalKind.QUARANTINED]
        assert listed == [(p, offset) for p, found in offsets.items() for offset in found]
    monkeypatch.setattr("airflow_provider_rlmm.features.cleanup.planner.MAX_QUARANTINED_LISTED", 4)
    allowed = CleanerLimits(allowed_quarantine=frozenset({"MALFORMED"}))
    summary = cluster.plan(allowed).summary
    assert [(r.metadata_partition, r.offset) for r in summary.refusals] == listed[:4]
    assert summary.quarantined == {0: 3, 1: 3}


def test_only_names_the_partitions_to_plan(cluster: Cluster) -> None:
    cluster.segment(tip("gone", 1), 5)
    cluster.mark_and_wait()
    assert cluster.plan().rows.num_rows == 4
    assert cluster.plan(chosen=Chosen(planned=frozenset({(GONE.topic_id, 1)}))).rows.num_rows == 1
    assert cluster.plan(chosen=Chosen(planned=frozenset())).summary.by_metadata_partition == {}


def test_nothing_marked_makes_an_empty_plan() -> None:
    plan = Cluster().plan()
    assert (plan.rows.num_rows, plan.summary.planned) == (0, Count(0, 0))
    assert plan.rows.schema.equals(plan_schema())


def test_what_a_second_cleaner_says_of_a_finished_segment_leaves_no_doubt(cluster: Cluster) -> None:
    """Two runs at once: the other one starts what this one has finished, and is killed."""
    for state in (S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED, S.DELETE_SEGMENT_STARTED):
        cluster.foreign(update(GONE, 0, state, broker_id=OWN_BROKER_ID))
    plan = cluster.plan()
    assert [row["start_offset"] for row in plan.rows.to_pylist()] == [10, 20]
    assert (plan.summary.unresolved, plan.summary.refusals) == (0, ())


def test_an_update_whose_add_is_nowhere_is_refused_whatever_else_was_finished(cluster: Cluster) -> None:
    for state in (S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED):
        cluster.foreign(update(GONE, 0, state, broker_id=OWN_BROKER_ID))
    cluster.foreign(update(GONE, 77, S.DELETE_SEGMENT_STARTED, broker_id=OWN_BROKER_ID))
    plan = cluster.plan()
    assert (plan.rows.num_rows, plan.summary.unresolved) == (0, 1)
    assert plan.summary.refusals[0].kind is RefusalKind.INCOMPLETE_HISTORY


def test_a_plan_counts_what_is_left_beside_what_is_planned_and_what_waits() -> None:
    cluster = Cluster(3)
    held, denied, old = tip("held", 0, 8), tip("denied", 0, 9), tip("old", 0, 10)
    for partition, segments in ((held, 2), (denied, 3), (old, 4)):
        cluster.segments(partition, segments)
    cluster.mark_and_wait()
    cluster.segments(tip("young", 0, 11), 5)
    cluster.mark()
    cluster.topics.denied.add("denied")
    planner = CleanupPlanner(
        cluster.topic(), limits=CleanerLimits(), clock=lambda: cluster.now_ms, hold=lambda: Hold(("held",))
    )
    plan = planner.plan("p", expires_in_ms=DAY_MS, max_segments=3).summary
    assert (plan.planned.segments, plan.waiting.segments) == (3, 5)
    # Held, denied, and the one that is left for the next run.
    assert Count.sum(plan.left.values()).segments == 2 + 3 + 1


def test_one_look_serves_all_metadata_partitions() -> None:
    cluster = Cluster(8)
    for number in range(12):
        cluster.segment(tip("gone", number), 0)
    cluster.mark_and_wait()
    planner = CleanupPlanner(cluster.topic(), limits=CleanerLimits(), clock=cluster.clock)
    asked: list[object] = []
    cluster.topics.on_effect = lambda name, detail: asked.append(detail) if name == "describe_topics" else None
    assert planner.plan("p", expires_in_ms=DAY_MS).rows.num_rows == 12
    assert len(asked) == 1
