# SPDX-License-Identifier: Apache-2.0
"""
One segment: announced, copied, seen in storage, and finished; or taken back.

Of two that copy the one whose announcement comes first in the log goes on. A copy that was announced belongs to its run for a
lease that is counted from the time in the announcement: its run gives it up after half of that, another run takes it back
after all of it. Should both have been wrong about the time, the log tells: the run that takes back reads what came before its
DELETE_SEGMENT_STARTED, deletes no object where that was a COPY_SEGMENT_FINISHED, and the range is copied again.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass

from airflow_provider_rlmm.core.base.errors import (
    CopyRefusedError,
    PublishFailedError,
    PublishOutcomeUnknownError,
    RlmmError,
    StorageUnavailableError,
)
from airflow_provider_rlmm.core.log.protocol import Failed
from airflow_provider_rlmm.core.records.records import (
    COPIER_BROKER_ID,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    SegmentEvent,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.metrics import RemoteLogMetric
from airflow_provider_rlmm.core.storage.remote_storage import DeleteOutcome
from airflow_provider_rlmm.features.copying.announcing import announcement
from airflow_provider_rlmm.features.copying.copy_context import CopyContext
from airflow_provider_rlmm.features.copying.copy_pace import CopyPace
from airflow_provider_rlmm.features.copying.copy_replay import CopyBelief
from airflow_provider_rlmm.features.copying.copy_situation import CopySituation
from airflow_provider_rlmm.features.copying.copy_source import CopySource, ReadyCopy
from airflow_provider_rlmm.features.copying.copy_writer import CopyWriter
from airflow_provider_rlmm.features.copying.followed_partition import FollowedPartition
from airflow_provider_rlmm.features.copying.leader_comparison import LineageProof, compare_with_leader
from airflow_provider_rlmm.features.copying.rules import LocalSegment

logger = logging.getLogger(__name__)

_STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_DELETION = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
_DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


@dataclass(frozen=True, slots=True)
class _Lease:
    """When a copy of this run was announced, by both clocks: neither may stand still or be set back unnoticed."""

    context: CopyContext
    began_ms: int  # time of the announcement, ms since the epoch
    began_monotonic_ms: int

    def why_lost(self) -> str | None:
        by_time = self.context.limits.still_ours(self.began_ms, self.context.clock())
        if by_time and self.context.limits.still_ours(self.began_monotonic_ms, self.context.monotonic()):
            return None
        return (
            f"it was announced longer than half of lease_ms = {self.context.limits.lease_ms} ago: another run may take it "
            "back soon; allow a longer lease or more bytes per second"
        )


class SegmentCopier(FollowedPartition):
    """
    Copies segments of one user partition.

    :param context: what it works with.
    :param source: the log directory.
    :param writer: what writes.
    :raises LogDirectoryError: if the directory cannot be used.
    :raises TopicInDoubtError: if the metadata topic cannot tell what is copied already.
    """

    def __init__(self, context: CopyContext, source: CopySource, writer: CopyWriter) -> None:
        super().__init__(context, source)
        self._writer = writer
        self.taken_back: list[RemoteLogSegmentMetadata] = []
        """The copies that were taken back, by whichever run they were begun."""

    def copy(
        self, segment: LocalSegment, situation: CopySituation, following: LocalSegment | None = None
    ) -> RemoteLogSegmentMetadata:
        """
        Copy a segment.

        :param segment: the next candidate.
        :param situation: the moment in which it was chosen.
        :param following: the candidate behind it, which is verified meanwhile; ``None`` where the run ends before.
        :return: the segment as it was finished.
        :raises RlmmError: if it was not copied; it was taken back then, or a later run takes it back.
        """
        ready = self._source.verify(segment)
        proof = self._compare(segment, situation)
        situation = self.look(proof.end)
        lease = _Lease(self._context, self._context.clock(), self._context.monotonic())
        metadata = announcement(self._source.topic_id_partition, segment, uuid.uuid4(), lease.began_ms)
        self._context.require_custom_metadata(metadata)
        self._announce(metadata, situation)
        update: RemoteLogSegmentMetadataUpdate | None = None
        try:
            # Of two announcements the first one in the log counts; the replay has both by now.
            _require(situation.obstacle_to(metadata))
            if following is not None:
                self._source.expect(following)
            update = self._transfer(metadata, ready, lease)
            proof = self._compare(segment, situation)
            situation = self._look_again(metadata.with_update(update), proof, lease)
        except (RlmmError, OSError) as e:
            self._context.metrics.mark(RemoteLogMetric.COPY_ERRORS)
            logger.warning("The copy of %s of %s is taken back: %s", segment, self._source.topic_id_partition, e)
            self._take_back_after(e, metadata if update is None else metadata.with_update(update))
            raise
        # From here on it is never taken back by this run: FINISHED may have been written, with any answer.
        self._finish(update, situation)
        self._context.metrics.mark(RemoteLogMetric.COPY_BYTES, segment.size_in_bytes)
        return metadata.with_update(update)

    def _compare(self, segment: LocalSegment, situation: CopySituation) -> LineageProof:
        if situation.answer is None or situation.answer.offsets is None:
            return LineageProof(None, None)  # the situation refuses, unless an override says otherwise
        proof = compare_with_leader(self._source, segment, self._context.leader, situation.answer.offsets)
        _require(proof.obstacle)
        return proof

    def _announce(self, metadata: RemoteLogSegmentMetadata, situation: CopySituation) -> None:
        self._context.metrics.mark(RemoteLogMetric.COPY_REQUESTS)
        self._publish(metadata, situation)
        self.replay.advance()
        if self._state(metadata) is not _STARTED:
            raise PublishOutcomeUnknownError(
                f"the announcement of {metadata.remote_log_segment_id} is not in the metadata topic, and may still come: "
                "the run ends; a later one takes it back"
            )

    def _transfer(
        self, metadata: RemoteLogSegmentMetadata, ready: ReadyCopy, lease: _Lease
    ) -> RemoteLogSegmentMetadataUpdate:
        """Copy all files, see them in storage, and return the event that says so."""
        storage, gate = self._context.storage, self._context.gate
        pace = CopyPace(
            self._context.limits.bytes_per_second,
            lambda: gate.why_stopped() or lease.why_lost(),
            clock=lambda: self._context.monotonic() / 1000,
        )
        custom_metadata = self._writer.copy(metadata, ready.data, pace)
        ready.check_unchanged()
        update = self._update(metadata, _FINISHED, custom_metadata)
        # It was foretold; who cannot foretell it is not believed.
        too_large = self._context.custom_metadata.obstacle(len(custom_metadata or b""), metadata.remote_log_segment_id)
        if too_large is not None:
            self._writer.delete(metadata.with_update(update))
            raise CopyRefusedError(too_large)
        finished = metadata.with_update(update)
        if missing := storage.missing_keys(storage.layout.required_keys(finished)):
            raise StorageUnavailableError(f"{min(missing)} was copied and is not in storage: copy it again")
        return update

    def _look_again(self, finished: RemoteLogSegmentMetadata, proof: LineageProof, lease: _Lease) -> CopySituation:
        """Look at everything right before FINISHED, as if nothing had been looked at before."""
        situation = self.look(proof.end)
        _require(situation.obstacle_to(finished))
        if self._state(finished) is not _STARTED:
            raise CopyRefusedError(f"{finished.remote_log_segment_id} was taken back by another program meanwhile")
        _require(lease.why_lost())
        return situation

    def _finish(self, update: RemoteLogSegmentMetadataUpdate, situation: CopySituation) -> None:
        self._publish(update, situation)
        self.replay.advance()
        if not self.replay.was_copied(update.remote_log_segment_id):
            raise PublishOutcomeUnknownError(
                f"COPY_SEGMENT_FINISHED of {update.remote_log_segment_id} is not in the metadata topic, and may still come: "
                "the run ends; a later one looks, and takes the copy back if it never came"
            )
        if self._state(update) is not _FINISHED:
            raise CopyRefusedError(
                f"{update.remote_log_segment_id} was deleted by another program as soon as it was copied"
            )

    def take_back(self, metadata: RemoteLogSegmentMetadata) -> None:
        """
        Delete what was copied of a segment and say so, unless its copy was finished, or another program deletes it.

        :param metadata: the segment, announced by this package; with custom metadata where some is known.
        :raises EventLogError: if metadata topic or leader cannot be asked, or the event is not written.
        :raises StorageError: if storage does not answer.
        """
        segment_id = metadata.remote_log_segment_id
        situation = self.look()
        if self.replay.was_copied(segment_id):
            return
        if self._state(metadata) is _STARTED:
            # What is known of it in the topic: brokers repeat custom metadata when they delete.
            self._publish(self._update(metadata, _DELETION, None), situation)
            situation = self.look()
        if self.replay.was_copied(segment_id):
            logger.error(
                "%s was finished after its lease was lost, and is deleted for brokers now: its offsets are copied again",
                segment_id,
            )
            return
        if self._state(metadata) is _STARTED:
            raise PublishOutcomeUnknownError(
                f"the deletion of {segment_id} is not in the metadata topic: a later run goes on"
            )
        deletion = self._writer.delete(metadata)
        if deletion.outcome not in (DeleteOutcome.GONE, DeleteOutcome.NEVER_SEEN):
            reason = "; ".join(deletion.reasons.values())
            raise StorageUnavailableError(f"objects of {segment_id} are left: {reason}; a later run goes on")
        if self._state(metadata) is _DELETION and self.replay.is_ours(segment_id):
            self._publish(self._update(metadata, _DELETED, None), situation)
        self.taken_back.append(metadata)

    def _take_back_after(self, error: Exception, metadata: RemoteLogSegmentMetadata) -> None:
        """Take a failed copy back if that is possible now; what ended it is what is told."""
        try:
            self.take_back(metadata)
        except (RlmmError, OSError) as e:
            error.add_note(f"It is not taken back yet, a later run does that: {e}")

    def _publish(self, event: SegmentEvent, situation: CopySituation) -> None:
        belief = CopyBelief(self.replay, situation, self._context.custom_metadata.most_bytes)
        outcome = self._writer.publish(event, belief)
        if isinstance(outcome, Failed):
            raise PublishFailedError(
                f"{event.state.name} of {event.remote_log_segment_id} was not written: {outcome.reason}"
            )

    def _update(
        self, metadata: RemoteLogSegmentMetadata, state: RemoteLogSegmentState, custom_metadata: bytes | None
    ) -> RemoteLogSegmentMetadataUpdate:
        return RemoteLogSegmentMetadataUpdate(
            metadata.remote_log_segment_id, self._context.clock(), custom_metadata, state, COPIER_BROKER_ID
        )

    def _state(self, of: SegmentEvent) -> RemoteLogSegmentState | None:
        """State of a segment as of the replay, ``None`` where it is not known or deleted."""
        known = self.replay.history.cache.segment(of.remote_log_segment_id)
        return None if known is None else known.state


def _require(obstacle: str | None) -> None:
    if obstacle is not None:
        raise CopyRefusedError(obstacle)
