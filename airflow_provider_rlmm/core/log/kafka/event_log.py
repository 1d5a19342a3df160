# SPDX-License-Identifier: Apache-2.0
"""The metadata event log on Kafka: the production adapter of the seam."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, Self, cast
from uuid import UUID, uuid4

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from airflow_provider_rlmm.core.base.errors import (
    EventLogAccessError,
    MetadataPartitionOutOfRangeError,
    MetadataTopicNotFoundError,
    OffsetOutOfRangeError,
)
from airflow_provider_rlmm.core.log.event_decoding import BATCH_ROWS, require_range
from airflow_provider_rlmm.core.log.kafka.client import (
    METADATA_TOPIC,
    REQUEST_TIMEOUT_S,
    KafkaAdmin,
    admin_api,
    open_client,
)
from airflow_provider_rlmm.core.log.kafka.client_watch import ClientWatch
from airflow_provider_rlmm.core.log.kafka.config import CLIENT_ID_PREFIX, KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.producer import BatchProducer
from airflow_provider_rlmm.core.log.kafka.subscription import KafkaSubscription, MessageColumns
from airflow_provider_rlmm.core.log.protocol import EventStream, PublishOutcome, SubscriptionHandle
from airflow_provider_rlmm.core.records.era import LogEra, era_of_policy, not_known, policy_of
from airflow_provider_rlmm.core.records.lost_records import NOTHING_EXPLAINED, NOTHING_LOST

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KafkaMetadataEventLog", "KafkaMetadataLogReader", "KafkaMetadataLogWriter"]
DELIVERY_TIMEOUT_S = 60.0

_CONSUME_SLICE_S = 0.1
# At the end of a log the broker holds a fetch for so long, and the first fetch of the next read queues behind it: a caller
# that looks at the end again and again waits for that each time.
_FETCH_WAIT_MS = 2
# Python looks for garbage after 700 new objects, and again and again among the messages that are still held: with this few
# it has no reason to, which saves a third of the CPU time of a read, or more.
_CONSUME_ROWS = 500


class KafkaMetadataLogReader:
    """
    A :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader` on confluent-kafka.

    Clients are opened when first used, so the object may be built before a fork, not shared across one. Every call ends
    within its timeout, with one error that names the brokers. One thread may publish, by a
    :class:`KafkaMetadataLogWriter`, while others read.

    :param config: the clients' properties.
    :param topic: the metadata topic; never created here.
    :param cluster_id: the cluster that every client must have reached; ``None`` takes the one that answers first.
    :param request_timeout_s: seconds for one request, and for a read to make progress.
    """

    def __init__(
        self,
        config: KafkaClientConfig,
        topic: str = METADATA_TOPIC,
        *,
        cluster_id: str | None = None,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self._config = config
        self._topic = topic
        self._admin = KafkaAdmin(config, request_timeout_s)
        self._cluster_id = cluster_id
        self._idle_readers: list[_Reader] = []
        self.losses = NOTHING_LOST
        self.explained_gaps = NOTHING_EXPLAINED

    @property
    def partition_count(self) -> int:
        """
        See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`; asked once.

        :raises MetadataTopicNotFoundError: if the topic does not exist.
        :raises EventLogAccessError: if it may not be described.
        :raises EventLogUnavailableError: if the brokers do not answer.
        """
        return self._identity[1]

    @property
    def topic_id(self) -> UUID:
        """
        See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`; asked once, with the partition count.

        :raises TopicIdMissingError: if the cluster gives it none.
        """
        return self._identity[0]

    @property
    def era(self) -> LogEra:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`; asked each time."""
        try:
            return era_of_policy(self.cleanup_policy())
        except EventLogAccessError as e:
            return not_known(e)

    def cleanup_policy(self) -> frozenset[str]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataTopic`; asked each time."""
        what = f"describing the configuration of topic {self._topic!r}"
        entries = self._admin.checked(what, self._admin.describe_configs([self._topic])[self._topic])
        return policy_of(entries["cleanup.policy"].value)

    @cached_property
    def _identity(self) -> tuple[UUID, int]:
        return self._describe()

    def _describe(self, *, to_write: bool = False) -> tuple[UUID, int]:
        """Return topic id and partition count as of now, and refuse a principal that may not write if it is about to."""
        outcome = self._admin.describe_topics([self._topic], operations=to_write)[self._topic]
        description = self._admin.metadata_topic(self._topic, outcome)
        allowed = description.authorized_operations if to_write else None
        if allowed is not None and not any(operation.name == "WRITE" for operation in allowed):
            raise EventLogAccessError(
                f"writing to topic {self._topic!r}, brokers {self._config.bootstrap_servers}: WRITE is missing from the ACLs "
                "of this principal, nothing was written; check the credentials and ACLs of the Kafka connection"
            )
        return self._admin.topic_id(self._topic, description), len(description.partitions)

    def _require_cluster(self, handle: Any, what: str) -> None:
        """
        Refuse a client that has reached another cluster than the others of this log.

        :raises ClusterMismatchError: naming both.
        """
        if self._cluster_id is None:
            self._cluster_id = self._admin.cluster_id()
        self._admin.require_cluster(handle, self._cluster_id, f"{what} of {self._topic}")

    def read(self, metadata_partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """
        See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`.

        Records are read as the brokers' own consumers read them, those of aborted or open transactions included. The
        range may end in offsets that hold no record.
        """
        return (batch for _, batch in self.read_many({metadata_partition: (start, end)}))

    def read_many(self, ranges: Mapping[int, tuple[int, int]]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`; one consumer reads all of them."""
        for metadata_partition in ranges:
            self._check(metadata_partition)
        if ranges:
            high = self._offsets(list(ranges), admin_api.OffsetSpec.latest())
            begin = self._offsets(list(ranges), admin_api.OffsetSpec.earliest())
            for metadata_partition, given in ranges.items():
                require_range(metadata_partition, given, (begin[metadata_partition], high[metadata_partition]))
        return self._read({p: (start, end) for p, (start, end) in ranges.items() if start < end})

    def _read(self, ranges: Mapping[int, tuple[int, int]]) -> Iterator[tuple[int, pa.RecordBatch]]:
        if not ranges:
            return
        try:
            reader = self._idle_readers.pop()
        except IndexError:
            reader = _Reader(self._config, self._topic, self._require_cluster)
        try:
            yield from reader.read(ranges, self._admin.request_timeout_s)
        except BaseException:
            # One that failed, or was left in mid-read, is not worth knowing the state of.
            reader.close()
            raise
        self._idle_readers.append(reader)

    def subscribe(self, assignment: Mapping[int, int]) -> tuple[EventStream, SubscriptionHandle]:
        """
        See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`; records are read as :meth:`read` does.

        Each subscription has a consumer of its own, which outlives :meth:`close`: close its stream.
        """
        for metadata_partition in assignment:
            self._check(metadata_partition)
        subscription = KafkaSubscription(self._config, self._topic, self._check, self._require_cluster)
        for metadata_partition, start in assignment.items():
            subscription.add(metadata_partition, start)
        return subscription, subscription

    def beginning_offsets(self) -> Mapping[int, int]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`."""
        return self._offsets(range(self.partition_count), admin_api.OffsetSpec.earliest())

    def high_water_marks(self) -> Mapping[int, int]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`."""
        return self._offsets(range(self.partition_count), admin_api.OffsetSpec.latest())

    def _offsets(self, metadata_partitions: Sequence[int], spec: Any) -> dict[int, int]:
        outcomes = self._admin.list_offsets([(self._topic, p) for p in metadata_partitions], spec)
        return {
            partition: self._admin.checked(f"asking for the offsets of {topic}-{partition}", outcome).offset
            for (topic, partition), outcome in outcomes.items()
        }

    def _check(self, metadata_partition: int) -> None:
        if not 0 <= metadata_partition < self.partition_count:
            raise MetadataPartitionOutOfRangeError(
                f"no metadata partition {metadata_partition}: topic {self._topic!r} has {self.partition_count}"
            )

    def close(self) -> None:
        """Close every client; the log can be used again afterwards."""
        while self._idle_readers:
            self._idle_readers.pop().close()
        self._admin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class KafkaMetadataLogWriter:
    """
    A :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogWriter` on confluent-kafka.

    Its producer is opened by the first :meth:`publish`, or by :meth:`open_ahead`: between two calls nothing is queued.

    :param reader: of the topic to write to; what it was first described as is what is written to.
    :param delivery_timeout_s: seconds until a published record that is not acked becomes
        :class:`~airflow_provider_rlmm.core.log.protocol.Unknown`.
    """

    def __init__(self, reader: KafkaMetadataLogReader, *, delivery_timeout_s: float = DELIVERY_TIMEOUT_S) -> None:
        self._reader = reader
        self._producer = BatchProducer(
            reader._config, reader._topic, delivery_timeout_s, require_cluster=reader._require_cluster
        )

    def open_ahead(self) -> None:
        """Open the producer in a thread while the caller reads: its first batch need not wait for it."""
        self._producer.open_ahead()

    @property
    def partition_count(self) -> int:
        """See :class:`KafkaMetadataLogReader`."""
        return self._reader.partition_count

    @property
    def topic_id(self) -> UUID:
        """See :class:`KafkaMetadataLogReader`."""
        return self._reader.topic_id

    def cleanup_policy(self) -> frozenset[str]:
        """See :class:`KafkaMetadataLogReader`."""
        return self._reader.cleanup_policy()

    def publish(self, records: Sequence[tuple[int, bytes]]) -> list[PublishOutcome]:
        """
        See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogWriter`.

        :raises MetadataTopicNotFoundError: if the topic is gone or is not the one that its reader was opened on.
        :raises EventLogAccessError: if the principal may not write; nothing was written.
        """
        for metadata_partition, _ in records:
            self._reader._check(metadata_partition)
        if not records:
            return []
        # A producer creates a missing topic where the brokers allow it, and one with more partitions routes differently.
        if self._reader._describe(to_write=True) != self._reader._identity:
            raise MetadataTopicNotFoundError(
                f"topic {self._reader._topic!r} at {self._reader._config.bootstrap_servers} was replaced or got more "
                "partitions since it was first described: nothing was written, start the run anew"
            )
        return self._producer.publish(records)

    def close(self) -> None:
        """Let the producer go; the next :meth:`publish` opens another."""
        self._producer.close()


class KafkaMetadataEventLog(KafkaMetadataLogReader):
    """
    Reader and writer in one, for programs that see to the guard themselves; hooks hand out a reader.

    :param config: the clients' properties.
    :param topic: the metadata topic; never created here.
    :param delivery_timeout_s: as of :class:`KafkaMetadataLogWriter`.
    :param options: ``cluster_id`` and ``request_timeout_s`` of :class:`KafkaMetadataLogReader`.
    """

    def __init__(
        self,
        config: KafkaClientConfig,
        topic: str = METADATA_TOPIC,
        *,
        delivery_timeout_s: float = DELIVERY_TIMEOUT_S,
        **options: Any,
    ) -> None:
        super().__init__(config, topic, **options)
        self._writer = KafkaMetadataLogWriter(self, delivery_timeout_s=delivery_timeout_s)

    def publish(self, records: Sequence[tuple[int, bytes]]) -> list[PublishOutcome]:
        """See :meth:`KafkaMetadataLogWriter.publish`."""
        return self._writer.publish(records)

    def close(self) -> None:
        """See :meth:`KafkaMetadataLogReader.close`."""
        self._writer.close()
        super().close()


@dataclass(slots=True)
class _Range:
    """A range of offsets that is being read: everything below its position was, and ``columns`` since the last batch."""

    position: int
    end: int
    columns: MessageColumns = field(default_factory=MessageColumns)
    more_came: bool = False  # whether anything behind the end was delivered
    assigned: bool = True  # to the consumer

    @property
    def left(self) -> int:
        return self.end - self.position

    @property
    def is_in_the_way(self) -> bool:
        """Whether the consumer delivers what is not wanted."""
        return self.assigned and self.more_came and not self.left

    def take(self, records: Sequence[Any], reached: int) -> None:
        """Take records up to the end, and the offset up to which the partition is known with them."""
        self.more_came = self.more_came or reached > self.end
        if self.left:
            # Ascending offsets: mostly the last one speaks for all.
            self.columns.extend(records if reached <= self.end else [m for m in records if m.offset() < self.end])
            self.position = max(self.position, min(reached, self.end))


class _Reader:
    """One consumer that is assigned the partitions of one read at a time and joins no group."""

    def __init__(self, config: KafkaClientConfig, topic: str, require_cluster: Callable[[Any, str], None]) -> None:
        self._topic = topic
        self._watch = ClientWatch(config)
        group_id = f"{CLIENT_ID_PREFIX}_reader_{uuid4().hex}"
        properties = config.consumer(group_id)
        if "fetch.wait.max.ms" not in {**config.properties, **config.consumer_properties}:
            properties["fetch.wait.max.ms"] = _FETCH_WAIT_MS
        self._consumer: Consumer = open_client(Consumer, properties, self._watch)
        require_cluster(self._consumer, "the consumer")

    def read(self, wanted: Mapping[int, tuple[int, int]], timeout_s: float) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the records of ranges that are not empty, each of which ends at or below its high watermark."""
        ranges = {partition: _Range(start, end) for partition, (start, end) in wanted.items()}
        self._watch.forget()
        self._consumer.assign([self._place(partition, r.position) for partition, r in ranges.items()])
        left = sum(r.left for r in ranges.values())
        deadline = time.monotonic() + timeout_s
        while reading := {partition: r for partition, r in ranges.items() if r.left}:
            self._collect(ranges, left)
            for partition, r in reading.items():
                if r.columns.rows:
                    yield partition, r.columns.batch()
            before, left = left, sum(r.left for r in reading.values())
            if left:
                self._pass_over({partition: r for partition, r in ranges.items() if r.is_in_the_way})
            if left < before:
                deadline = time.monotonic() + timeout_s
            elif time.monotonic() > deadline:
                partition, slow = next(iter(reading.items()))
                raise self._watch.error(
                    self._what(partition),
                    f"no progress for {timeout_s:g} s at offset {slow.position}, before {slow.end}",
                )
        self._consumer.unassign()

    def _pass_over(self, ranges: Mapping[int, _Range]) -> None:
        """Let what comes behind ranges not stand in the way of others. Most end where the log does: nothing comes there."""
        if ranges:
            self._consumer.incremental_unassign([self._place(partition, r.end) for partition, r in ranges.items()])
        for r in ranges.values():
            r.assigned = False

    def _place(self, partition: int, offset: int) -> Any:
        return TopicPartition(self._topic, partition, offset)

    def _what(self, partition: int) -> str:
        return f"reading {self._topic}-{partition}"

    def _collect(self, ranges: Mapping[int, _Range], left: int) -> None:
        """Take what comes within a moment, a batch at most."""
        rows = 0
        until = time.monotonic() + _CONSUME_SLICE_S
        while left and rows < BATCH_ROWS:
            # Asking for no more than is left makes the last call return as soon as it has it.
            most = min(_CONSUME_ROWS, BATCH_ROWS - rows, left)
            messages = self._consumer.consume(most, max(0.0, until - time.monotonic()))
            self._watch.raise_if_denied(self._what(next(iter(ranges))))
            rows += len(messages)
            self._sort(messages, ranges)
            left = sum(r.left for r in ranges.values())
            if time.monotonic() >= until:
                return

    def _sort(self, messages: Sequence[Any], ranges: Mapping[int, _Range]) -> None:
        """Give each range its records."""
        if messages and not any(map(Message.error, messages)):
            # Looking at each message by itself costs more than the rest of a read.
            for partition, records in _by_partition(messages):
                ranges[partition].take(records, records[-1].offset() + 1)
            return
        for message in messages:
            if (error := message.error()) is None:
                ranges[message.partition()].take([message], message.offset() + 1)
            else:
                self._take_event(message, error, ranges)

    def _take_event(self, message: Any, error: KafkaError, ranges: Mapping[int, _Range]) -> None:
        """Take the end of a partition; raise an error that is one."""
        partition = -1 if message.partition() is None else message.partition()
        if error.name() == "_PARTITION_EOF":
            # The end of what is readable, past any offsets without records (transaction markers, compaction).
            ranges[partition].take([], message.offset())
        elif error.name() == "_AUTO_OFFSET_RESET":
            raise OffsetOutOfRangeError(
                f"{self._what(partition)}: records were lost while they were read: {self._watch.text_of(error)}",
                partition,
                ranges[partition].position,
            )
        elif error.name() != "GROUP_AUTHORIZATION_FAILED":
            # librdkafka looks for the coordinator of its unused group; nothing here needs permission for it.
            raise self._watch.error(self._what(partition), error)

    def close(self) -> None:
        self._consumer.close()


def _by_partition(messages: Sequence[Any]) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield messages by partition, in their order; mostly all of them are of one."""
    numbers = cast("list[int]", list(map(Message.partition, messages)))
    if numbers.count(numbers[0]) == len(numbers):
        yield numbers[0], messages
        return
    place = iter(numbers)
    for number, found in groupby(messages, lambda _: next(place)):
        yield number, list(found)
