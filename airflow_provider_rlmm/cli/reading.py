# SPDX-License-Identifier: Apache-2.0
"""Commands that read the metadata topic: topics, segments, events, trail, decode, snapshot."""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from airflow_provider_rlmm.cli.help import command
from airflow_provider_rlmm.cli.listing import Listing, with_listing
from airflow_provider_rlmm.cli.options import Invocation, with_cluster
from airflow_provider_rlmm.cli.output import Output, working
from airflow_provider_rlmm.cli.rows import record_row, segment_row
from airflow_provider_rlmm.cli.runs import month_column, open_session, price_of, say_price
from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import since
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.records.records import parse_kafka_uuid
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.world.only import ALL_TOPICS, Only

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
    from airflow_provider_rlmm.core.plans.prices import StoragePrice
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
    from airflow_provider_rlmm.core.world.topic_view import TopicReplay

_EVENT_COLUMNS = {
    "metadata_partition": "part", "offset": "offset", "time": "time", "what": "topic id, partition", "segment_id": "segment",
    "state": "state", "broker_id": "broker", "error": "error",
}  # fmt: skip
_TRAIL_COLUMNS = {field: heading for field, heading in _EVENT_COLUMNS.items() if field != "what"}
"""Of one user partition: it is named above them."""


@contextmanager
def opened_session(
    invocation: Invocation, limits: CleanerLimits | None = None, only: Only = ALL_TOPICS
) -> Iterator[CleanerSession]:
    """
    Open the cluster for reading.

    :param invocation: what the command was told.
    :param limits: by which is judged what may be cleaned; ``None`` for the defaults.
    :param only: the topics that the command is for.
    """
    with working() as shown, open_session(invocation, limits or CleanerLimits(), shown, only=only) as session:
        yield session


@contextmanager
def opened_topic(
    invocation: Invocation, limits: CleanerLimits | None = None, only: Only = ALL_TOPICS
) -> Iterator[tuple[CleanerSession, TopicReplay]]:
    """Open the metadata topic and read it whole; see :func:`opened_session`."""
    with opened_session(invocation, limits, only) as session, session.topic() as topic:
        topic.advance()
        yield session, topic


@command()
@with_listing("topic", "segments", "bytes")
@with_cluster
def topics(invocation: Invocation, listing: Listing) -> None:
    """List the topics that the metadata topic names, and whether the cluster has them."""
    from airflow_provider_rlmm.features.survey.orphans import topics_in_log

    with opened_topic(invocation) as (_, topic):
        found = topics_in_log(topic)
    price = price_of(invocation)
    columns = {
        "topic": "topic", "topic_id": "topic id", "presence": "in the cluster", "partitions": "partitions",
        "segments": "segments", "bytes": "size", **month_column(price), "states": "states", "unsized": "of unknown size",
    }  # fmt: skip
    shown = listing.of(with_cost(asdict(row), price) for row in found)
    invocation.output.rows(shown, columns, "topics with remote segments")
    if left_out := listing.left_out(found):
        invocation.output.note(left_out)
    if found:
        say_price(invocation, price)


def with_cost(row: dict[str, Any], price: StoragePrice | None) -> dict[str, Any]:
    """
    Return a row of segments with what they cost in a month.

    :param row: with ``bytes`` and ``segments``.
    :param price: by which costs are reckoned, ``None`` where none is set.
    """
    return {**row, "month_micros": None if price is None else price.month(row["bytes"], row["segments"])}


@command()
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

    with opened_topic(invocation) as (_, replayed):
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


@command()
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
    with opened_session(invocation) as session:
        ranges = _ranges(session.log, metadata_partition, from_offset, to_offset)
        _print_events(invocation, session, islice(_rows(session.log, ranges, topic), limit), topic)


@command()
@click.argument("topic", metavar="TOPIC|ID")
@click.argument("partition", type=int, required=False)
@click.option("--segment", metavar="ID", help="Only the events of this segment.")
@with_cluster
def trail(invocation: Invocation, topic: str, partition: int | None, segment: str | None) -> None:
    """Print what happened to a topic, one of its partitions, or a segment: from its copy to its deletion."""
    wanted = _kafka_id("--segment", segment) if segment else None
    with opened_session(invocation) as session:
        rows = _rows(session.log, _ranges(session.log, None, None, None), topic, partition, wanted)
        _print_events(invocation, session, rows, topic, of_one=partition is not None)


@command()
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


@command()
@with_cluster
def snapshot(invocation: Invocation) -> None:
    """Read the metadata topic and leave a snapshot in the work folder: the next command reads only what is new."""
    with opened_topic(invocation) as (session, topic):
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
            f"{number_of(counts['segments'], 'segment that is', 'segments that are')} not finished; "
            f"{number_of(counts['records_read'], 'record was', 'records were')} read now, up to "
            f"{number_of(counts['records_known'], 'offset')}. The snapshot is {where}"
        )


COMMANDS = (topics, segments, events, trail, decode, snapshot)


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
    invocation: Invocation,
    session: CleanerSession,
    rows: Iterator[dict[str, Any]],
    topic: str | None,
    *,
    of_one: bool = False,
) -> None:
    """Print records, of one user partition or of many; where there are none of a topic, refuse a name that nothing has."""
    from airflow_provider_rlmm.core.runs.holding import require_known_topic

    first = next(rows, None)
    if first is None and topic is not None:
        with session.topic() as replayed:
            require_known_topic(replayed, topic)
    found = rows if first is None else chain([first], rows)
    if invocation.output.as_json:
        invocation.output.rows(found, {})
        return
    if not of_one or first is None:
        invocation.output.rows(map(_event_for_people, found), _EVENT_COLUMNS, "events")
        return
    # Topics that had the name one after the other have ids of their own.
    for what, events in groupby(map(_event_for_people, found), key=itemgetter("what")):
        invocation.output.rows(events, _TRAIL_COLUMNS, f"events of {what}")


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
