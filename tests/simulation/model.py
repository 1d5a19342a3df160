# SPDX-License-Identifier: Apache-2.0
"""
The invariants I1 to I8, judged from outside: from the bytes in the log, the keys in the store and the list of topics.

Nothing here uses the lifecycle layer. The state machines are written down again, so that a mistake there is seen here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from airflow_provider_rlmm.metadata.records import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.metadata.serde import deserialize

SEGMENT_STEPS = {(None, 0), (0, 1), (0, 2), (1, 2), (2, 3)}
PARTITION_STEPS = {(None, 0), (0, 1), (1, 2), (2, 0)}
OURS = -1


@dataclass
class PartitionModel:
    """What the log says about one user partition, as Kafka would understand it."""

    segments: dict[UUID, int] = field(default_factory=dict)  # id → state, 3 included
    deletion: int | None = None
    foreign_since_observation: bool = False
    marker_offset: int | None = None
    markers_since_foreign: int = 0

    def unfinished(self) -> list[UUID]:
        return [s for s, state in self.segments.items() if state != 3]


@dataclass
class LogModel:
    """A fold over all records of the log, in order; :meth:`apply` judges our own events as it goes."""

    partitions: dict[TopicIdPartition, PartitionModel] = field(default_factory=dict)

    def apply(self, metadata_partition: int, offset: int, value: bytes) -> None:
        event = deserialize(value)
        if isinstance(event, RemotePartitionDeleteMetadata):
            self._apply_deletion(event, offset)
            return
        assert isinstance(event, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate)
        segment_id = event.remote_log_segment_id
        partition = self.partitions.setdefault(segment_id.topic_id_partition, PartitionModel())
        source, target = partition.segments.get(segment_id.id), int(event.state)
        if event.broker_id == OURS:
            assert source == target or (source, target) in SEGMENT_STEPS, f"I6: {source} → {target} of {segment_id}"
            assert partition.deletion == 1, f"I6: segment event outside a started deletion: {segment_id}"
        else:
            partition.foreign_since_observation = True
            partition.markers_since_foreign = 0
        if (source, target) in SEGMENT_STEPS:
            partition.segments[segment_id.id] = target

    def _apply_deletion(self, event: RemotePartitionDeleteMetadata, offset: int) -> None:
        partition = self.partitions.setdefault(event.topic_id_partition, PartitionModel())
        source, target = partition.deletion, int(event.state)
        ours = event.broker_id == OURS
        if ours:
            assert source == target or (source, target) in PARTITION_STEPS, f"I6: {source} → {target}"
        if target == 2:
            if ours:
                assert not partition.unfinished(), f"I3: finished with {partition.unfinished()} unfinished"
                assert not partition.foreign_since_observation, "I3: finished after a foreign event"
            partition.deletion, partition.marker_offset = 2, None
            return
        if target == 0 and ours:
            partition.markers_since_foreign += 1
            assert partition.markers_since_foreign <= 1, "I8: marked twice without a reason"
            assert partition.unfinished(), "I8: a partition without unfinished segments was marked"
        if target == 0 and source in (None, 2) and (source is None or partition.unfinished()):
            partition.deletion, partition.marker_offset = 0, offset
            partition.markers_since_foreign = 1
        if target == 1 and source in (0, 1):
            partition.deletion = 1
        if partition.deletion in (0, 1):
            partition.foreign_since_observation = False

    def first_unsettled(self, topic_partitions: set[TopicIdPartition]) -> int | None:
        offsets = [p.marker_offset for tip, p in self.partitions.items() if tip in topic_partitions]
        return min((o for o in offsets if o is not None), default=None)
