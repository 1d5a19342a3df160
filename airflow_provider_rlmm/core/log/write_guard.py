# SPDX-License-Identifier: Apache-2.0
"""
The write guard: the only way to write to ``__remote_log_metadata``.

Every broker replays the topic with one consumer thread, and an event that it cannot apply can end that thread for good,
on every broker, again after each restart. So each event is checked alone (encode, decode, compare), against the replayed
state, and against the cluster's topics, before the first byte of its batch is written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import (
    ClusterMismatchError,
    LogEraError,
    PartitionerMismatchError,
    UnsafeEventError,
    WritesNotAllowedError,
)
from airflow_provider_rlmm.core.log.copy_guard import ReplayedCopies, check_copy_event
from airflow_provider_rlmm.core.log.event_encoding import encode
from airflow_provider_rlmm.core.log.protocol import MetadataLogWriter, MetadataTopic, ProvenLook, PublishOutcome
from airflow_provider_rlmm.core.records.era import WHAT_TO_DO, LogEra, era_of_policy
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    OWN_BROKER_ID,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    SegmentEvent,
    TopicIdPartition,
    kafka_uuid_str,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState

__all__ = ["GuardedPublisher"]

WritableEvent = RemoteLogSegmentMetadataUpdate | RemotePartitionDeleteMetadata
"""The kinds of events that the cleaner and the marker write."""

OfferedEvent = RemoteLogSegmentMetadata | WritableEvent
"""The kinds of events that may be offered to the guard; it refuses the first event of a segment, a copier's alone."""

_OUR_SEGMENT_STATES = (RemoteLogSegmentState.DELETE_SEGMENT_STARTED, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)


class ReplayedState(Protocol):
    """What the guard must know about the topic and the cluster to judge an event."""

    def segment(self, segment_id: RemoteLogSegmentId) -> RemoteLogSegmentMetadata | None:
        """Return the segment as of the replay, ``None`` where it is not known or finished."""

    def partition_delete_state(self, topic_id_partition: TopicIdPartition) -> RemotePartitionDeleteState | None:
        """Return the state of the partition's deletion, ``None`` where there is none or the last one has finished."""

    def obstacle_to_finish(self, topic_id_partition: TopicIdPartition) -> str | None:
        """Return why the partition must not be declared deleted, ``None`` where nothing stands against it."""

    def look_at(self, topic_id: UUID) -> ProvenLook | None:
        """Return the latest look at the cluster that asked for the topic id, ``None`` where there was none."""

    def routing_verified(self) -> bool:
        """Tell whether records were observed and every one of them lies where our partitioner puts it."""


class ReadMemory(Protocol):
    """What runs remember of what they have read of the log."""

    @property
    def era(self) -> LogEra:
        """The era of the log, as far as runs have seen it."""

    def keep(self) -> None:
        """Write down what this run has read, unless that was done."""

    def require_unbroken(self, metadata_partitions: Collection[int]) -> None:
        """Refuse metadata partitions that do not hold what earlier runs have read of them, unless that was confirmed."""


class GuardedPublisher:
    """
    Publishes events that have passed the guard.

    :param log: the log to write to.
    :param allow_writes: off means that nothing is ever written.
    :param allow_copy: off means that nothing is ever written about a living topic, as only a copier does.
    :param memory: what runs remember of the log, written down before anything is changed; ``None`` where none do.
    """

    def __init__(
        self,
        log: MetadataLogWriter,
        *,
        allow_writes: bool,
        allow_copy: bool = False,
        memory: ReadMemory | None = None,
    ) -> None:
        self._log = log
        self._allow_writes = allow_writes
        self._allow_copy = allow_copy
        self._memory = memory

    def require_writes(self, what: str) -> None:
        """
        Refuse to change anything, in the topic or in storage, while writes are off.

        :param what: what was to be done, for the message.
        :raises WritesNotAllowedError: if ``allow_writes`` is off.
        :raises LogEraError: if records of the log have keys, or may be compacted.
        :raises FloorError: if what this run has read of the log cannot be written down.
        :raises EventLogError: if no memory of the log is there, and its configuration cannot be read.
        """
        if not self._allow_writes:
            raise WritesNotAllowedError(
                f"not allowed to {what}: allow_writes is off; set it in the rlmm connection once a dry run looks right"
            )
        era = era_of_policy(self._log.cleanup_policy()) if self._memory is None else self._memory.era
        if self._memory is not None:
            self._memory.keep()
        if (why := era.why_not_written()) is not None:
            raise LogEraError(f"not allowed to {what}: {why}. What to do: {WHAT_TO_DO}")

    def publish(self, events: Sequence[OfferedEvent], state: ReplayedState) -> list[PublishOutcome]:
        """
        Check all events, then publish them in one batch; if one is refused nothing is written.

        :param events: at most one per segment and per user partition.
        :param state: what the topic and the cluster were seen to be.
        :return: one outcome per event, in order.
        :raises WriteRefusedError: with the event and the reason.
        :raises LostRecordsError: if the log has lost what was read of it where an event belongs.
        """
        if not events:
            return []
        self.require_writes(
            f"write {number_of(len(events), 'event')}, the first about {topic_id_partition_of(events[0])}"
        )
        return self._publish(check_events(events, state, self._log))

    def require_copying(self, what: str) -> None:
        """
        Refuse to copy anything while writes, or copies, are off.

        :param what: what was to be done, for the message.
        :raises WritesNotAllowedError: if ``allow_writes`` or ``allow_copy`` is off.
        """
        self.require_writes(what)
        if not self._allow_copy:
            raise WritesNotAllowedError(
                f"not allowed to {what}: allow_copy is off; it lets a copier write about living topics: set it in the rlmm "
                "connection for as long as segments are to be copied"
            )

    def publish_copy(self, event: SegmentEvent, state: ReplayedCopies) -> PublishOutcome:
        """
        Check one event of a copier, then publish it.

        :param event: the event.
        :param state: what the topic and the cluster were seen to be.
        :return: its outcome.
        :raises WriteRefusedError: with the event and the reason.
        :raises ClusterMismatchError: if the leader that was asked is of another cluster.
        """
        self.require_copying(f"write {event.state.name} of {event.remote_log_segment_id}")
        (outcome,) = self._publish([check_copy_event(event, state, self._log)])
        return outcome

    def _publish(self, records: Sequence[tuple[int, bytes]]) -> list[PublishOutcome]:
        if self._memory is not None:
            self._memory.require_unbroken({metadata_partition for metadata_partition, _ in records})
        return self._log.publish(records)


def check_events(events: Sequence[OfferedEvent], state: ReplayedState, log: MetadataTopic) -> list[tuple[int, bytes]]:
    """
    Check a batch and return its records.

    :param events: at most one per segment and per user partition.
    :param state: what the topic and the cluster were seen to be.
    :param log: the log that they are for: its id and its number of partitions.
    :return: (metadata partition, value) per event, in order.
    :raises UnsafeEventError: if an event could harm a broker or is not ours to write.
    :raises PartitionerMismatchError: if our partitioner is not proven on this topic.
    """
    if not state.routing_verified():
        raise PartitionerMismatchError(
            "no record observed in the metadata topic proves our partitioner, or one contradicts it: nothing is "
            "written; compare the topic's partition count with the brokers' configuration"
        )
    subjects: set[RemoteLogSegmentId | TopicIdPartition] = set()
    homes: dict[TopicIdPartition, int] = {}
    records: list[tuple[int, bytes]] = []
    for event in events:
        _check_event(event, state, log.topic_id)
        tip = topic_id_partition_of(event)
        subject = tip if isinstance(event, RemotePartitionDeleteMetadata) else event.remote_log_segment_id
        if subject in subjects:
            raise UnsafeEventError(f"two events about {subject} in one batch: publish them one after the other")
        subjects.add(subject)
        if tip not in homes:
            homes[tip] = metadata_partition_for(tip, log.partition_count)
        records.append((homes[tip], encode(event)))
    return records


def _check_event(event: OfferedEvent, state: ReplayedState, metadata_topic_id: UUID) -> None:
    if not isinstance(event, RemoteLogSegmentMetadataUpdate | RemotePartitionDeleteMetadata):
        raise UnsafeEventError(f"a {type(event).__name__} is never written by this package")
    topic_id_partition = topic_id_partition_of(event)
    if event.broker_id != OWN_BROKER_ID:
        raise UnsafeEventError(f"event about {topic_id_partition} claims broker id {event.broker_id}, ours is -1")
    look = state.look_at(topic_id_partition.topic_id)
    if look is not None and look.metadata_topic_id != metadata_topic_id:
        raise ClusterMismatchError(
            f"event about {topic_id_partition}: the cluster that was asked for its topics is not the one whose metadata "
            "topic is written to: name the brokers of one cluster only in the Kafka connection"
        )
    if look is None or topic_id_partition.topic_id not in look.absent:
        raise UnsafeEventError(
            f"topic id {kafka_uuid_str(topic_id_partition.topic_id)} of {topic_id_partition} was not found absent: "
            "events about a living topic are the brokers' alone"
        )
    if isinstance(event, RemotePartitionDeleteMetadata):
        _check_partition_event(event, state)
    else:
        _check_segment_event(event, state)


def _check_segment_event(event: RemoteLogSegmentMetadataUpdate, state: ReplayedState) -> None:
    segment_id = event.remote_log_segment_id
    if event.state not in _OUR_SEGMENT_STATES:
        raise UnsafeEventError(f"{event.state.name} of segment {segment_id}: only a copier may write this")
    segment = state.segment(segment_id)
    if segment is None:
        raise UnsafeEventError(f"segment {segment_id} is not in the replayed state: nothing to delete")
    if not RemoteLogSegmentState.is_valid_transition(segment.state, event.state):
        raise UnsafeEventError(f"segment {segment_id} is in {segment.state.name}, {event.state.name} does not follow")
    if event.custom_metadata != segment.custom_metadata:
        raise UnsafeEventError(f"event about segment {segment_id} would replace its custom metadata")
    deletion = state.partition_delete_state(segment_id.topic_id_partition)
    if deletion != RemotePartitionDeleteState.DELETE_PARTITION_STARTED:
        raise UnsafeEventError(f"segment {segment_id}: the deletion of its partition has not been started")


def _check_partition_event(event: RemotePartitionDeleteMetadata, state: ReplayedState) -> None:
    topic_id_partition = event.topic_id_partition
    source = state.partition_delete_state(topic_id_partition)
    if not RemotePartitionDeleteState.is_valid_transition(source, event.state):
        raise UnsafeEventError(
            f"deletion of {topic_id_partition} is in {source.name if source is not None else 'no state'}, "
            f"{event.state.name} does not follow"
        )
    if event.state == RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
        obstacle = state.obstacle_to_finish(topic_id_partition)
        if obstacle is not None:
            raise UnsafeEventError(f"{topic_id_partition} must not be declared deleted: {obstacle}")
