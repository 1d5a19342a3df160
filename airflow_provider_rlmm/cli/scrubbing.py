# SPDX-License-Identifier: Apache-2.0
"""The command of the scrub: the steps of the DAG ``remote_storage_scrub``, one after another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.cli.help import command
from airflow_provider_rlmm.cli.options import (
    Invocation,
    max_copy_option,
    only_option,
    option_of,
    override_option,
    with_blast_radius,
    with_confirmation,
    with_storage,
)
from airflow_provider_rlmm.cli.output import Output, working
from airflow_provider_rlmm.cli.runs import (
    Run,
    acknowledgements_option,
    begin_to_ask,
    confirmed,
    execute_option,
    judged,
    keep_summary,
    month_column,
    price_of,
    say_cost_of,
    say_era,
    say_judgement,
    say_only,
)
from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.clock import DAY_MS, system_clock
from airflow_provider_rlmm.core.base.documents import plain_of
from airflow_provider_rlmm.core.base.quoting import human_bytes, in_quotes
from airflow_provider_rlmm.core.plans import limits as declared
from airflow_provider_rlmm.core.plans.guards import BlastRadius, ScrubLimits
from airflow_provider_rlmm.core.plans.prices import money
from airflow_provider_rlmm.core.runs import connection_fields as connection
from airflow_provider_rlmm.core.world.only import Only

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.log.floored_log import Confirmation
    from airflow_provider_rlmm.core.runs.attention import Judgement
    from airflow_provider_rlmm.features.scrub.scrub_cleaner import ScrubDeletion
    from airflow_provider_rlmm.features.scrub.scrub_plan import ScrubPlan
    from airflow_provider_rlmm.features.scrub.scrub_summary import ScrubSummary
    from airflow_provider_rlmm.overview.run_summaries import RunFacts
    from airflow_provider_rlmm.overview.run_summary import RunSummary

_MOST_TOPICS = 20


@command()
@option_of(
    declared.MIN_UNREFERENCED,
    "How far apart two scrubs must be that find an object without a record",
    has_default=True,
)
@option_of(
    declared.MIN_ABSENCE,
    "How long ago the topic of such an object must have been marked as deleted",
    has_default=True,
)
@max_copy_option
@override_option
@option_of(connection.SOLE_OWNER, "No other system keeps objects of this layout in this storage")
@only_option
@with_blast_radius
@execute_option
@with_confirmation
@acknowledgements_option
@with_storage
def scrub(
    invocation: Invocation,
    min_unreferenced_ms: int,
    min_absence_ms: int,
    max_copy_ms: int,
    overrides: tuple[str, ...],
    blast_radius: BlastRadius,
    max_segments_this_run: int | None,
    execute: bool,
    confirm: Confirmation,
    acknowledgements: str | None,
    only: tuple[str, ...],
) -> int:
    """
    Compare storage and metadata topic, both ways: what one of them forgot.

    Without --execute nothing is deleted. With it go the objects of finished segments, and those that no record has named at
    two scrubs, --min-unreferenced-ms apart, of topics that are deleted and marked.
    """
    from airflow_provider_rlmm.features.scrub import steps
    from airflow_provider_rlmm.features.scrub.scrub_files import open_scrub, problems_of
    from airflow_provider_rlmm.overview.housekeeping import tidy_up

    limits = ScrubLimits(
        min_unreferenced_ms=min_unreferenced_ms, min_absence_ms=min_absence_ms, overrides=frozenset(overrides)
    )
    began_at_ms = system_clock()
    run = begin_to_ask(invocation, "scrub", execute=execute, confirm=confirm, only=Only.of(*only))
    with working() as shown, run.session(limits.of_the_cleaner, shown) as session:
        summary = steps.scrub(
            session,
            run.uri_of,
            run.name,
            limits=limits.of_the_cleaner,
            max_copy_ms=max_copy_ms,
            price=price_of(invocation),
        )
        plan = steps.plan(
            session,
            run.uri,
            limits=limits,
            blast_radius=blast_radius,
            max_segments=max_segments_this_run,
            expires_in_ms=DAY_MS,
        )
    with open_scrub(run.uri) as (_, rows):
        problems = problems_of(summary, rows)
    deletion: ScrubDeletion | None = None
    if execute and (plan.file.rows or run.execute):
        plan.check_blast_radius()
        # The user who names the cluster knows what goes.
        run = confirmed(run, would_go(plan))
        with working() as shown:
            opened = run.session(limits.of_the_cleaner, shown)
            deletion = steps.delete(opened, run.uri, limits=limits, dry_run=False, run=run.identity)
            since_ms = summary.began_at_ms
            tidy_up(run.work_uri, summary.cluster_id, run.name, since_ms=since_ms, keep_runs_days=0, keep_audit_days=0)
        problems += deletion.problems()
    judgement = judged(problems, acknowledgements, summary.cluster_id)
    unkept = ""
    if deletion is not None:
        summarise = partial(_summary, run, summary, deletion, judgement)
        unkept = keep_summary(run, began_at_ms, summarise)
    document = json.loads(summary.to_json()) | {
        "planned": {
            "objects": plan.file.rows,
            "segments": plan.planned.segments,
            "bytes": plan.planned.bytes,
            "early": None if plan.early is None else plain_of(plan.early),
        },
        "deletion": None if deletion is None else deletion.counts(),
        "month_micros": {kind: summary.month(kind, amount) for kind, amount in summary.classes.items()},
        "scrub": run.uri,
    }
    if invocation.output.as_json:
        invocation.output.document(document)
    _say(invocation, summary, plan, document, run)
    say_judgement(invocation, judgement)
    if unkept:
        invocation.output.problem(unkept)
    return ExitCode.NEEDS_A_PERSON if judgement.failing or unkept else ExitCode.DONE


def _summary(
    run: Run, summary: ScrubSummary, deletion: ScrubDeletion, judgement: Judgement, facts: RunFacts
) -> RunSummary:
    from airflow_provider_rlmm.overview.history import summary_of_scrub

    return summary_of_scrub(run.work_uri, facts, summary, deletion, judgement)


def would_go(plan: ScrubPlan) -> str:
    """
    Say what a plan would delete: how much, and of which classes.

    :param plan: made from a scrub.
    """
    classes = "".join(
        f"\n  {kind}: {number_of(amount.objects, 'object')}, {human_bytes(amount.bytes)}"
        for kind, amount in sorted(plan.classes.items())
    )
    objects, size, segments = plan.file.rows, human_bytes(plan.planned.bytes), plan.planned.segments
    only = f"\n{plan.only_in_words}" if plan.only else ""
    return f"This run deletes {number_of(objects, 'object')}, {size}, of {number_of(segments, 'segment')}:{classes}{only}\n"


def _say(invocation: Invocation, summary: ScrubSummary, plan: ScrubPlan, document: dict[str, Any], run: Run) -> None:
    output = invocation.output
    rows = [
        {
            "class": kind,
            "objects": amount.objects,
            "bytes": amount.bytes,
            "month_micros": summary.month(kind, amount),
        }
        for kind, amount in summary.classes.items()
    ]
    if not output.as_json:
        columns = {"objects": "objects", "bytes": "size", **month_column(summary.price)}
        output.rows(rows, {"class": "class", **columns}, "objects, by class")
        _say_topics(output, summary, columns)
    output.line(
        f"{number_of(summary.listed.objects, 'object')}, {human_bytes(summary.listed.bytes)} "
        f"{agreeing(summary.listed.objects, 'was', 'were')} listed."
    )
    if summary.price and (listing := summary.price.listing(summary.listed.objects)) is not None:
        output.line(f"To list them costs {money(listing)} at least.")
    say_era(output, summary.era)
    for forgotten in summary.forgotten:
        if not (forgotten.objects or forgotten.why):
            output.line(
                f"Nothing lies below the key prefix {in_quotes(forgotten.prefix)}, which finished segments name and the "
                "connection does not."
            )
    say_only(invocation, plan)
    planned = document["planned"]
    output.line(f"{number_of(planned['objects'], 'object')}, {human_bytes(planned['bytes'])} may go now.")
    say_cost_of(invocation, plan)
    if document["deletion"] is not None:
        output.line(deleted_in_words(document["deletion"]))
    output.line(f"The scrub is {run.uri}")


def _say_topics(output: Output, summary: ScrubSummary, columns: Mapping[str, str]) -> None:
    """Print which topics have objects that are not in use."""
    shown = summary.topics[:_MOST_TOPICS]
    rows = (
        {
            "topic": one.topic,
            "topic_id": one.topic_id,
            "class": one.kind.value,
            "objects": one.objects,
            "bytes": one.bytes,
            "month_micros": summary.month(one.kind.value, one),
        }
        for one in shown
    )
    named = {"topic": "topic", "topic_id": "topic id", "class": "class"}
    output.rows(rows, {**named, **columns}, "by topic, the largest first; what is in use is left out")
    if more := len(summary.topics) + summary.topics_left_out - len(shown):
        output.line(f"and {number_of(more, 'more row')}; the pages list them")


def deleted_in_words(counts: Mapping[str, Any]) -> str:
    """
    Say what a scrub has deleted, and what it left.

    :param counts: of :meth:`~airflow_provider_rlmm.features.scrub.scrub_cleaner.ScrubDeletion.counts`.
    """
    deleted = [
        f"{number_of(amount['objects'], f'{kind} object')}, {human_bytes(amount['bytes'])}"
        for kind, amount in counts["deleted"].items()
    ]
    others = (
        ("was gone before", "were gone before", counts["gone_before"]),
        ("is on hold", "are on hold", counts["held"]),
        ("is still there", "are still there", counts["left"]),
        ("of these must stay", "of these must stay", counts["barred"]),
        ("empty folder is removed", "empty folders are removed", counts["folders_removed"]),
    )
    said = [number_of(number, one, many) for one, many, number in others if number]
    return f"Deleted: {'; '.join(deleted) or 'nothing'}.{' Besides: ' + ', '.join(said) + '.' if said else ''}"


COMMANDS = (scrub,)
