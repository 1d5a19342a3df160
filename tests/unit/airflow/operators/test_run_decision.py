# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  # fixtures are imported by their names
"""Dry or real, and from which plan: decided once by the first task, and never by its absence."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_rlmm.core.base.errors import ConfigurationError, PlanError, StorageRootError
from airflow_provider_rlmm.core.runs.run_decision import PlanEvent, RunDecision, newest_plan
from airflow_provider_rlmm.hooks.storage import RemoteStorageHook
from airflow_provider_rlmm.operators.check import CheckRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.cleaner import (
    CleanMetadataPartitionOperator,
    MarkDeletedPartitionsOperator,
    PlanRemoteLogCleanupOperator,
    ReportRemoteLogCleanupOperator,
)
from airflow_provider_rlmm.operators.decision import AS_CHECKED
from tests.unit.airflow.operators.test_check_operator import allowed, cluster  # noqa: F401  # fixtures
from tests.unit.airflow.operators.test_operators import NOW, Cluster, connect, context, mark_and_plan, work  # noqa: F401
from tests.unit.airflow.operators.test_operators import cluster as plain_cluster  # noqa: F401


def run_of(run_type: str = "manual", run_id: str = "run", events: Any = (), **others: Any) -> Any:
    """The context of a task of a run that was started like this."""
    made = context(run_id)
    facts = {"run_type": run_type, "triggering_user_name": None, "consumed_asset_events": list(events)} | others
    made["dag_run"] = SimpleNamespace(dag_id="dag", run_id=run_id, **facts)
    return made


def check(ctx: Any, **arguments: Any) -> dict[str, str]:
    given = {"limits": NOW, "scheduled_by_connection": True} | arguments
    return CheckRemoteLogCleanupOperator(task_id="check", **given).execute(ctx)


def mark(ctx: Any, **arguments: Any) -> dict[str, Any]:
    given = {"dry_run_only": AS_CHECKED, "source_plan": AS_CHECKED} | arguments
    return MarkDeletedPartitionsOperator(task_id="mark", **given).execute(ctx)


def plan_event(plan: str | None, at_s: int, asset: str = "remote_log_plan") -> Any:
    extra = {} if plan is None else {"plan": plan}
    return SimpleNamespace(asset=SimpleNamespace(name=asset), extra=extra, timestamp=datetime.fromtimestamp(at_s, UTC))


@pytest.mark.parametrize(
    ("run_type", "said", "parameter", "dry"),
    [
        ("scheduled", None, False, True),
        ("scheduled", "dry", False, True),
        ("scheduled", "real", True, False),
        ("asset_triggered", "real", True, False),
        ("asset_triggered", None, False, True),
        ("manual", "real", True, True),
        ("manual", "dry", False, False),
        ("operator_triggered", "dry", False, False),
        ("backfill", "real", True, True),
    ],
)
def test_who_started_a_run_decides_who_says_what_it_does(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, run_type: str, said: str | None, parameter: bool, dry: bool
) -> None:
    connect(monkeypatch, scheduled_runs=said)
    ctx, events = run_of(run_type), cluster.events
    sentence = check(ctx, dry_run_only=parameter)["run"]
    assert sentence.startswith("a dry run" if dry else "a real run")
    counts = mark(ctx)
    assert counts["dry_run"] is dry
    assert (cluster.events == events) is dry


def test_a_task_of_a_dag_without_that_setting_does_as_it_is_told(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A DAG of somebody's own, by its schedule."""
    connect(monkeypatch, scheduled_runs="dry")
    ctx = run_of("scheduled")
    assert check(ctx, scheduled_by_connection=False, dry_run_only=False)["run"].startswith("a real run: its parameters")
    assert mark(ctx, dry_run_only=False, source_plan=None)["dry_run"] is False


def test_a_wrong_word_in_the_connection_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, scheduled_runs="Real")
    with pytest.raises(ConfigurationError, match="'rlmm_default': scheduled_runs must be dry or real, not 'Real'"):
        check(run_of("manual"))


def steps() -> list[Any]:
    return [
        MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=AS_CHECKED, source_plan=AS_CHECKED),
        PlanRemoteLogCleanupOperator(
            task_id="plan", dry_run_only=AS_CHECKED, source_plan=AS_CHECKED, limits=NOW, blast_radius={"max_share": 1.0}
        ),
        CleanMetadataPartitionOperator(task_id="clean", metadata_partition=0, dry_run_only=AS_CHECKED, limits=NOW),
    ]


def test_a_check_that_was_marked_as_successful_makes_no_run(cluster: Cluster, work: Path) -> None:
    mark_and_plan()
    events, keys = cluster.events, cluster.storage.keys
    for step in steps():
        with pytest.raises(PlanError, match=r"does not say what check decided for the run.*clear the task check"):
            step.execute(run_of())
    with pytest.raises(AirflowFailException):
        ReportRemoteLogCleanupOperator(task_id="report", dry_run_only=AS_CHECKED).execute(run_of())
    assert (cluster.events, cluster.storage.keys) == (events, keys)


def test_a_check_that_fails_takes_its_earlier_decision_away(
    cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(run_of(), dry_run_only=False)
    assert mark(run_of())["dry_run"] is False

    def unusable(self: Any) -> Any:
        raise StorageRootError("the storage root does not exist")

    monkeypatch.setattr(RemoteStorageHook, "get_storage_manager", unusable)
    with pytest.raises(StorageRootError):
        check(run_of(), dry_run_only=True)
    with pytest.raises(PlanError, match="does not say what check decided"):
        mark(run_of())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dry_run": False}, "its bytes are not those that were written"),
        ({"sha256": "0" * 64}, "its bytes are not those that were written"),
        ({"format_version": 2}, "format_version is 2"),
    ],
)
def test_a_decision_that_was_changed_counts_for_nothing(
    cluster: Cluster, work: Path, change: dict[str, Any], words: str
) -> None:
    check(run_of(), dry_run_only=True)
    file = work / "dag.run" / "check.json"
    document = json.loads(file.read_text())
    document["decision"] |= change
    file.write_text(json.dumps(document))
    with pytest.raises(PlanError, match=words):
        mark(run_of())


def test_the_decision_of_another_run_or_connection_counts_for_nothing(cluster: Cluster, work: Path) -> None:
    check(run_of(), dry_run_only=False)
    (work / "dag.other").mkdir()
    (work / "dag.other" / "check.json").write_text((work / "dag.run" / "check.json").read_text())
    with pytest.raises(PlanError, match="check decided for the run 'run' of 'dag', and this is 'other' of 'dag'"):
        mark(run_of(run_id="other"))
    with pytest.raises(PlanError, match="check decided for the connection rlmm_default, this task has rlmm_other"):
        mark(run_of(), rlmm_conn_id="rlmm_other")


# -- the plan of the event ------------------------------------------------------------------------------------------------


def test_the_newest_plan_counts_and_none_of_another_asset() -> None:
    events = [PlanEvent("older", 1), PlanEvent("newest", 3), PlanEvent("old", 2)]
    assert newest_plan(events) == "newest"
    with pytest.raises(PlanError, match="the newest event of the plan's asset names no plan"):
        newest_plan([*events, PlanEvent(None, 4)])


def test_a_run_that_a_plan_has_started_takes_its_work_from_there(
    cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_and_plan()
    connect(monkeypatch, scheduled_runs="real")
    events = [
        plan_event("dag.nothing", 10), plan_event("dag.run", 20), plan_event("dag.no", 30, "remote_log_plan__other")
    ]  # fmt: skip
    ctx = run_of("asset_triggered", "later", events)
    said = check(ctx)["run"]
    assert said.endswith("scheduled_runs of connection rlmm_default is real; it takes its work from the plan 'dag.run'")
    assert mark(ctx)["already_marked"] == 3
    document = json.loads((work / "dag.later" / "check.json").read_text())["decision"]
    assert (document["source_plan"], document["run_type"]) == ("dag.run", "asset_triggered")


@pytest.mark.parametrize(
    ("changed", "words"), [({"cluster_id": "another"}, "for cluster 'another'"), ({"expires_at_ms": 1}, "expired")]
)
def test_a_plan_that_is_not_valid_here_is_refused_by_the_first_task(
    cluster: Cluster, work: Path, changed: dict[str, Any], words: str
) -> None:
    from dataclasses import replace

    from airflow_provider_rlmm.core.plans.plan_files import read_plan

    mark_and_plan()
    source = work / "dag.run"
    (source / "summary.json").write_text(replace(read_plan(str(source)), **changed).to_json())
    with pytest.raises(PlanError, match=words):
        check(run_of("asset_triggered", "later", [plan_event(str(source), 1)]))
    with pytest.raises(PlanError, match="does not say what check decided"):
        mark(run_of("asset_triggered", "later"))


def test_a_plan_that_lies_elsewhere_is_refused(cluster: Cluster, work: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="neither the name of a plan below"):
        check(run_of("asset_triggered", "later", [plan_event(str(tmp_path / "elsewhere"), 1)]))


def test_who_started_the_run_is_written_down(cluster: Cluster, work: Path) -> None:
    check(run_of("manual", triggering_user_name="ada"), dry_run_only=False)
    decision = RunDecision.of_dict(json.loads((work / "dag.run/check.json").read_text())["decision"], "dag", "run")
    assert (decision.triggered_by, decision.run_type, decision.dry_run) == ("ada", "manual", False)
    check(run_of("scheduled"))
    decision = RunDecision.of_dict(json.loads((work / "dag.run/check.json").read_text())["decision"], "dag", "run")
    assert (decision.triggered_by, decision.dry_run, decision.by_connection) == ("scheduled", True, True)


# -- time of day and rate -------------------------------------------------------------------------------------------------


def test_the_connection_says_when_and_how_fast_where_the_run_does_not(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_provider_rlmm.core.plans.guards import CleanerLimits
    from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
    from airflow_provider_rlmm.operators.session import session_of

    connect(monkeypatch, deletion_window="22:00-06:00 UTC", objects_per_second="50")
    assert RemoteLogMetadataHook().get_connection_settings().objects_per_second == 50
    with session_of(run_of(), "rlmm_default", CleanerLimits(), dry_run=True) as session:
        ours = session.paced(CleanerLimits())
        assert (ours.deletion_window, ours.objects_per_second) == ("22:00-06:00 UTC", 50)
        told = session.paced(CleanerLimits(deletion_window="01:00-02:00 UTC", objects_per_second=1))
        assert (told.deletion_window, told.objects_per_second) == ("01:00-02:00 UTC", 1)


@pytest.mark.parametrize(
    ("field", "value"), [("deletion_window", "at night"), ("objects_per_second", 0), ("objects_per_second", "1.5")]
)
def test_a_wrong_pace_of_the_connection_is_refused(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, field: str, value: Any
) -> None:
    connect(monkeypatch, **{field: value})
    with pytest.raises(ConfigurationError, match=f"'rlmm_default': {field} must be"):
        check(run_of())


def test_nothing_is_deleted_outside_of_the_connections_time_of_day(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, now = mark_and_plan(), datetime.now(UTC)
    closed = f"{(now.hour + 2) % 24:02}:00-{(now.hour + 3) % 24:02}:00 UTC"
    connect(monkeypatch, deletion_window=closed)
    keys = cluster.storage.keys
    for part in parts:
        counts = CleanMetadataPartitionOperator(
            task_id="clean", dry_run_only=False, metadata_partition=part, limits=NOW
        ).execute(run_of())
        assert (counts["segments_deleted"], counts["segments_left"] > 0) == (0, True)
    assert cluster.storage.keys >= keys
