# SPDX-License-Identifier: Apache-2.0
"""What is known of one metadata partition, whoever replayed it, and what the write guard is told of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from uuid import UUID

from airflow_provider_rlmm.event_log.event_decoding import QuarantinedRecord
from airflow_provider_rlmm.event_log.protocol import ProvenLook
from airflow_provider_rlmm.metadata.history import UserPartitionHistory
from airflow_provider_rlmm.metadata.records import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.metadata.states import RemotePartitionDeleteState
from airflow_provider_rlmm.policy.plan import Refusal, RefusalKind
from airflow_provider_rlmm.policy.wholeness import Doubt

OBSTACLE_ADVICE = (
    "look at the record; what it may concern is deleted only where storage and log show that nothing is missing"
)
MOST_ROUTED = 4
"""Good records that must lie where our partitioner puts them, per one that does not, before anything is written."""


@dataclass
class MetadataPartitionView:
    """
    What is known of one metadata partition.

    :param metadata_partition: which one.
    :param begin: offset of the first record that could be read, inclusive: where it is above 0, records were lost.
    :param end: everything below was read, exclusive.
    :param histories: the user partitions that matter.
    :param quarantined: the records that are not good, by offset.
    :param routed_records: number of those that are.
    """

    metadata_partition: int
    begin: int
    end: int
    histories: dict[TopicIdPartition, UserPartitionHistory] = field(default_factory=dict)
    quarantined: list[QuarantinedRecord] = field(default_factory=list)
    routed_records: int = 0

    def names(self, topic_ids: Collection[UUID]) -> dict[UUID, frozenset[str]]:
        """
        Return every name under which topic ids were seen here.

        :param topic_ids: the ids; each of them is answered for.
        """
        found: dict[UUID, set[str]] = {topic_id: set() for topic_id in topic_ids}
        for key in self.histories:
            if key.topic_id in found:
                found[key.topic_id].add(key.topic)
        return {topic_id: frozenset(seen) for topic_id, seen in found.items()}

    def doubt_about(self, tip: TopicIdPartition, allowed_quarantine: frozenset[str]) -> Doubt | None:
        """
        Return why more may have been said about a user partition than was read, ``None`` where nothing suggests it.

        A record that cannot be decoded may be about anybody; one that can be concerns its own user partition only.

        :param tip: the user partition.
        :param allowed_quarantine: names of error codes that raise no doubt.
        """
        number = self.metadata_partition
        if self.begin > 0:
            return Doubt(f"metadata partition {number} begins at offset {self.begin}", number, self.begin)
        for record in self.quarantined:
            if record.code not in allowed_quarantine and record.topic_id_partition in (None, tip):
                return Doubt(f"{record} cannot be applied", number, record.offset)
        return None

    def obstacles(self) -> list[Refusal]:
        """Return what puts user partitions of this metadata partition in doubt: somebody has to look at each of them."""
        number = self.metadata_partition
        what = f"metadata partition {number}"
        found = [
            Refusal(what, str(q), OBSTACLE_ADVICE, RefusalKind.QUARANTINED, number, q.offset) for q in self.quarantined
        ]
        if self.begin > 0:
            why = f"{what} begins at offset {self.begin}: the records before that were deleted"
            found.append(Refusal(what, why, OBSTACLE_ADVICE, RefusalKind.LOST_RECORDS, number, self.begin))
        return found


View = TypeVar("View", bound=MetadataPartitionView, covariant=True)


@dataclass(frozen=True, slots=True)
class Belief(Generic[View]):
    """
    What a batch of events rests on, as the write guard wants it: the replayed state and one look at the cluster.

    :param replay: the replayed state.
    :param proof: the look; there is one belief for each, so that absence never adds up over several.
    :param allowed_quarantine: names of error codes that raise no doubt about a history.
    :param shown_whole: user partitions in doubt of which a listing right before has shown that the log names all of them.
    """

    replay: View
    proof: ProvenLook | None = None
    allowed_quarantine: frozenset[str] = frozenset()
    shown_whole: frozenset[TopicIdPartition] = frozenset()

    def segment(self, segment_id: RemoteLogSegmentId) -> RemoteLogSegmentMetadata | None:
        """See :class:`~airflow_provider_rlmm.event_log.write_guard.ReplayedState`."""
        history = self.replay.histories.get(segment_id.topic_id_partition)
        return history.cache.segment(segment_id) if history else None

    def partition_delete_state(self, topic_id_partition: TopicIdPartition) -> RemotePartitionDeleteState | None:
        """See :class:`~airflow_provider_rlmm.event_log.write_guard.ReplayedState`."""
        history = self.replay.histories.get(topic_id_partition)
        return history.delete_state if history and history.deletion_under_way() else None

    def obstacle_to_finish(self, topic_id_partition: TopicIdPartition) -> str | None:
        """See :class:`~airflow_provider_rlmm.event_log.write_guard.ReplayedState`."""
        history = self.replay.histories.get(topic_id_partition)
        if history is None:
            return "nothing is known about it"
        doubt = self.replay.doubt_about(topic_id_partition, self.allowed_quarantine)
        if doubt is not None and topic_id_partition not in self.shown_whole:
            return f"{doubt.why}, and no listing has shown that the log names all of its segments"
        return history.obstacle_to_finish()

    def look_at(self, topic_id: UUID) -> ProvenLook | None:
        """See :class:`~airflow_provider_rlmm.event_log.write_guard.ReplayedState`."""
        return self.proof

    def routing_verified(self) -> bool:
        """See :class:`~airflow_provider_rlmm.event_log.write_guard.ReplayedState`."""
        # One stray record says nothing about the rest; after a change of the partition count half of all lie wrong.
        misrouted = sum(q.code == "MISROUTED" for q in self.replay.quarantined)
        return self.replay.routed_records > MOST_ROUTED * misrouted
