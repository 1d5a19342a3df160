# SPDX-License-Identifier: Apache-2.0
"""Commands of a cleanup: plan, clean. They are the steps of the DAG ``remote_log_cleaner``, one after another."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from airflow_provider_rlmm.cli.cleanup_words import say_plan, say_planned_topics, say_totals
from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.cli.face import in_terminal
from airflow_provider_rlmm.cli.help import command
from airflow_provider_rlmm.cli.interrupts import was_interrupted
from airflow_provider_rlmm.cli.options import (
    Invocation,
    archive_option,
    max_minutes_option,
    only_option,
    with_blast_radius,
    with_confirmation,
    with_limits,
    with_storage,
)
from airflow_provider_rlmm.cli.output import Working, working
from airflow_provider_rlmm.cli.runs import (
    Run,
    acknowledgements_option,
    begin,
    execute_option,
    keep_summary,
    price_of,
    read_acknowledgements,
    say_judgement,
    say_only,
)
from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.base.errors import RlmmError
from airflow_provider_rlmm.core.plans.guards import BlastRadius, CleanerLimits
from airflow_provider_rlmm.core.world.only import Only

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.log.floored_log import Confirmation
    from airflow_provider_rlmm.core.plans.plan import PlanSummary
    from airflow_provider_rlmm.features.cleanup.run_report import RunReport

logger = logging.getLogger(__name__)

_MOST_TOPICS = 20


@command("plan")
@only_option
@with_limits
@with_blast_radius
@with_storage
def plan_command(
    invocation: Invocation,
    limits: CleanerLimits,
    blast_radius: BlastRadius,
    max_segments_this_run: int | None,
    only: tuple[str, ...],
) -> int:
    """Check cluster, clock and storage root, and write down every segment that a run would delete now; nothing is changed."""
    run = begin(invocation, "plan", execute=False, only=Only.of(*only))
    with working() as shown:
        summary = _planned(run, shown, limits, blast_radius, max_segments_this_run, marks=False)
    if invocation.output.as_json:
        invocation.output.document(json.loads(summary.to_json()) | {"plan": run.uri})
    say_plan(invocation, summary, run)
    stopped = not summary.within_blast_radius or any(r.kind.needs_person for r in summary.refusals)
    return ExitCode.NEEDS_A_PERSON if stopped else ExitCode.DONE


@command("clean")
@only_option
@archive_option
@click.option(
    "--archive-first", is_flag=True, help="Archive what the plan names, and delete only what compares; needs --archive."
)
@with_limits
@max_minutes_option
@with_blast_radius
@execute_option
@with_confirmation
@acknowledgements_option
@click.option(
    "--processes",
    type=click.IntRange(1),
    help="Clean metadata partitions side by side in so many processes at most.  [default: as many as there are cores, where "
    "there is much to delete]",
)
@with_storage
def clean_command(
    invocation: Invocation,
    limits: CleanerLimits,
    blast_radius: BlastRadius,
    max_segments_this_run: int | None,
    execute: bool,
    confirm: Confirmation,
    acknowledgements: str | None,
    archive_first: bool,
    processes: int | None,
    only: tuple[str, ...],
) -> int:
    """
    Delete what deleted topics left behind: check, mark, plan, clean, report.

    The first run that may write marks; what was marked --min-absence-ms ago is deleted. Without --execute nothing is written:
    the report says what would be. The next run goes on with an interrupted one.
    """
    from airflow_provider_rlmm.features.archiving.steps import archive_wanted
    from airflow_provider_rlmm.overview.housekeeping import tidy_up

    run, now_ms = begin(invocation, "clean", execute=execute, confirm=confirm, only=Only.of(*only)), system_clock()
    began_at_ms, said = now_ms, read_acknowledgements(acknowledgements, now_ms)
    with working() as shown:
        most, settings = max_segments_this_run, run.invocation.configuration().settings
        archive_first = archive_wanted(settings, archive_first)
        summary = _planned(run, shown, limits, blast_radius, most, marks=True, archive_first=archive_first)
        failed = 0
        if summary.within_blast_radius:
            failed = _clean_all(run, shown, limits, summary, archive_first, processes)
    report, path = _reported(run, failed, said, now_ms)
    tidy_up(
        run.work_uri, summary.cluster_id, run.name, since_ms=summary.created_at_ms, keep_runs_days=0, keep_audit_days=0
    )
    if invocation.output.as_json:
        invocation.output.document(report.document.to_dict() | {"report": path})
    say_only(invocation, summary)
    if not execute:
        say_planned_topics(invocation, summary, run)
    say_totals(invocation, report.document, path)
    say_judgement(invocation, report.judgement)
    unkept = _keep_summary(run, report, began_at_ms) if execute else ""
    if unkept:
        invocation.output.line(unkept, red=True)
    return ExitCode.NEEDS_A_PERSON if report.judgement.failing or unkept else ExitCode.DONE


COMMANDS = (plan_command, clean_command)


def _planned(
    run: Run,
    shown: Working,
    limits: CleanerLimits,
    blast_radius: BlastRadius,
    most: int | None,
    *,
    marks: bool,
    archive_first: bool = False,
) -> PlanSummary:
    """Check, mark and plan, in one session."""
    from airflow_provider_rlmm.features.cleanup.checking import check
    from airflow_provider_rlmm.features.cleanup.steps import mark, plan

    with run.session(limits, shown) as session:
        dry_run = not run.execute
        verified = check(session, run.uri, limits=limits, dry_run=dry_run, archive_first=archive_first)
        for subject, sentence in verified.items():
            logger.info("%s: %s", subject, sentence)
        if marks:
            mark(session, run.uri, limits=limits, dry_run=not run.execute)
        return plan(
            session,
            run.uri,
            run.name,
            limits=limits,
            blast_radius=blast_radius,
            max_segments=most,
            price=price_of(run.invocation),
        )


def _clean_all(
    run: Run, shown: Working, limits: CleanerLimits, summary: PlanSummary, archive_first: bool, processes: int | None
) -> int:
    """Archive, if that is asked for, and clean each metadata partition; return how many steps an error has ended."""
    from airflow_provider_rlmm.cli.cleaning_processes import clean_side_by_side, processes_of
    from airflow_provider_rlmm.features.archiving.steps import archive_plan

    if run.execute and archive_first:
        try:
            with run.session(limits, shown) as session:
                archive_plan(session, run.uri, run.name, summary)
        except RlmmError as e:
            if was_interrupted():
                raise
            click.echo(f"rlmm: nothing is deleted, as it is not archived: {in_terminal(str(e))}", err=True)
            return 1
    if limits.objects_per_second is None:
        limits = replace(limits, objects_per_second=run.invocation.configuration().settings.objects_per_second)
    count = processes_of(summary, processes, limits.objects_per_second)
    if count > 1:
        return clean_side_by_side(run, summary, limits, count, shown, archive_first=archive_first)
    return _clean_in_turn(run, shown, limits, summary, archive_first)


def _clean_in_turn(run: Run, shown: Working, limits: CleanerLimits, summary: PlanSummary, archive_first: bool) -> int:
    """Clean each metadata partition here, one after another; return how many of them an error has ended."""
    from airflow_provider_rlmm.features.cleanup.steps import clean

    failed = 0
    for metadata_partition in sorted(summary.by_metadata_partition):
        try:
            with run.session(limits, shown) as session:
                clean(
                    session,
                    run.uri,
                    summary,
                    metadata_partition,
                    limits=limits,
                    dry_run=not run.execute,
                    run=run.identity,
                    archive_first=archive_first,
                )
        except RlmmError as e:
            if was_interrupted():
                # A client has made an error of it: nothing more is to be begun.
                raise
            failed += 1
            click.echo(f"rlmm: metadata partition {metadata_partition}: {in_terminal(str(e))}", err=True)
    return failed


def _reported(run: Run, failed: int, said: Any, now_ms: int) -> tuple[RunReport, str]:
    """Put what the steps have left into the report of the run, and write it."""
    from airflow_provider_rlmm.core.base.work_folder import REPORT_DOCUMENT
    from airflow_provider_rlmm.core.plans.plan_files import write_document
    from airflow_provider_rlmm.features.cleanup.run_report import report_of_run

    report = report_of_run(
        run.uri,
        run.name,
        failed_tasks=failed,
        marked=True,
        dry_run=not run.execute,
        acknowledgements=said,
        now_ms=now_ms,
    )
    return report, write_document(run.uri, REPORT_DOCUMENT, json.dumps(report.document.to_dict(), indent=2))


def _keep_summary(run: Run, report: RunReport, began_at_ms: int) -> str:
    """Keep the summary of a run that has written; return why that failed, empty where it did not."""
    from airflow_provider_rlmm.overview.history import summary_of_cleanup

    # A run with a report has a plan, and a plan has a cluster.
    cluster_id = str(report.document.cluster_id)
    return keep_summary(run, began_at_ms, lambda facts: summary_of_cleanup(run.work_uri, facts, cluster_id, report))
