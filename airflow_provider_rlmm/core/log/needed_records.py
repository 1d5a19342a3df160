# SPDX-License-Identifier: Apache-2.0
"""The oldest record of the metadata topic that is still needed, and whether the topic keeps it for long enough."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.log.metadata_settings import HealthFinding, NeededRecord, needed_findings
from airflow_provider_rlmm.core.log.one_look import look_at_many
from airflow_provider_rlmm.core.log.protocol import ClusterTopics, MetadataLogReader
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.records.columnar import ColumnarState


def retention_findings(
    topics: ClusterTopics, log: MetadataLogReader, state: ColumnarState, name: str, now_ms: int
) -> list[HealthFinding]:
    """
    Say whether the metadata topic keeps what is still needed, and for how long.

    :param topics: the cluster.
    :param log: the log.
    :param state: what was read of it.
    :param name: of the topic.
    :param now_ms: time, ms since the epoch.
    :return: as :func:`~airflow_provider_rlmm.core.log.metadata_settings.needed_findings`.
    :raises EventLogAccessError: if the settings of the topic may not be described.
    :raises EventLogError: if the cluster or the log cannot be read.
    """
    settings = topics.topic_settings([name]).get(name, {})
    return list(needed_findings(name, settings, partial(oldest_needed, log, state), now_ms))


def oldest_needed(log: MetadataLogReader, state: ColumnarState) -> NeededRecord | None:
    """
    Return the oldest record about a segment that is not deleted, or of a deletion under way, by its own time.

    :param log: the log.
    :param state: what was read of it.
    :return: ``None`` where there is none, or the log has lost it already.
    :raises EventLogError: if it cannot be read.
    """
    offsets = state.unfinished().first_offsets()
    for tip, deletion in state.deletions_under_way().items():
        number, marker = metadata_partition_for(tip, log.partition_count), deletion.unsettled_marker_offset
        if marker is not None:
            offsets[number] = min(marker, offsets.get(number, marker))
    begins = log.beginning_offsets() if offsets else {}
    # What is lost is said where that is found out.
    there = {number: (offset, offset + 1) for number, offset in offsets.items() if offset >= begins[number]}
    found: list[NeededRecord] = []
    for records in look_at_many(log, there) if there else ():
        columns = (records.column(column).to_pylist() for column in ("metadata_partition", "offset", "timestamp_ms"))
        found += [NeededRecord(*record) for record in zip(*columns, strict=True)]
    return min(found, key=lambda record: (record.time_ms, record.metadata_partition), default=None)
