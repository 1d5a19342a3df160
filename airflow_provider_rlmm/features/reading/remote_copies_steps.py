# SPDX-License-Identifier: Apache-2.0
"""Waiting until all records up to a time are in remote storage: one look."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from airflow_provider_rlmm.core.base.clock import time_text
from airflow_provider_rlmm.core.base.errors import EventLogUnavailableError, RemoteLogError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.log.answers import OffsetsByTime
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.segments.lineage import is_remote_segment_within_leader_epochs
from airflow_provider_rlmm.core.segments.read_range import OffsetRange
from airflow_provider_rlmm.core.world.late_copies import late_copies
from airflow_provider_rlmm.features.reading.remote_copies import why_not_copied
from airflow_provider_rlmm.features.reading.steps import RemoteLogOfTopic, remote_log_of

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession

_NO_END: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class CopiesLook:
    """What one look has shown."""

    why_not: tuple[str, ...]  # why not all is there, in words; empty where it is
    proof: dict[str, Any]  # plain JSON types: what was found, and up to which offsets


def look_for_copies(
    session: CleanerSession, topic: str, up_to_ms: int, partitions: Collection[int] | None = None
) -> CopiesLook:
    """
    Tell whether all records of a living topic with timestamps before a time are in remote storage.

    Its leaders say at which offset each partition reaches the time, and where it ends where it does not.

    :param session: of the run.
    :param topic: its name.
    :param up_to_ms: the time, ms since the epoch, exclusive.
    :param partitions: of the topic, ``None`` for all that the cluster knows.
    :raises RemoteLogError: if the cluster has no such topic, or no such partition.
    :raises EventLogError: if cluster or metadata topic do not answer.
    :raises StorageError: if storage does not answer.
    """
    topic_id = session.topics.describe_topics([topic]).answers.get(topic)
    if not isinstance(topic_id, UUID):
        raise RemoteLogError(f"the cluster has no topic {in_quotes(topic)}, or this login may not describe it")
    offsets = session.access.get_cluster_topics().offsets_by_time(topic, up_to_ms)
    if not offsets:
        # Deleted at this moment, or a broker with old metadata was asked: nothing of it is no "all is there".
        raise EventLogUnavailableError(
            f"brokers do not say where the partitions of topic {in_quotes(topic)} begin and end"
        )
    if strangers := sorted(set(partitions or ()) - offsets.keys()):
        raise RemoteLogError(f"topic {in_quotes(topic)} has no partitions {strangers}")
    wanted = {p: o for p, o in offsets.items() if partitions is None or p in partitions}
    log = remote_log_of(session, [TopicIdPartition(topic_id, topic, p) for p in wanted])
    why_not = [why for p in sorted(wanted) if (why := _why_not(log, TopicIdPartition(topic_id, topic, p), wanted[p]))]
    if why_not and (late := late_copies(session.topics, [topic])):
        why_not.append(late)
    if session.clock() < up_to_ms:
        why_not.insert(0, f"{time_text(up_to_ms)} is still to come: records before it may be, too")
    proof = {
        "topic_id": kafka_uuid_str(topic_id),
        "up_to_ms": up_to_ms,
        "end_offsets": {str(number): found.wanted.end for number, found in sorted(wanted.items())},
    }
    return CopiesLook(tuple(why_not), proof)


def _why_not(log: RemoteLogOfTopic, tip: TopicIdPartition, offsets: OffsetsByTime) -> str | None:
    """Return why not all wanted records of a user partition are there; storage is asked only where some are wanted."""
    wanted = offsets.wanted
    lineage = log.lineage(tip) if wanted.start < wanted.end else None
    copied = [
        OffsetRange(metadata.start_offset, metadata.end_offset + 1)
        for metadata in (log.segments(tip) if lineage else ())
        if lineage and is_remote_segment_within_leader_epochs(metadata, _NO_END, lineage)
    ]
    return why_not_copied(tip.partition, offsets, copied)
