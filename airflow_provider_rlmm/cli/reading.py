# SPDX-License-Identifier: Apache-2.0
"""Commands that read the metadata topic: topics, segments, events, trail, decode, orphans, snapshot, survey."""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.cli.options import Invocation, with_cluster, with_limits
from airflow_provider_rlmm.cli.output import Output, working
from airflow_provider_rlmm.cli.rows import record_row, segment_row
from airflow_provider_rlmm.cli.runs import PROGRAM, begin, month_column, open_session, price_of, say_price
from airflow_provider_rlmm.core.base.clock import since, system_clock
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.plans.counts import Count, Unsized
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.plans.prices import money
from airflow_provider_rlmm.core.records.records import parse_kafka_uuid
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
    from airflow_provider_rlmm.core.plans.prices import StoragePrice
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
    from airflow_provider_rlmm.core.world.topic_view import TopicReplay
    from airflow_provider_rlmm.features.survey.inventory import Totals

_COUNTED = ("stored", "orphaned", "waiting", "eligible", "deleting", "unseen")
_EVENT_COLUMNS = {
    "metadata_partition": "part", "offset": "offset", "time": "time", "what": "topic id, partition", "segment_id": "segment",
    "state": "state", "broker_id": "broker", "error": "error",
}  # fmt: skip


@contextmanager
def _session(invocation: Invocation, limits: CleanerLimits | None = None) -> Iterator[CleanerSession]:
    """Open the cluster for reading."""
    with working() as shown, open_session(invocation, limits or CleanerLimits(), shown) as session:
        yield session


@contextmanager
def _topic(invocation: Invocation, limits: CleanerLimits | None = None) -> Iterator[tuple[CleanerSession, TopicReplay]]:
    """Open the metadata topic and read it whole."""
    with _session(invocation, limits) as session, session.topic() as topic:
        topic.advance()
        yield session, topic


@click.command()
@with_cluster
def topics(invocation: Invocation) -> None:
    """List the topics that the metadata topic names, and whether the cluster has them."""
    from airflow_provider_rlmm.features.survey.orphans import topics_in_log

    with _topic(invocation) as (_, topic):
        found = topics_in_log(topic)
    price = price_of(invocation)
    columns = {
        "topic": "topic", "topic_id": "topic id", "presence": "in the cluster", "partitions": "partitions",
        "segments": "segments", "bytes": "size", **month_column(price), "states": "states", "unsized": "of unknown size",
    }  # fmt: skip
    invocation.output.rows((_with_cost(asdict(row), price) for row in found), columns, "topics with remote segments")
    if found:
        say_price(invocation, price)


def _with_cost(row: dict[str, Any], price: StoragePrice | None) -> dict[str, Any]:
    """Return a row of segments with what they cost in a month, ``None`` where nobody has said a price."""
    return {**row, "month_micros": None if price is None else price.month(row["bytes"], row["segments"])}


@click.command()
@click.option("--topic", metavar="NAME|ID", help="Only those of this topic.")
@click.option("--partition", type=int, help="Only those of this user partition.")
@click.option("--state", type=click.Choice([s.name for s in RemoteLogSegmentState]), help="Only those in this state.")
@click.option("--limit", type=click.IntRange(1), help="Print no more than these.")
@with_cluster
def segments(
    invocation: Invocation, topic: str | None, partition: int | None, state: str | None, limit: int | None
) -> None:
    """List the remote segments that are not finished."""
    from airflow_provider_rlmm.core.runs.holding import require_known_topic

    with _topic(invocation) as (_, replayed):
        table = replayed.segments
        if topic is not None:
            require_known_topic(replayed, topic)
    wanted = _wanted(table, topic, partition=partition, state=state and int(RemoteLogSegmentState[state]))
    order = [
        ("topic", "ascending"),
        ("topic_id", "ascending"),
        ("partition", "ascending"),
        ("start_offset", "ascending"),
    ]
    chosen = table.filter(wanted).sort_by(order)
    columns = {
        "topic": "topic", "partition": "partition", "segment_id": "segment", "start_offset": "start offset",
        "end_offset": "end offset", "segment_size_in_bytes": "size", "state": "state",
    }  # fmt: skip
    rows = (segment_row(row) for batch in chosen.slice(0, limit).to_batches(1_000) for row in batch.to_pylist())
    invocation.output.rows(rows, columns, "segments")


@click.command()
@click.option("--metadata-partition", type=click.IntRange(0), help="Only those of this metadata partition.")
@click.option("--from-offset", type=click.IntRange(0), help="First offset, inclusive; needs --metadata-partition.")
@click.option("--to-offset", type=click.IntRange(0), help="Last offset, exclusive; needs --metadata-partition.")
@click.option("--topic", metavar="NAME|ID", help="Only those of this topic.")
@click.option("--limit", type=click.IntRange(1), help="Print no more than these.")
@with_cluster
def events(
    invocation: Invocation,
    metadata_partition: int | None,
    from_offset: int | None,
    to_offset: int | None,
    topic: str | None,
    limit: int | None,
) -> None:
    """Print the records of the metadata topic as they lie there, those that cannot be applied included."""
    if metadata_partition is None and (from_offset is not None or to_offset is not None):
        raise click.UsageError("an offset is one of a metadata partition: give --metadata-partition, too")
    with _session(invocation) as session:
        ranges = _ranges(session.log, metadata_partition, from_offset, to_offset)
        _print_events(invocation, session, islice(_rows(session.log, ranges, topic), limit), topic)


@click.command()
@click.argument("topic", metavar="TOPIC|ID")
@click.argument("partition", type=int, required=False)
@click.option("--segment", metavar="ID", help="Only the events of this segment.")
@with_cluster
def trail(invocation: Invocation, topic: str, partition: int | None, segment: str | None) -> None:
    """Print what happened to a topic, one of its partitions, or a segment: from its copy to its deletion."""
    wanted = _kafka_id("--segment", segment) if segment else None
    with _session(invocation) as session:
        rows = _rows(session.log, _ranges(session.log, None, None, None), topic, partition, wanted)
        _print_events(invocation, session, rows, topic)


@click.command()
@click.argument("value", metavar="VALUE|@FILE|-")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def decode(value: str, as_json: bool) -> None:
    """
    Decode the value of one record: hexadecimal, base64, a file of its bytes (@FILE), or standard input (-).

    It asks no cluster.
    """
    from airflow_provider_rlmm.core.records import columnar

    (row,) = columnar.decode([_bytes_of(value)]).to_pylist()
    found, output = record_row(row), Output(as_json=as_json)
    if output.as_json:
        output.document(found)
    else:
        output.rows(
            ({"field": name, "value": value} for name, value in found.items()), {"field": "field", "value": "value"}
        )
    if "error" in found:
        raise ConfigurationError(
            f"it is no record that Kafka's RemoteLogMetadataSerde accepts: {found['error']['reason']}"
        )


@click.command()
@with_limits
@with_cluster
def orphans(invocation: Invocation, limits: CleanerLimits) -> int:
    """
    List the user partitions of deleted topics that still have remote segments, and what stands against their cleaning.

    Those of which nobody can tell whether they are that are listed as UNSEEN, and end the command with exit code 4. Whether
    their objects are still there only the storage knows: see 'rlmm plan' and 'rlmm scrub'.
    """
    from airflow_provider_rlmm.features.survey.inventory import SurveyedState
    from airflow_provider_rlmm.features.survey.orphans import orphaned_partitions

    with _topic(invocation, limits) as (session, topic):
        found = orphaned_partitions(topic, limits, session.clock(), session.hold())
    price = price_of(invocation)
    columns = {
        "topic": "topic", "topic_id": "topic id", "partition": "partition", "segments": "segments", "bytes": "size",
        **month_column(price), "deletion": "deletion", "status": "status", "why": "why",
    }  # fmt: skip
    rows = found.partitions
    # "None" is said only where all was seen.
    unsized = found.totals.unsized or Unsized()
    if rows or not (found.totals.why_not_all_seen or unsized.orphaned or unsized.unseen):
        invocation.output.rows((_with_cost(asdict(row), price) for row in rows), columns, "orphaned user partitions")
    gone = [row for row in rows if row.status != SurveyedState.UNSEEN.value]
    if gone:
        total = Count.sum(Count(o.segments, o.bytes) for o in gone)
        invocation.output.line(f"{_words(total, price)} in {len(gone):,} user partitions")
    if rows:
        say_price(invocation, price)
    return _all_seen(invocation, found.totals)


def _words(count: Count, price: StoragePrice | None) -> str:
    cost = "" if price is None else f", {money(price.month(count.bytes, count.segments))} a month"
    return f"{count.segments:,} segments, {human_bytes(count.bytes)}{cost}"


@click.command()
@with_cluster
def snapshot(invocation: Invocation) -> None:
    """Read the metadata topic and leave a snapshot in the work folder: the next command reads only what is new."""
    with _topic(invocation) as (session, topic):
        ends = {number: topic.end(number) for number in range(topic.log.partition_count)}
        counts = {
            "segments": topic.segments.num_rows,
            "records_read": topic.records_read,
            "records_known": sum(ends.values()),
        }
        topic.keep()
        where = session.snapshots.uri
    document = {"snapshot": where, **counts, "next_offsets": {str(number): end for number, end in ends.items()}}
    if invocation.output.as_json:
        invocation.output.document(document)
    else:
        invocation.output.line(
            f"{counts['segments']:,} segments that are not finished; {counts['records_read']:,} records were read now, up to "
            f"{counts['records_known']:,} offsets. The snapshot is {where}"
        )


@click.command()
@with_limits
@with_cluster
def survey(invocation: Invocation, limits: CleanerLimits) -> int:
    """Judge every topic with remote segments, and leave the inventory that Airflow's pages show in the work folder."""
    from airflow_provider_rlmm.core.base.work_folder import cluster_folder
    from airflow_provider_rlmm.features.survey.steps import survey as leave_inventory
    from airflow_provider_rlmm.overview.reclaimed import reclaimed_this_month
    from airflow_provider_rlmm.overview.runs import SEARCHED_RUNS, runs

    run, price = begin(invocation, "survey", execute=False), price_of(invocation)
    with _session(invocation, limits) as session:
        inventory = leave_inventory(session, run.uri, run.name, PROGRAM, limits=limits, price=price)
        where = f"{session.cluster_uri}/{inventory.generation}"
    totals = inventory.totals
    counts: dict[str, Count] = {what: getattr(totals, what) for what in _COUNTED}
    if invocation.output.as_json:
        months = {w: None if price is None else price.month(c.bytes, c.segments) for w, c in counts.items()}
        invocation.output.document({"inventory": where, **asdict(totals), "month_micros": months})
        return _all_seen(invocation, totals)
    for what, count in counts.items():
        invocation.output.line(f"{what}: {_words(count, price)}")
    past = runs(run.work_uri, cluster_folder(inventory.cluster_id), rows=SEARCHED_RUNS).rows[::-1]
    month = reclaimed_this_month(past, system_clock())
    cost = "" if price is None else f", {money(price.month(month.bytes, month.objects))} a month"
    invocation.output.line(f"reclaimed this month: {human_bytes(month.bytes)}{cost}, {month.in_words}")
    say_price(invocation, price)
    invocation.output.line(f"{totals.orphaned_topics:,} of {totals.topics:,} topics are gone. The inventory is {where}")
    return _all_seen(invocation, totals)


COMMANDS = (topics, segments, events, trail, decode, orphans, snapshot, survey)


def _all_seen(invocation: Invocation, totals: Totals) -> int:
    """Say what could not be seen or summed up, to whoever reads a pipe too; return the exit code."""
    from airflow_provider_rlmm.core.world.visibility import UNSEEN_ADVICE, UNSIZED_ADVICE

    unsized = totals.unsized or Unsized()
    found = (
        (totals.why_not_all_seen, UNSEEN_ADVICE, True),
        # Of a living topic its brokers take care.
        (totals.why_not_all_sized, UNSIZED_ADVICE, unsized.orphaned + unsized.unseen > 0),
    )
    code = ExitCode.DONE
    for why, advice, needs_person in found:
        if not why:
            continue
        invocation.output.problem(f"{'needs a person: ' if needs_person else ''}{why}. {advice}")
        code = ExitCode.NEEDS_A_PERSON if needs_person else code
    return code


def _ranges(
    log: MetadataLogReader, metadata_partition: int | None, from_offset: int | None, to_offset: int | None
) -> dict[int, tuple[int, int]]:
    """Return what is to be read: metadata partition → first offset, inclusive, and last, exclusive."""
    from airflow_provider_rlmm.core.log.one_look import held

    ranges = held(log)
    if metadata_partition is None:
        return ranges
    if metadata_partition not in ranges:
        raise ConfigurationError(
            f"there is no metadata partition {metadata_partition}: the topic has {log.partition_count}, from 0"
        )
    begin, end = ranges[metadata_partition]
    return {metadata_partition: (max(begin, from_offset or 0), min(end, end if to_offset is None else to_offset))}


def _rows(
    log: MetadataLogReader,
    ranges: dict[int, tuple[int, int]],
    topic: str | None,
    partition: int | None = None,
    segment: UUID | None = None,
) -> Iterator[dict[str, Any]]:
    """Read and decode, batch by batch; yield the records that are wanted, in the order of the log."""
    from airflow_provider_rlmm.core.log.one_look import look

    for number, (start, end) in ranges.items():
        for decoded in look(log, number, start, end) if start < end else ():
            wanted = _wanted(decoded, topic, partition=partition, segment_id=segment and segment.bytes)
            yield from map(record_row, decoded.filter(wanted).to_pylist())


def _wanted(table: pa.Table | pa.RecordBatch, topic: str | None, **exactly: Any) -> Any:
    """Return which rows are of a topic and have exactly these values; ``None`` asks for nothing."""
    import pyarrow.compute as pc

    wanted = _of_topic(table, topic)
    for column, value in exactly.items():
        if value is not None:
            wanted = pc.and_(wanted, pc.equal(table.column(column), value))
    return wanted


def _of_topic(table: pa.Table | pa.RecordBatch, topic: str | None) -> Any:
    """Return which rows are of a topic, by name or by id; of all where none is named."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if topic is None:
        return pa.repeat(pa.scalar(True), table.num_rows)
    named = pc.equal(table.column("topic"), topic)
    try:
        return pc.or_(named, pc.equal(table.column("topic_id"), parse_kafka_uuid(topic).bytes))
    except ValueError:
        return named


def _print_events(
    invocation: Invocation, session: CleanerSession, rows: Iterator[dict[str, Any]], topic: str | None
) -> None:
    """Print records; where there are none of a topic, refuse a name that nothing has."""
    from airflow_provider_rlmm.core.runs.holding import require_known_topic

    first = next(rows, None)
    if first is None and topic is not None:
        with session.topic() as replayed:
            require_known_topic(replayed, topic)
    found = rows if first is None else chain([first], rows)
    if invocation.output.as_json:
        invocation.output.rows(found, {})
        return
    invocation.output.rows(map(_event_for_people, found), _EVENT_COLUMNS, "events")


def _event_for_people(row: dict[str, Any]) -> dict[str, Any]:
    what = f"{row['topic']} {row['topic_id']}, {row['partition']}" if "topic_id" in row else None
    error = f"{row['error']['code']}: {row['error']['reason']}" if "error" in row else None
    return {**row, "time": since(row["timestamp_ms"]), "what": what, "error": error}


def _kafka_id(option: str, text: str) -> UUID:
    try:
        return parse_kafka_uuid(text)
    except ValueError as e:
        raise click.BadParameter(str(e), param_hint=option) from None


def _bytes_of(value: str) -> bytes:
    """Return the bytes that a text means."""
    if value == "-":
        return sys.stdin.buffer.read()
    if value.startswith("@"):
        return Path(value[1:]).expanduser().read_bytes()
    stripped = "".join(value.split())
    for decoder in (bytes.fromhex, _base64):
        try:
            return decoder(stripped)
        except ValueError:
            continue
    raise click.BadParameter(
        "it is neither hexadecimal nor base64; a file of bytes is named by @FILE", param_hint="VALUE"
    )


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as e:
        raise ValueError(str(e)) from None
