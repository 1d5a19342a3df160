# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.clock import HOUR_MS
from airflow_provider_rlmm.errors import PlanError
from airflow_provider_rlmm.lifecycle.plan_files import (
    orphaned_partitions,
    plan_schema,
    planned_segments,
    read_document,
    read_summary,
    write_document,
    write_plan,
)
from airflow_provider_rlmm.lifecycle.planner import Plan
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.metadata.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.policy.guards import CleanerLimits
from airflow_provider_rlmm.policy.plan import Count, Reason
from tests.unit.lifecycle.builders import CLUSTER_ID, Cluster, add, deletion, once, tip, update

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


def test_a_topic_that_is_marked_while_the_plan_is_made_is_left_to_the_next_one(cluster: Cluster) -> None:
    later = tip("later", topic_id=8)
    cluster.segment(later, 20)
    cluster.log.after_effect = once("read", lambda: cluster.foreign(deletion(later, P.DELETE_PARTITION_MARKED)))
    assert {row["topic"] for row in cluster.plan().rows.to_pylist()} == {"gone"}
    assert "marked 0 ms ago" in cluster.plan().summary.refusals[0].why


def test_the_summary_counts(cluster: Cluster) -> None:
    summary = cluster.plan().summary
    assert summary.planned == Count(3, 3000)
    assert summary.known == Count(4, 4000)
    assert summary.by_reason == {"ORPHANED": Count(3, 3000)}
    assert summary.by_metadata_partition == {0: Count(3, 3000)}
    assert summary.read_until == dict(cluster.log.high_water_marks())
    assert (summary.quarantined, summary.unresolved, summary.refusals) == ({}, 0, ())


def test_the_plan_is_for_this_cluster_and_for_a_while(cluster: Cluster) -> None:
    summary = cluster.plan().summary
    summary.check_valid(CLUSTER_ID, cluster.now_ms + HOUR_MS - 1)
    with pytest.raises(PlanError, match="expired 0 ms ago; make a new plan"):
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


def test_a_marker_for_a_living_topic_is_refused(cluster: Cluster) -> None:
    cluster.topics.create("gone", GONE.topic_id)
    summary = cluster.plan().summary
    assert summary.by_metadata_partition == {}
    assert "exists in the cluster as 'gone'" in summary.refusals[0].why


def test_incomplete_history_is_unresolved_and_never_planned(cluster: Cluster) -> None:
    broken = tip("broken", 0, 9)
    cluster.segment(broken, 0)
    cluster.foreign(update(broken, 8, S.COPY_SEGMENT_FINISHED))
    cluster.mark_and_wait()
    plan = cluster.plan()
    assert plan.summary.unresolved == 1
    assert {row["topic"] for row in plan.rows.to_pylist()} == {"gone"}
    assert "incomplete history" in plan.summary.refusals[0].why


def test_quarantined_records_are_counted_and_stop_their_metadata_partition(cluster: Cluster) -> None:
    offset = cluster.foreign(add(cluster.alive, 5), key=b"k")
    cluster.log.append(0, None)
    plan = cluster.plan()
    assert plan.summary.quarantined == {0: 2}
    assert [f"offset {offset}: KEYED" in plan.summary.refusals[0].why, len(plan.summary.refusals)] == [True, 2]
    assert plan.rows.num_rows == 0
    allowed = CleanerLimits(allowed_quarantine=frozenset({"KEYED", "TOMBSTONE"}))
    assert cluster.plan(allowed).rows.num_rows == 3


def test_only_names_the_partitions_to_plan(cluster: Cluster) -> None:
    cluster.segment(tip("gone", 1), 5)
    cluster.mark_and_wait()
    assert cluster.plan().rows.num_rows == 4
    assert cluster.plan(only=frozenset({(GONE.topic_id, 1)})).rows.num_rows == 1
    assert cluster.plan(only=frozenset()).summary.by_metadata_partition == {}


def test_nothing_marked_makes_an_empty_plan() -> None:
    plan = Cluster().plan()
    assert (plan.rows.num_rows, plan.summary.planned) == (0, Count(0, 0))
    assert plan.rows.schema.equals(plan_schema())


# --- the files -------------------------------------------------------------------------------------------------------


@pytest.fixture
def plan(cluster: Cluster) -> Plan:
    return cluster.plan()


@pytest.fixture(params=["path", "file URI"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    folder = tmp_path / "plans" / "one"
    return str(folder) if request.param == "path" else folder.as_uri()


def test_a_plan_comes_back_from_its_files(plan: Plan, uri: str, tmp_path: Path) -> None:
    write_plan(uri, plan.rows, plan.summary)
    assert (tmp_path / "plans/one/plan.parquet").is_dir()
    assert read_summary(uri) == plan.summary
    assert pq.read_table(tmp_path / "plans/one/plan.parquet").equals(plan.rows)
    segments = {UUID(int=1000 + n) for n in range(3)}
    assert planned_segments(uri, 0) == {(GONE.topic_id, 0): segments}
    assert planned_segments(uri, 1) == {}
    assert orphaned_partitions(uri) == {(GONE.topic_id, 0)}


def test_a_plan_of_several_files_as_spark_writes_it_is_one_plan(plan: Plan, tmp_path: Path) -> None:
    folder = tmp_path / "plan.parquet"
    folder.mkdir()
    for number in range(3):
        pq.write_table(plan.rows.slice(number, 1), folder / f"part-0000{number}-a.snappy.parquet")
    (folder / "_SUCCESS").touch()
    assert [len(ids) for ids in planned_segments(str(tmp_path), 0).values()] == [3]


def test_rows_of_other_reasons_are_not_the_cleaner_s(plan: Plan, tmp_path: Path) -> None:
    reasons = [r.value for r in (Reason.DANGLING, Reason.RETENTION_MS, Reason.ORPHANED)]
    position = plan.rows.schema.get_field_index("reason")
    rows = plan.rows.set_column(position, plan.rows.schema.field(position), pa.array(reasons))
    write_plan(str(tmp_path), rows, plan.summary)
    assert planned_segments(str(tmp_path), 0) == {(GONE.topic_id, 0): {UUID(int=1002)}}
    assert orphaned_partitions(str(tmp_path)) == {(GONE.topic_id, 0)}
    write_plan(str(tmp_path), rows.slice(0, 2), plan.summary)
    assert (planned_segments(str(tmp_path), 0), orphaned_partitions(str(tmp_path))) == ({}, frozenset())


def test_documents_come_back(uri: str) -> None:
    assert write_document(uri + "/", "a.json", "Grüße") == f"{uri}/a.json"
    assert read_document(uri, "a.json") == "Grüße"


@pytest.mark.parametrize("read", [read_summary, orphaned_partitions, lambda uri: planned_segments(uri, 0)])
def test_a_plan_that_is_not_there_is_a_plan_error(read: Any, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="make a new plan"):
        read(str(tmp_path / "none"))


@pytest.mark.parametrize("content", [b"{}", b"no json", b"\xff\xfe"])
def test_a_summary_that_cannot_be_understood_is_a_plan_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_bytes(content)
    with pytest.raises(PlanError, match="make a new plan"):
        read_summary(str(tmp_path))


def test_rows_that_cannot_be_read_are_a_plan_error(plan: Plan, tmp_path: Path) -> None:
    folder = tmp_path / "plan.parquet"
    folder.mkdir()
    part = folder / "part-0.parquet"
    part.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(PlanError):
        planned_segments(str(tmp_path), 0)
    pq.write_table(plan.rows.drop_columns(["segment_id"]), part)
    with pytest.raises(PlanError, match="segment_id"):
        planned_segments(str(tmp_path), 0)
    short = plan.rows.set_column(4, "segment_id", pa.array([b"short"] * 3))
    pq.write_table(short, part)
    with pytest.raises(PlanError, match="16 bytes"):
        planned_segments(str(tmp_path), 0)


def test_a_uri_that_nobody_understands_is_a_plan_error() -> None:
    with pytest.raises(PlanError, match="no URI of a directory"):
        read_summary("gopher://plans/one")
