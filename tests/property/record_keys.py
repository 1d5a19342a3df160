# SPDX-License-Identifier: Apache-2.0
"""Keys as the two designs of KIP-1266 write them, and what one record with or without a key is."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_rlmm.core.base.errors import MalformedMetadataError, NewerVersionError
from airflow_provider_rlmm.core.records.columnar import ErrorCode
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.keys import OffsetKey, SegmentKey, parse_key
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    NOT_SAID,
    RemoteLogMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    SegmentEvent,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.serde import deserialize


def segment_key(event: SegmentEvent) -> bytes:
    """The key that names segment and state."""
    tip = event.remote_log_segment_id.topic_id_partition
    return bytes(SegmentKey(tip.topic_id, tip.partition, event.remote_log_segment_id.id, event.state))


def offset_key(event: SegmentEvent, end_offset: int, epoch: int) -> bytes:
    """The key that names where the segment ends; an event that says its end, or its leader epoch, knows better."""
    tip = event.remote_log_segment_id.topic_id_partition
    if event.end_offset != NOT_SAID:
        end_offset = event.end_offset
    if event.broker_leader_epoch != NOT_SAID:
        epoch = event.broker_leader_epoch
    is_update = not isinstance(event, RemoteLogSegmentMetadata)
    return bytes(OffsetKey(tip.topic_id, tip.topic, tip.partition, end_offset, epoch, is_update))


def forget(histories: Iterable[UserPartitionHistory], raw: bytes | None, offset: int) -> None:
    """Let what is to be forgotten be judged by what was said before it, under any name of its topic id."""
    key = parse_key(raw or b"")
    assert key is not None
    for history in histories:
        history.forget(key, offset)


def judged(
    value: bytes | None, raw: bytes | None, metadata_partition: int, partition_count: int
) -> tuple[ErrorCode, RemoteLogMetadata | None]:
    """What one record is, and what its value says, by the functions that look at one."""
    key = None if raw is None else parse_key(raw)
    if value is None:
        tip = None if key is None else TopicIdPartition(key.topic_id, "", key.partition)
        forgets = tip is not None and metadata_partition_for(tip, partition_count) == metadata_partition
        return (ErrorCode.FORGOTTEN if forgets else ErrorCode.TOMBSTONE), None
    try:
        event = deserialize(value, keyed=raw is not None)
    except NewerVersionError:
        return ErrorCode.NEWER_VERSION, None
    except MalformedMetadataError:
        return ErrorCode.MALFORMED, None
    if isinstance(event, RemoteLogSegmentMetadataSnapshot):
        return ErrorCode.SNAPSHOT, event
    if metadata_partition_for(topic_id_partition_of(event), partition_count) != metadata_partition:
        return ErrorCode.MISROUTED, event
    return (ErrorCode.GOOD if raw is None or (key is not None and key.names(event)) else ErrorCode.KEYED), event
