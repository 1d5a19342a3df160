# SPDX-License-Identifier: Apache-2.0
"""A remote log of many gigabytes, made of one segment: only base offsets are written anew, which no checksum covers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final
from uuid import UUID

import numpy as np

from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
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
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.core.storage.segment_files import LogSegmentData
from tests.kafka_log import Batch, Record, log_of, offset_index, producer_snapshot, time_index

TIP: Final = TopicIdPartition(UUID(int=77), "big", 0)
START_MS: Final = 1_700_000_000_000
SEGMENT_BYTES: Final = 128 * 2**20
VALUE_BYTES: Final = 1000
PER_BATCH: Final = 16
_PARTITIONS = 3
_S = RemoteLogSegmentState


class BigLog:
    """
    Segments of 128 MiB of records of 1 KB, on a local disk.

    :param folder: for the storage; it must not exist.
    :param gib: of all segments.
    """

    def __init__(self, folder: Path, gib: float) -> None:
        folder.mkdir()
        self.uri = folder.as_uri()
        self.storage = ObjectStoreRemoteStorageManager(self.uri, LocalTieredStorageLayout())
        self.log = InProcessMetadataEventLog(_PARTITIONS, clock=lambda: START_MS)
        self.topics = InProcessClusterTopics({"big": TIP.topic_id}, cluster_id="cluster-1")
        self._batches = _first_batches()
        first = log_of(self._batches)
        headers, _ = BatchHeaders.find(first, location="the first segment", position=0)
        self._positions = headers.position.astype(np.int64)
        self._bases = headers.base_offset.astype(np.int64)
        self.per_segment = PER_BATCH * len(self._batches)
        self.segments = max(2, round(gib * 2**30 / len(first)))
        self.bytes = self.segments * len(first)
        files = folder.parent / "files"
        files.mkdir()
        for number in range(self.segments):
            self._copy(number, np.frombuffer(first, np.uint8).copy(), files)

    @property
    def records(self) -> int:
        return self.segments * self.per_segment

    def _copy(self, number: int, data: np.ndarray, files: Path) -> None:
        start = number * self.per_segment
        end = start + self.per_segment - 1
        moved = (self._bases + start).astype(">i8").view(np.uint8).reshape(-1, 8)
        data[self._positions[:, None] + np.arange(8)] = moved
        metadata = RemoteLogSegmentMetadata(
            RemoteLogSegmentId(TIP, UUID(int=1 + number)),
            start, end, START_MS, 1, START_MS, data.size, None, _S.COPY_SEGMENT_STARTED, ((0, start),), txn_idx_empty=True,
        )  # fmt: skip
        entries = [(start + PER_BATCH * (n + 1) - 1, int(self._positions[n])) for n in range(64, len(self._bases), 64)]
        contents = {
            "log": data.tobytes(),
            "index": offset_index(start, entries),
            "timeindex": time_index(start, [(START_MS, end)]),
            "snapshot": producer_snapshot([]),
        }
        for name, content in contents.items():
            (files / name).write_bytes(content)
        update = RemoteLogSegmentMetadataUpdate(
            metadata.remote_log_segment_id, START_MS, None, _S.COPY_SEGMENT_FINISHED, 1
        )
        home = metadata_partition_for(TIP, _PARTITIONS)
        self.log.append(home, serialize(metadata))
        self.storage.copy_log_segment_data(
            metadata, LogSegmentData(*(files / name for name in contents), b"0\n1\n0 0\n")
        )
        self.log.append(home, serialize(update))


def _first_batches() -> list[Batch]:
    """Batches of values that a compressor makes a third smaller, or so."""
    chance = random.Random(7)
    words = [chance.randbytes(8) for _ in range(4096)]
    count = SEGMENT_BYTES // ((VALUE_BYTES + 30) * PER_BATCH)
    # Few different batches: making them is not what is measured.
    kinds = [tuple(b"".join(chance.choices(words, k=VALUE_BYTES // 8)) for _ in range(PER_BATCH)) for _ in range(64)]
    return [
        Batch(
            tuple(
                Record(PER_BATCH * n + i, START_MS, b"%d" % i, value) for i, value in enumerate(kinds[n % len(kinds)])
            )
        )
        for n in range(count)
    ]
