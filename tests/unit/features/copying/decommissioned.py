# SPDX-License-Identifier: Apache-2.0
"""The disk of a stopped broker, a leader and a store in memory, for those who copy from it."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from airflow_provider_rlmm.core.log.answers import CopyConfigs, LeaderOffsets, LeaderRecord
from airflow_provider_rlmm.core.log.in_process import METADATA_TOPIC_ID
from airflow_provider_rlmm.core.log.known_segments import PartitionSegments
from airflow_provider_rlmm.core.records.records import (
    COPIER_BROKER_ID,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.features.reading.reader import RemoteLogReader
from tests.kafka_log import Batch
from tests.log_directories import TOPIC_ID, HandmadeDisk
from tests.tiered_orders import START_MS, TieredOrders, batches, record
from tests.unit.features.copying.in_process_leader import InProcessLeader

LIVING = [TopicIdPartition(TOPIC_ID, "living", n) for n in range(2)]
MAY_COPY = CopyConfigs(True, True, frozenset({"delete"}), -1, -1)
ROOT = "memory://kafka-tiered-storage"
CLOSED = 90


class Decommissioned(TieredOrders):
    """A stopped broker's disk with two partitions of a living topic, of which nothing is copied yet."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.disk = HandmadeDisk(folder / "kafka" / "disk")
        self.log_dir = self.disk.path
        segments: list[list[Batch]] = [batches(start) for start in range(0, CLOSED, 30)]
        for tip in LIVING:
            self.disk.write(f"living-{tip.partition}", segments)
        self.leader = InProcessLeader(METADATA_TOPIC_ID)
        self.lead(MAY_COPY)

    def lead(self, configs: CopyConfigs, partitions: list[TopicIdPartition] = LIVING, *, log_start: int = 0) -> None:
        for tip in partitions:
            self.leader.lead(tip, configs, LeaderOffsets(log_start, CLOSED, CLOSED))
            self.leader.records[tip] = {
                o: LeaderRecord(o, 0, r.timestamp, r.key, r.value, r.headers)
                for o in range(CLOSED)
                for r in [record(o)]
            }

    def announce(self, partition: int, ago_ms: int) -> None:
        """Let a run announce a segment of ours, so long before now, and die."""
        segment_id = RemoteLogSegmentId(LIVING[partition], UUID(int=999))
        now_ms = START_MS + 3_600_000
        state = RemoteLogSegmentState.COPY_SEGMENT_STARTED
        self.append(
            RemoteLogSegmentMetadata(
                segment_id, 0, 29, START_MS, COPIER_BROKER_ID, now_ms - ago_ms, 100, None, state, ((0, 0),)
            )
        )

    def damage(self, name: str) -> None:
        """Flip a bit in the middle of a file."""
        file = self.log_dir / name
        whole = bytearray(file.read_bytes())
        whole[100] ^= 1
        file.write_bytes(whole)

    def copied(self, partition: int) -> list[int]:
        """The offsets that can be read of a partition."""
        tip = LIVING[partition]
        reader = RemoteLogReader(PartitionSegments(self.log, [tip]), self.storage)
        return [offset for batch in reader.read(tip, 0) for offset in batch.column("offset").to_pylist()]

    def lose(self, topic: str) -> None:
        """Let the storage lack all that was copied of a topic, as an old copy of it does."""
        for key in [key for key in self.storage._objects if f"/{topic}-" in f"/{key}"]:
            del self.storage._objects[key]


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
