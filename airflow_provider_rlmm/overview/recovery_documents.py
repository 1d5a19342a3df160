# SPDX-License-Identifier: Apache-2.0
"""
What surveys, scrubs and archives tell of segments whose cluster is lost.

An inventory has the state of each segment that was not finished, and nearly all of its metadata; the table of a scrub names
what the log called finished and lay there all the same; an archive of a plan names what was to be deleted. What they lack
proves nothing: none of them says how far the log had been read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, equals
from airflow_provider_rlmm.core.base.arrow_ids import IdSet
from airflow_provider_rlmm.core.base.errors import ArchiveError, ConfigurationError, DocumentError, PlanError
from airflow_provider_rlmm.core.base.file_systems import list_files, list_folders, read_file
from airflow_provider_rlmm.core.base.work_folder import cluster_folder, is_cluster_folder
from airflow_provider_rlmm.core.plans.catalogue_document import EarlierSource, SourceKind
from airflow_provider_rlmm.core.plans.plan_files import read_document
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.features.archiving.archive.manifests import read_manifest
from airflow_provider_rlmm.features.archiving.archive.places import MANIFESTS
from airflow_provider_rlmm.features.recovery.earlier_documents import Documents, Told
from airflow_provider_rlmm.features.scrub.rules import ScrubClass
from airflow_provider_rlmm.features.scrub.scrub_files import LATEST, open_scrub
from airflow_provider_rlmm.features.survey.inventory import INVENTORY_DOCUMENT, PARTITIONS_FILE, Inventory
from airflow_provider_rlmm.features.survey.inventory_files import read_inventory

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.core.world.audit import SegmentKey
    from airflow_provider_rlmm.features.archiving.archive_manifest import ArchiveManifest

_KEY: Final = ("topic_id", "partition", "segment_id")
_COPIED: Final = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_DELETING: Final = (RemoteLogSegmentState.DELETE_SEGMENT_STARTED, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)
_NAMES: Final = {"bytes": "segment_size_in_bytes", "leader_epochs": "segment_leader_epochs"}
"""Column of an inventory → what it is called elsewhere."""

_TAKEN: Final = (
    *_KEY, "topic", "start_offset", "end_offset", "bytes", "max_timestamp_ms", "event_timestamp_ms", "broker_id",
    "leader_epochs",
)  # fmt: skip
_MAX_SHOWN: Final = 3


def documents_at_hand(work_uri: str | None, archive_uri: str | None) -> Documents:
    """
    Return what reads the documents of surveys and scrubs in a work folder, and the archives.

    :param work_uri: of the work folder, ``None`` for none.
    :param archive_uri: the folder of all archives, ``None`` for none.
    """

    def read(cluster_id: str | None, ids: IdSet) -> Iterator[Told]:
        if work_uri is not None:
            for folder in _clusters(work_uri, cluster_id):
                yield from _inventory(f"{work_uri}/{folder}", ids)
                yield from _scrub(work_uri, folder, ids)
        if archive_uri is not None:
            yield _archives(archive_uri.rstrip("/"), cluster_id, ids)

    return read


def _clusters(uri: str, cluster_id: str | None) -> list[str]:
    """Return the folders of the cluster, or of all clusters."""
    return [
        name
        for name in list_folders(uri)
        if (is_cluster_folder(name) if cluster_id is None else name == cluster_folder(cluster_id))
    ]


def _inventory(cluster_uri: str, ids: IdSet) -> Iterator[Told]:
    """Yield what the newest survey of a cluster found; nothing where there is none."""
    import pyarrow as pa

    uri = f"{cluster_uri}/{INVENTORY_DOCUMENT}"
    try:
        with suppress(FileNotFoundError):
            yield _surveyed(uri, cluster_uri, read_inventory(cluster_uri), ids)
    except (OSError, DocumentError, ConfigurationError, pa.ArrowException) as e:
        yield Told(EarlierSource(kind=SourceKind.INVENTORY, uri=uri, why=str(e)))


def _surveyed(uri: str, cluster_uri: str, inventory: Inventory, ids: IdSet) -> Told:
    import pyarrow as pa

    name, total = f"inventory {uri}", 0
    deleted, gone, pieces = dict[Any, str](), dict[tuple[bytes, int], str](), list[pa.Table]()
    for file in sorted(inventory.files):
        if file.startswith("segments-"):
            for rows in _rows(cluster_uri, inventory, file, (*_TAKEN, "state")):
                total += rows.filter(equals(rows.column("state"), _COPIED.name)).num_rows
                here = rows.filter(array_of(ids.holds(rows.column("segment_id")), pa.bool_()))
                for state in _DELETING:
                    for row in here.filter(equals(here.column("state"), state.name)).select(_KEY).to_pylist():
                        deleted[tuple(row.values())] = f"{name} has it as {state.name}"
                pieces.append(here.filter(equals(here.column("state"), _COPIED.name)).select(_TAKEN))
    for rows in _rows(cluster_uri, inventory, PARTITIONS_FILE, ("topic_id", "partition", "deletion")):
        for row in rows.filter(rows.column("deletion").is_valid()).to_pylist():
            gone[row["topic_id"], row["partition"]] = f"{name} has its user partition as {row['deletion']}"
    copied = pa.concat_tables(pieces).combine_chunks() if pieces else None
    source = EarlierSource(
        kind=SourceKind.INVENTORY, uri=uri, sha256=hashlib.sha256(inventory.to_json().encode()).hexdigest(),
        made_at_ms=inventory.created_at_ms, cluster_id=inventory.cluster_id, copied=total,
        found=0 if copied is None else copied.num_rows,
    )  # fmt: skip
    renamed = None if copied is None else copied.rename_columns([_NAMES.get(n, n) for n in copied.column_names])
    return Told(source, deleted, gone, renamed)


def _rows(cluster_uri: str, inventory: Inventory, name: str, columns: tuple[str, ...]) -> Iterator[pa.Table]:
    """Yield some columns of a file of a survey, some thousand rows at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    uri, file = f"{cluster_uri}/{inventory.generation}/{name}", inventory.files[name]
    try:
        data = read_file(uri, file.bytes)
    except FileNotFoundError as e:
        raise DocumentError(f"{uri} is not there any more: a later survey has taken its place") from e
    if (len(data), hashlib.sha256(data).hexdigest()) != (file.bytes, file.sha256):
        raise DocumentError(f"{uri} is not the file that the survey has written")
    with pq.ParquetFile(pa.BufferReader(data)) as parquet:
        for batch in parquet.iter_batches(columns=list(columns)):
            yield pa.Table.from_batches([batch]).select(list(columns))


def _scrub(work_uri: str, cluster: str, ids: IdSet) -> Iterator[Told]:
    """Yield what the latest scrub of a cluster found; nothing where there is none."""
    uri = f"{work_uri}/{cluster}/{LATEST}"
    try:
        try:
            latest = json.loads(read_document(f"{work_uri}/{cluster}", LATEST, 2**16))
        except PlanError as e:
            if isinstance(e.__cause__, FileNotFoundError):
                return
            raise
        name = str(latest["scrub_id"])
        if name not in list_folders(work_uri):
            raise PlanError(f"the scrub {name} that it names is not there any more")
        yield _scrubbed(f"{work_uri}/{name}", str(latest["sha256"]), ids)
    except (OSError, PlanError, ValueError, LookupError, TypeError, ConfigurationError) as e:
        yield Told(EarlierSource(kind=SourceKind.SCRUB, uri=uri, why=str(e)))


def _scrubbed(uri: str, sha256: str, ids: IdSet) -> Told:
    import pyarrow as pa

    deleted = dict[Any, str]()
    with open_scrub(uri) as (summary, table):
        if summary.file.sha256 != sha256:
            raise PlanError(f"{uri} is not the scrub that was recorded")
        for rows in table.of_class(ScrubClass.FINISHED.value):
            named = rows.filter(rows.column("segment_id").is_valid()).select(_KEY)
            for row in named.filter(array_of(ids.holds(named.column("segment_id")), pa.bool_())).to_pylist():
                deleted[tuple(row.values())] = f"scrub {uri} found that the log calls it DELETE_SEGMENT_FINISHED"
    return Told(
        EarlierSource(
            kind=SourceKind.SCRUB,
            uri=uri,
            sha256=summary.file.sha256,
            cluster_id=summary.cluster_id,
            found=len(deleted),
        ),
        deleted,
    )


def _archives(archive_uri: str, cluster_id: str | None, ids: IdSet) -> Told:
    """Return what archives call deleted: what was archived of a plan, and what was being deleted then."""
    deleted, unread = dict[Any, str](), list[str]()
    try:
        for cluster in _clusters(archive_uri, cluster_id):
            for topic in list_folders(f"{archive_uri}/{cluster}"):
                for partition in filter(str.isdecimal, list_folders(f"{archive_uri}/{cluster}/{topic}")):
                    folder = f"{archive_uri}/{cluster}/{topic}/{partition}"
                    for name in list_files(f"{folder}/{MANIFESTS}"):
                        try:
                            manifest = read_manifest(folder, f"{MANIFESTS}/{name}")
                            deleted |= _deleted_by(manifest, f"archive {folder}/{MANIFESTS}/{name}", ids)
                        except ArchiveError as e:
                            unread.append(f"{folder}/{MANIFESTS}/{name}: {e}")
    except (OSError, ConfigurationError) as e:
        unread.append(f"{archive_uri} cannot be listed: {e}")
    more = f"; and {len(unread) - _MAX_SHOWN} more" if len(unread) > _MAX_SHOWN else ""
    why = "; ".join(unread[:_MAX_SHOWN]) + more if unread else None
    return Told(EarlierSource(kind=SourceKind.ARCHIVE, uri=archive_uri, found=len(deleted), why=why), deleted)


def _deleted_by(manifest: ArchiveManifest, name: str, ids: IdSet) -> dict[SegmentKey, str]:
    import pyarrow as pa

    segments = [segment.as_metadata() for segment in manifest.segments]
    held = ids.holds(array_of([of.remote_log_segment_id.id.bytes for of in segments], pa.binary()))
    found = dict[Any, str]()
    for of, is_here in zip(segments, held.tolist(), strict=True):
        tip = of.remote_log_segment_id.topic_id_partition
        key = tip.topic_id.bytes, tip.partition, of.remote_log_segment_id.id.bytes
        if is_here and of.state in _DELETING:
            found[key] = f"{name} has it as {of.state.name}"
        elif is_here and manifest.plan_id is not None:
            found[key] = f"{name} was made of plan {manifest.plan_id}, to delete it"
    return found
