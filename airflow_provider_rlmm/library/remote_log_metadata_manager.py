# SPDX-License-Identifier: Apache-2.0
"""
What keeps the metadata of remote log segments can do.

Source: Kafka's interface ``RemoteLogMetadataManager``, and beside it what its user needs to watch it and to write in
batches.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol
from uuid import UUID

from airflow_provider_rlmm.core.log.event_decoding import QuarantinedRecord
from airflow_provider_rlmm.core.log.protocol import PublishOutcome
from airflow_provider_rlmm.core.log.write_guard import OfferedEvent
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from airflow_provider_rlmm.library.metadata_store import Liveness, UserPartitionStatus


class RemoteLogMetadataManager(Protocol):
    """
    Stores and answers for the metadata of the user partitions that it was told to follow.

    Every read raises ``PartitionNotAssignedError`` for a user partition that is not followed, and the retriable
    ``NotReadyError`` for one that was not consumed up to the end as of its assignment.
    """

    def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> int:
        """Store the first event of a segment, wait until it can be read, and return its offset."""

    def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> int:
        """Store a later event of a segment, wait until it can be read, and return its offset."""

    def put_remote_partition_delete_metadata(self, metadata: RemotePartitionDeleteMetadata) -> int:
        """Store a step of a user partition's deletion, wait until it can be read, and return its offset."""

    def remote_log_segment_metadata(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the segment that serves reads of an offset written in a leader epoch."""

    def highest_offset_for_epoch(self, topic_id_partition: TopicIdPartition, leader_epoch: int) -> int | None:
        """Return the largest offset of a leader epoch that was ever copied, inclusive."""

    def list_remote_log_segments(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> list[RemoteLogSegmentMetadata]:
        """Return the segments that are not ``DELETE_SEGMENT_FINISHED``, by start offset."""

    def remote_log_size(self, topic_id_partition: TopicIdPartition, leader_epoch: int) -> int:
        """Return the bytes of the segments that hold anything of a leader epoch."""

    def next_segment_with_txn_index(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the first segment from an offset on, without a gap, that has aborted transactions."""

    def on_partition_leadership_changes(
        self, leader_partitions: Collection[TopicIdPartition], follower_partitions: Collection[TopicIdPartition]
    ) -> None:
        """Follow user partitions, of either kind; those that are followed already go on."""

    def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> None:
        """Follow user partitions no longer."""

    def reconcile_assignment(self, partitions: Collection[TopicIdPartition]) -> None:
        """Follow these user partitions and no others; those that are followed already go on."""

    def metadata_partitions_for(self, partitions: Collection[TopicIdPartition]) -> frozenset[int]:
        """Return the metadata partitions where the events of user partitions lie."""

    def is_ready(self, topic_id_partition: TopicIdPartition) -> bool:
        """Tell whether a user partition may be read."""

    def await_ready(self, partitions: Collection[TopicIdPartition], timeout_s: float) -> bool:
        """Wait until user partitions may be read, and tell whether they all may be."""

    def status(self, topic_id_partition: TopicIdPartition) -> UserPartitionStatus | None:
        """Return how far a user partition is and whether its history is whole."""

    def liveness(self) -> Liveness:
        """Return whether and how far the metadata is consumed, and what failed last."""

    def quarantined(self) -> list[QuarantinedRecord]:
        """Return the records that cannot be applied."""

    def names_of(self, topic_id: UUID) -> frozenset[str]:
        """Return every name under which a topic id was seen."""

    def partition_delete_state(self, topic_id_partition: TopicIdPartition) -> RemotePartitionDeleteState | None:
        """Return how far the deletion of a user partition is."""

    def publish(self, events: Sequence[OfferedEvent], *, wait: bool = True) -> list[PublishOutcome]:
        """Store a batch of events, in order; return one outcome per event."""

    def await_readable(self, events: Sequence[OfferedEvent], outcomes: Sequence[PublishOutcome]) -> None:
        """Wait until everything that is acked can be read."""

    def close(self) -> None:
        """Stop; a second time does nothing."""
