# SPDX-License-Identifier: Apache-2.0
"""A real topic full of values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.core.log.protocol import Acked
from benchmarks.keyed import KeyedRecords
from dev.broker import LocalKafka, await_condition, partitions_served

TOPIC = "benchmark-metadata"
METADATA_PARTITIONS = 5
PUBLISH_RECORDS = 50_000
BROKER_OPTIONS = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC")


@contextmanager
def served_topic() -> Iterator[KafkaClientConfig]:
    """Start a broker with an empty topic; yield what its clients need."""
    with LocalKafka(jvm_options=BROKER_OPTIONS) as kafka:
        config = KafkaClientConfig(kafka.client_config())
        create_metadata_topic(config, TOPIC)
        yield config


def create_topics(
    config: KafkaClientConfig,
    topics: Mapping[str, int],
    settings: Mapping[str, str] = MappingProxyType({}),
    metadata_topic: str = TOPIC,
) -> dict[str, UUID]:
    """
    Make topics that exist, and return their ids by name.

    :param config: the clients' properties.
    :param topics: name → number of partitions.
    :param settings: of each of them.
    :param metadata_topic: which the cluster has.
    :raises TimeoutError: if the broker does not know them in five minutes.
    """
    admin = AdminClient(dict(config.properties))
    new = [NewTopic(name, count, 1, config=dict(settings)) for name, count in topics.items()]
    for made in admin.create_topics(new).values():
        made.result(60.0)
    with closing(KafkaClusterTopics(config, metadata_topic)) as cluster:
        # The controller has them at once, and the broker only when it has made their logs.
        listed = f"the broker lists {len(topics)} topics that the controller has made"
        await_condition(lambda: topics.keys() <= cluster.topic_names(), listed, 300.0, interval=0.5)
        return dict(cluster.list_topics())


def publish(config: KafkaClientConfig, values: Any, metadata_partitions: Any, topic: str = TOPIC) -> None:
    """
    Append values to a metadata topic.

    :param config: the clients' properties.
    :param values: binary array.
    :param metadata_partitions: where each of them belongs.
    :param topic: its name.
    """
    with KafkaMetadataEventLog(config, topic) as log:
        # One partition after the other fills larger batches.
        for partition in range(log.partition_count):
            rows = np.flatnonzero(metadata_partitions == partition)
            for start in range(0, len(rows), PUBLISH_RECORDS):
                some = values.take(rows[start : start + PUBLISH_RECORDS]).to_pylist()
                outcomes = log.publish([(partition, value) for value in some])
                assert all(isinstance(outcome, Acked) for outcome in outcomes)


def publish_records(config: KafkaClientConfig, topic: str, records: KeyedRecords, metadata_partitions: Any) -> None:
    """
    Append records that may have keys to a metadata topic: this package's own producer writes none.

    :param config: the clients' properties.
    :param topic: its name.
    :param records: the records.
    :param metadata_partitions: where each of them belongs.
    """
    from confluent_kafka import Producer

    producer = Producer(
        dict(config.properties) | {"linger.ms": 50, "queue.buffering.max.messages": 2 * PUBLISH_RECORDS}
    )
    written: Counter[bool] = Counter()

    def note(error: Any, _: Any) -> None:
        written[error is None] += 1

    for partition in range(METADATA_PARTITIONS):
        rows = np.flatnonzero(metadata_partitions == partition)
        for start in range(0, len(rows), PUBLISH_RECORDS):
            some = pa.array(rows[start : start + PUBLISH_RECORDS])
            columns = (column.take(some).to_pylist() for column in (records.keys, records.values))
            for key, value in zip(*columns, strict=True):
                producer.produce(topic, value, key, partition, on_delivery=note)
            producer.flush()
    assert written == {True: len(records.values)}


def create_metadata_topic(config: KafkaClientConfig, name: str, partitions: int = METADATA_PARTITIONS) -> None:
    """
    Make a metadata topic as brokers make theirs, kept for ever, and wait until it is served.

    :param config: the clients' properties.
    :param name: its name.
    :param partitions: how many it has.
    """
    from confluent_kafka import Consumer

    admin = AdminClient(dict(config.properties))
    # A broker's own default would delete records by age, which each run would have to look for.
    kept = {"retention.ms": "-1"}
    admin.create_topics([NewTopic(name, partitions, 1, config=kept)])[name].result(30.0)
    consumer = Consumer(dict(config.properties) | {"group.id": "unused"})
    await_condition(lambda: partitions_served(consumer, name) == partitions, f"{name} is served", 30.0)
    consumer.close()
