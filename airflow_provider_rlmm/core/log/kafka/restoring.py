# SPDX-License-Identifier: Apache-2.0
"""Writes archived records into a topic, in their order and with their times, and reads them back."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import RestoreError
from airflow_provider_rlmm.core.log.kafka.client import KafkaAdmin, open_client, serve
from airflow_provider_rlmm.core.log.kafka.client_watch import ClientWatch
from airflow_provider_rlmm.core.log.kafka.config import CLIENT_ID_PREFIX, KafkaClientConfig

if TYPE_CHECKING:
    import pyarrow as pa

DELIVERY_TIMEOUT_S: Final = 120.0
READ_TIMEOUT_S: Final = 60.0
_SLICE_S: Final = 0.5
_ROWS: Final = 5_000
_MOST_MESSAGE_BYTES: Final = 1_000_000_000


class RestoringTopic:
    """
    Writes into a topic; :class:`~airflow_provider_rlmm.core.log.kafka.restore_target.RestoreTarget` says what it is before.

    :param config: the clients' properties.
    :param cluster_id: the cluster that is worked on.
    :param topic: its name; it must exist.
    """

    def __init__(self, config: KafkaClientConfig, cluster_id: str, topic: str) -> None:
        self._config = config
        self._cluster_id = cluster_id
        self._topic = topic
        self._admin = KafkaAdmin(config)
        self._watch = ClientWatch(config)

    def write(self, partition: int, batches: Iterable[pa.RecordBatch], begin: int, max_message_bytes: int) -> int:
        """
        Write records; all of them are acked when this returns.

        :param partition: which one.
        :param batches: the records, in order.
        :param begin: the offset that the first record must get: another one says that another producer writes there.
        :param max_message_bytes: of the topic.
        :return: how many were written.
        :raises RestoreError: naming the place, if one is refused, or its outcome is unknown, or another writer is met.
        """
        properties = self._config.producer(DELIVERY_TIMEOUT_S) | {
            "message.max.bytes": min(max(max_message_bytes, 1_000_000), _MOST_MESSAGE_BYTES)
        }
        producer = open_client(Producer, properties, self._watch)
        self._admin.require_cluster(producer, self._cluster_id, "the producer of restored records")
        reports = _Reports(f"{self._topic}-{partition}", begin, self._watch)
        written = 0
        try:
            for batch in batches:
                for start in range(0, batch.num_rows, _ROWS):
                    written += self._produce(producer, partition, batch.slice(start, _ROWS), reports)
            self._flush(producer, reports)
        except BaseException:
            # What is still queued must not be written behind the back of a caller that reads the error.
            producer.purge()
            raise
        if reports.count != written:
            raise RestoreError(
                f"{self._topic}-{partition}: {number_of(written, 'record was', 'records were')} sent, "
                f"{number_of(reports.count, 'is', 'are')} acked"
            )
        return written

    def _produce(self, producer: Producer, partition: int, batch: pa.RecordBatch, reports: _Reports) -> int:
        columns = [batch.column(name).to_pylist() for name in ("timestamp", "key", "value", "headers")]
        for timestamp, key, value, headers in zip(*columns, strict=True):
            pairs = [(header["key"], header["value"]) for header in headers]
            while True:
                try:
                    producer.produce(
                        self._topic, value, key, partition, on_delivery=reports, timestamp=timestamp, headers=pairs
                    )
                    break
                except BufferError:
                    self._serve(producer, producer.poll, reports)
                except KafkaException as e:
                    raise RestoreError(
                        f"{self._topic}-{partition}: a record is refused: {self._watch.text_of(e.args[0])}"
                    ) from None
        self._serve(producer, lambda seconds: producer.poll(0), reports)
        return len(columns[0])

    def _serve(self, producer: Producer, call: Any, reports: _Reports) -> None:
        try:
            serve(call, _SLICE_S)
        except KafkaException as e:
            raise RestoreError(f"{self._topic}: the producer has failed: {self._watch.text_of(e.args[0])}") from None
        reports.require_good()

    def _flush(self, producer: Producer, reports: _Reports) -> None:
        deadline = time.monotonic() + DELIVERY_TIMEOUT_S
        while len(producer) and time.monotonic() < deadline:
            self._serve(producer, producer.flush, reports)
        reports.require_good()

    def read_back(self, partition: int, begin: int, end: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """
        Yield what the topic holds now.

        :param partition: which one.
        :param begin: first offset, inclusive.
        :param end: last offset, exclusive.
        :param schema: of records.
        :raises RestoreError: if records are missing, or do not come in time.
        """
        import pyarrow as pa

        consumer: Consumer = open_client(
            Consumer, self._config.consumer(f"{CLIENT_ID_PREFIX}_restore_{uuid4().hex}"), self._watch
        )
        try:
            self._admin.require_cluster(consumer, self._cluster_id, "the consumer of restored records")
            consumer.assign([TopicPartition(self._topic, partition, begin)])
            position, deadline = begin, time.monotonic() + READ_TIMEOUT_S
            while position < end:
                rows = [_row(m) for m in consumer.consume(500, timeout=_SLICE_S) if self._is_record(m)]
                if rows:
                    deadline = time.monotonic() + READ_TIMEOUT_S
                    offsets = [row["offset"] for row in rows]
                    if offsets != list(range(position, position + len(rows))):
                        raise RestoreError(f"{self._topic}-{partition}: offset {position} is missing when read back")
                    position += len(rows)
                    yield pa.RecordBatch.from_pylist(rows, schema)
                elif time.monotonic() > deadline:
                    raise RestoreError(f"{self._topic}-{partition}: offset {position} does not come when read back")
        finally:
            consumer.close()

    def _is_record(self, message: Message) -> bool:
        error = message.error()
        if error is not None and error.name() not in ("_PARTITION_EOF", "GROUP_AUTHORIZATION_FAILED"):
            raise RestoreError(f"reading {self._topic} back: {self._watch.text_of(error)}")
        return error is None


class _Reports:
    """The delivery reports of one partition: each record must have got the next offset."""

    def __init__(self, where: str, begin: int, watch: ClientWatch) -> None:
        self._where = where
        self._next = begin
        self._watch = watch
        self._problem: str | None = None
        self._advice = "run the same restore again: it goes on behind what is there"
        self.count = 0

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if self._problem is not None:
            return
        if error is not None:
            self._problem = (
                f"{self._where}: record {self.count} of those sent was not written: {self._watch.text_of(error)}"
            )
        elif message.offset() != self._next:
            self._problem = (
                f"{self._where}: record {self.count} of those sent has got offset {message.offset()} and not "
                f"{self._next}: another producer writes into this topic"
            )
            self._advice = "delete the topic, and restore into a new one"
        else:
            self._next += 1
            self.count += 1

    def require_good(self) -> None:
        """Raise what went wrong first."""
        if self._problem is not None:
            raise RestoreError(f"{self._problem}; {self._advice}")


def _row(message: Message) -> dict[str, Any]:
    headers: Any = message.headers() or []
    return {
        "offset": message.offset(),
        "timestamp": message.timestamp()[1],
        "key": message.key(),
        "value": message.value(),
        "headers": [{"key": key, "value": value} for key, value in headers],
    }
