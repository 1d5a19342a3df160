# SPDX-License-Identifier: Apache-2.0
"""When a task fails: what fails a run before it begins, and which problems people know of."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseOperator, Context, Variable

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.base.values import refused
from airflow_provider_rlmm.core.runs import attention
from airflow_provider_rlmm.core.runs.task_failure import FailedTask
from airflow_provider_rlmm.notifications.failures import failures_of
from airflow_provider_rlmm.notifications.remote_log import base_url, run_url
from airflow_provider_rlmm.run_groups import run_group_of

ACKNOWLEDGEMENTS_VARIABLE = "rlmm_acknowledgements"
"""A JSON list of :data:`~airflow_provider_rlmm.core.runs.attention.FIELDS`, as the report suggests them."""

HOW_TO_ACKNOWLEDGE = (
    "To let a problem be for a while, put its JSON from the log above, signed by you, into the Airflow variable "
    f"{ACKNOWLEDGEMENTS_VARIABLE}, a JSON list"
)
"""Ends the error of a task that fails because something needs a person, after :func:`say_judgement`."""

logger = logging.getLogger(__name__)

_SOURCE = f"Airflow variable {ACKNOWLEDGEMENTS_VARIABLE}"


def refuse_unknown_params(context: Context) -> None:
    """
    Refuse a run that was triggered with a parameter that its DAG does not have; for a task's ``pre_execute``.

    Airflow takes any key of the configuration for a parameter: ``dry_rum`` would run the DAG for real.

    :raises ConfigurationError: naming the unknown parameters and those that there are.
    """
    known, given = sorted(context["dag"].params), context["dag_run"].conf or {}
    if not isinstance(given, Mapping):
        raise refused("the configuration of the run", given, f"a mapping with parameters out of {known}")
    if unknown := sorted(map(str, given.keys() - set(known))):
        raise ConfigurationError(f"unknown parameters {unknown}; this DAG has {known}")


def failed_before(task: BaseOperator, context: Context) -> int:
    """Count the failed instances of the tasks that a task waits for."""
    if not task.upstream_task_ids:
        return 0
    run, tasks = context["dag_run"], sorted(task.upstream_task_ids)
    count: int = context["ti"].get_ti_count(
        dag_id=run.dag_id, run_ids=[run.run_id], task_ids=tasks, states=["failed", "upstream_failed"]
    )
    return count


def failed_tasks_before(task: BaseOperator, context: Context) -> list[FailedTask]:
    """Name the failed instances of all tasks before a task, with what each has said; what cannot be told is left out."""
    run, relatives = context["dag_run"], task.get_flat_relatives(upstream=True)
    before, groups = sorted(t.task_id for t in relatives), {run_group_of(t) for t in relatives}
    try:
        states = context["ti"].get_task_states(dag_id=run.dag_id, task_ids=before, run_ids=[run.run_id])
        noted = {(f.task_id, f.map_index): f.error for f in failures_of(run.dag_id, run.run_id, groups)}
    except Exception:
        # The report of a run is never late for the sake of a name.
        logger.warning("which tasks of this run failed cannot be told", exc_info=True)
        return []
    failed = [name for name, state in (states.get(run.run_id) or {}).items() if state == "failed"]
    return [_failed(run, *_instance(name, before), noted) for name in sorted(failed)]


def _instance(name: str, task_ids: Iterable[str]) -> tuple[str, int | None]:
    """Split what Airflow calls a task instance: its task's id, and its index behind an underscore where it is mapped."""
    task_id, _, index = name.rpartition("_")
    if name not in task_ids and task_id in task_ids and index.isdecimal():
        return task_id, int(index)
    return name, None


def _failed(run: Any, task_id: str, map_index: int | None, noted: Mapping[tuple[str, int | None], str]) -> FailedTask:
    mapped = "" if map_index is None else f"/mapped/{map_index}"
    url = f"{run_url(run.dag_id, run.run_id)}/tasks/{quote(task_id, safe='')}{mapped}" if base_url() else ""
    name = task_id if map_index is None else f"{task_id}[{map_index}]"
    return FailedTask(name, noted.get((task_id, map_index)), url)


def acknowledgements(now_ms: int) -> attention.Acknowledgements:
    """
    Return what people have said. A list that cannot be read is a problem of its own; no list is none.

    :param now_ms: ms since the epoch.
    """
    try:
        text = Variable.get(ACKNOWLEDGEMENTS_VARIABLE, default=None)
    except Exception as e:
        # A secrets backend may raise anything: its words stay in the log, where Airflow masks secrets.
        logger.exception("%s cannot be read", _SOURCE)
        return attention.unreadable_acknowledgements(_SOURCE, f"{type(e).__name__}, see the log")
    return attention.read_acknowledgements(text, now_ms, _SOURCE)


def say_green_dry_run(count: int, what: str, size: int) -> None:
    """
    Say in a task's log that a run which nothing is wrong with was a dry run.

    :param count: how many things would have been deleted.
    :param what: these things.
    :param size: their size, bytes.
    """
    logger.info(
        "DRY RUN: it ended well, and nothing was written or deleted. %s %s, %s would be deleted now",
        f"{count:,}",
        what,
        human_bytes(size),
    )


def say_judgement(log: Any, judgement: attention.Judgement, cluster_id: str, now_ms: int) -> None:
    """
    Say in a task's log what needs a person, what would acknowledge it, and what has been acknowledged.

    :param log: the logger of the task.
    :param judgement: what fails the run, and what would have.
    :param cluster_id: the cluster, for the acknowledgements that are suggested.
    :param now_ms: ms since the epoch.
    """
    for seen in judgement.acknowledged:
        log.warning("acknowledged: %s", seen.attention)
    for judged in judgement.failing:
        suggested = judged.suggestion(cluster_id, now_ms)
        how = f"To acknowledge it: {json.dumps(suggested)}" if suggested else "It cannot be acknowledged"
        log.error("needs a person: %s. What to do: %s. %s", judged.attention, judged.attention.what_to_do, how)


def judged(log: Any, problems: Iterable[attention.Attention], cluster_id: str) -> attention.Judgement:
    """
    Tell what fails a task from what people have acknowledged, and say both in its log.

    :param log: the logger of the task.
    :param problems: what needs a person.
    :param cluster_id: the cluster in which the problems are.
    """
    now_ms = system_clock()
    said = acknowledgements(now_ms)
    judgement = attention.judge([*said.problems, *problems], said.known, cluster_id, now_ms)
    say_judgement(log, judgement, cluster_id, now_ms)
    return judgement
