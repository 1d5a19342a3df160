# SPDX-License-Identifier: Apache-2.0
"""The command that tells what the leaders of a living topic delete next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.cli.options import Invocation, with_storage
from airflow_provider_rlmm.cli.output import working
from airflow_provider_rlmm.cli.runs import open_session
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.features.doctor.findings import since

if TYPE_CHECKING:
    from airflow_provider_rlmm.features.retention.leader_pass import PartitionPass
    from airflow_provider_rlmm.features.retention.steps import TopicRetention


@click.command()
@click.argument("topic")
@click.argument("partition", type=click.IntRange(0), required=False)
@click.option("--segments", "by_segment", is_flag=True, help="Print each segment that goes, instead of counts.")
@with_storage
def retention(invocation: Invocation, topic: str, partition: int | None, by_segment: bool) -> int:
    """
    Say which remote segments of a living topic its leaders delete next, by their own rules, and when the next one is due.

    Nothing is changed: leaders do this by themselves. What is told is never more than a leader deletes; "at least" says that
    it may delete more, "unresolved" that nobody can tell. The command ends with exit code 4 then, and where segments are
    overdue: they were due six hours ago as well, so their leader is stuck.
    """
    from airflow_provider_rlmm.features.retention.leader_pass import Certainty
    from airflow_provider_rlmm.features.retention.steps import retention_of_topic

    with working() as shown, open_session(invocation, CleanerLimits(), shown) as session:
        done = retention_of_topic(session, topic, None if partition is None else [partition])
    found = done.partitions
    if by_segment:
        _print_segments(invocation, found)
    else:
        _print_partitions(invocation, done)
    for one in found if not invocation.output.as_json else ():
        for why in one.why:
            style = "bold red" if one.certainty is Certainty.UNRESOLVED else ""
            invocation.output.line(f"partition {one.topic_id_partition.partition}, {one.certainty}: {why}.", style)
    if done.not_judged is not None:
        invocation.output.line(f"nobody can tell whether anything is overdue: {done.not_judged}.", "bold red")
    for late in done.overdue.values():
        count = f"{late.count.segments:,} segments, {human_bytes(late.count.bytes)}"
        since_then = f"are overdue, seen due since {since(late.since_ms)}"
        invocation.output.problem(
            f"needs a person: partition {late.partition}: {count}, {since_then}: {late.what_to_do}."
        )
    unresolved = any(one.certainty is Certainty.UNRESOLVED for one in found)
    return ExitCode.NEEDS_A_PERSON if unresolved or done.overdue else ExitCode.DONE


def _print_partitions(invocation: Invocation, done: TopicRetention) -> None:
    columns = {
        "partition": "partition", "certainty": "told", "segments": "go now", "bytes": "bytes", "next_due": "next by time",
        "overdue_segments": "overdue", "kept_segments": "stay", "foreign_segments": "of other lineages",
        "leaked_segments": "leaked",
    }  # fmt: skip
    late = {partition: one.count.segments for partition, one in done.overdue.items()}
    judged = done.not_judged is None
    rows = [
        {**_counts(one), "overdue_segments": late.get(one.topic_id_partition.partition, 0) if judged else None}
        for one in done.partitions
    ]
    if not invocation.output.as_json:
        rows = [{**row, "bytes": human_bytes(row["bytes"]), "next_due": _next(row["next_due_ms"])} for row in rows]
    invocation.output.rows(rows, columns, "user partitions")


def _counts(one: PartitionPass) -> dict[str, Any]:
    by_reason = one.by_reason
    return {
        "partition": one.topic_id_partition.partition,
        "certainty": one.certainty.value,
        "why": list(one.why),
        "log_start_offset": one.log_start_offset,
        "segments": sum(count.segments for count in by_reason.values()),
        "bytes": sum(count.bytes for count in by_reason.values()),
        "by_reason": {reason: {"segments": c.segments, "bytes": c.bytes} for reason, c in sorted(by_reason.items())},
        "next_due_ms": one.next_due_ms,
        "kept_segments": one.kept.segments,
        "kept_bytes": one.kept.bytes,
        "foreign_segments": one.foreign.segments,
        "undecided_segments": one.undecided.segments,
        "leaked_segments": one.leaked.segments,
    }


def _next(due_ms: int | None) -> str | None:
    return None if due_ms is None else since(due_ms)


def _print_segments(invocation: Invocation, found: list[PartitionPass]) -> None:
    columns = {
        "partition": "partition", "segment_id": "segment id", "start_offset": "from", "end_offset": "to", "bytes": "bytes",
        "reason": "reason", "exact": "certain",
    }  # fmt: skip
    invocation.output.rows(_segments(found), columns, "segments")


def _segments(found: list[PartitionPass]) -> Iterator[dict[str, Any]]:
    for one in found:
        for expired in one.found.expired if one.found else ():
            metadata = expired.segment
            yield {
                "partition": one.topic_id_partition.partition,
                "certainty": one.certainty.value,
                "segment_id": str(metadata.remote_log_segment_id.id),
                "start_offset": metadata.start_offset,
                "end_offset": metadata.end_offset,
                "bytes": metadata.segment_size_in_bytes,
                "reason": expired.reason.value,
                "exact": expired.exact,
            }


COMMANDS = (retention,)
