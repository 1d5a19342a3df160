# SPDX-License-Identifier: Apache-2.0
"""The main job under a real scheduler: Spark finds what a real broker lost, the cleaner deletes it; and what goes wrong."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.plans.plan import PLAN_COLUMNS
from dev import tiering
from dev.airflow import LocalAirflow
from dev.broker import METADATA_TOPIC, LocalKafka
from tests.scrub import scrub
from tests.spark.plain_evaluation import Record, evaluate_plan, order_of
from tests.system.conftest import SECRET

pytestmark = [pytest.mark.system, pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(1800)]

RETENTION, CLEANER = "remote_log_retention", "remote_log_cleaner"
MIN_AGE_MS = 259_200_000
GONE_PARTITIONS, GONE_SEGMENTS = 3, 5
NOW = {
    "rlmm_conn_id": "rlmm_up",
    "dry_run": False,
    "min_absence_ms": 0,
    "overrides": ["short_min_absence"],
    "max_share": 1.0,
    "batch_segments": 3,
}


def kafka_id(topic_id: UUID) -> str:
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def ends_of(kafka: LocalKafka) -> dict[int, int]:
    """High watermark of each metadata partition."""
    consumer = Consumer(kafka.client_config(group_id="unused"))
    try:
        partitions = range(kafka.metadata_partitions)
        return {p: consumer.get_watermark_offsets(TopicPartition(METADATA_TOPIC, p), timeout=30)[1] for p in partitions}
    finally:
        consumer.close()


def records_of(kafka: LocalKafka, ends: dict[int, int]) -> list[Record]:
    """Every record of the metadata topic below the offsets, read with another client than Spark's."""
    consumer = Consumer(kafka.client_config(group_id="unused", auto_offset_reset="earliest"))
    found: list[Record] = []
    try:
        for partition, end in ends.items():
            consumer.assign([TopicPartition(METADATA_TOPIC, partition, 0)])
            position = 0
            while position < end:
                for message in consumer.consume(1000, timeout=1.0):
                    assert message.error() is None
                    position = (message.offset() or 0) + 1
                    if position <= end:
                        found.append((partition, position - 1, message.value()))
    finally:
        consumer.close()
    return found


@dataclass(frozen=True)
class Scene:
    """A living topic, the orphans of a deleted one, and Spark's plan of them."""

    airflow: LocalAirflow
    kafka: LocalKafka
    alive: UUID
    gone: UUID
    retention_run: str
    plan: Path

    def objects(self, topic_id: UUID) -> set[str]:
        return {path for path in tiering.remote_listing(self.kafka) if kafka_id(topic_id) in path}

    def clean(self, **conf: Any) -> tuple[str, str]:
        """Run the cleaner on Spark's plan; returns the run and how it ended."""
        given = {k: v for k, v in (NOW | {"source_plan": str(self.plan)} | conf).items() if v is not None}
        run_id = self.airflow.trigger(CLEANER, given)
        return run_id, self.airflow.wait(CLEANER, run_id, timeout=200)

    def report_page(self, run_id: str) -> str:
        return page(self.airflow, self.airflow.link(CLEANER, run_id, "report", "Report"))

    def tasks(self, run_id: str) -> dict[str, list[dict[str, Any]]]:
        tasks: dict[str, list[dict[str, Any]]] = {}
        for instance in self.airflow.task_instances(CLEANER, run_id):
            tasks.setdefault(instance["task_id"], []).append(instance)
        return tasks


@pytest.fixture(scope="module")
def scene(connected: LocalAirflow, broker: LocalKafka) -> Iterator[Scene]:
    alive = tiering.create_tiered_topic(broker, "orders", 2)
    gone = tiering.create_tiered_topic(broker, "clickstream", GONE_PARTITIONS)
    tiering.produce_until_remote(broker, "orders", 2)
    tiering.produce_until_remote(broker, "clickstream", GONE_SEGMENTS)
    tiering.provoke_scenario_b(broker, "clickstream")
    run_id = connected.trigger(RETENTION, {"rlmm_conn_id": "rlmm_up", "min_age_ms": MIN_AGE_MS})
    state = connected.wait(RETENTION, run_id, timeout=250)
    assert state == "success", connected.task_log(RETENTION, run_id, "evaluate")
    plan = Path(connected.xcom(RETENTION, run_id, "publish")["plan"])
    yield Scene(connected, broker, alive, gone, run_id, plan)
    assert scrub(broker) == []


def asset_events(airflow: LocalAirflow, name: str, run_id: str) -> list[dict[str, Any]]:
    """What the run's events of an asset say."""
    (asset,) = [a for a in airflow.get("/assets", limit=100)["assets"] if a["name"] == name]
    events = airflow.get("/assets/events", asset_id=asset["id"])["asset_events"]
    return [e["extra"] for e in events if e["source_run_id"] == run_id]


def page(airflow: LocalAirflow, url: str) -> str:
    with airflow.client("viewer") as viewer:
        answer = viewer.get(url)
    assert answer.status_code == 200, answer.text
    return answer.text


def test_sparks_plan_equals_the_plain_evaluation_row_by_row(scene: Scene) -> None:
    summary = json.loads((scene.plan / "summary.json").read_text())
    limits = {"retention_ms": 86_400_000, "retention_bytes": -1}
    cluster = {
        "cluster_id": scene.kafka.cluster_id,
        "observed_at_ms": summary["created_at_ms"],
        "topics": [
            {"topic_id": kafka_id(topic_id), "name": name, "log_start_offsets": {"0": 0, "1": 0}, **limits}
            for name, topic_id in tiering.topic_ids(scene.kafka).items()
        ],
    }
    records = records_of(scene.kafka, {int(p): end for p, end in summary["read_until"].items()})
    expected = evaluate_plan(records, cluster, summary["created_at_ms"], MIN_AGE_MS, scene.kafka.metadata_partitions)
    names = [name for name, _ in PLAN_COLUMNS]
    files = [scene.plan / file["name"] for file in summary["files"].values()]
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert sorted(rows, key=order_of) == [{name: row[name] for name in names} for row in expected]
    assert {(r["topic"], r["reason"]) for r in rows} == {("clickstream", "ORPHANED")}
    assert len(rows) == GONE_PARTITIONS * GONE_SEGMENTS


def test_the_retention_run_tells_its_counts_and_no_secret(scene: Scene, temporary_files: Path) -> None:
    airflow, run_id = scene.airflow, scene.retention_run
    counts = airflow.xcom(RETENTION, run_id, "publish")
    assert counts["orphaned"] == GONE_PARTITIONS * GONE_SEGMENTS
    assert asset_events(airflow, "remote_log_plan", run_id) == [counts]
    for task_id in ("evaluate", "publish"):
        plan = airflow.link(RETENTION, run_id, task_id, "Plan")
        assert "the topic no longer exists" in page(airflow, plan)
    log = airflow.task_log(RETENTION, run_id, "evaluate")
    assert "Spark-Submit cmd: " in log
    assert f"ORPHANED: {counts['orphaned']} segments" in log
    logs = [log, *(file.read_text(errors="replace") for file in airflow.home.rglob("*.log"))]
    assert not any(SECRET in text for text in logs)
    assert list(temporary_files.glob("rlmm-retention-*")) == []


def test_a_wrong_storage_fails_the_first_task_and_nothing_is_marked(scene: Scene) -> None:
    objects, ends = scene.objects(scene.gone), ends_of(scene.kafka)
    run_id, state = scene.clean(rlmm_conn_id="rlmm_lost")
    assert state == "failed"
    tasks = scene.tasks(run_id)
    # The root is missing: somebody has to look at it, so the retries were not spent.
    assert [(i["state"], i["try_number"]) for i in tasks["check"]] == [("failed", 1)]
    assert [tasks[t][0]["state"] for t in ("mark", "plan", "clean", "report")] == ["upstream_failed"] * 3 + ["failed"]
    log = scene.airflow.task_log(CLEANER, run_id, "check")
    assert "StorageRootError" in log
    assert "/missing" in log
    assert "the run made no plan" in scene.airflow.task_log(CLEANER, run_id, "report")
    assert (scene.objects(scene.gone), ends_of(scene.kafka)) == (objects, ends)


def test_a_failing_cleaning_task_fails_the_run_and_the_report_still_tells(scene: Scene, tmp_path: Path) -> None:
    objects = scene.objects(scene.gone)
    with folders_away(scene, tmp_path):
        run_id, state = scene.clean(max_missing_segments=0)
    assert state == "failed"
    tasks = scene.tasks(run_id)
    steps = ("check", "mark", "plan", "report")
    assert [tasks[t][0]["state"] for t in steps] == ["success", "success", "success", "failed"]
    # Objects are missing: somebody has to look at it, so the retries were not spent.
    assert {(i["state"], i["try_number"]) for i in tasks["clean"]} == {("failed", 1)}
    log = scene.airflow.task_log(CLEANER, run_id, "clean", map_index=tasks["clean"][0]["map_index"])
    assert "StorageRootError" in log
    assert "no object in storage though" in log
    report = scene.airflow.task_log(CLEANER, run_id, "report")
    # The user partitions may all lie in one metadata partition, and then it is one task.
    assert f"{number_of(len(tasks['clean']), 'task')} before this one failed" in report
    shown = scene.report_page(run_id)
    assert "its cleaning task left no report" in shown
    assert 'role="alert"' in shown
    assert scene.objects(scene.gone) == objects


@contextmanager
def folders_away(scene: Scene, elsewhere: Path) -> Iterator[None]:
    """Somebody has moved the folders of the deleted topic out of the storage root."""
    folders = {(scene.kafka.remote_root / path).parent for path in scene.objects(scene.gone)}
    for folder in folders:
        shutil.move(folder, elsewhere / folder.name)
    try:
        yield
    finally:
        for folder in folders:
            shutil.move(elsewhere / folder.name, folder)


def test_a_dry_run_writes_and_deletes_nothing(scene: Scene) -> None:
    objects, ends = scene.objects(scene.gone), ends_of(scene.kafka)
    # What the form offers: a dry run.
    run_id, state = scene.clean(dry_run=None)
    assert state == "success"
    index = scene.tasks(run_id)["clean"][0]["map_index"]
    log = scene.airflow.task_log(CLEANER, run_id, "clean", map_index=index)
    assert "would write DELETE_PARTITION_STARTED" in log
    assert "would write DELETE_SEGMENT_STARTED" in log
    assert all("would be deleted" in i["rendered_map_index"] for i in scene.tasks(run_id)["clean"])
    totals = scene.airflow.xcom(CLEANER, run_id, "report")
    assert (totals["dry_run"], totals["would_delete_segments"]) == (True, GONE_PARTITIONS * GONE_SEGMENTS)
    assert not [name for name in totals if "deleted" in name]
    assert asset_events(scene.airflow, "remote_log_cleanup", run_id) == []
    report = page(scene.airflow, f"/rlmm/reports/{Path(totals['report']).parent.name}")
    assert "dry run: nothing was written or deleted" in report
    assert "Would delete segments" in report
    assert scene.objects(scene.gone) == objects
    assert ends_of(scene.kafka) == ends


def test_the_cleaner_deletes_what_spark_found_and_shows_it(scene: Scene) -> None:
    orphans, living = scene.objects(scene.gone), scene.objects(scene.alive)
    planned: dict[int, int] = {}
    summary = json.loads((scene.plan / "summary.json").read_text())["by_metadata_partition"]
    for metadata_partition, count in summary.items():
        planned[int(metadata_partition)] = count["segments"]
    assert orphans
    run_id, state = scene.clean()
    assert state == "success"

    instances = scene.tasks(run_id)["clean"]
    assert sorted(i["rendered_map_index"] for i in instances) == [
        f"metadata partition {p}: {number_of(segments, 'segment')} deleted, 0 left"
        for p, segments in sorted(planned.items())
    ]
    totals = scene.airflow.xcom(CLEANER, run_id, "report")
    assert totals["segments_deleted"] == sum(planned.values()) == GONE_PARTITIONS * GONE_SEGMENTS
    assert totals["objects_deleted"] == len(orphans)
    assert totals["partitions_finished"] == GONE_PARTITIONS
    assert (totals["segments_left"], totals["refusals"], totals["dry_run"]) == (0, 0, False)
    assert asset_events(scene.airflow, "remote_log_cleanup", run_id) == [totals]
    assert scene.objects(scene.gone) == set()
    assert scene.objects(scene.alive) == living

    for instance in instances:
        plan, report = (
            scene.airflow.link(CLEANER, run_id, "clean", name, map_index=instance["map_index"])
            for name in ("Plan", "Report")
        )
        assert "the topic no longer exists" in page(scene.airflow, plan)
        assert "finished" in page(scene.airflow, report)
        log = scene.airflow.task_log(CLEANER, run_id, "clean", map_index=instance["map_index"])
        assert "user partitions to clean" in log
        size = len(json.dumps(scene.airflow.xcom(CLEANER, run_id, "clean", map_index=instance["map_index"])))
        assert size < 500
    assert sorted(scene.airflow.xcom(CLEANER, run_id, "plan")) == sorted(planned)
    assert scrub(scene.kafka) == []


@pytest.mark.parametrize(
    ("conf", "error"),
    [
        ({"rlmm_conn_id": "rlmm_down"}, "connection 'kafka_down': "),
        ({"dry_rum": True}, "unknown parameters ['dry_rum']"),
    ],
)
def test_what_cannot_work_fails_at_once_with_one_clear_error(
    connected: LocalAirflow, conf: dict[str, Any], error: str
) -> None:
    run_id = connected.trigger(CLEANER, conf)
    assert connected.wait(CLEANER, run_id, timeout=150) == "failed"
    instances = {i["task_id"]: i for i in connected.task_instances(CLEANER, run_id)}
    assert [instances[t]["state"] for t in ("check", "mark", "plan", "clean", "report")] == [
        "failed", "upstream_failed", "upstream_failed", "upstream_failed", "failed",
    ]  # fmt: skip
    assert {instances[t]["try_number"] for t in ("check", "report")} == {1}
    log = connected.task_log(CLEANER, run_id, "check")
    assert error in log
    assert "the run made no plan" in connected.task_log(CLEANER, run_id, "report")
