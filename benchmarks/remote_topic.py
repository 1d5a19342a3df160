# SPDX-License-Identifier: Apache-2.0
"""A topic of which everything lies in remote storage, and nothing on the broker's own disk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from airflow_provider_rlmm.core.records.records import TopicIdPartition
from dev.broker import LocalKafka, await_condition
from dev.tiering import create_tiered_topic

SEGMENT_BYTES = 32 * 2**20
TIMEOUT_S = 600.0
_BATCH_OVERHEAD_BYTES = 61
_RECORD_OVERHEAD_BYTES = 10


@dataclass(frozen=True, slots=True)
class Shape:
    """
    What a topic is full of.

    :param name: in the report.
    :param value_bytes: of each record.
    :param batches_of_one: whether each record is a batch of its own.
    """

    name: str
    value_bytes: int
    batches_of_one: bool = False

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.name.replace(" ", "-")

    def records_in(self, size: int) -> int:
        """
        Return how many records a log of so many bytes has.

        :param size: bytes.
        """
        overhead = _BATCH_OVERHEAD_BYTES if self.batches_of_one else 0
        return size // (self.value_bytes + _RECORD_OVERHEAD_BYTES + overhead)


@contextmanager
def pinned_to(core: int) -> Iterator[None]:
    """
    Let this process, and what it starts meanwhile, run on one core.

    :param core: the core; where the machine has only one, nothing is pinned.
    """
    cores = os.sched_getaffinity(0)
    if len(cores) > 1:
        os.sched_setaffinity(0, {sorted(cores)[core]})
    yield
    os.sched_setaffinity(0, cores)


def warm_imports() -> None:
    """Let pyarrow import pandas, as it does for the first array where pandas is installed: imports do not count."""
    pa.array([0])


def remote_only(kafka: LocalKafka, shape: Shape, records: int) -> TopicIdPartition:
    """
    Fill a topic of one partition, and wait until no record is on the broker's disk any more.

    :param kafka: the broker.
    :param shape: of the records.
    :param records: how many.
    """
    tip = full_topic(kafka, shape, records)
    folder = kafka.log_dir / f"{shape.topic}-0"

    def moved() -> bool:
        return all(log.stat().st_size == 0 for log in folder.glob("*.log"))

    await_condition(moved, f"all of {shape.topic} is remote only", TIMEOUT_S)
    return tip


def full_topic(kafka: LocalKafka, shape: Shape, records: int, **config: str) -> TopicIdPartition:
    """
    Fill a topic of one partition.

    :param kafka: the broker.
    :param shape: of the records.
    :param records: how many.
    :param config: of the topic.
    """
    settings = {"internal.segment.bytes": str(SEGMENT_BYTES), **config}
    topic_id = create_tiered_topic(kafka, shape.topic, 1, **settings)
    batching: Mapping[str, Any] = {"batch.num.messages": 1} if shape.batches_of_one else {"linger.ms": 50}
    producer = Producer(kafka.client_config() | {"queue.buffering.max.messages": 2_000_000} | dict(batching))
    noise = os.urandom(shape.value_bytes + 4096)
    for number in range(records):
        value = noise[number % 4096 : number % 4096 + shape.value_bytes]
        while True:
            try:
                producer.produce(shape.topic, value, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(TIMEOUT_S) == 0
    return TopicIdPartition(topic_id, shape.topic, 0)


def alter_topic(kafka: LocalKafka, topic: str, **config: str) -> None:
    """
    Change the configuration of a topic.

    :param kafka: the broker.
    :param topic: its name.
    :param config: with Kafka's names.
    """
    entries = [ConfigEntry(name, to, incremental_operation=AlterConfigOpType.SET) for name, to in config.items()]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient(kafka.client_config())
    admin.incremental_alter_configs([resource])[resource].result(30.0)
