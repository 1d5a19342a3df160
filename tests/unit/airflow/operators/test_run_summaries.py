# SPDX-License-Identifier: Apache-2.0
"""The last task of each kind of run keeps a summary; where that fails the run is red, and says whatever else it has to."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_rlmm.core.base.documents import plain_of
from airflow_provider_rlmm.core.base.errors import UnhealthyTopicError
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.features.doctor.diagnosis import ReportedDiagnosis
from airflow_provider_rlmm.operators.cleaner import MarkDeletedPartitionsOperator, ReportRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.retention import PublishRetentionPlanOperator
from airflow_provider_rlmm.operators.scrub import RemoteStorageScrubOperator, ReportRemoteStorageScrubOperator
from airflow_provider_rlmm.operators.survey import SurveyRemoteLogOperator
from airflow_provider_rlmm.overview.run_summary import Deleted, Done, RunKind, RunOutcome, RunSummary
from tests.unit.airflow.operators import test_doctor_operator as examinations
from tests.unit.airflow.operators import test_operators as operators
from tests.unit.airflow.operators.test_operators import (
    GONE,
    NOW,
    Cluster,
    become_dry,
    clean,
    connect,
    context,
    mark_and_plan,
)

cluster, work, log = operators.cluster, operators.work, examinations.log


def kept(work: Path) -> list[RunSummary]:
    files = sorted((work / "cluster-cluster-1" / "runs").glob("*.json"))
    summaries = [RunSummary.from_json(file.read_text()) for file in files]
    assert [summary.file_name for summary in summaries] == [file.name for file in files]
    return summaries


def began(ctx: Any) -> Any:
    ctx["dag_run"].start_date = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)
    return ctx


def test_a_cleanup_says_what_it_deleted_and_what_there_is(cluster: Cluster, work: Path) -> None:
    for metadata_partition in mark_and_plan():
        clean(metadata_partition)
    cluster.copy(TopicIdPartition(GONE[0].topic_id, "gone", 9), GONE[0].topic_id, 0)
    SurveyRemoteLogOperator(task_id="survey", limits=NOW).execute(context())
    ReportRemoteLogCleanupOperator(task_id="report", rlmm_conn_id="rlmm_default").execute(began(context()))
    (summary,) = kept(work)
    assert (summary.kind, summary.outcome, summary.dry_run) == (RunKind.CLEANER, RunOutcome.SUCCESS, False)
    assert (summary.cluster_id, summary.connection, summary.artifact) == ("cluster-1", "rlmm_default", "dag.run")
    assert (summary.dag_id, summary.run_id) == ("dag", "run")
    assert 290_000 < summary.ended_at_ms - summary.began_at_ms < 310_000
    assert (summary.planned, summary.deleted) == (Count(6, 600), Deleted(6, 30, 300))
    assert (summary.stored, summary.orphaned) == (Count(3, 300), Count(1, 100))
    assert (summary.waiting, summary.deleting, summary.out_of_service) == (Count(0, 0), Count(0, 0), 0)
    assert summary.headline == "Nothing needs a person: 6 segments, 300 B were deleted."
    assert [(t.topic, t.done, t.segments, t.bytes) for t in summary.topics] == [
        ("gone", Done.DELETED, 6, 300),
        ("gone", Done.MARKED, 6, 600),
    ]
    assert (summary.more_topics, summary.approval_in_words) == (0, "")
    assert summary.steps.keys() == {"mark", "plan", "clean", "survey"}
    assert summary.documents == {"reports": "dag.run", "plans": "dag.run"}


def test_a_summary_says_who_has_approved(cluster: Cluster, work: Path) -> None:
    mark_and_plan()
    answer = {"plan_id": "p", "plan_sha256": "0", "decision": "Approve", "decided_by": "ada", "decided_at_ms": 2}
    (work / "dag.run" / "approval.json").write_text(json.dumps({"format_version": 1, **answer, "asked_at_ms": 1}))
    with pytest.raises(AirflowFailException):
        ReportRemoteLogCleanupOperator(task_id="report").execute(context())
    (summary,) = kept(work)
    assert summary.approval_in_words == "approved by 'ada'"


def test_more_topics_than_a_summary_names_are_counted(
    cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_rlmm.overview.run_summaries.MAX_TOUCHED", 1)
    for metadata_partition in mark_and_plan():
        clean(metadata_partition)
    ReportRemoteLogCleanupOperator(task_id="report").execute(context())
    (summary,) = kept(work)
    assert ([t.done for t in summary.topics], summary.more_topics) == ([Done.DELETED], 1)


def test_what_another_run_surveyed_is_not_said_to_be_of_this_one(cluster: Cluster, work: Path) -> None:
    SurveyRemoteLogOperator(task_id="survey", limits=NOW).execute(context("earlier"))
    for metadata_partition in mark_and_plan():
        clean(metadata_partition)
    ReportRemoteLogCleanupOperator(task_id="report").execute(context())
    (summary,) = kept(work)
    assert (summary.stored, summary.orphaned, summary.oldest_orphan_ms, summary.out_of_service) == (None,) * 4


def test_a_run_for_some_topics_says_so(cluster: Cluster, work: Path) -> None:
    for metadata_partition in mark_and_plan(only=["gone"]):
        clean(metadata_partition)
    ReportRemoteLogCleanupOperator(task_id="report").execute(context())
    (summary,) = kept(work)
    assert (summary.only, summary.deleted.segments) == (("gone",), 6)


@pytest.mark.parametrize(("only", "told"), [(["gone"], False), (["*"], True)])
def test_a_survey_of_some_topics_tells_no_number_of_the_cluster(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, only: list[str], told: bool
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr("airflow_provider_rlmm.operators.survey.send_survey_metrics", sent.append)
    counts = SurveyRemoteLogOperator(task_id="survey", limits=NOW, only=only).execute(context())
    assert (counts["orphaned_segments"], bool(sent)) == (6, told)


def test_a_dry_run_says_what_it_would_have_deleted(cluster: Cluster, work: Path) -> None:
    metadata_partitions = mark_and_plan()
    become_dry(work)
    MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=True).execute(context())
    for metadata_partition in metadata_partitions:
        clean(metadata_partition, dry_run_only=True)
    ReportRemoteLogCleanupOperator(task_id="report", dry_run_only=True).execute(context())
    (summary,) = kept(work)
    assert (summary.dry_run, summary.deleted.segments) == (True, 6)
    assert "300 B would be deleted" in summary.headline


def test_a_red_run_is_kept_as_one(cluster: Cluster, work: Path) -> None:
    cluster.log.append(0, b"\x01\x00\x00garbage")
    for metadata_partition in mark_and_plan():
        clean(metadata_partition)
    with pytest.raises(AirflowFailException, match="QUARANTINED"):
        ReportRemoteLogCleanupOperator(task_id="report").execute(context())
    (summary,) = kept(work)
    assert (summary.outcome, summary.needs_person > 0) == (RunOutcome.FAILED, True)
    assert "need" in summary.headline
    assert "QUARANTINED" in summary.headline


def test_a_run_that_its_first_task_stopped_is_of_the_cluster_that_its_connection_allows(
    cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AirflowFailException, match="made no plan"):
        ReportRemoteLogCleanupOperator(task_id="report").execute(context())
    assert [summary.outcome for summary in kept(work)] == [RunOutcome.FAILED]
    connect(monkeypatch, expected_cluster_id=None, allow_writes=False)
    with pytest.raises(AirflowFailException, match="made no plan"):
        ReportRemoteLogCleanupOperator(task_id="report").execute(context("nowhere"))
    assert len(kept(work)) == 1


def block(work: Path) -> None:
    """Put a file where the folder of summaries is to be."""
    runs = work / "cluster-cluster-1" / "runs"
    runs.parent.mkdir(parents=True, exist_ok=True)
    runs.write_text("no folder")


def test_a_summary_that_cannot_be_kept_makes_the_run_red_and_loses_nothing(cluster: Cluster, work: Path) -> None:
    for metadata_partition in mark_and_plan():
        clean(metadata_partition)
    block(work)
    with pytest.raises(AirflowFailException, match=r"The summary of this run is not kept .*clear this task"):
        ReportRemoteLogCleanupOperator(task_id="report").execute(context())
    assert (work / "dag.run" / "report.json").exists()


def test_what_needs_a_person_is_said_before_a_summary_that_cannot_be_kept(cluster: Cluster, work: Path) -> None:
    cluster.log.append(0, b"\x01\x00\x00garbage")
    mark_and_plan()
    block(work)
    with pytest.raises(AirflowFailException, match=r"^\d things? needs? a person.*The summary of this run is not kept"):
        ReportRemoteLogCleanupOperator(task_id="report").execute(context())


def test_a_plan_of_the_spark_job_is_summarised(cluster: Cluster, work: Path) -> None:
    mark_and_plan()
    PublishRetentionPlanOperator(task_id="publish").execute(context())
    (summary,) = kept(work)
    assert (summary.kind, summary.dry_run, summary.planned, summary.stored) == (
        RunKind.RETENTION, True, Count(6, 600), Count(8, 800),
    )  # fmt: skip
    assert summary.documents == {"plans": "dag.run"}
    assert summary.headline.endswith("6 of 8 segments, 600 B are planned.")


def test_a_scrub_is_summarised(cluster: Cluster, work: Path) -> None:
    RemoteStorageScrubOperator(task_id="scrub", fail_on_problems=False).execute(context())
    ReportRemoteStorageScrubOperator(task_id="report").execute(context())
    (summary,) = kept(work)
    assert (summary.kind, summary.outcome) == (RunKind.SCRUB, RunOutcome.SUCCESS)
    assert (summary.deleted, summary.planned) == (Deleted(0, 0, 0), Count(0, 0))
    assert summary.documents == {"scrubs": "dag.run"}
    assert "scrub" in summary.steps


@pytest.mark.parametrize("fails", [True, False])
def test_an_examination_is_summarised(log: InProcessMetadataEventLog, tmp_path: Path, fails: bool) -> None:
    log.append(0, None)
    if fails:
        with pytest.raises(UnhealthyTopicError, match="TOMBSTONE"):
            examinations.run()
    else:
        examinations.run(fail_on_critical=False)
    (summary,) = kept(tmp_path / "work")
    assert (summary.kind, summary.critical, summary.out_of_service) == (RunKind.DOCTOR, 1, 1)
    assert summary.outcome is (RunOutcome.FAILED if fails else RunOutcome.SUCCESS)
    assert (summary.documents, set(summary.steps)) == ({"doctor": "dag.run"}, {"doctor"})


def test_an_examination_whose_summary_cannot_be_kept_is_red(log: InProcessMetadataEventLog, tmp_path: Path) -> None:
    block(tmp_path / "work")
    with pytest.raises(AirflowFailException, match="The summary of this run is not kept"):
        examinations.run()


def test_the_summary_of_a_cleanup_with_a_doctor_says_what_it_found(cluster: Cluster, work: Path) -> None:
    for metadata_partition in mark_and_plan():
        clean(metadata_partition)
    diagnosis = ReportedDiagnosis("cluster-1", 1, {0: 5}, 5, 1, 0, {}, (), (), {})
    (work / "dag.run" / "doctor.json").write_text(json.dumps(plain_of(diagnosis)))
    ReportRemoteLogCleanupOperator(task_id="report").execute(context())
    assert [s.critical for s in kept(work)] == [0]
