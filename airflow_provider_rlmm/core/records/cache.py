# SPDX-License-Identifier: Apache-2.0
"""
The segments of one user partition, as a broker's cache would hold them after the same events.

Source: Kafka 4.3's ``RemoteLogMetadataCache`` and ``RemoteLogLeaderEpochState``, oddities included: the highest
offset of a leader epoch outlives its segments, and a segment whose place another one took without superseding it is
listed for the partition but no longer for its epoch.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from airflow_provider_rlmm.core.base.errors import InvalidStateTransitionError, MetadataError
from airflow_provider_rlmm.core.records.outcomes import EventFate
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState

__all__ = ["RemoteLogMetadataCache"]


@dataclass(slots=True)
class LeaderEpochState:
    """The segments of one leader epoch (Kafka: ``RemoteLogLeaderEpochState``)."""

    # segments that serve reads, by the offset at which the epoch starts in them
    referenced: dict[int, RemoteLogSegmentId] = field(default_factory=dict)
    # segments being copied or deleted, and those that others superseded; in order of arrival
    unreferenced: dict[RemoteLogSegmentId, None] = field(default_factory=dict)
    highest_offset: int | None = None  # largest offset that was ever copied, inclusive; ``None`` where none was
    _offsets: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._offsets = sorted(self.referenced)

    def copy(self) -> LeaderEpochState:
        """Return an independent copy."""
        return LeaderEpochState(dict(self.referenced), dict(self.unreferenced), self.highest_offset)

    def reference(self, start_offset: int, segment_id: RemoteLogSegmentId, end_offset: int) -> None:
        """Let a copied segment serve reads of the epoch, which has these offsets in it; the end is inclusive."""
        if self.highest_offset is None or self.highest_offset <= end_offset:
            # A new leader may copy again what the old one had copied: it supersedes all that it covers.
            while self._offsets and self._offsets[-1] >= start_offset:
                self.unreferenced[self.referenced.pop(self._offsets.pop())] = None
            self.highest_offset = end_offset
        if start_offset not in self.referenced:
            bisect.insort(self._offsets, start_offset)
        self.referenced[start_offset] = segment_id
        self.unreferenced.pop(segment_id, None)

    def unreference(self, start_offset: int, segment_id: RemoteLogSegmentId) -> None:
        """Take a segment that is being deleted, and in which the epoch starts there, from those that serve reads."""
        if self.referenced.get(start_offset) == segment_id:
            del self.referenced[start_offset]
            del self._offsets[bisect.bisect_left(self._offsets, start_offset)]
        self.unreferenced[segment_id] = None

    def lists(self, start_offset: int, segment_id: RemoteLogSegmentId) -> bool:
        """Tell whether the epoch, which starts there in a segment, lists it; another one may have taken its place."""
        return self.referenced.get(start_offset) == segment_id or segment_id in self.unreferenced

    def floor(self, offset: int) -> RemoteLogSegmentId | None:
        """Return the segment with the largest start that is not above an offset."""
        index = bisect.bisect_right(self._offsets, offset)
        return self.referenced[self._offsets[index - 1]] if index else None

    def segment_ids(self) -> Iterator[RemoteLogSegmentId]:
        """Yield all segments: first those that serve reads, by offset."""
        for offset in self._offsets:
            yield self.referenced[offset]
        yield from self.unreferenced


class RemoteLogMetadataCache:
    """
    All segments of one user partition that are not ``DELETE_SEGMENT_FINISHED``.

    :param segments: the segments to begin with.
    :param leader_epochs: their leader epochs.
    """

    def __init__(
        self,
        segments: Iterable[RemoteLogSegmentMetadata] = (),
        leader_epochs: dict[int, LeaderEpochState] | None = None,
    ) -> None:
        self._segments = {segment.remote_log_segment_id: segment for segment in segments}
        self.leader_epochs = leader_epochs if leader_epochs is not None else {}

    def copy(self) -> RemoteLogMetadataCache:
        """Return an independent copy."""
        epochs = {leader_epoch: state.copy() for leader_epoch, state in self.leader_epochs.items()}
        return RemoteLogMetadataCache(self._segments.values(), epochs)

    def add_copy_in_progress_segment(self, metadata: RemoteLogSegmentMetadata) -> EventFate:
        """
        Apply the first event of a segment; it does not serve reads before it is ``COPY_SEGMENT_FINISHED``.

        :param metadata: the segment.
        :return: whether the event was applied, or why it was dropped.
        :raises InvalidStateTransitionError: if its state is another than ``COPY_SEGMENT_STARTED``; a broker's
            consumer ends.
        """
        segment_id = metadata.remote_log_segment_id
        if metadata.state is not RemoteLogSegmentState.COPY_SEGMENT_STARTED:
            raise InvalidStateTransitionError(f"first event of {segment_id} has state {metadata.state.name}")
        existing = self._segments.get(segment_id)
        if not RemoteLogSegmentState.is_valid_transition(existing.state if existing else None, metadata.state):
            return EventFate.DROPPED_INVALID_TRANSITION
        for leader_epoch, _ in metadata.segment_leader_epochs:
            self._leader_epoch(leader_epoch).unreferenced[segment_id] = None
        self._segments[segment_id] = metadata
        return EventFate.APPLIED

    def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> EventFate:
        """
        Apply a later event of a segment.

        :param update: the event.
        :return: whether it was applied, or why it was dropped.
        :raises InvalidStateTransitionError: if it sets a segment that is being copied to ``COPY_SEGMENT_STARTED``
            again; a broker's consumer ends. Any other segment's is dropped.
        """
        segment_id = update.remote_log_segment_id
        existing = self._segments.get(segment_id)
        if existing is None:
            return EventFate.DROPPED_UNKNOWN_SEGMENT
        if not RemoteLogSegmentState.is_valid_transition(existing.state, update.state):
            return EventFate.DROPPED_INVALID_TRANSITION
        if update.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED:
            raise InvalidStateTransitionError(f"an update sets {segment_id} to COPY_SEGMENT_STARTED")
        metadata = existing.with_update(update)
        for leader_epoch, start_offset in metadata.segment_leader_epochs:
            state = self._leader_epoch(leader_epoch)
            if update.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
                state.reference(start_offset, segment_id, end_of_epoch(metadata, leader_epoch))
            elif update.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
                state.unreference(start_offset, segment_id)
            else:
                state.unreferenced.pop(segment_id, None)
        if update.state is RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
            del self._segments[segment_id]
        else:
            self._segments[segment_id] = metadata
        return EventFate.APPLIED

    def segment(self, segment_id: RemoteLogSegmentId) -> RemoteLogSegmentMetadata | None:
        """
        Return a segment in any state but ``DELETE_SEGMENT_FINISHED``.

        :param segment_id: its id.
        """
        return self._segments.get(segment_id)

    def in_order_of_arrival(self) -> list[RemoteLogSegmentMetadata]:
        """Return the segments in any state but ``DELETE_SEGMENT_FINISHED``, in the order of their first events."""
        return list(self._segments.values())

    def remote_log_segment_metadata(self, leader_epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """
        Return the segment that serves reads of an offset, ``None`` where there is none.

        :param leader_epoch: the leader epoch that the offset was written in.
        :param offset: the offset.
        """
        state = self.leader_epochs.get(leader_epoch)
        segment_id = state.floor(offset) if state else None
        metadata = self._segments.get(segment_id) if segment_id else None
        if metadata is None or offset > end_of_epoch(metadata, leader_epoch):
            return None
        return metadata

    def highest_offset_for_epoch(self, leader_epoch: int) -> int | None:
        """
        Return the largest offset of an epoch that was ever copied, inclusive; it outlives its segment.

        :param leader_epoch: the leader epoch.
        """
        state = self.leader_epochs.get(leader_epoch)
        return state.highest_offset if state else None

    def next_segment_with_txn_index(self, leader_epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """
        Return the first segment from an offset on, without a gap, that has aborted transactions; ``None`` where none has.

        :param leader_epoch: the leader epoch that the offset was written in.
        :param offset: the offset.
        """
        seen: set[RemoteLogSegmentId] = set()
        metadata = self.remote_log_segment_metadata(leader_epoch, offset)
        while metadata is not None and metadata.txn_idx_empty:
            if metadata.remote_log_segment_id in seen:
                # Leader epochs that begin below all offsets lead back to where we were; Kafka never returns from there.
                return None
            seen.add(metadata.remote_log_segment_id)
            metadata = self.remote_log_segment_metadata(leader_epoch, metadata.end_offset + 1)
        return metadata

    def list_remote_log_segments(self, leader_epoch: int | None = None) -> list[RemoteLogSegmentMetadata]:
        """
        Return the segments in any state but ``DELETE_SEGMENT_FINISHED``, by start offset.

        :param leader_epoch: only those of this leader epoch; by where it starts in them, if all of them serve reads: the
            order of ``RemoteLogLeaderEpochState``, which decides what an expiration task meets first.
        :raises MetadataError: if a segment was announced twice, with different epochs, and then deleted: Kafka cannot
            list the epoch that only the first announcement had either.
        """
        if leader_epoch is None:
            return _by_start_offset(self._segments.values())
        state = self.leader_epochs.get(leader_epoch, LeaderEpochState())
        segments = [self._known(segment_id, leader_epoch) for segment_id in state.segment_ids()]
        return _by_start_offset(segments) if state.unreferenced else segments

    def _known(self, segment_id: RemoteLogSegmentId, leader_epoch: int) -> RemoteLogSegmentMetadata:
        try:
            return self._segments[segment_id]
        except KeyError:
            raise MetadataError(f"leader epoch {leader_epoch} still refers to {segment_id}, which is deleted") from None

    def _leader_epoch(self, leader_epoch: int) -> LeaderEpochState:
        return self.leader_epochs.setdefault(leader_epoch, LeaderEpochState())


def _by_start_offset(segments: Iterable[RemoteLogSegmentMetadata]) -> list[RemoteLogSegmentMetadata]:
    return sorted(segments, key=lambda segment: segment.start_offset)


def end_of_epoch(metadata: RemoteLogSegmentMetadata, leader_epoch: int) -> int:
    """
    Return the last offset of an epoch within a segment: the next epoch begins behind it, or the segment ends.

    :param metadata: the segment.
    :param leader_epoch: one of its leader epochs.
    """
    for later_epoch, start_offset in metadata.segment_leader_epochs:
        if later_epoch > leader_epoch:
            # Java's arithmetic wraps around, and nothing checks the start offsets of leader epochs.
            return start_offset - 1 if start_offset > -(1 << 63) else (1 << 63) - 1
    return metadata.end_offset
