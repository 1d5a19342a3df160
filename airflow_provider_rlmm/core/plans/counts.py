# SPDX-License-Identifier: Apache-2.0
"""How many segments and bytes something is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Count:
    """
    :param segments: number of segments.
    :param bytes: their ``segment_size_in_bytes``, summed.
    """

    segments: int
    bytes: int

    @classmethod
    def sum(cls, counts: Iterable[Count]) -> Count:
        """
        Add counts up.

        :param counts: any number of them.
        """
        counts = tuple(counts)
        return cls(sum(count.segments for count in counts), sum(count.bytes for count in counts))


@dataclass(frozen=True, slots=True)
class Unsized:
    """
    How many segments the log names and tells no size of: no add was read, and what was read does not say that they are
    finished. No :class:`Count` has them.

    :param orphaned: those of topic ids that the cluster lacks.
    :param unseen: those of which it cannot be told whether they are orphaned.
    :param living: those of topics that the cluster has.
    """

    orphaned: int = 0
    unseen: int = 0
    living: int = 0

    @property
    def segments(self) -> int:
        """How many they are together."""
        return self.orphaned + self.unseen + self.living


NOTHING = Count(0, 0)


def sums_by(key: str, rows: Iterable[Any]) -> dict[Any, Count]:
    """Return the sums of rows that have counts of ``segments`` and ``bytes``, by a column."""
    sums: dict[Any, Count] = {}
    for row in rows:
        sums[row[key]] = Count.sum((sums.get(row[key], Count(0, 0)), Count(row["segments"], row["bytes"])))
    return sums
