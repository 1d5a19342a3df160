# SPDX-License-Identifier: Apache-2.0
"""
Plans, reports and diagnoses as HTML: pure functions from documents to pages.

The form of a document is checked first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from airflow_provider_rlmm.core.plans.plan import PlanSummary, Reason
from airflow_provider_rlmm.features.cleanup.report_document import read_report
from airflow_provider_rlmm.features.doctor.diagnosis import read_diagnosis
from airflow_provider_rlmm.features.scrub.rules import ScrubClass
from airflow_provider_rlmm.features.scrub.scrub_plan import ScrubPlan
from airflow_provider_rlmm.features.scrub.scrub_summary import ScrubSummary
from airflow_provider_rlmm.plugins.actions import Action
from airflow_provider_rlmm.plugins.listing import Column, Listing
from airflow_provider_rlmm.plugins.rendering import Shell, render
from airflow_provider_rlmm.plugins.report_view import by_topic

NO_SHELL = Shell()

REASONS = {
    Reason.ORPHANED: "the topic no longer exists",
    Reason.DANGLING: "copy or deletion never finished",
    Reason.LOG_START_OFFSET: "below the log start offset (estimated: its leader is expected to delete it)",
    Reason.RETENTION_MS: "older than retention.ms (estimated: its leader is expected to delete it)",
    Reason.RETENTION_BYTES: "beyond retention.bytes (estimated: its leader is expected to delete it)",
}
"""Why a segment is in a plan, in the words of the page."""


@dataclass(frozen=True, slots=True)
class PlanPart:
    """
    The rows of a plan that its page shows.

    :param list: a page of them; empty where they cannot be read.
    :param columns: their columns.
    :param by: ``topic`` or ``segment``.
    :param why_not: why they cannot be read, empty if they can.
    :param actions: buttons.
    """

    list: Listing
    columns: Sequence[Column]
    by: str
    why_not: str = ""
    actions: Sequence[Action] = ()


def plan_page(name: str, document: Mapping[str, Any], shell: Shell = NO_SHELL, rows: PlanPart | None = None) -> str:
    """
    Return the page of a plan.

    :param name: name of the plan.
    :param document: its summary (:class:`~airflow_provider_rlmm.core.plans.plan.PlanSummary`).
    :param shell: what stands around the page.
    :param rows: what it names, ``None`` where that is not shown.
    :raises PlanError: if the summary cannot be read.
    """
    plan = PlanSummary.from_json(json.dumps(document))
    values = {"plan": plan, "reasons": REASONS, "partitions": sorted(plan.read_until), "rows": rows}
    return render("plan.html", shell, name=name, **values)


def report_page(name: str, document: Mapping[str, Any], shell: Shell = NO_SHELL) -> str:
    """
    Return the page of a cleanup report.

    :param name: name of the report.
    :param document: of a :class:`~airflow_provider_rlmm.features.cleanup.report_document.CleanupReport`.
    :param shell: what stands around the page.
    :raises ValueError: if it does not have the form of a report.
    """
    report = read_report(document)
    return render("report.html", shell, name=name, report=report, topics=by_topic(report))


def doctor_page(name: str, document: Mapping[str, Any], shell: Shell = NO_SHELL) -> str:
    """
    Return the page of what the doctor found.

    :param name: name of the diagnosis.
    :param document: of a :class:`~airflow_provider_rlmm.features.doctor.diagnosis.ReportedDiagnosis`.
    :param shell: what stands around the page.
    :raises ValueError: if it does not have the form of a diagnosis.
    """
    return render("doctor.html", shell, name=name, diagnosis=read_diagnosis(document))


SCRUB_CLASSES = {
    ScrubClass.MISSING: "a copied segment lacks an object: consumers that read this far back fail",
    ScrubClass.UNKNOWN: "nothing can be told: records are lost, the listing ended early, or names contradict each other",
    ScrubClass.FINISHED: "the segment is deleted by the log's account: a changed prefix or bucket leaves this behind",
    ScrubClass.UNREFERENCED: "no record names the segment: the log has lost records, or somebody else writes here",
    ScrubClass.COPY_NEVER_FINISHED: "the copy of the segment began and did not end",
    ScrubClass.SIZE_DIFFERS: "the objects are not as large as was recorded",
    ScrubClass.UNKNOWN_TOPIC_ID: "the log never named the topic id: another cluster's, or nobody's",
    ScrubClass.NOT_OF_THIS_LAYOUT: "no key of this layout",
    ScrubClass.IN_USE: "the segment is not finished: counted only",
}
"""What a class of a scrub means, in the words of the page; those that need somebody first."""


def scrub_page(name: str, document: Mapping[str, Any], shell: Shell = NO_SHELL) -> str:
    """
    Return the page of a scrub.

    :param name: name of the scrub.
    :param document: its document (:class:`~airflow_provider_rlmm.features.scrub.scrub_summary.ScrubSummary`).
    :param shell: what stands around the page.
    :raises PlanError: if the document cannot be read.
    """
    scrub = ScrubSummary.from_json(json.dumps(document))
    return render("scrub.html", shell, name=name, scrub=scrub, meanings=SCRUB_CLASSES)


def scrub_plan_page(name: str, document: Mapping[str, Any], shell: Shell = NO_SHELL) -> str:
    """
    Return the page of a plan that was made from a scrub.

    :param name: name of the plan.
    :param document: its document (:class:`~airflow_provider_rlmm.features.scrub.scrub_plan.ScrubPlan`).
    :param shell: what stands around the page.
    :raises PlanError: if the document cannot be read.
    """
    plan = ScrubPlan.from_json(json.dumps(document))
    return render("scrub_plan.html", shell, name=name, plan=plan, meanings=SCRUB_CLASSES)


def error_page(status: HTTPStatus, what: str, what_to_do: str, shell: Shell = NO_SHELL) -> str:
    """
    Return the page that stands in the place of another.

    :param status: what kind of failure it is.
    :param what: what is wrong.
    :param what_to_do: what a reader can do about it.
    :param shell: what stands around the page.
    """
    return render("error.html", shell, status=status.value, title=status.phrase, what=what, what_to_do=what_to_do)
