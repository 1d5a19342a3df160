# SPDX-License-Identifier: Apache-2.0
"""
What the metadata topic says about one user partition, in the order in which it was said.

This is the whole memory of the cleaner and of the topic-based manager: segments and their states, how far the
partition's deletion is, when its absence was first observed, and whether anybody else wrote about it since.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from airflow_provider_rlmm.errors import InvalidStateTransitionError
from airflow_provider_rlmm.metadata.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.metadata.records import (
    OWN_BROKER_ID,
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteMetadata,
    SegmentEvent,
    TopicIdPartition,
)
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState, RemotePartitionDeleteState

_MARKED = RemotePartitionDeleteState.DELETE_PARTITION_MARKED
_STARTED = RemotePartitionDeleteState.DELETE_PARTITION_STARTED
_FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED


@dataclass(slots=True)
class UserPartitionHistory:
    """
    The history of one user partition.

    :param topic_id_partition: the user partition.
    :param cache: its segments that are not finished, by Kafka's own rules.
    :param known_segments: every segment whose add was seen, finished ones included.
    :param without_add: segment id → offset of an update whose add was never seen: incomplete history.
    :param delete_state: state of the partition's deletion, ``None`` where it was never marked.
    :param first_observed_ms: when its absence was first observed, counted anew after each foreign segment event, ms
        since the epoch; ``None`` where no observation stands.
    :param unsettled_marker_offset: offset of the first marker of the deletion under way.
    :param last_foreign_offset: offset of the last segment event that this package did not write.
    """

    topic_id_partition: TopicIdPartition
    cache: RemoteLogMetadataCache = field(default_factory=RemoteLogMetadataCache)
    known_segments: set[UUID] = field(default_factory=set)
    without_add: dict[UUID, int] = field(default_factory=dict)
    delete_state: RemotePartitionDeleteState | None = None
    first_observed_ms: int | None = None
    unsettled_marker_offset: int | None = None
    last_foreign_offset: int | None = None

    def unfinished(self) -> list[RemoteLogSegmentMetadata]:
        """Return the segments that are not finished, by start offset."""
        return self.cache.list_remote_log_segments()

    def deletion_under_way(self) -> bool:
        """Tell whether the partition is marked or started and not finished."""
        return self.delete_state in (_MARKED, _STARTED)

    def apply_segment_event(self, event: SegmentEvent, offset: int) -> None:
        """
        Apply a segment event; what Kafka would drop is dropped.

        :param event: the event.
        :param offset: its offset in the metadata partition.
        """
        if event.broker_id != OWN_BROKER_ID:
            self.last_foreign_offset = offset
            self.first_observed_ms = None
        segment_id = event.remote_log_segment_id.id
        if isinstance(event, RemoteLogSegmentMetadata):
            self.known_segments.add(segment_id)
        elif segment_id not in self.known_segments:
            self._note_update_without_add(segment_id, event.state, offset)
            return
        try:
            if isinstance(event, RemoteLogSegmentMetadata):
                self.cache.add_copy_in_progress_segment(event)
            else:
                self.cache.update_remote_log_segment_metadata(event)
        except InvalidStateTransitionError:
            # It would have ended a broker's consumer; for us the segment's state is no longer certain.
            self.without_add[segment_id] = offset

    def _note_update_without_add(self, segment_id: UUID, state: RemoteLogSegmentState, offset: int) -> None:
        if state == RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
            # Whatever it was, it is deleted: nothing is left to resolve.
            self.without_add.pop(segment_id, None)
        else:
            self.without_add[segment_id] = offset

    def apply_partition_event(self, event: RemotePartitionDeleteMetadata, offset: int, timestamp_ms: int) -> None:
        """
        Apply a partition-delete event.

        :param event: the event, whoever wrote it.
        :param offset: its offset in the metadata partition.
        :param timestamp_ms: the record's timestamp, ms since the epoch; the later of it and the event's counts as the
            time of observation, so that a wrong clock can only lengthen the wait.
        """
        observed_ms = max(event.event_timestamp_ms, timestamp_ms)
        if event.state == _FINISHED:
            self.delete_state = _FINISHED
            self.first_observed_ms = None
            self.unsettled_marker_offset = None
        elif self.deletion_under_way():
            # Repeated markers and starts change nothing, unless a foreign event had voided the observation.
            if self.first_observed_ms is None:
                self.first_observed_ms = observed_ms
            if event.state == _STARTED:
                self.delete_state = _STARTED
        elif event.state == _MARKED and (self.delete_state is None or self.unfinished()):
            # A marker for a finished partition does nothing, unless segments appeared since: then it opens it again.
            self.delete_state = _MARKED
            self.first_observed_ms = observed_ms
            self.unsettled_marker_offset = offset

    def obstacle_to_finish(self) -> str | None:
        """Return why DELETE_PARTITION_FINISHED must not be written (I3), ``None`` where nothing stands against it."""
        unfinished = self.unfinished()
        if unfinished:
            return f"{len(unfinished)} segments are not finished, the first is {unfinished[0].remote_log_segment_id}"
        if self.without_add:
            offset = min(self.without_add.values())
            return f"{len(self.without_add)} segments have an incomplete history, see offset {offset}"
        if self.first_observed_ms is None:
            return f"a foreign segment event at offset {self.last_foreign_offset} came after the marker"
        return None
