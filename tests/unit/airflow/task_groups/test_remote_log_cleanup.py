# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  # fixtures are imported by their names
"""The cleaner as a group of tasks: dry by default, and nothing in common with another group."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG, TaskGroup

from airflow_provider_rlmm.core.base.errors import ConfigurationError, StorageRootError
from airflow_provider_rlmm.notifications.failures import note_failure
from airflow_provider_rlmm.operators.arguments import artifact_name
from airflow_provider_rlmm.operators.check import CheckRemoteLogCleanupOperator
from airflow_provider_rlmm.run_groups import run_group_of
from airflow_provider_rlmm.task_groups.remote_log_cleanup import RemoteLogCleanupTaskGroup
from tests.unit.airflow.operators.test_check_operator import allowed, cluster  # noqa: F401  # fixtures
from tests.unit.airflow.operators.test_operators import NOW, Cluster, context, work  # noqa: F401
from tests.unit.airflow.operators.test_operators import cluster as plain_cluster  # noqa: F401

ALL = {"max_share": 1.0}
STEPS = ["check", "mark", "plan", "approve", "archive", "clean", "survey", "report"]


def context_of(task: Any) -> Any:
    made = context()
    made |= {"task": task, "outlet_events": defaultdict(lambda: SimpleNamespace(extra=None))}
    made["ti"].get_ti_count = lambda **_: 0
    made["ti"].get_task_states = lambda **_: {}
    return made


def run(dag: DAG, group: str) -> dict[str, Any]:
    """Run the tasks of a group, one after the other; return what they have returned."""
    said: dict[str, Any] = {}
    for step in STEPS:
        declared: Any = dag.get_task(f"{group}.{step}")
        tasks = [declared.unmap({"metadata_partition": n}) for n in said["plan"]] if step == "clean" else [declared]
        answers = []
        for task in tasks:
            ctx = context_of(task)
            task.render_template_fields(ctx)
            answers.append(task.execute(ctx))
        said[step] = answers if step == "clean" else answers[0]
    return said


def two_groups(first: Any, second: Any) -> DAG:
    with DAG("dag", schedule=None, render_template_as_native_obj=True) as dag:
        for group_id, given in (("a", first), ("b", second)):
            RemoteLogCleanupTaskGroup(group_id, limits=NOW, blast_radius=ALL, **given)
    return dag


def test_a_group_has_the_tasks_of_the_cleaner_in_their_order() -> None:
    dag = two_groups({}, {})
    assert [t.task_id for t in dag.topological_sort() if t.task_id.startswith("a.")] == [f"a.{step}" for step in STEPS]
    assert dag.get_task("a.clean").max_active_tis_per_dagrun == 4


def test_it_is_dry_unless_it_is_told_otherwise(cluster: Cluster, work: Path) -> None:
    events, keys = cluster.events, cluster.storage.keys
    said = run(two_groups({}, {}), "a")
    assert said["check"]["run"].startswith("a dry run")
    assert (said["mark"]["dry_run"], said["report"]["dry_run"]) == (True, True)
    assert (cluster.events, cluster.storage.keys) == (events, keys)


def test_two_groups_of_a_run_share_neither_plan_nor_report(cluster: Cluster, work: Path) -> None:
    dag = two_groups({"dry_run_only": False}, {"dry_run_only": True})
    real, dry = run(dag, "a"), run(dag, "b")
    assert (real["report"]["segments_deleted"], dry["report"]["would_delete_segments"]) == (6, 0)
    folders = {path.parent.name for path in work.glob("*/report.json")}
    assert folders == {"dag.run.a", "dag.run.b"}
    documents = {name: json.loads((work / name / "report.json").read_text()) for name in folders}
    assert {name: document["dry_run"] for name, document in documents.items()} == {
        "dag.run.a": False,
        "dag.run.b": True,
    }


def test_a_task_of_another_group_may_be_dry_where_this_one_is_real(cluster: Cluster, work: Path) -> None:
    """What comes after a group in its DAG is another run."""
    with DAG("dag", schedule=None) as dag:
        first = RemoteLogCleanupTaskGroup("a", limits=NOW, blast_radius=ALL, dry_run_only=False)
        first >> RemoteLogCleanupTaskGroup("b", limits=NOW, blast_radius=ALL)
    check: Any = dag.get_task("a.check")
    assert check.execute(context_of(check))["run"].startswith("a real run")


def test_the_report_of_a_group_says_what_tasks_of_its_own_and_of_groups_before_it_have_said(
    cluster: Cluster, work: Path
) -> None:
    with DAG("dag", schedule=None) as dag:
        first = RemoteLogCleanupTaskGroup("a", limits=NOW, blast_radius=ALL)
        first >> RemoteLogCleanupTaskGroup("b", limits=NOW, blast_radius=ALL)
    for group in ("a", "b"):
        task = dag.get_task(f"{group}.survey")
        ti = SimpleNamespace(dag_id="dag", task_id=task.task_id, map_index=-1)
        failed: Any = {"ti": ti, "task": task, "run_id": "run", "exception": StorageRootError(f"{group} has no root")}
        note_failure(failed)
    report: Any = dag.get_task("b.report")
    ctx = context_of(report)
    ctx["ti"].get_ti_count = lambda **_: 1
    ctx["ti"].get_task_states = lambda **_: {"run": {"a.survey": "failed", "b.survey": "failed"}}
    with pytest.raises(AirflowFailException):
        report.execute(ctx)
    document = json.loads((work / "dag.run.b" / "report.json").read_text())
    (entry,) = [entry for entry in document["needs_person"] if entry["kind"] == "TASK_FAILED"]
    assert "the task a.survey failed: a has no root" in entry["why"]
    assert "the task b.survey failed: b has no root" in entry["why"]


def test_mapped_and_inner_tasks_are_of_the_innermost_group_that_is_a_run() -> None:
    with DAG("dag") as dag, TaskGroup("outer"):
        inner = RemoteLogCleanupTaskGroup("orders")
        plain = CheckRemoteLogCleanupOperator(task_id="check")
        with inner, TaskGroup("deeper"):
            nested = CheckRemoteLogCleanupOperator(task_id="check")
    clean = dag.get_task("outer.orders.clean")
    assert run_group_of(clean) == run_group_of(clean.unmap({"metadata_partition": 0})) == "outer.orders"  # type: ignore[union-attr]
    assert (run_group_of(nested), run_group_of(plain)) == ("outer.orders", None)
    assert artifact_name(context_of(nested)) == "dag.run.outer.orders"
    assert artifact_name(context_of(plain)) == artifact_name(context()) == "dag.run"


def test_it_says_neither_dry_nor_real_with_none() -> None:
    with DAG("dag"), pytest.raises(ConfigurationError, match="group a: dry_run_only=None says neither dry nor real"):
        RemoteLogCleanupTaskGroup("a", dry_run_only=None)  # type: ignore[arg-type]


def test_what_is_wrong_with_an_argument_is_said_when_the_file_is_parsed() -> None:
    with DAG("dag"), pytest.raises(ConfigurationError, match="only"):
        RemoteLogCleanupTaskGroup("a", only=[])
