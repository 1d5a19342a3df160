# SPDX-License-Identifier: Apache-2.0
"""Short ways to make events."""

from __future__ import annotations

from uuid import UUID

from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState

PARTITION = TopicIdPartition(UUID("3f0e218f-faa0-49f2-8285-47520c8cecc6"), "orders", 2)


def segment_id(number: int, partition: TopicIdPartition = PARTITION) -> RemoteLogSegmentId:
    return RemoteLogSegmentId(partition, UUID(int=number))


def started(
    number: int,
    start: int = 0,
    end: int = 99,
    epochs: tuple[tuple[int, int], ...] | None = None,
    partition: TopicIdPartition = PARTITION,
    state: RemoteLogSegmentState = RemoteLogSegmentState.COPY_SEGMENT_STARTED,
) -> RemoteLogSegmentMetadata:
    leader_epochs = ((0, start),) if epochs is None else epochs
    return RemoteLogSegmentMetadata(
        segment_id(number, partition), start, end, 1_000, 1, 2_000, 4_096, None, state, leader_epochs
    )


def update(
    number: int,
    state: RemoteLogSegmentState,
    custom_metadata: bytes | None = None,
    partition: TopicIdPartition = PARTITION,
) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(segment_id(number, partition), 3_000, custom_metadata, state, 7)


def copied(number: int, partition: TopicIdPartition = PARTITION) -> RemoteLogSegmentMetadataUpdate:
    return update(number, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, partition=partition)


def deleting(number: int, partition: TopicIdPartition = PARTITION) -> RemoteLogSegmentMetadataUpdate:
    return update(number, RemoteLogSegmentState.DELETE_SEGMENT_STARTED, partition=partition)


def deleted(number: int, partition: TopicIdPartition = PARTITION) -> RemoteLogSegmentMetadataUpdate:
    return update(number, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED, partition=partition)


def partition_delete(
    state: RemotePartitionDeleteState, partition: TopicIdPartition = PARTITION
) -> RemotePartitionDeleteMetadata:
    return RemotePartitionDeleteMetadata(partition, state, 4_000, -1)
