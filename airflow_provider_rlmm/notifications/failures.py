# SPDX-License-Identifier: Apache-2.0
"""
Why tasks of a run failed: each notes it where it runs, and the message about the run reads it.

The callback of a DAG is called in the DAG processor, which knows no task's error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from airflow.providers.common.compat.sdk import AirflowException
from airflow.sdk import Context

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.base.errors import DocumentError, RlmmError
from airflow_provider_rlmm.core.base.file_systems import list_files, read_file, replace_file
from airflow_provider_rlmm.core.base.quoting import printable
from airflow_provider_rlmm.core.runs.task_failure import MAX_ERROR, MAX_FAILURE_BYTES, TaskFailure, is_failure
from airflow_provider_rlmm.run_groups import run_group_of
from airflow_provider_rlmm.settings import artifact_name_of, artifact_uri

MAX_READ = 20

logger = logging.getLogger(__name__)


def error_in_words(error: object) -> str:
    """
    Return what may be said of an error: the words of those that are this package's or Airflow's, of others the type.

    :param error: that a task has raised.
    """
    if isinstance(error, RlmmError | AirflowException):
        return printable(str(error), MAX_ERROR)
    # Its words are not ours: they may repeat a secret.
    return type(error).__name__


def note_failure(context: Context) -> None:
    """Note the error of a task in the folder of its run; for its ``on_failure_callback``. It never fails."""
    try:
        ti, run_id = context["ti"], str(context["run_id"])
        mapped = None if ti.map_index is None or ti.map_index < 0 else int(ti.map_index)
        said = error_in_words(context.get("exception"))
        failure = TaskFailure(ti.dag_id, run_id, ti.task_id, mapped, system_clock(), said)
        artifact = artifact_name_of(ti.dag_id, run_id, run_group_of(context.get("task")))
        uri = f"{artifact_uri(artifact)}/{failure.file_name}"
        replace_file(uri, [failure.to_json().encode()])
    except Exception:
        logger.warning("why this task failed is not noted for the message about its run", exc_info=True)


def failures_of(dag_id: str, run_id: str, groups: Iterable[str | None] = (None,)) -> list[TaskFailure]:
    """
    Return why tasks of a run failed, the first failure first; what cannot be read is left out.

    :param groups: of which tasks: ids of groups that are runs of their own, ``None`` for the tasks in none.
    :raises OSError: if a folder of the run cannot be listed.
    """
    found = [failure for group in groups for failure in _noted(dag_id, run_id, group)]
    return sorted(found, key=lambda failure: failure.failed_at_ms)


def _noted(dag_id: str, run_id: str, group: str | None) -> list[TaskFailure]:
    uri = artifact_uri(artifact_name_of(dag_id, run_id, group))
    found = []
    for name in [name for name in list_files(uri) if is_failure(name)][:MAX_READ]:
        try:
            failure = TaskFailure.from_json(bytes(read_file(f"{uri}/{name}", MAX_FAILURE_BYTES)).decode())
        except (DocumentError, OSError, UnicodeDecodeError) as e:
            logger.warning("%s/%s says nothing: %s", uri, name, e)
            continue
        if (failure.dag_id, failure.run_id, failure.file_name) == (dag_id, run_id, name):
            found.append(failure)
    return found
