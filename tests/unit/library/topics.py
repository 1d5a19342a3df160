# SPDX-License-Identifier: Apache-2.0
"""A metadata topic in memory, for tests that replay it whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.log.in_process import METADATA_TOPIC, InProcessMetadataEventLog
from airflow_provider_rlmm.core.log.in_process_topics import InProcessClusterTopics
from airflow_provider_rlmm.core.log.topic_state import TopicState
from airflow_provider_rlmm.core.records.columnar import ColumnarState
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import TopicIdPartition, topic_id_partition_of
from airflow_provider_rlmm.core.records.serde import serialize

TOPIC_ID = UUID(int=99)
NOW_MS = 1_800_000_000_000


class TieredTopics(InProcessClusterTopics):
    """
    Topics in memory, tiered unless said otherwise.

    :ivar settings: topic → its settings, where they are others.
    :ivar counts: topic → its partitions, where they are not four.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.counts: dict[str, int] = {}

    def topic_settings(self, names: Iterable[str]) -> dict[str, dict[str, int | bool | str]]:
        return {name: self.settings.get(name, {"remote.storage.enable": name != METADATA_TOPIC}) for name in names}

    def partition_counts(self, names: Iterable[str]) -> dict[str, int]:
        return {name: self.counts.get(name, 4) for name in names}


def topics(topic_id: UUID = TOPIC_ID, cluster_id: str = "cluster-1") -> TieredTopics:
    return TieredTopics(metadata_topic_id=topic_id, cluster_id=cluster_id)


def new_log(partitions: int = 2, topic_id: UUID = TOPIC_ID) -> InProcessMetadataEventLog:
    return InProcessMetadataEventLog(partitions, topic_id=topic_id, clock=lambda: NOW_MS)


def put(log: InProcessMetadataEventLog, *events: Any) -> list[tuple[int, int]]:
    """Append events where they belong; returns (metadata partition, offset) of each."""
    places = []
    for event in events:
        metadata_partition = metadata_partition_for(topic_id_partition_of(event), log.partition_count)
        places.append((metadata_partition, log.append(metadata_partition, serialize(event))))
    return places


def user_partition_of(metadata_partition: int, partitions: int = 2, topic: str = "orders") -> TopicIdPartition:
    """A user partition whose events lie in this metadata partition."""
    candidates = (TopicIdPartition(UUID(int=5), topic, n) for n in range(1000))
    return next(tip for tip in candidates if metadata_partition_for(tip, partitions) == metadata_partition)


def topic_state(log: InProcessMetadataEventLog, **options: Any) -> TopicState:
    return TopicState(log, topics(), clock=lambda: NOW_MS, **options)


def tables(state: ColumnarState) -> list[Any]:
    return [state.segments, state.unresolved, state.user_partitions, state.partition_deletes]
