# SPDX-License-Identifier: Apache-2.0
"""How the tasks of a run come to one decision: the task ``check`` makes it, the others read what it has written down."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from airflow.sdk import Context

from airflow_provider_rlmm.assets.by_connection import plan_asset
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.runs.connection_fields import ScheduledRuns
from airflow_provider_rlmm.core.runs.run_decision import (
    AUTOMATIC,
    PlanEvent,
    RunDecision,
    newest_plan,
)
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.operators import arguments as given
from airflow_provider_rlmm.settings import artifact_uri

AS_CHECKED: Final = "as checked"
"""Given for ``dry_run_only`` and ``source_plan``: what the task ``check`` of the run has decided."""


@dataclass(frozen=True, slots=True)
class Mode:
    """How a task works."""

    dry_run: bool
    source_plan: str | None = None  # name or URI of a plan, ``None`` for none


def flag_or_as_checked(name: str, value: object) -> bool | str:
    """Return a boolean, or :data:`AS_CHECKED`; see :data:`~airflow_provider_rlmm.operators.arguments.Reader`."""
    return AS_CHECKED if value == AS_CHECKED else given.flag(name, value)


def mode_of(context: Context, rlmm_conn_id: str, dry_run_only: bool | str, source_plan: str | None = None) -> Mode:
    """
    Return how a task works: as it is told, or as its run was decided.

    :param context: of the running task.
    :param rlmm_conn_id: connection of type ``rlmm``.
    :param dry_run_only: what the task was given.
    :param source_plan: what the task was given.
    :raises PlanError: if ``check`` has decided nothing for this run, or for another connection.
    """
    if AS_CHECKED not in (dry_run_only, source_plan):
        return Mode(bool(dry_run_only), source_plan)
    decision = decision_of(context, rlmm_conn_id)
    return Mode(
        decision.dry_run if dry_run_only == AS_CHECKED else bool(dry_run_only),
        decision.source_plan if source_plan == AS_CHECKED else source_plan,
    )


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
    context: Context, rlmm_conn_id: str, *, dry_run: bool, source_plan: str | None, by_connection: bool
) -> RunDecision:
    """
    Decide whether a run is a dry run, and from which plan it takes its work.

    :param context: of the running task.
    :param rlmm_conn_id: connection of type ``rlmm``.
    :param dry_run: what the parameters say.
    :param source_plan: what the parameters say.
    :param by_connection: whether a run that was not started by hand goes by the connection's ``scheduled_runs``, and by the
        plan whose asset has started it.
    :raises ConfigurationError: naming the connection and the field.
    :raises PlanError: if the newest event that started the run names no plan.
    """
    run = context["dag_run"]
    # Of a value of an enum, its text.
    run_type = str(getattr(getattr(run, "run_type", None), "value", getattr(run, "run_type", "manual")))
    user = getattr(run, "triggering_user_name", None)
    automatic = by_connection and run_type in AUTOMATIC
    if automatic:
        settings = RemoteLogMetadataHook(rlmm_conn_id).get_connection_settings()
        dry_run = ScheduledRuns.of(settings.scheduled_runs) is not ScheduledRuns.REAL
        events = list(_plan_events(getattr(run, "consumed_asset_events", ()), rlmm_conn_id))
        source_plan = newest_plan(events) if events else source_plan
    return RunDecision(
        run.dag_id, run.run_id, rlmm_conn_id, run_type, str(user or run_type), dry_run, source_plan, automatic
    )


def _plan_events(events: Iterable[Any], rlmm_conn_id: str) -> Iterable[PlanEvent]:
    name = plan_asset(rlmm_conn_id).name
    for event in events:
        if event.asset.name == name:
            plan = (event.extra or {}).get("plan")
            yield PlanEvent(plan if isinstance(plan, str) else None, int(event.timestamp.timestamp() * 1000))
