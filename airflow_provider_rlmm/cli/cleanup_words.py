# SPDX-License-Identifier: Apache-2.0
"""What the commands of a cleanup say to people: topics, amounts, what was left and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from airflow_provider_rlmm.cli.output import Output
from airflow_provider_rlmm.cli.runs import Run, say_cost_of, say_era, say_only
from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.clock import since
from airflow_provider_rlmm.core.base.quoting import human_bytes

if TYPE_CHECKING:
    from airflow_provider_rlmm.cli.options import Invocation
    from airflow_provider_rlmm.core.plans.plan import PlanSummary
    from airflow_provider_rlmm.core.plans.plan_files import PlannedTopic
    from airflow_provider_rlmm.features.cleanup.report_document import CleanupReport
    from airflow_provider_rlmm.features.cleanup.reports import Marked, MarkedTopic

_MOST_TOPICS = 20


def say_topics(output: Output, topics: Sequence[PlannedTopic | MarkedTopic], title: str) -> None:
    """
    Print topics to people, the first ones by name.

    :param output: what prints.
    :param topics: the largest first.
    :param title: what they are.
    """
    if output.as_json:
        return
    columns = {"topic": "topic", "topic_id": "topic id", "segments": "segments", "bytes": "size"}
    output.rows((asdict(topic) for topic in topics[:_MOST_TOPICS]), columns, title)
    if (more := len(topics) - _MOST_TOPICS) > 0:
        rest = topics[_MOST_TOPICS:]
        segments, size = sum(topic.segments for topic in rest), sum(topic.bytes for topic in rest)
        output.line(f"and {number_of(more, 'more topic')} with {number_of(segments, 'segment')}, {human_bytes(size)}")


def say_planned_topics(invocation: Invocation, summary: PlanSummary, run: Run) -> None:
    """
    Print the topics whose segments a plan names.

    :param invocation: whose output it is.
    :param summary: of the plan.
    :param run: whose plan it is.
    """
    from airflow_provider_rlmm.core.plans.plan_files import planned_topics

    if not invocation.output.as_json:
        say_topics(invocation.output, planned_topics(run.uri, summary), "would be deleted now")


def say_plan(invocation: Invocation, summary: PlanSummary, run: Run) -> None:
    """
    Print what a plan would delete, and what it leaves.

    :param invocation: whose output it is.
    :param summary: of the plan.
    :param run: whose plan it is.
    """
    output, planned, waiting = invocation.output, summary.planned, summary.waiting
    say_only(invocation, summary)
    say_planned_topics(invocation, summary, run)
    output.line(f"{number_of(planned.segments, 'segment')}, {human_bytes(planned.bytes)} would be deleted now.")
    wait = agreeing(waiting.segments, "waits for its time", "wait for their time")
    output.line(f"{number_of(waiting.segments, 'segment')}, {human_bytes(waiting.bytes)} {wait}.")
    say_cost_of(invocation, summary)
    say_era(output, summary.era)
    for refusal in summary.refusals:
        red = refusal.kind.needs_person
        output.line(f"left: {refusal.what}: {refusal.why}. To do: {refusal.what_to_do}", red=red)
    if not summary.within_blast_radius and summary.blast_radius is not None:
        output.line(
            f"It is more than one run may delete: {summary.blast_radius.excess(planned, summary.known)}. To do: "
            f"{summary.blast_radius.remedy(planned, summary.known)}.",
            red=True,
        )
    output.line(f"The plan is {run.uri}")


def _say_marked(output: Output, marked: Marked, *, dry_run: bool) -> None:
    """Print which topics a run has marked, and what that means."""
    say_topics(output, marked.topics, "would be marked now" if dry_run else "marked now")
    every = marked.all
    could = "could be deleted" if dry_run else "may be deleted by a run"
    output.line(
        f"{number_of(every.segments, 'segment')}, {human_bytes(every.bytes)} {could} from {since(marked.eligible_ms)} "
        "on, if these topics stay absent."
    )
    output.line(
        "A marker is a record of the metadata topic: it says since when a topic is known to be gone. It cannot be withdrawn. "
        "It deletes nothing: a run does, if the topic is still gone by then."
    )


def say_totals(invocation: Invocation, report: CleanupReport, path: str) -> None:
    """
    Print what a run has done, or would have.

    :param invocation: whose output it is.
    :param report: of the run.
    :param path: of the report.
    """
    output, totals = invocation.output, report.totals
    if not output.as_json:
        rows = [{"what": name.replace("_", " "), "count": count} for name, count in totals.items() if count]
        heading = "dry run" if report.dry_run else "done"
        if report.stopped:
            heading = "stopped, nothing was deleted"
        output.rows(rows, {"what": "", "count": ""}, heading)
    if report.marked is not None:
        _say_marked(output, report.marked, dry_run=report.dry_run)
    say_cost_of(invocation, report)
    say_era(output, report.era)
    if report.out_of_time is not None:
        output.line(f"{report.out_of_time}.")
    for refusal in report.waiting.refusals:
        output.line(f"waits: {refusal.what}: {refusal.why}. {refusal.what_to_do}")
    for refusal in (*report.not_marked, *report.not_planned):
        output.line(f"left: {refusal.what}: {refusal.why}. To do: {refusal.what_to_do}")
    if report.dry_run:
        output.line("Nothing was written or deleted. To do it: --execute --cluster-id " + (report.cluster_id or "ID"))
    output.line(f"The report is {path}")
