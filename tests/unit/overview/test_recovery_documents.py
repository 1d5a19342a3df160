# SPDX-License-Identifier: Apache-2.0
"""What surveys, scrubs and archives add to a catalogue, and what they take out of it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_rlmm.core.base.arrow_ids import IdSet
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.plans.catalogue_document import Catalogue, SourceKind
from airflow_provider_rlmm.core.plans.catalogue_rows import CatalogueRow, ProvedBy, RowKind
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, kafka_uuid_str
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.features.archiving.archive.manifests import write_manifest
from airflow_provider_rlmm.features.archiving.archive.places import folder_of
from airflow_provider_rlmm.features.archiving.archive_manifest import (
    ArchivedRecords,
    ArchivedSegment,
    ArchiveManifest,
)
from airflow_provider_rlmm.features.recovery.steps import CatalogueRequest, make_catalogue
from airflow_provider_rlmm.features.survey import inventory_files as files
from airflow_provider_rlmm.features.survey.inventory import INVENTORY_DOCUMENT, Inventory, Totals
from airflow_provider_rlmm.overview.recovery_documents import documents_at_hand
from tests import builders
from tests.recovery import Bucket, kinds, partition, rows_in, segment
from tests.recovery_sources import CLUSTER_ID, FIRST, SECOND, copied, keep
from tests.unit.features.scrub.test_scrub_plan import TOPIC, Scrubs

NONE = Count(0, 0)
TOTALS = Totals(NONE, NONE, NONE, NONE, NONE, None, None, 0, 0, NONE, 0, 0, ())


def catalogue(
    *segments: RemoteLogSegmentMetadata, work: Path | None = None, archives: Path | None = None, **asked: Any
) -> tuple[Catalogue, list[CatalogueRow]]:
    bucket = Bucket()
    for of in segments:
        bucket.copy(of)
    documents = documents_at_hand(work and str(work), archives and str(archives))
    with TemporaryDirectory() as folder:
        request = CatalogueRequest(storage_uri="memory:///", output=f"{folder}/c", work_uri=work and str(work), **asked)
        made = make_catalogue(bucket.storage, request, clock=lambda: 77, documents=documents)
        return made, rows_in(f"{folder}/c")


def surveyed(
    work: Path,
    segments: Sequence[tuple[RemoteLogSegmentMetadata, S]],
    deletion: str | None = None,
    cluster_id: str = CLUSTER_ID,
) -> Inventory:
    rows = [
        {
            "topic_id": of.remote_log_segment_id.topic_id_partition.topic_id.bytes, "topic": "orders",
            "partition": of.remote_log_segment_id.topic_id_partition.partition,
            "segment_id": of.remote_log_segment_id.id.bytes, "state": state.name, "start_offset": of.start_offset,
            "end_offset": of.end_offset, "bytes": of.segment_size_in_bytes, "max_timestamp_ms": of.max_timestamp_ms,
            "event_timestamp_ms": 20_001, "broker_id": 4,
            "leader_epochs": [{"leader_epoch": e, "start_offset": s} for e, s in of.segment_leader_epochs],
            "added_offset": 0, "event_offset": 1,
        }
        for of, state in segments
    ]  # fmt: skip
    parts = [{"topic_id": partition().topic_id.bytes, "topic": "orders", "partition": 0, "deletion": deletion}]
    return files.write_inventory(
        str(work / cluster_folder(cluster_id)), cluster_id=cluster_id, connection="rlmm_default", artifact="run",
        created_at_ms=1_700_000_000_000, topics=files.topics_schema().empty_table(),
        partitions=pa.Table.from_pylist(parts, schema=files.partitions_schema()),
        segments=[(0, pa.Table.from_pylist(rows, schema=files.segments_schema()))], totals=TOTALS,
    )  # fmt: skip


def test_an_inventory_tells_what_no_snapshot_does(tmp_path: Path) -> None:
    inventory = surveyed(tmp_path, [(FIRST, S.COPY_SEGMENT_FINISHED), (SECOND, S.COPY_SEGMENT_FINISHED)])
    keep(tmp_path, copied(SECOND))
    made, rows = catalogue(FIRST, SECOND, segment(3, 20, 29), work=tmp_path)
    assert [(row.kind, row.proved_by) for row in rows] == [
        (RowKind.COPIED, ProvedBy.INVENTORY), (RowKind.COPIED, ProvedBy.SNAPSHOT), (RowKind.COPIED, ProvedBy.MANIFEST),
    ]  # fmt: skip
    first = rows[0]
    assert (first.state, first.event_timestamp_ms, first.broker_id) == ("COPY_SEGMENT_FINISHED", 20_001, 4)
    # What it lacks the manifest tells, or nothing.
    assert (first.txn_idx_empty, first.custom_metadata, first.end_offset) == (True, None, 9)
    source = next(source for source in made.earlier if source.kind is SourceKind.INVENTORY)
    document = tmp_path / cluster_folder(CLUSTER_ID) / INVENTORY_DOCUMENT
    assert (source.uri, source.copied, source.found, source.why) == (str(document), 2, 2, None)
    assert source.sha256 == hashlib.sha256(document.read_bytes()).hexdigest()
    assert (source.made_at_ms, source.cluster_id) == (inventory.created_at_ms, CLUSTER_ID)
    assert list(made.problems()) == []


def test_objects_that_contradict_an_inventory_prove_nothing(tmp_path: Path) -> None:
    surveyed(tmp_path, [(replace(FIRST, end_offset=8), S.COPY_SEGMENT_FINISHED)])
    made, [row] = catalogue(FIRST, work=tmp_path)
    assert (row.kind, row.proved_by) == (RowKind.DAMAGED, ProvedBy.KEY)
    assert row.why == "its objects say that end_offset is 9, and an inventory of the metadata topic says 8"
    assert made.problems()


def test_what_an_inventory_calls_deleted_is_left_out_and_named(tmp_path: Path) -> None:
    surveyed(tmp_path, [(FIRST, S.DELETE_SEGMENT_STARTED), (SECOND, S.COPY_SEGMENT_FINISHED)])
    _, rows = catalogue(FIRST, SECOND, work=tmp_path)
    assert kinds(rows) == ["DELETED", "COPIED"]
    assert "inventory.json has it as DELETE_SEGMENT_STARTED" in str(rows[0].why)


def test_a_user_partition_whose_deletion_an_inventory_knows_is_left_out(tmp_path: Path) -> None:
    surveyed(tmp_path, [(FIRST, S.COPY_SEGMENT_FINISHED)], deletion="DELETE_PARTITION_MARKED")
    _, rows = catalogue(FIRST, segment(2, 0, 9, of=partition(1)), work=tmp_path)
    assert kinds(rows) == ["DELETED", "COPIED"]
    assert "has its user partition as DELETE_PARTITION_MARKED" in str(rows[0].why)


def test_what_an_inventory_lacks_is_not_deleted(tmp_path: Path) -> None:
    surveyed(tmp_path, [])
    assert kinds(catalogue(FIRST, work=tmp_path)[1]) == ["COPIED"]


@pytest.mark.parametrize("damaged", ["document", "segments", "partitions", "gone"])
def test_an_inventory_that_is_not_as_it_was_written_is_said_in_red(tmp_path: Path, damaged: str) -> None:
    inventory = surveyed(tmp_path, [(FIRST, S.DELETE_SEGMENT_STARTED)])
    cluster = tmp_path / cluster_folder(CLUSTER_ID)
    name = {"partitions": "partitions.parquet"}.get(damaged, "segments-0.parquet")
    path = cluster / INVENTORY_DOCUMENT if damaged == "document" else cluster / inventory.generation / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink() if damaged == "gone" else path.write_bytes(bytes(data))
    made, rows = catalogue(FIRST, work=tmp_path)
    # Nothing of it is used.
    assert kinds(rows) == ["COPIED"]
    [problem] = made.problems()
    assert INVENTORY_DOCUMENT in problem


def test_a_cluster_that_is_known_asks_only_its_own_documents(tmp_path: Path) -> None:
    surveyed(tmp_path / "work", [(FIRST, S.DELETE_SEGMENT_STARTED)], cluster_id="another")
    archived(tmp_path / "archives", FIRST, plan_id="p", cluster_id="another")
    both = {"work": tmp_path / "work", "archives": tmp_path / "archives"}
    assert kinds(catalogue(FIRST, **both)[1]) == ["DELETED"]
    assert kinds(catalogue(FIRST, **both, cluster_id=CLUSTER_ID)[1]) == ["COPIED"]


def archived(
    folder: Path, of: RemoteLogSegmentMetadata, *, plan_id: str | None = None, cluster_id: str = CLUSTER_ID
) -> Path:
    """An archive of one segment, as its manifest names it; its files do not matter here."""
    tip = of.remote_log_segment_id.topic_id_partition
    records = ArchivedRecords(0, 0, (), None, None, None, None, "0" * 64, "0" * 64)
    manifest = ArchiveManifest(
        "run", "try", cluster_id, tip.topic, kafka_uuid_str(tip.topic_id), tip.partition, 5, plan_id,
        plan_id and "0" * 64, (ArchivedSegment(base64.b64encode(serialize(of)).decode(), False, False, {}),), records,
    )  # fmt: skip
    where = folder_of(str(folder), cluster_id, tip)
    return Path(where, write_manifest(where, manifest).name)


def test_what_was_archived_to_be_deleted_is_left_out_and_named(tmp_path: Path) -> None:
    path = archived(tmp_path, FIRST, plan_id="plan 7")
    made, rows = catalogue(FIRST, SECOND, archives=tmp_path)
    assert kinds(rows) == ["DELETED", "COPIED"]
    assert rows[0].why == f"archive {path} was made of plan plan 7, to delete it"
    assert [(source.kind, source.uri, source.found) for source in made.earlier] == [
        (SourceKind.ARCHIVE, str(tmp_path), 1)
    ]
    assert list(made.problems()) == []


def test_what_was_archived_while_it_was_deleted_is_left_out(tmp_path: Path) -> None:
    archived(tmp_path, replace(FIRST, state=S.DELETE_SEGMENT_STARTED))
    archived(tmp_path, replace(segment(2, 0, 9, of=partition(1)), state=S.COPY_SEGMENT_FINISHED))
    _, rows = catalogue(FIRST, segment(2, 0, 9, of=partition(1)), archives=tmp_path)
    # Who archives a living topic deletes nothing of it.
    assert kinds(rows) == ["DELETED", "COPIED"]


@pytest.mark.parametrize("how", ["damaged", "not listed"])
def test_an_archive_that_cannot_be_read_is_said_in_red(tmp_path: Path, how: str) -> None:
    path = archived(tmp_path, FIRST, plan_id="p")
    if how == "damaged":
        path.write_bytes(path.read_bytes()[:-2])
    made, _ = catalogue(FIRST, archives=tmp_path if how == "damaged" else path)
    [problem] = made.problems()
    assert str(path) in problem


def test_what_a_scrub_found_finished_was_deleted(tmp_path: Path) -> None:
    scrubs, ids = Scrubs(tmp_path), IdSet()
    segment_id = scrubs.cluster.segment(TOPIC, 1, S.DELETE_SEGMENT_FINISHED).remote_log_segment_id
    ids.add(pa.array([segment_id.id.bytes], pa.binary()))
    scrubs.scrub()
    (tmp_path / "cluster").rename(tmp_path / cluster_folder(builders.CLUSTER_ID))
    read = documents_at_hand(str(tmp_path), None)
    [told] = read(builders.CLUSTER_ID, ids)
    tip = segment_id.topic_id_partition
    assert list(told.deleted) == [(tip.topic_id.bytes, tip.partition, segment_id.id.bytes)]
    assert (told.source.kind, told.source.found, told.source.why) == (SourceKind.SCRUB, 1, None)
    # Of what does not lie there nothing is kept.
    assert [one.deleted for one in read(builders.CLUSTER_ID, IdSet())] == [{}]
    (tmp_path / "run-1" / "scrub.parquet").write_bytes(b"?")
    [told] = read(builders.CLUSTER_ID, ids)
    assert (told.deleted, bool(told.source.why)) == ({}, True)
    (tmp_path / "run-1").rename(tmp_path / "removed")
    [told] = read(builders.CLUSTER_ID, ids)
    assert "the scrub run-1 that it names is not there any more" in str(told.source.why)
