# SPDX-License-Identifier: Apache-2.0
"""User partitions in JSON: events, and what the leader knows. ``dev/java/peers/ExpirationPeer.java`` reads the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.features.retention.expiration import LeaderView

RECORDED: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parent / "data" / "expirations.jsonl").read_text().splitlines()
]
"""
Small ones of ``tests/differential/expiration_worlds.py``, in which the rules differ from almost the same ones. ``deleted`` is
what Kafka's leader deletes, in that order; the reasons are ours.
"""
PARTITION = TopicIdPartition(UUID(int=77), "orders", 0)


def leader_view(world: dict[str, Any]) -> LeaderView:
    """
    Return what the leader of a partition knows.

    :param world: the partition.
    """
    return LeaderView(
        cache=cache_of(world["events"]),
        leader_epochs=LeaderEpochCheckpoint(tuple((epoch, offset) for epoch, offset in world["leader_epochs"])),
        log_start_offset=world["log_start_offset"],
        log_end_offset=world["log_end_offset"],
        retention_ms=world["retention_ms"],
        retention_bytes=world["retention_bytes"],
        now_ms=world["now_ms"],
        only_local_bytes=world["only_local_bytes"],
        being_copied=frozenset(RemoteLogSegmentId(PARTITION, UUID(hex=text)) for text in world["being_copied"]),
    )


def cache_of(events: list[str]) -> RemoteLogMetadataCache:
    """
    Return the cache after some events of one user partition.

    :param events: values of ``__remote_log_metadata``, in hex.
    """
    cache = RemoteLogMetadataCache()
    for text in events:
        event = deserialize(bytes.fromhex(text))
        if isinstance(event, RemoteLogSegmentMetadata):
            cache.add_copy_in_progress_segment(event)
        else:
            assert isinstance(event, RemoteLogSegmentMetadataUpdate)
            cache.update_remote_log_segment_metadata(event)
    return cache
