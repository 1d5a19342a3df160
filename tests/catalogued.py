# SPDX-License-Identifier: Apache-2.0
"""A topic in a folder in the layout of Aiven's plugin, its catalogue, and what reads by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.plans.catalogue_document import Catalogue
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    kafka_uuid_str,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
from airflow_provider_rlmm.core.runs.storage_access import StorageSource
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation, ReadRange
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.core.world.run_identity import RunIdentity
from airflow_provider_rlmm.features.reading.catalogue_steps import (
    CatalogueAsked,
    CatalogueReader,
    open_catalogued_log,
)
from airflow_provider_rlmm.features.reading.catalogued_log import CataloguedLog
from airflow_provider_rlmm.features.recovery.steps import CatalogueRequest, make_catalogue
from tests.access import OpenStorage, refuse
from tests.contracts.aiven_objects import AivenPacking, SegmentContents
from tests.kafka_log import Batch, log_of, producer_snapshot, time_index
from tests.recovery import PLAIN, Bucket, put_into
from tests.remote_log_world import TIP, SegmentFiles, as_rows
from tests.tiered_orders import BATCH, batches

ID = kafka_uuid_str(TIP.topic_id)
CLUSTER = "cluster-1"
NOW_MS = 1_700_000_100_000
RUN = RunIdentity("rlmm read", "read.1", "read.1", "ada")


def files_of(
    number: int,
    start: int,
    epochs: Sequence[tuple[int, int]] = ((0, 0),),
    *,
    of: TopicIdPartition = TIP,
    written: Sequence[Batch] | None = None,
) -> SegmentFiles:
    """Return a segment of thirty records from an offset on, of a log with this lineage; each record says its offset."""
    lineage = LeaderEpochCheckpoint(tuple(epochs))
    written = written or [
        batch
        for at in range(3)
        for batch in batches(start + at * BATCH, 1, leader_epoch=lineage.epoch_for_offset(start + at * BATCH) or 0)
    ]
    end, log = written[-1].records[-1].offset, log_of(written)
    latest = max(record.timestamp for batch in written for record in batch.records)
    metadata = RemoteLogSegmentMetadata(
        RemoteLogSegmentId(of, UUID(int=1000 + number)), start, end, latest, 1, NOW_MS + number, len(log), None,
        RemoteLogSegmentState.COPY_SEGMENT_FINISHED, lineage.in_range(start, end + 1).entries, True,
    )  # fmt: skip
    indexes = {
        IndexType.OFFSET: b"",
        IndexType.TIMESTAMP: time_index(start, [(latest, end)]),
        IndexType.PRODUCER_SNAPSHOT: producer_snapshot([]),
        IndexType.LEADER_EPOCH: lineage.truncate_from_end(end + 1).to_text().encode(),
    }
    return SegmentFiles(metadata, log, indexes)


class CataloguedTopic:
    """
    A bucket in a folder, and who reads from it by a catalogue.

    :param folder: for bucket, catalogues and work folder.
    :param segments: what lies in the bucket.
    """

    def __init__(self, folder: Path, *segments: SegmentFiles) -> None:
        self.folder = folder
        self.bucket = Bucket()
        self._numbers = count()
        for files in segments:
            self.put(files)

    def put(self, files: SegmentFiles, packing: AivenPacking = PLAIN, **how: Any) -> str:
        """Put the objects of a segment; return what their keys begin with."""
        return self.bucket.copy(files.metadata, packing, contents=SegmentContents(files.log, files.indexes), **how)

    @property
    def root(self) -> Path:
        return self.folder / "bucket"

    @property
    def storage_uri(self) -> str:
        self.root.mkdir(parents=True, exist_ok=True)
        return self.root.as_uri()

    def recover(self, *, cluster_id: str | None = CLUSTER, **asked: Any) -> str:
        """Make a catalogue of what lies in the bucket now; return its folder."""
        put_into(self.root, self.bucket)
        folder = str(self.folder / f"catalogue-{next(self._numbers)}")
        self.made: Catalogue = make_catalogue(
            ObjectStoreRemoteStorageManager(self.storage_uri, self.bucket.layout),
            CatalogueRequest(storage_uri=self.storage_uri, output=folder, cluster_id=cluster_id, **asked),
        )
        return folder

    def settings(self, **changed: Any) -> RemoteLogSettings:
        """Return settings that allow the topic."""
        found = RemoteLogSettings(storage_uri=self.storage_uri, layout="aiven", key_prefix="kp/", allow_catalogue=ID)
        return replace(found, **changed)

    def open(
        self,
        catalogue: str | None = None,
        topic: str = ID,
        partitions: Sequence[int] | None = None,
        *,
        settings: RemoteLogSettings | None = None,
        wanted: ReadRange = ReadRange(),  # noqa: B008 # it is frozen
        isolation: ReadIsolation = ReadIsolation.READ_UNCOMMITTED,
        **asked: Any,
    ) -> CataloguedLog:
        """Open the topic by a catalogue, which is made now where none is given."""
        settings = settings or self.settings()
        storage = ObjectStoreRemoteStorageManager(self.storage_uri, self.bucket.layout)
        return open_catalogued_log(
            OpenStorage(StorageSource(settings=lambda: settings, open_store=refuse), lambda: storage),
            CatalogueAsked(**{"uri": catalogue or self.recover(), "was_not_deleted": [ID], **asked}),
            CatalogueReader(run=RUN, work_uri=str(self.folder / "work"), what="read", clock=lambda: NOW_MS),
            topic,
            partitions,
            wanted=lambda _: wanted,
            isolation=isolation,
        )

    def audit(self) -> list[Path]:
        """Return the files of the audit log."""
        return sorted((self.folder / "work").rglob("*.json"))


def offsets_in(
    log: CataloguedLog,
    wanted: ReadRange = ReadRange(),  # noqa: B008 # it is frozen
    *,
    allow_incomplete: bool = False,
    isolation: ReadIsolation = ReadIsolation.READ_UNCOMMITTED,
) -> list[int]:
    """Read a range of the first user partition, and return the offsets of its records."""
    return [row["offset"] for row in rows_in_range(log, wanted, isolation, allow_incomplete=allow_incomplete)]  # type: ignore[misc]


def rows_in_range(
    log: CataloguedLog, wanted: ReadRange, isolation: ReadIsolation, *, allow_incomplete: bool = False
) -> list[dict[str, object]]:
    """Read a range of the first user partition."""
    tip = log.partitions[0]
    found = log.offsets(tip, wanted, isolation, allow_incomplete=allow_incomplete)
    return [] if found is None else as_rows(list(log.read(tip, found, isolation)))
