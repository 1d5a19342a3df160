# SPDX-License-Identifier: Apache-2.0
"""
Whether a closed segment is what a broker has written: before it is copied, every byte of its log is read.

Checked is what :class:`~airflow_provider_rlmm.core.segments.proof.segment_checks.SegmentChecks` compares, without gaps in the
offsets: nothing tells those of a log that was compacted once from lost records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from airflow_provider_rlmm.core.base.errors import DamagedObjectError, LogDirectoryError
from airflow_provider_rlmm.core.segments.indexes.producer_snapshot import ProducerSnapshot
from airflow_provider_rlmm.core.segments.proof.fields import SegmentFields, Surroundings
from airflow_provider_rlmm.core.segments.proof.findings import DamageKind, Finding
from airflow_provider_rlmm.core.segments.proof.segment_checks import SegmentChecks
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.segment_files import LogSegmentData
from airflow_provider_rlmm.features.copying.log_directory.batch_reading import CHUNK_BYTES, read_batches
from airflow_provider_rlmm.features.copying.log_directory.names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file_name,
)
from airflow_provider_rlmm.features.copying.log_directory.partition import LogDirectory, LogSegment
from airflow_provider_rlmm.features.copying.log_directory.regular_files import read_index
from airflow_provider_rlmm.features.copying.rules import LocalSegment

__all__ = ["VerifiedSegment", "verify_segment"]

_SUFFIXES: Final[Mapping[IndexType, str]] = {
    IndexType.OFFSET: OFFSET_INDEX_SUFFIX,
    IndexType.TIMESTAMP: TIME_INDEX_SUFFIX,
    IndexType.TRANSACTION: TRANSACTION_INDEX_SUFFIX,
}

_ADVICE: Final[Mapping[DamageKind, str]] = {
    DamageKind.OFFSETS: "; let a broker copy this segment",
    DamageKind.LEADER_EPOCH: (
        ": one of them is of another time. A broker that starts on the disk makes them agree; else copy the segment from "
        "another replica's disk"
    ),
    DamageKind.INDEX: ". Copy the segment from another replica's disk",
}


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
    checks = SegmentChecks(
        SegmentFields(start_offset=segment.base_offset, end_offset=segment.end_offset),
        Surroundings(lineage=directory.leader_epochs.entries, producers_before=_producers_before(directory, segment)),
        _indexes(data),
        partial(_refuse, segment),
    )
    for chunk in read_batches(data.log_segment, chunk_bytes=chunk_bytes):
        chunk.headers.verify_checksums(chunk.data)
        checks.take(chunk.data, chunk.headers)
    checks.finish()
    segment.check_unchanged()
    return VerifiedSegment(segment, local_segment, data)


def _indexes(data: LogSegmentData) -> dict[IndexType, bytes]:
    return {
        IndexType.OFFSET: read_index(data.offset_index),
        IndexType.TIMESTAMP: read_index(data.time_index),
        IndexType.PRODUCER_SNAPSHOT: read_index(data.producer_snapshot_index),
        IndexType.TRANSACTION: b"" if data.transaction_index is None else read_index(data.transaction_index),
    }


def _refuse(segment: LogSegment, finding: Finding) -> NoReturn:
    """Refuse a segment for the first thing that is wrong with it."""
    path = _path_of(segment, finding.part)
    position = finding.position or 0
    advice = _ADVICE.get(finding.kind, "")
    message = f"{path} is damaged at byte {position}: {finding.why}{advice}"
    if finding.part is IndexType.PRODUCER_SNAPSHOT and finding.kind is DamageKind.INDEX:
        raise LogDirectoryError(message)
    raise DamagedObjectError(message, str(path), position)


def _path_of(segment: LogSegment, part: IndexType | None) -> Path:
    if part is IndexType.PRODUCER_SNAPSHOT:
        return segment.log.path.with_name(segment_file_name(segment.next_offset, PRODUCER_SNAPSHOT_SUFFIX))
    suffix = LOG_SUFFIX if part is None else _SUFFIXES[part]
    return segment.log.path.with_name(segment_file_name(segment.base_offset, suffix))


def _producers_before(directory: LogDirectory, segment: LogSegment) -> ProducerSnapshot | None:
    """The producers where the segment begins: the snapshot there belongs to the segment before."""
    if segment.base_offset == 0:
        return ProducerSnapshot(())
    path = directory.path / segment_file_name(segment.base_offset, PRODUCER_SNAPSHOT_SUFFIX)
    return ProducerSnapshot.parse(read_index(path), location=str(path)) if path.exists() else None
