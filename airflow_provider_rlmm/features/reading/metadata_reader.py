# SPDX-License-Identifier: Apache-2.0
"""Reads a range of the metadata topic into Parquet, decoded, bad records included: for analysis and for audits."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from airflow_provider_rlmm.core.base.errors import ConfigurationError, OffsetOutOfRangeError
from airflow_provider_rlmm.core.base.file_systems import replacing
from airflow_provider_rlmm.core.log.one_look import held, look
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadReport:
    """
    What was read.

    :param rows: records written.
    :param quarantined: records among them whose ``error_code`` is not 0.
    :param next_offsets: metadata partition → offset, exclusive, up to which was read: where the next read begins.
    """

    rows: int
    quarantined: int
    next_offsets: Mapping[int, int]


def read_to_parquet(
    log: MetadataLogReader,
    uri: str,
    *,
    start_offsets: Mapping[int, int] | None = None,
    end_offsets: Mapping[int, int] | None = None,
) -> ReadReport:
    """
    Read and write ``<uri>/metadata-partition-<n>.parquet`` per metadata partition that has records in the range.

    :param log: the log.
    :param uri: of the directory; existing files of the same names are replaced, each whole or not at all.
    :param start_offsets: metadata partition → first offset, inclusive; a missing one begins at the beginning.
    :param end_offsets: metadata partition → last offset, exclusive; a missing one ends at the high watermark of now.
    :raises ConfigurationError: if an end lies above the high watermark or before the start that was given, or a partition
        does not exist.
    :raises OffsetOutOfRangeError: if a start lies behind the high watermark.
    :raises EventLogUnavailableError: if a range could not be read whole; no file of that partition is left then.
    """
    ranges = held(log)
    starts = {number: begin for number, (begin, _) in ranges.items()} | dict(start_offsets or {})
    ends = {number: end for number, (_, end) in ranges.items()} | dict(end_offsets or {})
    for number in sorted({*starts, *ends}):
        if number not in ranges:
            raise ConfigurationError(f"there is no metadata partition {number}: {sorted(ranges)}")
        start, end, (_, high_water_mark) = starts[number], ends[number], ranges[number]
        if end > high_water_mark:
            raise ConfigurationError(
                f"metadata partition {number}: end offset {end} lies above the high watermark {high_water_mark}"
            )
        if start > high_water_mark:
            raise OffsetOutOfRangeError(
                f"metadata partition {number}: start offset {start} lies behind the high watermark {high_water_mark}: it is "
                "of another topic, or the log has lost records",
                number,
                start,
            )
        if number in (start_offsets or {}) and end < start:
            raise ConfigurationError(
                f"metadata partition {number}: end offset {end} lies before start offset {start}: give a later one, or none"
            )
    rows = quarantined = 0
    for metadata_partition in sorted(ends):
        start = max(starts[metadata_partition], ranges[metadata_partition][0])
        done, bad = _read_partition(log, uri, metadata_partition, start, ends[metadata_partition])
        rows += done
        quarantined += bad
    return ReadReport(rows, quarantined, ends)


def _read_partition(log: MetadataLogReader, uri: str, metadata_partition: int, start: int, end: int) -> tuple[int, int]:
    import pyarrow.parquet as pq

    from airflow_provider_rlmm.core.records.decoding.decode import count_good

    batches = look(log, metadata_partition, start, end)
    first = next(batches, None)
    if first is None:
        return 0, 0
    rows = quarantined = 0
    target = f"{uri.rstrip('/')}/metadata-partition-{metadata_partition}.parquet"
    with replacing(target) as file, pq.ParquetWriter(file, first.schema) as writer:
        for decoded in chain([first], batches):
            writer.write_batch(decoded)
            rows += decoded.num_rows
            quarantined += decoded.num_rows - count_good(decoded)
            logger.info("metadata partition %d: %d records read", metadata_partition, rows)
    return rows, quarantined
