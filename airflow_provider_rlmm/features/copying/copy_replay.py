# SPDX-License-Identifier: Apache-2.0
"""What the metadata topic says about the one user partition that is copied, and what the write guard is told of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import TopicInDoubtError
from airflow_provider_rlmm.core.log.event_decoding import QuarantinedRecord, events_of
from airflow_provider_rlmm.core.log.follower import LogFollower
from airflow_provider_rlmm.core.log.one_look import look_at_many, newest
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.records.histories import Histories
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.located import LocatedEvent
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    COPIER_BROKER_ID,
    MAX_CUSTOM_METADATA_BYTES,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.world.replay import MOST_ROUTED
from airflow_provider_rlmm.features.copying.copy_situation import CopySituation

_STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_SAMPLE = 200
"""Newest records of each other metadata partition that are looked at where this one holds none."""


class CopyReplay:
    """
    The history of one user partition, from the beginning of its metadata partition on, kept current by :meth:`advance`.

    A broker passes over what it cannot read. A copier does not: a copy that it overlooked would be made again, or a hole.

    :param log: the log.
    :param topic_id_partition: the user partition.
    :raises TopicInDoubtError: if the metadata partition has lost its beginning, or its end.
    """

    def __init__(self, log: MetadataLogReader, topic_id_partition: TopicIdPartition) -> None:
        self._log = log
        self.history = UserPartitionHistory(topic_id_partition)
        self._histories = Histories([self.history], grows=False)
        self.metadata_partition = metadata_partition_for(topic_id_partition, log.partition_count)
        self.was_deleted = False
        """Whether any partition-delete event about the user partition was read."""
        self._copied: set[UUID] = set()
        self._writers: defaultdict[UUID, set[int]] = defaultdict(set)
        self._misrouted = self._routed = 0
        self._follower = LogFollower.from_beginning(log, [self.metadata_partition])
        self._follower.require_whole(
            f"it cannot be told what was copied of {topic_id_partition}, and nothing of it is copied"
        )

    def advance(self) -> None:
        """
        Read on, up to the high watermark as of now.

        :raises TopicInDoubtError: if a record cannot be applied that may be about the user partition.
        :raises EventLogUnavailableError: if the log could not be read whole.
        :raises OffsetOutOfRangeError: if the log has lost records since it was read.
        :raises LogReplacedError: if it is not the log that was read before.
        """
        self._follower.advance(self._apply)
        if not self._routed and not self._misrouted:
            self._sample_the_others()

    def _sample_the_others(self) -> None:
        """Where this metadata partition holds nothing yet, records of others tell where brokers put them."""
        for decoded in look_at_many(self._log, newest(self._log, _SAMPLE)):
            records = events_of(decoded, ())
            self._routed += records.routed
            self._misrouted += sum(record.code == "MISROUTED" for record in records.quarantined)

    def _apply(self, records: Any) -> None:
        tip = self.history.topic_id_partition
        decoded = events_of(records, {tip.topic_id})
        self._routed += decoded.routed
        for record in decoded.quarantined:
            self._misrouted += record.code == "MISROUTED"
            self._require_harmless(record)
        for located in decoded.records:
            if isinstance(located, LocatedEvent) and topic_id_partition_of(located.event) == tip:
                self._note(located)
            self._histories.apply(located)
        if self.history.without_add:
            offset = min(self.history.without_add.values())
            raise TopicInDoubtError(
                f"metadata partition {self.metadata_partition} offset {offset}: a segment of {tip} was never announced, its "
                "event cannot be applied, or it is to be forgotten and was never finished; nothing of it is copied"
            )

    def _note(self, located: LocatedEvent) -> None:
        if isinstance(located.event, RemotePartitionDeleteMetadata):
            self.was_deleted = True
            return
        segment_id = located.event.remote_log_segment_id.id
        self._writers[segment_id].add(located.event.broker_id)
        before = self.history.cache.segment(located.event.remote_log_segment_id)
        # One that comes behind the segment's deletion is dropped by brokers, and was no copy for anybody.
        if before is not None and before.state is _STARTED and located.event.state is _FINISHED:
            self._copied.add(segment_id)

    def _require_harmless(self, record: QuarantinedRecord) -> None:
        tip = self.history.topic_id_partition
        if record.topic_id_partition in (None, tip):
            raise TopicInDoubtError(f"{record} cannot be applied, and may be about {tip}: nothing of it is copied")

    def was_announced(self, segment_id: RemoteLogSegmentId) -> bool:
        """Tell whether any event about a segment was read."""
        return segment_id.id in self._writers

    def was_copied(self, segment_id: RemoteLogSegmentId) -> bool:
        """Tell whether a segment ever served reads."""
        return segment_id.id in self._copied

    def is_ours(self, segment_id: RemoteLogSegmentId) -> bool:
        """Tell whether every event about a segment is a copier's."""
        return self._writers.get(segment_id.id) == {COPIER_BROKER_ID}

    def unsettled_copies(self) -> list[RemoteLogSegmentMetadata]:
        """
        Return the copies of ours that have neither been finished nor taken back, in the order of their announcements.

        One that was COPY_SEGMENT_FINISHED once is never among them.
        """
        unsettled = (_STARTED, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
        return [
            metadata
            for metadata in self.history.cache.in_order_of_arrival()
            if metadata.state in unsettled
            and self.is_ours(metadata.remote_log_segment_id)
            and not self.was_copied(metadata.remote_log_segment_id)
        ]

    def routing_verified(self) -> bool:
        """Tell whether records were observed and nearly every one of them lies where our partitioner puts it."""
        return self._routed > MOST_ROUTED * self._misrouted


@dataclass(frozen=True, slots=True)
class CopyBelief:
    """
    What an event of a copier rests on (:class:`~airflow_provider_rlmm.core.log.copy_guard.ReplayedCopies`).

    :param replay: the replayed history.
    :param situation: the moment that was put together from it.
    :param most_custom_metadata: what brokers take, bytes.
    """

    replay: CopyReplay
    situation: CopySituation
    most_custom_metadata: int = MAX_CUSTOM_METADATA_BYTES

    def segment(self, segment_id: RemoteLogSegmentId) -> RemoteLogSegmentMetadata | None:
        """See :class:`~airflow_provider_rlmm.core.log.copy_guard.ReplayedCopies`."""
        return self.replay.history.cache.segment(segment_id)

    def was_announced(self, segment_id: RemoteLogSegmentId) -> bool:
        """See :class:`~airflow_provider_rlmm.core.log.copy_guard.ReplayedCopies`."""
        return self.replay.was_announced(segment_id)

    def was_copied(self, segment_id: RemoteLogSegmentId) -> bool:
        """See :class:`~airflow_provider_rlmm.core.log.copy_guard.ReplayedCopies`."""
        return self.replay.was_copied(segment_id)

    def is_ours(self, segment_id: RemoteLogSegmentId) -> bool:
        """See :class:`~airflow_provider_rlmm.core.log.copy_guard.ReplayedCopies`."""
        return self.replay.is_ours(segment_id)

    def was_deleted(self, topic_id_partition: TopicIdPartition) -> bool:
        """See :class:`~airflow_provider_rlmm.core.log.copy_guard.ReplayedCopies`."""
        return self.replay.was_deleted or topic_id_partition != self.replay.history.topic_id_partition

    def obstacle_to_copy(self, metadata: RemoteLogSegmentMetadata) -> str | None:
        """See :class:`~airflow_provider_rlmm.core.log.copy_guard.ReplayedCopies`."""
        return self.situation.obstacle_to(metadata)

    def cluster_asked(self) -> UUID | None:
        """See :class:`~airflow_provider_rlmm.core.log.copy_guard.ReplayedCopies`."""
        return None if self.situation.answer is None else self.situation.answer.metadata_topic_id

    def routing_verified(self) -> bool:
        """See :class:`~airflow_provider_rlmm.core.log.copy_guard.ReplayedCopies`."""
        return self.replay.routing_verified()
