# SPDX-License-Identifier: Apache-2.0
"""How the tasks of a run come to one decision: the task ``check`` makes it, the others read what it has written down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator, Context

from airflow_provider_rlmm.assets.by_connection import plan_asset
from airflow_provider_rlmm.core.base.errors import ConfigurationError, PlanError
from airflow_provider_rlmm.core.runs.connection_fields import ScheduledRuns
from airflow_provider_rlmm.core.runs.run_decision import (
    AUTOMATIC,
    PlanEvent,
    RunDecision,
    newest_plan,
)
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.operators import arguments as given
from airflow_provider_rlmm.operators.writing import WritingOperator, said_by_writers, unsaid
from airflow_provider_rlmm.settings import artifact_uri

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.plans.deletion_plan import DeletionPlan

AS_CHECKED: Final = "as checked"
"""Given for ``dry_run_only`` and ``source_plan``: what the task ``check`` of the run has decided."""


@dataclass(frozen=True, slots=True)
class Mode:
    """How a task works."""

    dry_run: bool
    source_plan: str | None = None  # name or URI of a plan, ``None`` for none


def flag_or_as_checked(name: str, value: object) -> bool | str | None:
    """
    Return a boolean, or :data:`AS_CHECKED`; ``None`` where nothing is said: see
    :data:`~airflow_provider_rlmm.operators.arguments.Reader`.
    """
    return AS_CHECKED if value == AS_CHECKED else given.flag_or_unsaid(name, value)


def mode_of(
    task: BaseOperator,
    context: Context,
    rlmm_conn_id: str,
    dry_run_only: bool | str | None,
    source_plan: str | None = None,
    plan: DeletionPlan | None = None,
    *,
    marks: bool = False,
) -> Mode:
    """
    Return how a task works: as it is told, as its run was decided, or as what its run has left says.

    :param task: the task.
    :param context: of the running task.
    :param rlmm_conn_id: connection of type ``rlmm``.
    :param dry_run_only: what the task was given; ``None`` where nothing was, which a task that writes refuses.
    :param source_plan: what the task was given.
    :param plan: that of the run, where the task comes after it.
    :param marks: whether the task is the one that marks: what an earlier try of it has left says nothing then.
    :raises PlanError: if ``check`` has decided nothing for this run, or for another connection.
    :raises ConfigurationError: if a task that writes was not told whether it may, or the tasks of the run do not agree.
    """
    decision = decision_of(context, rlmm_conn_id) if AS_CHECKED in (dry_run_only, source_plan) else None
    wanted = decision.source_plan if decision and source_plan == AS_CHECKED else source_plan
    dry_run = decision.dry_run if decision and dry_run_only == AS_CHECKED else dry_run_only
    told = said_by_run(context, plan, marks=marks)
    if dry_run is None:
        if isinstance(task, WritingOperator):
            raise unsaid(task)
        dry_run = next(iter(told.values()), None)
        dry_run = dry_of_writers(task, said_by_writers(task, context)) if dry_run is None else dry_run
    mode = Mode(bool(dry_run), wanted)
    require_agreement({**told, f"task {task.task_id}": mode.dry_run})
    return mode


def require_agreement(said: Mapping[str, bool]) -> None:
    """
    Refuse a run of which some tasks are a dry run and some are not.

    :param said: who says it → whether it is a dry run.
    :raises ConfigurationError: naming them.
    """
    dry, real = [", ".join(who for who, is_dry in said.items() if is_dry is kind) for kind in (True, False)]
    if dry and real:
        raise ConfigurationError(
            f"the tasks of this run do not agree: a dry run by {dry}, a real run by {real}. Give every task of the run the "
            "same dry_run_only, then clear all of them"
        )


def said_by_run(context: Context, plan: DeletionPlan | None = None, *, marks: bool = False) -> dict[str, bool]:
    """
    Return what earlier tasks of a run have written down: which document → whether the run is a dry run.

    :param context: of the running task.
    :param plan: that of the run, where it has one.
    :param marks: whether the task that asks is the one that marks.
    :raises PlanError: if one of them cannot be read.
    """
    from airflow_provider_rlmm.core.base.work_folder import MARK_DOCUMENT
    from airflow_provider_rlmm.features.cleanup.deciding import decision_if_any
    from airflow_provider_rlmm.features.cleanup.reports import read_marking
    from airflow_provider_rlmm.features.cleanup.run_report import read_of_run

    run, uri = context["dag_run"], artifact_uri(given.artifact_name(context))
    marking = None if marks else read_of_run(uri, MARK_DOCUMENT, read_marking)
    decision = decision_if_any(uri, run.dag_id, run.run_id)
    said = {
        "its plan": plan.dry_run if plan else None,
        "check.json": decision.dry_run if decision else None,
        "mark.json": marking.dry_run if marking else None,
    }
    return {who: dry_run for who, dry_run in said.items() if dry_run is not None}


def dry_of_writers(task: BaseOperator, said: Mapping[str, object]) -> bool:
    """
    Return whether the tasks that write and come after a task only say it; without any it is to be as strict as for real.

    :param task: the task, the first of its run that asks.
    :param said: what they say, as :func:`~airflow_provider_rlmm.operators.writing.said_by_writers` returns it.
    :raises ConfigurationError: if they do not agree, or take it from a task that was told nothing itself.
    """
    known = _known(said)
    require_agreement(known)
    if said and not known:
        raise ConfigurationError(
            f"task {task.task_id}: whether this is a dry run cannot be told from the tasks that come after it "
            f"({', '.join(said)}): give {task.task_id} dry_run_only, too"
        )
    return next(iter(known.values()), False)


def _known(said: Mapping[str, object]) -> dict[str, bool]:
    """Leave out the tasks of which it is not known yet what they say."""
    return {f"task {who}": dry_run for who, dry_run in said.items() if isinstance(dry_run, bool)}


def decision_of(context: Context, rlmm_conn_id: str) -> RunDecision:
    """
    Return what ``check`` has decided for the run.

    :param context: of the running task.
    :param rlmm_conn_id: connection of type ``rlmm``.
    :raises PlanError: if it has decided nothing for this run, or for another connection.
    """
    from airflow_provider_rlmm.features.cleanup.deciding import read_decision

    run = context["dag_run"]
    decision = read_decision(artifact_uri(given.artifact_name(context)), run.dag_id, run.run_id)
    if decision.connection != rlmm_conn_id:
        raise PlanError(
            f"check decided for the connection {decision.connection}, this task has {rlmm_conn_id}: give all tasks one"
        )
    return decision


def decide(
    task: BaseOperator,
    context: Context,
    rlmm_conn_id: str,
    *,
    dry_run: bool | None,
    source_plan: str | None,
    by_connection: bool,
) -> RunDecision:
    """
    Decide whether a run is a dry run, and from which plan it takes its work.

    :param task: the task that decides.
    :param context: of the running task.
    :param rlmm_conn_id: connection of type ``rlmm``.
    :param dry_run: what the parameters say; ``None``: what the tasks that write and come after this one say.
    :param source_plan: what the parameters say.
    :param by_connection: whether a run that was not started by hand goes by the connection's ``scheduled_runs``, and by the
        plan whose asset has started it.
    :raises ConfigurationError: naming the connection and the field, or the tasks that do not agree.
    :raises PlanError: if the newest event that started the run names no plan.
    """
    run = context["dag_run"]
    # Of a value of an enum, its text.
    run_type = str(getattr(getattr(run, "run_type", None), "value", getattr(run, "run_type", "manual")))
    user = getattr(run, "triggering_user_name", None)
    automatic = by_connection and run_type in AUTOMATIC
    said = said_by_writers(task, context)
    if automatic:
        settings = RemoteLogMetadataHook(rlmm_conn_id).get_connection_settings()
        dry_run = ScheduledRuns.of(settings.scheduled_runs) is not ScheduledRuns.REAL
        events = list(_plan_events(getattr(run, "consumed_asset_events", ()), rlmm_conn_id))
        source_plan = newest_plan(events) if events else source_plan
    elif dry_run is None:
        dry_run = dry_of_writers(task, said)
    require_agreement({f"task {task.task_id}": bool(dry_run), **_known(said)})
    return RunDecision(
        run.dag_id, run.run_id, rlmm_conn_id, run_type, str(user or run_type), bool(dry_run), source_plan, automatic
    )


def _plan_events(events: Iterable[Any], rlmm_conn_id: str) -> Iterable[PlanEvent]:
    name = plan_asset(rlmm_conn_id).name
    for event in events:
        if event.asset.name == name:
            plan = (event.extra or {}).get("plan")
            yield PlanEvent(plan if isinstance(plan, str) else None, int(event.timestamp.timestamp() * 1000))
