# SPDX-License-Identifier: Apache-2.0
"""
The directory of one user partition as a broker has left it: its topic id, its lineage, its segments.

The last segment is the one that the broker appended to. All before it are closed: only these are ever copied.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from airflow_provider_rlmm.core.base.errors import DamagedObjectError, LogDirectoryError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.storage.segment_files import LogSegmentData
from airflow_provider_rlmm.features.copying.log_directory.disk import LogDisk
from airflow_provider_rlmm.features.copying.log_directory.names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PARTITION_METADATA,
    PRODUCER_SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    TopicPartition,
    parse_segment_file_name,
    segment_file_name,
    why_marked,
)
from airflow_provider_rlmm.features.copying.log_directory.regular_files import open_regular
from airflow_provider_rlmm.features.copying.log_directory.text_files import read_text, read_topic_id
from airflow_provider_rlmm.features.copying.rules import LocalSegment

__all__ = ["LogDirectory", "LogSegment", "SegmentFile"]

_INTERRUPTED = (".cleaned", ".swap")
"""Behind the suffix of a file that the log cleaner was about to put in the place of others."""
_DELETED = ".deleted"
_TIME_INDEX_ENTRY = struct.Struct(">qi")
"""Timestamp in ms, offset from the base offset (Kafka: ``TimeIndex``)."""


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """
    One file of a segment, as it was when its directory was opened.

    :param path: where it lies.
    :param size_in_bytes: its size.
    :param modified_ns: its modification time, ns since the epoch.
    """

    path: Path
    size_in_bytes: int
    modified_ns: int

    def check_unchanged(self) -> None:
        """
        Make sure that the file has the size and the time that it had.

        :raises LogDirectoryError: if it has not, or is gone.
        """
        try:
            now = self.path.stat(follow_symlinks=False)
        except OSError as e:
            raise LogDirectoryError(f"{self.path} cannot be read any more: {e.strerror}") from e
        if (now.st_size, now.st_mtime_ns) != (self.size_in_bytes, self.modified_ns):
            raise LogDirectoryError(
                f"{self.path} has changed since its directory was opened: a broker has started on the disk, or another"
                " program writes there; stop it and begin again with a new snapshot"
            )


@dataclass(frozen=True, slots=True)
class LogSegment:
    """
    A closed segment: the broker appends to it no more.

    :param base_offset: its first offset.
    :param next_offset: base offset of the segment behind it.
    :param log: its records.
    :param offset_index: offset index, ``None`` where it is missing.
    :param time_index: time index, ``None`` where it is missing.
    :param transaction_index: transaction index, ``None`` where it is missing or empty: both mean no aborted transaction.
    :param producer_snapshot: the producers as of :attr:`next_offset`, ``None`` where it is missing.
    """

    base_offset: int
    next_offset: int
    log: SegmentFile
    offset_index: SegmentFile | None
    time_index: SegmentFile | None
    transaction_index: SegmentFile | None
    producer_snapshot: SegmentFile | None

    @property
    def end_offset(self) -> int:
        """Its last offset, inclusive."""
        return self.next_offset - 1

    @property
    def modified_ms(self) -> int:
        """Modification time of its records, ms since the epoch: what Kafka takes where no record has a timestamp."""
        return self.log.modified_ns // 1_000_000

    @property
    def files(self) -> tuple[SegmentFile, ...]:
        """All its files that are there."""
        all_files = (self.log, self.offset_index, self.time_index, self.transaction_index, self.producer_snapshot)
        return tuple(file for file in all_files if file is not None)

    def check_unchanged(self) -> None:
        """
        Make sure that no file has changed since the directory was opened: before it is used, and after.

        :raises LogDirectoryError: if one has; the message names it.
        """
        for file in self.files:
            file.check_unchanged()


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """
    The directory of a user partition.

    :param path: the directory.
    :param topic_id_partition: by ``partition.metadata`` and by the directory's name.
    :param leader_epochs: its lineage, from the log start offset on, as a broker has it after its start.
    :param log_start_offset: the first offset that anybody may read, as the disk's checkpoint has it; else that of its first
        segment.
    :param high_watermark: what was replicated to all in-sync replicas, exclusive, as of some seconds before the broker's end;
        ``None`` where the disk's checkpoint does not say.
    :param closed_segments: by offset, without those that lie wholly below the log start offset: no consumer may read them.
    :param active_base_offset: base offset of the segment that the broker appended to.
    """

    path: Path
    topic_id_partition: TopicIdPartition
    leader_epochs: LeaderEpochCheckpoint
    log_start_offset: int
    high_watermark: int | None
    closed_segments: tuple[LogSegment, ...]
    active_base_offset: int

    @classmethod
    def open(cls, disk: LogDisk, partition: TopicPartition) -> LogDirectory:
        """
        Look at the directory of a user partition. No record is read: that is
        :func:`~airflow_provider_rlmm.features.copying.log_directory.verification.verify_segment`'s to do.

        :param disk: the disk that it lies on.
        :param partition: the user partition.
        :raises LogDirectoryError: if the disk does not hold it, a broker has marked it, or a file of it is missing or
            damaged.
        """
        path = disk.directory_of(partition)
        if (why := why_marked(path.name)) is not None:
            raise LogDirectoryError(f"{path} is not copied: {why}")
        topic_id = read_topic_id(path / PARTITION_METADATA)
        files, bases = _segment_files(path)
        if not bases:
            raise LogDirectoryError(f"{path} holds no segment: a broker leaves one at least")
        log_start_offset = disk.log_start_offsets.get(partition)
        return cls(
            path=path,
            topic_id_partition=TopicIdPartition(topic_id, partition.topic, partition.partition),
            leader_epochs=_leader_epochs(path, log_start_offset),
            log_start_offset=bases[0] if log_start_offset is None else log_start_offset,
            high_watermark=disk.high_watermarks.get(partition),
            closed_segments=tuple(
                _segment(files, base, following)
                for base, following in pairwise(bases)
                if log_start_offset is None or following > log_start_offset
            ),
            active_base_offset=bases[-1],
        )

    def local_segment(self, segment: LogSegment) -> LocalSegment:
        """
        Return what remote metadata say of a segment, by its indexes and its files alone.

        :param segment: one of the closed segments.
        :raises LogDirectoryError: if its time index is missing or cut, or the lineage does not reach it.
        """
        return LocalSegment(
            base_offset=segment.base_offset,
            end_offset=segment.end_offset,
            size_in_bytes=segment.log.size_in_bytes,
            max_timestamp_ms=self._max_timestamp_ms(segment),
            leader_epochs=self.segment_leader_epochs(segment),
            txn_index_empty=segment.transaction_index is None,
        )

    def segment_leader_epochs(self, segment: LogSegment) -> tuple[tuple[int, int], ...]:
        """
        Return the leader epochs of a segment and where each begins in it, by epoch.

        :param segment: one of the closed segments.
        :raises LogDirectoryError: if the lineage has none there: the segment lies wholly below the log start offset.
        """
        entries = self.leader_epochs.in_range(segment.base_offset, segment.next_offset).entries
        if not entries:
            raise LogDirectoryError(
                f"{segment.log.path}: {self.path / LEADER_EPOCH_CHECKPOINT} knows no leader epoch of the offsets"
                f" {segment.base_offset} to {segment.end_offset}; its first is {self.leader_epochs.entries[:1]}. What lies"
                " below the log start offset is not copied"
            )
        return entries

    def log_segment_data(self, segment: LogSegment) -> LogSegmentData:
        """
        Return the files of a segment as remote storage takes them.

        :param segment: one of the closed segments.
        :raises LogDirectoryError: if one of them is missing; the message names it.
        """
        name = segment_file_name(segment.base_offset, OFFSET_INDEX_SUFFIX)
        time_name = segment_file_name(segment.base_offset, TIME_INDEX_SUFFIX)
        snapshot_name = segment_file_name(segment.next_offset, PRODUCER_SNAPSHOT_SUFFIX)
        return LogSegmentData(
            log_segment=segment.log.path,
            offset_index=self._there(segment.offset_index, name),
            time_index=self._there(segment.time_index, time_name),
            producer_snapshot_index=self._there(segment.producer_snapshot, snapshot_name),
            leader_epoch_index=self.leader_epochs.in_range(-1, segment.next_offset).to_text().encode("ascii"),
            transaction_index=None if segment.transaction_index is None else segment.transaction_index.path,
        )

    def _max_timestamp_ms(self, segment: LogSegment) -> int:
        """The last entry of the time index: a broker adds the highest timestamp when it closes a segment."""
        name = segment_file_name(segment.base_offset, TIME_INDEX_SUFFIX)
        path = self._there(segment.time_index, name)
        try:
            with open_regular(path) as file:
                file.seek(-min(_TIME_INDEX_ENTRY.size, file.seek(0, os.SEEK_END)), os.SEEK_END)
                entry = file.read()
        except OSError as e:
            raise LogDirectoryError(f"{path} cannot be read: {e.strerror}") from e
        if not entry:
            return segment.modified_ms
        if len(entry) != _TIME_INDEX_ENTRY.size:
            raise LogDirectoryError(f"{path} is cut: {len(entry)} bytes are no entry of a time index")
        timestamp_ms: int = _TIME_INDEX_ENTRY.unpack(entry)[0]
        return timestamp_ms if timestamp_ms >= 0 else segment.modified_ms

    def _there(self, file: SegmentFile | None, name: str) -> Path:
        if file is None:
            raise LogDirectoryError(
                f"{self.path / name} is missing: without it brokers cannot serve the segment. A broker that starts on the"
                " disk makes indexes and the last producer snapshots anew; else copy the segment from another replica's disk"
            )
        return file.path


def _leader_epochs(path: Path, log_start_offset: int | None) -> LeaderEpochCheckpoint:
    file = path / LEADER_EPOCH_CHECKPOINT
    text = read_text(file)
    if not text:
        raise LogDirectoryError(f"{file} is missing or empty: nothing says which leaders wrote the records")
    try:
        leader_epochs = LeaderEpochCheckpoint.parse(text.encode("utf-8"), location=str(file))
    except DamagedObjectError as e:
        raise LogDirectoryError(str(e)) from e
    # A broker writes it some time after the log start offset has moved, and does the same when it starts.
    return leader_epochs if log_start_offset is None else leader_epochs.truncate_from_start(log_start_offset)


def _segment_files(path: Path) -> tuple[Mapping[str, SegmentFile], list[int]]:
    """The files of all segments by name, and the base offsets of the segments in order."""
    files: dict[str, SegmentFile] = {}
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                name = parse_segment_file_name(entry.name)
                if name is None or name.rest == _DELETED:
                    continue
                if name.rest:
                    _refuse_unfinished(Path(entry.path), name.rest)
                status = entry.stat(follow_symlinks=False)
                if not stat.S_ISREG(status.st_mode):
                    raise LogDirectoryError(f"{entry.path} is no regular file: a broker does not make such a thing")
                files[entry.name] = SegmentFile(Path(entry.path), status.st_size, status.st_mtime_ns)
    except OSError as e:
        raise LogDirectoryError(f"{path} cannot be listed: {e.strerror}") from e
    return files, sorted(int(name.removesuffix(LOG_SUFFIX)) for name in files if name.endswith(LOG_SUFFIX))


def _refuse_unfinished(path: Path, rest: str) -> None:
    if rest.endswith(_INTERRUPTED):
        raise LogDirectoryError(
            f"{path}: the broker ended while it put a compacted segment in the place of others; start it on the disk, that"
            " ends the work, and stop it again"
        )
    raise LogDirectoryError(
        f"{path}: no broker leaves a file with {in_quotes(rest)} in its name; take it away if it is yours"
    )


def _segment(files: Mapping[str, SegmentFile], base: int, following: int) -> LogSegment:
    transaction_index = files.get(segment_file_name(base, TRANSACTION_INDEX_SUFFIX))
    return LogSegment(
        base_offset=base,
        next_offset=following,
        log=files[segment_file_name(base, LOG_SUFFIX)],
        offset_index=files.get(segment_file_name(base, OFFSET_INDEX_SUFFIX)),
        time_index=files.get(segment_file_name(base, TIME_INDEX_SUFFIX)),
        transaction_index=transaction_index
        if transaction_index is not None and transaction_index.size_in_bytes
        else None,
        producer_snapshot=files.get(segment_file_name(following, PRODUCER_SNAPSHOT_SUFFIX)),
    )
