# SPDX-License-Identifier: Apache-2.0
"""The segments of a user partition as a map of its offsets, a row for each leader epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from airflow_provider_rlmm.plugins.charts import Block, offset_map
from airflow_provider_rlmm.plugins.rendering import MOODS

if TYPE_CHECKING:
    from airflow_provider_rlmm.overview.inventories import SegmentRow

MAX_ROWS: Final = 12
"""Rows of a map; leader epochs beyond them share the last one."""


def segment_map(segments: Sequence[SegmentRow]) -> Markup:
    """
    Draw segments where their offsets are.

    :param segments: of one user partition, at least one of them.
    """
    epochs = sorted({epoch for segment in segments for epoch, _, _ in _ranges(segment)})
    row_of = {epoch: min(row, MAX_ROWS - 1) for row, epoch in enumerate(epochs)}
    names = [f"epoch {epoch}" for epoch in epochs[:MAX_ROWS]]
    if len(epochs) > MAX_ROWS:
        names[-1] = "others"
    blocks = [
        Block(first, last, row_of[epoch], MOODS.get(segment.state, "calm"), _words(segment, epoch, first, last))
        for segment in segments
        for epoch, first, last in _ranges(segment)
    ]
    start, end = min(s.start_offset for s in segments), max(s.end_offset for s in segments)
    return offset_map(blocks, start, end, names)


def _ranges(segment: SegmentRow) -> Iterator[tuple[int, int, int]]:
    """Yield each leader epoch of a segment with its first and last offset in it; one without epochs has the epoch -1."""
    epochs = sorted(segment.leader_epochs, key=lambda epoch: epoch[1]) or [(-1, segment.start_offset)]
    for i, (epoch, start) in enumerate(epochs):
        last = epochs[i + 1][1] - 1 if i + 1 < len(epochs) else segment.end_offset
        first = max(start, segment.start_offset)
        yield epoch, first, max(first, min(last, segment.end_offset))


def _words(segment: SegmentRow, epoch: int, first: int, last: int) -> str:
    state = segment.state.replace("_", " ").lower()
    return f"offsets {first:,} to {last:,}, leader epoch {epoch}, {state}, segment {segment.segment_id}"
