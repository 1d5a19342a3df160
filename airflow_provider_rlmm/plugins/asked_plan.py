# SPDX-License-Identifier: Apache-2.0
"""The plan that a person is asked to approve, as the page shows it: which topics, how much, by which limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import DocumentError, PlanError
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.plans.approval import ApprovalRequest
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.plan import PlanSummary, Reason
from airflow_provider_rlmm.features.scrub.scrub_plan import ScrubPlan
from airflow_provider_rlmm.overview.documents import read_json_object
from airflow_provider_rlmm.plugins.pages import DOCUMENT_PAGES
from airflow_provider_rlmm.plugins.plan_rows import MAX_ROWS, PlannedTopicRow, planned_topics
from airflow_provider_rlmm.plugins.raised_limits import raised_limits
from airflow_provider_rlmm.plugins.scrub_plan_topics import ScrubbedTopicRow, scrubbed_topics

SHOWN_TOPICS: Final = 10
"""Topics that a request on the page names, the largest first; the page of the plan names all."""

_PAGES: Final = ("plans", "scrub-plans")


@dataclass(frozen=True, slots=True)
class AskedPlan:
    """
    What would go if a person approves.

    :param page: kind of the page of the plan.
    :param sha256: of the plan, as its summary says.
    :param planned: what it would delete.
    :param objects: of a scrub's plan, how many objects it names; ``None`` of a cleaner's.
    :param classes: of a scrub's plan, the objects of each class; none of a cleaner's.
    :param topics: the largest, :data:`SHOWN_TOPICS` at most.
    :param more_topics: how many there are besides.
    :param untold: why no topics are shown, empty where they are.
    :param raised: limits that are raised for this run, in words.
    :param only: the topics that it is for, in words; empty where that is all of them.
    :param expires_at_ms: when it may no longer be applied, ms since the epoch.
    """

    page: str
    sha256: str
    planned: Count
    objects: int | None
    classes: Mapping[str, int]
    topics: Sequence[PlannedTopicRow | ScrubbedTopicRow]
    more_topics: int
    untold: str
    raised: Sequence[str]
    only: str
    expires_at_ms: int

    @property
    def in_words(self) -> str:
        """How much it would delete."""
        segments = number_of(self.planned.segments, "segment")
        objects = "" if self.objects is None else f"{number_of(self.objects, 'object')} of "
        return f"{objects}{segments}, {human_bytes(self.planned.bytes)}"


def asked_plan(work_uri: str, artifact: str, names: set[str], asked: ApprovalRequest) -> AskedPlan:
    """
    Return the plan that a person is asked to approve.

    :param work_uri: the work folder.
    :param artifact: name of the folder of the run.
    :param names: of the files there.
    :param asked: what was asked.
    :raises DocumentError: if it cannot be shown, or is not the one that was asked for: the page has no button for it then.
    """
    kind = next((page for page in _PAGES if DOCUMENT_PAGES[page].file in names), None)
    if kind is None:
        raise DocumentError(f"{artifact} has no plan")
    page = DOCUMENT_PAGES[kind]
    try:
        plan: Any = page.read(read_json_object(work_uri, artifact, page.file))
        topics, total, untold = _topics(work_uri, artifact, plan)
    except (PlanError, ValueError, FileNotFoundError) as e:
        raise DocumentError(f"the plan of {artifact} cannot be shown ({e})") from e
    if (plan.plan_id, plan.sha256) != (asked.plan_id, asked.plan_sha256):
        raise DocumentError(
            f"plan {plan.plan_id} has changed since a person was asked: clear the task approve to ask again"
        )
    of_scrub = isinstance(plan, ScrubPlan)
    return AskedPlan(
        page=kind,
        sha256=plan.sha256,
        planned=plan.planned,
        objects=plan.file.rows if of_scrub else None,
        classes={kind: amount.objects for kind, amount in plan.classes.items()} if of_scrub else {},
        topics=topics,
        more_topics=total - len(topics),
        untold=untold,
        raised=raised_limits(plan),
        only=plan.only_in_words,
        expires_at_ms=plan.expires_at_ms,
    )


def _topics(
    work_uri: str, artifact: str, plan: PlanSummary | ScrubPlan
) -> tuple[Sequence[PlannedTopicRow | ScrubbedTopicRow], int, str]:
    """Return the largest topics, how many there are in all, and why none are shown."""
    if isinstance(plan, PlanSummary):
        found = planned_topics(work_uri, artifact, plan, reason=Reason.ORPHANED.value, rows=SHOWN_TOPICS)
    elif plan.file.rows > MAX_ROWS:
        # Its classes and amounts can be told all the same, and Airflow's own request names the topics.
        return (), 0, f"The plan names more than {MAX_ROWS:,} objects; the request in Airflow names the largest topics"
    else:
        found = scrubbed_topics(work_uri, artifact, plan, SHOWN_TOPICS)
    return found.rows, found.total, ""
