# SPDX-License-Identifier: Apache-2.0
"""User partitions that a broker has copied, with every kind of record, and what stock clients say of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.core.log.known_segments import PartitionSegments
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from dev import tiering
from dev.broker import LocalKafka, await_condition
from tests.integration.copying.writing import TIMEOUT_S, Record
from tests.integration.kafka_topics import config_of

if TYPE_CHECKING:
    from collections.abc import Iterator

BEGIN_MS = 1_700_000_000_000
TIMES_AT_ONCE = 50
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COPIED = {
    "internal.segment.bytes": "16384",
    # Several entries in the indexes of a segment.
    "index.interval.bytes": "1024",
    # The records are from 2023.
    "retention.ms": "-1",
}


@dataclass
class RecordWriter:
    """
    Writes records of every kind, as old as it says.

    :param kafka: a running broker.
    :param topic: of one partition.
    :param steps_ms: by how much the records' time goes on; it may go back.
    """

    kafka: LocalKafka
    topic: str
    steps_ms: Sequence[int] = (0, 5, 40, 300, -100)
    _random: random.Random = field(default_factory=lambda: random.Random(11))
    _time_ms: int = BEGIN_MS
    _producers: int = 0

    def write(self, count: int, codec: str) -> None:
        """Write records without a transaction, in batches of one and of several."""
        self._produce(self._producer(codec, enable_idempotence=True), count)

    def begin(self, count: int, codec: str = "none") -> Producer:
        """Write records in a transaction and return its producer."""
        self._producers += 1
        name = f"{self.topic}-{self._producers}"
        producer = self._producer(codec, transactional_id=name, transaction_timeout_ms=900_000)
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        self._produce(producer, count)
        return producer

    def _produce(self, producer: Producer, count: int) -> None:
        failures: list[str] = []
        rng = self._random
        for number in range(count):
            if rng.random() < 0.2:
                assert producer.flush(TIMEOUT_S) == 0
            self._time_ms += rng.choice(self.steps_ms)
            producer.produce(
                self.topic,
                rng.choice([None, b"", bytes(range(256)) * 2, rng.randbytes(rng.randrange(100, 900))]),
                rng.choice([None, b"", f"key {number}".encode()]),
                0,
                headers=rng.choice([None, None, [("a", b"1"), ("a", b"")], [("ä", None)]]),
                timestamp=self._time_ms,
                on_delivery=lambda error, _: failures.append(str(error)) if error is not None else None,
            )
        assert producer.flush(TIMEOUT_S) == 0
        assert failures == []

    def _producer(self, codec: str, **settings: str | float | bool) -> Producer:
        given = {key.replace("_", "."): value for key, value in settings.items()}
        return Producer(
            {
                "bootstrap.servers": self.kafka.bootstrap_servers,
                "compression.type": codec,
                "linger.ms": 20,
                "log_level": 2,
                "acks": "all",
            }
            | given
        )


def make_remote_log(kafka: LocalKafka, topic: str) -> TopicIdPartition:
    """
    Write a user partition of several leader epochs, and wait until its broker has copied all that it will.

    Two transactions are open for the reader: one whose end is not remote any more, and one that has none.
    """
    topic_id = tiering.create_tiered_topic(kafka, topic, 1, **COPIED)
    writer = RecordWriter(kafka, topic)
    late = None
    for codec in CODECS:
        writer.write(150, codec)
        writer.begin(40, codec).commit_transaction(TIMEOUT_S)
        writer.begin(40, codec).abort_transaction(TIMEOUT_S)
        if late is not None:
            # It was begun some segments and a leader epoch ago.
            late.abort_transaction(TIMEOUT_S)
        if codec in ("gzip", "lz4"):
            kafka.restart()
        late = writer.begin(3, codec)
    assert late is not None
    writer.write(60, "none")
    late.commit_transaction(TIMEOUT_S)
    writer.begin(3)
    writer.write(80, "none")
    tip = TopicIdPartition(topic_id, topic, 0)
    await_copied(kafka, tip)
    return tip


def await_copied(kafka: LocalKafka, tip: TopicIdPartition) -> None:
    """Wait until all segments below the last stable offset are remote and the leader's disk has no other ones."""

    def copied() -> bool:
        stable = _last_stable_offset(kafka, tip)
        local = sorted(int(path.stem) for path in (kafka.log_dir / f"{tip.topic}-{tip.partition}").glob("*.log"))
        ends = [base for base in local if base <= stable]
        with segments_of(kafka, tip) as segments:
            remote = segments.list_remote_log_segments(tip)
        return bool(remote) and remote[-1].end_offset + 1 == ends[-1] and len(ends) == 1

    await_condition(copied, f"{tip} is remote up to its last stable offset", 120.0, interval=0.5)


def await_stable(kafka: LocalKafka, tip: TopicIdPartition) -> None:
    """Wait until the end of every transaction can be read: a producer's call returns earlier."""

    def stable() -> bool:
        return _last_stable_offset(kafka, tip) == _latest_offset(kafka, tip, IsolationLevel.READ_UNCOMMITTED)

    await_condition(stable, f"{tip} has no open transaction", 120.0, interval=0.2)


def _last_stable_offset(kafka: LocalKafka, tip: TopicIdPartition) -> int:
    return _latest_offset(kafka, tip, IsolationLevel.READ_COMMITTED)


def _latest_offset(kafka: LocalKafka, tip: TopicIdPartition, isolation: IsolationLevel) -> int:
    admin = AdminClient(kafka.client_config())
    wanted = {TopicPartition(tip.topic, tip.partition): OffsetSpec.latest()}
    (answer,) = admin.list_offsets(wanted, isolation_level=isolation).values()
    return int(answer.result(TIMEOUT_S).offset)


@contextmanager
def segments_of(kafka: LocalKafka, tip: TopicIdPartition) -> Iterator[PartitionSegments]:
    """What the metadata topic says of a user partition."""
    with KafkaMetadataEventLog(config_of(kafka)) as log:
        yield PartitionSegments(log, [tip])


def storage_of(kafka: LocalKafka) -> ObjectStoreRemoteStorageManager:
    """The broker's remote storage."""
    return ObjectStoreRemoteStorageManager(kafka.remote_dir.as_uri(), LocalTieredStorageLayout())


def offsets_for_times(kafka: LocalKafka, topic: str, times_ms: Sequence[int]) -> list[tuple[int, int, int | None]]:
    """Return the broker's answers to ListOffsets: offset, timestamp and leader epoch of each time."""
    admin = AdminClient(kafka.client_config())
    found = []
    # A broker gives up on what waits for its few readers of remote logs for remote.list.offsets.request.timeout.ms.
    for start in range(0, len(times_ms), TIMES_AT_ONCE):
        some = times_ms[start : start + TIMES_AT_ONCE]
        asked = [_ask(admin, topic, time_ms) for time_ms in some]
        for time_ms, answer in zip(some, asked, strict=True):
            try:
                result = answer.result(TIMEOUT_S)
            except KafkaException as e:
                if e.args[0].code() != KafkaError.REQUEST_TIMED_OUT:
                    raise
                # It gave up on one that waited behind the others: alone it is answered.
                result = _ask(admin, topic, time_ms).result(TIMEOUT_S)
            found.append((result.offset, result.timestamp, result.leader_epoch))
    return found


def _ask(admin: AdminClient, topic: str, time_ms: int) -> Future[ListOffsetsResultInfo]:
    (answer,) = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.for_timestamp(time_ms)}).values()
    return answer


def as_row(record: Record) -> dict[str, object]:
    """A record of a stock consumer as a row of the reader."""
    offset, (_, timestamp_ms), key, value, headers = record
    named = [{"key": name, "value": content} for name, content in headers]
    return {"offset": offset, "timestamp": timestamp_ms, "key": key, "value": value, "headers": named}
