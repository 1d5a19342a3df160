# SPDX-License-Identifier: Apache-2.0
"""What ``check`` has decided for a run, as the folder of the run keeps it in ``check.json``."""

from __future__ import annotations

from airflow_provider_rlmm.core.base import strict_json
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.base.work_folder import CHECK_DOCUMENT
from airflow_provider_rlmm.core.plans.plan_files import read_document, write_document
from airflow_provider_rlmm.core.runs.run_decision import DECISION, RunDecision, missing


def read_decision(uri: str, dag_id: str, run_id: str) -> RunDecision:
    """
    Return what was decided for a run.

    :param uri: of the folder of the run.
    :param dag_id: the DAG.
    :param run_id: the run.
    :raises PlanError: if nothing was decided, it cannot be read, or is that of another run.
    """
    decision = decision_if_any(uri, dag_id, run_id)
    if decision is None:
        raise missing(uri)
    return decision


def decision_if_any(uri: str, dag_id: str, run_id: str) -> RunDecision | None:
    """
    Return what was decided for a run, ``None`` where nothing was.

    :param uri: of the folder of the run.
    :param dag_id: the DAG.
    :param run_id: the run.
    :raises PlanError: if it cannot be read, or is that of another run.
    """
    try:
        document = strict_json.parse_object(read_document(uri, CHECK_DOCUMENT))
    except PlanError as e:
        if isinstance(e.__cause__, FileNotFoundError):
            return None
        raise
    except ValueError as e:
        raise PlanError(f"{uri}/{CHECK_DOCUMENT} cannot be read ({e})") from e
    decision = document.get(DECISION)
    if not isinstance(decision, dict):
        return None
    return RunDecision.of_dict(decision, dag_id, run_id)


def forget_decision(uri: str) -> None:
    """
    Take away what an earlier try has decided: if this one fails and is marked as successful, nothing is decided.

    :param uri: of the folder of the run.
    :raises PlanError: if the folder cannot be read.
    :raises OSError: if it cannot be written.
    """
    try:
        read_document(uri, CHECK_DOCUMENT)
    except PlanError as e:
        if isinstance(e.__cause__, FileNotFoundError | NotADirectoryError):
            return
    write_document(uri, CHECK_DOCUMENT, "{}")
