# SPDX-License-Identifier: Apache-2.0
"""Scenario B on a real broker, cleaned by the operators of the DAG, and what the broker makes of it afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import (
    ClusterMismatchError,
    ConfigurationError,
    StorageRootError,
    WritesNotAllowedError,
)
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.operators.cleaner import MarkDeletedPartitionsOperator, PlanRemoteLogCleanupOperator
from dev import formatter, tiering
from dev.broker import LocalKafka
from tests.integration.operators import NOW, connect, context, run_cleaner
from tests.scrub import scrub, unfinished_segments

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def orphaned() -> Iterator[tuple[LocalKafka, UUID, UUID]]:
    """A broker with a living topic and the orphans of a deleted one."""
    with LocalKafka() as kafka:
        alive = tiering.create_tiered_topic(kafka, "orders", 2)
        gone = tiering.create_tiered_topic(kafka, "clickstream", 3)
        tiering.produce_until_remote(kafka, "orders", 4)
        tiering.produce_until_remote(kafka, "clickstream", 8)
        tiering.provoke_scenario_b(kafka, "clickstream")
        yield kafka, alive, gone


@pytest.fixture(autouse=True)
def work_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "artifacts"))
    return tmp_path / "artifacts"


def objects_of(kafka: LocalKafka, topic_id: UUID) -> set[str]:
    return {path for path in tiering.remote_listing(kafka) if kafka_uuid_str(topic_id) in path}


def test_nothing_is_written_or_deleted_without_leave(
    orphaned: tuple[LocalKafka, UUID, UUID], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kafka, _, gone = orphaned
    objects = objects_of(kafka, gone)
    events = formatter.formatter_lines(kafka)
    assert objects
    connect(monkeypatch, kafka, allow_writes=False)
    with pytest.raises(WritesNotAllowedError, match="allow_writes is off"):
        run_cleaner("no-leave")
    connect(monkeypatch, kafka, expected_cluster_id="another-cluster")
    with pytest.raises(ClusterMismatchError, match=kafka.cluster_id):
        run_cleaner("wrong-cluster")
    connect(monkeypatch, kafka, expected_cluster_id=None)
    with pytest.raises(ConfigurationError, match="expected_cluster_id"):
        PlanRemoteLogCleanupOperator(task_id="plan", limits=NOW).execute(context("no-cluster"))
    connect(monkeypatch, kafka, expected_cluster_id=None, allow_writes=False)
    counts = MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=True).execute(context("dry"))
    assert counts.pop("records_read") >= 0
    assert counts == {"would_mark": 3, "already_marked": 0, "refused": 0, "dry_run": True}
    assert objects_of(kafka, gone) == objects
    assert formatter.formatter_lines(kafka) == events


def test_a_wrong_storage_root_finishes_nothing(
    orphaned: tuple[LocalKafka, UUID, UUID], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kafka, _, gone = orphaned
    (tmp_path / "empty").mkdir()
    for root, error in ((tmp_path / "missing", "missing"), (tmp_path / "empty", "newest copied segments")):
        connect(monkeypatch, kafka, storage_uri=root.as_uri())
        with pytest.raises(StorageRootError, match=error):
            run_cleaner(f"wrong-root-{root.name}")
    segments = [m for m in unfinished_segments(kafka) if m.remote_log_segment_id.topic_id_partition.topic_id == gone]
    assert len(segments) >= 24
    assert {m.state for m in segments} <= {
        RemoteLogSegmentState.COPY_SEGMENT_STARTED,
        RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
    }


def test_scenario_b_is_cleaned_and_the_broker_lives(
    orphaned: tuple[LocalKafka, UUID, UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka, alive, gone = orphaned
    connect(monkeypatch, kafka)
    orphans, living = objects_of(kafka, gone), objects_of(kafka, alive)
    totals = run_cleaner("first")
    assert totals["partitions_finished"] == 3
    assert totals["segments_deleted"] >= 24
    assert totals["objects_deleted"] == len(orphans)
    assert (totals["segments_left"], totals["refusals"]) == (0, 0)
    assert objects_of(kafka, gone) == set()
    assert living <= objects_of(kafka, alive)
    assert run_cleaner("second")["segments_deleted"] == 0

    kafka.restart()
    tiering.tiering_alive(kafka, "orders")
    ours = [line for line in formatter.formatter_lines(kafka) if "brokerId=-1" in line]
    assert len(ours) == 3 * 3 + 2 * totals["segments_deleted"]
    assert scrub(kafka) == []
