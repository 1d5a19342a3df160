# SPDX-License-Identifier: Apache-2.0
"""
Works a real broker: tiered topics with remote segments, segments that Kafka orphans, proofs that tiering is alive.

Nothing here uses the package: what it reads from ``__remote_log_metadata`` it decodes by itself, so that tests and demo
compare the package with something else than itself.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from dev.broker import INTERNAL_SEGMENT_BYTES, METADATA_TOPIC, LocalKafka, await_condition, partitions_served
from dev.patience import Patience

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

SEGMENT_BYTES = 16384
RECORDS_PER_SEGMENT = 4
RECORD_OVERHEAD_BYTES = 128
"""More than the headers of a batch that holds one record."""

TIERED_TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "local.retention.ms": "1000",
    "retention.ms": "86400000",
    # segment.bytes has a minimum of 1 MiB.
    INTERNAL_SEGMENT_BYTES: str(SEGMENT_BYTES),
}

COPY_SEGMENT_FINISHED = 1
"""Kafka's id of the state (``RemoteLogSegmentState``)."""


class TieringError(RuntimeError):
    """The broker does not do with tiered storage what was asked; the message names topic and partition."""


@dataclass(frozen=True, slots=True)
class PartitionRead:
    """
    What was read of one partition, beginning to end, without a gap.

    :param first_offset: offset of the first record read, the partition's log start offset.
    :param local_start_offset: first offset that was on the broker's own disk before the read began; what lies below came
        from remote storage.
    :param end_offset: high watermark when the read began, exclusive.
    :param records: number of records.
    """

    first_offset: int
    local_start_offset: int
    end_offset: int
    records: int


def create_tiered_topic(kafka: LocalKafka, name: str, partitions: int, **config: str) -> uuid.UUID:
    """
    Create a topic whose segments go to remote storage and leave the local disk a second later.

    :param kafka: running broker.
    :param name: topic.
    :param partitions: number of partitions.
    :param config: topic configuration, with Kafka's names (``**{"retention.ms": "60000"}``); wins over
        :data:`TIERED_TOPIC_CONFIG`.
    :return: the topic id.
    :raises confluent_kafka.KafkaException: if the broker refuses.
    """
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient(kafka.client_config())
    settings = TIERED_TOPIC_CONFIG | config
    settings[kafka.segment_bytes_setting] = settings.pop(INTERNAL_SEGMENT_BYTES)
    topic = NewTopic(name, partitions, 1, config=settings)
    admin.create_topics([topic])[name].result(30)
    # The controller has answered; the broker learns of the topic and becomes its leader a moment later.
    with _consumer(kafka) as consumer:
        await_condition(lambda: partitions_served(consumer, name) == partitions, f"topic {name} is served", 30)
    return topic_ids(kafka)[name]


def topic_ids(kafka: LocalKafka) -> dict[str, uuid.UUID]:
    """
    Ids of all topics, internal ones included.

    Names come from the full list: asking for a topic by name can create it.

    :param kafka: running broker.
    :return: topic name → topic id.
    """
    from confluent_kafka import KafkaError, KafkaException, TopicCollection
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(kafka.client_config())
    ids: dict[str, uuid.UUID] = {}
    for name, future in admin.describe_topics(TopicCollection(list(admin.list_topics(timeout=30).topics))).items():
        try:
            text = str(future.result(30).topic_id)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            continue  # deleted since it was listed
        ids[name] = uuid.UUID(bytes=base64.b64decode(text + "=" * (-len(text) % 4)))
    return ids


def remote_listing(kafka: LocalKafka) -> dict[str, int]:
    """
    Everything in remote storage.

    :param kafka: broker, running or not.
    :return: path as :meth:`~dev.broker.LocalKafka.remote_objects` has it → size in bytes.
    """
    return kafka.remote_objects()


def remote_files(kafka: LocalKafka, topic_id: uuid.UUID) -> set[str]:
    """
    What remote storage holds of one topic.

    :param kafka: broker, running or not.
    :param topic_id: topic.
    :return: paths as :meth:`~dev.broker.LocalKafka.remote_objects` has them.
    """
    kafka_id = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    return {path for path in remote_listing(kafka) if f"-{kafka_id}/" in path}


def produce(
    kafka: LocalKafka,
    topic: str,
    records: Mapping[int, int],
    segment_bytes: int = SEGMENT_BYTES,
    timeout: float = 60.0,
) -> None:
    """
    Write records, and wait for their acknowledgement, not for their copy.

    :param kafka: running broker.
    :param topic: tiered topic.
    :param records: partition → how many; :data:`RECORDS_PER_SEGMENT` of them fill a segment.
    :param segment_bytes: the topic's ``internal.segment.bytes``.
    :param timeout: seconds.
    :raises TieringError: if a record is not accepted.
    """
    from confluent_kafka import Producer

    failures: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(f"{topic}-{message.partition()}: {error}")

    # One record per batch: a segment is closed when the next batch does not fit, and batches differ in size otherwise.
    producer = Producer(kafka.client_config(enable_idempotence=True, linger_ms=0, batch_num_messages=1))
    value = b"x" * (segment_bytes // RECORDS_PER_SEGMENT - RECORD_OVERHEAD_BYTES)
    for partition, count in records.items():
        for number in range(count):
            while True:
                try:
                    producer.produce(topic, value, str(number), partition, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.1)
    unsent = producer.flush(timeout)
    if unsent or failures:
        raise TieringError(f"topic {topic}: {unsent} records not sent, {len(failures)} refused: {failures[:3]}")


def produce_until_remote(
    kafka: LocalKafka,
    topic: str,
    segments_per_partition: int,
    *,
    segment_bytes: int = SEGMENT_BYTES,
    timeout: float = 120.0,
) -> dict[int, int]:
    """
    Produce until every partition has so many segments in remote storage, each in state COPY_SEGMENT_FINISHED.

    Segments that are remote already count; a fresh topic gets exactly that many. It returns when every record is in remote
    storage: the broker has nothing left to copy, so listings and metadata hold still.

    :param kafka: running broker.
    :param topic: tiered topic with a short ``local.retention.ms``: that is what closes the last segment.
    :param segments_per_partition: at least so many per partition.
    :param segment_bytes: the topic's ``internal.segment.bytes``.
    :param timeout: seconds, for sending and for copying each.
    :return: partition → number of remote segments.
    :raises TieringError: if the records are not accepted or not copied in time.
    """
    topic_id = topic_ids(kafka)[topic]
    partitions = _partitions(kafka, topic)
    with MetadataTail(kafka) as tail:
        tail.catch_up()
        missing = {p: segments_per_partition - len(tail.finished(topic_id, p)) for p in partitions}
        records = {p: n * RECORDS_PER_SEGMENT for p, n in missing.items() if n > 0}
        produce(kafka, topic, records, segment_bytes, timeout)
        _await_all_remote(kafka, tail, topic, topic_id, timeout)
        return {p: len(tail.finished(topic_id, p)) for p in partitions}


def provoke_scenario_b(kafka: LocalKafka, topic: str, timeout: float = 60.0) -> uuid.UUID:
    """
    Delete a topic, kill the broker (SIGKILL) as soon as the deletion is acknowledged, start it again.

    Kafka never returns to the remote segments: they are orphaned, with metadata in state COPY_SEGMENT_FINISHED.

    :param kafka: running broker; runs again afterwards, on the same ports.
    :param topic: tiered topic, whose segments have been copied.
    :param timeout: seconds for the restart and until the topic is gone from the broker's metadata.
    :return: id of the deleted topic.
    :raises TieringError: if the broker was faster and removed objects before it was killed.
    """
    from confluent_kafka.admin import AdminClient

    topic_id = topic_ids(kafka)[topic]
    admin = AdminClient(kafka.client_config())
    before = remote_files(kafka, topic_id)
    admin.delete_topics([topic])[topic].result(30)
    kafka.kill()
    kafka.start(timeout)
    await_condition(lambda: topic not in topic_ids(kafka), f"topic {topic} is gone", timeout)
    removed = before - remote_files(kafka, topic_id)
    if removed:
        raise TieringError(
            f"topic {topic}: the broker removed {len(removed)} of its {len(before)} remote files before it was killed"
        )
    return topic_id


def consume_from_beginning(kafka: LocalKafka, topic: str, timeout: float = 60.0) -> dict[int, PartitionRead]:
    """
    Read every record of a topic, of which the beginning is in remote storage only.

    First it waits until each partition's first segments are gone from the broker's own disk: below that offset a broker
    has nothing but remote storage to serve from.

    :param kafka: running broker.
    :param topic: tiered topic without transactions (their markers leave gaps).
    :param timeout: seconds, for the wait and for the read each.
    :return: partition → what was read.
    :raises TieringError: if the local segments stay, a record is missing, or the broker does not serve it.
    """
    partitions = _partitions(kafka, topic)
    with _consumer(kafka, auto_offset_reset="error", check_crcs=True) as consumer:
        bounds = {p: _watermarks(consumer, topic, p) for p in partitions}
        local = {p: _await_local_start(kafka, topic, p, bounds[p][0], timeout) for p in partitions}
        offsets: dict[int, list[int]] = {p: [] for p in partitions}

        def take(message: Message) -> None:
            offsets[message.partition() or 0].append(message.offset() or 0)

        _read(consumer, topic, bounds, take, timeout)
    for partition, (first, end) in bounds.items():
        if offsets[partition][: end - first] != list(range(first, end)):
            raise TieringError(f"{topic}-{partition}: the offsets read from {first} to {end} have gaps")
    return {p: PartitionRead(first, local[p], end, end - first) for p, (first, end) in bounds.items()}


def tiering_alive(
    kafka: LocalKafka, topic: str, *, segment_bytes: int = SEGMENT_BYTES, timeout: float = 60.0
) -> dict[int, PartitionRead]:
    """
    Show that tiering still works for a topic: fresh records are copied, and old ones are served from remote storage.

    Like :func:`produce_until_remote` it returns when the broker has nothing left to copy.

    :param kafka: running broker.
    :param topic: live tiered topic without transactions, with a short ``local.retention.ms``.
    :param segment_bytes: the topic's ``internal.segment.bytes``.
    :param timeout: seconds, for each of the steps.
    :return: partition → what was read from its log start offset to its end.
    :raises TieringError: if a partition does not copy the records produced by this call, or cannot be read in full.
    """
    topic_id = topic_ids(kafka)[topic]
    produce(kafka, topic, dict.fromkeys(_partitions(kafka, topic), RECORDS_PER_SEGMENT), segment_bytes, timeout)
    with MetadataTail(kafka) as tail:
        _await_all_remote(kafka, tail, topic, topic_id, timeout)
    return consume_from_beginning(kafka, topic, timeout)


class MetadataTail:
    """
    Follows ``__remote_log_metadata`` and knows which remote segments are in state COPY_SEGMENT_FINISHED.

    It decodes as much of a value as that takes, and passes over what it does not understand.

    :param kafka: running broker.
    """

    def __init__(self, kafka: LocalKafka) -> None:
        self._consumer = _consumer(kafka)
        self._partitions = range(kafka.metadata_partitions)
        self._next: dict[int, int] = {}
        self._ends: dict[uuid.UUID, int] = {}
        self._finished: dict[tuple[uuid.UUID, int], set[uuid.UUID]] = {}

    def __enter__(self) -> MetadataTail:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._consumer.close()

    def catch_up(self, timeout: float = 60.0) -> None:
        """
        Read up to the high watermarks of this moment.

        :param timeout: seconds.
        :raises TieringError: if the broker does not serve the records in time.
        """
        marks = {p: _watermarks(self._consumer, METADATA_TOPIC, p) for p in self._partitions}
        bounds = {p: (self._next.get(p, low), high) for p, (low, high) in marks.items()}
        _read(self._consumer, METADATA_TOPIC, bounds, lambda message: self._apply(message.value() or b""), timeout)
        self._next = {p: high for p, (_, high) in bounds.items()}

    def finished(self, topic_id: uuid.UUID, partition: int) -> dict[uuid.UUID, int]:
        """
        Segments in state COPY_SEGMENT_FINISHED as of the last :meth:`catch_up`.

        :param topic_id: topic.
        :param partition: user partition.
        :return: segment id → end offset, inclusive (-1 if the topic no longer holds the segment's first event).
        """
        return {segment: self._ends.get(segment, -1) for segment in self._finished.get((topic_id, partition), ())}

    def _apply(self, value: bytes) -> None:
        if value[:3] not in (b"\x01\x00\x00", b"\x01\x01\x00"):
            return
        # Both kinds begin with the segment's identity: name, topic id, partition, no tags, segment id, no tags.
        name_length, at = _uvarint(value, 3)
        at += name_length - 1
        topic_id, partition = uuid.UUID(bytes=value[at : at + 16]), int.from_bytes(value[at + 16 : at + 20], "big")
        segment = uuid.UUID(bytes=value[at + 21 : at + 37])
        at += 38
        if value[1] == 0:  # start offset, end offset
            self._ends[segment] = int.from_bytes(value[at + 8 : at + 16], "big")
            return
        # Broker id and time stamp, then the custom metadata, then the state.
        custom_length, at = _uvarint(value, at + 12)
        segments = self._finished.setdefault((topic_id, partition), set())
        if value[at + max(custom_length - 1, 0)] == COPY_SEGMENT_FINISHED:
            segments.add(segment)
        else:
            segments.discard(segment)


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint and the position behind it."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def _await_all_remote(kafka: LocalKafka, tail: MetadataTail, topic: str, topic_id: uuid.UUID, timeout: float) -> None:
    """Wait until the last segment of each partition is finished; a partition's segments are copied one after the other."""
    with _consumer(kafka) as consumer:
        ends = {p: _watermarks(consumer, topic, p)[1] for p in _partitions(kafka, topic)}

    def done() -> bool:
        tail.catch_up()
        return all(max(tail.finished(topic_id, p).values(), default=-1) + 1 == end for p, end in ends.items())

    try:
        await_condition(done, "segments are copied", timeout, interval=0.1)
    except TimeoutError as error:
        remote = {p: max(tail.finished(topic_id, p).values(), default=-1) + 1 for p in ends}
        raise TieringError(
            f"topic {topic}: not all in remote storage within {timeout:.0f} s: partitions end at {ends}, their remote "
            f"parts at {remote}; see RemoteLogManager and ConsumerTask in {kafka.log_path}"
        ) from error


def _partitions(kafka: LocalKafka, topic: str) -> list[int]:
    from confluent_kafka.admin import AdminClient

    return sorted(AdminClient(kafka.client_config()).list_topics(timeout=30).topics[topic].partitions)


def _consumer(kafka: LocalKafka, **settings: str | int | float | bool) -> Consumer:
    from confluent_kafka import Consumer

    # It is assigned its partitions, so the group never comes into being; librdkafka wants the name all the same.
    return Consumer(kafka.client_config(group_id="unused", enable_auto_commit=False, **settings))


def _watermarks(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    from confluent_kafka import TopicPartition

    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
    return low, high


def _read(
    consumer: Consumer,
    topic: str,
    bounds: Mapping[int, tuple[int, int]],
    take: Callable[[Message], None],
    timeout: float,
) -> None:
    """Hand over the records between first offset and end (exclusive) of each partition."""
    from confluent_kafka import KafkaException, TopicPartition

    waiting = {p: end for p, (first, end) in bounds.items() if first < end}
    consumer.assign([TopicPartition(topic, p, bounds[p][0]) for p in waiting])
    patience = Patience(timeout)
    while waiting:
        if patience.over():
            raise TieringError(f"topic {topic}: not served within {timeout:.0f} s, up to offsets {waiting}")
        for message in consumer.consume(1000, timeout=0.1):
            error = message.error()
            if error is not None:
                raise TieringError(f"{topic}-{message.partition()}: {error}") from KafkaException(error)
            partition, offset = message.partition() or 0, message.offset() or 0
            if offset < bounds[partition][1]:
                take(message)
            if offset + 1 >= bounds[partition][1]:
                waiting.pop(partition, None)
    consumer.unassign()


def _await_local_start(kafka: LocalKafka, topic: str, partition: int, log_start: int, timeout: float) -> int:
    """First offset in the broker's own log folder, once that is above the log start offset."""
    folder = kafka.log_dir / f"{topic}-{partition}"

    def local_start() -> int | None:
        # Removed segments are renamed to .deleted first.
        first = min((int(path.stem) for path in folder.glob("*.log")), default=0)
        return first if first > log_start else None

    try:
        return await_condition(local_start, "local segments are gone", timeout)
    except TimeoutError as error:
        raise TieringError(
            f"{topic}-{partition}: the segment at offset {log_start} is still on the broker's own disk after {timeout:.0f} s"
        ) from error
