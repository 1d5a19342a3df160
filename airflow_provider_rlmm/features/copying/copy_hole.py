# SPDX-License-Identifier: Apache-2.0
"""
Offsets that brokers would pass over: not in remote storage, while copies lie behind them.

A log directory that does not hold them cannot tell that they are missing. So what is asked is the log of the copies, from the
leader's log start offset on: what it does not show to be in remote storage is missing, in whichever broker's or copier's care
it was.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.quoting import name_in_text
from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.features.copying.rules import CopyHole, LocalSegment, remote_end


def find_hole(
    cache: RemoteLogMetadataCache,
    leader_epochs: Sequence[tuple[int, int]],
    log_start_offset: int,
    planned: Sequence[LocalSegment] = (),
) -> CopyHole | None:
    """
    Return the offsets from the log start on that brokers would pass over, ``None`` where there are none.

    Brokers go on from the highest offset that was ever copied, be the copy deleted since. A lineage that does not know a
    leader epoch of a copy shows nothing of it: its log directory is older, or another log than the leader's.

    :param cache: the user partition's segments.
    :param leader_epochs: (leader epoch, start offset), ascending: the lineage of the log directory.
    :param log_start_offset: the leader's log start offset.
    :param planned: segments that are taken for copied, ascending and without a gap.
    """

    def end_from(offset: int) -> int:
        end = remote_end(cache, leader_epochs, offset)
        if planned and planned[0].first_offset <= end <= planned[-1].end_offset:
            end = remote_end(cache, leader_epochs, planned[-1].end_offset + 1)
        return end

    ever_copied = [state.highest_offset for state in cache.leader_epochs.values() if state.highest_offset is not None]
    highest = max([*ever_copied, *(segment.end_offset for segment in planned[-1:])], default=-1)
    start = end = end_from(log_start_offset)
    if start > highest:
        return None
    copies = [
        metadata.segment_leader_epochs[0][1]
        for metadata in cache.list_remote_log_segments()
        if metadata.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    ]
    for begin in sorted([*copies, *(segment.first_offset for segment in planned[:1])]):
        if begin > end and (end := end_from(begin)) > highest:
            return CopyHole(start, begin - 1)
    return CopyHole(start, highest)


def hole_ahead(
    topic: str, partition: int, expiring: Sequence[LocalSegment], hole: CopyHole | None = None
) -> str | None:
    """
    Say what must not be done before the leader has deleted what is not copied, ``None`` where brokers may go on.

    Brokers go on from the *highest* copied offset and local retention deletes what lies below it. So segments that were left
    out, as they were about to expire, are lost where a longer retention has them live on.

    :param topic: name of the topic.
    :param partition: of the topic.
    :param expiring: the segments that were left out, ascending.
    :param hole: what else brokers would pass over, these segments among it.
    """
    if not expiring and hole is None:
        return None
    found, ends, unless = [], [], ""
    if expiring:
        first, last = expiring[0].base_offset, expiring[-1].end_offset
        are = agreeing(len(expiring), "is", "are")
        found.append(
            f"{number_of(len(expiring), 'segment')}, offsets {first}..{last}, {are} about to expire by retention.ms and "
            f"{are} not copied"
        )
        ends.append(last)
    if hole is not None and not (expiring and first <= hole.start_offset and hole.end_offset <= last):
        found.append(
            f"offsets {hole.start_offset}..{hole.end_offset} are not shown to be in remote storage, and copies lie behind "
            f"offset {hole.start_offset}"
        )
        ends.append(hole.end_offset)
        unless = ", or a run has copied them from the log directory of an in-sync replica that holds them"
    return (
        f"{'; '.join(found)}: do not enable copying, and do not raise retention.ms or retention.bytes, before the log start "
        f"offset of {name_in_text(topic)}-{partition} is at least {max(ends) + 1} (kafka-get-offsets.sh --time earliest "
        f"tells it){unless}; then run this again"
    )
