# SPDX-License-Identifier: Apache-2.0
"""
The records that prove whose lineage a log directory has: the last one of each leader epoch.

Two replicas that have the same record of the same leader epoch at an offset have the same log up to it. So a caller that
compares these records with the leader's knows that all below the last of them is the leader's log, and nothing about what
lies behind it. The markers that end transactions prove nothing here: no consumer is given them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from airflow_provider_rlmm.core.base.errors import RemoteLogError
from airflow_provider_rlmm.core.log.answers import LeaderRecord
from airflow_provider_rlmm.core.segments.indexes.offset_index import OffsetIndex
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders
from airflow_provider_rlmm.core.segments.record_batches.records import to_arrow
from airflow_provider_rlmm.features.copying.log_directory.batch_reading import read_batches
from airflow_provider_rlmm.features.copying.log_directory.names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    segment_file_name,
)
from airflow_provider_rlmm.features.copying.log_directory.partition import LogDirectory
from airflow_provider_rlmm.features.copying.log_directory.regular_files import read_index

_CHUNK_BYTES: Final = 256 * 1024
_INDEX_ENTRY_BYTES: Final = 8
_MAX_BATCH_BYTES: Final = 1024 * 1024 * 1024
"""The most that a batch may have, unpacked."""


def last_records_of_epochs(
    directory: LogDirectory, *, log_start_offset: int, end_offset: int
) -> tuple[LeaderRecord, ...]:
    """
    Return the last record of each leader epoch that the directory holds between two offsets, ascending.

    The segment that the broker appended to is read as well, as far as it is whole: a record behind the last closed segment
    proves that segment to its end.

    :param directory: the directory.
    :param log_start_offset: first offset, inclusive: the leader serves nothing below it.
    :param end_offset: last offset, exclusive: what the leader has not yet replicated may change.
    :return: the records; an epoch without any, or with nothing but markers, has none.
    :raises DamagedObjectError: if a closed segment or its offset index is damaged.
    :raises LogDirectoryError: if a file is missing or cannot be read.
    """
    entries = directory.leader_epochs.entries
    ends = [start for _, start in entries[1:]] + [end_offset]
    found = (
        _last_record(directory, epoch, max(start, log_start_offset), min(end, end_offset))
        for (epoch, start), end in zip(entries, ends, strict=True)
    )
    return tuple(record for record in found if record is not None)


class _Log(NamedTuple):
    """A segment's log, and whether the broker appended to it last."""

    base_offset: int
    path: Path
    is_active: bool


class _Found(NamedTuple):
    """A batch and what it was found in."""

    data: bytes
    headers: BatchHeaders


def _last_record(directory: LogDirectory, epoch: int, start: int, end: int) -> LeaderRecord | None:
    for log in _logs_backwards(directory, start, end):
        if (record := _record_of(log, epoch, start, end)) is not None:
            return record
    return None


def _logs_backwards(directory: LogDirectory, start: int, end: int) -> Iterator[_Log]:
    """From the last log that begins before the end, down to the one that holds the start; of others no file need be there."""
    base = directory.active_base_offset
    if base < end:
        yield _Log(base, directory.path / segment_file_name(base, LOG_SUFFIX), is_active=True)
    for segment in reversed(directory.closed_segments):
        if segment.base_offset < end and segment.next_offset > start:
            yield _Log(segment.base_offset, segment.log.path, is_active=False)


def _record_of(log: _Log, epoch: int, start: int, end: int) -> LeaderRecord | None:
    try:
        found = _last_batch(log, end)
        return None if found is None else _last_of_batch(found, epoch, start, end)
    except RemoteLogError:
        # A broker that dies may leave the end of the last segment in pieces: that one is not copied, and proves nothing then.
        if not log.is_active:
            raise
        return None


def _last_batch(log: _Log, end: int) -> _Found | None:
    """The last batch with records for consumers that begins before an offset."""
    path = log.path.with_suffix(OFFSET_INDEX_SUFFIX)
    data = _written_entries(read_index(path)) if log.is_active else read_index(path)
    position = OffsetIndex.parse(data, base_offset=log.base_offset, location=str(path)).lookup(end - 1)
    found = _last_batch_from(log, position, end)
    return _last_batch_from(log, 0, end) if found is None and position else found


def _written_entries(data: bytes) -> bytes:
    """The entries of an index that the broker had open: it makes the file with room for more, which is filled with zeros."""
    position = np.frombuffer(data[: len(data) - len(data) % _INDEX_ENTRY_BYTES], ">i4")[1::2]
    written = int(np.argmin(position > 0)) if (position <= 0).any() else position.size
    return data[: written * _INDEX_ENTRY_BYTES]


def _last_batch_from(log: _Log, position: int, end: int) -> _Found | None:
    found: _Found | None = None
    for chunk in read_batches(log.path, position=position, chunk_bytes=_CHUNK_BYTES):
        before = chunk.headers.base_offset < end
        records = chunk.headers[before & ~chunk.headers.is_control]
        if len(records):
            found = _Found(bytes(chunk.data), records[len(records) - 1 :])
        if not before.all():
            break
    return found


def _last_of_batch(found: _Found, epoch: int, start: int, end: int) -> LeaderRecord | None:
    data, headers = found
    headers.verify_checksums(data)
    records = to_arrow(data, headers, max_decompressed_bytes=_MAX_BATCH_BYTES)
    offsets = records.column("offset").to_numpy()
    rows = np.flatnonzero((offsets >= start) & (offsets < end))
    if not rows.size:
        return None
    (row,) = records.slice(int(rows[-1]), 1).to_pylist()
    if int(headers.leader_epoch[0]) != epoch:
        raise headers.damaged(
            int(headers.position[0]),
            f"offset {row['offset']} was written in leader epoch {headers.leader_epoch[0]}, and the directory's"
            f" leader-epoch-checkpoint says {epoch}",
        )
    return _leader_record(row, epoch)


def _leader_record(row: dict[str, Any], epoch: int) -> LeaderRecord:
    return LeaderRecord(
        offset=row["offset"],
        leader_epoch=epoch,
        timestamp_ms=row["timestamp"],
        key=row["key"],
        value=row["value"],
        headers=tuple((header["key"], header["value"]) for header in row["headers"]),
    )
