# SPDX-License-Identifier: Apache-2.0
"""
The cleaning of the user partitions of one metadata partition, batch by batch, from their markers to
DELETE_PARTITION_FINISHED (I1 to I8 of docs/architecture.md).

A batch goes across user partitions, so that many small ones cost what one large one does. Follow it through
:meth:`BatchCleaner._clean`: start the deletion of its user partitions, then look at the cluster again, publish
DELETE_SEGMENT_STARTED, read that back, delete the objects, publish DELETE_SEGMENT_FINISHED for those confirmed gone, and
finish the user partitions of which nothing is left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.ahead import ahead
from airflow_provider_rlmm.core.base.clock import monotonic_clock
from airflow_provider_rlmm.core.base.errors import RlmmError, StorageError, StorageRootError
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.log.protocol import Acked, ProvenLook, Unknown
from airflow_provider_rlmm.core.log.write_guard import WritableEvent
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.records import (
    OWN_BROKER_ID,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.core.storage.remote_storage import DeleteOutcome, SegmentDeletion
from airflow_provider_rlmm.core.world.effects import subject_of
from airflow_provider_rlmm.core.world.kill_switch import STOPPED_ADVICE
from airflow_provider_rlmm.core.world.replay import Belief
from airflow_provider_rlmm.features.cleanup.cleaning_trail import CleaningTrail
from airflow_provider_rlmm.features.cleanup.eligibility import NEXT_RUN, CleaningContext, storage_refusal
from airflow_provider_rlmm.features.cleanup.partition_work import UserPartitionWork

logger = logging.getLogger(__name__)

KEPT_ADVICE = "see the reason: the right to delete may be missing, or a lock be in force; the next run tries again"

_MOST_UNANSWERED = 5
"""User partitions in a row for which storage does not answer, after which no other is asked for."""

_STARTED = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
_FINISHED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED

Deleted = tuple[UserPartitionWork, RemoteLogSegmentMetadata, SegmentDeletion]


@dataclass(frozen=True, slots=True)
class Share:
    """What one batch takes of a user partition."""

    work: UserPartitionWork  # on the user partition
    segments: Sequence[RemoteLogSegmentMetadata]  # that are to be deleted; none where it only needs to be finished
    is_last: bool  # whether nothing is left for later batches


def batches_of(works: Sequence[UserPartitionWork], size: int) -> Iterator[list[Share]]:
    """
    Cut work into batches.

    :param works: on user partitions.
    :param size: segments in a batch at most, and user partitions.
    """
    shares: list[Share] = []
    room = size
    for work in works:
        # From the end: a listing begins at the lowest key of its batch, so it never walks over what is still to come.
        rest = work.eligibility.segments[::-1]
        while True:
            taken, rest = rest[:room], rest[room:]
            shares.append(Share(work, taken, not rest))
            room -= max(1, len(taken))
            if not room:
                yield shares
                shares, room = [], size
            if not rest:
                break
    if shares:
        yield shares


class BatchCleaner:
    """
    Cleans the user partitions of one metadata partition once, each as far as the rules allow.

    A failure of storage that concerns one user partition ends up in its report, and the others go on.

    :param works: on user partitions.
    :param context: what the run shares.
    :param on_refusal: gets what concerns the metadata partition as a whole.
    :param on_batch: called before the first batch and after each; it raises nothing.
    """

    def __init__(
        self,
        works: Sequence[UserPartitionWork],
        context: CleaningContext,
        on_refusal: Callable[[Refusal], object],
        on_batch: Callable[[], object] = lambda: None,
    ) -> None:
        self._on_refusal = on_refusal
        self._on_batch = on_batch
        self._trail = CleaningTrail()
        self._context = context
        self._works = [work for work in works if not work.stopped]
        self._throttled: str | None = None
        self._unanswered = 0
        self._objects = 0
        self.out_of_time: str | None = None
        """Why the run had no time for all batches, ``None`` where it had."""

    def clean(self) -> None:
        """
        Go through all batches.

        :raises StorageRootError: if the root is gone, or not the one that was listed first.
        :raises EventLogError: if log or cluster cannot be asked, or the log has lost records.
        :raises AuditError: if what is about to be deleted cannot be written down.
        """
        total = sum(len(work.eligibility.segments) for work in self._works)
        effects, gate = self._context.effects, self._context.gate
        self._on_batch()
        for batch in batches_of(self._works, self._context.limits.batch_segments):
            if (stopped := gate.why_stopped()) is not None:
                self._stop_all(stopped, STOPPED_ADVICE, RefusalKind.STOPPED)
                break
            self.out_of_time = gate.why_over()
            if (why := self._throttled or gate.why_closed() or self.out_of_time) is not None:
                self._stop_all(why)
                break
            began, objects = monotonic_clock(), self._objects
            self._clean(batch)
            logger.info(
                "%smetadata partition %d: %d of %s deleted, %s; %d of %s finished",
                self._context.effects.log_prefix,
                self._context.replay.metadata_partition,
                sum(work.segments for work in self._works),
                number_of(total, "segment"),
                human_bytes(sum(work.bytes for work in self._works)),
                sum(work.finished for work in self._works),
                number_of(len(self._works), "user partition"),
            )
            self._on_batch()
            # Behind the last batch, too: the next metadata partition begins at once, here or in another process.
            effects.rest(gate.rest_s(self._objects - objects, (monotonic_clock() - began) / 1000))

    def _stop_all(self, why: str, what_to_do: str = NEXT_RUN, kind: RefusalKind = RefusalKind.NEXT_RUN) -> None:
        """Leave everything that is not finished to the next run."""
        number = self._context.replay.metadata_partition
        for work in self._works:
            if not work.stopped and not work.finished:
                work.stop(Refusal(str(work.tip), why, what_to_do, kind, number, topic=work.tip.topic))

    def _clean(self, batch: Sequence[Share]) -> None:
        self._start_partitions([share.work for share in batch])
        self._delete_segments([share for share in batch if share.segments])
        self._finish_partitions([share.work for share in batch if share.is_last])

    def _look(self, works: Sequence[UserPartitionWork]) -> tuple[list[UserPartitionWork], ProvenLook]:
        """Look at the cluster again; return the work that may still go on, and the look that says so."""
        seen = self._context.look(work.history for work in works)
        for work in works:
            refusal = self._context.refusal(work.history, seen)
            if refusal is not None:
                work.stop(refusal)
        return [work for work in works if not work.stopped], seen.proof

    def _start_partitions(self, works: Sequence[UserPartitionWork]) -> None:
        waiting = [work for work in works if not work.stopped and not work.is_started]
        if not waiting:
            return
        undisturbed, proof = self._look(waiting)
        for work in undisturbed:
            work.begun = True
        events = self._events(undisturbed, RemotePartitionDeleteState.DELETE_PARTITION_STARTED)
        offsets = self._publish(undisturbed, events, proof)
        for work, offset in zip(undisturbed, offsets, strict=True):
            work.stopped = offset is None

    def _events(self, works: Sequence[UserPartitionWork], state: RemotePartitionDeleteState) -> list[WritableEvent]:
        return [RemotePartitionDeleteMetadata(work.tip, state, self._context.clock(), OWN_BROKER_ID) for work in works]

    def _delete_segments(self, shares: Sequence[Share]) -> None:
        works = [share.work for share in shares if not share.work.stopped]
        if not works:
            return
        _, proof = self._look(works)
        taken = [(share.work, share.segments) for share in shares if not share.work.stopped]
        for work, _ in taken:
            work.begun = True
        to_start = [(work, m) for work, segments in taken for m in work.current(segments) if m.state != _STARTED]
        self._publish([work for work, _ in to_start], [self._segment_event(m, _STARTED) for _, m in to_start], proof)
        # What was read back below the high watermark is durable, not what was acknowledged (I1).
        started = [
            (work, m) for work, segments in taken if not work.is_disturbed for m in work.current(segments, _STARTED)
        ]
        begun = [(work.history, m) for work, m in started]
        self._trail = CleaningTrail.begin(self._context.effects, self._context.replay.metadata_partition, begun)
        try:
            deletions = self._delete_and_finish(started, proof)
        except RlmmError:
            self._end_trail()
            raise
        self._end_trail()
        self._require_root([work for work, _, deletion in deletions if deletion.outcome is DeleteOutcome.UNKNOWN])

    def _end_trail(self) -> None:
        if (refusal := self._trail.end()) is not None:
            self._on_refusal(refusal)
        self._trail = CleaningTrail()

    def _delete_and_finish(
        self, started: Sequence[tuple[UserPartitionWork, RemoteLogSegmentMetadata]], proof: ProvenLook
    ) -> list[Deleted]:
        """Delete objects, and publish DELETE_SEGMENT_FINISHED for the segments that are gone; return what became of each."""
        deletions = self._delete(started)
        gone = [deleted for deleted in deletions if self._is_gone(*deleted)]
        try:
            offsets = self._publish(
                [work for work, _, _ in gone], [self._segment_event(m, _FINISHED) for _, m, _ in gone], proof
            )
        except RlmmError:
            # What became of the events is unknown, the objects are gone, and no later run will find them to count.
            for work, _, deletion in gone:
                work.count_objects(deletion)
            raise
        for offset, (work, metadata, deletion) in zip(offsets, gone, strict=True):
            if offset is not None:
                work.count_finished(metadata, offset, deletion)
                self._trail.note_finished(metadata.remote_log_segment_id.id, offset)
        return deletions

    def _segment_event(
        self, metadata: RemoteLogSegmentMetadata, state: RemoteLogSegmentState
    ) -> RemoteLogSegmentMetadataUpdate:
        return RemoteLogSegmentMetadataUpdate(
            metadata.remote_log_segment_id, self._context.clock(), metadata.custom_metadata, state, OWN_BROKER_ID
        )

    def _delete(self, started: Sequence[tuple[UserPartitionWork, RemoteLogSegmentMetadata]]) -> list[Deleted]:
        """Delete objects; where storage fails, each user partition is tried alone, to tell which one it fails for."""
        works = list(dict.fromkeys(work for work, _ in started))
        try:
            others = frozenset[str]().union(*(work.eligibility.others for work in works))
            report = self._context.effects.delete([metadata for _, metadata in started], others)
        except StorageRootError:
            raise
        except StorageError as e:
            if len(works) > 1:
                return [
                    found
                    for work in works
                    if self._throttled is None
                    for found in self._delete([pair for pair in started if pair[0] is work])
                ]
            self._stop_for_storage(works[0], e)
            return []
        self._unanswered = 0
        self._trail.note_deleted(report.segments)
        if report.throttled is not None:
            self._throttled = f"the store has throttled or not answered for too long: {report.throttled}"
        self._objects += sum(segment.objects_deleted for segment in report.segments)
        return [(work, metadata, deletion) for (work, metadata), deletion in zip(started, report.segments, strict=True)]

    def _require_root(self, works: Sequence[UserPartitionWork]) -> None:
        """Ask storage once more where it is not known what became of objects: a root that was taken away ends the run."""
        for work in dict.fromkeys(works):
            try:
                self._context.storage.list_log_segments(work.tip)
            except StorageRootError:
                raise
            except StorageError as e:
                logger.warning("%s: %s", work.tip, e)

    def _stop_for_storage(self, work: UserPartitionWork, error: StorageError) -> None:
        logger.warning("%s: %s", work.tip, error)
        work.stop(storage_refusal(work.tip, self._context.replay.metadata_partition, error))
        self._unanswered = self._unanswered + 1 if error.retriable else 0
        if self._unanswered >= _MOST_UNANSWERED:
            # To ask for each of the others would take as long as the store's retries, again and again.
            self._throttled = f"storage has not answered {number_of(self._unanswered, 'time')} in a row: {error}"
            self._stop_all(self._throttled)

    def _is_gone(self, work: UserPartitionWork, metadata: RemoteLogSegmentMetadata, deletion: SegmentDeletion) -> bool:
        """Tell whether a segment's objects are gone; else note what keeps it."""
        segment_id = metadata.remote_log_segment_id
        # What this run's listing had shown and its deletion did not find may lie in a folder that was renamed: the next run
        # decides, with a new look at the root. What was unseen from the start was decided upon before.
        unseen_before = segment_id.id not in work.eligibility.listed
        if deletion.outcome is DeleteOutcome.GONE or (deletion.outcome is DeleteOutcome.NEVER_SEEN and unseen_before):
            return True
        why = "; ".join(sorted(set(deletion.reasons.values()))) or deletion.outcome.value
        # A store that keeps what it was told to delete may do so for ever: a right is missing, a lock is in force.
        kept = deletion.outcome is DeleteOutcome.PRESENT and not deletion.throttled
        todo, kind = (KEPT_ADVICE, RefusalKind.STORAGE) if kept else (NEXT_RUN, RefusalKind.NEXT_RUN)
        work.leave(segment_id, f"objects {deletion.outcome}: {why}", todo, kind)
        return False

    def _finish_partitions(self, works: Sequence[UserPartitionWork]) -> None:
        # Listed first, read on then: what an object belongs to was in the log before the object was there.
        read_until = self._context.replay.end
        listed = self._listed([work for work in works if not work.stopped])
        works = list(listed)
        if not works:
            return
        self._context.effects.advance(self._context.replay)
        undisturbed, proof = self._look(works)
        ready = [work for work in undisturbed if self._may_finish(work, listed[work], read_until)]
        events = self._events(ready, RemotePartitionDeleteState.DELETE_PARTITION_FINISHED)
        offsets = self._publish(ready, events, proof, frozenset(work.tip for work in ready))
        for work, offset in zip(ready, offsets, strict=True):
            work.finished = offset is not None
        for work in works:
            logger.info(
                "%s%s: %s, %s, %s, %s deleted",
                self._context.effects.log_prefix,
                work.tip,
                work.outcome,
                number_of(work.segments, "segment"),
                number_of(work.objects, "object"),
                human_bytes(work.bytes),
            )

    def _listed(self, works: Sequence[UserPartitionWork]) -> dict[UserPartitionWork, frozenset[UUID]]:
        """Return the segments that storage lists now of each user partition; one that cannot be listed is stopped."""
        found: dict[UserPartitionWork, frozenset[UUID]] = {}
        for work, listed in ahead(
            self._look_for, self._begun(works), self._context.storage.listings_at_once, "rlmm look"
        ):
            if isinstance(listed, StorageError):
                self._stop_for_storage(work, listed)
            else:
                found[work] = listed
                self._unanswered = 0
        return {work: listed for work, listed in found.items() if not work.stopped}

    def _begun(self, works: Sequence[UserPartitionWork]) -> Iterator[UserPartitionWork]:
        for work in works:
            if not work.stopped:
                work.begun = True
                yield work

    def _look_for(self, work: UserPartitionWork) -> tuple[UserPartitionWork, frozenset[UUID] | StorageError]:
        """
        Return the segments that storage lists of a user partition, or why it lists none.

        :raises StorageRootError: that concerns all of them.
        """
        try:
            return work, frozenset(self._context.storage.list_log_segments(work.tip))
        except StorageRootError:
            raise
        except StorageError as e:
            return work, e

    def _may_finish(self, work: UserPartitionWork, listed: frozenset[UUID], read_until: int) -> bool:
        """Tell whether nothing stands against DELETE_PARTITION_FINISHED (I3, I18); else note what does."""
        refusal = self._context.unnamed(work.history, listed)
        if refusal is not None:
            work.stop(refusal)
            return False
        obstacle = work.history.obstacle_to_finish()
        allowed = self._context.limits.allowed_quarantine
        record = self._context.replay.first_quarantined(work.tip, allowed, read_until)
        if obstacle is None and record is not None:
            # It may announce a copy whose objects came after the listing.
            obstacle = f"{record} came while storage was listed"
        if obstacle is None and work.outcome_unknown:
            obstacle = "the outcome of an earlier record of this run is unknown"
        if obstacle is not None:
            work.leave(work.tip, f"not declared deleted: {obstacle}", NEXT_RUN)
        return obstacle is None

    def _publish(
        self,
        works: Sequence[UserPartitionWork],
        events: Sequence[WritableEvent],
        proof: ProvenLook,
        shown_whole: frozenset[TopicIdPartition] = frozenset(),
    ) -> list[int | None]:
        """Publish, read everything back, and return per event its offset, ``None`` where it was not acknowledged."""
        context = self._context
        belief = Belief(context.replay, proof, shown_whole)
        outcomes = context.effects.publish(events, belief)
        for work, event, outcome in zip(works, events, outcomes, strict=True):
            if not isinstance(outcome, Acked):
                work.leave(subject_of(event), f"{event.state.name} was not acknowledged: {outcome.reason}", NEXT_RUN)
                # A record of unknown outcome may still land: nothing may be declared finished before a later replay.
                work.outcome_unknown |= isinstance(outcome, Unknown)
        context.effects.advance(context.replay)
        return [outcome.offset if isinstance(outcome, Acked) else None for outcome in outcomes]
