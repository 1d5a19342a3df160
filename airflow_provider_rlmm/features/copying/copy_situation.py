# SPDX-License-Identifier: Apache-2.0
"""All that decides whether a segment of a living user partition may be copied now, put together from one moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from airflow_provider_rlmm.core.base.values import duration_text
from airflow_provider_rlmm.core.log.answers import LeaderAnswer
from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.records import COPIER_BROKER_ID, RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint, is_remote_segment_within_leader_epochs
from airflow_provider_rlmm.core.world.hold import Hold
from airflow_provider_rlmm.features.copying.copy_hole import find_hole
from airflow_provider_rlmm.features.copying.rules import (
    COPY_WITHOUT_LEADER,
    Candidates,
    CopyHole,
    CopyLimits,
    LocalSegment,
    candidates,
    expires_before,
    lease_text,
    may_write_about,
    remote_end,
    size_obstacle,
)

_BY_OFFSET: Final = attrgetter("start_offset", "end_offset", "max_timestamp_ms")
_STARTED: Final = RemoteLogSegmentState.COPY_SEGMENT_STARTED


@dataclass(frozen=True, slots=True)
class DirectoryFacts:
    """
    What a log directory says of its user partition.

    :param topic_id_partition: whose directory it is.
    :param leader_epochs: its lineage.
    :param segments: its closed segments from its log start offset on, ascending.
    :param log_start_offset: its log start offset.
    :param active_base_offset: base offset of its active segment.
    :param committed_end: end for ``read_committed``, exclusive, as far as the directory alone can tell: the smaller of its
        replicated end and its first open transaction; ``None`` where it does not know.
    """

    topic_id_partition: TopicIdPartition
    leader_epochs: LeaderEpochCheckpoint
    segments: tuple[LocalSegment, ...]
    log_start_offset: int
    active_base_offset: int
    committed_end: int | None


@dataclass(frozen=True, slots=True)
class CopySituation:
    """
    One moment of a user partition: directory, remote log, cluster and time.

    :param directory: what the log directory says.
    :param cache: the user partition's segments as of a replay up to the high watermark.
    :param answer: what the cluster said after that replay, ``None`` where it has no such topic.
    :param limits: limits of the run.
    :param hold: what is never touched.
    :param now_ms: now, ms since the epoch, proven.
    :param proven_end: end of the records that are proven to be the leader's, exclusive; ``None`` where none was compared.
    """

    directory: DirectoryFacts
    cache: RemoteLogMetadataCache
    answer: LeaderAnswer | None
    limits: CopyLimits
    hold: Hold
    now_ms: int
    proven_end: int | None = None

    @property
    def without_leader(self) -> bool:
        """Whether the partition has no leader, and an override allows to copy all the same."""
        leaderless = self.answer is not None and self.answer.offsets is None
        return leaderless and COPY_WITHOUT_LEADER in self.limits.overrides

    @property
    def log_start_offset(self) -> int:
        """The first offset that is served, by the leader; without one, that the directory has."""
        if self.answer is not None and self.answer.offsets is not None:
            return self.answer.offsets.log_start_offset
        return self.directory.log_start_offset

    @property
    def committed_end(self) -> int:
        """End for ``read_committed``, exclusive; 0 where nobody can tell."""
        if self.answer is not None and self.answer.offsets is not None:
            return self.answer.offsets.last_stable_offset
        return (self.directory.committed_end or 0) if self.without_leader else 0

    @property
    def remote_end(self) -> int:
        """The first offset from the log start on that brokers could not read from remote storage."""
        return remote_end(self.cache, self.directory.leader_epochs.entries, self.log_start_offset)

    @property
    def next_offset(self) -> int:
        """The first offset that is to be copied: not in remote storage, and not about to be deleted."""
        return self._next_offset(self.expires_before or 0)

    @property
    def expires_before(self) -> int | None:
        """The offset below which the leader is about to delete all, exclusive; ``None`` where nothing expires."""
        if self.answer is None or self.answer.configs.retention_ms < 0:
            return None
        return expires_before(
            self.directory.segments,
            self._readable(),
            log_start_offset=self.log_start_offset,
            retention_ms=self.answer.configs.retention_ms,
            margin_ms=self.limits.retention_margin_ms,
            now_ms=self.now_ms,
        )

    def obstacle(self) -> str | None:
        """Return why nothing of the user partition may be copied, ``None`` where something may."""
        tip = self.directory.topic_id_partition
        if self.answer is None:
            return f"the cluster has no topic {tip.topic!r}: what is left of a deleted topic is archived, never copied"
        if (refusal := may_write_about(self.answer, tip)) is not None:
            return refusal
        if (held := self.hold.refusal_of(tip, ())) is not None:
            return f"{held.why}; {held.what_to_do}"
        if self.answer.offsets is None and not self.without_leader:
            return (
                f"{tip} has no leader: nobody tells what is committed, and whose lineage counts; bring a replica back, or "
                f"use the override {COPY_WITHOUT_LEADER!r}"
            )
        return None

    def candidates(self) -> Candidates:
        """Return what may be copied, in this order; whether it is the leader's lineage is not known yet."""
        expires_before = self.expires_before or 0
        next_offset = self._next_offset(expires_before)
        found = candidates(
            self.directory.segments,
            from_offset=next_offset,
            end_offset=self.committed_end,
            active_offset=max(self.directory.active_base_offset, self.directory.log_start_offset),
        )
        expiring = (s for s in self.directory.segments if s.end_offset < expires_before and not self._is_copied(s))
        return replace(found, expiring=tuple(expiring))

    def hole(self, planned: Sequence[LocalSegment] = ()) -> CopyHole | None:
        """
        Return the offsets that brokers would pass over if copying were enabled, ``None`` where there are none.

        :param planned: segments that are taken for copied, ascending and without a gap.
        """
        return find_hole(self.cache, self.directory.leader_epochs.entries, self.log_start_offset, planned)

    def obstacle_to(self, metadata: RemoteLogSegmentMetadata) -> str | None:
        """
        Return why a segment must not be announced, or its copy not be finished; ``None`` where nothing stands against it.

        :param metadata: the segment as it will be.
        """
        return (
            self.obstacle()
            or self._other_copies(metadata)
            or self._offsets(metadata)
            or self._expiry(metadata)
            or self._size(metadata)
        )

    def _other_copies(self, metadata: RemoteLogSegmentMetadata) -> str | None:
        """Whoever was announced first copies; an announcement of somebody else stands against all of ours."""
        before_ours = True
        for other in self.cache.in_order_of_arrival():
            if other.remote_log_segment_id == metadata.remote_log_segment_id:
                before_ours = False
            elif other.state is _STARTED and other.broker_id != COPIER_BROKER_ID:
                return (
                    f"broker {other.broker_id} has begun to copy {other.start_offset}..{other.end_offset} and not said how "
                    "that ended: copying is enabled, or it died in the middle; let it finish, or wait until its leader has "
                    "deleted it"
                )
            elif other.state is _STARTED and before_ours:
                return lease_text(other, self.limits)
        return None

    def _offsets(self, metadata: RemoteLogSegmentMetadata) -> str | None:
        what = f"offsets {metadata.start_offset}..{metadata.end_offset}"
        if metadata.end_offset < self.log_start_offset:
            return f"{what} lie below the log start offset {self.log_start_offset}: nobody reads them any more"
        if metadata.end_offset >= self.committed_end:
            return f"{what} reach beyond the committed end {self.committed_end}"
        next_offset = self.next_offset
        if metadata.segment_leader_epochs[0][1] > next_offset:
            return f"{what} begin behind offset {next_offset}, which is not in remote storage: the gap would be lost"
        if metadata.end_offset < next_offset and not self._expires(metadata):
            return f"{what} are in remote storage already"
        if not self.without_leader and (self.proven_end is None or metadata.end_offset >= self.proven_end):
            return f"{what} are not proven to be the leader's records"
        return None

    def _next_offset(self, expires_before: int) -> int:
        return remote_end(self.cache, self.directory.leader_epochs.entries, max(self.log_start_offset, expires_before))

    def _is_copied(self, segment: LocalSegment) -> bool:
        """Tell whether brokers can read all of a segment from remote storage that the leader still serves."""
        start, last = max(segment.first_offset, self.log_start_offset), segment.end_offset
        return remote_end(self.cache, self.directory.leader_epochs.entries, start, last) > last

    def _expires(self, metadata: RemoteLogSegmentMetadata) -> bool:
        return metadata.end_offset < (self.expires_before or 0)

    def _expiry(self, metadata: RemoteLogSegmentMetadata) -> str | None:
        if self._expires(metadata):
            return (
                f"offsets {metadata.start_offset}..{metadata.end_offset} expire by retention.ms within "
                f"{duration_text(self.limits.retention_margin_ms)}: the leader would delete them while they are copied"
            )
        return None

    def _size(self, metadata: RemoteLogSegmentMetadata) -> str | None:
        if self.answer is None or self.answer.configs.retention_bytes < 0:
            return None  # nothing to add up, and there may be very many
        remote_bytes = sum(
            other.segment_size_in_bytes
            for other in self.cache.list_remote_log_segments()
            if other.remote_log_segment_id != metadata.remote_log_segment_id
        )
        return size_obstacle(self.answer, remote_bytes, metadata)

    def _readable(self) -> Iterator[RemoteLogSegmentMetadata]:
        """Yield by offset what serves reads: of tens of thousands the first few are looked at, as a rule."""
        end = max([s.end_offset for s in self.directory.segments], default=-1)
        for metadata in sorted(self.cache.list_remote_log_segments(), key=_BY_OFFSET):
            if (
                metadata.end_offset >= self.log_start_offset
                and metadata.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
                and is_remote_segment_within_leader_epochs(
                    metadata, max(end, metadata.end_offset) + 1, self.directory.leader_epochs
                )
            ):
                yield metadata
