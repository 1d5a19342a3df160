# SPDX-License-Identifier: Apache-2.0
"""The command of the way back: what lies in storage, without the cluster that wrote it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.cli.help import command
from airflow_provider_rlmm.cli.options import Invocation, option_of, with_storage_only
from airflow_provider_rlmm.cli.output import Output, working
from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.clock import since
from airflow_provider_rlmm.core.base.quoting import human_bytes, in_quotes
from airflow_provider_rlmm.core.runs import connection_fields as connection

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.plans.catalogue_document import Catalogue, EarlierSource


@command()
@click.option("--output", required=True, metavar="FOLDER", help="Folder for the catalogue, empty, or its URI.")
@click.option("--topic", "topics", metavar="NAME|ID", multiple=True, help="Only this topic; several times.")
@option_of(
    connection.EXPECTED_CLUSTER_ID,
    "Of which cluster the segments are, where no stamp beside them says it",
    option="--cluster-id",
    metavar="ID",
)
@click.option(
    "--manifests-per-second", type=click.IntRange(1), metavar="NUMBER", help="The most segments read in a second."
)
@click.option("--snapshot", "snapshots", metavar="FILE", multiple=True, help="Ask this snapshot, too; several times.")
@click.option(
    "--audit",
    "audits",
    metavar="FOLDER",
    multiple=True,
    help="Ask this audit log, too, or the one in it; several times.",
)
@click.option(
    "--whole-logs", is_flag=True, help="Read the whole log of each segment of the layout aiven whose manifest is gone."
)
@click.option(
    "--prove", is_flag=True, help="Read all segments whole and prove each row by the contents; --whole-logs is implied."
)
@click.option("--allow-gaps", is_flag=True, help="With --prove: offsets may be missing: the topic was compacted once.")
@click.option(
    "--bytes-per-second", type=click.IntRange(1), metavar="NUMBER", help="With --prove: the most fetched in a second."
)
@with_storage_only
def recover(
    invocation: Invocation,
    output: str,
    topics: tuple[str, ...],
    manifests_per_second: int | None,
    snapshots: tuple[str, ...],
    audits: tuple[str, ...],
    whole_logs: bool,
    prove: bool,
    allow_gaps: bool,
    bytes_per_second: int | None,
) -> int:
    """
    Make a catalogue of all copied segments in storage; no broker is asked, and nothing is written there.

    It says what was copied, never what is alive. The manifests of the layout aiven hold nearly the whole record; of other
    layouts the last batches and the indexes tell most of it. Snapshots, audit logs, surveys and scrubs in the work folder
    are asked first, and archives: a segment that they call deleted is left out and named. A run that was interrupted goes on.
    """
    from airflow_provider_rlmm.features.recovery.steps import CatalogueRequest, make_catalogue
    from airflow_provider_rlmm.overview.recovery_documents import documents_at_hand

    access = invocation.storage_access()
    settings = access.get_connection_settings()
    request = CatalogueRequest(
        storage_uri=settings.required_storage_uri(),
        output=output,
        topics=topics,
        cluster_id=settings.expected_cluster_id,
        manifests_per_second=manifests_per_second,
        work_uri=invocation.work_uri,
        snapshots_uri=settings.snapshots_uri,
        snapshots=snapshots,
        audits=audits,
        whole_logs=whole_logs,
        prove=prove,
        may_have_gaps=allow_gaps,
        bytes_per_second=bytes_per_second,
    )
    with working() as shown:
        documents = documents_at_hand(invocation.work_uri, settings.archive_uri)
        catalogue = make_catalogue(access.get_storage_manager(), request, shown.on_step, documents=documents)
    problems = list(catalogue.problems())
    if invocation.output.as_json:
        invocation.output.document(json.loads(catalogue.to_json()))
    for problem in problems:
        invocation.output.problem(f"needs a person: {problem}")
    _say(invocation.output, catalogue, output)
    return ExitCode.NEEDS_A_PERSON if problems else ExitCode.DONE


def _say(output: Output, catalogue: Catalogue, where: str) -> None:
    if output.as_json:
        return
    kinds = {kind: amount for kind, amount in catalogue.kinds.items() if amount.rows}
    output.rows(
        [{"kind": k, "rows": a.rows, "objects": a.objects, "bytes": a.bytes} for k, a in kinds.items()],
        {"kind": "kind", "rows": "rows", "objects": "objects", "bytes": "size"},
        "found",
    )
    topics = [
        {
            "topic": topic.topic,
            "topic_id": topic.topic_id,
            "segments": topic.whole.rows,
            "log_bytes": topic.log_bytes,
            "needs_person": topic.needs_person,
        }
        for topic in catalogue.topics
    ]
    columns = {
        "topic": "topic", "topic_id": "topic id", "segments": "whole segments", "log_bytes": "size of the logs",
        "needs_person": "need a person",
    }  # fmt: skip
    output.rows(topics, columns, "topics")
    if catalogue.topics_left_out:
        output.line(f"and {number_of(catalogue.topics_left_out, 'more topic')}")
    if catalogue.several_ids:
        names = ", ".join(map(in_quotes, catalogue.several_ids))
        output.line(f"Several topic ids have these names, as topics of one name were made anew: {names}.")
    listed, left = catalogue.listed, catalogue.left_out
    output.line(
        f"{number_of(listed.objects, 'object')}, {human_bytes(listed.bytes)} {agreeing(listed.objects, 'was', 'were')} "
        f"listed; {number_of(left.objects, 'of them was', 'of them were')} not asked for. "
        f"{number_of(catalogue.foreign_folders, 'folder of no topic was', 'folders of no topic were')} not looked into."
    )
    output.line(f"The cluster is {_cluster(catalogue)}.")
    for source in catalogue.earlier:
        output.line(f"{source.kind} {source.uri}: {_said(source)}")
    if (before := catalogue.taken_up) is not None:
        output.line(
            f"A run was interrupted that began {since(before.since_ms)}: {number_of(before.segments, 'segment')} that "
            f"it had read, and {before.proved:,} that it had proved, are as they were and were not read again."
        )
        for discarded in before.discarded:
            output.line(f"Not used of what it has left: {discarded}")
    for sentence in catalogue.says:
        output.line(sentence)
    output.line(f"The catalogue is {where}")


def _cluster(catalogue: Catalogue) -> str:
    if catalogue.cluster_id is not None:
        return f"{in_quotes(catalogue.cluster_id)}, {_SAID_BY[catalogue.cluster_id_from]}"
    return "unknown: no stamp beside the places says it, and no --cluster-id does"


def _said(source: EarlierSource) -> str:
    if source.why is not None:
        return f"cannot be read: {source.why}"
    if source.made_at_ms is None:
        return (
            f"{number_of(source.found, 'segment that it calls deleted has', 'segments that it calls deleted have')} "
            "objects here"
        )
    return (
        f"of {since(source.made_at_ms)}; of {number_of(source.copied, 'copied segment')} "
        f"{number_of(source.found, 'has', 'have')} objects here"
    )


_SAID_BY = {
    "STAMP": "as the stamp beside the places says",
    "PERSON": "as --cluster-id says",
}

COMMANDS = (recover,)
