# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  # fixtures are imported by their names
"""Dry or real in DAGs of people's own: tasks that write are told, the others take it from the run, and all of them agree."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG, Param

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.plans.plan_files import read_plan
from airflow_provider_rlmm.operators.approval import ApproveRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.archive import ArchivePlannedSegmentsOperator, RestoreRemoteLogOperator
from airflow_provider_rlmm.operators.check import CheckRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.cleaner import (
    CleanMetadataPartitionOperator,
    MarkDeletedPartitionsOperator,
    PlanRemoteLogCleanupOperator,
    ReportRemoteLogCleanupOperator,
)
from airflow_provider_rlmm.operators.copying import CopyLogSegmentsOperator
from airflow_provider_rlmm.operators.decision import AS_CHECKED
from airflow_provider_rlmm.operators.scrub import DeleteScrubbedObjectsOperator
from airflow_provider_rlmm.operators.survey import SurveyRemoteLogOperator
from airflow_provider_rlmm.operators.writing import WritingOperator
from tests.unit.airflow.checked import checked_operators
from tests.unit.airflow.operators.test_check_operator import allowed, cluster  # noqa: F401  # fixtures
from tests.unit.airflow.operators.test_operators import NOW, Cluster, connect, context, work  # noqa: F401
from tests.unit.airflow.operators.test_operators import cluster as plain_cluster  # noqa: F401

WRITERS: dict[Any, dict[str, Any]] = {
    MarkDeletedPartitionsOperator: {},
    CleanMetadataPartitionOperator: {"metadata_partition": 0},
    DeleteScrubbedObjectsOperator: {},
    CopyLogSegmentsOperator: {"log_dir": "/disk", "topic": "orders"},
    RestoreRemoteLogOperator: {"topic_id": "AAAAAAAAAAAAAAAAAAAABw", "topic": "orders"},
}
UNSAID = (
    "task to_be_named: .* nothing says whether it may: write dry_run_only=True .* dry_run_only=False .* or a template"
)


class OwnDag:
    """The tasks of a DAG of one's own, in a row; some of them, with what they are given."""

    def __init__(self, params: dict[str, Any] | None = None, **tasks: Any) -> None:
        given: dict[str, Any] = {"limits": NOW}
        made = {
            "check": lambda said: CheckRemoteLogCleanupOperator(task_id="check", **given, **said),
            "mark": lambda said: MarkDeletedPartitionsOperator(task_id="mark", **given, **said),
            "plan": lambda said: PlanRemoteLogCleanupOperator(
                task_id="plan", blast_radius={"max_share": 1.0}, **given, **said
            ),
            "approve": lambda said: ApproveRemoteLogCleanupOperator(
                task_id="approve", approve_above={"approve_above_segments": 0}, **said
            ),
            "archive": lambda said: ArchivePlannedSegmentsOperator(task_id="archive", **said),
            "clean": lambda said: CleanMetadataPartitionOperator.partial(task_id="clean", **given, **said).expand(
                metadata_partition=[0, 1, 2]
            ),
            "survey": lambda said: SurveyRemoteLogOperator(task_id="survey", **given, **said),
            "report": lambda said: ReportRemoteLogCleanupOperator(task_id="report", **said),
        }
        with DAG("dag", schedule=None, params=params, render_template_as_native_obj=True) as self.dag:
            self.tasks = {name: made[name](said) for name, said in tasks.items()}
            row = list(self.tasks.values())
            for before, after in pairwise(row):
                before >> after

    def run(self, name: str, number: int = 0, run_id: str = "run") -> Any:
        """Run a task; of the mapped one the instance of a metadata partition."""
        task, ctx = self.tasks[name], context(run_id)
        ctx |= {"params": {key: param.value for key, param in self.dag.params.items()} if self.dag.params else {}}
        if name == "clean":
            task = self.dag.get_task("clean").unmap({"metadata_partition": number})
        task.render_template_fields(ctx)
        return task.execute(ctx)


@pytest.mark.parametrize("operator", WRITERS, ids=lambda operator: operator.__name__)
def test_a_task_that_writes_is_told_whether_it_may_when_its_file_is_parsed(operator: Any) -> None:
    with DAG("dag"):
        with pytest.raises(ConfigurationError, match=UNSAID):
            operator(task_id="to_be_named", **WRITERS[operator])
        for said in (True, False, "{{ params.dry_run }}"):
            operator(task_id=f"told_{said is True}_{said is False}", dry_run_only=said, **WRITERS[operator])
    with DAG("defaults", default_args={"dry_run_only": True}):
        assert operator(task_id="by_default_args", **WRITERS[operator]).dry_run_only is True


def test_these_are_the_operators_that_write() -> None:
    assert {found for found in checked_operators() if issubclass(found, WritingOperator)} == set(WRITERS)


def test_a_mapped_task_that_writes_is_refused_before_it_reads_anything(cluster: Cluster, work: Path) -> None:
    with DAG("dag") as dag:
        CleanMetadataPartitionOperator.partial(task_id="to_be_named").expand(metadata_partition=[0])
    with pytest.raises(ConfigurationError, match=UNSAID):
        dag.get_task("to_be_named").unmap({"metadata_partition": 0})  # type: ignore[union-attr]


@pytest.mark.parametrize("operator", WRITERS, ids=lambda operator: operator.__name__)
def test_a_template_that_leaves_it_open_is_refused_before_anything_is_read(operator: Any) -> None:
    task = operator(task_id="to_be_named", dry_run_only="{{ params.dry }}", **WRITERS[operator])
    task.dry_run_only = None  # as a native template without a value renders
    with pytest.raises(ConfigurationError, match=UNSAID):
        task.execute(context())


@pytest.mark.parametrize("dry", [True, False])
@pytest.mark.parametrize("first", ["check", "mark"])
def test_the_others_take_it_from_the_run(
    cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch, dry: bool, first: str
) -> None:
    connect(monkeypatch, archive_uri=str(work / "archive"))
    said = {"dry_run_only": "{{ params.dry_run }}"}
    rest = {"mark": said, "plan": {}, "approve": {}, "archive": {}, "clean": said, "report": {}}
    own = OwnDag({"dry_run": Param(dry, type="boolean")}, **({"check": {}} if first == "check" else {}), **rest)
    if first == "check":
        assert own.run("check")["run"].startswith("a dry run" if dry else "a real run")
    assert own.run("mark")["dry_run"] is dry
    own.run("plan")
    assert read_plan(str(work / "dag.run")).dry_run is dry
    if dry:
        assert own.run("approve") == {"asked": False}
    assert own.run("archive")["archived"] is not dry
    OwnDag(survey={}).run("survey")
    if dry:
        assert own.run("report")["dry_run"] is True
    else:
        with pytest.raises(AirflowFailException, match="were planned and not cleaned"):
            own.run("report")
        assert json.loads((work / "dag.run" / "report.json").read_text())["dry_run"] is False


@pytest.mark.parametrize(
    ("tasks", "told"),
    [
        ({"check": {"dry_run_only": True}, "mark": {"dry_run_only": False}}, "by task check, a real run by task mark"),
        ({"check": {}, "mark": {"dry_run_only": True}, "clean": {"dry_run_only": False}},
         "a dry run by task mark, a real run by task clean"),
        ({"plan": {}, "clean": {"dry_run_only": True}, "mark": {"dry_run_only": False}}, "by task clean, .* by task mark"),
    ],
)  # fmt: skip
def test_the_first_task_refuses_what_does_not_agree(
    cluster: Cluster, work: Path, tasks: dict[str, Any], told: str
) -> None:
    events = cluster.events
    with pytest.raises(ConfigurationError, match=f"the tasks of this run do not agree: .*{told}"):
        OwnDag(**tasks).run(next(iter(tasks)))
    assert cluster.events == events


def test_tasks_of_one_run_that_do_not_agree_fail_before_they_write(cluster: Cluster, work: Path) -> None:
    own = OwnDag(mark={"dry_run_only": True}, plan={"dry_run_only": True}, clean={"dry_run_only": False})
    own.run("mark")
    own.run("plan")
    events = cluster.events
    with pytest.raises(ConfigurationError, match=r"a dry run by its plan, mark\.json, a real run by task clean"):
        own.run("clean")
    assert cluster.events == events


def test_what_an_earlier_try_has_marked_does_not_bind_the_next_one(cluster: Cluster, work: Path) -> None:
    OwnDag(mark={"dry_run_only": True}).run("mark")
    assert OwnDag(mark={"dry_run_only": False}).run("mark")["dry_run"] is False


def test_check_needs_to_be_told_where_nobody_else_is(cluster: Cluster, work: Path) -> None:
    own = OwnDag(check={}, mark={"dry_run_only": AS_CHECKED})
    with pytest.raises(ConfigurationError, match=r"cannot be told .*\(mark\): give check dry_run_only, too"):
        own.run("check")


def test_without_a_task_that_writes_a_check_is_as_strict_as_for_a_real_run(cluster: Cluster, work: Path) -> None:
    assert OwnDag(check={}, plan={}).run("check")["run"].startswith("a real run")


def test_a_plan_that_nobody_was_told_of_is_judged_as_for_a_real_run(cluster: Cluster, work: Path) -> None:
    OwnDag(plan={}).run("plan")
    assert json.loads((work / "dag.run" / "summary.json").read_text())["dry_run"] is False
