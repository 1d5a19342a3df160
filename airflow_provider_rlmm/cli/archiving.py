# SPDX-License-Identifier: Apache-2.0
"""Commands of archives: archive a topic by its id, restore it into another topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from airflow_provider_rlmm.cli.catalogues import open_catalogue, with_catalogue
from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.cli.options import Invocation, archive_option, with_cluster, with_limits, with_storage
from airflow_provider_rlmm.cli.output import Output, working
from airflow_provider_rlmm.cli.runs import begin, begin_without_cluster, execute_option
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.quoting import human_bytes, in_quotes
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.records.records import kafka_uuid_str, parse_kafka_uuid
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation, ReadRange
from airflow_provider_rlmm.features.archiving.restore_rules import RESTORE_OVERRIDES

if TYPE_CHECKING:
    from uuid import UUID

    from airflow_provider_rlmm.core.plans.plan_archive import ArchivedUserPartition
    from airflow_provider_rlmm.features.archiving.restore_steps import RestoreReport
    from airflow_provider_rlmm.features.reading.catalogue_steps import CatalogueAsked

topic_id_option = click.option(
    "--topic-id", required=True, metavar="ID", help="Id of the topic, as 'rlmm topics' and 'rlmm orphans' print it."
)


@click.command("archive")
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
    """Archive what a catalogue names; what a person should decide is refused: an archive is looked at by nobody again."""
    from airflow_provider_rlmm.features.archiving.catalogued_archives import archive_catalogued_topic

    if asked.lineages:
        raise click.UsageError("an archive keeps the segments of all lineages: leave --lineage out")
    archive_uri = invocation.storage_access().get_connection_settings().required_archive_uri()
    run = begin_without_cluster(invocation, "archive")
    with working():
        log = open_catalogue(
            invocation,
            replace(asked, or_doubtful=False),
            run,
            kafka_uuid_str(_topic_id(topic_id)),
            partitions or None,
            wanted=ReadRange(),
            isolation=ReadIsolation.READ_UNCOMMITTED,
        )
        archived = archive_catalogued_topic(log, archive_uri, run.name)
    for said in log.said:
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


@click.command("restore")
@topic_id_option
@click.option("--into", "topic", required=True, metavar="TOPIC", help="Topic to write to; it exists and is empty.")
@click.option(
    "--archived-cluster-id", metavar="ID", help="The cluster that was archived.  [default: the one that is written to]"
)
@click.option(
    "--override",
    "overrides",
    type=click.Choice(sorted(RESTORE_OVERRIDES)),
    multiple=True,
    help="incomplete_archive restores what there is of an archive that is not whole, and ends with exit code 4.",
)
@archive_option
@execute_option
@with_cluster
def restore_command(
    invocation: Invocation,
    topic_id: str,
    topic: str,
    archived_cluster_id: str | None,
    overrides: tuple[str, ...],
    execute: bool,
) -> int:
    """
    Write the committed records of an archived topic into an empty one, and read them back.

    Each record goes into its partition, in its order, with its time. Without --execute nothing is written: the archive is
    compared with its checksums, and the topic is asked whether it can hold the records as they were.
    """
    from airflow_provider_rlmm.features.archiving.restore_steps import restore

    run = begin(invocation, "restore", execute=execute)
    with working():
        report = restore(
            run.invocation.access(allow_writes=execute),
            kafka_uuid_str(_topic_id(topic_id)),
            topic,
            archived_cluster_id=archived_cluster_id,
            overrides=overrides,
            dry_run=not execute,
        )
    code = ExitCode.NEEDS_A_PERSON if report.needs_person else ExitCode.DONE
    if invocation.output.as_json:
        invocation.output.document(report.to_dict())
        return code
    _show(invocation.output, report, execute)
    return code


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
    for said in report.beginnings:
        output.line(said)
    if execute:
        output.line(f"{report.records:,} records, {size}, are in {report.topic}, read back and compared.")
    else:
        output.line(f"{report.records:,} records, {size}, can be written into {report.topic}: --execute does it.")
    for said in report.incomplete:
        output.line(f"needs a person: the archive is not whole: {said}", "bold red")


COMMANDS = (archive_command, restore_command)


def _topic_id(text: str) -> UUID:
    try:
        return parse_kafka_uuid(text)
    except ValueError:
        raise ConfigurationError(
            f"--topic-id {in_quotes(text)} is no topic id in Kafka's form, such as g9LiIua4STiXAgIF9bPVMg"
        ) from None
