# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from confluent_kafka import Producer

from airflow_provider_rlmm.manager.kafka_event_log import KafkaMetadataEventLog
from dev.broker import LocalKafka
from tests.contracts.consuming import Consuming, ConsumingContract
from tests.integration.kafka_topics import TIMEOUT_S, config_of, create_topic, delete_records

pytestmark = pytest.mark.integration


def consuming_on(kafka: LocalKafka, num_partitions: int, **properties: object) -> Consuming:
    """A consumer on a topic of its own; the caller closes task and log."""
    topic = create_topic(kafka, num_partitions)
    log = KafkaMetadataEventLog(config_of(kafka, **properties), topic)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 2})

    def append(records):
        for partition, value, key in records:
            producer.produce(topic, value=value, key=key, partition=partition)
        assert producer.flush(TIMEOUT_S) == 0

    return Consuming(log, append, lambda partition, before: delete_records(kafka, topic, partition, before))


class TestConsuming(ConsumingContract):
    @pytest.fixture
    def make(self, kafka):
        made = []

        def make(num_partitions):
            made.append(consuming_on(kafka, num_partitions))
            return made[-1]

        yield make
        for consuming in made:
            consuming.task.close()
            consuming.log.close()
