# SPDX-License-Identifier: Apache-2.0
"""
Which remote segments of one living user partition its leader deletes in the next pass of its expiration task, and why.

The source of each rule is Kafka 4.3.1's ``RemoteLogManager.RLMExpirationTask``; 4.4.0's is the same:

* :func:`first_pass` is ``cleanupExpiredRemoteLogSegments``: epoch by epoch over the leader's lineage, within an epoch by
  start offset, up to the first segment that the leader keeps; then what lies below the lineage, which the pass itself has
  cut by then: what time and size take moves the log start offset, and with it the leader's earliest epoch, before that;
* each segment's reason is ``RemoteLogRetentionHandler``'s, time is ``buildRetentionTimeData``'s, the bytes over the limit are
  ``buildRetentionSizeData``'s;
* ``isRemoteSegmentWithinLeaderEpochs`` is in :mod:`airflow_provider_rlmm.core.segments.lineage`. What
  ``buildFilteredLeaderEpochMap`` leaves out, epochs without a record, no :class:`LeaderEpochCheckpoint` has.

It is the pass of a leader that is new: an old one may take segments of foreign lineages for its own (``isAllSegmentsValid``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby
from typing import Final

from airflow_provider_rlmm.core.plans.plan import Reason
from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint, is_remote_segment_within_leader_epochs

__all__ = ["ExpirationPass", "ExpiredSegment", "KeptSegment", "LeaderView", "Standing", "first_pass", "known_up_to"]

_MOVE_THE_LOG_START: Final = (Reason.RETENTION_MS, Reason.RETENTION_BYTES)
"""What goes for these is no excess any more, and the log begins behind it before anything is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderView:
    """
    What the leader of a user partition knows when its expiration task begins.

    :param cache: the segments of the partition.
    :param leader_epochs: its lineage. What lies below the log start offset is cut off first, as the leader does.
    :param log_start_offset: inclusive.
    :param log_end_offset: exclusive.
    :param retention_ms: ``retention.ms``; negative means unlimited.
    :param retention_bytes: ``retention.bytes``; negative means unlimited.
    :param now_ms: the time of the pass, ms since the epoch.
    :param only_local_bytes: bytes of the log that are not in remote storage yet. No client can ask for them: without them
        RETENTION_BYTES takes less, never more.
    :param being_copied: the segments that the leader copies at this moment; its walk ends at the first of them.
    :param undecided: segments of which it cannot be told whether they are of the lineage, see :func:`known_up_to`. The walk
        ends at the first of them, and their bytes do not count: what is found then goes in any case.
    :param known_end: the last offset up to which ``leader_epochs`` tells the lineage; ``None`` where it tells all of it.
    """

    cache: RemoteLogMetadataCache
    leader_epochs: LeaderEpochCheckpoint
    log_start_offset: int
    log_end_offset: int
    retention_ms: int
    retention_bytes: int
    now_ms: int
    only_local_bytes: int = 0
    being_copied: frozenset[RemoteLogSegmentId] = frozenset()
    undecided: frozenset[RemoteLogSegmentId] = frozenset()
    known_end: int | None = None


class Standing(Enum):
    """What a segment that the pass leaves is to the leader."""

    VALID = "VALID"  # of the leader's lineage, or begun to be deleted: it goes once the walk gets to it
    FOREIGN = "FOREIGN"  # of another lineage: it goes once the log start offset, or the earliest epoch, is past it
    UNDECIDED = "UNDECIDED"  # it cannot be told whether it is of the leader's lineage
    LEAKED = "LEAKED"  # listed for none of its epochs: no leader ever finds it


@dataclass(frozen=True, slots=True)
class ExpiredSegment:
    """
    A segment that the leader deletes in this pass.

    :param segment: the segment.
    :param reason: why.
    :param exact: whether it goes for certain; false where Kafka walks segments with one start offset in an order that is
        not known, and the order decides.
    """

    segment: RemoteLogSegmentMetadata
    reason: Reason
    exact: bool


@dataclass(frozen=True, slots=True)
class KeptSegment:
    """
    A segment that the leader leaves in this pass.

    :param segment: the segment.
    :param standing: what it is to the leader.
    :param due_ms: the first pass behind this time deletes it, ms since the epoch, if no other limit does before:
        ``retention.ms`` has reached it and every segment that the walk meets before it. ``None`` where time never does.
    """

    segment: RemoteLogSegmentMetadata
    standing: Standing
    due_ms: int | None


@dataclass(frozen=True, slots=True)
class ExpirationPass:
    """
    What one pass does.

    :param expired: the segments that go, in the order in which the leader deletes them.
    :param kept: the others, in the order of the walk; those that it never meets come last, by start offset.
    :param exact: whether nothing else goes for certain.
    :param outruns_lineage: whether something stays, and the log begins behind all that is known of the lineage by then: what
        stays may be of epochs below that, and go as well.
    """

    expired: list[ExpiredSegment]
    kept: list[KeptSegment]
    exact: bool
    outruns_lineage: bool = False


def known_up_to(leader: LeaderView, last_epoch: int, end_offset: int) -> LeaderView:
    """
    Return what is left to know where the lineage was read from a segment's leader epoch index.

    Such a lineage is the leader's up to the end of the segment. Where its last epoch ends, and which ones follow, it does not
    say: what reaches further is undecided.

    :param leader: with the leader epochs of that index.
    :param last_epoch: the last leader epoch of the segment.
    :param end_offset: its last offset, inclusive. The leader has it, from that epoch: the caller has made sure of that.
    """
    undecided = frozenset(
        other.remote_log_segment_id
        for other in leader.cache.list_remote_log_segments()
        if other.end_offset > end_offset and other.segment_leader_epochs[-1][0] >= last_epoch
    )
    return replace(leader, undecided=leader.undecided | undecided, known_end=end_offset)


def first_pass(leader: LeaderView) -> ExpirationPass:
    """
    Return what the leader deletes in the next pass of its expiration task, if no step of it fails.

    :param leader: what it knows.
    :raises MetadataError: if the cache cannot list a leader epoch; the leader's task ends with an error, too.
    """
    leader = replace(leader, leader_epochs=leader.leader_epochs.truncate_from_start(leader.log_start_offset))
    walk = _Walk(leader)
    walk.run()
    expired = [*walk.expired.values(), *_unreferenced(leader, walk.expired)]
    kept = _kept(leader, frozenset(finding.segment.remote_log_segment_id for finding in expired))
    begins = _log_start_after(leader, walk.expired.values())
    outruns = bool(kept) and leader.known_end is not None and begins > leader.known_end
    return ExpirationPass(expired, kept, walk.exact and not leader.undecided and not outruns, outruns)


class _Walk:
    """The walk over the lineage, until a segment that stays."""

    def __init__(self, leader: LeaderView) -> None:
        self.expired: dict[RemoteLogSegmentId, ExpiredSegment] = {}
        self.exact = True
        self._leader = leader
        self._bytes_over = _bytes_over_limit(leader)

    def run(self) -> None:
        for leader_epoch, _ in self._leader.leader_epochs.entries:
            for segments in _by_start_offset(self._leader.cache, leader_epoch):
                if _order_is_unknown(self._leader.cache, leader_epoch, segments):
                    self.exact = self.exact and not any(self._may_stay(segment) for segment in segments)
                if not all(self._goes_on(segment) for segment in segments):
                    return

    def _may_stay(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Tell whether what became of others before it decides about a segment, or it about those after it."""
        segment_id = segment.remote_log_segment_id
        if segment_id in self._leader.being_copied:
            return True
        if segment_id in self.expired or _reason_of_its_own(segment, self._leader) is not None:
            return False
        return segment_id in self._leader.undecided or _is_valid(segment, self._leader)

    def _goes_on(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Visit a segment; false ends the walk."""
        segment_id = segment.remote_log_segment_id
        if segment_id in self._leader.being_copied:
            return False
        if segment_id in self.expired:
            return True
        reason = _reason_of_its_own(segment, self._leader)
        if reason is None:
            if not _is_valid(segment, self._leader):
                return segment_id not in self._leader.undecided
            if self._bytes_over == 0 or segment.segment_size_in_bytes > self._bytes_over:
                return False
            reason = Reason.RETENTION_BYTES
        if reason in _MOVE_THE_LOG_START:
            self._bytes_over = max(0, self._bytes_over - segment.segment_size_in_bytes)
        self.expired[segment_id] = ExpiredSegment(segment, reason, self.exact)
        return True


def _reason_of_its_own(segment: RemoteLogSegmentMetadata, leader: LeaderView) -> Reason | None:
    """Return the first reason that holds for the segment alone, without the others."""
    if segment.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
        return Reason.DELETION_RETRIED
    earliest = leader.leader_epochs.entries[0][0]
    if segment.end_offset < leader.log_start_offset and all(e <= earliest for e, _ in segment.segment_leader_epochs):
        return Reason.LOG_START_OFFSET
    until_ms = leader.now_ms - leader.retention_ms
    # A limit that reaches back beyond 1970 is none.
    too_old = leader.retention_ms >= 0 and until_ms >= 0 and segment.max_timestamp_ms < until_ms
    return Reason.RETENTION_MS if too_old and _is_valid(segment, leader) else None


def _is_valid(segment: RemoteLogSegmentMetadata, leader: LeaderView) -> bool:
    if segment.remote_log_segment_id in leader.undecided:
        return False
    return is_remote_segment_within_leader_epochs(segment, leader.log_end_offset, leader.leader_epochs)


def _bytes_over_limit(leader: LeaderView) -> int:
    """Return by how much the valid segments, once each, and the local bytes are more than ``retention.bytes``."""
    if leader.retention_bytes < 0:
        return 0
    sizes = {
        segment.remote_log_segment_id: segment.segment_size_in_bytes
        for segment in _of_lineage(leader)
        if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED and _is_valid(segment, leader)
    }
    return max(0, leader.only_local_bytes + sum(sizes.values()) - leader.retention_bytes)


def _of_lineage(leader: LeaderView) -> Iterator[RemoteLogSegmentMetadata]:
    """Yield the segments that the leader meets, in the order of its walk; one of several epochs comes once for each."""
    for leader_epoch, _ in leader.leader_epochs.entries:
        yield from leader.cache.list_remote_log_segments(leader_epoch)


def _by_start_offset(cache: RemoteLogMetadataCache, leader_epoch: int) -> Iterator[list[RemoteLogSegmentMetadata]]:
    listed = cache.list_remote_log_segments(leader_epoch)
    return (list(segments) for _, segments in groupby(listed, key=lambda segment: segment.start_offset))


def _order_is_unknown(
    cache: RemoteLogMetadataCache, leader_epoch: int, segments: Sequence[RemoteLogSegmentMetadata]
) -> bool:
    """Tell whether two of some segments with one start offset serve no reads: Kafka keeps those in a set of hashes."""
    unreferenced = cache.leader_epochs[leader_epoch].unreferenced
    return sum(segment.remote_log_segment_id in unreferenced for segment in segments) > 1


def _unreferenced(leader: LeaderView, walked: Mapping[RemoteLogSegmentId, ExpiredSegment]) -> Iterator[ExpiredSegment]:
    """Yield the segments all of whose leader epochs lie below the first one of the lineage, when the walk has cut it."""
    if not leader.leader_epochs.entries:
        return
    earliest = _earliest_epoch(leader, walked.values())
    for_certain = _earliest_epoch(leader, (finding for finding in walked.values() if finding.exact))
    found: set[RemoteLogSegmentId] = set(walked)
    epochs = {epoch for s in leader.cache.list_remote_log_segments() for epoch, _ in s.segment_leader_epochs}
    for leader_epoch in sorted(epoch for epoch in epochs if epoch < earliest):
        for segment in leader.cache.list_remote_log_segments(leader_epoch):
            last = max(epoch for epoch, _ in segment.segment_leader_epochs)
            if last < earliest and segment.remote_log_segment_id not in found:
                found.add(segment.remote_log_segment_id)
                yield ExpiredSegment(segment, Reason.UNREFERENCED_EPOCH, exact=last < for_certain)


def _earliest_epoch(leader: LeaderView, walked: Iterable[ExpiredSegment]) -> int:
    """Return the first epoch of the lineage, once the walk has cut it."""
    return leader.leader_epochs.truncate_from_start(_log_start_after(leader, walked)).entries[0][0]


def _log_start_after(leader: LeaderView, walked: Iterable[ExpiredSegment]) -> int:
    """Return where the log begins, once it begins behind what time and size have taken."""
    ends = (one.segment.end_offset + 1 for one in walked if one.reason in _MOVE_THE_LOG_START)
    return max((leader.log_start_offset, *ends))


def _kept(leader: LeaderView, expired: frozenset[RemoteLogSegmentId]) -> list[KeptSegment]:
    kept: dict[RemoteLogSegmentId, KeptSegment] = {}
    due_ms = None
    for segment in _of_lineage(leader):
        segment_id = segment.remote_log_segment_id
        if segment_id in expired or segment_id in kept:
            continue
        standing = _standing_where_met(segment, leader)
        if standing is Standing.VALID:
            due_ms = _due_ms(segment, leader.retention_ms, due_ms)
        kept[segment_id] = KeptSegment(segment, standing, due_ms if standing is Standing.VALID else None)
    met = expired | kept.keys()
    never_met = (s for s in leader.cache.list_remote_log_segments() if s.remote_log_segment_id not in met)
    return [*kept.values(), *(KeptSegment(s, _standing_where_never_met(s, leader), None) for s in never_met)]


def _standing_where_met(segment: RemoteLogSegmentMetadata, leader: LeaderView) -> Standing:
    if segment.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED or _is_valid(segment, leader):
        return Standing.VALID
    return Standing.UNDECIDED if segment.remote_log_segment_id in leader.undecided else Standing.FOREIGN


def _standing_where_never_met(segment: RemoteLogSegmentMetadata, leader: LeaderView) -> Standing:
    segment_id, states = segment.remote_log_segment_id, leader.cache.leader_epochs
    if not any(states[epoch].lists(start_offset, segment_id) for epoch, start_offset in segment.segment_leader_epochs):
        return Standing.LEAKED
    return Standing.UNDECIDED if segment_id in leader.undecided else Standing.FOREIGN


def _due_ms(segment: RemoteLogSegmentMetadata, retention_ms: int, before_ms: int | None) -> int | None:
    """Return when time takes a segment, and all that the walk meets before it."""
    if retention_ms < 0 or segment.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
        return before_ms
    due_ms = segment.max_timestamp_ms + retention_ms
    return due_ms if before_ms is None else max(before_ms, due_ms)
