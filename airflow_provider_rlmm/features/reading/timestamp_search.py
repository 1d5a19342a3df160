# SPDX-License-Identifier: Apache-2.0
"""Searches one remote log segment for a time (Kafka: ``RemoteLogManager.lookupTimestamp``)."""

from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.segments.indexes.time_index import TimestampOffset
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.segments.read_range import OffsetRange
from airflow_provider_rlmm.core.segments.record_batches.records import to_arrow
from airflow_provider_rlmm.features.reading.segment_access import SegmentAccess
from airflow_provider_rlmm.features.reading.segment_reading import SegmentPart

__all__ = ["FoundOffset"]

logger = logging.getLogger(__name__)


class FoundOffset(NamedTuple):
    """
    The answer of a search by time.

    :param offset: the first offset whose record is as new as was asked for.
    :param timestamp_ms: its record's timestamp, ms since the epoch.
    :param leader_epoch: the leader epoch that it was written in.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int


class _IndexLedAstrayError(Exception):
    """Raised when the log does not bear out an entry of the time index."""


def find_in_segment(
    access: SegmentAccess,
    metadata: RemoteLogSegmentMetadata,
    lineage: LeaderEpochCheckpoint,
    timestamp_ms: int,
    offsets: OffsetRange,
    max_decompressed_bytes: int,
) -> FoundOffset | None:
    """
    Return the first record of a segment that is as new as a time, ``None`` where it has none.

    Nothing protects a time index, and an entry that is wrong could skip the record. So the log has to bear out the entry that
    is used; else the segment is searched from its beginning.

    :param access: reads segments.
    :param metadata: the segment.
    :param lineage: the leader epochs of the log.
    :param timestamp_ms: the time, ms since the epoch.
    :param offsets: what may be the answer, all of it in the lineage.
    :param max_decompressed_bytes: most bytes that a batch may decompress to.
    """
    first = offsets.start
    entry = access.time_index(metadata).lookup(timestamp_ms)
    begins = [(entry.offset, entry), (first, None)] if first < entry.offset < offsets.end else [(first, None)]
    for begin, checked in begins:
        try:
            for part in access.parts(metadata, lineage, OffsetRange(begin, offsets.end)):
                if checked is not None:
                    _require_entry(part, checked)
                found = _find_in_part(part, timestamp_ms, offsets, max_decompressed_bytes)
                if found is not None:
                    return found
        except _IndexLedAstrayError:
            logger.warning(
                "the time index of segment %s does not fit its log at offset %d: the segment is searched without it",
                metadata.remote_log_segment_id,
                begin,
            )
        else:
            return None
    return None


def _require_entry(part: SegmentPart, entry: TimestampOffset) -> None:
    headers = part.headers
    named = (headers.base_offset <= entry.offset) & (entry.offset <= headers.last_offset)
    if (headers.max_timestamp_ms[named] != entry.timestamp_ms).any():
        raise _IndexLedAstrayError


def _find_in_part(
    part: SegmentPart, timestamp_ms: int, wanted: OffsetRange, max_decompressed_bytes: int
) -> FoundOffset | None:
    headers = part.headers
    candidates = (headers.max_timestamp_ms >= timestamp_ms) & (headers.last_offset >= wanted.start)
    for row in np.flatnonzero(candidates).tolist():
        records = to_arrow(part.data, headers[row : row + 1], max_decompressed_bytes=max_decompressed_bytes)
        offset, time_ms = (records.column(name).to_numpy() for name in ("offset", "timestamp"))
        found = np.flatnonzero((time_ms >= timestamp_ms) & (offset >= wanted.start) & (offset < wanted.end))
        if found.size:
            first = int(found[0])
            return FoundOffset(int(offset[first]), int(time_ms[first]), int(headers.leader_epoch[row]))
    return None
