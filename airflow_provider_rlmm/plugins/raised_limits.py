# SPDX-License-Identifier: Apache-2.0
"""A plan that is larger than its run may delete: a form for a dry run with raised limits, and from there to the real run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_rlmm.connection_ids import of_connection
from airflow_provider_rlmm.core.plans import limits
from airflow_provider_rlmm.core.plans.deletion_plan import DeletionPlan
from airflow_provider_rlmm.core.plans.guards import BlastRadius, limit_in_words
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.overview.run_summary import RunSummary
from airflow_provider_rlmm.plugins.actions import Action, Field, start
from airflow_provider_rlmm.plugins.dag_ids import CLEANER
from airflow_provider_rlmm.plugins.rendering import Shell
from airflow_provider_rlmm.plugins.rights import Rights
from airflow_provider_rlmm.settings import connections

_TITLES: Mapping[str, str] = {one.name: one.title for one in limits.BLAST_RADIUS}


@dataclass(frozen=True, slots=True)
class Made:
    """
    The run that made a plan.

    :param run: what is left of it.
    :param conf: the parameters that it was started with; another run of the kind has them, too.
    """

    run: RunSummary
    conf: Mapping[str, Any]


def raised_limits(plan: DeletionPlan) -> list[str]:
    """
    Return the limits that are raised for a plan, in words.

    :param plan: the plan.
    """
    radius, usual = plan.blast_radius, BlastRadius()
    if radius is None:
        return []
    return [
        f"{_TITLES[name]}: {limit_in_words(name, value)} in the place of {limit_in_words(name, default)}"
        for name in _TITLES
        if (value := getattr(radius, name)) > (default := getattr(usual, name))
    ]


def excess_in_words(plan: DeletionPlan) -> list[str]:
    """
    Return which limits a plan passes, and by what, in words; none where it is within them.

    :param plan: the plan.
    """
    if plan.blast_radius is None or plan.within_blast_radius:
        return []
    least = plan.blast_radius.least(plan.planned, plan.known)
    return [
        f"{_TITLES[name]}: {limit_in_words(name, enough)} would go, and the limit is "
        f"{limit_in_words(name, getattr(plan.blast_radius, name))}."
        for name, enough in least.items()
    ]


def of_limits(name: str, plan: PlanSummary, made: Made | None, rights: Rights, shell: Shell) -> list[Action]:
    """
    Return the button of a plan of the cleaner that a limit has to do with.

    One that is larger than its run may delete has a form for a dry run of what it names, with the least limits that would let
    it pass: Airflow's own form takes no values from an address. A dry run with raised limits leads on to a real run with the
    same parameters, which asks a person before it deletes anything.

    :param name: of the plan.
    :param plan: the plan.
    :param made: the run that made it, ``None`` where it has not ended.
    :param rights: of the user; who may not start runs of its DAG gets none.
    :param shell: leads to other pages.
    """
    cleaners = {of_connection(CLEANER, connection) for connection in connections()}
    if made is None or made.run.dag_id not in cleaners or not rights.may_trigger(made.run.dag_id):
        return []
    dag_id = made.run.dag_id
    if not plan.within_blast_radius and plan.blast_radius is not None:
        least = plan.blast_radius.least(plan.planned, plan.known)
        fields = [
            Field(one, _TITLES[one], value=_written(enough), into="conf", is_number=True)
            for one, enough in least.items()
        ]
        fields.append(Field("source_plan", "Plan", value=name, into="conf"))
        conf = {**made.conf, "dry_run": True}
        return [
            replace(start("Dry run with these limits", dag_id, conf, shell), fields=tuple(fields), note=_note(conf))
        ]
    if made.run.dry_run and plan.planned.segments and raised_limits(plan):
        asks = {one.name: 0 for one in limits.APPROVAL}
        conf = {**made.conf, **asks, "dry_run": False}
        words = "Real run with these limits: a person is asked before anything is deleted"
        return [replace(start(words, dag_id, conf, shell, is_dangerous=True), note=_note(conf))]
    return []


def _note(conf: Mapping[str, Any]) -> str:
    return f"Its parameters: {', '.join(f'{name} {json.dumps(value)}' for name, value in sorted(conf.items()))}"


def _written(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)
