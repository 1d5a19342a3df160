# SPDX-License-Identifier: Apache-2.0
"""What one pass over the metadata topic must come to, record by record: the scalar serde, history and rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.outcomes import APPLIED_CODES, ErrorCode
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.world.cluster_state import ClusterState
from airflow_provider_rlmm.features.retention.rules import EvaluationLimits, PartitionLimits, SegmentFacts, evaluate
from tests.property.record_keys import forget, judged

FIELDS = ("state", "start_offset", "end_offset", "max_timestamp_ms", "event_timestamp_ms", "segment_size_in_bytes")


@dataclass
class Expected:
    """Rows in any order; ``unresolved`` and ``quarantined`` name (metadata partition, …, offset)."""

    segments: list[dict[str, Any]] = field(default_factory=list)
    unresolved: list[tuple[int, bytes, str, int, bytes, int]] = field(default_factory=list)
    quarantined: list[tuple[int, int]] = field(default_factory=list)


def expected_rows(
    records: Iterable[tuple[int, int, bytes | None] | tuple[int, int, bytes | None, bytes | None]],
    num_partitions: int,
    cluster: ClusterState,
    limits: EvaluationLimits,
) -> Expected:
    expected = Expected()
    histories: dict[TopicIdPartition, UserPartitionHistory] = {}
    for metadata_partition, offset, value, *keys in sorted(records, key=lambda record: record[:2]):
        key = keys[0] if keys else None
        code, event = judged(value, key, metadata_partition, num_partitions)
        if code is ErrorCode.FORGOTTEN:
            forget(histories.values(), key, offset)
            continue
        if code not in APPLIED_CODES or event is None or isinstance(event, RemoteLogSegmentMetadataSnapshot):
            expected.quarantined.append((metadata_partition, offset))
            continue
        partition = topic_id_partition_of(event)
        history = histories.setdefault(partition, UserPartitionHistory(partition))
        if isinstance(event, RemotePartitionDeleteMetadata):
            history.apply_partition_event(event, offset, -1)
        else:
            history.apply_segment_event(event, offset)
    listed = {topic.topic_id: topic for topic in cluster.topics}
    bad = {metadata_partition for metadata_partition, _ in expected.quarantined}
    for partition, history in histories.items():
        home = metadata_partition_for(partition, num_partitions)
        key = (home, partition.topic_id.bytes, partition.topic, partition.partition)
        expected.unresolved += [(*key, segment.bytes, at) for segment, at in history.without_add.items()]
        facts = {segment.remote_log_segment_id.id.bytes: facts_of(segment) for segment in history.unfinished()}
        topic = listed.get(partition.topic_id)
        reasons = {}
        if topic is not None:
            start = topic.log_start_offsets.get(partition.partition)
            limit = PartitionLimits(
                limits, True, cluster.observed_at_ms, start, topic.retention_ms, topic.retention_bytes
            )
            reasons = {f.segment.segment_id: f.reason.value for f in evaluate(facts.values(), limit)}
        uncertain = {segment.bytes for segment in history.without_add}
        for segment in history.unfinished():
            segment_id = segment.remote_log_segment_id.id.bytes
            certain = segment_id not in uncertain
            older = segment.event_timestamp_ms < cluster.observed_at_ms
            expected.segments.append(
                {
                    **dict(zip(("metadata_partition", "topic_id", "topic", "partition"), key, strict=True)),
                    "segment_id": segment_id,
                    **{name: getattr(segment, name) for name in FIELDS},
                    "segment_leader_epochs": [
                        {"leader_epoch": epoch, "start_offset": start} for epoch, start in segment.segment_leader_epochs
                    ],
                    "listed": topic is not None,
                    "may_be_orphaned": topic is None and older and certain,
                    "reason": reasons.get(segment_id) if certain else None,
                    "exact": topic is None and home not in bad,
                }
            )
    return expected


def facts_of(segment: RemoteLogSegmentMetadata) -> SegmentFacts:
    return SegmentFacts(segment.remote_log_segment_id.id.bytes, *(getattr(segment, name) for name in FIELDS))


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """As the walk goes: by user partition, start offset, end offset and id."""
    names = ("metadata_partition", "topic_id", "topic", "partition", "start_offset", "end_offset", "segment_id")
    return sorted(rows, key=lambda row: tuple(row[name] for name in names))
