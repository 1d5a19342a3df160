# SPDX-License-Identifier: Apache-2.0
"""The jobs of ``docs/permissions.md``: all tasks of each, one after the other, by the connections in the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from airflow.providers.standard.operators import hitl
from airflow.sdk.exceptions import AirflowFailException, TaskAwaitingInput

from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.operators.approval import (
    ApprovePlanOperator,
    ApproveRemoteLogCleanupOperator,
    ApproveRemoteStorageScrubOperator,
)
from airflow_provider_rlmm.operators.archive import ArchivePlannedSegmentsOperator
from airflow_provider_rlmm.operators.check import CheckRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.cleaner import (
    CleanMetadataPartitionOperator,
    MarkDeletedPartitionsOperator,
    PlanRemoteLogCleanupOperator,
    ReportRemoteLogCleanupOperator,
)
from airflow_provider_rlmm.operators.contents import VerifyRemoteSegmentsOperator
from airflow_provider_rlmm.operators.doctor import RemoteLogMetadataDoctorOperator
from airflow_provider_rlmm.operators.metadata import ReadRemoteLogMetadataOperator
from airflow_provider_rlmm.operators.retention import PublishRetentionPlanOperator, SegmentRetentionOperator
from airflow_provider_rlmm.operators.scrub import (
    DeleteScrubbedObjectsOperator,
    PlanRemoteStorageScrubOperator,
    RemoteStorageScrubOperator,
    ReportRemoteStorageScrubOperator,
)
from airflow_provider_rlmm.operators.survey import SurveyRemoteLogOperator
from dev import ensure_spark_jars
from tests.contracts.s3_server import BUCKET

HELD = "held"
SEGMENTS = 8
"""Of the deleted topic."""

LIMITS = {"min_absence_ms": 0, "overrides": ["short_min_absence"]}
ALWAYS = {"approve_above_segments": 0, "approve_above_bytes": 0}


class TaskInstance:
    """What a task tells Airflow is not looked at here."""

    id = "ti"

    def xcom_push(self, key: str, value: Any) -> None:
        """Forget it."""

    def get_ti_count(self, **_: Any) -> int:
        return 0


def context_of(run_id: str) -> Any:
    run = SimpleNamespace(dag_id="dag", run_id=run_id, start_date=datetime.now(UTC))
    ti = TaskInstance()
    return {"ti": ti, "task_instance": ti, "dag_run": run, "outlet_events": {}}


def connection_test() -> None:
    good, text = RemoteLogMetadataHook().test_connection()
    if not good:
        raise AirflowFailException(text)


def read() -> None:
    result = ReadRemoteLogMetadataOperator(task_id="read", output_uri=f"s3://{BUCKET}/read").execute(context_of("read"))
    assert result["rows"] > 2 * SEGMENTS


def doctor() -> None:
    result = RemoteLogMetadataDoctorOperator(task_id="doctor").execute(context_of("doctor"))
    assert result["segments"] > 0


def mark() -> None:
    assert MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=False).execute(context_of("mark"))["marked"] > 0


def survey() -> None:
    result = SurveyRemoteLogOperator(task_id="survey", limits=LIMITS, dry_run_only=True).execute(context_of("survey"))
    assert result["stored_segments"] > 0


def verify() -> None:
    result = VerifyRemoteSegmentsOperator(task_id="verify", share=0.5).execute(context_of("verify"))
    assert result["right"] == result["chosen"] > 0


def whole_run(*, dry_run: bool, most: int | None, archive: bool = False) -> dict[str, Any]:
    """All tasks of the DAG ``remote_log_cleaner``, one after the other; a person approves what would be deleted."""
    context, common = context_of("run"), {"limits": LIMITS, "dry_run_only": dry_run}
    planning = {
        "blast_radius": {"max_share": 1.0},
        "max_segments_this_run": most,
        "hold": [HELD],
    }
    CheckRemoteLogCleanupOperator(task_id="check", archive_first=archive, **common, **planning).execute(context)
    MarkDeletedPartitionsOperator(task_id="mark", hold=[HELD], **common).execute(context)
    partitions = PlanRemoteLogCleanupOperator(task_id="plan", **common, **planning).execute(context)
    approve(ApproveRemoteLogCleanupOperator, context, dry_run=dry_run)
    ArchivePlannedSegmentsOperator(task_id="archive", archive_first=archive, **common).execute(context)
    for partition in partitions:
        CleanMetadataPartitionOperator(
            task_id="clean",
            metadata_partition=partition,
            hold=[HELD],
            archive_first=archive,
            approve_above=ALWAYS,
            **common,
        ).execute(context)
    SurveyRemoteLogOperator(task_id="survey", hold=[HELD], **common).execute(context)
    return ReportRemoteLogCleanupOperator(task_id="report", dry_run_only=dry_run).execute(context)


def approve(operator: type[ApprovePlanOperator[Any]], context: Any, *, dry_run: bool) -> None:
    """Have a person approve the plan of a run, as Airflow asks and answers."""
    task = operator(task_id="approve", approve_above=ALWAYS, dry_run_only=dry_run)
    answer = {
        "chosen_options": ["Approve"], "params_input": {}, "responded_by_user": {"id": "7", "name": "ada"},
        "responded_at": datetime.now(UTC), "timedout": False,
    }  # fmt: skip
    with patch.object(hitl, "upsert_hitl_detail"):
        try:
            task.execute(context)
        except TaskAwaitingInput:
            operator(task_id="approve").execute_complete(context, answer)


def dry_run() -> None:
    assert whole_run(dry_run=True, most=None)["would_delete_segments"] > 0


def run() -> None:
    assert whole_run(dry_run=False, most=1)["segments_deleted"] == 1


def archiving_run() -> None:
    assert whole_run(dry_run=False, most=1, archive=True)["segments_deleted"] == 1


def whole_scrub(*, dry_run: bool) -> dict[str, Any]:
    """All tasks of the DAG ``remote_storage_scrub``, one after the other; a person approves what would be deleted."""
    context, overrides = context_of("scrub"), LIMITS["overrides"]
    common = {"limits": LIMITS, "dry_run_only": dry_run}
    RemoteStorageScrubOperator(task_id="scrub", fail_on_problems=False, overrides=overrides).execute(context)
    PlanRemoteStorageScrubOperator(task_id="plan", blast_radius={"max_share": 1.0}, **common).execute(context)
    approve(ApproveRemoteStorageScrubOperator, context, dry_run=dry_run)
    DeleteScrubbedObjectsOperator(task_id="delete", approve_above=ALWAYS, **common).execute(context)
    return ReportRemoteStorageScrubOperator(task_id="report").execute(context)


def dry_scrub() -> None:
    assert whole_scrub(dry_run=True)["dry_run"]


def scrub() -> None:
    deleted = whole_scrub(dry_run=False)["deleted"]
    assert {kind: amount["objects"] > 0 for kind, amount in deleted.items()} == {"FINISHED": True}


def spark_plan() -> None:
    """All tasks of the DAG ``remote_log_retention``, with a Spark on this machine."""
    context, jars = context_of("retention"), sorted(map(str, ensure_spark_jars().glob("*.jar")))
    SegmentRetentionOperator(task_id="evaluate", jars=",".join(jars), conf={"spark.ui.enabled": "false"}).execute(
        context
    )
    assert PublishRetentionPlanOperator(task_id="publish").execute(context)["orphaned"] > 0


JOBS: Mapping[str, Mapping[str, Callable[[], None]]] = {
    "Reading": {
        "connection test": connection_test,
        "read": read,
        "doctor": doctor,
        "survey": survey,
        "verify": verify,
        "dry run": dry_run,
        "dry scrub": dry_scrub,
    },
    "Marking": {"mark": mark},
    "Cleaning": {"connection test": connection_test, "run": run},
    "Archiving": {"archiving run": archiving_run},
    "Scrubbing": {"scrub": scrub},
    "Planning with Spark": {"plan": spark_plan},
}
