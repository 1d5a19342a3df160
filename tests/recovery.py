# SPDX-License-Identifier: Apache-2.0
"""Buckets as Aiven's plugin leaves them, with all that its manifests say, and catalogues of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq

from airflow_provider_rlmm.core.plans.catalogue_document import CATALOGUE_TABLE, Catalogue
from airflow_provider_rlmm.core.plans.catalogue_rows import CatalogueRow
from airflow_provider_rlmm.core.plans.catalogue_table import rows_of
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.segments.pacing import StoragePatience
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layouts import AivenLayout, TemplateLayout
from airflow_provider_rlmm.features.recovery.steps import CatalogueRequest, make_catalogue
from tests.contracts.aiven_objects import AivenPacking, SegmentContents
from tests.kafka_log import Batch, Record, log_of, offset_index, producer_snapshot, time_index

MANIFESTS = Path(__file__).parent / "data" / "aiven" / "manifests.jsonl"
"""What the plugin left beside 18 segments on a real broker: plain, compressed, and compressed and encrypted ones."""

PLAIN = AivenPacking(chunk_size=4_194_304)


def partition(number: int = 0, *, topic: str = "orders", topic_id: int = 7) -> TopicIdPartition:
    """A user partition."""
    return TopicIdPartition(UUID(int=topic_id), topic, number)


def segment(
    number: int,
    start: int,
    end: int,
    epochs: Sequence[tuple[int, int]] | None = None,
    *,
    of: TopicIdPartition | None = None,
    size: int = 10,
) -> RemoteLogSegmentMetadata:
    """A segment as its copy began; its epoch is 0 unless others are given."""
    return RemoteLogSegmentMetadata(
        RemoteLogSegmentId(of or partition(), UUID(int=1_000 + number)), start, end, 5_000 + end, 3, 9_000 + number, size,
        None, RemoteLogSegmentState.COPY_SEGMENT_STARTED, tuple(epochs or ((0, start),)), True,
    )  # fmt: skip


def manifest_of(
    metadata: RemoteLogSegmentMetadata,
    packing: AivenPacking = PLAIN,
    *,
    encrypted: bool = False,
    contents: SegmentContents | None = None,
) -> dict[str, Any]:
    """Return the manifest of a segment as the plugin writes it, before it becomes JSON."""
    contents = contents or SegmentContents(b"x" * metadata.segment_size_in_bytes)
    packed = packing("", metadata, contents)
    found: dict[str, Any] = json.loads(packed[".rsm-manifest"])
    found["remoteLogSegmentMetadata"] |= {
        "maxTimestampMs": metadata.max_timestamp_ms,
        "brokerId": metadata.broker_id,
        "eventTimestampMs": metadata.event_timestamp_ms,
        "segmentLeaderEpochs": {str(epoch): start for epoch, start in metadata.segment_leader_epochs},
        "txnIdxEmpty": metadata.txn_idx_empty,
    }
    return {**found, "encryption": {"dataKey": "k1:AA==", "aad": "AA=="}} if encrypted else found


def as_bytes(document: object) -> bytes:
    """Return JSON as the plugin writes it."""
    return json.dumps(document, separators=(",", ":")).encode()


class Bucket:
    """
    A bucket, and what it shows to a catalogue.

    :param layout: where objects lie.
    """

    def __init__(self, layout: TemplateLayout | None = None) -> None:
        self.layout = layout or AivenLayout("kp/")
        self.storage = InMemoryRemoteStorageManager(self.layout)

    def stem(self, metadata: RemoteLogSegmentMetadata, place: int = 0) -> str:
        """Return what the keys of a segment have in common."""
        return self.layout.segment_stem(metadata, self.layout.places[place])

    def copy(
        self,
        metadata: RemoteLogSegmentMetadata,
        packing: AivenPacking = PLAIN,
        *,
        place: int = 0,
        encrypted: bool = False,
        without: Sequence[str] = (),
        contents: SegmentContents | None = None,
    ) -> str:
        """Put the objects of a segment, but for some suffixes; return its stem."""
        stem = self.stem(metadata, place)
        contents = contents or SegmentContents(b"x" * metadata.segment_size_in_bytes)
        objects = packing(stem, metadata, contents)
        manifest = manifest_of(metadata, packing, encrypted=encrypted, contents=contents)
        objects[f"{stem}.rsm-manifest"] = as_bytes(manifest)
        for key, data in objects.items():
            if not key.endswith(tuple(without)):
                self.storage.put_object(key, data)
        return stem

    def copy_plain(
        self, metadata: RemoteLogSegmentMetadata, files: PlainSegment | None = None, *, without: Sequence[str] = ()
    ) -> str:
        """Put each file of a segment as an object, but for some; return its stem."""
        stem = self.stem(metadata)
        for index_type, data in (files or plain_segment(metadata)).items():
            key = self.layout.object_key(metadata, index_type)
            if not key.endswith(tuple(without)):
                self.storage.put_object(key, data)
        return stem

    def catalogue(self, **asked: Any) -> tuple[Catalogue, list[CatalogueRow]]:
        """Make a catalogue in a folder of its own."""
        with TemporaryDirectory() as folder:
            request = CatalogueRequest(storage_uri="memory:///", output=f"{folder}/catalogue", **asked)
            patience = StoragePatience(0.0, sleep=lambda _: None)
            made = make_catalogue(self.storage, request, clock=lambda: 77, patience=patience)
            return made, rows_in(f"{folder}/catalogue")

    def rows(self, **asked: Any) -> list[CatalogueRow]:
        """Return the rows of a catalogue."""
        return self.catalogue(**asked)[1]


def put_into(folder: Path, bucket: Bucket) -> str:
    """Write the objects of a bucket into a folder, and return its URI."""
    for key in bucket.storage.keys:
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(bucket.storage.fetch_object(key))
    return folder.as_uri()


PlainSegment = dict[IndexType | None, bytes]
"""The files of a segment; ``None`` stands for the log."""


def plain_segment(
    metadata: RemoteLogSegmentMetadata,
    *,
    per_batch: int = 3,
    index_every: int = 2,
    batches: Sequence[Batch] | None = None,
    before: Sequence[tuple[int, int]] = (),
) -> PlainSegment:
    """
    The files of a segment as a broker leaves them.

    :param metadata: the segment.
    :param per_batch: records of a batch, at most; an epoch begins with a batch of its own.
    :param index_every: so many batches lie between two entries of the indexes, but for the last one of the time index.
    :param batches: those of its log, if not made.
    :param before: leader epochs that began before it.
    """
    batches = batches_of(metadata, per_batch) if batches is None else batches
    positions = [0, *accumulate(len(batch.to_bytes()) for batch in batches)]
    indexed = list(zip(batches, positions, strict=False))[index_every::index_every]
    newest, times = -1, []
    for number, batch in enumerate(batches, 1):
        highest = max(batch.records, key=lambda record: (record.timestamp, -record.offset))
        if highest.timestamp > newest and (number == len(batches) or number % index_every == 0):
            newest = highest.timestamp
            times.append((newest, highest.offset))
    top = max((r for b in batches for r in b.records), key=lambda record: (record.timestamp, -record.offset))
    if top.timestamp > newest:
        times.append((top.timestamp, top.offset))
    epochs = tuple(sorted({**dict(metadata.segment_leader_epochs), **dict(before)}.items()))
    return {
        None: log_of(batches),
        IndexType.OFFSET: offset_index(metadata.start_offset, [(b.records[-1].offset, at) for b, at in indexed]),
        IndexType.TIMESTAMP: time_index(metadata.start_offset, times),
        IndexType.PRODUCER_SNAPSHOT: producer_snapshot([]),
        IndexType.LEADER_EPOCH: LeaderEpochCheckpoint(epochs).to_text().encode(),
    }


def batches_of(metadata: RemoteLogSegmentMetadata, per_batch: int = 3) -> list[Batch]:
    """Return batches with all offsets of a segment, the last of which has its largest timestamp."""
    ends = [start for _, start in metadata.segment_leader_epochs[1:]] + [metadata.end_offset + 1]
    found = []
    for (epoch, start), end in zip(metadata.segment_leader_epochs, ends, strict=True):
        for first in range(max(start, metadata.start_offset), end, per_batch):
            offsets = range(first, min(first + per_batch, end))
            records = [Record(o, metadata.max_timestamp_ms - metadata.end_offset + o) for o in offsets]
            found.append(Batch(tuple(records), leader_epoch=epoch))
    return found


def rows_in(folder: str) -> list[CatalogueRow]:
    """Return the rows of the catalogue in a folder."""
    return list(rows_of(pq.read_table(f"{folder}/{CATALOGUE_TABLE}")))


def kinds(rows: Sequence[CatalogueRow]) -> list[str]:
    """Return the kinds of some rows."""
    return [row.kind.value for row in rows]


def recorded_bucket() -> tuple[Bucket, list[dict[str, Any]]]:
    """Return the bucket that the plugin left on a real broker, and what its manifests say."""
    bucket, manifests = Bucket(AivenLayout("")), []
    for line in MANIFESTS.read_text().splitlines():
        found = json.loads(line)
        bucket.storage.put_object(f"{found['stem']}.log", b"x" * found["log_bytes"])
        bucket.storage.put_object(f"{found['stem']}.indexes", b"x" * found["indexes_bytes"])
        bucket.storage.put_object(f"{found['stem']}.rsm-manifest", found["manifest"].encode())
        manifests.append({**json.loads(found["manifest"]), "stem": found["stem"]})
    return bucket, manifests


def as_copied(row: CatalogueRow) -> RemoteLogSegmentMetadata:
    """Return the metadata of a whole segment as a catalogue has it, in the state in which its copy began."""
    known: Any = row  # of a whole segment all is
    tip = TopicIdPartition(known.topic_id, known.topic, known.partition)
    return RemoteLogSegmentMetadata(
        RemoteLogSegmentId(tip, known.segment_id), known.start_offset, known.end_offset, known.max_timestamp_ms,
        known.broker_id, known.event_timestamp_ms, known.segment_size_in_bytes, known.custom_metadata,
        RemoteLogSegmentState.COPY_SEGMENT_STARTED, known.segment_leader_epochs, known.txn_idx_empty,
    )  # fmt: skip


def without_custom(metadata: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata:
    """Return metadata without what no manifest holds."""
    return replace(metadata, custom_metadata=None, state=RemoteLogSegmentState.COPY_SEGMENT_STARTED)
