# SPDX-License-Identifier: Apache-2.0
"""A topic that its brokers do not copy, and records of every kind in it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, OffsetSpec, ResourceType

from dev.patience import Patience

SEGMENT_BYTES = 16_384
NOT_COPIED = {
    "remote.storage.enable": "true",
    "remote.log.copy.disable": "true",
    # Kafka wants local retention to be that of the topic while nothing is copied.
    "local.retention.ms": "-2",
    "local.retention.bytes": "-2",
    "retention.ms": "86400000",
    "internal.segment.bytes": str(SEGMENT_BYTES),
    # Several entries in the indexes of a segment.
    "index.interval.bytes": "1024",
}
"""A tiered topic of which somebody else has to copy the segments."""

TIMEOUT_S = 30.0

Record = tuple[int, tuple[int, int], bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Offset, time stamp with its type, key, value, headers."""


@dataclass
class Writer:
    """
    Writes records of every kind to one user partition.

    :param bootstrap_servers: the brokers.
    :param topic: the topic.
    :param partition: the user partition.
    """

    bootstrap_servers: str
    topic: str
    partition: int = 0
    _random: random.Random = field(default_factory=lambda: random.Random(7))
    _producers: int = 0

    def write(self, count: int, timestamp_ms: int | None = None) -> None:
        """Write records without a transaction, in batches of several; with their own time, or another one."""
        producer = self._producer(enable_idempotence=True)
        self._produce(producer, count, timestamp_ms)

    def commit(self, count: int) -> None:
        """Write records in a transaction, and commit it."""
        self.begin(count).commit_transaction(TIMEOUT_S)

    def abort(self, count: int) -> None:
        """Write records in a transaction, and abort it."""
        self.begin(count).abort_transaction(TIMEOUT_S)

    def begin(self, count: int) -> Producer:
        """Write records in a transaction and return its producer: it is open until that commits or aborts it."""
        self._producers += 1
        name = f"{self.topic}-{self.partition}-{self._producers}"
        # The brokers' limit: none of these is aborted by the brokers while a test runs.
        producer = self._producer(transactional_id=name, transaction_timeout_ms=900_000)
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        self._produce(producer, count)
        return producer

    def _produce(self, producer: Producer, count: int, timestamp_ms: int | None = None) -> None:
        failures: list[str] = []

        def delivered(error: object, _: Message) -> None:
            if error is not None:
                failures.append(str(error))

        for number in range(count):
            # Some batches of one record, some of several.
            if self._random.random() < 0.3:
                assert producer.flush(TIMEOUT_S) == 0
            producer.produce(
                self.topic,
                self._random.choice([None, b"", self._random.randbytes(self._random.randrange(400, 900))]),
                self._random.choice([None, b"", f"key {number}".encode()]),
                self.partition,
                headers=self._random.choice([None, [("a", b"1"), ("a", b"")], [("empty", None)]]),
                timestamp=timestamp_ms or 0,
                on_delivery=delivered,
            )
        assert producer.flush(TIMEOUT_S) == 0
        assert failures == []

    def _producer(self, **settings: str | float | bool) -> Producer:
        given = {key.replace("_", "."): value for key, value in settings.items()}
        return Producer(
            {"bootstrap.servers": self.bootstrap_servers, "linger.ms": 5, "log_level": 2, "acks": "all"} | given
        )


def alter_topic(bootstrap_servers: str, topic: str, **settings: str) -> None:
    """
    Change settings of a topic, all of them at once.

    :param settings: with Kafka's names.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)


def read_records(
    bootstrap_servers: str, topic: str, partition: int = 0, isolation: str = "read_uncommitted"
) -> list[Record]:
    """
    Read a user partition from its log start offset to its end, as a stock consumer.

    :param isolation: Kafka's ``isolation.level``.
    """
    found: list[Record] = []
    with Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "check.crcs": True,
            "log_level": 2,
        }
    ) as consumer:
        consumer.assign([TopicPartition(topic, partition, log_start_offset(bootstrap_servers, topic, partition))])
        patience = Patience(60.0)
        while not patience.over():
            for message in consumer.consume(500, 0.5):
                error = message.error()
                if error is None:
                    found.append(_record(message))
                elif error.name() == "_PARTITION_EOF":
                    return found
                elif not error.retriable():
                    raise KafkaException(error)
    raise TimeoutError(f"{topic}-{partition} was read up to {found[-1:]} and no further")


def log_start_offset(bootstrap_servers: str, topic: str, partition: int = 0) -> int:
    """Return the first offset that may be read."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})
    (answer,) = admin.list_offsets({TopicPartition(topic, partition): OffsetSpec.earliest()}).values()
    return int(answer.result(TIMEOUT_S).offset)


def _record(message: Message) -> Record:
    headers: Sequence[tuple[str, bytes | None]] = message.headers() or []
    return message.offset() or 0, message.timestamp(), message.key(), message.value(), tuple(headers)
