# SPDX-License-Identifier: Apache-2.0
"""
What the first task of a run decides for all of it: whether it is a dry run, and from which plan it takes its work.

A person who starts a run says both. A run that the schedule or an asset starts goes by what the connection says, and by the
plan that started it. It is decided once and written down; a task that finds no decision of its own run does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.documents import Text, plain_of, reader_of
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.base.quoting import in_quotes

AUTOMATIC = frozenset({"scheduled", "asset_triggered"})
"""Airflow's types of the runs that start by themselves."""

DECISION = "decision"
"""The field of ``check.json`` that holds it."""

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class PlanEvent:
    """An event of the plan's asset that started a run."""

    plan: str | None  # name or URI of the plan, ``None`` where it names none
    emitted_at_ms: int  # ms since the epoch


@dataclass(frozen=True, slots=True)
class RunDecision:
    """
    What was decided for a run.

    :param dag_id: the DAG.
    :param run_id: the run; the decision of another one counts for nothing.
    :param connection: connection of type ``rlmm``.
    :param run_type: why it runs, as Airflow names it.
    :param triggered_by: user who started it; where no user did, the same as ``run_type``.
    :param dry_run: whether nothing is written or deleted.
    :param source_plan: name or URI of the plan that it takes its work from, ``None`` for all that there is.
    :param by_connection: whether the connection has said so, and not the parameters of the run.
    """

    dag_id: Text
    run_id: Text
    connection: Text
    run_type: Text
    triggered_by: Text
    dry_run: bool
    source_plan: Text | None
    by_connection: bool

    def __str__(self) -> str:
        """Say it in a sentence."""
        kind = "dry" if self.dry_run else "real"
        if self.by_connection:
            why = f"{self.run_type}, and scheduled_runs of connection {self.connection} is {kind}"
        else:
            why = f"its parameters say so; it was started by {in_quotes(self.triggered_by)}"
        plan = f"; it takes its work from the plan {in_quotes(self.source_plan)}" if self.source_plan else ""
        return f"a {kind} run: {why}{plan}"

    def to_dict(self) -> dict[str, Any]:
        """Return what :meth:`of_dict` reads: plain JSON, which says what its bytes are."""
        return strict.sealed(plain_of(self), _FORMAT)

    @classmethod
    def of_dict(cls, document: Mapping[str, Any], dag_id: str, run_id: str) -> RunDecision:
        """
        Read the decision of a run.

        :param document: what :meth:`to_dict` returned.
        :param dag_id: the DAG.
        :param run_id: the run.
        :raises PlanError: if it cannot be read, or is that of another run.
        """
        try:
            decision = _READ(strict.unsealed_fields(document, _FORMAT), "the decision")
        except ValueError as e:
            raise PlanError(f"what check decided for the run cannot be read ({e}); {_RUN_CHECK}") from e
        if (decision.dag_id, decision.run_id) != (dag_id, run_id):
            raise PlanError(
                f"check decided for the run {in_quotes(decision.run_id)} of {in_quotes(decision.dag_id)}, and this is "
                f"{in_quotes(run_id)} of {in_quotes(dag_id)}; {_RUN_CHECK}"
            )
        return decision


def newest_plan(events: Sequence[PlanEvent]) -> str:
    """
    Return the plan of the newest event that started a run.

    :param events: of the plan's asset; at least one.
    :raises PlanError: if the newest one names none: an older plan was not meant.
    """
    newest = max(events, key=lambda event: event.emitted_at_ms)
    if newest.plan is None:
        raise PlanError(
            "the newest event of the plan's asset names no plan in its field 'plan'; start the run by hand with source_plan, "
            "or wait for the next plan of remote_log_retention"
        )
    return newest.plan


def missing(uri: str) -> PlanError:
    """
    Return the error of a task that finds no decision.

    :param uri: of the folder of the run.
    """
    return PlanError(
        f"{uri} does not say what check decided for the run, so nothing is done: a check that was marked as successful has "
        f"decided nothing; {_RUN_CHECK}"
    )


_RUN_CHECK = "clear the task check, and what comes after it, so that it runs"

_READ = reader_of(RunDecision)
