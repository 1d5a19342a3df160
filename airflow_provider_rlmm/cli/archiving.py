# SPDX-License-Identifier: Apache-2.0
"""Commands of archives: archive a topic by its id, restore it into another topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from airflow_provider_rlmm.cli.catalogues import reader_of, with_catalogue
from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.cli.help import command
from airflow_provider_rlmm.cli.options import Invocation, archive_option, with_limits, with_storage
from airflow_provider_rlmm.cli.output import Output, working
from airflow_provider_rlmm.cli.remote_log import TIME
from airflow_provider_rlmm.cli.runs import begin, begin_without_cluster, execute_option
from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.quoting import human_bytes, in_quotes
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.records.records import kafka_uuid_str, parse_kafka_uuid
from airflow_provider_rlmm.features.archiving.restore_rules import (
    OFFSET_HEADER,
    RESTORE_OVERRIDES,
    RestoreRange,
    Undecided,
)

if TYPE_CHECKING:
    from uuid import UUID

    from airflow_provider_rlmm.core.plans.plan_archive import ArchivedUserPartition
    from airflow_provider_rlmm.features.archiving.restore_catalogue import CatalogueToRestore
    from airflow_provider_rlmm.features.archiving.restore_steps import RestoreReport
    from airflow_provider_rlmm.features.reading.catalogue_steps import CatalogueAsked


class _PartitionOffset(click.ParamType[tuple[int, int]]):
    name = "PARTITION:OFFSET"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        partition, colon, offset = str(value).partition(":")
        if not (colon and partition.isdecimal() and offset.isdecimal()):
            self.fail("it must be a partition and an offset, such as 0:1200", param, ctx)
        return int(partition), int(offset)


PARTITION_OFFSET = _PartitionOffset()

topic_id_option = click.option(
    "--topic-id", required=True, metavar="ID", help="Id of the topic, as 'rlmm topics' and 'rlmm orphans' print it."
)


@command("archive")
@topic_id_option
@click.option("--partition", "partitions", type=click.IntRange(0), multiple=True, help="Only this one; several times.")
@archive_option
@with_catalogue
@with_limits
@with_storage
def archive_command(
    invocation: Invocation,
    topic_id: str,
    partitions: tuple[int, ...],
    limits: CleanerLimits,
    catalogue: CatalogueAsked | None,
) -> int:
    """
    Copy a topic's remote segments and their records into an archive, read them back and compare.

    Nothing is deleted. The topic may live, or its cluster be lost: --catalogue. 'rlmm clean --archive-first' archives what
    it deletes.
    """
    if catalogue is not None:
        name, archived = _archive_by_catalogue(invocation, topic_id, partitions, catalogue)
        return _say_archived(invocation.output, name, archived)
    from airflow_provider_rlmm.features.archiving.steps import archive_topic

    run = begin(invocation, "archive", execute=False)
    with working() as shown, run.session(limits, shown, must_know_floors=True) as session:
        archived = archive_topic(
            session,
            _topic_id(topic_id),
            run.name,
            partitions=partitions or None,
            allowed_quarantine=limits.allowed_quarantine,
        )
    return _say_archived(invocation.output, run.name, archived)


def _archive_by_catalogue(
    invocation: Invocation, topic_id: str, partitions: tuple[int, ...], asked: CatalogueAsked
) -> tuple[str, list[ArchivedUserPartition]]:
    """Archive what a catalogue names, without a broker."""
    from airflow_provider_rlmm.features.archiving.catalogued_archives import archive_by_catalogue

    if asked.lineages:
        raise click.UsageError("an archive keeps the segments of all lineages: leave --lineage out")
    run = begin_without_cluster(invocation, "archive")
    with working():
        archived, decided = archive_by_catalogue(
            invocation.storage_access(),
            asked,
            reader_of(run),
            _topic_id(topic_id),
            run.name,
            partitions=partitions or None,
        )
    for said in decided:
        invocation.output.note(said)
    return run.name, archived


def _say_archived(output: Output, name: str, archived: Sequence[ArchivedUserPartition]) -> int:
    rows = [found.to_report() for found in archived]
    if output.as_json:
        output.document({"archive": name, "partitions": rows})
        return ExitCode.DONE
    columns = {
        "topic": "topic", "partition": "partition", "segments": "segments", "not_whole": "not whole", "as_is": "encrypted",
        "records": "records", "bytes": "size", "records_sha256": "SHA-256 of the records",
    }  # fmt: skip
    output.rows(rows, columns, "archived")
    for found in archived:
        output.line(f"{found.folder}/{found.manifest}")
    return ExitCode.DONE


@command("restore")
@topic_id_option
@click.option(
    "--into",
    "topic",
    required=True,
    metavar="TOPIC",
    help="Topic to write to; it exists and is empty, or a restore of the same was interrupted.",
)
@click.option(
    "--archived-cluster-id",
    metavar="ID",
    help="The cluster that the records are of.  [default: the one that the catalogue names; of an archive the one that is "
    "written to]",
)
@click.option("--from-beginning", is_flag=True, help="With --catalogue: all that the bucket has.")
@click.option(
    "--from-time", type=TIME, help="With --catalogue: from the first record on whose timestamp is this or later."
)
@click.option(
    "--from-offset",
    "from_offsets",
    type=PARTITION_OFFSET,
    multiple=True,
    help="With --catalogue: of a partition, its first offset, such as 0:1200; several times.",
)
@click.option(
    "--to-offset",
    "to_offsets",
    type=PARTITION_OFFSET,
    multiple=True,
    help="With --catalogue: of a partition, its last offset, exclusive, such as 0:5000; several times.  [default: all that "
    "the bucket has]",
)
@click.option(
    "--bytes-per-second", type=click.IntRange(1), help="With --catalogue: the most that is fetched in a second."
)
@click.option(
    "--undecided",
    type=click.Choice([choice.value for choice in Undecided]),
    help="What becomes of transactions whose end the source does not have: abort leaves their records out, keep restores "
    "them. Without it they count as aborted, and where there are any the command ends with exit code 4.",
)
@click.option(
    "--offset-header",
    is_flag=True,
    help=f"Say in a header of each record, {OFFSET_HEADER}, which offset it had.",
)
@click.option(
    "--override",
    "overrides",
    type=click.Choice(sorted(RESTORE_OVERRIDES)),
    multiple=True,
    help="incomplete_archive restores what there is of an archive that is not whole, incomplete_catalogue what there is of a "
    "catalogue round holes and round what cannot be read; both end with exit code 4.",
)
@archive_option
@execute_option
@with_catalogue
@with_storage
def restore_command(
    invocation: Invocation,
    topic_id: str,
    topic: str,
    archived_cluster_id: str | None,
    from_beginning: bool,
    from_time: int | None,
    from_offsets: tuple[tuple[int, int], ...],
    to_offsets: tuple[tuple[int, int], ...],
    bytes_per_second: int | None,
    undecided: str | None,
    offset_header: bool,
    overrides: tuple[str, ...],
    catalogue: CatalogueAsked | None,
    execute: bool,
) -> int:
    """
    Write the committed records of an archived topic into an empty one, and read them back.

    Each record goes into its partition, in its order, with its time. Without --execute nothing is written: the archive is
    compared with its checksums, and the topic is asked whether it can hold the records as they were. With --catalogue the
    records come from the bucket of a cluster that is gone, from a start on that you name, up to an end that you may name.
    """
    from airflow_provider_rlmm.features.archiving.restore_document import RestoreRun
    from airflow_provider_rlmm.features.archiving.restore_steps import restore

    range_is_named = from_beginning or from_time is not None or bool(from_offsets or to_offsets)
    if catalogue is None and (range_is_named or bytes_per_second is not None):
        raise click.UsageError(
            "a start, an end and --bytes-per-second are for a catalogue: an archive is restored whole"
        )
    run = begin(invocation, "restore", execute=execute)
    to_restore = None
    if catalogue is not None:
        starts, ends = _by_partition("--from-offset", from_offsets), _by_partition("--to-offset", to_offsets)
        wanted = RestoreRange(from_beginning, from_time, starts, ends)
        to_restore = _catalogue_to_restore(catalogue, wanted, bytes_per_second)
    with working():
        report = restore(
            run.invocation.access(allow_writes=execute),
            kafka_uuid_str(_topic_id(topic_id)),
            topic,
            by=RestoreRun(run.identity, run.work_uri),
            archived_cluster_id=archived_cluster_id,
            catalogue=to_restore,
            overrides=overrides,
            undecided=None if undecided is None else Undecided(undecided),
            offset_header=offset_header,
            dry_run=not execute,
        )
    code = ExitCode.NEEDS_A_PERSON if report.needs_person else ExitCode.DONE
    if invocation.output.as_json:
        invocation.output.document(report.to_dict())
        return code
    _show(invocation.output, report, execute)
    if catalogue is not None:
        invocation.output.line(report.takes(bytes_per_second))
    return code


def _by_partition(option: str, offsets: tuple[tuple[int, int], ...]) -> dict[int, int]:
    found = dict(offsets)
    if len(found) < len(offsets):
        raise click.UsageError(f"{option} names a partition twice")
    return found


def _catalogue_to_restore(
    asked: CatalogueAsked, wanted: RestoreRange, bytes_per_second: int | None
) -> CatalogueToRestore:
    from airflow_provider_rlmm.features.archiving.restore_catalogue import CatalogueToRestore

    return CatalogueToRestore(asked=asked, wanted=wanted, bytes_per_second=bytes_per_second)


def _show(output: Output, report: RestoreReport, execute: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "partition": p.partition,
            "records": p.count,
            "bytes": p.bytes,
            "left_out": p.left_out,
            "sha256": p.content_sha256,
        }
        for p in report.partitions
    ]
    columns = {
        "partition": "partition",
        "records": "records",
        "bytes": "size",
        "left_out": "left out",
        "sha256": "SHA-256",
    }
    output.rows(rows, columns, "restored" if execute else "to restore")
    size = human_bytes(sum(p.bytes for p in report.partitions))
    for said in (*report.reaches, *report.beginnings, *report.transactions, *report.said):
        output.line(said)
    if execute:
        output.line(f"{number_of(report.records, 'record')}, {size}, are in {report.topic}, read back and compared.")
        output.line(f"{report.offsets_uri} says which offset became which.")
    else:
        output.line(
            f"{number_of(report.records, 'record')}, {size}, can be written into {report.topic}: --execute does it."
        )
    for said in report.problems:
        output.line(f"needs a person: {said}", red=True)


COMMANDS = (archive_command, restore_command)


def _topic_id(text: str) -> UUID:
    try:
        return parse_kafka_uuid(text)
    except ValueError:
        raise ConfigurationError(
            f"--topic-id {in_quotes(text)} is no topic id in Kafka's form, such as g9LiIua4STiXAgIF9bPVMg"
        ) from None
