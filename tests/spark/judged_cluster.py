# SPDX-License-Identifier: Apache-2.0
"""A broker on which each rule of the Spark job finds something, and what the job is told of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from confluent_kafka import Consumer, TopicPartition

from airflow_provider_rlmm.core.world.cluster_state import ClusterState, ListedTopic
from dev import tiering
from dev.broker import METADATA_TOPIC, LocalKafka
from tests.spark.plain_evaluation import Record

JOB = Path(__file__).parents[2] / "spark_jobs" / "segment_retention.py"
DEAD, TRIMMED, FULL, LIVE = "dead", "trimmed", "full", "live"
SEGMENTS = 6


@dataclass(frozen=True)
class Cluster:
    kafka: LocalKafka
    state: ClusterState
    dead_topic_id: UUID

    @property
    def records(self) -> list[Record]:
        """Every record of the metadata topic, read with another client than Spark's."""
        settings = self.kafka.client_config(**{"group.id": "reader", "auto.offset.reset": "error"})
        consumer = Consumer(settings)
        found: list[Record] = []
        try:
            for partition in range(self.kafka.metadata_partitions):
                low, high = consumer.get_watermark_offsets(TopicPartition(METADATA_TOPIC, partition), timeout=30)
                consumer.assign([TopicPartition(METADATA_TOPIC, partition, low)])
                while not found or found[-1][:2] != (partition, high - 1):
                    if high == low:
                        break
                    for message in consumer.consume(1000, timeout=1.0):
                        assert message.error() is None
                        found.append((partition, message.offset(), message.value()))
        finally:
            consumer.close()
        return found


@contextmanager
def cluster_with_orphans() -> Iterator[Cluster]:
    """Return a cluster with orphans (scenario B), segments below a log start offset, and too many bytes in one topic."""
    with LocalKafka() as kafka:
        for name in (DEAD, TRIMMED, FULL, LIVE):
            tiering.create_tiered_topic(kafka, name, 2)
            tiering.produce_until_remote(kafka, name, SEGMENTS)
        dead = tiering.provoke_scenario_b(kafka, DEAD)
        observed_at_ms = int(time.time() * 1000)
        limits = {
            TRIMMED: (-1, {0: 2 * tiering.RECORDS_PER_SEGMENT, 1: 0}),
            FULL: (5 * tiering.SEGMENT_BYTES // 2, {0: 0}),
        }
        topics = tuple(
            ListedTopic(topic_id, name, -1, *limits.get(name, (-1, {})))
            for name, topic_id in tiering.topic_ids(kafka).items()
        )
        yield Cluster(kafka, ClusterState(kafka.cluster_id, observed_at_ms, topics), dead)
