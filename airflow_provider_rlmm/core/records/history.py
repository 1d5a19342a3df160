# SPDX-License-Identifier: Apache-2.0
"""
What the metadata topic says about one user partition, in the order in which it was said.

This is the whole memory of the cleaner and of the topic-based manager: segments and their states, how far the
partition's deletion is, when its absence was observed, and whether anybody else wrote about it since.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import InvalidStateTransitionError
from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.deletion import PartitionDeletion
from airflow_provider_rlmm.core.records.keys import RecordKey
from airflow_provider_rlmm.core.records.outcomes import EventFate
from airflow_provider_rlmm.core.records.records import (
    NOT_SAID,
    OWN_BROKER_ID,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    SegmentEvent,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import COPYING, RemoteLogSegmentState


def ends_what_may_be_compacted(update: RemoteLogSegmentMetadataUpdate) -> bool:
    """
    Tell whether the log cleaner may have taken the update before the one that finishes a segment: where updates say an end
    offset, all of a segment have one key, and its DELETE_SEGMENT_STARTED is gone once it is finished.

    :param update: an update that does not follow from the segment's state.
    """
    return update.state == RemoteLogSegmentState.DELETE_SEGMENT_FINISHED and update.end_offset != NOT_SAID


@dataclass(slots=True)
class UserPartitionHistory(PartitionDeletion):
    """The history of one user partition."""

    topic_id_partition: TopicIdPartition
    # its segments that are not finished, by Kafka's own rules
    cache: RemoteLogMetadataCache = field(default_factory=RemoteLogMetadataCache)
    known_segments: set[UUID] = field(default_factory=set)  # every segment whose add was seen, finished ones included
    # segment id → offset of an update whose add was never seen: incomplete history
    without_add: dict[UUID, int] = field(default_factory=dict)
    # offset of the last segment event that marker and cleaner did not write; a copier's counts, with any id
    last_foreign_offset: int | None = None
    # segment id → offset of the DELETE_SEGMENT_FINISHED that finished it, the first one where several came
    finished_at: dict[UUID, int] = field(default_factory=dict)
    copied: set[UUID] = field(default_factory=set)  # every segment whose copy was finished once
    # segment id → broker id of the DELETE_SEGMENT_STARTED that started its deletion
    started_by: dict[UUID, int] = field(default_factory=dict)
    started_at: dict[UUID, int] = field(default_factory=dict)  # segment id → its offset

    def unfinished(self) -> list[RemoteLogSegmentMetadata]:
        """Return the segments that are not finished, by start offset."""
        return self.cache.list_remote_log_segments()

    def apply_segment_event(self, event: SegmentEvent, offset: int) -> None:
        """
        Apply a segment event; what Kafka would drop is dropped.

        :param event: the event.
        :param offset: its offset in the metadata partition.
        """
        if event.broker_id != OWN_BROKER_ID or event.state in COPYING:
            self.last_foreign_offset = offset
            self.forget_observations()
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
                fate = self.cache.update_remote_log_segment_metadata(event)
                self._note_step(segment_id, event, offset)
                if fate is EventFate.DROPPED_INVALID_TRANSITION and ends_what_may_be_compacted(event):
                    self.without_add[segment_id] = offset
        except InvalidStateTransitionError:
            # It would have ended a broker's consumer; for us the segment's state is no longer certain.
            self.without_add[segment_id] = offset

    def _note_step(self, segment_id: UUID, event: RemoteLogSegmentMetadataUpdate, offset: int) -> None:
        """Remember of a segment what its present state does not tell."""
        if event.state == RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
            self.copied.add(segment_id)
        elif event.state == RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
            self.started_by.setdefault(segment_id, event.broker_id)
            self.started_at.setdefault(segment_id, offset)
        elif event.state == RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
            self.finished_at.setdefault(segment_id, offset)

    def _note_update_without_add(self, segment_id: UUID, state: RemoteLogSegmentState, offset: int) -> None:
        if state == RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
            # It is deleted now: nothing is left to resolve.
            self.without_add.pop(segment_id, None)
        else:
            self.without_add[segment_id] = offset

    def forget(self, key: RecordKey, offset: int) -> None:
        """
        Note that the log cleaner was asked to forget what was said by a key: who asks for it has read that the segment is
        finished, and where this log does not say so, its history has lost something.

        :param key: of a record without a value.
        :param offset: of that record.
        """
        for metadata in self.unfinished():
            if key.may_be_of(metadata):
                self.without_add[metadata.remote_log_segment_id.id] = offset

    def apply_partition_event(self, event: RemotePartitionDeleteMetadata, offset: int, timestamp_ms: int) -> None:
        """
        Apply a partition-delete event.

        :param event: the event, of any writer.
        :param offset: its offset in the metadata partition.
        :param timestamp_ms: the record's timestamp, ms since the epoch; the later of it and the event's counts as the
            time of observation, so that a wrong clock can only lengthen the wait.
        """
        self.apply_deletion(
            event.state,
            offset,
            max(event.event_timestamp_ms, timestamp_ms),
            ours=event.broker_id == OWN_BROKER_ID,
            has_unfinished=lambda: bool(self.unfinished()),
        )

    def obstacle_to_finish(self) -> str | None:
        """Return why DELETE_PARTITION_FINISHED must not be written (I3), ``None`` where nothing stands against it."""
        unfinished = self.unfinished()
        if unfinished:
            return (
                f"{number_of(len(unfinished), 'segment is', 'segments are')} not finished, the first is "
                f"{unfinished[0].remote_log_segment_id}"
            )
        if self.without_add:
            offset = min(self.without_add.values())
            return (
                f"{number_of(len(self.without_add), 'segment has', 'segments have')} an incomplete history, see "
                f"offset {offset}"
            )
        if not self.observations:
            if self.last_foreign_offset is None:
                return "no marker says when its absence was observed"
            return f"a foreign segment event at offset {self.last_foreign_offset} came after the marker"
        return None
