# SPDX-License-Identifier: Apache-2.0
"""A topic in remote storage as brokers leave it, whole with records and indexes, and the log that names its segments."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.log.answers import OffsetsByTime
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog, InProcessOffsetStore
from airflow_provider_rlmm.core.log.in_process_topics import InProcessClusterTopics
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.core.storage.segment_files import LogSegmentData
from tests.kafka_log import Batch, Record, log_of, offset_index, producer_snapshot, time_index

METADATA_PARTITIONS = 3
ORDERS = [TopicIdPartition(UUID(int=77), "orders", n) for n in range(2)]
START_MS = 1_700_000_000_000
BATCH, BATCHES_PER_SEGMENT = 10, 3
PER_SEGMENT = BATCH * BATCHES_PER_SEGMENT

_S = RemoteLogSegmentState


def record(offset: int, padding: int = 0) -> Record:
    """Return a record that says its offset; one second lies between two."""
    value = f"value {offset}".encode() + b"." * padding
    return Record(offset, START_MS + 1000 * offset, f"key {offset}".encode(), value, (("n", str(offset).encode()),))


def batches(start: int, count: int = BATCHES_PER_SEGMENT, padding: int = 0, leader_epoch: int = 0) -> list[Batch]:
    """Return the batches of a segment."""
    begins = range(start, start + count * BATCH, BATCH)
    return [
        Batch(tuple(record(offset, padding) for offset in range(b, b + BATCH)), leader_epoch=leader_epoch)
        for b in begins
    ]


class LivingTopics(InProcessClusterTopics):
    """Says where partitions reach a time, too."""

    offsets: dict[int, OffsetsByTime]
    starts: dict[int, int]

    def partition_counts(self, names: Iterable[str]) -> dict[str, int]:
        return {name: len(self.starts) for name in names if name in self.topics}

    def log_start_offsets(self, partition_counts: Mapping[str, int]) -> dict[tuple[str, int], int]:
        return {(name, number): self.starts[number] for name, n in partition_counts.items() for number in range(n)}

    def offsets_by_time(self, topic: str, timestamp_ms: int) -> dict[int, OffsetsByTime]:
        return self.offsets


class TieredOrders:
    """
    Two partitions of a topic, with three segments of thirty records each.

    :param segments: another number of them.
    :param without_add: (partition, number of the segment) of those whose add the log does not hold.
    """

    def __init__(
        self, storage: Any = None, *, segments: int = 3, without_add: Collection[tuple[int, int]] = ()
    ) -> None:
        self.log = InProcessMetadataEventLog(METADATA_PARTITIONS, clock=lambda: START_MS)
        self.storage = storage or InMemoryRemoteStorageManager(LocalTieredStorageLayout())
        self.topics = LivingTopics({"orders": ORDERS[0].topic_id}, cluster_id="cluster-1")
        self.topics.offsets = {}
        self.topics.starts = {tip.partition: 0 for tip in ORDERS}
        self.offsets = InProcessOffsetStore()
        self.segments: list[RemoteLogSegmentMetadata] = []
        for tip in ORDERS:
            for number in range(segments):
                announced = (tip.partition, number) not in without_add
                self.copy(tip, batches(number * PER_SEGMENT), announced=announced)

    def copy(
        self,
        tip: TopicIdPartition,
        written: Sequence[Batch],
        *,
        leader_epochs: tuple[tuple[int, int], ...] = ((0, 0),),
        finished: bool = True,
        announced: bool = True,
    ) -> RemoteLogSegmentMetadata:
        """Copy a segment as a broker does; one that is not announced has lost its add."""
        start, end = written[0].records[0].offset, written[-1].records[-1].offset
        latest = max(r.timestamp for batch in written for r in batch.records)
        lineage = LeaderEpochCheckpoint(leader_epochs)
        data = log_of(written)
        of_segment = lineage.in_range(start, end + 1).entries
        metadata = RemoteLogSegmentMetadata(
            RemoteLogSegmentId(tip, UUID(int=1 + len(self.segments))),
            start, end, latest, 1, START_MS, len(data), None, _S.COPY_SEGMENT_STARTED, of_segment,
            txn_idx_empty=True,
        )  # fmt: skip
        self.segments.append(metadata)
        if announced:
            self.append(metadata)
        put_segment(self.storage, metadata, written, lineage)
        if finished:
            self.update(metadata, _S.COPY_SEGMENT_FINISHED)
        return metadata

    def update(self, metadata: RemoteLogSegmentMetadata, state: RemoteLogSegmentState) -> None:
        """Let a segment go on to a state."""
        segment_id = metadata.remote_log_segment_id
        self.append(RemoteLogSegmentMetadataUpdate(segment_id, START_MS, None, state, 1))

    def append(self, event: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate) -> None:
        """Write an event as a broker does."""
        tip = event.remote_log_segment_id.topic_id_partition
        self.log.append(metadata_partition_for(tip, METADATA_PARTITIONS), serialize(event))

    @property
    def events(self) -> int:
        return sum(self.log.high_water_marks().values())


def put_segment(
    storage: RemoteStorageManager,
    metadata: RemoteLogSegmentMetadata,
    written: Sequence[Batch],
    lineage: LeaderEpochCheckpoint,
) -> None:
    """Copy the objects of a segment, without transactions."""
    start, end = metadata.start_offset, metadata.end_offset
    positions = _positions(written)
    with tempfile.TemporaryDirectory() as folder:
        files = {
            "log": log_of(written),
            "index": offset_index(start, positions[1:]),
            "timeindex": time_index(start, [(metadata.max_timestamp_ms, end)]),
            "snapshot": producer_snapshot([]),
        }
        for suffix, content in files.items():
            Path(folder, suffix).write_bytes(content)
        paths = [Path(folder, suffix) for suffix in files]
        epochs = lineage.truncate_from_end(end + 1).to_text().encode()
        storage.copy_log_segment_data(metadata, LogSegmentData(*paths, epochs))


def _positions(written: Sequence[Batch]) -> list[tuple[int, int]]:
    """Return (last offset, position) of each batch: an index names the last offset of a batch and where that begins."""
    found, position = [], 0
    for batch in written:
        found.append((batch.records[-1].offset, position))
        position += len(batch.to_bytes())
    return found
