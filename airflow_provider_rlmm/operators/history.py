# SPDX-License-Identifier: Apache-2.0
"""The last task of a run keeps the run's summary; where that fails the run is red for it, and says so."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow.sdk import Context

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.base.errors import ConfigurationError, RlmmError
from airflow_provider_rlmm.core.runs.steps import seconds_of_steps
from airflow_provider_rlmm.observability.stats import send_metrics
from airflow_provider_rlmm.operators.arguments import artifact_name
from airflow_provider_rlmm.overview.run_summary import RunOutcome, RunSummary
from airflow_provider_rlmm.settings import artifact_uri, work_uri

if TYPE_CHECKING:
    from airflow_provider_rlmm.overview.run_summaries import RunFacts

logger = logging.getLogger(__name__)

_WHAT_TO_DO = "see that every worker can write below [rlmm] work_uri, then clear this task"


def facts_of(context: Context, rlmm_conn_id: str) -> RunFacts:
    """
    Return what a task knows of its run.

    :param context: of the running task.
    :param rlmm_conn_id: connection of type ``rlmm``.
    """
    # The documents of all features: only the last task of a run needs them.
    from airflow_provider_rlmm.overview.run_summaries import RunFacts

    run, now_ms, name = context["dag_run"], system_clock(), artifact_name(context)
    began = getattr(run, "start_date", None)
    began_at_ms = now_ms if began is None else max(0, round(began.timestamp() * 1000))
    return RunFacts(
        rlmm_conn_id, run.dag_id, run.run_id, name, began_at_ms, now_ms, seconds_of_steps(artifact_uri(name))
    )


def keep_summary(summarise: Callable[[], RunSummary]) -> str:
    """
    Keep the summary of a run, and tell its numbers. It raises nothing: what the run has to say comes first.

    :param summarise: makes it.
    :return: empty where it was kept, else why not and what to do, for the error of the task.
    """
    from airflow_provider_rlmm.overview.history import keep_run_summary

    summary: RunSummary | None = None
    try:
        summary = summarise()
        keep_run_summary(work_uri(), summary)
    except (OSError, RlmmError, ValueError, LookupError, TypeError) as e:
        logger.exception("the summary of this run is not kept")
        if summary is not None:
            send_metrics(replace(summary, outcome=RunOutcome.FAILED))
        return f"The summary of this run is not kept ({type(e).__name__}: {e}); {_WHAT_TO_DO}."
    send_metrics(summary)
    return ""


def cluster_of(rlmm_conn_id: str) -> str | None:
    """
    Return the only cluster that a connection allows, ``None`` where it names none or cannot be read.

    :param rlmm_conn_id: connection of type ``rlmm``.
    """
    from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook

    try:
        return RemoteLogMetadataHook(rlmm_conn_id).get_connection_settings().expected_cluster_id
    except ConfigurationError:
        return None
