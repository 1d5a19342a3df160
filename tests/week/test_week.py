# SPDX-License-Identifier: Apache-2.0
"""
A week of hourly runs of the cleaner, with its real operators, on a cluster in memory and a real work folder.

Its clock is turned by hand: each run is an hour after the one before, for whoever asks for the time, files included.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from fastapi.testclient import TestClient

from airflow_provider_rlmm.core.base.clock import HOUR_MS, system_clock
from airflow_provider_rlmm.core.base.file_systems import modified_ms, read_file
from airflow_provider_rlmm.core.log.kafka.cluster import VerifiedCluster
from airflow_provider_rlmm.core.world.audit_files import Wanted, audit_rows
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.operators.cleaner import (
    CleanMetadataPartitionOperator,
    MarkDeletedPartitionsOperator,
    PlanRemoteLogCleanupOperator,
    ReportRemoteLogCleanupOperator,
)
from airflow_provider_rlmm.operators.survey import SurveyRemoteLogOperator
from airflow_provider_rlmm.overview import housekeeping  # noqa: F401  # its clock is turned, too
from airflow_provider_rlmm.overview.history import keep_run_summary  # noqa: F401  # likewise
from airflow_provider_rlmm.plugins import web
from tests.unit.airflow.auth import Everybody, log_in, without_database
from tests.unit.airflow.operators.test_operators import OutletEvents, TaskInstance, put_behind_the_hooks
from tests.week.cluster import CLUSTER_ID, SEGMENTS, USER_PARTITIONS, Week

pytestmark = [pytest.mark.week, pytest.mark.timeout(0)]

HOURS, DAY = 168, 24
KEEP_RUNS_DAYS, KEEP_AUDIT_DAYS = 2, 5
WAIT_HOURS = 24


@dataclass(frozen=True)
class Measured:
    """The work folder after so many hours."""

    hours: int
    segments_deleted: int  # since the beginning
    log_records: int
    run_cpu_s: float  # CPU time of a run, median of the last day's
    run_folders: int
    summaries: int
    folder_files: int
    folder_bytes: int
    snapshot_bytes: int
    inventory_bytes: int
    audit_files: int
    audit_bytes: int
    audit_rows: int
    slowest_page_s: float
    slowest_page: str


@pytest.fixture
def week(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Week]:
    made = Week(HOURS)
    for name, value in {
        "AIRFLOW__RLMM__WORK_URI": str(tmp_path / "work"),
        "AIRFLOW__RLMM__KEEP_RUNS_DAYS": str(KEEP_RUNS_DAYS),
        "AIRFLOW__RLMM__KEEP_AUDIT_DAYS": str(KEEP_AUDIT_DAYS),
        "AIRFLOW_CONN_RLMM_DEFAULT": json.dumps(
            {"conn_type": "rlmm", "extra": {"allow_writes": True, "expected_cluster_id": CLUSTER_ID}}
        ),
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "b:9092"}}),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(
        "airflow_provider_rlmm.core.log.kafka.cluster.verify_cluster",
        lambda config, request_timeout_s, listening: VerifiedCluster(
            CLUSTER_ID, config, config.bootstrap_addresses, ()
        ),
    )
    monkeypatch.setattr(RemoteLogMetadataHook, "get_proven_clock", lambda self, log, **_: made.clock)
    put_behind_the_hooks(monkeypatch, made)
    for name, module in list(sys.modules.items()):
        if name.startswith("airflow_provider_rlmm."):
            for attribute, real, turned in (
                ("system_clock", system_clock, made.clock),
                ("modified_ms", modified_ms, lambda uri: made.at(modified_ms(uri))),
            ):
                if getattr(module, attribute, None) is real:
                    monkeypatch.setattr(module, attribute, turned)
    logging.disable(logging.WARNING)
    yield made
    logging.disable(logging.NOTSET)


class Instance(TaskInstance):
    """An instance of a task in whose run nothing has failed."""

    def get_ti_count(self, **_: Any) -> int:
        return 0


def run(hour: int) -> dict[str, Any]:
    """One run, task by task as the DAG has them."""

    def context() -> Any:
        dag_run = SimpleNamespace(dag_id="remote_log_cleaner", run_id=f"scheduled__{hour:03}", run_type="scheduled")
        return {"ti": Instance(0), "dag_run": dag_run, "outlet_events": OutletEvents()}

    MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=False).execute(context())
    plan = PlanRemoteLogCleanupOperator(task_id="plan", blast_radius={"max_share": 1.0})
    for metadata_partition in plan.execute(context()):
        CleanMetadataPartitionOperator(
            task_id="clean", dry_run_only=False, metadata_partition=metadata_partition
        ).execute(context())
    SurveyRemoteLogOperator(task_id="survey").execute(context())
    with DAG("week"):
        report = ReportRemoteLogCleanupOperator(task_id="report")
        MarkDeletedPartitionsOperator(task_id="marked", dry_run_only=False) >> report
    return report.execute(context())


def list_newest_deletions(work: Path) -> None:
    audit_rows(str(work / f"cluster-{CLUSTER_ID}"), CLUSTER_ID, limit=1_000)


def slowest_page(work: Path, client: TestClient, topic_id: str) -> tuple[float, str]:
    """
    Read every page three times; return the slowest one: what its fastest answer took, and which it was.

    Seconds of this process: what else the machine does at that time is no matter of the pages.
    """
    cluster, found = f"/clusters/{CLUSTER_ID}", []
    topic = f"{cluster}/topics/{topic_id}"

    def read(page: str) -> None:
        answer = client.get(page)
        assert answer.status_code == 200, (page, answer.text)

    def read_audit(_: str) -> None:
        list_newest_deletions(work)

    for page in ("/", cluster, f"{cluster}/topics", f"{cluster}/runs", topic, f"{topic}/0", "the audit log"):
        took = []
        for _ in range(3):
            began = time.process_time()
            (read_audit if page == "the audit log" else read)(page)
            took.append(time.process_time() - began)
        found.append((min(took), page))
    return max(found)


def audit_files_read(work: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many files of the audit log are read where its newest deletions are listed."""
    read: list[str] = []

    def reading(uri: str, *bound: int) -> Any:
        read.append(uri)
        return read_file(uri, *bound)

    with monkeypatch.context() as counted:
        counted.setattr("airflow_provider_rlmm.core.world.audit_files.read_file", reading)
        list_newest_deletions(work)
    return len(read)


def size_of(paths: list[Path]) -> int:
    return sum(path.stat().st_size for path in paths)


def measure(
    week: Week, work: Path, hours: int, deleted: int, seconds: list[float], slowest: tuple[float, str]
) -> Measured:
    cluster = work / f"cluster-{CLUSTER_ID}"
    files = [path for path in work.rglob("*") if path.is_file()]
    audit = list((cluster / "audit").rglob("*.parquet"))
    return Measured(
        hours, deleted, sum(week.log.high_water_marks().values()), round(median(seconds[-DAY:]), 2),
        len([path for path in work.iterdir() if path != cluster]), len(list((cluster / "runs").iterdir())), len(files),
        size_of(files), size_of(list(cluster.glob("*.snapshot"))),
        size_of([path for path in files if "inventory" in str(path)]), len(audit), size_of(audit),
        audit_rows(str(cluster), CLUSTER_ID, Wanted(), limit=10**9).rows.num_rows, round(slowest[0], 3), slowest[1],
    )  # fmt: skip


def test_a_week_of_hourly_runs(week: Week, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_rlmm.core.records.records import kafka_uuid_str

    work, deleted, seconds, days = tmp_path / "work", 0, [], []
    app = web.create_app()
    log_in(app, monkeypatch, Everybody)
    without_database(monkeypatch)
    topic_id = kafka_uuid_str(next(iter(sorted(week.kept))))
    living = None
    with TestClient(app, raise_server_exceptions=False) as client:
        for hour in range(HOURS):
            week.pass_hour()
            living = week.keys_of(week.kept)
            began = time.process_time()
            totals = run(hour)
            seconds.append(time.process_time() - began)
            deleted += totals["segments_deleted"]
            assert totals["needs_person"] == 0
            assert week.keys_of(week.kept) == living
            if (hour + 1) % DAY == 0:
                days.append(measure(week, work, hour + 1, deleted, seconds, slowest_page(work, client, topic_id)))
                print(days[-1])  # noqa: T201  # what this test is for

    # What was deleted long enough ago is gone, all of it, and what waits is there.
    due = {topic for topic, at_ms in week.deleted.items() if week.now_ms - at_ms >= (WAIT_HOURS + 1) * HOUR_MS}
    assert due
    assert week.keys_of(due) == 0
    waits = {topic for topic, at_ms in week.deleted.items() if week.now_ms - at_ms < WAIT_HOURS * HOUR_MS}
    assert week.keys_of(waits) > 0
    assert deleted >= len(due) * USER_PARTITIONS * SEGMENTS

    # The work folder grows as docs/scaling.md says: what a setting bounds does not grow after it is reached.
    third, last = days[2], days[-1]
    assert third.run_folders <= KEEP_RUNS_DAYS * DAY + 1
    assert last.run_folders <= KEEP_RUNS_DAYS * DAY + 1
    assert last.summaries <= KEEP_RUNS_DAYS * DAY + 1
    assert last.folder_files <= 1.5 * third.folder_files
    assert last.snapshot_bytes <= 1.5 * third.snapshot_bytes
    assert last.inventory_bytes <= 1.5 * third.inventory_bytes
    # One file for each run that deleted, for as many days as are kept.
    assert last.audit_files <= (KEEP_AUDIT_DAYS + 1) * DAY
    assert 0 < last.audit_bytes / last.audit_rows < 400
    # The newest deletions are those of two whole days at most, and of the day that has begun.
    assert 0 < audit_files_read(work, monkeypatch) <= 3 * DAY < last.audit_files
    # Held against a run of the same day: how fast both are depends on the machine, and on what else it does.
    assert all(day.slowest_page_s < day.run_cpu_s / 2 for day in days)
