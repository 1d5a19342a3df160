# SPDX-License-Identifier: Apache-2.0
"""
Plans, reports and diagnoses as HTML: pure functions from typed documents to pages.

A document is read strictly before it is shown (:data:`DOCUMENT_PAGES`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, TypeVar

from airflow_provider_rlmm.core.base.work_folder import DOCTOR_DOCUMENT, REPORT_DOCUMENT
from airflow_provider_rlmm.core.plans.plan import SUMMARY_NAME, PlanSummary, Reason
from airflow_provider_rlmm.features.cleanup.report_document import CleanupReport, read_report
from airflow_provider_rlmm.features.doctor.diagnosis import ReportedDiagnosis, read_diagnosis
from airflow_provider_rlmm.features.retention.leader_document import LEADER_RETENTION_DOCUMENT, ReportedLeaders
from airflow_provider_rlmm.features.scrub.rules import ScrubClass
from airflow_provider_rlmm.features.scrub.scrub_plan import SCRUB_PLAN_DOCUMENT, ScrubPlan
from airflow_provider_rlmm.features.scrub.scrub_summary import SCRUB_DOCUMENT, ScrubSummary
from airflow_provider_rlmm.plugins.actions import Action
from airflow_provider_rlmm.plugins.listing import Column, Listing
from airflow_provider_rlmm.plugins.raised_limits import excess_in_words
from airflow_provider_rlmm.plugins.rendering import Shell, render
from airflow_provider_rlmm.plugins.report_view import by_topic
from airflow_provider_rlmm.plugins.scrub_plan_topics import ScrubbedTopicRow
from airflow_provider_rlmm.settings import NO_PRICE

T = TypeVar("T")

NO_SHELL = Shell()

REASONS = {
    Reason.ORPHANED: "the topic no longer exists",
    Reason.DANGLING: "copy or deletion never finished",
    Reason.DELETION_RETRIED: "a deletion that was started, and its leader tries again",
    Reason.LOG_START_OFFSET: "below the log start offset, its leader deletes it",
    Reason.RETENTION_MS: "older than retention.ms, its leader deletes it",
    Reason.RETENTION_BYTES: "beyond retention.bytes, its leader deletes it",
    Reason.UNREFERENCED_EPOCH: "of leader epochs below those of its leader, which deletes it",
}
"""Why a segment is in a plan, in the words of the page; what is an estimate is said beside it."""


@dataclass(frozen=True, slots=True)
class PlanPart:
    """
    The rows of a plan that its page shows.

    :param list: a page of them; empty where they cannot be read.
    :param columns: their columns.
    :param by: ``topic`` or ``segment``.
    :param why_not: why they cannot be read, empty if they can.
    :param actions: buttons.
    :param of_limits: buttons of a plan that is larger than its run may delete, or would be by the usual limits.
    """

    list: Listing
    columns: Sequence[Column]
    by: str
    why_not: str = ""
    actions: Sequence[Action] = ()
    of_limits: Sequence[Action] = ()


def plan_page(name: str, plan: PlanSummary, shell: Shell = NO_SHELL, rows: PlanPart | None = None) -> str:
    """
    Return the page of a plan.

    :param name: name of the plan.
    :param plan: its summary.
    :param shell: what stands around the page.
    :param rows: what it names, ``None`` where that is not shown.
    """
    values = {"plan": plan, "reasons": REASONS, "partitions": sorted(plan.read_until), "rows": rows}
    return render("plan.html", shell, name=name, no_price=NO_PRICE, excess=excess_in_words(plan), **values)


def report_page(name: str, report: CleanupReport, shell: Shell = NO_SHELL) -> str:
    """
    Return the page of a cleanup report.

    :param name: name of the report.
    :param report: the report.
    :param shell: what stands around the page.
    """
    return render("report.html", shell, name=name, report=report, topics=by_topic(report), no_price=NO_PRICE)


def doctor_page(name: str, diagnosis: ReportedDiagnosis, shell: Shell = NO_SHELL) -> str:
    """
    Return the page of what the doctor found.

    :param name: name of the diagnosis.
    :param diagnosis: the diagnosis.
    :param shell: what stands around the page.
    """
    return render("doctor.html", shell, name=name, diagnosis=diagnosis)


SCRUB_CLASSES = {
    ScrubClass.MISSING: "a copied segment lacks an object: consumers that read this far back fail",
    ScrubClass.UNKNOWN: "nothing can be told: records are lost, the listing ended early, or names contradict each other",
    ScrubClass.FINISHED: "the segment is deleted by the log's account: a changed prefix or bucket leaves this behind",
    ScrubClass.UNREFERENCED: "no record names the segment: the log has lost records, or another program writes here",
    ScrubClass.COPY_NEVER_FINISHED: "the copy of the segment began and did not end",
    ScrubClass.SIZE_DIFFERS: "the objects are not as large as was recorded",
    ScrubClass.UNKNOWN_TOPIC_ID: "the log never named the topic id: another cluster's, or none's",
    ScrubClass.NOT_OF_THIS_LAYOUT: "no key of this layout",
    ScrubClass.IN_USE: "the segment is not finished: counted only",
}
"""What a class of a scrub means, in the words of the page; those that need a person first."""


LEADER_REASONS = {
    Reason.DELETION_RETRIED: "a deletion that was started is tried again",
    Reason.LOG_START_OFFSET: "below the log start offset",
    Reason.RETENTION_MS: "older than retention.ms",
    Reason.RETENTION_BYTES: "beyond retention.bytes",
    Reason.UNREFERENCED_EPOCH: "of leader epochs that the leader does not have",
}
"""Why a leader deletes a segment, in the words of the page."""


def leaders_page(name: str, leaders: ReportedLeaders | None, shell: Shell = NO_SHELL) -> str:
    """
    Return the page of what leaders delete next.

    :param name: name of the run that has asked them; empty for the newest answer of a cluster.
    :param leaders: its document, ``None`` where they were not asked.
    :param shell: what stands around the page.
    """
    return render("leaders.html", shell, name=name, leaders=leaders, reasons=LEADER_REASONS)


def scrub_page(name: str, scrub: ScrubSummary, shell: Shell = NO_SHELL) -> str:
    """
    Return the page of a scrub.

    :param name: name of the scrub.
    :param scrub: its document.
    :param shell: what stands around the page.
    """
    return render("scrub.html", shell, name=name, scrub=scrub, meanings=SCRUB_CLASSES, no_price=NO_PRICE)


@dataclass(frozen=True, slots=True)
class ScrubTopicsPart:
    """
    The topics of the plan of a scrub that its page shows.

    :param rows: the largest.
    :param more: how many there are besides.
    :param why_not: why they cannot be shown, empty if they can.
    """

    rows: Sequence[ScrubbedTopicRow] = ()
    more: int = 0
    why_not: str = ""


def scrub_plan_page(name: str, plan: ScrubPlan, shell: Shell = NO_SHELL, topics: ScrubTopicsPart | None = None) -> str:
    """
    Return the page of a plan that was made from a scrub.

    :param name: name of the plan.
    :param plan: its document.
    :param shell: what stands around the page.
    :param topics: whose objects it names, ``None`` where that is not shown.
    """
    values = {"plan": plan, "meanings": SCRUB_CLASSES, "topics": topics}
    return render("scrub_plan.html", shell, name=name, no_price=NO_PRICE, **values)


def _unsealed(read: Callable[[str], T]) -> Callable[[Mapping[str, Any]], T]:
    return lambda document: read(json.dumps(document))


@dataclass(frozen=True, slots=True)
class DocumentPage(Generic[T]):
    """A document that a task wrote, and how it is shown."""

    title: str  # what the page is called
    file: str  # its name in the run's folder
    read: Callable[[Mapping[str, Any]], T]  # the strict reader
    page: Callable[[str, T, Shell], str]  # its page

    def show(self, name: str, document: Mapping[str, Any], shell: Shell = NO_SHELL) -> str:
        """
        Read a document, and return its page.

        :param name: name of the run.
        :param document: as it was written.
        :param shell: what stands around the page.
        :raises ValueError: if it does not have its form.
        :raises PlanError: likewise, of a plan or a scrub.
        """
        return self.page(name, self.read(document), shell)


DOCUMENT_PAGES: Mapping[str, DocumentPage[Any]] = {
    "plans": DocumentPage("Plan", SUMMARY_NAME, _unsealed(PlanSummary.from_json), plan_page),
    "reports": DocumentPage("Report", REPORT_DOCUMENT, read_report, report_page),
    "doctor": DocumentPage("Doctor", DOCTOR_DOCUMENT, read_diagnosis, doctor_page),
    "leaders": DocumentPage("Leaders", LEADER_RETENTION_DOCUMENT, _unsealed(ReportedLeaders.from_json), leaders_page),
    "scrubs": DocumentPage("Scrub", SCRUB_DOCUMENT, _unsealed(ScrubSummary.from_json), scrub_page),
    "scrub-plans": DocumentPage("Scrub plan", SCRUB_PLAN_DOCUMENT, _unsealed(ScrubPlan.from_json), scrub_plan_page),
}
"""Page as in its address → the document that it shows."""


def error_page(status: HTTPStatus, what: str, what_to_do: str, shell: Shell = NO_SHELL) -> str:
    """
    Return the page that stands in the place of another.

    :param status: what kind of failure it is.
    :param what: what is wrong.
    :param what_to_do: what a reader can do about it.
    :param shell: what stands around the page.
    """
    return render("error.html", shell, status=status.value, title=status.phrase, what=what, what_to_do=what_to_do)
