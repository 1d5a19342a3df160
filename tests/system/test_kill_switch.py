# SPDX-License-Identifier: Apache-2.0
"""The kill switch under a real scheduler: it is set while a batch of thousands of segments is being deleted."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.records.records import (
    TopicIdPartition,
)
from airflow_provider_rlmm.core.world.audit_files import Wanted, audit_rows
from dev import tiering
from dev.airflow import LocalAirflow
from dev.broker import LocalKafka, await_condition
from dev.orphans import leave_orphans
from tests.scrub import scrub
from tests.system.test_dags import CLEANER, NOW, ends_of

pytestmark = [pytest.mark.system, pytest.mark.integration, pytest.mark.timeout(900)]

BATCH, SEGMENTS = 3_000, 6_000
RATE = 1_500
"""Objects in a second: between two batches more time passes than the switch counts for as it was read."""

SWITCH, REASON = "rlmm_stop__rlmm_up", "Ada: the bucket moves"


@dataclass(frozen=True)
class Orphans:
    """Thousands of segments of a topic that is not there."""

    airflow: LocalAirflow
    kafka: LocalKafka
    tip: TopicIdPartition
    folder: Path
    work: Path

    def objects(self) -> int:
        return sum(1 for _ in self.folder.iterdir()) if self.folder.is_dir() else 0

    def begin(self, **conf: Any) -> str:
        return self.airflow.trigger(CLEANER, NOW | {"batch_segments": BATCH, "objects_per_second": RATE} | conf)

    def end(self, run_id: str) -> str:
        return self.airflow.wait(CLEANER, run_id, timeout=240)

    @contextmanager
    def held_in_mid_batch(self, run_id: str) -> Iterator[None]:
        """Pause the deleting task once its first objects are gone: a batch may take less than a request to Airflow."""
        untouched = self.folder.stat().st_mtime_ns
        pid = await_condition(lambda: self._cleaning_process(run_id), "a task deletes", 200, 0.1)
        # A count of thousands of objects each time would be most of what this test costs.
        await_condition(lambda: self.folder.stat().st_mtime_ns != untouched, "the first objects are gone", 200, 0.01)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def _cleaning_process(self, run_id: str) -> int | None:
        instances = self.airflow.task_instances(CLEANER, run_id)
        return next((i["pid"] for i in instances if i["task_id"] == "clean" and i["state"] == "running"), None)

    def states(self, run_id: str) -> dict[str, str]:
        return {i["task_id"]: i["state"] for i in self.airflow.task_instances(CLEANER, run_id)}

    def report(self, run_id: str) -> dict[str, Any]:
        (file,) = [path for path in self.work.glob("*/report.json") if path.parent.name.endswith(artifact_end(run_id))]
        found: dict[str, Any] = json.loads(file.read_text())
        return found


def artifact_end(run_id: str) -> str:
    return run_id.replace(":", "-").replace("+", "-")


@pytest.fixture
def orphans(connected: LocalAirflow, broker: LocalKafka, work_dir: Path) -> Iterator[Orphans]:
    tiering.create_tiered_topic(broker, "switch-kept", 1)
    tiering.produce_until_remote(broker, "switch-kept", 1)
    tip, folder = leave_orphans(broker, "switch-gone", SEGMENTS)
    yield Orphans(connected, broker, tip, folder, work_dir)
    # It would stop the runs of all tests behind this one.
    if any(variable["key"] == SWITCH for variable in connected.get("/variables", limit=100)["variables"]):
        connected.set_variable(SWITCH, None)
    assert scrub(broker) == []


def test_a_switch_that_is_set_in_mid_batch_ends_the_run_after_it_and_the_next_run_goes_on(orphans: Orphans) -> None:
    airflow, all_objects = orphans.airflow, orphans.objects()
    per_segment = all_objects // SEGMENTS
    run_id = orphans.begin()
    with orphans.held_in_mid_batch(run_id):
        airflow.set_variable(SWITCH, REASON)
        set_at_ms = system_clock()
    assert orphans.end(run_id) == "failed"

    # It was set while the first batch was under way, and that one was ended, with all its events.
    wanted = Wanted(topic_id=orphans.tip.topic_id.bytes)
    cluster_uri = f"{orphans.work}/{cluster_folder(orphans.kafka.cluster_id)}"
    rows = audit_rows(cluster_uri, orphans.kafka.cluster_id, wanted, limit=SEGMENTS).rows.to_pylist()
    assert len(rows) == BATCH
    assert min(row["time_ms"] for row in rows) >= set_at_ms, "the batch was over before the switch was set"
    assert {(row["outcome"], row["triggered_by"], row["artifact"]) for row in rows} == {
        ("GONE", "admin", rows[0]["artifact"])
    }
    assert None not in {row["finished_offset"] for row in rows} | {row["started_offset"] for row in rows}
    assert orphans.objects() == (SEGMENTS - BATCH) * per_segment

    # Red, once, and it says what to do.
    assert orphans.states(run_id) | {"report": "failed"} == orphans.states(run_id)
    assert orphans.states(run_id)["clean"] == "success"
    report = orphans.report(run_id)
    (problem,) = report["needs_person"]
    assert (problem["kind"], problem["what"]) == ("STOPPED", "1 user partition")
    assert f"the Airflow variable {SWITCH} is set, it says '{REASON}'" in problem["why"]
    assert "delete the variable or remove the file that the reason names" in problem["what_to_do"]
    assert report["totals"]["segments_left"] == SEGMENTS - BATCH
    assert REASON in airflow.task_log(CLEANER, run_id, "report")

    # While it is on, a real run ends before its first event, and a dry one only says it.
    before = ends_of(orphans.kafka)
    stopped = orphans.begin()
    assert orphans.end(stopped) == "failed"
    assert orphans.states(stopped)["check"] == "failed"
    log = airflow.task_log(CLEANER, stopped, "check")
    assert "StoppedError" in log
    assert f"the kill switch is on: the Airflow variable {SWITCH} is set" in log
    dry = orphans.begin(dry_run=True)
    assert orphans.end(dry) == "success"
    assert "A real run would end here" in airflow.task_log(CLEANER, dry, "check")
    assert ends_of(orphans.kafka) == before
    assert orphans.objects() == (SEGMENTS - BATCH) * per_segment

    # Put back, the next run goes on where the stopped one ended.
    airflow.set_variable(SWITCH, None)
    last = orphans.begin()
    assert orphans.end(last) == "success"
    assert orphans.objects() == 0
    found = audit_rows(cluster_uri, orphans.kafka.cluster_id, replace(wanted), limit=2 * SEGMENTS).rows
    assert found.num_rows == SEGMENTS
    assert len(set(found["segment_id"].to_pylist())) == SEGMENTS
    files = sorted(path.name for path in Path(cluster_uri, "audit").rglob("*.parquet"))
    assert not [name for name in files if ".before." in name or ".after." in name]
