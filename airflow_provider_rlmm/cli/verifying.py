# SPDX-License-Identifier: Apache-2.0
"""The command of the scrub of contents: are the bytes of copied segments what brokers have written?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.cli.help import command
from airflow_provider_rlmm.cli.options import Invocation, with_storage
from airflow_provider_rlmm.cli.output import Output, working
from airflow_provider_rlmm.cli.runs import begin
from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.plans.guards import CleanerLimits

if TYPE_CHECKING:
    from airflow_provider_rlmm.features.contents.report_document import ContentsReport

_SHOWN_FINDINGS = 20


@command()
@click.option("--topic", "topics", metavar="NAME|ID", multiple=True, help="Only this topic; several times.")
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    default=1.0,
    show_default=True,
    help="Which share of each topic's segments is looked at; those first that were looked at the longest ago.",
)
@click.option(
    "--seed", metavar="TEXT", help="Decides between segments looked at equally long ago.  [default: the run's name]"
)
@click.option("--allow-gaps", is_flag=True, help="Offsets may be missing: the topic was compacted once.")
@click.option("--bytes-per-second", type=click.IntRange(1), help="The most that is fetched in a second.")
@click.option(
    "--at-once", type=click.IntRange(1, 64), default=4, show_default=True, help="Segments that are read at once."
)
@with_storage
def verify(
    invocation: Invocation,
    topics: tuple[str, ...],
    share: float,
    seed: str | None,
    allow_gaps: bool,
    bytes_per_second: int | None,
    at_once: int,
) -> int:
    """
    Read copied segments and prove log, indexes and metadata by each other; nothing is written there.

    Each checksum is compared, and what no checksum covers by its neighbours. A segment that is damaged or missing, and that
    the log, read again, still calls copied, ends the command with exit code 4.
    """
    from airflow_provider_rlmm.features.contents.rules import Choice
    from airflow_provider_rlmm.features.contents.steps import ContentsRequest, verify_contents

    run = begin(invocation, "verify", execute=False)
    request = ContentsRequest(
        choice=Choice(topics=topics, share=share, seed=run.name if seed is None else seed),
        may_have_gaps=allow_gaps,
        bytes_per_second=bytes_per_second,
        at_once=at_once,
    )
    with working() as shown, run.session(CleanerLimits(), shown) as session:
        report = verify_contents(
            session,
            run.uri,
            run.name,
            request,
            shown.on_step,
            on_foretold=lambda foretold: click.echo(f"rlmm: {foretold.in_words}", err=True),
        )
    problems = list(report.problems())
    if invocation.output.as_json:
        invocation.output.document(json.loads(report.to_json()))
    for problem in problems:
        invocation.output.problem(f"needs a person: {problem}")
    _say(invocation.output, report, f"{run.uri}/contents.json")
    return ExitCode.NEEDS_A_PERSON if problems else ExitCode.DONE


COMMANDS = (verify,)


def _say(output: Output, report: ContentsReport, where: str) -> None:
    if output.as_json:
        return
    found = [
        {"outcome": name, "segments": amount.segments, "bytes": amount.bytes}
        for name, amount in report.outcomes.items()
        if amount.segments
    ]
    output.rows(found, {"outcome": "outcome", "segments": "segments", "bytes": "size of the logs"}, "segments")
    if report.findings:
        rows = [
            {"segment_id": f.segment_id, "part": f.part, "kind": f.kind.value, "position": f.position, "why": f.why}
            for f in report.findings[:_SHOWN_FINDINGS]
        ]
        columns = {"segment_id": "segment", "part": "part", "kind": "kind", "position": "byte", "why": "why"}
        output.rows(rows, columns, "findings")
        if more := len(report.findings) + report.findings_left_out - len(rows):
            output.line(f"and {more:,} more")
    for index, segments in report.not_compared.items():
        output.line(
            f"The {index} index of {number_of(segments, 'segment')} was not compared: the layout does not say where it lies."
        )
    output.line(f"{report.share_in_words}.")
    output.line(f"{number_of(report.requests, 'read has', 'reads have')} brought {human_bytes(report.fetched_bytes)}.")
    output.line(f"The report is {where}")
