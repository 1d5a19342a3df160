# SPDX-License-Identifier: Apache-2.0
"""The step that makes a catalogue: what lies in storage, without the cluster that wrote it. It only reads there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_provider_rlmm import __version__
from airflow_provider_rlmm.core.base.clock import Clock, system_clock
from airflow_provider_rlmm.core.base.errors import CatalogueError, ConfigurationError
from airflow_provider_rlmm.core.base.file_systems import files_below, local_path
from airflow_provider_rlmm.core.base.quoting import in_quotes, list_in_quotes
from airflow_provider_rlmm.core.plans.catalogue_document import (
    CATALOGUE_DOCUMENT,
    CATALOGUE_TABLE,
    MAX_LISTED,
    SAYS,
    Catalogue,
    ClusterIdFrom,
)
from airflow_provider_rlmm.core.plans.catalogue_table import catalogue_schema
from airflow_provider_rlmm.core.plans.plan import PlanFile
from airflow_provider_rlmm.core.runs.table_pairs import write_pair
from airflow_provider_rlmm.core.segments.pacing import ByteQuota, StoragePatience
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.features.recovery.cataloguing import Asked, Cataloguing, OnStep, tables_of
from airflow_provider_rlmm.features.recovery.earlier import Earlier, read_earlier
from airflow_provider_rlmm.features.recovery.earlier_documents import Documents, no_documents
from airflow_provider_rlmm.features.recovery.earlier_sources import sources_below, sources_named
from airflow_provider_rlmm.features.recovery.file_suffixes import file_suffixes
from airflow_provider_rlmm.features.recovery.index_reads import Indexes
from airflow_provider_rlmm.features.recovery.listing import list_all
from airflow_provider_rlmm.features.recovery.manifest_reads import Manifests
from airflow_provider_rlmm.features.recovery.progress import Progress
from airflow_provider_rlmm.features.recovery.progress_parts import is_part
from airflow_provider_rlmm.features.recovery.proving import Proofs
from airflow_provider_rlmm.features.recovery.segment_reads import READ_AT_ONCE, SegmentReads, Witness
from airflow_provider_rlmm.features.recovery.tally import CatalogueTally

PATIENCE_S: Final = 60.0
"""Seconds for which a storage that does not answer is asked again for one object."""

_MAX_FOREIGN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueRequest:
    """
    What a person asks for.

    :param storage_uri: of the storage root, as it may be shown.
    :param output: path or URI of a folder for the catalogue.
    :param topics: names and ids in Kafka's form; none for all.
    :param cluster_id: of which cluster the segments are, as the person says it; ``None`` where no person does.
    :param manifests_per_second: the most segments that are read in a second, ``None`` for as many as the storage hands out.
    :param at_once: how many are read at once.
    :param work_uri: the work folder of runs, whose snapshots and audit logs are asked; ``None`` for none.
    :param snapshots_uri: the second place of snapshots, which are asked; ``None`` for none.
    :param snapshots: paths or URIs of further snapshots.
    :param audits: paths or URIs of further audit logs.
    :param whole_logs: whether the whole log is read of each segment that has one and no manifest.
    :param prove: whether each whole segment is read and proved by its contents, and logs without a manifest by themselves.
    :param may_have_gaps: whether missing offsets count as none where segments are proved: topics that were compacted once.
    :param bytes_per_second: the most that is fetched in a second where segments are proved, ``None`` for all that comes.
    """

    storage_uri: str
    output: str
    topics: Collection[str] = ()
    cluster_id: str | None = None
    manifests_per_second: int | None = None
    at_once: int = READ_AT_ONCE
    work_uri: str | None = None
    snapshots_uri: str | None = None
    snapshots: Sequence[str] = ()
    audits: Sequence[str] = ()
    whole_logs: bool = False
    prove: bool = False
    may_have_gaps: bool = False
    bytes_per_second: int | None = None


def make_catalogue(
    storage: RemoteStorageManager,
    request: CatalogueRequest,
    on_step: OnStep = lambda *_: None,
    *,
    clock: Clock = system_clock,
    patience: StoragePatience | None = None,
    documents: Documents = no_documents,
) -> Catalogue:
    """
    List the storage, read what proves its segments, and write it down. What a run has read that was interrupted is taken up.

    :param storage: the storage; it is only read.
    :param request: what is asked for.
    :param on_step: told how far it is.
    :param clock: ms since the epoch.
    :param patience: for how long a storage that does not answer is asked again.
    :param documents: reads what other features have left that tells of segments.
    :return: the document, as it was written.
    :raises ConfigurationError: if the layout does not say which object of a segment is which file.
    :raises CatalogueError: if the folder holds something else or lies in the storage, or the storage is stamped as another
        cluster's than the person says; or a snapshot or audit log that was named, or the work folder, cannot be read; or
        an interrupted run, which has left its progress in the folder, was asked for something else.
    :raises StorageError: if storage does not answer; there is no catalogue then.
    :raises OSError: if the catalogue cannot be written; there is none then.
    """
    layout = storage.layout
    witness = _witness_of(layout, whole_logs=request.whole_logs or request.prove)
    _require_free(request)
    made_at_ms = clock()
    progress = Progress(request.output.rstrip("/"), _asked_for(storage, request, witness), made_at_ms)
    if known := progress.take_up():
        on_step("taking up what an interrupted run has read", known, known)
    cluster_id, said_by, stamps = _cluster_of(storage, request.cluster_id)
    sources = sources_named(request.snapshots, request.audits)
    for uri, mended_by in ((request.work_uri, "work_uri"), (request.snapshots_uri, "snapshots_uri")):
        if uri is not None:
            sources += sources_below(uri, cluster_id, mended_by)
    listed = list_all(storage, lambda count: on_step("listing objects", count, count))
    asked, tally = Asked(request.topics), CatalogueTally(listed.broken)
    pace = ByteQuota(request.manifests_per_second)  # a segment counts as one
    patience = patience or StoragePatience(PATIENCE_S)
    reads = SegmentReads(witness, storage.fetch_object, layout, pace, patience, request.at_once)
    earlier = read_earlier(sources, listed.segment_ids, documents(cluster_id, listed.segment_ids))
    _require_read(request, earlier)
    proofs = _proofs(storage, request, patience, on_step) if request.prove else None
    work = Cataloguing(listed, layout, asked, reads, earlier, proofs, progress, on_step)

    def document(file: PlanFile) -> Catalogue:
        topics, incomplete = tally.topics(), tally.incomplete()
        return Catalogue(
            made_at_ms=made_at_ms,
            layout=layout.name,
            storage=request.storage_uri,
            places=tuple(place.name for place in layout.places),
            cluster_id=cluster_id,
            cluster_id_from=said_by,
            stamps=tuple(stamps),
            says=SAYS,
            asked_for=tuple(sorted(request.topics)),
            not_found=tuple(asked.not_found()),
            listed=work.objects,
            left_out=asked.left_out,
            kinds=tally.kinds,
            topics=tuple(topics[:MAX_LISTED]),
            topics_left_out=max(0, len(topics) - MAX_LISTED),
            several_ids=tuple(tally.several_ids()[:MAX_LISTED]),
            incomplete=tuple(incomplete[:MAX_LISTED]),
            incomplete_left_out=max(0, len(incomplete) - MAX_LISTED),
            foreign_folders=len(listed.foreign),
            foreign=tuple(sorted(listed.foreign)[:_MAX_FOREIGN]),
            file=file,
            earlier=earlier.sources,
            taken_up=progress.taken_up(),
        )

    table = (CATALOGUE_TABLE, catalogue_schema())
    try:
        written: Catalogue = write_pair(
            request.output.rstrip("/"), table, tables_of(work.rows(), tally.note), (CATALOGUE_DOCUMENT, document)
        )
    except BaseException:
        progress.write_if_possible()
        raise
    progress.remove()
    return written


def _asked_for(storage: RemoteStorageManager, request: CatalogueRequest, witness: Witness) -> dict[str, str]:
    """Return what tells whether that which an interrupted run has read is what this one would read."""
    layout = storage.layout
    return {
        "version of this package": __version__,
        "storage": request.storage_uri,
        "layout": layout.name,
        "suffixes of objects": ", ".join(
            f"{suffix}{'' if needed else '?'}" for suffix, needed in layout.suffixes.items()
        ),
        "places": ", ".join(repr((place.name, place.prefix)) for place in layout.places),
        "what is read": witness.reads,
        "allow_gaps": str(request.may_have_gaps),
    }


def _proofs(
    storage: RemoteStorageManager, request: CatalogueRequest, patience: StoragePatience, on_step: OnStep
) -> Proofs:
    return Proofs(
        storage.fetch_object,
        storage.layout,
        ByteQuota(request.bytes_per_second),
        patience,
        may_have_gaps=request.may_have_gaps,
        at_once=request.at_once,
        on_proved=lambda count: on_step("proving segments by their contents", count, count),
    )


def _witness_of(layout: Layout, *, whole_logs: bool) -> Witness:
    """Return what is read of each segment."""
    if layout.name == AivenLayout.name:
        return Manifests(whole_logs=whole_logs)
    return Indexes(file_suffixes(layout))


def _require_free(request: CatalogueRequest) -> None:
    """Refuse a folder in which something else lies, and one in the storage itself."""
    try:
        target, root = local_path(request.output), _local_root(request.storage_uri)
        found = files_below(request.output.rstrip("/"))
    except ConfigurationError as e:
        raise CatalogueError(str(e)) from e
    if target is not None and root is not None and target.resolve().is_relative_to(root):
        raise CatalogueError(
            f"{in_quotes(request.output)} lies in the storage itself: a catalogue is written outside of it"
        )
    # A table without its document is what a run has left that did not come to its end, as are parts of its progress.
    left = [name for name in found if name == CATALOGUE_TABLE or is_part(name)]
    if others := [name for name in found if name not in left or CATALOGUE_DOCUMENT in found]:
        raise CatalogueError(
            f"{in_quotes(request.output)} already holds {list_in_quotes(others)}: a catalogue is written into an empty "
            "folder, so that none is lost; name another one"
        )


def _require_read(request: CatalogueRequest, earlier: Earlier) -> None:
    """Refuse a source that a person names and that cannot be read."""
    named = sources_named(request.snapshots, request.audits)
    for source in earlier.sources:
        if source.why is not None and source.uri in (*named.snapshots, *named.audits):
            raise CatalogueError(f"{in_quotes(source.uri)} cannot be read: {source.why}; correct it, or leave it out")


def _local_root(storage_uri: str) -> Path | None:
    path = local_path(storage_uri) if storage_uri.startswith("file:") else None
    return None if path is None else path.resolve()


def _cluster_of(storage: RemoteStorageManager, said: str | None) -> tuple[str | None, ClusterIdFrom, list[str]]:
    """Return of which cluster the segments are, who says so, and the clusters of all stamps."""
    stamps = storage.stamped_clusters()
    believed = [cluster for cluster, is_believed in stamps.items() if is_believed]
    if said is not None:
        if believed and said not in believed:
            raise CatalogueError(
                f"the storage is stamped as that of cluster {list_in_quotes(believed)}, and expected_cluster_id names "
                f"{in_quotes(said)}: correct it, or leave it out"
            )
        return said, ClusterIdFrom.PERSON, sorted(stamps)
    if len(stamps) == 1 and believed:
        return believed[0], ClusterIdFrom.STAMP, sorted(stamps)
    return None, ClusterIdFrom.UNKNOWN, sorted(stamps)
