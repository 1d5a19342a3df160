# SPDX-License-Identifier: Apache-2.0
"""What a run says in numbers."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.plans.counts import Count, Unsized
from airflow_provider_rlmm.features.retention.leader_document import ReportedLeaders
from airflow_provider_rlmm.features.survey.inventory import Inventory, Totals
from airflow_provider_rlmm.overview.run_metrics import METRICS, leader_metrics, metrics_of, survey_metrics
from airflow_provider_rlmm.overview.run_summary import Deleted, RunKind, RunOutcome, RunSummary
from tests.sample_leaders import reported_leaders

RUN = RunSummary(
    cluster_id="MkU3OEVBNTcwNTJENDM2Qk",
    connection="rlmm_default",
    dag_id="remote_log_cleaner",
    run_id="manual__1",
    artifact="remote_log_cleaner.manual__1",
    kind=RunKind.CLEANER,
    began_at_ms=1_000_000,
    ended_at_ms=1_060_000,
    dry_run=False,
    outcome=RunOutcome.SUCCESS,
    headline="12 segments were deleted.",
    deleted=Deleted(12, 36, 12_000),
    planned=Count(13, 13_000),
    refusals=1,
    stored=Count(500, 500_000),
    orphaned=Count(20, 20_000),
    unseen=Count(3, 3_000),
    waiting=Count(7, 7_000),
    deleting=Count(1, 1_000),
    oldest_orphan_ms=460_000,
    critical=2,
    out_of_service=3,
    quarantined=4,
    unsized=6,
    steps={"plan": 5.0, "clean": 3.0, "report": 0.5},
)


def values(summary: RunSummary) -> dict[str, float]:
    """Series, its labels but the connection behind its name → value."""
    found = {}
    for metric in metrics_of(summary):
        assert tuple(metric.labels) == METRICS[metric.name].labels
        assert metric.labels["connection"] == summary.connection
        found[".".join([metric.name, *list(metric.labels.values())[1:]])] = metric.value
    return found


def test_every_number_of_a_run_is_told() -> None:
    assert values(RUN) == {
        "stored_bytes": 500_000, "stored_segments": 500,
        "orphaned_bytes": 20_000, "orphaned_segments": 20,
        "waiting_bytes": 7_000, "waiting_segments": 7,
        "deleting_bytes": 1_000, "deleting_segments": 1,
        "unseen_bytes": 3_000, "unseen_segments": 3,
        "unsized_segments": 6, "oldest_orphan_age_seconds": 600,
        "metadata_partitions_out_of_service": 3, "quarantined_records": 4, "doctor_critical": 2,
        "planned_bytes.cleaner": 13_000, "planned_segments.cleaner": 13,
        "deleted_bytes.cleaner": 12_000, "deleted_segments.cleaner": 12, "deleted_objects.cleaner": 36,
        "deleted_bytes_total.cleaner": 12_000, "deleted_segments_total.cleaner": 12, "deleted_objects_total.cleaner": 36,
        "refusals.cleaner": 1, "needs_person.cleaner": 0,
        "run_seconds.cleaner": 60, "run_succeeded.cleaner": 1, "run_dry.cleaner": 0,
        "run_ended_timestamp_seconds.cleaner": 1_060,
        "last_success_timestamp_seconds.cleaner": 1_060, "last_real_success_timestamp_seconds.cleaner": 1_060,
        "runs_succeeded_total.cleaner": 1,
        "step_seconds.cleaner.plan": 5, "step_segments_per_second.cleaner.plan": 100,
        "step_seconds.cleaner.clean": 3, "step_segments_per_second.cleaner.clean": 4,
        "step_seconds.cleaner.report": 0.5,
    }  # fmt: skip


def test_a_dry_run_deletes_nothing_and_is_no_real_success() -> None:
    told = values(replace(RUN, dry_run=True))
    assert {name: value for name, value in told.items() if name.startswith("deleted")} == {
        "deleted_bytes.cleaner": 0, "deleted_segments.cleaner": 0, "deleted_objects.cleaner": 0,
        "deleted_bytes_total.cleaner": 0, "deleted_segments_total.cleaner": 0, "deleted_objects_total.cleaner": 0,
    }  # fmt: skip
    assert told["run_dry.cleaner"] == 1
    assert told["last_success_timestamp_seconds.cleaner"] == 1_060
    assert "last_real_success_timestamp_seconds.cleaner" not in told
    assert "step_segments_per_second.cleaner.clean" not in told


def test_a_red_run_leaves_the_time_of_the_last_success() -> None:
    told = values(replace(RUN, outcome=RunOutcome.FAILED, needs_person=3))
    assert (told["run_succeeded.cleaner"], told["needs_person.cleaner"], told["runs_failed_total.cleaner"]) == (0, 3, 1)
    assert not [name for name in told if "success_timestamp" in name or name.startswith("runs_succeeded")]


def test_a_run_for_some_topics_leaves_it_too() -> None:
    told = values(replace(RUN, only=("orders*",)))
    assert told["run_succeeded.cleaner"] == told["runs_succeeded_total.cleaner"] == 1
    assert not [name for name in told if "success_timestamp" in name]


def test_what_a_run_does_not_know_is_left_out() -> None:
    of_a_survey = ("stored", "orphaned", "waiting", "deleting", "unseen", "oldest_orphan_ms")
    unknown = dict.fromkeys((*of_a_survey, "critical", "out_of_service", "quarantined", "unsized"))
    told = values(replace(RUN, **unknown))
    assert not [name for name in told if "." not in name]
    assert "step_segments_per_second.cleaner.plan" not in told


@pytest.mark.parametrize(("oldest_ms", "orphaned", "age"), [(None, Count(0, 0), 0), (2_000_000, Count(1, 1), 0)])
def test_the_age_is_0_without_orphans_and_where_a_record_is_ahead_of_the_clock(
    oldest_ms: int | None, orphaned: Count, age: float
) -> None:
    run = replace(RUN, oldest_orphan_ms=oldest_ms, orphaned=orphaned, unseen=Count(0, 0))
    assert values(run)["oldest_orphan_age_seconds"] == age


def test_no_age_is_told_where_nobody_can_tell_what_is_orphaned() -> None:
    run = replace(RUN, oldest_orphan_ms=None, orphaned=Count(0, 0), unseen=Count(1, 1))
    assert "oldest_orphan_age_seconds" not in values(run)


def test_every_metric_is_told_by_some_run() -> None:
    both = metrics_of(RUN) + metrics_of(replace(RUN, outcome=RunOutcome.FAILED)) + leader_metrics(leaders())
    assert {metric.name for metric in both} == METRICS.keys()


def leaders(**more: bool) -> ReportedLeaders:
    return reported_leaders("c", "orders", UUID(int=1), now_ms=1_060_000, **more)


def test_leaders_tell_what_they_delete_and_what_they_should_have_deleted() -> None:
    told = {metric.name: metric.value for metric in leader_metrics(leaders())}
    assert told == {
        "due_segments": 3, "due_bytes": 3_000_000, "overdue_segments": 2, "overdue_bytes": 2_000_000, "leaked_segments": 1,
        "leaked_bytes": 1_000_000, "hanging_partitions": 0, "unresolved_partitions": 1, "not_judged_partitions": 0,
        "leaders_asked_timestamp_seconds": 1_060,
    }  # fmt: skip
    assert {tuple(metric.labels.items()) for metric in leader_metrics(leaders())} == {(("connection", "rlmm_default"),)}


def test_what_nobody_has_judged_is_not_told_as_nothing() -> None:
    told = {metric.name: metric.value for metric in leader_metrics(leaders(overdue=False, judged=False))}
    assert not [name for name in told if name.startswith("overdue")]
    assert told["not_judged_partitions"] == 3


def test_a_survey_tells_what_there_is() -> None:
    totals = Totals(
        stored=Count(500, 500_000), orphaned=Count(20, 20_000), waiting=Count(7, 7_000), eligible=Count(12, 12_000),
        deleting=Count(1, 1_000), next_eligible_ms=None, oldest_orphan_ms=460_000, topics=9, orphaned_topics=2,
        unseen=Count(3, 3_000), unseen_topics=1,
        quarantined_records=4, metadata_partitions_out_of_service=(3, 17), unsized=Unsized(1, 2, 3),
    )  # fmt: skip
    inventory = Inventory("c", "rlmm_default", 1_060_000, "a", "inventory-1060000", {}, totals)
    told = {metric.name: metric.value for metric in survey_metrics(inventory)}
    of_a_run = values(replace(RUN, out_of_service=2, critical=None))
    assert told == {name: value for name, value in of_a_run.items() if "." not in name}
