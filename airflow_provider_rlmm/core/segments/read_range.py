# SPDX-License-Identifier: Apache-2.0
"""Which records of a user partition are wanted: by offsets, or by times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from airflow_provider_rlmm.core.base.errors import ConfigurationError, OffsetNotInRemoteLogError
from airflow_provider_rlmm.core.records.records import TopicIdPartition

__all__ = ["OffsetRange", "ReadIsolation"]


class ReadIsolation(StrEnum):
    """Which records of transactions are read (Kafka: ``isolation.level``)."""

    READ_UNCOMMITTED = "read_uncommitted"
    """All, those of aborted and open transactions, too."""
    READ_COMMITTED = "read_committed"
    """Those of committed transactions, up to the first one that was open where the remote log ends."""


@dataclass(frozen=True, slots=True)
class ReadRange:
    """
    A range of records. A time means what it means to Kafka's consumers: the offset of the first record whose timestamp is
    that time or later.

    :param start_offset: first offset, inclusive; ``None`` for the first that is in remote storage.
    :param end_offset: last offset, exclusive; ``None`` for the end of what is in remote storage.
    :param start_ms: instead of ``start_offset``: ms since the epoch, inclusive.
    :param end_ms: instead of ``end_offset``: ms since the epoch, exclusive.
    :raises ConfigurationError: if an end is said twice, or lies before the start.
    """

    start_offset: int | None = None
    end_offset: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None

    def __post_init__(self) -> None:
        for offset, time_ms, what in (
            (self.start_offset, self.start_ms, "start"),
            (self.end_offset, self.end_ms, "end"),
        ):
            if offset is not None and time_ms is not None:
                raise ConfigurationError(f"the {what} is given as an offset and as a time: give one of them")
        for start, end in ((self.start_offset, self.end_offset), (self.start_ms, self.end_ms)):
            if start is not None and end is not None and end < start:
                raise ConfigurationError(f"the end, {end}, lies before the start, {start}: give a later one, or none")


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """
    Offsets of one user partition.

    :param start: first offset, inclusive.
    :param end: last offset, exclusive.
    """

    start: int
    end: int


def within(
    tip: TopicIdPartition,
    remote: OffsetRange,
    start: int | None,
    end: int | None,
    *,
    allow_incomplete: bool = False,
) -> OffsetRange:
    """
    Return the offsets that are to be read, all of which are in remote storage.

    :param tip: the user partition, for the error.
    :param remote: what is in remote storage.
    :param start: wanted first offset, inclusive; ``None`` for the first in remote storage.
    :param end: wanted last offset, exclusive; ``None`` for the end of what is in remote storage.
    :param allow_incomplete: take what there is of it.
    :raises OffsetNotInRemoteLogError: if some of the wanted offsets are not in remote storage.
    """
    first, last = remote.start if start is None else start, remote.end if end is None else end
    if allow_incomplete:
        first = max(first, remote.start)
        return OffsetRange(first, max(first, min(last, remote.end)))
    there = f"offset {{}} of {tip} is wanted, and remote storage has {remote.start} to {remote.end - 1}"
    if first < remote.start:
        raise OffsetNotInRemoteLogError(
            f"{there.format(first)}: what lies before was deleted, or never copied. Begin at {remote.start}, or allow an "
            "incomplete range"
        )
    if max(first, last) > remote.end:
        raise OffsetNotInRemoteLogError(
            f"{there.format(max(first, last) - 1)}: the rest is not copied yet, or the offset is of another topic. Wait for "
            "it, name no end, or allow an incomplete range"
        )
    return OffsetRange(first, max(first, last))


def split(offsets: OffsetRange, segments: Iterable[tuple[int, int]], most_bytes: int) -> list[OffsetRange]:
    """
    Cut a range where segments begin, into pieces that can be read apart from each other.

    :param offsets: the range.
    :param segments: start offset, inclusive, and size in bytes of each segment that may hold some of it.
    :param most_bytes: of the segments that make a piece; a single larger one is a piece all the same.
    :return: pieces in order, without a gap; none of an empty range.
    """
    if offsets.start >= offsets.end:
        return []
    begins, size = [offsets.start], 0
    for start, size_in_bytes in sorted(segments):
        if start >= offsets.end:
            break
        if start > begins[-1] and size and size + size_in_bytes > most_bytes:
            begins.append(start)
            size = 0
        size += size_in_bytes
    return [OffsetRange(start, end) for start, end in zip(begins, [*begins[1:], offsets.end], strict=True)]
