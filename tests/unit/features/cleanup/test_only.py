# SPDX-License-Identifier: Apache-2.0
"""A run that is for some topics marks, plans and deletes of these, and counts the whole cluster."""

from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.plans.guards import BlastRadius
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.world.hold import Hold
from airflow_provider_rlmm.core.world.only import Chosen, Only, only_of_plan
from tests.builders import Cluster, tip

GONE, OTHER = tip(), tip("other", 0, 12)
THIS = Chosen(Only(("gone",)))


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.segments(GONE, 3)
    cluster.segments(OTHER, 4)
    return cluster


@pytest.mark.parametrize("entry", ["gone", "g*", kafka_uuid_str(GONE.topic_id)])
def test_only_these_are_marked(cluster: Cluster, entry: str) -> None:
    assert len(cluster.mark(chosen=Chosen(Only((entry,)))).marked) == 1
    assert [h.topic_id_partition for h in cluster.replay().histories.values() if h.deletion_under_way()] == [GONE]
    assert len(cluster.mark().marked) == 1, "the other one waits for a run of its own"


def test_only_these_are_planned_and_shares_are_those_of_the_cluster(cluster: Cluster) -> None:
    cluster.mark_and_wait()
    plan = cluster.plan(chosen=THIS)
    assert {row["topic"] for row in plan.rows.to_pylist()} == {"gone"}
    summary = plan.summary
    assert (summary.only, summary.planned.segments, summary.known.segments) == (("gone",), 3, 8)
    assert (summary.waiting.segments, summary.left, summary.refusals) == (0, {}, ())
    assert summary.judged_by(BlastRadius(max_share=3 / 8)).within_blast_radius
    assert not summary.judged_by(BlastRadius(max_share=0.3)).within_blast_radius
    assert summary.only_in_words == "It is for gone only. Limits and shares count against the whole cluster."
    assert cluster.plan().summary.only == ()


def test_a_hold_wins(cluster: Cluster) -> None:
    cluster.mark_and_wait()
    plan = cluster.plan(hold=Hold(("gone",)), chosen=THIS)
    assert plan.rows.num_rows == 0
    assert [r.kind for r in plan.summary.refusals] == [RefusalKind.HELD]
    assert cluster.mark(hold=lambda: Hold(("gone",)), chosen=THIS).marked == ()


def test_what_is_refused_of_others_is_said_all_the_same(cluster: Cluster) -> None:
    offset = cluster.log.append(0, None)
    cluster.mark_and_wait()
    assert [(r.kind, r.offset) for r in cluster.plan(chosen=THIS).summary.refusals] == [
        (RefusalKind.QUARANTINED, offset)
    ]


def test_only_these_are_cleaned_though_others_are_due_too(cluster: Cluster) -> None:
    cluster.mark_and_wait()
    kept = cluster.keys_of(OTHER)
    report = cluster.clean(only=only_of_plan(cluster.plan(chosen=THIS).summary.only))
    assert [(p.topic, p.partition, p.outcome) for p in report.partitions] == [("gone", 0, "FINISHED")]
    assert (cluster.keys_of(GONE), cluster.keys_of(OTHER)) == (set(), kept)
    (other,) = cluster.clean().partitions
    assert (other.topic, other.outcome) == ("other", "FINISHED")


def test_a_partition_without_segments_is_not_finished_for_a_run_of_another_topic() -> None:
    cluster = Cluster()
    cluster.segments(GONE, 1)
    cluster.segments(OTHER, 1)
    cluster.mark_and_wait()
    cluster.clean(only=Only(("other",)))
    assert not any("gone" in line for line in cluster.ours() if "PARTITION_FINISHED" in line)
    assert [line.split()[0] for line in cluster.ours() if "gone" in line] == ["DELETE_PARTITION_MARKED"]
