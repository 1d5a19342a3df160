# SPDX-License-Identifier: Apache-2.0
"""What one batch of the cleaner leaves in the audit log."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import AuditError
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.storage.remote_storage import DeleteOutcome, SegmentDeletion
from airflow_provider_rlmm.core.world.audit import MAX_WHY
from airflow_provider_rlmm.core.world.audit_columns import Columns
from airflow_provider_rlmm.core.world.audit_log import AuditBatch, AuditLog

logger = logging.getLogger(__name__)

NOT_WRITTEN_ADVICE = (
    "see that the work folder has room and may be written; what was deleted is in this report, and what was begun in the "
    "batch's first file"
)
NOTHING_SAID = "storage did not say what became of it"

Started = Sequence[tuple[UserPartitionHistory, RemoteLogSegmentMetadata]]
"""Segments whose DELETE_SEGMENT_STARTED was read back, each with the history of its user partition."""


@dataclass(slots=True)
class DeletionTrail:
    """
    What is known of a batch; it is written down when that ends, whatever ends it.

    :param log: the audit log.
    :param batch: what was written before.
    :param segments: the batch.
    """

    log: AuditLog
    batch: AuditBatch
    segments: Sequence[RemoteLogSegmentMetadata]
    deletions: dict[UUID, SegmentDeletion] = field(default_factory=dict)
    finished: dict[UUID, int] = field(default_factory=dict)

    @classmethod
    def begin(cls, log: AuditLog, metadata_partition: int, started: Started) -> DeletionTrail:
        """
        Write down what is about to be deleted.

        :param log: the audit log.
        :param metadata_partition: of all of it.
        :param started: all of it.
        :raises AuditError: if it cannot be written.
        """
        segments = [metadata for _, metadata in started]
        tips = [history.topic_id_partition for history, _ in started]
        ids = [metadata.remote_log_segment_id.id for metadata in segments]
        columns: Columns = {
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
        return cls(log, log.before(columns), segments)

    def note_deleted(self, deletions: Sequence[SegmentDeletion]) -> None:
        """
        Take note of what storage said.

        :param deletions: of segments of the batch.
        """
        self.deletions.update((deletion.remote_log_segment_id.id, deletion) for deletion in deletions)

    def note_finished(self, segment_id: UUID, offset: int) -> None:
        """
        Take note of an acknowledged DELETE_SEGMENT_FINISHED.

        :param segment_id: of the segment.
        :param offset: of the event.
        """
        self.finished[segment_id] = offset

    def end(self, metadata_partition: int) -> Refusal | None:
        """
        Write down what became of it.

        :param metadata_partition: of all of it.
        :return: what a person has to know where that failed.
        """
        ids = [metadata.remote_log_segment_id.id for metadata in self.segments]
        # Storage raises before it is asked to delete anything, or says what became of it: nothing said is nothing deleted.
        found = [self.deletions.get(segment_id) for segment_id in ids]
        outcomes: Columns = {
            "outcome": [(deletion.outcome if deletion else DeleteOutcome.UNKNOWN).name for deletion in found],
            "objects": [deletion.objects_deleted if deletion else None for deletion in found],
            "bytes": [deletion.bytes_deleted if deletion else None for deletion in found],
            "finished_offset": [self.finished.get(segment_id) for segment_id in ids],
            "why": [_why(deletion) for deletion in found],
        }
        try:
            self.log.after(self.batch, outcomes)
        except AuditError as e:
            logger.error("%s", e)
            return not_written(self.batch, len(ids), e, metadata_partition)
        return None


def not_written(batch: AuditBatch, segments: int, error: AuditError, metadata_partition: int | None) -> Refusal:
    """
    Say that the audit log does not tell what became of a batch.

    :param batch: what was written before.
    :param segments: of the batch.
    :param error: why not.
    :param metadata_partition: of all of it, ``None`` where there are several.
    """
    what = f"outcomes of batch {batch.name}, {segments} segments"
    return Refusal(what, str(error), NOT_WRITTEN_ADVICE, RefusalKind.AUDIT, metadata_partition)


def _why(deletion: SegmentDeletion | None) -> str | None:
    if deletion is None:
        return NOTHING_SAID
    if deletion.outcome is DeleteOutcome.GONE:
        return None
    return "; ".join(sorted(set(deletion.reasons.values())))[:MAX_WHY] or None
