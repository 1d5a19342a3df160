# SPDX-License-Identifier: Apache-2.0
"""How far a log directory may be copied where no leader can be asked."""

from __future__ import annotations

from airflow_provider_rlmm.core.base.errors import LogDirectoryError
from airflow_provider_rlmm.core.segments.indexes.producer_snapshot import ProducerSnapshot
from airflow_provider_rlmm.features.copying.log_directory.disk import HIGH_WATERMARKS
from airflow_provider_rlmm.features.copying.log_directory.partition import LogDirectory
from airflow_provider_rlmm.features.copying.log_directory.regular_files import read_index


def end_without_leader(directory: LogDirectory) -> int:
    """
    Return the end of what is replicated and decided, exclusive, by the disk alone: the smaller of the high watermark's
    checkpoint and the first transaction that was open where the last replicated segment ends.

    Transactions that began later lie behind that end, so that no closed segment is affected by them. The recovery point is no
    such end: it says what was flushed, and flushed records are lost where another leader is elected.

    :raises LogDirectoryError: if the disk does not tell the high watermark, or a producer snapshot is missing.
    :raises DamagedObjectError: if the producer snapshot is damaged.
    """
    end = directory.high_watermark
    if end is None:
        raise LogDirectoryError(
            f"{directory.path.parent / HIGH_WATERMARKS} does not name {directory.path.name}: nothing on the disk says which"
            " records were replicated"
        )
    replicated = [segment for segment in directory.closed_segments if segment.next_offset <= end]
    if not replicated:
        return end
    path = directory.log_segment_data(replicated[-1]).producer_snapshot_index
    first_open = ProducerSnapshot.parse(read_index(path), location=str(path)).first_open_offset
    return end if first_open is None else min(end, first_open)
