# SPDX-License-Identifier: Apache-2.0
"""
An offset index beside its log: each entry's position is where a batch begins, and its offset ends that batch or a later one.

A broker names the last offset of what it appended at once; one that copied from its leader has appended several batches. So
the offset ends some batch before the position of the next entry.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from airflow_provider_rlmm.core.segments.indexes.offset_index import OffsetIndex
from airflow_provider_rlmm.core.segments.proof.findings import DamageKind, Finding, Report
from airflow_provider_rlmm.core.storage.index_type import IndexType

Array = npt.NDArray[Any]

_ENTRY_BYTES: Final = 8


class OffsetEntries:
    """
    The entries of an offset index, compared with the batches of a log as they are read.

    :param index: the index.
    :param report: takes what is wrong.
    """

    def __init__(self, index: OffsetIndex, report: Report) -> None:
        self._position = index.position
        self._offset = index.relative_offset + index.base_offset
        self._offset_before = np.append(-1, self._offset)[:-1]
        self._report = report
        self._next = 0  # the first entry whose position was not yet reached
        self._next_offset = 0  # the first entry whose offset was not yet reached

    def take(self, position: Array, base_offset: Array, last_offset: Array) -> None:
        """
        Compare with some batches, in the order of the log.

        :param position: in the log, of each batch.
        :param base_offset: of each batch.
        :param last_offset: of each batch.
        """
        first, end = self._next, int(np.searchsorted(self._position, position[-1], side="right"))
        rows = np.searchsorted(position, self._position[first:end])
        named, base = slice(first, end), base_offset[rows]
        begins = position[rows] == self._position[named]
        above = begins & (base > self._offset[named])
        behind = begins & (base <= self._offset_before[named])
        self._wrong(first, ~begins, "no batch begins at its position")
        self._wrong(first, above, "the batch at its position begins above its offset")
        self._wrong(first, behind, "the entry before it names an offset that lies behind its position")
        self._next = end
        self._take_offsets(last_offset)

    def _take_offsets(self, last_offset: Array) -> None:
        first, end = self._next_offset, int(np.searchsorted(self._offset, last_offset[-1], side="right"))
        rows = np.searchsorted(last_offset, self._offset[first:end])
        self._wrong(first, last_offset[rows] != self._offset[first:end], "no batch ends with its offset")
        self._next_offset = end

    def finish(self) -> None:
        """Report the entries that point behind the log, or to an offset behind it."""
        entries = np.arange(len(self._position))
        behind = entries >= self._next
        self._wrong(0, behind, "its position is behind the last batch")
        self._wrong(0, (entries >= self._next_offset) & ~behind, "its offset is not of this segment")

    def _wrong(self, first: int, wrong: Array, why: str) -> None:
        for row in np.flatnonzero(wrong).tolist():
            entry = first + row
            seen = f"offset {self._offset[entry]}, position {self._position[entry]}"
            self._report(
                Finding(
                    kind=DamageKind.INDEX,
                    part=IndexType.OFFSET,
                    position=entry * _ENTRY_BYTES,
                    offset=int(self._offset[entry]),
                    seen=seen,
                    why=f"{seen}: {why}",
                )
            )
