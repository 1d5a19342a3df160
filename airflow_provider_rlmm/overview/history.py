# SPDX-License-Identifier: Apache-2.0
"""What is kept of a run when its own folder is gone: its summary, in the folder of its cluster."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.errors import DocumentError, PlanError
from airflow_provider_rlmm.core.base.file_systems import create_file
from airflow_provider_rlmm.core.base.work_folder import DOCTOR_DOCUMENT, cluster_folder
from airflow_provider_rlmm.core.plans.approval import Approval
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.plans.plan_files import read_document, read_plan
from airflow_provider_rlmm.core.runs.approving import read_approval
from airflow_provider_rlmm.core.runs.attention import Judgement
from airflow_provider_rlmm.features.cleanup.run_report import RunReport, read_of_run
from airflow_provider_rlmm.features.doctor.diagnosis import ReportedDiagnosis, read_diagnosis
from airflow_provider_rlmm.features.scrub.scrub_plan import SCRUB_PLAN_DOCUMENT, ScrubPlan
from airflow_provider_rlmm.features.scrub.scrub_summary import ScrubSummary
from airflow_provider_rlmm.features.survey.inventory import Inventory
from airflow_provider_rlmm.features.survey.inventory_files import read_inventory
from airflow_provider_rlmm.overview.run_summaries import RunFacts, cleaner_summary, scrub_summary
from airflow_provider_rlmm.overview.run_summary import RUNS_FOLDER, RunSummary

if TYPE_CHECKING:
    from airflow_provider_rlmm.features.scrub.scrub_cleaner import ScrubDeletion

logger = logging.getLogger(__name__)


def keep_run_summary(work_uri: str, summary: RunSummary) -> str:
    """
    Write the summary of a run into the folder of its cluster; it is never changed.

    :return: the URI of the document.
    :raises DocumentError: if it contradicts itself.
    :raises OSError: if it cannot be written.
    """
    uri = f"{work_uri}/{cluster_folder(summary.cluster_id)}/{RUNS_FOLDER}/{summary.file_name}"
    create_file(uri, [summary.to_json().encode()])
    return uri


def summary_of_cleanup(work_uri: str, facts: RunFacts, cluster_id: str, report: RunReport) -> RunSummary:
    """Summarise a cleanup by what its steps have left."""
    uri = f"{work_uri}/{facts.artifact}"
    inventory = _inventory_of(f"{work_uri}/{cluster_folder(cluster_id)}", cluster_id, facts.artifact)
    return cleaner_summary(
        facts,
        cluster_id,
        report.document,
        report.judgement,
        plan=_plan_of(uri),
        inventory=inventory,
        diagnosis=_diagnosis_of(uri),
        answer=_answer_of(uri),
    )


def summary_of_scrub(
    work_uri: str, facts: RunFacts, scrub: ScrubSummary, deletion: ScrubDeletion, judgement: Judgement
) -> RunSummary:
    """
    Summarise a scrub by what its steps have left.

    :param work_uri: the work folder.
    :param facts: of the run.
    :param scrub: what it found.
    :param deletion: what it deleted.
    :param judgement: what fails the run.
    """
    try:
        plan = ScrubPlan.from_json(read_document(f"{work_uri}/{facts.artifact}", SCRUB_PLAN_DOCUMENT))
    except PlanError:
        # It made none, or the task that was to apply it says what is wrong with it.
        plan = None
    return scrub_summary(facts, scrub, plan, deletion, judgement, _answer_of(f"{work_uri}/{facts.artifact}"))


def _answer_of(uri: str) -> Approval | None:
    try:
        return read_approval(uri)
    except PlanError:
        # The report says what is wrong with it.
        return None


def _plan_of(uri: str) -> PlanSummary | None:
    try:
        return read_plan(uri)
    except PlanError:
        # The report says what is wrong with it.
        return None


def _inventory_of(cluster_uri: str, cluster_id: str, artifact: str) -> Inventory | None:
    """Return what the run has surveyed: another run's inventory is of another time."""
    try:
        found = read_inventory(cluster_uri)
    except FileNotFoundError:
        return None
    except (OSError, DocumentError) as e:
        logger.warning("the summary of the run says nothing of what is stored: %s", e)
        return None
    return found if (found.cluster_id, found.artifact) == (cluster_id, artifact) else None


def _diagnosis_of(uri: str) -> ReportedDiagnosis | None:
    try:
        return read_of_run(uri, DOCTOR_DOCUMENT, read_diagnosis)
    except PlanError:
        # The report says what is wrong with it.
        return None
