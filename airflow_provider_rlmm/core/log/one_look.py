# SPDX-License-Identifier: Apache-2.0
"""
One look at the metadata log: what it holds now, decoded, for those who keep nothing current by it.

What goes on where an earlier look has ended follows the log instead (:mod:`~airflow_provider_rlmm.core.log.follower`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow_provider_rlmm.core.log.event_decoding import decode_records
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader


def held(log: MetadataLogReader) -> dict[int, tuple[int, int]]:
    """
    Return what each metadata partition holds as of now: its first offset, inclusive, and its high watermark, exclusive.

    The beginnings are asked for first: what is deleted meanwhile makes the read an error, never a shorter history.
    """
    begins, ends = log.beginning_offsets(), log.high_water_marks()
    return {number: (begins[number], end) for number, end in sorted(ends.items())}


def newest(log: MetadataLogReader, most: int) -> dict[int, tuple[int, int]]:
    """
    Return the last offsets of each metadata partition that holds any, as :func:`held` does.

    :param log: the log.
    :param most: how many offsets of each.
    """
    return {number: (max(begin, end - most), end) for number, (begin, end) in held(log).items() if begin < end}


def look(log: MetadataLogReader, metadata_partition: int, start: int, end: int) -> Iterator[Any]:
    """
    Yield the records of a range, batch by batch, as :func:`~airflow_provider_rlmm.core.log.event_decoding.decode_records`.

    :param log: the log.
    :param metadata_partition: which partition.
    :param start: first offset, inclusive.
    :param end: last offset, exclusive.
    :raises OffsetOutOfRangeError: if the log no longer has the whole range.
    :raises EventLogUnavailableError: if it could not be read whole; what was yielded before is valid.
    """
    for batch in log.read(metadata_partition, start, end):
        yield decode_records(batch, metadata_partition, log.partition_count)


def look_at_many(log: MetadataLogReader, ranges: Mapping[int, tuple[int, int]]) -> Iterator[Any]:
    """
    Yield the records of several metadata partitions at once, which costs little more than one of them.

    :param log: the log.
    :param ranges: as :func:`held` and :func:`newest` return them.
    :raises OffsetOutOfRangeError: as :func:`look`, before anything is yielded.
    :raises EventLogUnavailableError: as :func:`look`.
    """
    for metadata_partition, batch in log.read_many(ranges):
        yield decode_records(batch, metadata_partition, log.partition_count)
