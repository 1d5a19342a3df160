# SPDX-License-Identifier: Apache-2.0
"""
The lineages of living leaders, as their newest remote segments keep them and the leaders themselves confirm them.

No client is told the lineage of a leader. Each remote segment keeps the one that its log had when it was copied; what an
unclean election has made void since is not in it. One record decides: an epoch has one leader, which wrote it from one
offset on. So where the leader serves a record of the segment's last epoch at the segment's end, or anywhere behind it, it has
the same history up to there. Where the newest segment does not fit, an older one may.

Many leaders are asked at once: indexes are fetched by a pool, records are asked for a thousand user partitions at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from heapq import nlargest
from threading import Lock
from typing import Final, Protocol
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import RemoteObjectNotFoundError, RlmmError
from airflow_provider_rlmm.core.log.answers import NotTold, ServedRecord
from airflow_provider_rlmm.core.log.living_leader import LivingLeaders
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint, lineage_of_segment
from airflow_provider_rlmm.core.storage.index_type import IndexType

TRIED: Final = 3
"""Segments that are tried, the newest first."""

FETCHED_AT_ONCE: Final = 16
"""Indexes that are fetched at once."""

GIVE_UP_AFTER: Final = 100
"""Indexes that cannot be fetched, one after the other, before no more are: it is the storage then, not the object."""

_TOLD_EVERY = 100


class SegmentIndexes(Protocol):
    """What of a storage this needs; it is asked by several threads at once."""

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """Return an index of a segment."""


@dataclass(frozen=True, slots=True)
class KnownLineage:
    """
    What is known of a leader's lineage.

    :param leader_epochs: the lineage up to the end of a segment.
    :param segment_id: the segment that keeps it.
    :param last_epoch: the last leader epoch of the segment.
    :param end_offset: its last offset, inclusive. The leader has it, from that epoch.
    :param leader_epoch: the epoch in which the leader that has confirmed it leads; it stands for as long as that one does.
        ``None`` where the leader did not say.
    """

    leader_epochs: LeaderEpochCheckpoint
    segment_id: UUID
    last_epoch: int
    end_offset: int
    leader_epoch: int | None

    @property
    def is_whole(self) -> bool:
        """Whether the leader has begun no epoch behind it: then all that it has written since is of the last one."""
        return self.leader_epoch is not None and self.leader_epochs.entries[-1][0] == self.leader_epoch


@dataclass(frozen=True, slots=True)
class NotConfirmed:
    """
    That a leader's lineage is not known.

    :param why: why the newest segment's is not the leader's, in words.
    """

    why: str


@dataclass(frozen=True, slots=True)
class WantedLineage:
    """
    A lineage that is to be found.

    :param candidates: the segments that may keep it, the best first, :data:`TRIED` at most.
    :param leader_epoch: the epoch in which the leader leads, ``None`` where it does not say.
    """

    candidates: Sequence[RemoteLogSegmentMetadata]
    leader_epoch: int | None


def newest_copied(segments: Iterable[RemoteLogSegmentMetadata]) -> list[RemoteLogSegmentMetadata]:
    """
    Return the segments that may keep the lineage of a leader as it is now, the newest first, :data:`TRIED` at most.

    :param segments: all of a user partition.
    """
    copied = (m for m in segments if m.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED and m.segment_leader_epochs)
    return nlargest(TRIED, copied, key=lambda m: (last_epoch_of(m), m.end_offset))


def last_epoch_of(metadata: RemoteLogSegmentMetadata) -> int:
    """Return the last leader epoch of a segment."""
    return max(epoch for epoch, _ in metadata.segment_leader_epochs)


def ignore_step(_: str, __: int, ___: int) -> None:
    """Do nothing: a listener that is told what is done, how much of it, and of how much."""


def lineages_of_leaders(
    wanted: Mapping[TopicIdPartition, WantedLineage],
    storage: SegmentIndexes,
    leaders: LivingLeaders,
    on_step: Callable[[str, int, int], object] = ignore_step,
) -> dict[TopicIdPartition, KnownLineage | NotConfirmed]:
    """
    Return the lineages of the leaders of user partitions.

    :param wanted: what is to be found.
    :param storage: where the indexes of the segments lie.
    :param leaders: the living leaders.
    :param on_step: told how far this is.
    :return: one answer for each user partition.
    :raises EventLogUnavailableError: if no broker answers.
    :raises EventLogAccessError: if the login fails.
    """
    found: dict[TopicIdPartition, KnownLineage | NotConfirmed] = {}
    reasons: dict[TopicIdPartition, str] = {}
    indexes = _Indexes(storage, on_step)
    for number in range(TRIED):
        trying = {
            tip: one.candidates[number]
            for tip, one in wanted.items()
            if tip not in found and len(one.candidates) > number
        }
        kept = indexes.fetch(trying)
        readable = {tip: trying[tip] for tip, index in kept.items() if isinstance(index, LeaderEpochCheckpoint)}
        refused = _not_confirmed(readable, leaders)
        for tip, index in kept.items():
            why = index if isinstance(index, str) else refused.get(tip)
            if why is None and isinstance(index, LeaderEpochCheckpoint):
                metadata = trying[tip]
                found[tip] = KnownLineage(
                    index,
                    metadata.remote_log_segment_id.id,
                    last_epoch_of(metadata),
                    metadata.end_offset,
                    wanted[tip].leader_epoch,
                )
            else:
                reasons.setdefault(tip, str(why))
    nothing = "no segment of it is copied, so none keeps the lineage of its leader"
    return {tip: found.get(tip, NotConfirmed(reasons.get(tip, nothing))) for tip in wanted}


class _Indexes:
    """Fetches the lineages that segments keep, until the storage fails again and again."""

    def __init__(self, storage: SegmentIndexes, on_step: Callable[[str, int, int], object]) -> None:
        self._storage = storage
        self._on_step = on_step
        self._lock = Lock()
        self._failed_in_row = 0
        self._last_failure = ""

    def fetch(
        self, wanted: Mapping[TopicIdPartition, RemoteLogSegmentMetadata]
    ) -> dict[TopicIdPartition, LeaderEpochCheckpoint | str]:
        """Return the lineage that each segment keeps, or why it cannot be had."""
        if not wanted:
            return {}
        found: dict[TopicIdPartition, LeaderEpochCheckpoint | str] = {}
        with ThreadPoolExecutor(FETCHED_AT_ONCE, "rlmm-indexes") as pool:
            for tip, index in zip(wanted, pool.map(self._kept_by, wanted.values()), strict=True):
                found[tip] = index
                if len(found) % _TOLD_EVERY == 0:
                    self._on_step("fetching leader epoch indexes", len(found), len(wanted))
        return found

    def _kept_by(self, metadata: RemoteLogSegmentMetadata) -> LeaderEpochCheckpoint | str:
        segment_id = metadata.remote_log_segment_id
        if self._failed_in_row >= GIVE_UP_AFTER:
            return (
                f"the leader epochs that {segment_id} keeps were not fetched, as {GIVE_UP_AFTER} others in a row could not "
                f"be: {self._last_failure}"
            )
        try:
            data = self._storage.fetch_index(metadata, IndexType.LEADER_EPOCH)
            self._note(None)
            return lineage_of_segment(metadata, data, location=f"of {segment_id}")
        except RlmmError as e:
            self._note(e)
            return f"the leader epochs that {segment_id} keeps cannot be read: {e}"

    def _note(self, error: RlmmError | None) -> None:
        """Count failures in a row; that an object is not there is an answer."""
        with self._lock:
            if error is None or isinstance(error, RemoteObjectNotFoundError):
                self._failed_in_row = 0
            else:
                self._failed_in_row += 1
                self._last_failure = str(error)


def _not_confirmed(
    segments: Mapping[TopicIdPartition, RemoteLogSegmentMetadata], leaders: LivingLeaders
) -> dict[TopicIdPartition, str]:
    """
    Return why leaders do not confirm that they have the history of segments; those that do are left out.

    What lies right behind a segment is not copied yet, so the leader reads it from its disk. Only where that does not tell is
    the segment's own end asked for, which may be in remote storage only.
    """
    asked = leaders.first_records({tip: m.end_offset + 1 for tip, m in segments.items()}) if segments else {}
    rest = {tip: m for tip, m in segments.items() if not _confirms(asked[tip], m)}
    asked = leaders.first_records({tip: m.end_offset for tip, m in rest.items()}) if rest else {}
    return {tip: _why(asked[tip], m) for tip, m in rest.items() if not _confirms(asked[tip], m)}


def _confirms(answer: ServedRecord | NotTold | None, metadata: RemoteLogSegmentMetadata) -> bool:
    return isinstance(answer, ServedRecord) and answer.leader_epoch == last_epoch_of(metadata)


def _why(answer: ServedRecord | NotTold | None, metadata: RemoteLogSegmentMetadata) -> str:
    end, epoch = metadata.end_offset, last_epoch_of(metadata)
    ends = f"the newest segment ends at offset {end} in leader epoch {epoch}"
    if isinstance(answer, NotTold):
        return f"{ends}, and it is not told whether its leader has that: {answer.why}"
    if answer is None:
        return f"{ends}, and the leader serves no record from there on: the next segment may tell"
    return (
        f"{ends}, and the leader's record at offset {answer.offset} is of epoch {answer.leader_epoch}: it cannot be told "
        "where that one begins"
    )
