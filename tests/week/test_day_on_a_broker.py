# SPDX-License-Identifier: Apache-2.0
"""A day of hourly runs on a real broker, one right after the other: topics come, and are gone by the next run."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.world.audit_files import audit_rows
from dev import tiering
from dev.broker import LocalKafka
from dev.orphans import leave_orphans
from tests.integration.operators import connect, run_cleaner
from tests.scrub import scrub

pytestmark = [pytest.mark.week, pytest.mark.integration, pytest.mark.timeout(0)]

RUNS, SEGMENTS = 24, 200


@pytest.fixture
def kafka() -> Iterator[LocalKafka]:
    with LocalKafka(metadata_partitions=5) as broker:
        yield broker


def test_a_day_of_hourly_runs_on_a_broker(kafka: LocalKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_rlmm.operators.cleaner.failed_before", lambda task, context: 0)
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    connect(monkeypatch, kafka)
    tiering.create_tiered_topic(kafka, "kept", 1)
    tiering.produce_until_remote(kafka, "kept", 2)
    cluster, seconds, snapshots = tmp_path / "work" / cluster_folder(kafka.cluster_id), [], []
    for hour in range(RUNS):
        _, folder = leave_orphans(kafka, f"gone-{hour}", SEGMENTS)
        began = time.perf_counter()
        totals = run_cleaner(f"hourly-{hour:02}")
        seconds.append(time.perf_counter() - began)
        assert (totals["segments_deleted"], totals["needs_person"]) == (SEGMENTS, 0)
        assert not folder.exists() or not any(folder.iterdir())
        snapshots.append(sum(path.stat().st_size for path in cluster.glob("*.snapshot")))
    audit = list((cluster / "audit").rglob("*.parquet"))
    rows = audit_rows(str(cluster), kafka.cluster_id, limit=10**6).rows
    folders = [path for path in (tmp_path / "work").iterdir() if path != cluster]
    measured = {
        "seconds per run": round(median(seconds), 2), "snapshot bytes": [snapshots[0], snapshots[-1]],
        "run folders": len(folders), "audit files": len(audit),
        "audit bytes per segment": round(sum(path.stat().st_size for path in audit) / rows.num_rows),
    }  # fmt: skip
    print(json.dumps(measured))  # noqa: T201  # what this test is for
    assert rows.num_rows == len(set(rows["segment_id"].to_pylist())) == RUNS * SEGMENTS
    assert set(rows["outcome"].to_pylist()) == {"GONE"}
    # A run leaves one folder and one file of the audit log; what is finished takes a few bytes of the snapshot.
    assert len(folders) == RUNS
    assert RUNS <= len(audit) <= 2 * RUNS
    assert snapshots[-1] - snapshots[0] < RUNS * 2_000
    assert scrub(kafka) == []
