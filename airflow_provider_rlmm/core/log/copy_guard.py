# SPDX-License-Identifier: Apache-2.0
"""
What the write guard asks of a copier's event: the only events about a *living* topic that are ever written.

Four kinds pass, each alone: COPY_SEGMENT_STARTED, its COPY_SEGMENT_FINISHED, and the two that roll a STARTED of ours back.
What was COPY_SEGMENT_FINISHED once is never touched again: brokers count on it, and delete their local copy.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import ClusterMismatchError, PartitionerMismatchError, UnsafeEventError
from airflow_provider_rlmm.core.log.event_encoding import encode
from airflow_provider_rlmm.core.log.protocol import MetadataTopic
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    COPIER_BROKER_ID,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    SegmentEvent,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState

_STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_DELETION = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
_BEFORE = {
    _FINISHED: _STARTED,
    _DELETION: _STARTED,
    RemoteLogSegmentState.DELETE_SEGMENT_FINISHED: _DELETION,
}
"""The state that each event of ours follows; repeating one is not ours to do."""


class ReplayedCopies(Protocol):
    """What the guard must know about a user partition, and about the cluster, to judge a copier's event."""

    @property
    def most_custom_metadata(self) -> int:
        """How much custom metadata brokers take, bytes."""

    def segment(self, segment_id: RemoteLogSegmentId) -> RemoteLogSegmentMetadata | None:
        """Return the segment as of the replay, ``None`` where it is not known or finished."""

    def was_announced(self, segment_id: RemoteLogSegmentId) -> bool:
        """Tell whether any event about the segment was ever read."""

    def was_copied(self, segment_id: RemoteLogSegmentId) -> bool:
        """Tell whether the segment was ever COPY_SEGMENT_FINISHED."""

    def is_ours(self, segment_id: RemoteLogSegmentId) -> bool:
        """Tell whether every event about the segment is a copier's of this package."""

    def was_deleted(self, topic_id_partition: TopicIdPartition) -> bool:
        """Tell whether any partition-delete event about the user partition was ever read."""

    def obstacle_to_copy(self, metadata: RemoteLogSegmentMetadata) -> str | None:
        """Return why a segment must not be copied, by the latest answer of its leader; ``None`` where it may."""

    def cluster_asked(self) -> UUID | None:
        """Return the id of the metadata topic in the leader's latest answer, ``None`` where there was none."""

    def routing_verified(self) -> bool:
        """Tell whether records were observed and every one of them lies where our partitioner puts it."""


def check_copy_event(event: SegmentEvent, state: ReplayedCopies, log: MetadataTopic) -> tuple[int, bytes]:
    """
    Check an event of a copier and return its record.

    :param event: the event.
    :param state: what the topic and the cluster were seen to be.
    :param log: the log that it is for: its id and its number of partitions.
    :return: (metadata partition, value).
    :raises UnsafeEventError: if the event could harm a broker, lose living data, or is not a copier's to write.
    :raises ClusterMismatchError: if the leader that was asked is of another cluster.
    :raises PartitionerMismatchError: if our partitioner is not proven on this topic.
    """
    if not state.routing_verified():
        raise PartitionerMismatchError(
            "no record observed in the metadata partition proves our partitioner, or one contradicts it: nothing is copied; "
            "compare the topic's partition count with the brokers' configuration"
        )
    tip = topic_id_partition_of(event)
    if state.cluster_asked() != log.topic_id:
        raise ClusterMismatchError(
            f"event about {tip}: the cluster whose leader was asked is not the one whose metadata topic is written to: name "
            "the brokers of one cluster only in the Kafka connection"
        )
    if event.broker_id != COPIER_BROKER_ID:
        raise UnsafeEventError(f"copier's event about {tip} claims broker id {event.broker_id}, a copier's is -2")
    if state.was_deleted(tip):
        # An event behind DELETE_PARTITION_FINISHED ends the consumer of every broker that serves the partition.
        raise UnsafeEventError(f"{tip} was declared deleted, or is about to be: nothing about its segments is written")
    if isinstance(event, RemoteLogSegmentMetadata):
        _check_announcement(event, state)
    else:
        _check_update(event, state)
    return metadata_partition_for(tip, log.partition_count), encode(event)


def _check_announcement(event: RemoteLogSegmentMetadata, state: ReplayedCopies) -> None:
    segment_id = event.remote_log_segment_id
    if event.state is not _STARTED:
        raise UnsafeEventError(f"first event of {segment_id} in {event.state.name}: it ends every broker's consumer")
    if state.was_announced(segment_id):
        raise UnsafeEventError(f"segment {segment_id} is known already: a copy has an id of its own")
    if event.custom_metadata is not None:
        raise UnsafeEventError(f"first event of {segment_id} has custom metadata, which no copier can know yet")
    if not 0 <= event.start_offset <= event.end_offset or event.segment_size_in_bytes < 1:
        raise UnsafeEventError(
            f"segment {segment_id} of {event.segment_size_in_bytes} bytes from offset {event.start_offset} to "
            f"{event.end_offset}: that is no segment"
        )
    _check_leader_epochs(event)
    _check_permission(event, state)


def _check_leader_epochs(event: RemoteLogSegmentMetadata) -> None:
    epochs = event.segment_leader_epochs
    ascending = all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(epochs))
    if not epochs or not ascending or epochs[0][0] < 0:
        raise UnsafeEventError(
            f"segment {event.remote_log_segment_id} has the leader epochs {epochs}: they must ascend"
        )
    if epochs[0][1] < event.start_offset or epochs[-1][1] > event.end_offset:
        raise UnsafeEventError(
            f"segment {event.remote_log_segment_id} has the leader epochs {epochs}, which are not within "
            f"{event.start_offset}..{event.end_offset}"
        )


def _check_update(event: RemoteLogSegmentMetadataUpdate, state: ReplayedCopies) -> None:
    segment_id = event.remote_log_segment_id
    if event.state not in _BEFORE:
        raise UnsafeEventError(f"an update of {segment_id} to {event.state.name} ends every broker's consumer")
    segment = state.segment(segment_id)
    if segment is None:
        raise UnsafeEventError(f"segment {segment_id} is not in the replayed state: nothing follows")
    if not state.is_ours(segment_id):
        raise UnsafeEventError(f"segment {segment_id} belongs to another writer: a copier never touches it")
    if segment.state is not _BEFORE[event.state]:
        raise UnsafeEventError(f"segment {segment_id} is in {segment.state.name}, {event.state.name} does not follow")
    if state.was_copied(segment_id):
        raise UnsafeEventError(f"the copy of {segment_id} was finished: a copier never takes it back")
    if event.state is _FINISHED:
        if len(event.custom_metadata or b"") > state.most_custom_metadata:
            raise UnsafeEventError(
                f"{len(event.custom_metadata or b'')} bytes of custom metadata of {segment_id} are too many"
            )
        _check_permission(segment.with_update(event), state)
    elif event.custom_metadata != segment.custom_metadata:
        raise UnsafeEventError(f"event about segment {segment_id} would replace its custom metadata")


def _check_permission(metadata: RemoteLogSegmentMetadata, state: ReplayedCopies) -> None:
    obstacle = state.obstacle_to_copy(metadata)
    if obstacle is not None:
        raise UnsafeEventError(f"{metadata.state.name} of {metadata.remote_log_segment_id} is not written: {obstacle}")
