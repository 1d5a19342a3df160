# SPDX-License-Identifier: Apache-2.0
"""The recorded metadata topic, written once more to a broker whose log cleaner is quick: with keys, and to be compacted."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaError, Message, Producer

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.records.records import (
    OWN_BROKER_ID,
    RemotePartitionDeleteMetadata,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.serde import deserialize, serialize
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from dev.broker import LocalKafka, await_condition
from tests.integration.kafka_topics import METADATA_SETTINGS, TIMEOUT_S
from tests.simulation.compaction import KeyForm, Record, Records, with_keys, with_tombstones
from tests.unit.core.records.recorded import REAL

PARTITIONS = 5
"""Metadata partitions of the broker that was recorded."""

QUICK_CLEANER = {"log.cleaner.backoff.ms": "100"}
"""Property of a broker: how long its log cleaner rests where nothing was to be done, ms."""

COMPACTED_SOON = METADATA_SETTINGS | {
    "internal.segment.bytes": "1024", "min.cleanable.dirty.ratio": "0.01", "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "1", "delete.retention.ms": "1",
}  # fmt: skip
"""Settings of a topic that is cleaned at once when its policy becomes compact, all but its last segment."""


def recorded() -> list[Records]:
    """Return the recorded events, per metadata partition."""
    found: list[list[Record]] = [[] for _ in range(PARTITIONS)]
    for row in REAL:
        records = found[row["partition"]]
        records.append(Record(len(records), row["timestamp_ms"], None, bytes.fromhex(row["value_hex"])))
    return list(found)


def updated(plain: Records, form: KeyForm) -> Records:
    """
    Return what an updated cluster has of them: those before the update without keys, then those with keys, and behind them
    what asks to forget finished segments.

    :param plain: the records of a metadata partition.
    :param form: what keys name.
    """
    before = len(plain) // 5
    return with_tombstones([*plain[:before], *with_keys(plain, form)[before:]], len(plain))


def with_markers(records: Records, plain: Records) -> Records:
    """Return the records of a metadata partition, and behind them the marker of each of its user partitions."""
    tips = dict.fromkeys(topic_id_partition_of(deserialize(record.value or b"")) for record in plain)
    now_ms, end = system_clock(), records[-1].offset + 1
    state = RemotePartitionDeleteState.DELETE_PARTITION_MARKED
    marked = (RemotePartitionDeleteMetadata(tip, state, now_ms, OWN_BROKER_ID) for tip in tips)
    return [*records, *(Record(end + i, now_ms, None, serialize(event)) for i, event in enumerate(marked))]


def write(kafka: LocalKafka, topic: str, partitions: Sequence[Records], **settings: int) -> None:
    """
    Write records, each of which has to get the offset that it says.

    :param kafka: the broker.
    :param topic: the topic.
    :param partitions: the records of each partition.
    :param settings: of the producer; it sends one record at a time, as brokers do, unless they say otherwise.
    """
    places: list[tuple[int | None, int | None]] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        places.append((message.partition(), message.offset()))

    # The log cleaner keeps a producer's last batch, emptied: a broker's producer is idempotent, too.
    producer = Producer(kafka.client_config(enable_idempotence=True, **({"batch_num_messages": 1} | settings)))
    for number, records in enumerate(partitions):
        for record in records:
            producer.produce(
                topic, record.value, record.key, number, timestamp=record.timestamp_ms, on_delivery=delivered
            )
    assert producer.flush(TIMEOUT_S) == 0
    assert sorted(places) == [
        (number, record.offset) for number, records in enumerate(partitions) for record in records
    ]


def answer_to_keyless(kafka: LocalKafka, topic: str, value: bytes) -> str:
    """Write a record without a key; return the name of the error by which the broker refuses it, or nothing."""
    codes: list[str] = []
    producer = Producer(kafka.client_config())
    producer.produce(
        topic, value, partition=0, on_delivery=lambda error, _: codes.append(error.name() if error else "")
    )
    assert producer.flush(TIMEOUT_S) == 0
    return codes[0]


def await_cleaned(kafka: LocalKafka, topic: str) -> list[int]:
    """
    Wait until the log cleaner has been at all but the last segment of each partition.

    :return: for each, the first offset that it has not reached.
    """
    last = [
        max(int(path.stem) for path in (kafka.log_dir / f"{topic}-{number}").glob("*.log"))
        for number in range(PARTITIONS)
    ]
    await_condition(lambda: _cleaned(kafka, topic) == last, f"{topic} is compacted up to {last}", TIMEOUT_S)
    return last


def _cleaned(kafka: LocalKafka, topic: str) -> list[int]:
    """Return where the broker would go on to clean, by its own checkpoint; 0 where it has not begun."""
    path = kafka.log_dir / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    reached = {(name, int(number)): int(offset) for name, number, offset in map(str.split, lines)}
    return [reached.get((topic, number), 0) for number in range(PARTITIONS)]
