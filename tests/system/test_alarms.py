# SPDX-License-Identifier: Apache-2.0
"""Who is told of what under a real scheduler: the notifier of red runs, the dead-man alarm, OpenLineage."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from airflow_provider_rlmm.core.base.clock import DAY_MS
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.overview.dead_man import Watch
from airflow_provider_rlmm.overview.run_summary import RUNS_FOLDER
from dev import tiering
from dev.airflow import LocalAirflow
from dev.broker import METADATA_TOPIC, LocalKafka
from dev.roots import expected_root_of
from tests.system.receivers import StatsdListener, awaited, lineage_events
from tests.unit.overview.test_run_metrics import RUN

pytestmark = [pytest.mark.system, pytest.mark.integration, pytest.mark.timeout(1800)]

DOCTOR, CLEANER = "remote_log_doctor", "remote_log_cleaner"


@pytest.fixture(scope="module")
def watched(connected: LocalAirflow, broker: LocalKafka) -> str:
    """A connection to the broker that no other test uses: runs of others are not its runs. Something is stored there."""
    tiering.create_tiered_topic(broker, "heartbeats", 1)
    tiering.produce_until_remote(broker, "heartbeats", 2)
    extra = {
        "kafka_conn_id": "kafka_up",
        "storage_uri": broker.remote_dir.as_uri(),
        "scheduled_runs": "real",
        # Without it the check fails, too, and the message tells of whichever task was red first.
        "expected_root": expected_root_of(broker.remote_dir),
    }
    connected.add_connection("rlmm_watched", {"conn_type": "rlmm", "extra": extra})
    return "rlmm_watched"


def run_doctor(airflow: LocalAirflow, connection: str) -> tuple[str, str, dict[str, str]]:
    """Run the doctor; returns its run, how it ended, and how each of its tasks did."""
    run_id = airflow.trigger(DOCTOR, {"rlmm_conn_id": connection})
    state = airflow.wait(DOCTOR, run_id, timeout=300)
    return run_id, state, {task["task_id"]: task["state"] for task in airflow.task_instances(DOCTOR, run_id)}


def messages(folder: Path, run_id: str) -> list[dict[str, Any]]:
    told = [json.loads(file.read_text()) for file in folder.glob("*.json")]
    return [message for message in told if message["run_id"] == run_id]


def test_somebody_is_told_once_of_a_red_run(connected: LocalAirflow, alarm_folder: Path) -> None:
    run_id, state, tasks = run_doctor(connected, "rlmm_down")
    assert (state, set(tasks.values())) == ("failed", {"failed"})
    assert awaited(lambda: messages(alarm_folder, run_id))
    (message,) = messages(alarm_folder, run_id)
    assert message["subject"].startswith("[rlmm] remote_log_doctor is red")
    lines = message["text"].split("\n")
    assert lines[0] == "remote_log_doctor is red."
    assert f"DAG and run: remote_log_doctor, {run_id}" in lines
    assert f"Run: {connected.url}/dags/remote_log_doctor/runs/{quote(run_id, safe='')}" in lines
    (what,) = [line for line in lines if line.startswith("What: ")]
    assert "connection 'kafka_down'" in what.lower()
    assert "more tasks failed" in what
    assert any(line.startswith("What to do first: open the log of the task ") for line in lines)
    assert f'<a href="{connected.url}/dags/remote_log_doctor/runs/' in message["html"]


@pytest.mark.rare
def test_the_alarm_rings_where_no_run_has_ended_green_for_days(
    connected: LocalAirflow, broker: LocalKafka, watched: str, work_dir: Path, alarm_folder: Path
) -> None:
    run_id, _, tasks = run_doctor(connected, watched)
    assert tasks["alarm"] == "success"
    assert "the alarm rings from " in connected.xcom(DOCTOR, run_id, "alarm")
    cluster = work_dir / cluster_folder(broker.cluster_id)
    (note,) = [f for f in cluster.glob("watched-*.json") if f'"{watched}"' in f.read_text()]

    first = Watch.from_json(note.read_text())
    note.write_text(replace(first, since_ms=first.since_ms - 2 * DAY_MS).to_json())
    run_id, state, tasks = run_doctor(connected, watched)
    assert (state, tasks["alarm"]) == ("failed", "failed")
    log = connected.task_log(DOCTOR, run_id, "alarm")
    assert (
        f"no real run of the cleaner has ended green on cluster {broker.cluster_id}, connection {watched} since" in log
    )
    assert "What to do: look at the runs of the cleaner" in log
    (message,) = awaited(lambda: messages(alarm_folder, run_id))
    assert "What: the task alarm failed: no real run of the cleaner has ended green on cluster" in message["text"]

    now_ms = int(time.time() * 1000)
    real = replace(RUN, cluster_id=broker.cluster_id, connection=watched, began_at_ms=now_ms - 1, ended_at_ms=now_ms)
    (cluster / RUNS_FOLDER).mkdir(exist_ok=True)
    for run in (replace(real, dry_run=True, artifact="remote_log_cleaner.dry"), replace(real, ended_at_ms=now_ms - 1)):
        (cluster / RUNS_FOLDER / run.file_name).write_text(run.to_json())
    run_id, _, tasks = run_doctor(connected, watched)
    assert tasks["alarm"] == "success"
    assert connected.xcom(DOCTOR, run_id, "alarm").startswith("the last real run of the cleaner that ended green on")


def test_openlineage_is_told_what_a_task_reads_and_counts(
    connected: LocalAirflow, broker: LocalKafka, watched: str, lineage_file: Path
) -> None:
    run_id, _, tasks = run_doctor(connected, watched)
    assert tasks["leaders"] == "success"
    jobs = {f"{DOCTOR}.{task}" for task in ("doctor", "survey", "check", "leaders")}

    def ended() -> dict[str, dict[str, Any]]:
        events = lineage_events(lineage_file, DOCTOR, run_id)
        found = {e["job"]["name"]: e for e in events if e["eventType"] in {"COMPLETE", "FAIL"}}
        return found if found.keys() >= jobs else {}

    events = awaited(ended)
    topic = {"namespace": f"kafka://{broker.bootstrap_servers.partition(',')[0]}", "name": METADATA_TOPIC}
    storage = {"namespace": "file", "name": str(broker.remote_dir)}
    assert [named(d) for d in events[f"{DOCTOR}.doctor"]["inputs"]] == [topic]
    for task in ("check", "leaders"):
        assert [named(d) for d in events[f"{DOCTOR}.{task}"]["inputs"]] == [topic, storage]
    asked = connected.xcom(DOCTOR, run_id, "leaders")
    assert events[f"{DOCTOR}.leaders"]["run"]["facets"]["remoteLog"]["counts"]["all"] == asked["all"]
    facet = events[f"{DOCTOR}.doctor"]["run"]["facets"]["remoteLog"]
    assert facet["connection"] == watched
    examined = connected.xcom(DOCTOR, run_id, "doctor")
    assert facet["counts"]["records"] == examined["records"] > 0
    surveyed = connected.xcom(DOCTOR, run_id, "survey")
    told = events[f"{DOCTOR}.survey"]["run"]["facets"]["remoteLog"]["counts"]
    assert told == {name: value for name, value in surveyed.items() if name != "inventory"}


@pytest.mark.rare
def test_statsd_receives_what_runs_say_in_numbers(
    connected: LocalAirflow, watched: str, statsd: StatsdListener
) -> None:
    succeeded, failed = (f"airflow.rlmm.runs_{how}_total.{watched}.cleaner" for how in ("succeeded", "failed"))
    ended = statsd.counters.get(succeeded, 0) + statsd.counters.get(failed, 0)
    run_id = connected.trigger(CLEANER, {"rlmm_conn_id": watched})
    state = connected.wait(CLEANER, run_id, timeout=300)
    surveyed = connected.xcom(CLEANER, run_id, "survey")
    assert awaited(lambda: statsd.counters.get(succeeded, 0) + statsd.counters.get(failed, 0)) == ended + 1
    gauges = statsd.gauges
    for what in ("stored", "orphaned", "waiting", "deleting"):
        for unit in ("bytes", "segments"):
            assert gauges[f"airflow.rlmm.{what}_{unit}.{watched}"] == surveyed[f"{what}_{unit}"]
    assert surveyed["stored_segments"] >= 2
    assert gauges[f"airflow.rlmm.run_succeeded.{watched}.cleaner"] == (state == "success")
    assert gauges[f"airflow.rlmm.run_dry.{watched}.cleaner"] == 1
    assert gauges[f"airflow.rlmm.deleted_bytes.{watched}.cleaner"] == 0
    for step in ("plan", "survey"):
        assert gauges[f"airflow.rlmm.step_seconds.{watched}.cleaner.{step}"] > 0
    assert f"airflow.rlmm.quarantined_records.{watched}" in gauges


def named(dataset: dict[str, Any]) -> dict[str, str]:
    return {"namespace": dataset["namespace"], "name": dataset["name"]}
