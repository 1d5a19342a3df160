# SPDX-License-Identifier: Apache-2.0
"""Commands that read remote log segments without a broker: read, find-offset."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import wraps
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from airflow_provider_rlmm.cli.catalogues import open_catalogue, with_catalogue
from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.cli.help import command
from airflow_provider_rlmm.cli.options import Invocation, with_storage
from airflow_provider_rlmm.cli.output import working
from airflow_provider_rlmm.cli.runs import begin_without_cluster, open_session
from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import since
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.base.values import moment_ms
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.segments.read_range import OffsetRange, ReadIsolation, ReadRange

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.core.records.records import TopicIdPartition
    from airflow_provider_rlmm.features.reading.catalogue_steps import CatalogueAsked
    from airflow_provider_rlmm.features.reading.catalogued_log import CataloguedLog
    from airflow_provider_rlmm.features.reading.steps import RemoteLogOfTopic
    from airflow_provider_rlmm.features.reading.timestamp_search import FoundOffset

_SHOWN_IN_A_TABLE = 100


class _Moment(click.ParamType[int]):
    """A point in time."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return ms since the epoch."""
        try:
            return moment_ms("it", value)
        except ConfigurationError as e:
            self.fail(str(e), param, ctx)


TIME = _Moment()


@contextmanager
def _remote_log(
    invocation: Invocation,
    topic: str,
    partition: int | None,
    bytes_per_second: int | None = None,
    *,
    or_compacted: bool = False,
) -> Iterator[RemoteLogOfTopic]:
    from airflow_provider_rlmm.features.reading.steps import open_remote_log

    wanted = None if partition is None else [partition]
    with working() as shown, open_session(invocation, CleanerLimits(), shown) as session:
        yield open_remote_log(session, topic, wanted, bytes_per_second=bytes_per_second, or_compacted=or_compacted)


@contextmanager
def _opened(
    invocation: Invocation,
    topic: str,
    partition: int | None,
    bytes_per_second: int | None,
    wanted: ReadRange,
    isolation: ReadIsolation,
    catalogue: CatalogueAsked | None,
) -> Iterator[RemoteLogOfTopic]:
    """Open a topic by its cluster's metadata topic, or by a catalogue."""
    if catalogue is None:
        with _remote_log(invocation, topic, partition, bytes_per_second, or_compacted=True) as log:
            yield log
        return
    with _by_catalogue(invocation, "read", catalogue, topic, partition, wanted, isolation, bytes_per_second) as log:
        yield log


@contextmanager
def _by_catalogue(
    invocation: Invocation,
    command: str,
    asked: CatalogueAsked,
    topic: str,
    partition: int | None,
    wanted: ReadRange,
    isolation: ReadIsolation,
    bytes_per_second: int | None = None,
) -> Iterator[CataloguedLog]:
    partitions = None if partition is None else (partition,)
    with working():
        run = begin_without_cluster(invocation, command)
        yield open_catalogue(
            invocation, asked, run, topic, partitions, wanted=wanted, isolation=isolation,
            bytes_per_second=bytes_per_second,
        )  # fmt: skip


def _say_what_was_decided(invocation: Invocation, log: RemoteLogOfTopic) -> None:
    """Say by which rule records are read, before the first of them; what a person has to see comes first."""
    for problem in log.problems:
        invocation.output.problem(f"needs a person: {problem}")
    for said in log.said:
        invocation.output.note(said)


_RANGE = (
    click.option("--from-offset", type=click.IntRange(0), help="First offset, inclusive; needs PARTITION."),
    click.option("--to-offset", type=click.IntRange(0), help="Last offset, exclusive; needs PARTITION."),
    click.option("--from-time", type=TIME, help="From the first record on whose timestamp is this or later."),
    click.option("--to-time", type=TIME, help="Up to the first record whose timestamp is this or later, exclusive."),
    click.option(
        "--isolation-level",
        type=click.Choice([level.value for level in ReadIsolation]),
        default=ReadIsolation.READ_UNCOMMITTED.value,
        show_default=True,
        help="Which records of transactions, as of Kafka's consumers.",
    ),
    click.option("--allow-incomplete", is_flag=True, help="Take what remote storage has of the range."),
    click.option("--bytes-per-second", type=click.IntRange(1), help="The most that is fetched in a second."),
)


def with_range(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command a topic, a partition, which records of them are wanted, as ``wanted``, and how they are read."""

    @wraps(command)
    def ranged(
        *args: Any,
        partition: int | None,
        from_offset: int | None,
        to_offset: int | None,
        from_time: int | None,
        to_time: int | None,
        isolation_level: str,
        **given: Any,
    ) -> Any:
        if partition is None and (from_offset is not None or to_offset is not None):
            raise click.UsageError("an offset is one of a partition: give PARTITION, too")
        wanted = ReadRange(from_offset, to_offset, from_time, to_time)
        return command(*args, partition=partition, wanted=wanted, isolation=ReadIsolation(isolation_level), **given)

    decorated: Callable[..., Any] = ranged
    for option in reversed(_RANGE):
        decorated = option(decorated)
    decorated = click.argument("partition", type=click.IntRange(0), required=False)(decorated)
    return click.argument("topic", metavar="TOPIC|ID")(decorated)


@command()
@with_range
@click.option("--output", metavar="FOLDER", help="Write Parquet there, a file per partition, instead of printing.")
@click.option("--limit", type=click.IntRange(1), help="Print no more than these.  [default: 100 in a table]")
@with_catalogue
@with_storage
def read(
    invocation: Invocation,
    topic: str,
    partition: int | None,
    wanted: ReadRange,
    isolation: ReadIsolation,
    allow_incomplete: bool,
    bytes_per_second: int | None,
    output: str | None,
    limit: int | None,
    catalogue: CatalogueAsked | None,
) -> int:
    """
    Read records of a topic from remote storage; no broker serves them.

    A table shows keys and values as text, JSON has their bytes in base64. Where the metadata topic is compacted, what it
    still names is read, and the command ends with exit code 4: it cannot be told whether that is all. With --catalogue no
    cluster is needed, and what was decided by rule is said.
    """
    from airflow_provider_rlmm.features.reading.steps import read_into_parquet

    if output and limit:
        raise click.UsageError("--limit is for what is printed: give --to-offset with --output")
    with _opened(invocation, topic, partition, bytes_per_second, wanted, isolation, catalogue) as log:
        if output is None:
            found = [
                (tip, log.offsets(tip, wanted, isolation, allow_incomplete=allow_incomplete)) for tip in log.partitions
            ]
            records = (_rows(tip.partition, log.read(tip, o, isolation)) for tip, o in found if o is not None)
            _say_what_was_decided(invocation, log)
            _print_records(invocation, chain.from_iterable(records), limit)
            return _ended(invocation, log, {tip.partition: o for tip, o in found}, all_of_it=partition is None)
        ranges = {tip.partition: wanted for tip in log.partitions}
        done = read_into_parquet(log, output, ranges, isolation, allow_incomplete=allow_incomplete)
    rows = [
        {
            "partition": one.partition,
            "file": one.uri,
            **asdict(one.written),
            "start": one.range.start,
            "end": one.range.end,
        }
        for one in done
    ]
    _say_what_was_decided(invocation, log)
    columns = {"partition": "partition", "records": "records", "start": "from", "end": "to", "file": "file"}
    invocation.output.rows(rows, columns, "user partitions")
    count, size = sum(one.written.records for one in done), sum(one.written.bytes for one in done)
    invocation.output.line(f"{number_of(count, 'record')}, {human_bytes(size)} before compression")
    return _ended(invocation, log, {one.partition: one.range for one in done}, all_of_it=partition is None)


@command("find-offset")
@click.argument("topic", metavar="TOPIC|ID")
@click.argument("time", type=TIME)
@click.option("--partition", type=click.IntRange(0), help="Only this user partition.")
@click.option(
    "--allow-incomplete", is_flag=True, help="With --catalogue: leave out what cannot be read at an end of a partition."
)
@with_catalogue
@with_storage
def find_offset(
    invocation: Invocation,
    topic: str,
    time: int,
    partition: int | None,
    allow_incomplete: bool,
    catalogue: CatalogueAsked | None,
) -> int:
    """
    Find the first record of each partition whose timestamp is TIME or later, as the brokers would, in remote storage.

    TIME has a zone, such as 2026-03-01T22:30:00Z, or is ms since the epoch. With --catalogue no cluster is needed, and what
    was decided by rule is said.
    """
    if catalogue is None:
        if allow_incomplete:
            raise click.UsageError("--allow-incomplete is about a catalogue: give --catalogue, too")
        with _remote_log(invocation, topic, partition) as log:
            found = {tip: log.find_offset(tip, time) for tip in log.partitions}
        _print_offsets(invocation, found)
        return ExitCode.DONE
    wanted, isolation = ReadRange(start_ms=time), ReadIsolation.READ_UNCOMMITTED
    with _by_catalogue(invocation, "find-offset", catalogue, topic, partition, wanted, isolation) as catalogued:
        for tip in catalogued.partitions:
            # Refused where the record may lie in what cannot be read.
            catalogued.offsets(tip, wanted, isolation, allow_incomplete=allow_incomplete)
        found = {tip: catalogued.find_offset(tip, time) for tip in catalogued.partitions}
    _say_what_was_decided(invocation, catalogued)
    _print_offsets(invocation, found)
    return ExitCode.NEEDS_A_PERSON if catalogued.problems else ExitCode.DONE


def _print_offsets(invocation: Invocation, found: Mapping[TopicIdPartition, FoundOffset | None]) -> None:
    rows = [{"partition": tip.partition, **({} if one is None else one._asdict())} for tip, one in found.items()]
    if not invocation.output.as_json:
        rows = [{**row, "time": since(row["timestamp_ms"]) if "offset" in row else None} for row in rows]
    columns = {"partition": "partition", "offset": "offset", "time": "time", "leader_epoch": "leader epoch"}
    invocation.output.rows(rows, columns, "offsets")
    if missing := [tip.partition for tip, one in found.items() if one is None]:
        invocation.output.line(
            f"remote storage has no such record of partitions {missing}: later ones may be on brokers only"
        )


COMMANDS = (read, find_offset)


def _ended(
    invocation: Invocation, log: RemoteLogOfTopic, read: Mapping[int, OffsetRange | None], *, all_of_it: bool
) -> int:
    """
    Say where it cannot be told whether all was read, to the reader of a pipe too; return the exit code.

    :param invocation: whose output it is.
    :param log: what was read.
    :param read: user partition → the offsets that were read.
    :param all_of_it: whether all user partitions were asked for, those that the log does not name among them.
    """
    if log.not_whole is None:
        return ExitCode.NEEDS_A_PERSON if log.problems else ExitCode.DONE
    firsts = {number: o.start for number, o in read.items() if o is not None and o.start < o.end}
    asked = read.keys() | (log.not_whole.log_start_offsets.keys() if all_of_it else ())
    beginnings = [log.not_whole.beginning_of(number, firsts.get(number)) for number in sorted(asked)]
    for line in (f"needs a person: {log.not_whole.why}.", *beginnings):
        invocation.output.problem(line)
    return ExitCode.NEEDS_A_PERSON


def _rows(partition: int, batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        for start in range(0, batch.num_rows, 1_000):
            for row in batch.slice(start, 1_000).to_pylist():
                yield {"partition": partition, **row}


def _print_records(invocation: Invocation, rows: Iterator[dict[str, Any]], limit: int | None) -> None:
    if invocation.output.as_json:
        invocation.output.rows(map(_in_base64, islice(rows, limit)), {})
        return
    columns = {
        "partition": "partition", "offset": "offset", "time": "time", "key": "key", "value": "value", "headers": "headers",
    }  # fmt: skip
    limit = limit or _SHOWN_IN_A_TABLE
    shown = list(islice(rows, limit + 1))
    invocation.output.rows(map(_as_text, shown[:limit]), columns, "records")
    if len(shown) > limit:
        invocation.output.line(f"there are more than {limit:,}: --limit prints more, --output writes all into files")


def _in_base64(row: dict[str, Any]) -> dict[str, Any]:
    headers = [{"key": header["key"], "value": _base64(header["value"])} for header in row["headers"] or ()]
    return {**row, "key": _base64(row["key"]), "value": _base64(row["value"]), "headers": headers}


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")


def _as_text(row: dict[str, Any]) -> dict[str, Any]:
    headers = [f"{header['key']}={_text(header['value'])}" for header in row["headers"] or ()]
    time = since(row["timestamp"])
    return {**row, "time": time, "key": _text(row["key"]), "value": _text(row["value"]), "headers": headers}


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")
