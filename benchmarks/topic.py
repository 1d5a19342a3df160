# SPDX-License-Identifier: Apache-2.0
"""A real topic full of values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_provider_rlmm.manager.event_log import Acked
from airflow_provider_rlmm.manager.kafka_config import KafkaClientConfig
from airflow_provider_rlmm.manager.kafka_event_log import KafkaMetadataEventLog
from benchmarks.workload import Workload
from dev.broker import LocalKafka, await_condition, partitions_served

TOPIC = "benchmark-metadata"
METADATA_PARTITIONS = 5
PUBLISH_RECORDS = 50_000
BROKER_OPTIONS = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC")


@contextmanager
def loaded_topic(workload: Workload) -> Iterator[tuple[LocalKafka, KafkaMetadataEventLog]]:
    """
    Start a broker and publish a workload to a topic of its own.

    :param workload: made for :data:`METADATA_PARTITIONS`.
    """
    with LocalKafka(jvm_options=BROKER_OPTIONS) as kafka:
        _create(kafka)
        with KafkaMetadataEventLog(KafkaClientConfig({"bootstrap.servers": kafka.bootstrap_servers}), TOPIC) as log:
            assert log.partition_count == METADATA_PARTITIONS
            _publish(log, workload)
            yield kafka, log


def _create(kafka: LocalKafka) -> None:
    from confluent_kafka import Consumer

    admin = AdminClient(dict(kafka.client_config()))
    admin.create_topics([NewTopic(TOPIC, METADATA_PARTITIONS, 1)])[TOPIC].result(30.0)
    consumer = Consumer(kafka.client_config(group_id="unused"))
    await_condition(lambda: partitions_served(consumer, TOPIC) == METADATA_PARTITIONS, f"{TOPIC} is served", 30.0)
    consumer.close()


def _publish(log: KafkaMetadataEventLog, workload: Workload) -> None:
    # One partition after the other fills larger batches.
    for partition in range(METADATA_PARTITIONS):
        rows = np.flatnonzero(workload.metadata_partitions == partition)
        for start in range(0, len(rows), PUBLISH_RECORDS):
            values = workload.values.take(rows[start : start + PUBLISH_RECORDS]).to_pylist()
            outcomes = log.publish([(partition, value) for value in values])
            assert all(isinstance(outcome, Acked) for outcome in outcomes)
