# SPDX-License-Identifier: Apache-2.0
"""
What the metadata topic says about one user partition, in the order in which it was said.

This is the whole memory of the cleaner and of the topic-based manager: segments and their states, how far the
partition's deletion is, when its absence was observed, and whether anybody else wrote about it since.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from uuid import UUID

from airflow_provider_rlmm.errors import InvalidStateTransitionError
from airflow_provider_rlmm.metadata.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.metadata.records import (
    OWN_BROKER_ID,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    SegmentEvent,
    TopicIdPartition,
)
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState, RemotePartitionDeleteState

_MARKED = RemotePartitionDeleteState.DELETE_PARTITION_MARKED
_STARTED = RemotePartitionDeleteState.DELETE_PARTITION_STARTED
_FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED


@dataclass(frozen=True, slots=True)
class AbsenceObservation:
    """
    A marker (or a repeated start): somebody says that the user partition is deleted.

    :param offset: offset of its record in the metadata partition.
    :param time_ms: when it was written, ms since the epoch: the later of the event's and the record's timestamps, and of
        ``bounded`` ones that somebody else wrote, the later of that and of the time of the record that bounds them.
    :param bounded: whether the time may be relied on: we write proven times, and what somebody else wrote is bounded by
        the next record of a broker, or of ours, in the metadata partition. Until there is one its writer's clock is the
        only witness.
    """

    offset: int
    time_ms: int
    bounded: bool


@dataclass(slots=True)
class UserPartitionHistory:
    """
    The history of one user partition.

    :param topic_id_partition: the user partition.
    :param cache: its segments that are not finished, by Kafka's own rules.
    :param known_segments: every segment whose add was seen, finished ones included.
    :param without_add: segment id → offset of an update whose add was never seen: incomplete history.
    :param delete_state: state of the partition's deletion, ``None`` where it was never marked.
    :param observations: the observations of its absence since the last foreign segment event, by offset, their times
        strictly decreasing. Which of them counts depends on the time at which one asks
        (:func:`airflow_provider_rlmm.policy.absence.first_observation`); one that is not earlier than another before it
        never does, so it is not kept.
    :param unsettled_marker_offset: offset of the first marker of the deletion under way.
    :param finished_at: segment id → offset of the DELETE_SEGMENT_FINISHED that finished it, the first one where several came.
    :param copied: every segment whose copy was finished once.
    :param started_by: segment id → broker id of the DELETE_SEGMENT_STARTED that started its deletion.
    :param last_foreign_offset: offset of the last segment event that this package did not write.
    """

    topic_id_partition: TopicIdPartition
    cache: RemoteLogMetadataCache = field(default_factory=RemoteLogMetadataCache)
    known_segments: set[UUID] = field(default_factory=set)
    without_add: dict[UUID, int] = field(default_factory=dict)
    delete_state: RemotePartitionDeleteState | None = None
    observations: list[AbsenceObservation] = field(default_factory=list)
    unsettled_marker_offset: int | None = None
    last_foreign_offset: int | None = None
    finished_at: dict[UUID, int] = field(default_factory=dict)
    copied: set[UUID] = field(default_factory=set)
    started_by: dict[UUID, int] = field(default_factory=dict)

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
            self.observations.clear()
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
                self._note_step(segment_id, event, offset)
        except InvalidStateTransitionError:
            # It would have ended a broker's consumer; for us the segment's state is no longer certain.
            self.without_add[segment_id] = offset

    def _note_step(self, segment_id: UUID, event: RemoteLogSegmentMetadataUpdate, offset: int) -> None:
        """Remember of a segment what its present state does not tell."""
        if event.state == RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
            self.copied.add(segment_id)
        elif event.state == RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
            self.started_by.setdefault(segment_id, event.broker_id)
        elif event.state == RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
            self.finished_at.setdefault(segment_id, offset)

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
        ours = event.broker_id == OWN_BROKER_ID
        if ours:
            self.bound_observations(observed_ms)
        if event.state == _FINISHED:
            self.delete_state = _FINISHED
            self.observations.clear()
            self.unsettled_marker_offset = None
        elif self.deletion_under_way():
            if event.state == _STARTED:
                self.delete_state = _STARTED
            self._observe(AbsenceObservation(offset, observed_ms, ours))
        elif event.state == _MARKED and (self.delete_state is None or self.unfinished()):
            # A marker for a finished partition does nothing, unless segments appeared since: then it opens it again.
            self.delete_state = _MARKED
            self._observe(AbsenceObservation(offset, observed_ms, ours))
            self.unsettled_marker_offset = offset

    def _observe(self, observation: AbsenceObservation) -> None:
        if observation.time_ms < 0:
            return  # Kafka's NO_TIMESTAMP, or as little worth: it says nothing about when
        if not self.observations or observation.time_ms < self.observations[-1].time_ms:
            self.observations.append(observation)

    def awaits_bound(self) -> bool:
        """Tell whether somebody else's observation stands of which nothing but its own clock says when it was made."""
        return any(not o.bounded for o in self.observations)

    def bound_observations(self, time_ms: int) -> None:
        """
        Note that a record with a time to rely on followed: whatever stands here was written before it, or then.

        How long before nobody knows, so the later of the two times counts.

        :param time_ms: time of the first such record, ms since the epoch.
        """
        if self.awaits_bound():
            before, self.observations = self.observations, []
            for o in before:
                self._observe(o if o.bounded else replace(o, time_ms=max(o.time_ms, time_ms), bounded=True))

    def obstacle_to_finish(self) -> str | None:
        """Return why DELETE_PARTITION_FINISHED must not be written (I3), ``None`` where nothing stands against it."""
        unfinished = self.unfinished()
        if unfinished:
            return f"{len(unfinished)} segments are not finished, the first is {unfinished[0].remote_log_segment_id}"
        if self.without_add:
            offset = min(self.without_add.values())
            return f"{len(self.without_add)} segments have an incomplete history, see offset {offset}"
        if not self.observations:
            if self.last_foreign_offset is None:
                return "no marker says when its absence was observed"
            return f"a foreign segment event at offset {self.last_foreign_offset} came after the marker"
        return None
