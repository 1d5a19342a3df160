# SPDX-License-Identifier: Apache-2.0
"""The command that tells what the leaders of living topics delete next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.cli.help import command
from airflow_provider_rlmm.cli.options import Invocation, with_storage
from airflow_provider_rlmm.cli.output import working
from airflow_provider_rlmm.cli.runs import PROGRAM, open_session
from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import since
from airflow_provider_rlmm.core.base.quoting import human_bytes, name_in_text
from airflow_provider_rlmm.core.plans.counts import Count, added_up
from airflow_provider_rlmm.core.plans.guards import CleanerLimits

if TYPE_CHECKING:
    from airflow_provider_rlmm.features.retention.hanging_copies import HangingCopies
    from airflow_provider_rlmm.features.retention.leader_pass import PartitionPass
    from airflow_provider_rlmm.features.retention.leader_retention import LeaderRetention, TopicSum
    from airflow_provider_rlmm.features.retention.overdue import Overdue

_REASONS_SHOWN = 3
"""Reasons of a topic for which nothing is told of some user partitions; the command tells all of them where it is named."""


@command()
@click.argument("topic", required=False)
@click.argument("partition", type=click.IntRange(0), required=False)
@click.option("--segments", "by_segment", is_flag=True, help="Print each segment that goes, instead of counts.")
@with_storage
def retention(invocation: Invocation, topic: str | None, partition: int | None, by_segment: bool) -> int:
    """
    Say which remote segments of living topics their leaders delete next, by their own rules, and when the next one is due.

    Without TOPIC the sums of all topics are told. Nothing is changed: leaders do this by themselves. What is told is never
    more than a leader deletes; "at least" says that it may delete more, "unresolved" that it cannot be told. The command ends
    with exit code 4 then, where segments are overdue: they were due six hours ago as well, so their leader is stuck; and
    where a leader has stopped copying: what waited in an earlier run still waits.
    """
    from airflow_provider_rlmm.features.retention.steps import report_leaders, retention_of_leaders

    with working() as shown, open_session(invocation, CleanerLimits(), shown) as session:
        done = retention_of_leaders(session, topic, partition, shown.on_step)
        asked_at_ms = session.clock()
        if topic is None:
            report_leaders(session, done, PROGRAM)
    topics = done.topics() if topic is None else None
    _say_overdue(invocation, done)
    _say_hanging(invocation, done, asked_at_ms)
    if by_segment:
        _print_segments(invocation, done)
    elif topics is not None:
        _print_topics(invocation, topics)
    else:
        _print_partitions(invocation, done)
    _say_what_is_not_told(invocation, done, topics, rows_say_why=not by_segment)
    return ExitCode.NEEDS_A_PERSON if done.needs_a_person else ExitCode.DONE


def _say_overdue(invocation: Invocation, done: LeaderRetention) -> None:
    for tip, late in done.overdue.items():
        count = f"{number_of(late.count.segments, 'segment')}, {human_bytes(late.count.bytes)}"
        since_then = f"are overdue, seen due since {since(late.since_ms)}"
        where = f"{name_in_text(tip.topic)}, partition {late.partition}"
        invocation.output.problem(f"needs a person: {where}: {count}, {since_then}: {late.what_to_do}.")


def _say_hanging(invocation: Invocation, done: LeaderRetention, now_ms: int) -> None:
    from airflow_provider_rlmm.features.retention.hanging_copies import in_words

    for tip, one in done.hanging.items():
        where = f"{name_in_text(tip.topic)}, partition {tip.partition}"
        behind = in_words(one.progress, max(0, now_ms - one.since_ms))
        invocation.output.problem(
            f"needs a person: {where}: its leader has stopped copying: {behind}: {one.what_to_do}."
        )


def _say_what_is_not_told(
    invocation: Invocation, done: LeaderRetention, topics: list[TopicSum] | None, *, rows_say_why: bool
) -> None:
    """Say why some things are not told, of all topics or of the one that is named; beside JSON what its rows do not say."""
    output = invocation.output
    for topic, why in done.not_told.items():
        output.problem(f"nothing is told of topic {name_in_text(topic)}: {why}.")
    if not (output.as_json and rows_say_why):
        if topics is None:
            _say_why_of_each(invocation, done)
        else:
            _say_why_by_topic(invocation, topics)
    for why, count in Counter(done.not_judged.values()).items():
        of = "" if topics is None else f" of {number_of(count, 'topic')}"
        output.problem(f"it cannot be told whether anything{of} is overdue, or its leaders copy: {why}.")


def _say_why_of_each(invocation: Invocation, done: LeaderRetention) -> None:
    from airflow_provider_rlmm.core.plans.certainty import Certainty

    for one in done.partitions:
        for why in one.why:
            text = f"partition {one.topic_id_partition.partition}, {one.certainty}: {why}."
            if one.certainty is Certainty.UNRESOLVED:
                invocation.output.problem(text)
            else:
                invocation.output.line(text)


def _say_why_by_topic(invocation: Invocation, topics: list[TopicSum]) -> None:
    from airflow_provider_rlmm.features.retention.leader_retention import in_words

    for one in topics:
        name, shown = name_in_text(one.topic), list(one.unresolved.items())[:_REASONS_SHOWN]
        for why, partitions in shown:
            invocation.output.problem(f"{name}, unresolved, partition {in_words(partitions)}: {why}.")
        if more := len(one.unresolved) - len(shown):
            invocation.output.problem(f"{name}: {number_of(more, 'more reason')}; 'rlmm retention {name}' tells them")


def _print_topics(invocation: Invocation, topics: list[TopicSum]) -> None:
    columns = {
        "topic": "topic", "all": "all", "at_least": "at least", "unresolved": "unresolved", "segments": "go now",
        "bytes": "bytes", "next_due": "next by time", "overdue_segments": "overdue", "overdue_bytes": "of bytes",
        "kept_segments": "stay", "foreign_segments": "of other lineages", "leaked_segments": "leaked",
    }  # fmt: skip
    rows = [_topic_row(one) for one in topics]
    if not invocation.output.as_json:
        rows = [{**row, "next_due": _next(row["next_due_ms"])} for row in rows]
    invocation.output.rows(
        rows, columns, "topics with remote segments, and their user partitions by what is told of them"
    )
    if not invocation.output.as_json and topics:
        total = Count.sum(one.goes for one in topics)
        reasons = added_up(item for one in topics for item in one.by_reason.items())
        by_reason = ", ".join(f"{reason} {_words(count)}" for reason, count in sorted(reasons.items()))
        invocation.output.line(f"{_words(total)} go now{f': {by_reason}' if by_reason else ''}.")
        _say_left_over(invocation, topics)


def _say_left_over(invocation: Invocation, topics: list[TopicSum]) -> None:
    """Say what is in no sum of what leaders delete, or will not go by itself."""
    for what, counts in (
        ("dangle: their copy or deletion was begun days ago and has not ended", [one.dangling for one in topics]),
        (
            "stay: their topic is not tiered any more, and no leader deletes them",
            [one.not_tiered for one in topics],
        ),
        (
            "are leaked: Kafka lists them for none of their leader epochs, so no leader finds them",
            [t.leaked for t in topics],
        ),
    ):
        if (total := Count.sum(counts)).segments:
            of = sum(count.segments > 0 for count in counts)
            invocation.output.line(f"{_words(total)} of {number_of(of, 'topic')} {what}.")


def _words(count: Count) -> str:
    return f"{number_of(count.segments, 'segment')}, {human_bytes(count.bytes)}"


def _topic_row(one: TopicSum) -> dict[str, Any]:
    from airflow_provider_rlmm.core.plans.certainty import Certainty

    late = one.overdue_count
    return {
        "topic": one.topic,
        "topic_id": str(one.topic_id),
        "partitions": sum(one.certainty.values()),
        "all": one.certainty.get(Certainty.ALL, 0),
        "at_least": one.certainty.get(Certainty.AT_LEAST, 0),
        "unresolved": one.certainty.get(Certainty.UNRESOLVED, 0),
        "why_unresolved": [{"why": why, "partitions": list(of)} for why, of in one.unresolved.items()],
        "segments": one.goes.segments,
        "bytes": one.goes.bytes,
        "by_reason": _by_reason(one.by_reason),
        "next_due_ms": one.next_due_ms,
        "overdue_segments": None if late is None else late.segments,
        "overdue_bytes": None if late is None else late.bytes,
        "overdue": [_overdue(late) for late in one.overdue],
        "overdue_not_judged": one.not_judged,
        "hanging": [_hanging(hanging) for hanging in one.hanging],
        "kept_segments": one.kept.segments,
        "kept_bytes": one.kept.bytes,
        "foreign_segments": one.foreign.segments,
        "undecided_segments": one.undecided.segments,
        "leaked_segments": one.leaked.segments,
        "leaked_bytes": one.leaked.bytes,
        "dangling_segments": one.dangling.segments,
        "dangling_bytes": one.dangling.bytes,
        "not_tiered_segments": one.not_tiered.segments,
        "not_tiered_bytes": one.not_tiered.bytes,
    }


def _overdue(late: Overdue) -> dict[str, Any]:
    return {
        "partition": late.partition,
        "leader": late.leader,
        "since_ms": late.since_ms,
        "segments": late.count.segments,
        "bytes": late.count.bytes,
        "what_to_do": late.what_to_do,
    }


def _hanging(one: HangingCopies) -> dict[str, Any]:
    return {
        "partition": one.partition,
        "leader": one.leader,
        "since_ms": one.since_ms,
        "copied_to": one.progress.copied_to,
        "waiting_offsets": one.progress.waiting,
        "what_to_do": one.what_to_do,
    }


def _print_partitions(invocation: Invocation, done: LeaderRetention) -> None:
    columns = {
        "partition": "partition", "certainty": "told", "segments": "go now", "bytes": "bytes", "next_due": "next by time",
        "overdue_segments": "overdue", "kept_segments": "stay", "foreign_segments": "of other lineages",
        "leaked_segments": "leaked",
    }  # fmt: skip
    rows = [{**_counts(one), **_lateness(one, done)} for one in done.partitions]
    if not invocation.output.as_json:
        rows = [{**row, "next_due": _next(row["next_due_ms"])} for row in rows]
    invocation.output.rows(rows, columns, "user partitions")


def _lateness(one: PartitionPass, done: LeaderRetention) -> dict[str, Any]:
    tip = one.topic_id_partition
    late, not_judged = done.overdue.get(tip), done.not_judged.get(tip.topic)
    segments = None if not_judged is not None else 0 if late is None else late.count.segments
    return {
        "overdue_segments": segments,
        "overdue": None if late is None else _overdue(late),
        "overdue_not_judged": not_judged,
        "hanging": None if (hanging := done.hanging.get(tip)) is None else _hanging(hanging),
    }


def _counts(one: PartitionPass) -> dict[str, Any]:
    return {
        "topic": one.topic_id_partition.topic,
        "partition": one.topic_id_partition.partition,
        "certainty": one.certainty.value,
        "why": list(one.why),
        "leader": one.leader,
        "log_start_offset": one.log_start_offset,
        "segments": one.goes.segments,
        "bytes": one.goes.bytes,
        "by_reason": _by_reason(one.by_reason),
        "next_due_ms": one.stays.next_due_ms,
        "kept_segments": one.stays.kept.segments,
        "kept_bytes": one.stays.kept.bytes,
        "foreign_segments": one.stays.foreign.segments,
        "undecided_segments": one.stays.undecided.segments,
        "leaked_segments": one.stays.leaked.segments,
        "dangling_segments": one.dangling.segments,
        "not_tiered_segments": one.not_tiered.segments,
    }


def _by_reason(counts: Mapping[str, Count]) -> dict[str, dict[str, int]]:
    return {reason: {"segments": c.segments, "bytes": c.bytes} for reason, c in sorted(counts.items())}


def _next(due_ms: int | None) -> str | None:
    return None if due_ms is None else since(due_ms)


def _print_segments(invocation: Invocation, done: LeaderRetention) -> None:
    columns = {
        "topic": "topic", "partition": "partition", "segment_id": "segment id", "start_offset": "from", "end_offset": "to",
        "bytes": "bytes", "reason": "reason", "exact": "certain",
    }  # fmt: skip
    invocation.output.rows(_segments(done), columns, "segments")


def _segments(done: LeaderRetention) -> Iterator[dict[str, Any]]:
    for one in done.partitions:
        for expired in one.expired or ():
            metadata = expired.segment
            yield {
                "topic": one.topic_id_partition.topic,
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
