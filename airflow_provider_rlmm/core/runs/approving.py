# SPDX-License-Identifier: Apache-2.0
"""The request to approve a plan, and its answer, in the folder of a run; and the words in which a person is asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, TypeVar

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import duration_in_words, since, time_text
from airflow_provider_rlmm.core.base.errors import NotApprovedError, PlanError
from airflow_provider_rlmm.core.base.quoting import human_bytes, in_markdown, name_in_text
from airflow_provider_rlmm.core.base.work_folder import APPROVAL_DOCUMENT
from airflow_provider_rlmm.core.plans.approval import (
    Approval,
    ApprovalLimits,
    ApprovalRequest,
    approval_needed,
)
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.deletion_plan import DeletionPlan
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.plans.plan_files import PlannedTopic, read_document, write_document

REQUEST_DOCUMENT: Final = "approval-request.json"
SHOWN_TOPICS = 20
"""Topics that a request names, the largest first; the plan names all."""

_T = TypeVar("_T")


def keep_request(uri: str, summary: DeletionPlan, now_ms: int) -> ApprovalRequest:
    """
    Write down which plan a person is asked to approve.

    :param uri: of the folder of the run.
    :param summary: of the plan.
    :param now_ms: ms since the epoch.
    :raises OSError: if it cannot be written.
    """
    request = ApprovalRequest(summary.plan_id, summary.sha256, now_ms)
    write_document(uri, REQUEST_DOCUMENT, json.dumps(request.to_dict(), indent=2))
    return request


def read_request(uri: str) -> ApprovalRequest:
    """
    Return which plan a person was asked to approve.

    :param uri: of the folder of the run.
    :raises NotApprovedError: if no person was asked.
    :raises PlanError: if it cannot be read.
    """
    request = _read(uri, REQUEST_DOCUMENT, ApprovalRequest.of_json)
    if request is None:
        raise NotApprovedError(f"{uri} does not say which plan was to be approved; clear the task approve to ask again")
    return request


def keep_approval(
    uri: str, request: ApprovalRequest, decision: str, decided_by: str | None, decided_at_ms: int
) -> Approval:
    """
    Write down what was answered.

    :param uri: of the folder of the run.
    :param request: what was asked.
    :param decision: ``Approve`` or ``Reject``.
    :param decided_by: name of the user, ``None`` where no answer came in time.
    :param decided_at_ms: ms since the epoch.
    :raises OSError: if it cannot be written.
    """
    approval = Approval(request.plan_id, request.plan_sha256, decision, decided_by, decided_at_ms, request.asked_at_ms)
    write_document(uri, APPROVAL_DOCUMENT, json.dumps(approval.to_dict(), indent=2))
    return approval


def read_approval(uri: str) -> Approval | None:
    """
    Return what was answered, ``None`` where nothing was.

    :param uri: of the folder of the run.
    :raises PlanError: if it cannot be read.
    """
    return _read(uri, APPROVAL_DOCUMENT, Approval.of_json)


def require_approval(uri: str, summary: DeletionPlan, limits: ApprovalLimits) -> Approval | None:
    """
    Return the approval of the plan that is to be applied, ``None`` where none is needed.

    :param uri: of the folder of the run.
    :param summary: of the plan.
    :param limits: the largest plan that needs none.
    :raises NotApprovedError: if one is needed, and no person has approved exactly this plan.
    :raises PlanError: if the answer cannot be read.
    """
    return approval_needed(summary, limits, lambda: read_approval(uri))


def _read(uri: str, name: str, of_json: Callable[[str], _T]) -> _T | None:
    try:
        return of_json(read_document(uri, name))
    except PlanError as e:
        if isinstance(e.__cause__, FileNotFoundError):
            return None
        raise
    except ValueError as e:
        raise PlanError(f"{uri}/{name} does not have the expected form: {e}") from e


def subject_of(summary: PlanSummary, topics: int) -> str:
    """
    Return the headline of a request.

    :param summary: of the plan.
    :param topics: deleted topics of which it names segments.
    """
    return f"Delete {amount_in_words(summary.planned)} of {number_of(topics, 'deleted topic')}?"


def body_of(summary: PlanSummary, topics: list[PlannedTopic], conn_id: str, link: str, wait_ms: int) -> str:
    """
    Return what a request shows, as Markdown; names are data, and nothing of them is Markdown.

    :param summary: of the plan.
    :param topics: whose segments it names, the largest first.
    :param conn_id: connection of type ``rlmm``.
    :param link: address of the plan's page.
    :param wait_ms: for how long an answer is waited for, ms.
    """
    amount = amount_in_words(summary.planned)
    what = f"**{amount}** of {number_of(len(topics), 'deleted topic')} would be deleted for good{age_in_words(topics)}."
    return request_body([what], "names every segment", summary, topics, conn_id, link, wait_ms)


def request_body(
    what: list[str],
    named: str,
    plan: DeletionPlan,
    topics: list[PlannedTopic],
    conn_id: str,
    link: str,
    wait_ms: int,
) -> str:
    """
    Return what any request shows, as Markdown.

    :param what: lines that say what would be deleted.
    :param named: completes "The plan …": what of it names what would be deleted.
    :param plan: to be approved.
    :param topics: of which it names segments or objects, the largest first.
    :param conn_id: connection of type ``rlmm``.
    :param link: address of the plan's page.
    :param wait_ms: for how long an answer is waited for, ms.
    """
    lines = [
        *what,
        "",
        f"- Cluster: {in_markdown(plan.cluster_id)}, connection {in_markdown(conn_id)}",
        f"- [The plan]({link}) {named}. Its checksum begins with {plan.sha256[:12]}",
        f"- It may be applied until {since(plan.expires_at_ms)}",
        *([f"- {in_markdown(plan.only_in_words)}"] if plan.only else []),
        *([f"- {in_markdown(plan.cost_in_words)}"] if plan.price else []),
        "",
        "The largest topics:" if len(topics) > SHOWN_TOPICS else "The topics:",
        "",
        *(_topic_line(topic) for topic in topics[:SHOWN_TOPICS]),
    ]
    if more := topics[SHOWN_TOPICS:]:
        rest = Count(sum(topic.segments for topic in more), sum(topic.bytes for topic in more))
        lines.append(f"- and {number_of(len(more), 'more topic')} with {amount_in_words(rest)}")
    wait = duration_in_words(wait_ms)
    lines += [
        "",
        f"*Approve* deletes what this plan names, and nothing else. *Reject*, or no answer within {wait}, deletes nothing.",
    ]
    return "\n".join(lines)


def age_in_words(topics: list[PlannedTopic]) -> str:
    """Say how old the oldest segment of these topics is; empty where it is not known."""
    oldest = [topic.oldest_ms for topic in topics if topic.oldest_ms > 0]
    return f", the oldest of {_day(min(oldest))}" if oldest else ""


def _topic_line(topic: PlannedTopic) -> str:
    age = f", oldest of {_day(topic.oldest_ms)}" if topic.oldest_ms > 0 else ""
    name = in_markdown(name_in_text(topic.topic))
    return f"- **{name}** ({in_markdown(topic.topic_id)}): {amount_in_words(Count(topic.segments, topic.bytes))}{age}"


def amount_in_words(count: Count) -> str:
    """Say how many segments and bytes something is."""
    return f"{number_of(count.segments, 'segment')}, {human_bytes(count.bytes)}"


def _day(time_ms: int) -> str:
    return time_text(time_ms)[:10]
