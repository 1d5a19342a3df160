# SPDX-License-Identifier: Apache-2.0
"""The time index of a log segment: from which offset on to look for a timestamp (Kafka: ``TimeIndex``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from airflow_provider_rlmm.core.segments.indexes.entries import Data, parse_entries, require

Array = npt.NDArray[Any]

NO_TIMESTAMP: Final = -1

_ENTRY: Final = np.dtype([("timestamp_ms", ">i8"), ("relative_offset", ">i4")])


@dataclass(frozen=True, slots=True)
class TimestampOffset:
    """
    An entry of a time index.

    :param timestamp_ms: the highest timestamp up to the offset.
    :param offset: of the record that has it, or the last one of its batch.
    """

    timestamp_ms: int
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class TimeIndex:
    """
    The entries of a time index. Every record with a timestamp above an entry's lies behind that entry's offset.

    :param base_offset: first offset of the segment.
    :param timestamp_ms: of each entry, ascending.
    :param relative_offset: of each entry, counted from ``base_offset``; never descending.
    """

    base_offset: int
    timestamp_ms: Array
    relative_offset: Array

    @classmethod
    def parse(cls, data: Data, *, base_offset: int, location: str) -> TimeIndex:
        """
        Read a time index.

        :param data: all bytes of the index; none are an index without entries.
        :param base_offset: first offset of its segment.
        :param location: key or path of the index, for messages.
        :raises DamagedObjectError: the size is no multiple of 12 bytes, a timestamp is below zero or does not ascend, or an
            offset descends.
        """
        entries = parse_entries(data, _ENTRY, location)
        timestamp_ms = entries["timestamp_ms"].astype(np.int64)
        relative_offset = entries["relative_offset"].astype(np.int64)
        # Not by their differences: those of damaged timestamps may overflow.
        ascends = np.append(True, timestamp_ms[1:] > timestamp_ms[:-1])[: timestamp_ms.size]
        require(
            ascends & (timestamp_ms >= 0), _ENTRY, "its timestamp is below zero, or not above the one before", location
        )
        require(np.diff(relative_offset, prepend=0) >= 0, _ENTRY, "its offset is below the one before", location)
        return cls(base_offset, timestamp_ms, relative_offset)

    def __len__(self) -> int:
        return int(self.timestamp_ms.size)

    def lookup(self, timestamp_ms: int) -> TimestampOffset:
        """
        Return the last entry whose timestamp is not above a given one.

        :param timestamp_ms: the timestamp that is looked for, in ms.
        :return: that entry; where there is none, timestamp -1 and the segment's first offset.
        """
        return self._entry(int(np.searchsorted(self.timestamp_ms, timestamp_ms, side="right")) - 1)

    def last(self) -> TimestampOffset:
        """Return the last entry: the highest timestamp of the segment; without entries -1 and the segment's first offset."""
        return self._entry(len(self) - 1)

    def _entry(self, row: int) -> TimestampOffset:
        if row < 0:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return TimestampOffset(int(self.timestamp_ms[row]), self.base_offset + int(self.relative_offset[row]))
