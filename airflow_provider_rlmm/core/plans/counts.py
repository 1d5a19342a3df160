# SPDX-License-Identifier: Apache-2.0
"""How many segments and bytes something is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


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


NOTHING = Count(0, 0)
