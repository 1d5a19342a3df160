# SPDX-License-Identifier: Apache-2.0
"""
Updates that came after their segment was finished, told apart from updates whose add is missing.

Columns forget finished segments, so they cannot tell. The log can: only the records about the few segments in question are
looked at.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from airflow_provider_rlmm.core.base.arrow_arrays import is_among
from airflow_provider_rlmm.core.log.one_look import look
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.located import located_events
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, TopicIdPartition, topic_id_partition_of


def without_add(
    log: MetadataLogReader, metadata_partition: int, segment_ids: Collection[UUID], end: int
) -> frozenset[RemoteLogSegmentId]:
    """
    Return those of some segments whose state is not certain by all that the log holds of them.

    :param log: the metadata event log.
    :param metadata_partition: where their events lie.
    :param segment_ids: ids of the segments.
    :param end: offset up to which the log counts, exclusive.
    :raises EventLogError: if the log cannot be read.
    """
    histories: dict[TopicIdPartition, UserPartitionHistory] = {}
    begin = log.beginning_offsets()[metadata_partition]
    for decoded in look(log, metadata_partition, begin, end):
        wanted = is_among(decoded.column("segment_id"), [i.bytes for i in segment_ids])
        for located in located_events(decoded, wanted):
            tip = topic_id_partition_of(located.event)
            located.apply_to(histories.setdefault(tip, UserPartitionHistory(tip)))
    return frozenset(RemoteLogSegmentId(tip, i) for tip, history in histories.items() for i in history.without_add)
