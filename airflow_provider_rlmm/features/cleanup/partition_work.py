# SPDX-License-Identifier: Apache-2.0
"""One user partition in one run: what is to be done, what was done, what was left and why."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import RlmmError
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.core.storage.remote_storage import SegmentDeletion
from airflow_provider_rlmm.features.cleanup.eligibility import NEXT_RUN, Eligibility
from airflow_provider_rlmm.features.cleanup.reports import PartitionOutcome, UserPartitionReport


class UserPartitionWork:
    """
    The work on one user partition.

    :param history: its history, kept current by the run's replay.
    :param eligibility: what may be done.
    :param metadata_partition: where its events lie.
    """

    def __init__(self, history: UserPartitionHistory, eligibility: Eligibility, metadata_partition: int) -> None:
        self.history = history
        self.tip = history.topic_id_partition
        self.eligibility = eligibility
        self._metadata_partition = metadata_partition
        self.segments = self.segment_bytes = self.objects = self.bytes = 0
        self.stopped = eligibility.refused is not None or not (eligibility.segments or not history.unfinished())
        """Whether nothing more is done in this run."""
        self.begun = self.finished = self.outcome_unknown = False
        self._refused: list[Refusal] = []
        self._left: defaultdict[tuple[str, str, RefusalKind], list[str]] = defaultdict(list)
        for left in eligibility.left:
            self.leave(left.what, left.why, left.what_to_do, left.kind)

    def leave(self, what: object, why: str, what_to_do: str, kind: RefusalKind = RefusalKind.NEXT_RUN) -> None:
        """
        Note what stays; what stays for the same reason is told together.

        :param what: a segment, or the user partition.
        :param why: the reason.
        :param what_to_do: what a person may do about it.
        :param kind: kind of the reason.
        """
        self._left[why, what_to_do, kind].append(str(what))

    def stop(self, refusal: Refusal) -> None:
        """Do nothing more in this run."""
        self._refused.append(refusal)
        self.stopped = True

    @property
    def is_started(self) -> bool:
        """Whether DELETE_PARTITION_STARTED was read."""
        return self.history.delete_state == RemotePartitionDeleteState.DELETE_PARTITION_STARTED

    @property
    def is_disturbed(self) -> bool:
        """Whether another program has written about its segments since it was decided upon."""
        return self.history.last_foreign_offset != self.eligibility.foreign_offset

    def current(
        self, segments: Sequence[RemoteLogSegmentMetadata], state: RemoteLogSegmentState | None = None
    ) -> list[RemoteLogSegmentMetadata]:
        """
        Return segments as of the latest replay, without those that another run has finished.

        :param segments: as they were.
        :param state: only those in this state, ``None`` for all.
        """
        found = (self.history.cache.segment(m.remote_log_segment_id) for m in segments)
        return [m for m in found if m is not None and state in (None, m.state)]

    def count_objects(self, deletion: SegmentDeletion) -> None:
        """
        Count what was deleted of a segment.

        :param deletion: what became of it.
        """
        self.objects += deletion.objects_deleted
        self.bytes += deletion.bytes_deleted

    def count_finished(self, metadata: RemoteLogSegmentMetadata, offset: int, deletion: SegmentDeletion) -> None:
        """
        Count a segment, unless another run was first: the one whose event came first has finished it.

        :param metadata: which one.
        :param offset: of our DELETE_SEGMENT_FINISHED.
        :param deletion: what became of its objects.
        """
        if self.history.finished_at.get(metadata.remote_log_segment_id.id) in (offset, None):
            self.segments += 1
            self.segment_bytes += metadata.segment_size_in_bytes
            self.count_objects(deletion)

    @property
    def outcome(self) -> PartitionOutcome:
        """How it ended."""
        if self.finished:
            return PartitionOutcome.FINISHED
        return PartitionOutcome.INCOMPLETE if self.begun else PartitionOutcome.REFUSED

    def report(self, interrupted_by: RlmmError | None = None) -> UserPartitionReport:
        """
        Say what was done, and what was left and why.

        :param interrupted_by: what ended the run, where something did.
        """
        segments_left = len(self.history.unfinished())
        if self.eligibility.refused is not None:
            return UserPartitionReport.refused(self.tip, segments_left, self.eligibility.refused)
        if interrupted_by is not None and not self.finished:
            why = f"the run was ended by {type(interrupted_by).__name__}: {interrupted_by}"
            self.leave(self.tip, why, NEXT_RUN)
        return UserPartitionReport(
            topic=self.tip.topic,
            topic_id=kafka_uuid_str(self.tip.topic_id),
            partition=self.tip.partition,
            outcome=self.outcome,
            segments_deleted=self.segments,
            segments_left=segments_left,
            objects_deleted=self.objects,
            bytes_deleted=self.bytes,
            refusals=self.refusals(),
        )

    def refusals(self) -> tuple[Refusal, ...]:
        """Return what was refused or left, and why; what was refused from the start alone."""
        if self.eligibility.refused is not None:
            return (self.eligibility.refused,)
        number, topic = self._metadata_partition, self.tip.topic
        left = (
            Refusal(_together(segments), why, todo, kind, number, topic=topic)
            for (why, todo, kind), segments in self._left.items()
        )
        return (*self._refused, *left)


def _together(segments: Sequence[str]) -> str:
    """Name several segments in a line that no other set of segments ever has: a person may acknowledge it."""
    if len(segments) == 1:
        return segments[0]
    set_of = hashlib.sha256("\n".join(sorted(segments)).encode()).hexdigest()[:16]
    return f"{number_of(len(segments), 'segment')}, the first is {min(segments)} (set {set_of})"
