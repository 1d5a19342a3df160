# SPDX-License-Identifier: Apache-2.0
"""What one batch of the cleaner leaves in the audit log: segments with their offsets, and what became of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from airflow_provider_rlmm.core.plans.refusals import Refusal
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.storage.remote_storage import DeleteOutcome, SegmentDeletion
from airflow_provider_rlmm.core.world.audit_columns import Columns
from airflow_provider_rlmm.core.world.deletion_trail import NOTHING_SAID, DeletionTrail, Fate
from airflow_provider_rlmm.core.world.effects import Effects

Started = Sequence[tuple[UserPartitionHistory, RemoteLogSegmentMetadata]]
"""Segments whose DELETE_SEGMENT_STARTED was read back, each with the history of its user partition."""


@dataclass(slots=True)
class CleaningTrail:
    """
    What is known of a batch while it is deleted.

    :param trail: of the batch, ``None`` where nothing is written down: there is nothing to delete, or the run is dry.
    :param ids: its segments.
    """

    trail: DeletionTrail | None = None
    ids: Sequence[UUID] = ()
    deletions: dict[UUID, SegmentDeletion] = field(default_factory=dict)
    finished: dict[UUID, int] = field(default_factory=dict)

    @classmethod
    def begin(cls, effects: Effects, metadata_partition: int, started: Started) -> CleaningTrail:
        """
        Write down what is about to be deleted.

        :param effects: what writes, or does not.
        :param metadata_partition: of all of it.
        :param started: all of it.
        :raises AuditError: if it cannot be written.
        """
        if not started:
            return cls()
        trail = effects.begin_trail(_columns(metadata_partition, started), metadata_partition)
        return cls(trail, [metadata.remote_log_segment_id.id for _, metadata in started])

    def note_deleted(self, deletions: Sequence[SegmentDeletion]) -> None:
        """
        Take note of what storage said.

        :param deletions: of segments of the batch.
        """
        self.deletions.update((deletion.remote_log_segment_id.id, deletion) for deletion in deletions)

    def note_finished(self, segment_id: UUID, offset: int) -> None:
        """Take note of an acknowledged DELETE_SEGMENT_FINISHED."""
        self.finished[segment_id] = offset

    def end(self) -> Refusal | None:
        """Write down what became of it; return what a person has to know where that failed."""
        if self.trail is None:
            return None
        return self.trail.end([self._fate(segment_id) for segment_id in self.ids])

    def _fate(self, segment_id: UUID) -> Fate:
        deletion = self.deletions.get(segment_id)
        if deletion is None:
            # Storage raises before it is asked to delete anything, or says what became of it: nothing said, nothing deleted.
            return NOTHING_SAID
        why = () if deletion.outcome is DeleteOutcome.GONE else deletion.reasons.values()
        finished = self.finished.get(segment_id)
        return Fate(deletion.outcome, deletion.objects_deleted, deletion.bytes_deleted, why, finished)


def _columns(metadata_partition: int, started: Started) -> Columns:
    segments = [metadata for _, metadata in started]
    tips = [history.topic_id_partition for history, _ in started]
    ids = [metadata.remote_log_segment_id.id for metadata in segments]
    return {
        "metadata_partition": metadata_partition,
        "topic": [tip.topic for tip in tips],
        "topic_id": [tip.topic_id.bytes for tip in tips],
        "partition": [tip.partition for tip in tips],
        "segment_id": [segment_id.bytes for segment_id in ids],
        "start_offset": [metadata.start_offset for metadata in segments],
        "end_offset": [metadata.end_offset for metadata in segments],
        "segment_bytes": [metadata.segment_size_in_bytes for metadata in segments],
        "started_offset": [
            history.started_at.get(segment_id) for (history, _), segment_id in zip(started, ids, strict=True)
        ],
    }
