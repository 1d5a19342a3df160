# SPDX-License-Identifier: Apache-2.0
"""
What must hold before an event is written on somebody's word: the conditions of marker and cleaner, storage included.

The write guard sees the log and the cluster alone. What it cannot see is whether absence was observed long enough ago and
whether objects are left, and it is objects that nobody finds any more once an event says that they are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from airflow_provider_rlmm.errors import EventByHandRefusedError
from airflow_provider_rlmm.event_log.write_guard import WritableEvent
from airflow_provider_rlmm.lifecycle.eligibility import as_unseen
from airflow_provider_rlmm.lifecycle.marker import due_observation
from airflow_provider_rlmm.lifecycle.root_proof import ProvenRoot, prove_root
from airflow_provider_rlmm.lifecycle.settling import refusal_of
from airflow_provider_rlmm.lifecycle.topic_view import TopicReplay
from airflow_provider_rlmm.metadata.history import UserPartitionHistory
from airflow_provider_rlmm.metadata.records import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
    kafka_uuid_str,
    topic_id_partition_of,
)
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.policy.absence import Observation
from airflow_provider_rlmm.policy.guards import CleanerLimits
from airflow_provider_rlmm.policy.refusals import Refusal
from airflow_provider_rlmm.policy.unseen import UnseenDecision, UnseenVerdict, decide_unseen
from airflow_provider_rlmm.policy.wholeness import Doubt, incompleteness
from airflow_provider_rlmm.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.storage.root import RootExpectation

EVENTS_BY_HAND = "events_by_hand"
"""The override in :data:`~airflow_provider_rlmm.policy.guards.OVERRIDES` that these events need."""

_MARKED = RemotePartitionDeleteState.DELETE_PARTITION_MARKED
_OVERRIDDEN = (
    RemotePartitionDeleteState.DELETE_PARTITION_STARTED,
    RemotePartitionDeleteState.DELETE_PARTITION_FINISHED,
    RemoteLogSegmentState.DELETE_SEGMENT_FINISHED,
)


def check_override(events: Iterable[WritableEvent], limits: CleanerLimits) -> None:
    """
    Refuse a list of events before the first is written, if one of them needs the override and it is not given.

    :param events: all of them.
    :param limits: limits of destructive work, with the overrides.
    :raises EventByHandRefusedError: naming the event and the override.
    """
    for event in events:
        if any(event.state is state for state in _OVERRIDDEN) and EVENTS_BY_HAND not in limits.overrides:
            raise EventByHandRefusedError(
                f"{event.state.name} of {topic_id_partition_of(event)} by hand needs the override {EVENTS_BY_HAND!r} and "
                "expected_cluster_id in the rlmm connection; the remote log cleaner needs neither: let it do this"
            )


def needs_storage(events: Iterable[WritableEvent]) -> bool:
    """
    Tell whether remote storage has to be asked about some of the events.

    :param events: all of them.
    """
    return any(event.state is not _MARKED for event in events)


class StorageWitness:
    """
    Remote storage as a witness. Its root must be the cluster's and up to date before a listing says anything: in a copy of
    the root, or an old one, nothing would be left to see.

    :param storage: remote storage, ``None`` where there is none to ask.
    :param open_topic: returns the metadata topic, should it be needed.
    :param cluster_id: the verified cluster.
    :param expectation: what is known about the root.
    :param overrides: overrides in force.
    """

    def __init__(
        self,
        storage: RemoteStorageManager | None,
        open_topic: Callable[[], TopicReplay],
        *,
        cluster_id: str,
        expectation: RootExpectation,
        overrides: frozenset[str],
    ) -> None:
        self._storage = storage
        self._open_topic = open_topic
        self._cluster_id = cluster_id
        self._expectation = expectation
        self._overrides = overrides
        self._proof: ProvenRoot | None = None

    def listed(self, tip: TopicIdPartition) -> frozenset[UUID]:
        """
        Return the ids of the segments of which storage lists an object now.

        :param tip: their user partition.
        :raises EventByHandRefusedError: if there is no storage, or its root is not verified.
        :raises StorageRootError: if the root is not up to date.
        :raises StorageError: if storage does not answer.
        """
        storage, _ = self._proven(tip)
        return frozenset(storage.list_log_segments(tip))

    def root_shown(self, tip: TopicIdPartition) -> bool:
        """
        Tell whether something of this cluster was seen at every place of the storage root.

        :param tip: the user partition that this is asked for.
        """
        _, proof = self._proven(tip)
        return proof.shown

    def decide_unseen(self, history: UserPartitionHistory, metadata: RemoteLogSegmentMetadata) -> UnseenDecision:
        """
        Tell by the cleaner's rule whether a segment may be finished of which no listing shows an object.

        :param history: of its user partition.
        :param metadata: the segment.
        """
        storage, proof = self._proven(history.topic_id_partition)
        return decide_unseen(as_unseen(history, metadata, proof, storage), self._overrides)

    def _proven(self, tip: TopicIdPartition) -> tuple[RemoteStorageManager, ProvenRoot]:
        if self._storage is None:
            raise EventByHandRefusedError(f"{tip}: there is no remote storage to ask")
        if self._proof is None:
            self._proof = self._prove(self._storage)
        if not self._proof.check.verified:
            raise EventByHandRefusedError(f"{tip}: the storage root is not verified, {self._proof.check.reason}")
        return self._storage, self._proof

    def _prove(self, storage: RemoteStorageManager) -> ProvenRoot:
        return prove_root(
            self._open_topic(),
            storage,
            cluster_id=self._cluster_id,
            expectation=self._expectation,
            overrides=self._overrides,
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """
    What is known about the user partition of an event right before it is written.

    :param history: its history, replayed up to the high watermark.
    :param observation: the latest look at its topic id.
    :param now_ms: a time after that look, ms since the epoch.
    :param limits: limits of destructive work.
    :param held: why it must not be touched, ``None`` where nothing holds it.
    :param doubt: why more may have been said about it than was read, ``None`` where nothing suggests it.
    :param storage: remote storage, asked where that is needed.
    """

    history: UserPartitionHistory
    observation: Observation
    now_ms: int
    limits: CleanerLimits
    held: Refusal | None
    doubt: Doubt | None
    storage: StorageWitness

    def check(self, event: WritableEvent) -> None:
        """
        Refuse an event that marker and cleaner would not write now.

        :param event: about this user partition.
        :raises EventByHandRefusedError: naming the event, why, and what to do.
        :raises StorageError: if storage does not answer, or its root is not up to date.
        """
        obstacle = self._obstacle(event)
        if obstacle is not None:
            subject = (
                event.topic_id_partition
                if isinstance(event, RemotePartitionDeleteMetadata)
                else event.remote_log_segment_id
            )
            raise EventByHandRefusedError(f"{event.state.name} of {subject} is not written: {obstacle}")

    def _obstacle(self, event: WritableEvent) -> str | None:
        if self.held is not None:
            return f"{self.held.why}; {self.held.what_to_do}"
        due = due_observation(self.history, self.observation, self.now_ms)
        if isinstance(event, RemotePartitionDeleteMetadata):
            if due is not None and event.state is due.state:
                return None
            if event.state is _MARKED:
                return self._why_no_observation_is_due()
        if (refusal := refusal_of(self.history, self.observation, self.now_ms, self.limits)) is not None:
            return f"{refusal.why}; {refusal.what_to_do}"
        if (refusal := self._incompleteness()) is not None:
            return f"{refusal.why}; {refusal.what_to_do}"
        if isinstance(event, RemotePartitionDeleteMetadata):
            started = event.state is RemotePartitionDeleteState.DELETE_PARTITION_STARTED
            return None if started else self._obstacle_to_finish()
        return self._obstacle_of_segment(event)

    def _why_no_observation_is_due(self) -> str:
        if self.history.deletion_under_way():
            return "its deletion is under way and the observation stands: the marker would write nothing"
        if not self.history.unfinished():
            return "no segment of it is unfinished: the marker would write nothing"
        return self.observation.reason

    def _incompleteness(self) -> Refusal | None:
        if self.doubt is None:
            return None
        tip = self.history.topic_id_partition
        listed, root_shown = self.storage.listed(tip), self.storage.root_shown(tip)
        return incompleteness(self.history, listed, self.doubt, root_shown=root_shown)

    def _obstacle_to_finish(self) -> str | None:
        obstacle = self.history.obstacle_to_finish()
        if obstacle is not None:
            return obstacle
        unfinished = {segment.remote_log_segment_id.id for segment in self.history.unfinished()}
        left = self.storage.listed(self.history.topic_id_partition) - (self.history.known_segments - unfinished)
        if left:
            return (
                f"storage lists objects of {len(left)} segments that the log does not call finished, one of them is "
                f"{kafka_uuid_str(min(left))}; reconcile storage and metadata first"
            )
        return None

    def _obstacle_of_segment(self, event: RemoteLogSegmentMetadataUpdate) -> str | None:
        listed = event.remote_log_segment_id.id in self.storage.listed(self.history.topic_id_partition)
        if event.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
            unseen = "storage lists no object of it; let the remote log cleaner decide what that means"
            return None if listed else unseen
        if listed:
            return "storage still lists objects of it; let the remote log cleaner delete them"
        metadata = self.history.cache.segment(event.remote_log_segment_id)
        if metadata is None:
            return "the log knows no such segment that is not finished"
        decision = self.storage.decide_unseen(self.history, metadata)
        if decision.verdict is UnseenVerdict.MAY_FINISH:
            return None
        override = f"; the override {decision.override!r} settles it" if decision.override else ""
        return f"{decision.why}{override}; the remote log cleaner finishes what it deletes itself"
