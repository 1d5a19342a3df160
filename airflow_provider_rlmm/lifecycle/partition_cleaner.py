# SPDX-License-Identifier: Apache-2.0
"""The cleaning of one user partition, from its marker to DELETE_PARTITION_FINISHED (DESIGN: I1 to I8)."""

from __future__ import annotations

import hashlib
import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from uuid import UUID

from airflow_provider_rlmm.clock import Clock
from airflow_provider_rlmm.errors import RlmmError, StorageError, StorageRootError
from airflow_provider_rlmm.event_log.protocol import Acked, ClusterTopics, MetadataEventLog, Unknown
from airflow_provider_rlmm.event_log.write_guard import WritableEvent
from airflow_provider_rlmm.lifecycle.cluster_look import look
from airflow_provider_rlmm.lifecycle.effects import Effects
from airflow_provider_rlmm.lifecycle.replay import MetadataPartitionReplay
from airflow_provider_rlmm.lifecycle.reports import PartitionOutcome, UserPartitionReport
from airflow_provider_rlmm.lifecycle.root_proof import ProvenRoot
from airflow_provider_rlmm.lifecycle.settling import refusal_of
from airflow_provider_rlmm.lifecycle.view import WorkState
from airflow_provider_rlmm.metadata.history import UserPartitionHistory
from airflow_provider_rlmm.metadata.records import (
    OWN_BROKER_ID,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    kafka_uuid_str,
)
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.policy.absence import Observation
from airflow_provider_rlmm.policy.guards import CleanerLimits
from airflow_provider_rlmm.policy.hold import HoldSource, nothing_held
from airflow_provider_rlmm.policy.plan import Refusal, RefusalKind
from airflow_provider_rlmm.policy.unseen import SETTLE_MISSING, UnseenSegment, UnseenVerdict, decide_unseen
from airflow_provider_rlmm.policy.wholeness import incompleteness
from airflow_provider_rlmm.storage.remote_storage import (
    DeleteOutcome,
    RemoteStorageManager,
    SegmentDeletion,
)

logger = logging.getLogger(__name__)

NEXT_RUN = "nothing: the next run goes on from here"
KEPT_ADVICE = "see the reason: the right to delete may be missing, or a lock be in force; the next run tries again"
STORAGE_ADVICE = "see the reason; the other partitions of this run went on without this one"


@dataclass(slots=True)
class CleaningContext:
    """
    What the user partitions of one metadata partition share during a run.

    :param log: the log that is read and written.
    :param topics: the cluster's topics.
    :param state: replay and latest look, as the write guard sees them.
    :param effects: everything that changes the world.
    :param storage: remote storage, for listings.
    :param limits: limits of destructive work.
    :param root: what is known about the storage root.
    :param clock: time.
    :param hold: what is never touched, asked before every batch.
    :param missing: segments of this run that have no object though their copy was finished.
    """

    log: MetadataEventLog
    topics: ClusterTopics
    state: WorkState[MetadataPartitionReplay]
    effects: Effects
    storage: RemoteStorageManager
    limits: CleanerLimits
    root: ProvenRoot
    clock: Clock
    hold: HoldSource = nothing_held
    missing: int = 0

    def observe(self, topic_id: UUID) -> Observation:
        """
        Look at the cluster again and remember what the write guard must know.

        :param topic_id: the id in question.
        """
        seen = look(self.topics, self.log, {topic_id: self.state.replay.names_of(topic_id)})
        self.state.proof = seen.proof
        return seen.observations[topic_id]


@dataclass(slots=True)
class _Progress:
    segments: int = 0
    objects: int = 0
    bytes: int = 0
    begun: bool = False
    finished: bool = False
    outcome_unknown: bool = False
    left: dict[tuple[str, str, RefusalKind], list[str]] = field(default_factory=lambda: defaultdict(list))
    refused: list[Refusal] = field(default_factory=list)

    def leave(self, what: object, why: str, what_to_do: str, kind: RefusalKind = RefusalKind.NEXT_RUN) -> None:
        self.left[why, what_to_do, kind].append(str(what))

    def refuse(self, refusal: Refusal) -> None:
        self.refused.append(refusal)

    def count(self, deletion: SegmentDeletion) -> None:
        self.objects += deletion.objects_deleted
        self.bytes += deletion.bytes_deleted

    def refusals(self, topic: str, metadata_partition: int) -> tuple[Refusal, ...]:
        return (
            *self.refused,
            *(
                Refusal(_together(whats), why, todo, kind, metadata_partition, topic=topic)
                for (why, todo, kind), whats in self.left.items()
            ),
        )  # fmt: skip


def _together(segments: Sequence[str]) -> str:
    """Name several segments in a line that no other set of segments ever has: a person may acknowledge it."""
    if len(segments) == 1:
        return segments[0]
    set_of = hashlib.sha256("\n".join(sorted(segments)).encode()).hexdigest()[:16]
    return f"{len(segments)} segments, the first is {min(segments)} (set {set_of})"


class UserPartitionCleaner:
    """
    Cleans one user partition once.

    :param history: its history, kept current by the context's replay.
    :param context: what the run shares.
    :param planned: segments that may be deleted.
    """

    def __init__(self, history: UserPartitionHistory, context: CleaningContext, planned: frozenset[UUID]) -> None:
        self._history = history
        self._context = context
        self._planned = planned
        self._tip = history.topic_id_partition
        self._foreign_offset = history.last_foreign_offset
        self._refused: Refusal | None = None
        self._listed: frozenset[UUID] = frozenset()
        self._eligible: list[RemoteLogSegmentMetadata] | None = None
        self._progress = _Progress()

    def prepare(self) -> None:
        """
        Look at cluster and storage and decide what may be deleted; nothing is changed.

        :raises StorageRootError: if the root is gone, or more expected segments are missing than the limit allows.
        """
        self._refused = self._refusal()
        if self._refused is not None:
            return
        try:
            self._listed = frozenset(self._context.storage.list_log_segments(self._tip))
        except StorageRootError:
            raise
        except StorageError as e:
            self._leave_to_storage(e)
            return
        self._refused = self._incompleteness(self._listed)
        if self._refused is None:
            self._eligible = self._find_eligible()

    def _incompleteness(self, listed: Collection[UUID]) -> Refusal | None:
        """Return why this partition must be left alone because not all that was said of it can be seen."""
        state = self._context.state
        doubt = state.replay.doubt_about(self._tip, state.allowed_quarantine)
        if doubt is None:
            return None
        return incompleteness(self._history, listed, doubt, root_shown=self._context.root.shown)

    def clean(self) -> None:
        """Go as far as the rules allow; a failure of storage that concerns this partition alone ends up in the report."""
        if self._refused is not None:
            logger.warning("%s refused: %s", self._tip, self._refused.why)
            return
        p = self._progress
        p.finished = self._go_through()
        logger.info(
            "%s%s: %s, %d segments, %d objects, %d bytes deleted",
            self._context.effects.log_prefix,
            self._tip,
            self._outcome(),
            p.segments,
            p.objects,
            p.bytes,
        )

    def _outcome(self) -> PartitionOutcome:
        if self._progress.finished:
            return PartitionOutcome.FINISHED
        return PartitionOutcome.INCOMPLETE if self._progress.begun else PartitionOutcome.REFUSED

    def report(self, interrupted_by: RlmmError | None = None) -> UserPartitionReport:
        """
        Say what was done, and what was left and why.

        :param interrupted_by: what ended the run, where something did.
        """
        if self._refused is not None:
            return UserPartitionReport.refused(self._tip, len(self._history.unfinished()), self._refused)
        p = self._progress
        if interrupted_by is not None and not p.finished:
            p.leave(self._tip, f"the run was ended by {type(interrupted_by).__name__}: {interrupted_by}", NEXT_RUN)
        return UserPartitionReport(
            topic=self._tip.topic,
            topic_id=kafka_uuid_str(self._tip.topic_id),
            partition=self._tip.partition,
            outcome=self._outcome(),
            segments_deleted=p.segments,
            segments_left=len(self._history.unfinished()),
            objects_deleted=p.objects,
            bytes_deleted=p.bytes,
            refusals=p.refusals(self._tip.topic, self._context.state.replay.metadata_partition),
        )

    def _go_through(self) -> bool:
        """Do all steps; tell whether the partition is finished."""
        if self._eligible is None or not self._undisturbed():
            return False
        if not self._eligible and self._history.unfinished():
            return False
        self._progress.begun = True
        try:
            return self._start() and self._delete_segments(self._eligible) and self._finish()
        except StorageRootError:
            raise
        except StorageError as e:
            self._leave_to_storage(e)
            return False

    def _leave_to_storage(self, error: StorageError) -> None:
        logger.warning("%s: %s", self._tip, error)
        todo, kind = (NEXT_RUN, RefusalKind.NEXT_RUN) if error.retriable else (STORAGE_ADVICE, RefusalKind.STORAGE)
        self._progress.leave(self._tip, str(error), todo, kind)

    def _refusal(self) -> Refusal | None:
        """Return why nothing may be done here (I7 and the rules of absence), ``None`` where it may."""
        observation = self._context.observe(self._tip.topic_id)
        held = self._context.hold().refusal_of(self._tip, self._context.state.replay.names_of(self._tip.topic_id))
        return held or refusal_of(self._history, observation, self._context.clock(), self._context.limits)

    def _publish(self, events: Sequence[WritableEvent]) -> list[int | None]:
        """Publish, read everything back, and return per event its offset, ``None`` where it was not acknowledged."""
        outcomes = self._context.effects.publish(events, self._context.state)
        for event, outcome in zip(events, outcomes, strict=True):
            if not isinstance(outcome, Acked):
                subject = (
                    event.topic_id_partition
                    if isinstance(event, RemotePartitionDeleteMetadata)
                    else event.remote_log_segment_id
                )
                self._progress.leave(subject, f"{event.state.name} was not acknowledged: {outcome.reason}", NEXT_RUN)
                # A record of unknown outcome may still land: nothing may be declared finished before a later replay.
                self._progress.outcome_unknown |= isinstance(outcome, Unknown)
        self._context.effects.advance(self._context.state.replay)
        return [o.offset if isinstance(o, Acked) else None for o in outcomes]

    def _partition_event(self, state: RemotePartitionDeleteState) -> bool:
        event = RemotePartitionDeleteMetadata(self._tip, state, self._context.clock(), OWN_BROKER_ID)
        return self._publish([event]) != [None]

    def _start(self) -> bool:
        if self._history.delete_state == RemotePartitionDeleteState.DELETE_PARTITION_STARTED:
            return True
        return self._partition_event(RemotePartitionDeleteState.DELETE_PARTITION_STARTED)

    def _delete_segments(self, eligible: Sequence[RemoteLogSegmentMetadata]) -> bool:
        """Delete all that may be deleted; tell whether the work went to its end undisturbed."""
        # From the end: a listing begins at the lowest key of its batch, so it never walks over what is still to come.
        for batch in _batches(eligible[::-1], self._context.limits.batch_segments):
            if not self._undisturbed():
                return False
            self._delete_batch(batch)
            logger.info(
                "%s%s: %d of %d segments deleted, %d bytes",
                self._context.effects.log_prefix,
                self._tip,
                self._progress.segments,
                len(eligible),
                self._progress.bytes,
            )
        return True

    def _undisturbed(self) -> bool:
        """Tell whether what allowed the cleaning to begin still holds: absence above all."""
        refusal = self._refusal()
        if refusal is not None:
            self._progress.refuse(refusal)
        return refusal is None

    def _find_eligible(self) -> list[RemoteLogSegmentMetadata]:
        """Return the planned segments that may be started, by start offset (I2: never seen is not gone)."""
        eligible = []
        for metadata in self._history.unfinished():
            segment_id = metadata.remote_log_segment_id
            if segment_id.id not in self._planned:
                self._progress.leave(segment_id, "not in the plan", "make a new plan")
            elif segment_id.id in self._listed or self._may_finish_unseen(metadata):
                eligible.append(metadata)
        root = self._context.root.check
        tolerated = self._context.limits.max_missing_segments if root.verified else 0
        if self._context.missing > tolerated:
            raise StorageRootError(
                f"{self._context.missing} segments, {self._tip} among them, have no object in storage though their "
                f"copy was finished ({root.reason}): nothing more is deleted. "
                + MISSING_ADVICE.format(override=SETTLE_MISSING)
            )
        return eligible

    def _may_finish_unseen(self, metadata: RemoteLogSegmentMetadata) -> bool:
        """Tell whether a segment may be finished of which this run's listing showed no object; else say why not."""
        segment_id = metadata.remote_log_segment_id
        unseen = as_unseen(self._history, metadata, self._context.root, self._context.storage)
        decision = decide_unseen(unseen, self._context.limits.overrides)
        if decision.verdict is UnseenVerdict.MAY_FINISH:
            return True
        self._context.missing += decision.verdict is UnseenVerdict.MISSING
        why = decision.why if decision.override else f"{decision.why}: {self._context.root.check.reason}"
        advice = MISSING_ADVICE.format(override=decision.override or SETTLE_MISSING)
        self._progress.leave(segment_id, why, advice, RefusalKind.MISSING_OBJECTS)
        return False

    def _current(self, batch: Sequence[RemoteLogSegmentMetadata]) -> list[RemoteLogSegmentMetadata]:
        """Return the segments of a batch as of the latest replay, without those that another run has finished."""
        found = (self._history.cache.segment(m.remote_log_segment_id) for m in batch)
        return [m for m in found if m is not None]

    def _delete_batch(self, planned: Sequence[RemoteLogSegmentMetadata]) -> None:
        batch = self._current(planned)
        to_start = [m for m in batch if m.state != RemoteLogSegmentState.DELETE_SEGMENT_STARTED]
        self._publish([self._segment_event(m, RemoteLogSegmentState.DELETE_SEGMENT_STARTED) for m in to_start])
        if self._history.last_foreign_offset != self._foreign_offset:
            return
        # What was read back below the high watermark is durable, whatever the acknowledgement said (I1).
        started = [m for m in self._current(batch) if m.state == RemoteLogSegmentState.DELETE_SEGMENT_STARTED]
        deletions = self._context.effects.delete(started).segments
        gone: list[tuple[RemoteLogSegmentMetadata, SegmentDeletion]] = []
        for metadata, deletion in zip(started, deletions, strict=True):
            segment_id = metadata.remote_log_segment_id
            if self._is_gone(deletion):
                gone.append((metadata, deletion))
            else:
                why = "; ".join(sorted(set(deletion.reasons.values()))) or deletion.outcome.value
                # A store that keeps what it was told to delete may do so for ever: a right is missing, a lock is in force.
                kept = deletion.outcome is DeleteOutcome.PRESENT
                todo, kind = (KEPT_ADVICE, RefusalKind.STORAGE) if kept else (NEXT_RUN, RefusalKind.NEXT_RUN)
                self._progress.leave(segment_id, f"objects {deletion.outcome}: {why}", todo, kind)
        finished = [self._segment_event(m, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED) for m, _ in gone]
        try:
            offsets = self._publish(finished)
        except RlmmError:
            # What became of the events is unknown, the objects are gone, and no later run will find them to count.
            for _, deletion in gone:
                self._progress.count(deletion)
            raise
        for offset, (metadata, deletion) in zip(offsets, gone, strict=True):
            # Another run may have finished it at the same time: the one whose event came first has done it.
            if offset is not None and self._finished_at(metadata) in (offset, None):
                self._progress.segments += 1
                self._progress.count(deletion)

    def _is_gone(self, deletion: SegmentDeletion) -> bool:
        if deletion.outcome is DeleteOutcome.NEVER_SEEN:
            # What this run's listing had shown and its deletion did not find may lie in a folder that was renamed: the next
            # run decides, with a new look at the root. What was unseen from the start was decided upon before.
            return deletion.remote_log_segment_id.id not in self._listed
        return deletion.outcome is DeleteOutcome.GONE

    def _finished_at(self, metadata: RemoteLogSegmentMetadata) -> int | None:
        return self._history.finished_at.get(metadata.remote_log_segment_id.id)

    def _segment_event(
        self, metadata: RemoteLogSegmentMetadata, state: RemoteLogSegmentState
    ) -> RemoteLogSegmentMetadataUpdate:
        return RemoteLogSegmentMetadataUpdate(
            metadata.remote_log_segment_id, self._context.clock(), metadata.custom_metadata, state, OWN_BROKER_ID
        )

    def _finish(self) -> bool:
        self._context.effects.advance(self._context.state.replay)
        if not self._undisturbed():
            return False
        obstacle = self._history.obstacle_to_finish()
        if obstacle is None and self._progress.outcome_unknown:
            obstacle = "the outcome of an earlier record of this run is unknown"
        if obstacle is None and not self._is_whole():
            return False
        if obstacle is not None:
            self._progress.leave(self._tip, f"not declared deleted: {obstacle}", NEXT_RUN)
            return False
        return self._partition_event(RemotePartitionDeleteState.DELETE_PARTITION_FINISHED)

    def _is_whole(self) -> bool:
        """Tell whether the log still names all that storage holds; asked of storage only where there is a doubt."""
        state = self._context.state
        if state.replay.doubt_about(self._tip, state.allowed_quarantine) is None:
            return True
        refusal = self._incompleteness(self._context.storage.list_log_segments(self._tip))
        if refusal is not None:
            self._progress.refuse(refusal)
            return False
        state.shown_whole |= {self._tip}
        return True


MISSING_ADVICE = (
    "check storage URI, layout and mount; if the objects are really lost, the override '{override}' settles them"
)


def _batches(segments: Sequence[RemoteLogSegmentMetadata], size: int) -> Iterator[list[RemoteLogSegmentMetadata]]:
    remaining = iter(segments)
    while batch := list(islice(remaining, size)):
        yield batch


def as_unseen(
    history: UserPartitionHistory, metadata: RemoteLogSegmentMetadata, root: ProvenRoot, storage: RemoteStorageManager
) -> UnseenSegment:
    """
    Put together what is known of a segment of which no listing of this run showed an object.

    :param history: of its user partition.
    :param metadata: the segment.
    :param root: what is known about the storage root.
    :param storage: knows the layout.
    """
    segment_id = metadata.remote_log_segment_id.id
    ours = history.started_by.get(segment_id) == OWN_BROKER_ID
    return UnseenSegment(
        state=metadata.state,
        was_copied=segment_id in history.copied,
        places_proven=root.places_proven(storage, metadata),
        only_place=len(storage.layout.places) == 1,
        root_is_fresh=root.is_fresh(storage, metadata),
        started_by_us=ours and root.is_recorded(storage, metadata),
        places_shown=root.places_shown(storage, metadata),
    )
