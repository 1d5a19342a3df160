# SPDX-License-Identifier: Apache-2.0
"""A cluster in memory whose topics come and go, and whose hours pass as fast as its runs do."""

from __future__ import annotations

import bisect
import random
import time
from uuid import UUID

from airflow_provider_rlmm.core.base.clock import HOUR_MS, system_clock
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog, InProcessOffsetStore
from airflow_provider_rlmm.core.log.in_process_topics import InProcessClusterTopics
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout

CLUSTER_ID = "cluster-1"
METADATA_PARTITIONS = 5
LIVING = 20
NEW_TOPICS, USER_PARTITIONS, SEGMENTS = 3, 2, 10
"""Topics that are created in an hour, their user partitions, and segments of each."""


class Week:
    """
    :param hours: that will pass; they end now.
    :param seed: decides which topics go when.
    """

    def __init__(self, hours: int, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._began_ms = system_clock() - hours * HOUR_MS
        self._hours: list[float] = []
        self._ids = 0
        self.now_ms = self._began_ms
        self.log = InProcessMetadataEventLog(METADATA_PARTITIONS, clock=self.clock)
        self.layout = LocalTieredStorageLayout()
        self.storage = InMemoryRemoteStorageManager(self.layout, clock=self.clock)
        self.topics = InProcessClusterTopics({}, cluster_id=CLUSTER_ID)
        self.offsets = InProcessOffsetStore()
        self.deleted: dict[UUID, int] = {}
        self._passing: dict[UUID, str] = {}
        self._prefixes: dict[TopicIdPartition, str] = {}
        for number in range(LIVING):
            self._create(f"kept-{number}", 4 * SEGMENTS)
        self._kept = dict(self.topics.topics)

    def clock(self) -> int:
        return self.now_ms

    def at(self, real_ms: int) -> int:
        """Return the hour to which a real time belongs, ms since the epoch."""
        return self._began_ms + max(0, bisect.bisect_right(self._hours, real_ms / 1000) - 1) * HOUR_MS

    def pass_hour(self) -> None:
        """Create topics, copy segments of living ones, and delete some topics; their leaders are down."""
        # Files of the hour before have earlier times than this.
        time.sleep(0.002)
        self.now_ms = self._began_ms + len(self._hours) * HOUR_MS
        self._hours.append(time.time())
        for number in range(NEW_TOPICS):
            name = f"passing-{len(self._hours)}-{number}"
            self._passing[self._create(name, SEGMENTS)] = name
        for name, topic_id in self._random.sample(sorted(self._kept.items()), 3):
            self._copy(TopicIdPartition(topic_id, name, 0), 1)
        for topic_id, name in self._random.sample(sorted(self._passing.items()), max(0, len(self._passing) - 30)):
            del self._passing[topic_id], self.topics.topics[name]
            self.deleted[topic_id] = self.now_ms

    def keys_of(self, topic_ids: set[UUID]) -> int:
        """Count the objects of topics."""
        names = {tip for tip in self._prefixes if tip.topic_id in topic_ids}
        prefixes = tuple(self._prefixes[tip] for tip in names)
        return sum(key.startswith(prefixes) for key in self.storage.keys) if prefixes else 0

    @property
    def kept(self) -> set[UUID]:
        """Ids of the topics that stay all week."""
        return set(self._kept.values())

    def _create(self, name: str, segments: int) -> UUID:
        self._ids += 1
        topic_id = UUID(int=(self._ids << 64) + 1)
        self.topics.topics = {**self.topics.topics, name: topic_id}
        for partition in range(USER_PARTITIONS):
            self._copy(TopicIdPartition(topic_id, name, partition), segments)
        return topic_id

    def _copy(self, tip: TopicIdPartition, segments: int) -> None:
        self._prefixes[tip] = self.layout.partition_prefix(tip)
        home = metadata_partition_for(tip, METADATA_PARTITIONS)
        for _ in range(segments):
            self._ids += 1
            segment_id, start = RemoteLogSegmentId(tip, UUID(int=self._ids)), 10 * self._ids
            added = RemoteLogSegmentMetadata(
                segment_id, start, start + 9, self.now_ms, 1, self.now_ms, 50, None,
                RemoteLogSegmentState.COPY_SEGMENT_STARTED, ((0, start),),
            )  # fmt: skip
            state = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
            for event in (added, RemoteLogSegmentMetadataUpdate(segment_id, self.now_ms, None, state, 1)):
                self.log.append(home, serialize(event))
            for key in self.layout.required_keys(added):
                self.storage.put_object(key, b"x" * 10)
