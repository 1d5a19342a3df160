# SPDX-License-Identifier: Apache-2.0
"""How many segments and bytes something is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_rlmm.core.base.arrow_groups import groups_of

if TYPE_CHECKING:
    import pyarrow as pa

K = TypeVar("K")


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


def counted_by(segments: pa.Table, names: Sequence[str]) -> list[tuple[dict[str, Any], Count]]:
    """
    Count segments that are the same in some columns.

    :param segments: with these columns and ``segment_size_in_bytes``.
    :param names: of the columns.
    :return: for each group the values of these columns, by name, and how many and how large it is.
    """
    groups = groups_of(segments, names)
    counts = map(Count, groups.rows().tolist(), groups.total("segment_size_in_bytes").tolist())
    return list(zip(groups.keys(names).to_pylist(), counts, strict=True))


def added_up(counts: Iterable[tuple[K, Count]]) -> dict[K, Count]:
    """
    Add counts up that are of one thing each.

    :param counts: what each is of, and the count.
    :return: the sum of each thing, in the order in which they came first.
    """
    sums: dict[K, Count] = {}
    for key, count in counts:
        known = sums.get(key, NOTHING)
        sums[key] = Count(known.segments + count.segments, known.bytes + count.bytes)
    return sums


def sums_by(key: str, rows: Iterable[Any]) -> dict[Any, Count]:
    """Return the sums of rows that have counts of ``segments`` and ``bytes``, by a column."""
    return added_up((row[key], Count(row["segments"], row["bytes"])) for row in rows)
