# SPDX-License-Identifier: Apache-2.0
"""The offset index of a log segment: where in the segment to begin to read for an offset (Kafka: ``OffsetIndex``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from airflow_provider_rlmm.core.segments.indexes.entries import Data, parse_entries, require

Array = npt.NDArray[Any]

_ENTRY: Final = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])


@dataclass(frozen=True, slots=True, eq=False)
class OffsetIndex:
    """
    The entries of an offset index.

    No checksum protects them: the batch at a position that is found must not begin above the offset that was looked up, else
    the index is damaged or another segment's.

    :param base_offset: first offset of the segment.
    :param relative_offset: of each entry, counted from ``base_offset``; ascending.
    :param position: of each entry, the first byte of a batch of the segment that does not begin above the entry's offset;
        ascending.
    """

    base_offset: int
    relative_offset: Array
    position: Array

    @classmethod
    def parse(cls, data: Data, *, base_offset: int, location: str) -> OffsetIndex:
        """
        Read an offset index.

        :param data: all bytes of the index; none are an index without entries.
        :param base_offset: first offset of its segment.
        :param location: key or path of the index, for messages.
        :raises DamagedObjectError: the size is no multiple of 8 bytes, an entry is below zero, or entries do not ascend.
        """
        entries = parse_entries(data, _ENTRY, location)
        relative_offset, position = entries["relative_offset"].astype(np.int64), entries["position"].astype(np.int64)
        for column, name in ((relative_offset, "offset"), (position, "position")):
            ascends = np.diff(column, prepend=-1) > 0
            require(ascends, _ENTRY, f"its {name} is below zero, or not above the one before", location)
        return cls(base_offset, relative_offset, position)

    def __len__(self) -> int:
        return int(self.position.size)

    def lookup(self, offset: int) -> int:
        """
        Return where in the segment to begin to read: nothing before that position is at or above the offset.

        :param offset: the offset that is looked for.
        :return: position in bytes of the last entry that is not above the offset; 0 if there is none.
        """
        entry = int(np.searchsorted(self.relative_offset, offset - self.base_offset, side="right")) - 1
        return int(self.position[entry]) if entry >= 0 else 0
