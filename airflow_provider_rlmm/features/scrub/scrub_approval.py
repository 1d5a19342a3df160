# SPDX-License-Identifier: Apache-2.0
"""The words in which a person is asked to approve what a scrub would delete."""

from __future__ import annotations

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.quoting import human_bytes, in_markdown
from airflow_provider_rlmm.core.plans.plan_files import PlannedTopic
from airflow_provider_rlmm.core.runs.approving import age_in_words, amount_in_words, request_body
from airflow_provider_rlmm.features.scrub.scrub_plan import ScrubPlan


def scrub_subject_of(plan: ScrubPlan) -> str:
    """
    Return the headline of a request for what a scrub has found.

    :param plan: made from the scrub.
    """
    return f"Delete {number_of(plan.file.rows, 'object')} of {amount_in_words(plan.planned)}, which a scrub has found?"


def scrub_body_of(plan: ScrubPlan, topics: list[PlannedTopic], conn_id: str, link: str, wait_ms: int) -> str:
    """
    Return what a request for what a scrub has found shows, as Markdown.

    :param plan: made from the scrub.
    :param topics: whose objects it names, the largest first; living ones may be among them.
    :param conn_id: connection of type ``rlmm``.
    :param link: address of the plan's page.
    :param wait_ms: for how long an answer is waited for, ms.
    """
    amount = amount_in_words(plan.planned)
    what = f"**{number_of(plan.file.rows, 'object')}** of {amount} would be deleted for good{age_in_words(topics)}."
    classes = [
        f"- {in_markdown(kind)}: {number_of(amount.objects, 'object')}, {human_bytes(amount.bytes)}"
        for kind, amount in sorted(plan.classes.items())
    ]
    return request_body(
        [what, "", *classes], "counts them, its table names every object", plan, topics, conn_id, link, wait_ms
    )
