# SPDX-License-Identifier: Apache-2.0
"""The operators of the cleaner's DAG, one after the other, without a scheduler."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_rlmm.operators.cleaner import (
    CleanMetadataPartitionOperator,
    MarkDeletedPartitionsOperator,
    PlanRemoteLogCleanupOperator,
    ReportRemoteLogCleanupOperator,
)
from dev.broker import LocalKafka
from dev.roots import expected_root_of

NOW = {"min_absence_ms": 0, "batch_segments": 7, "overrides": ["short_min_absence"]}


class TaskInstance:
    """Takes XComs as a running task instance does."""

    def __init__(self) -> None:
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


class DagRun:
    dag_id = "remote_log_cleaner"

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id


def context(run_id: str) -> Any:
    return {"ti": TaskInstance(), "dag_run": DagRun(run_id)}


def connect(monkeypatch: pytest.MonkeyPatch, kafka: LocalKafka, **extra: Any) -> None:
    """Define the connections as an operator would."""
    fields = {
        "storage_uri": kafka.remote_dir.as_uri(),
        "allow_writes": True,
        "expected_cluster_id": kafka.cluster_id,
        **({} if "storage_uri" in extra else {"expected_root": expected_root_of(kafka.remote_dir)}),
        **extra,
    }
    for conn_id, conn_type, values in (
        ("KAFKA_DEFAULT", "kafka", {"bootstrap.servers": kafka.bootstrap_servers}),
        ("RLMM_DEFAULT", "rlmm", {k: v for k, v in fields.items() if v is not None}),
    ):
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id}", json.dumps({"conn_type": conn_type, "extra": values}))


def run_cleaner(run_id: str, **clean: Any) -> dict[str, Any]:
    """Run the DAG's operators one after the other."""
    MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=False).execute(context(run_id))
    plan = PlanRemoteLogCleanupOperator(task_id="plan", limits=NOW, blast_radius={"max_share": 1.0})
    for metadata_partition in plan.execute(context(run_id)):
        CleanMetadataPartitionOperator(
            task_id="clean", metadata_partition=metadata_partition, **({"limits": NOW, "dry_run_only": False} | clean)
        ).execute(context(run_id))
    return ReportRemoteLogCleanupOperator(task_id="report").execute(context(run_id))
