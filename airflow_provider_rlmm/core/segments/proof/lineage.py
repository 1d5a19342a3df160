# SPDX-License-Identifier: Apache-2.0
"""A leader epoch checkpoint beside the metadata: it has the lineage up to the end of its segment, and nothing behind."""

from __future__ import annotations

from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.segments.proof.fields import Epochs
from airflow_provider_rlmm.core.segments.proof.findings import DamageKind, Finding, Report
from airflow_provider_rlmm.core.storage.index_type import IndexType


def compare_checkpoint(
    checkpoint: LeaderEpochCheckpoint, known: Epochs, own: Epochs, end_offset: int, report: Report
) -> None:
    """
    Compare a checkpoint with what metadata say.

    :param checkpoint: what the segment keeps.
    :param known: the lineage as far as other segments tell; the first epoch begins at its offset or before.
    :param own: the leader epochs of the segment.
    :param end_offset: last offset of the segment, inclusive.
    :param report: takes what is wrong.
    """
    if not checkpoint.entries:
        report(_finding("it names no leader epoch", known, ()))
        return
    first = checkpoint.entries[0][1]
    if first > own[0][1]:
        why = f"it begins with offset {first}, and its segment was written from offset {own[0][1]} on"
        report(_finding(why, own, checkpoint.entries, first))
    if (last := checkpoint.entries[-1][1]) > end_offset:
        why = f"it knows of offset {last}, and its segment ends with offset {end_offset}"
        report(_finding(why, own, checkpoint.entries, last))
    # It may reach further back than the segments that are left, or less far: the log start offset moves.
    begin = max(first, known[0][1])
    expected = LeaderEpochCheckpoint(known).in_range(begin, end_offset + 1).entries
    seen = checkpoint.in_range(begin, end_offset + 1).entries
    if seen != expected:
        report(_finding("it says another lineage than the metadata", expected, seen, begin))


def _finding(why: str, expected: Epochs, seen: Epochs, offset: int | None = None) -> Finding:
    return Finding(
        kind=DamageKind.LEADER_EPOCH,
        part=IndexType.LEADER_EPOCH,
        position=0,
        offset=offset,
        expected=_text(expected),
        seen=_text(seen),
        why=f"{why}: {_text(seen)} is there, {_text(expected)} is known",
    )


def _text(epochs: Epochs) -> str:
    return ", ".join(f"epoch {epoch} from {offset}" for epoch, offset in epochs[-5:]) or "nothing"
