# SPDX-License-Identifier: Apache-2.0
"""Loses the metadata topic of a living cluster, and looks at what its leaders do then."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID, uuid4

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, OffsetSpec, ResourceType

from dev import tiering
from dev.broker import METADATA_TOPIC, LocalKafka, await_condition
from tests.integration.kafka_topics import (
    METADATA_SETTINGS,
    TIMEOUT_S,
    admin_of,
    create_topic,
    delete_records,
    existing_topics,
)

SETTINGS = ("remote.log.copy.disable", "local.retention.ms", "local.retention.bytes")
OFF = dict(zip(SETTINGS, ("true", "-2", "-2"), strict=True))
ON = dict(zip(SETTINGS, ("false", "1000", "-2"), strict=True))


def copied_topic(kafka: LocalKafka, name: str, segments: int = 3, **config: str) -> UUID:
    topic_id = tiering.create_tiered_topic(kafka, name, 1, **config)
    tiering.produce_until_remote(kafka, name, segments)
    folder = kafka.log_dir / f"{name}-0"
    await_condition(lambda: all(int(p.stem) > 0 for p in folder.glob("*.log")), f"{name} is remote only", TIMEOUT_S)
    return topic_id


def lose_metadata(kafka: LocalKafka, while_lost: Callable[[], object] = bool) -> list[tuple[int, bytes]]:
    """Delete the metadata topic and make it anew; return its lost records, partition and value."""
    records = [(p, value) for p in range(kafka.metadata_partitions) for value in values_in(kafka, p)]
    admin = admin_of(kafka)
    admin.delete_topics([METADATA_TOPIC])[METADATA_TOPIC].result(TIMEOUT_S)
    await_condition(lambda: METADATA_TOPIC not in existing_topics(kafka), "it is lost", TIMEOUT_S)
    while_lost()
    create_topic(kafka, kafka.metadata_partitions, name=METADATA_TOPIC, settings=METADATA_SETTINGS)
    return records


def values_in(kafka: LocalKafka, partition: int) -> list[bytes]:
    place = TopicPartition(METADATA_TOPIC, partition)
    with Consumer(kafka.client_config(group_id="unused", enable_auto_commit=False)) as consumer:
        first, end = consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
        consumer.assign([TopicPartition(METADATA_TOPIC, partition, first)])
        found: list[bytes] = []
        while len(found) < end - first:
            found += [message.value() or b"" for message in consumer.consume(end - first, timeout=1.0)]
    return found


def write_again(kafka: LocalKafka, records: list[tuple[int, bytes]]) -> None:
    producer = Producer(kafka.client_config(acks="all"))
    for partition, value in records:
        producer.produce(METADATA_TOPIC, value, partition=partition)
    assert producer.flush(TIMEOUT_S) == 0


def alter(kafka: LocalKafka, topic: str, settings: dict[str, str]) -> None:
    entries = [ConfigEntry(n, v, incremental_operation=AlterConfigOpType.SET) for n, v in settings.items()]
    resource, admin = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries), admin_of(kafka)
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)


def own_settings(kafka: LocalKafka, topic: str) -> dict[str, str]:
    """Return those of :data:`SETTINGS` that are set for the topic itself."""
    resource, admin = ConfigResource(ResourceType.TOPIC, topic), admin_of(kafka)
    entries = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    return {name: entries[name].value for name in SETTINGS if entries[name].source == 1}


def log_start(kafka: LocalKafka, topic: str) -> int:
    place, admin = TopicPartition(topic, 0), admin_of(kafka)
    return int(admin.list_offsets({place: OffsetSpec.earliest()})[place].result(TIMEOUT_S).offset)


def is_served(kafka: LocalKafka, topic: str, offset: int = 0) -> bool:
    with Consumer(
        kafka.client_config(group_id="unused", enable_auto_commit=False, auto_offset_reset="error")
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0, offset)])
        message = consumer.poll(10.0)
    return message is not None and message.error() is None


def see_passes(kafka: LocalKafka, count: int = 3) -> None:
    """Wait until the leaders have passed so many times, by a topic of which each pass deletes something."""
    witness = f"witness-{uuid4().hex}"
    topic_id = copied_topic(kafka, witness, count + 1)
    for passed in range(1, count + 1):
        before = tiering.remote_files(kafka, topic_id)
        delete_records(kafka, witness, 0, passed * tiering.RECORDS_PER_SEGMENT)
        await_condition(lambda there=before: tiering.remote_files(kafka, topic_id) < there, "a pass", 60)
