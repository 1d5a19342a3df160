# SPDX-License-Identifier: Apache-2.0
"""
What must hold before an event is written on somebody's word: the conditions of marker and cleaner, storage included.

The write guard sees the log and the cluster alone. What it cannot see is whether absence was observed long enough ago and
whether objects are left, and it is objects that nobody finds any more once an event says that they are gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from airflow_provider_rlmm.errors import EventByHandRefusedError
from airflow_provider_rlmm.lifecycle.marker import due_observation
from airflow_provider_rlmm.lifecycle.settling import refusal_of
from airflow_provider_rlmm.manager.write_guard import WritableEvent
from airflow_provider_rlmm.metadata.history import UserPartitionHistory
from airflow_provider_rlmm.metadata.records import (
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    kafka_uuid_str,
    topic_id_partition_of,
)
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.policy.absence import Observation
from airflow_provider_rlmm.policy.guards import CleanerLimits
from airflow_provider_rlmm.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.storage.root import RootCheck

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


@dataclass(frozen=True, slots=True)
class Standing:
    """
    What is known about the user partition of an event right before it is written.

    :param history: its history, replayed up to the high watermark.
    :param observation: the latest look at its topic id.
    :param now_ms: ms since the epoch.
    :param limits: limits of destructive work.
    :param storage: remote storage, ``None`` where there is none to ask.
    :param root: whether its root is this cluster's.
    """

    history: UserPartitionHistory
    observation: Observation
    now_ms: int
    limits: CleanerLimits
    storage: RemoteStorageManager | None = None
    root: RootCheck | None = None

    def check(self, event: WritableEvent) -> None:
        """
        Refuse an event that marker and cleaner would not write now.

        :param event: about this user partition.
        :raises EventByHandRefusedError: naming the event, why, and what to do.
        :raises StorageError: if storage does not answer.
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
        due = due_observation(self.history, self.observation, self.now_ms)
        if isinstance(event, RemotePartitionDeleteMetadata):
            if due is not None and event.state is due.state:
                return None
            if event.state is _MARKED:
                return self._why_no_observation_is_due()
        if (refusal := refusal_of(self.history, self.observation, self.now_ms, self.limits)) is not None:
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

    def _obstacle_to_finish(self) -> str | None:
        obstacle = self.history.obstacle_to_finish()
        if obstacle is not None:
            return obstacle
        unfinished = {segment.remote_log_segment_id.id for segment in self.history.unfinished()}
        left = self._listed() - (self.history.known_segments - unfinished)
        if left:
            return (
                f"storage lists objects of {len(left)} segments that the log does not call finished, one of them is "
                f"{kafka_uuid_str(min(left))}; reconcile storage and metadata first"
            )
        return None

    def _obstacle_of_segment(self, event: RemoteLogSegmentMetadataUpdate) -> str | None:
        listed = event.remote_log_segment_id.id in self._listed()
        if event.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
            return (
                None if listed else "storage lists no object of it; let the remote log cleaner decide what that means"
            )
        if listed:
            return "storage still lists objects of it; let the remote log cleaner delete them"
        return "storage lists no object of it, and nothing here shows that it ever did: let the remote log cleaner finish it"

    def _listed(self) -> frozenset[UUID]:
        """Return the ids of the segments that storage lists, below a root that is this cluster's."""
        if self.storage is None or self.root is None:
            raise EventByHandRefusedError(f"{self.history.topic_id_partition}: there is no remote storage to ask")
        if not self.root.verified:
            raise EventByHandRefusedError(
                f"{self.history.topic_id_partition}: the storage root is not verified, {self.root.reason}"
            )
        return frozenset(self.storage.list_log_segments(self.history.topic_id_partition))
