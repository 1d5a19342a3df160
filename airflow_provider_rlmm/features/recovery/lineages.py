# SPDX-License-Identifier: Apache-2.0
"""
Segments of one user partition that share offsets, and offsets that none of them has. Pure.

Kafka copies an offset more than once: after a change of the leader, whose segments are cut elsewhere, or after a copy that
died. Records of one leader epoch are the same in every copy, and a later epoch replaces what an earlier one had there. So the
later of two segments is the one whose epochs are nowhere the lower and somewhere the higher; where each is the higher
somewhere these are two lineages, and where all are equal nothing tells the two copies apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.plans.catalogue_rows import MAX_PARTNERS, CatalogueRow, ProvedBy, RowKind

_MAX_NAMED = 3
"""Segments that the reason of a hole names."""

UserPartition = tuple[UUID, int]
"""Topic id and number of a user partition: the name of a topic decides nothing."""


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets of a whole segment."""

    stem: str  # names it
    start: int  # first offset, inclusive
    end: int  # last offset, inclusive
    epochs: tuple[tuple[int, int], ...]  # (leader epoch, its start offset), by epoch

    def epoch_at(self, offset: int) -> int:
        """
        Return the leader epoch of an offset.

        :param offset: one of the segment's.
        """
        return max(epoch for epoch, start in self.epochs if start <= offset)


def is_ordered(one: Span, other: Span) -> bool:
    """
    Tell whether leader epochs say which of two segments is the later one.

    :param one: a segment.
    :param other: another one of the same user partition, which shares offsets with it.
    """
    first, last = max(one.start, other.start), min(one.end, other.end)
    starts = {start for span in (one, other) for _, start in span.epochs if first < start <= last}
    pairs = [(one.epoch_at(offset), other.epoch_at(offset)) for offset in (first, *starts)]
    pairs.append((one.epochs[-1][0], other.epochs[-1][0]))
    return any(a > b for a, b in pairs) != any(a < b for a, b in pairs)


class Conflicts:
    """
    Finds the segments that share offsets without an order.

    In memory it keeps the segments that may still meet another one, and those in conflict.
    """

    def __init__(self) -> None:
        self._partition: UserPartition | None = None
        self._open: list[Span] = []
        self._partners: dict[str, list[str]] = {}
        self._count: dict[str, int] = {}

    def add(self, row: CatalogueRow) -> None:
        """
        Take note of a row.

        :param row: any; those of a user partition come together, by start offset.
        """
        if (span := span_of(row)) is None:
            return
        if (partition := partition_of(row)) != self._partition:
            self._partition, self._open = partition, []
        self._open = [before for before in self._open if before.end >= span.start]
        for before in self._open:
            if not is_ordered(before, span):
                self._note(before.stem, span.stem)
                self._note(span.stem, before.stem)
        self._open.append(span)

    def _note(self, stem: str, partner: str) -> None:
        partners = self._partners.setdefault(stem, [])
        self._count[stem] = self._count.get(stem, 0) + 1
        if len(partners) < MAX_PARTNERS:
            partners.append(partner)

    def judged(self, row: CatalogueRow) -> CatalogueRow:
        """
        Return a row with its partners, once all were added.

        :param row: as it was added.
        """
        if not row.kind.is_whole or (partners := self._partners.get(stem_of(row))) is None:
            return row
        count = self._count[stem_of(row)]
        shared = (
            "another segment has" if count == 1 else f"{number_of(count, 'other segment has', 'other segments have')}"
        )
        why = f"{shared} some of its offsets, and no leader epoch tells which one is the later"
        return replace(row, kind=RowKind.CONFLICT, partners=tuple(partners), why=why)


class Holes:
    """Finds the offsets between two whole segments of a user partition that no whole one covers."""

    def __init__(self) -> None:
        self._partition: UserPartition | None = None
        self._reaches: CatalogueRow | None = None
        self._others: list[CatalogueRow] = []

    def before(self, row: CatalogueRow) -> CatalogueRow | None:
        """
        Take note of a row, and return the hole before it.

        :param row: any; those of a user partition come together, by start offset.
        :return: ``None`` where there is none.
        """
        if row.topic_id is None or row.partition is None:
            return None
        if (partition := partition_of(row)) != self._partition:
            self._partition, self._reaches, self._others = partition, None, []
        if (span := span_of(row)) is None:
            if len(self._others) <= _MAX_NAMED:
                self._others.append(row)
            return None
        reached = None if self._reaches is None else span_of(self._reaches)
        hole = None
        if self._reaches is not None and reached is not None and reached.end + 1 < span.start:
            hole = _hole(self._reaches, row, reached.end + 1, span.start - 1, self._others)
        if reached is None or span.end >= reached.end:
            self._reaches = row
        self._others = []
        return hole


def _hole(
    before: CatalogueRow, behind: CatalogueRow, first: int, last: int, others: Sequence[CatalogueRow]
) -> CatalogueRow:
    named = "".join(f"; {stem_of(row)}, which is {row.kind}, may hold some of them" for row in others[:_MAX_NAMED])
    more = "; so may further ones" if len(others) > _MAX_NAMED else ""
    if "end_offset" in before.bounds:
        more += f"; {stem_of(before)} may reach further: only its last batch tells where it ends"
    return CatalogueRow(
        kind=RowKind.HOLE,
        proved_by=ProvedBy.NEIGHBOURS,
        topic_id=behind.topic_id,
        topic=behind.topic,
        partition=behind.partition,
        start_offset=first,
        end_offset=last,
        partners=(stem_of(before), stem_of(behind)),
        why=f"no whole segment has these offsets{named}{more}",
    )


def span_of(row: CatalogueRow) -> Span | None:
    """
    Return the offsets of a row.

    :param row: any.
    :return: ``None`` where it is no whole segment.
    """
    if not row.kind.is_whole or row.start_offset is None or row.end_offset is None or not row.segment_leader_epochs:
        return None
    return Span(stem_of(row), row.start_offset, row.end_offset, row.segment_leader_epochs)


def partition_of(row: CatalogueRow) -> UserPartition | None:
    """
    Return the user partition of a row.

    :param row: any.
    :return: ``None`` where it is of none.
    """
    return None if row.topic_id is None or row.partition is None else (row.topic_id, row.partition)


def stem_of(row: CatalogueRow) -> str:
    """
    Return what the keys of a row's objects have in common, which names its segment.

    :param row: with at least one key.
    """
    return row.keys[0].rpartition(".")[0]
