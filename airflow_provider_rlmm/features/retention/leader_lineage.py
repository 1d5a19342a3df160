# SPDX-License-Identifier: Apache-2.0
"""
The lineage of a living leader, as its newest remote segment keeps it and the leader itself confirms it.

No client is told the lineage of a leader. Each remote segment keeps the one that its log had when it was copied; what an
unclean election has made void since is not in it. One record decides: an epoch has one leader, which wrote it from one
offset on. So where the leader serves a record of the segment's last epoch at the segment's end, or right behind it, it has
the same history up to there. Where the newest segment does not fit, an older one may.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from airflow_provider_rlmm.core.base.errors import RlmmError
from airflow_provider_rlmm.core.log.living_leader import LivingLeader
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint, lineage_of_segment
from airflow_provider_rlmm.core.storage.index_type import IndexType

_ASKED_BEHIND = 3
"""Offsets that are asked for, from a segment's last one on: the markers of transactions take one each and are not served."""

_TRIED = 3
"""Segments that are tried, the newest first."""


class SegmentIndexes(Protocol):
    """What of a storage this needs."""

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """Return an index of a segment."""


@dataclass(frozen=True, slots=True)
class LeaderLineage:
    """
    What is known of a leader's lineage.

    :param leader_epochs: the lineage up to the end of a segment.
    :param source: the segment that keeps it. The leader has its last offset, from the same leader epoch.
    """

    leader_epochs: LeaderEpochCheckpoint
    source: RemoteLogSegmentMetadata


@dataclass(frozen=True, slots=True)
class NotConfirmed:
    """
    That a leader's lineage is not known.

    :param why: why the newest segment's is not the leader's, in words.
    """

    why: str


def lineage_of_leader(
    segments: Iterable[RemoteLogSegmentMetadata], storage: SegmentIndexes, leader: LivingLeader
) -> LeaderLineage | NotConfirmed:
    """
    Return the lineage that the leader of a user partition has.

    :param segments: all of the user partition.
    :param storage: where their indexes lie.
    :param leader: the living leader.
    :raises EventLogUnavailableError: if the leader does not answer.
    :raises EventLogAccessError: if its records may not be read.
    """
    copied = (m for m in segments if m.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED and m.segment_leader_epochs)
    newest_first = sorted(copied, key=lambda m: (_last_epoch(m), m.end_offset), reverse=True)
    reasons = []
    for metadata in newest_first[:_TRIED]:
        found = _kept_by(metadata, storage)
        if isinstance(found, LeaderEpochCheckpoint) and (why := _why_not_confirmed(metadata, leader)) is None:
            return LeaderLineage(found, metadata)
        reasons.append(found if isinstance(found, str) else why)
    return NotConfirmed(
        next(iter(reasons), None) or "no segment of it is copied, so none keeps the lineage of its leader"
    )


def _last_epoch(metadata: RemoteLogSegmentMetadata) -> int:
    return max(epoch for epoch, _ in metadata.segment_leader_epochs)


def _kept_by(metadata: RemoteLogSegmentMetadata, storage: SegmentIndexes) -> LeaderEpochCheckpoint | str:
    """Return the lineage that a segment keeps, or why it cannot be had."""
    segment_id = metadata.remote_log_segment_id
    try:
        data = storage.fetch_index(metadata, IndexType.LEADER_EPOCH)
        return lineage_of_segment(metadata, data, location=f"of {segment_id}")
    except RlmmError as e:
        return f"the leader epochs that {segment_id} keeps cannot be read: {e}"


def _why_not_confirmed(metadata: RemoteLogSegmentMetadata, leader: LivingLeader) -> str | None:
    tip, end, epoch = metadata.remote_log_segment_id.topic_id_partition, metadata.end_offset, _last_epoch(metadata)
    for offset in range(end, end + _ASKED_BEHIND):
        record = leader.record_at(tip, offset)
        if record is None:
            continue
        if record.leader_epoch == epoch:
            return None
        return (
            f"the newest segment ends at offset {end} in leader epoch {epoch}, and the leader's record at offset {offset} is "
            f"of epoch {record.leader_epoch}: nobody can tell where that one begins"
        )
    return (
        f"the leader serves no record at the offsets {end} to {end + _ASKED_BEHIND - 1}, where the newest segment ends in "
        f"leader epoch {epoch}: the next segment may tell"
    )
