# SPDX-License-Identifier: Apache-2.0
"""
Whether a closed segment is what a broker has written: before it is copied, every byte of its log is read.

Checked are the checksums of all batches; that offsets follow each other without a gap from the segment's base offset to the
next segment's; that the leader epochs of the batches are those of the checkpoint; that offset index and time index say what
the log says; that the transaction index has the aborted transactions; that the producer snapshot knows nothing later.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from airflow_provider_rlmm.core.base.errors import DamagedObjectError, LogDirectoryError
from airflow_provider_rlmm.core.segments.indexes.offset_index import OffsetIndex
from airflow_provider_rlmm.core.segments.indexes.producer_snapshot import ProducerSnapshot
from airflow_provider_rlmm.core.segments.indexes.time_index import NO_TIMESTAMP, TimeIndex
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders
from airflow_provider_rlmm.core.storage.segment_files import LogSegmentData
from airflow_provider_rlmm.features.copying.log_directory.aborted_transactions import AbortedTransactionsCheck
from airflow_provider_rlmm.features.copying.log_directory.batch_reading import CHUNK_BYTES, read_batches
from airflow_provider_rlmm.features.copying.log_directory.names import (
    PRODUCER_SNAPSHOT_SUFFIX,
    segment_file_name,
)
from airflow_provider_rlmm.features.copying.log_directory.partition import LogDirectory, LogSegment
from airflow_provider_rlmm.features.copying.log_directory.regular_files import read_index
from airflow_provider_rlmm.features.copying.rules import LocalSegment

__all__ = ["VerifiedSegment", "verify_segment"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class VerifiedSegment:
    """
    A segment that may be copied as far as its files can tell. Only :func:`verify_segment` makes one.

    :param segment: its files, to be checked once more after the copy (:meth:`LogSegment.check_unchanged`).
    :param local_segment: what its metadata say.
    :param data: its files as remote storage takes them.
    """

    segment: LogSegment
    local_segment: LocalSegment
    data: LogSegmentData


def verify_segment(directory: LogDirectory, segment: LogSegment, *, chunk_bytes: int = CHUNK_BYTES) -> VerifiedSegment:
    """
    Read a closed segment whole and compare its files with each other.

    :param directory: the directory that it lies in.
    :param segment: one of its closed segments.
    :param chunk_bytes: how much of the log is read at once.
    :return: the segment, ready to be copied.
    :raises DamagedObjectError: if the log or an index is damaged; the error has file and position.
    :raises LogDirectoryError: if a file is missing, has changed meanwhile, or the lineage is not the segment's.
    :raises UnsupportedMessageFormatError: if a batch is older than message format v2.
    """
    segment.check_unchanged()
    data = directory.log_segment_data(segment)
    local_segment = directory.local_segment(segment)
    log = _LogCheck(directory.leader_epochs, segment, data)
    aborted = AbortedTransactionsCheck(
        segment, log_start_offset=directory.leader_epochs.entries[0][1], before=_producers_before(directory, segment)
    )
    for chunk in read_batches(data.log_segment, chunk_bytes=chunk_bytes):
        chunk.headers.verify_checksums(chunk.data)
        log.take(chunk.headers)
        aborted.take(chunk.data, chunk.headers)
    log.finish()
    aborted.finish()
    _check_producers(segment, data.producer_snapshot_index)
    segment.check_unchanged()
    return VerifiedSegment(segment, local_segment, data)


class _LogCheck:
    """
    Compares the batches of a log, in order, with offsets, lineage and indexes.

    :param leader_epochs: the lineage of the user partition.
    :param segment: the segment.
    :param data: its files.
    """

    def __init__(self, leader_epochs: LeaderEpochCheckpoint, segment: LogSegment, data: LogSegmentData) -> None:
        self._segment = segment
        self._epochs = np.array([epoch for epoch, _ in leader_epochs.entries], np.int64)
        self._epoch_starts = np.array([start for _, start in leader_epochs.entries], np.int64)
        self._next_offset = segment.base_offset
        self._end_position = 0
        self._highest_ms = NO_TIMESTAMP
        self._offset_entries = _OffsetEntries(segment, data.offset_index)
        self._time_entries = _TimeEntries(segment, data.time_index)

    def take(self, headers: BatchHeaders) -> None:
        """Check some batches, of which the checksums are right."""
        self._check_offsets(headers)
        self._check_epochs(headers)
        position = headers.position + headers.data_position
        self._offset_entries.take(position, headers.base_offset)
        highest = np.maximum.accumulate(np.append(self._highest_ms, headers.max_timestamp_ms))[1:]
        self._time_entries.take(headers.base_offset, highest)
        self._next_offset = int(headers.last_offset[-1]) + 1
        self._highest_ms = int(highest[-1])
        self._end_position = int(position[-1] + headers.size_in_bytes[-1])

    def finish(self) -> None:
        """Check that the log has ended where it must."""
        if self._next_offset != self._segment.next_offset:
            raise self._damaged(
                self._end_position,
                f"its records end before offset {self._next_offset}, and the next segment begins with"
                f" {self._segment.next_offset}",
            )
        self._offset_entries.finish()
        self._time_entries.finish(self._highest_ms)

    def _check_offsets(self, headers: BatchHeaders) -> None:
        # A log that was compacted once has gaps, too: nothing tells them from lost records, so a broker has to copy it.
        expected = np.append(self._next_offset, headers.last_offset[:-1] + 1)
        if (row := _first(headers.base_offset != expected)) is not None:
            raise headers.damaged(
                int(headers.position[row]),
                f"it begins with offset {headers.base_offset[row]} where {expected[row]} must follow: records were lost,"
                " or the topic was compacted once; let a broker copy this segment",
            )
        if (row := _first(headers.last_offset >= self._segment.next_offset)) is not None:
            raise headers.damaged(
                int(headers.position[row]),
                f"it reaches to offset {headers.last_offset[row]}, into the next segment, which begins with"
                f" {self._segment.next_offset}",
            )

    def _check_epochs(self, headers: BatchHeaders) -> None:
        entry = np.searchsorted(self._epoch_starts, headers.base_offset, side="right") - 1
        last = np.searchsorted(self._epoch_starts, headers.last_offset, side="right") - 1
        # Below the log start offset the lineage is not known any more.
        wrong = (entry >= 0) & ((last != entry) | (self._epochs[entry] != headers.leader_epoch))
        if (row := _first(wrong)) is not None:
            raise headers.damaged(
                int(headers.position[row]),
                f"offsets {headers.base_offset[row]} to {headers.last_offset[row]} were written in leader epoch"
                f" {headers.leader_epoch[row]}, and the directory's leader-epoch-checkpoint says"
                f" {self._epochs[entry[row]]}: one of them is of another time. A broker that starts on the disk makes them"
                " agree; else copy the segment from another replica's disk",
            )

    def _damaged(self, position: int, reason: str) -> DamagedObjectError:
        location = str(self._segment.log.path)
        return DamagedObjectError(f"{location} is damaged at byte {position}: {reason}", location, position)


class _OffsetEntries:
    """
    The offset index: each entry's position is where a batch begins that does not begin above the entry's offset.

    :param segment: the segment.
    :param path: its offset index.
    """

    _ENTRY_BYTES = 8

    def __init__(self, segment: LogSegment, path: Path) -> None:
        self._location = str(path)
        index = OffsetIndex.parse(read_index(path), base_offset=segment.base_offset, location=self._location)
        self._segment = segment
        self._position = index.position
        self._offset = index.relative_offset + segment.base_offset
        self._next = 0

    def take(self, position: Array, base_offset: Array) -> None:
        """Check the entries whose position is among these batches, which are in order."""
        end = int(np.searchsorted(self._position, position[-1], side="right"))
        rows = np.searchsorted(position, self._position[self._next : end])
        for wrong, reason in (
            (position[rows] != self._position[self._next : end], "no batch begins at its position"),
            (base_offset[rows] > self._offset[self._next : end], "the batch at its position begins above its offset"),
        ):
            if (row := _first(wrong)) is not None:
                raise self._damaged(self._next + row, reason)
        self._next = end

    def finish(self) -> None:
        """Check that no entry points behind the log, or to an offset behind it."""
        if self._next < len(self._position):
            raise self._damaged(self._next, "its position is behind the last batch")
        if (row := _first(self._offset >= self._segment.next_offset)) is not None:
            raise self._damaged(row, "its offset is not of this segment")

    def _damaged(self, row: int, reason: str) -> DamagedObjectError:
        position = row * self._ENTRY_BYTES
        return DamagedObjectError(
            f"{self._location} is damaged at byte {position}: offset {self._offset[row]}, position {self._position[row]}:"
            f" {reason}",
            self._location,
            position,
        )


class _TimeEntries:
    """
    The time index: each entry is the highest timestamp up to its offset, the last one the highest of the segment.

    :param segment: the segment.
    :param path: its time index.
    """

    _ENTRY_BYTES = 12

    def __init__(self, segment: LogSegment, path: Path) -> None:
        self._location = str(path)
        index = TimeIndex.parse(read_index(path), base_offset=segment.base_offset, location=self._location)
        self._timestamp_ms = index.timestamp_ms
        self._offset = index.relative_offset + segment.base_offset
        self._segment = segment
        self._next = 0
        self._before: tuple[int, int] | None = (
            None  # the last batch of the chunk before: its base offset, highest timestamp
        )

    def take(self, base_offset: Array, highest_ms: Array) -> None:
        """
        Check the entries whose offset is surely within these batches.

        :param base_offset: of each batch.
        :param highest_ms: the highest timestamp of the log up to each batch.
        """
        if self._before is not None:
            base_offset = np.append(self._before[0], base_offset)
            highest_ms = np.append(self._before[1], highest_ms)
        # An entry behind the beginning of the last batch belongs to it, or to a later one: the next call tells.
        end = int(np.searchsorted(self._offset, base_offset[-1]))
        self._check(end, base_offset, highest_ms)
        self._before = int(base_offset[-1]), int(highest_ms[-1])

    def finish(self, highest_ms: int) -> None:
        """
        Check the entries of the last batch, and that the last one is the highest.

        :param highest_ms: the highest timestamp of the log, -1 for none.
        """
        if self._before is not None:
            base_offset, highest = self._before
            self._check(len(self._offset), np.array([base_offset]), np.array([highest]))
        if (row := _first(self._offset >= self._segment.next_offset)) is not None:
            raise self._damaged(row, "its offset is not of this segment")
        last_ms = int(self._timestamp_ms[-1]) if len(self._timestamp_ms) else NO_TIMESTAMP
        if last_ms != max(highest_ms, NO_TIMESTAMP):
            raise DamagedObjectError(
                f"{self._location} is damaged: it ends with timestamp {last_ms}, and the highest of the segment is"
                f" {highest_ms}",
                self._location,
                max(len(self._timestamp_ms) - 1, 0) * self._ENTRY_BYTES,
            )

    def _check(self, end: int, base_offset: Array, highest_ms: Array) -> None:
        rows = np.searchsorted(base_offset, self._offset[self._next : end], side="right") - 1
        if (row := _first(highest_ms[rows] != self._timestamp_ms[self._next : end])) is not None:
            raise self._damaged(self._next + row, f"the highest timestamp up to there is {highest_ms[rows[row]]}")
        self._next = end

    def _damaged(self, row: int, reason: str) -> DamagedObjectError:
        position = row * self._ENTRY_BYTES
        return DamagedObjectError(
            f"{self._location} is damaged at byte {position}: timestamp {self._timestamp_ms[row]} up to offset"
            f" {self._offset[row]}: {reason}",
            self._location,
            position,
        )


def _producers_before(directory: LogDirectory, segment: LogSegment) -> ProducerSnapshot | None:
    """The producers where the segment begins: the snapshot there belongs to the segment before."""
    if segment.base_offset == 0:
        return ProducerSnapshot(())
    path = directory.path / segment_file_name(segment.base_offset, PRODUCER_SNAPSHOT_SUFFIX)
    return ProducerSnapshot.parse(read_index(path), location=str(path)) if path.exists() else None


def _check_producers(segment: LogSegment, path: Path) -> None:
    """A snapshot of a later offset gives itself away; one of an earlier offset cannot be told from the right one."""
    for state in ProducerSnapshot.parse(read_index(path), location=str(path)).producers:
        known = max(state.last_offset, state.open_since_offset or 0)
        if known >= segment.next_offset:
            raise LogDirectoryError(
                f"{path} knows of producer {state.producer_id} at offset {known}, and is to tell of what lies below"
                f" {segment.next_offset}: it is another segment's"
            )


def _first(wrong: Array) -> int | None:
    return int(np.argmax(wrong)) if wrong.any() else None
