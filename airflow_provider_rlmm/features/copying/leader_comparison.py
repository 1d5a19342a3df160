# SPDX-License-Identifier: Apache-2.0
"""
Whether the records of a segment are those of the living leader.

Two logs that have the same record, of the same leader epoch, at the same offset are equal up to there: that is what Kafka's
replication rests on. A replica that was cut off may have records that no other replica has, behind the last common one. So of
each leader epoch of a segment the last record is compared, and what proves the segment's end.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_rlmm.core.log.answers import LeaderOffsets, LeaderRecord
from airflow_provider_rlmm.core.log.living_leader import LivingLeader
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.features.copying.copy_source import CopySource
from airflow_provider_rlmm.features.copying.rules import LocalSegment


@dataclass(frozen=True, slots=True)
class LineageProof:
    """
    How much of a log directory is proven to be the leader's.

    :param end: end of what is proven, exclusive; ``None`` where nothing is.
    :param obstacle: why the segment that was asked for is not, ``None`` where it is.
    """

    end: int | None
    obstacle: str | None


def compare_with_leader(
    source: CopySource, segment: LocalSegment, leader: LivingLeader, offsets: LeaderOffsets
) -> LineageProof:
    """
    Compare the last records of a segment's leader epochs with those that the leader serves.

    The leader serves no control records. Where a segment ends in one, a record behind the segment has to be equal.

    :param source: the log directory.
    :param segment: one of its closed segments.
    :param leader: the living leader.
    :param offsets: how far the leader's log reaches; nothing outside of it is compared.
    :raises EventLogUnavailableError: if the leader does not answer.
    :raises LogDirectoryError: if the directory cannot be read.
    """
    tip, behind = source.topic_id_partition, segment.end_offset + 1
    records = source.last_records(max(segment.base_offset, offsets.log_start_offset), behind)
    if not records or records[-1].offset < segment.end_offset:
        witnesses = source.last_records(behind, max(behind, offsets.high_watermark))
        if not witnesses:
            return LineageProof(
                None,
                f"{segment} of {tip} ends in control records, which no leader serves, and no record behind it proves them: "
                "use a log directory that reaches further",
            )
        records = (*records, witnesses[0])
    for record in records:
        if (difference := _difference(tip, record, leader)) is not None:
            return LineageProof(None, difference)
    return LineageProof(records[-1].offset + 1, None)


def _difference(tip: TopicIdPartition, ours: LeaderRecord, leader: LivingLeader) -> str | None:
    theirs = leader.record_at(tip, ours.offset)
    if theirs == ours:
        return None
    if theirs is None:
        what = "the leader serves none there"
    elif theirs.leader_epoch != ours.leader_epoch:
        what = f"the leader's is of epoch {theirs.leader_epoch}"
    else:
        what = "the leader's is another one"
    return (
        f"the log directory of {tip} has a record of leader epoch {ours.leader_epoch} at offset {ours.offset}, {what}: this "
        "replica was cut off from the leader; use another replica's log directory"
    )
