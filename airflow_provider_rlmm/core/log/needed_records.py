# SPDX-License-Identifier: Apache-2.0
"""The oldest record of the metadata topic that is still needed."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_rlmm.core.log.metadata_settings import NeededRecord
from airflow_provider_rlmm.core.log.one_look import look_at_many
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader


def oldest_needed(log: MetadataLogReader, offsets: Mapping[int, int]) -> NeededRecord | None:
    """
    Return the oldest of some records, by their own times.

    :param log: the log.
    :param offsets: metadata partition → the lowest offset of a record about what is not finished there.
    :return: ``None`` where there is none.
    :raises OffsetOutOfRangeError: if the log no longer has one of them.
    :raises EventLogUnavailableError: if they cannot be read.
    """
    found: list[NeededRecord] = []
    if offsets:
        for records in look_at_many(log, {number: (offset, offset + 1) for number, offset in offsets.items()}):
            columns = (records.column(name).to_pylist() for name in ("metadata_partition", "offset", "timestamp_ms"))
            found += [NeededRecord(*record) for record in zip(*columns, strict=True)]
    return min(found, key=lambda record: (record.time_ms, record.metadata_partition), default=None)
