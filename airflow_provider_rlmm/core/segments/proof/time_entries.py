# SPDX-License-Identifier: Apache-2.0
"""
A time index beside its log: each entry has the highest timestamp up to its offset, and names the batch that has it first.

The last entry has the highest timestamp of the segment: a broker adds it when it closes the segment.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from airflow_provider_rlmm.core.segments.indexes.time_index import NO_TIMESTAMP, TimeIndex
from airflow_provider_rlmm.core.segments.proof.findings import DamageKind, Finding, Report
from airflow_provider_rlmm.core.storage.index_type import IndexType

Array = npt.NDArray[Any]

_ENTRY_BYTES: Final = 12


class TimeEntries:
    """
    The entries of a time index, compared with the batches of a log as they are read.

    :param index: the index.
    :param report: takes what is wrong.
    """

    def __init__(self, index: TimeIndex, report: Report) -> None:
        self._timestamp_ms = index.timestamp_ms
        self._offset = index.relative_offset + index.base_offset
        self._report = report
        self._next = 0

    def take(self, last_offset: Array, max_timestamp_ms: Array, highest_ms: Array) -> None:
        """
        Compare with some batches, in the order of the log.

        :param last_offset: of each batch.
        :param max_timestamp_ms: highest timestamp of each batch.
        :param highest_ms: highest timestamp of the log up to each batch.
        """
        first, end = self._next, int(np.searchsorted(self._offset, last_offset[-1], side="right"))
        rows = np.searchsorted(last_offset, self._offset[first:end])
        named = self._timestamp_ms[first:end]
        for row in np.flatnonzero((highest_ms[rows] != named) | (max_timestamp_ms[rows] != named)).tolist():
            highest = int(highest_ms[rows[row]])
            why = f"the highest timestamp up to there is {highest}"
            if highest == named[row]:
                why = f"the batch there has no timestamp above {int(max_timestamp_ms[rows[row]])}"
            self._wrong(first + row, why, str(highest))
        self._next = end

    def finish(self, highest_ms: int) -> None:
        """
        Report the entries behind the log, and a last one that is not the highest.

        :param highest_ms: the highest timestamp of the log, -1 for none.
        """
        for row in range(self._next, len(self._offset)):
            self._wrong(row, "its offset is not of this segment", "")
        last_ms = int(self._timestamp_ms[-1]) if len(self._timestamp_ms) else NO_TIMESTAMP
        highest = max(highest_ms, NO_TIMESTAMP)
        if last_ms != highest:
            self._report(
                Finding(
                    kind=DamageKind.INDEX,
                    part=IndexType.TIMESTAMP,
                    position=max(len(self._timestamp_ms) - 1, 0) * _ENTRY_BYTES,
                    expected=str(highest),
                    seen=str(last_ms),
                    why=f"it ends with timestamp {last_ms}, and the highest of the segment is {highest}",
                )
            )

    def _wrong(self, row: int, why: str, expected: str) -> None:
        timestamp, offset = int(self._timestamp_ms[row]), int(self._offset[row])
        self._report(
            Finding(
                kind=DamageKind.INDEX,
                part=IndexType.TIMESTAMP,
                position=row * _ENTRY_BYTES,
                offset=offset,
                expected=expected,
                seen=str(timestamp),
                why=f"timestamp {timestamp} up to offset {offset}: {why}",
            )
        )
