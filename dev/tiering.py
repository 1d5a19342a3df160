# SPDX-License-Identifier: Apache-2.0
"""
Works a real broker: tiered topics with remote segments, segments that Kafka orphans, proofs that tiering is alive.

Nothing here uses the package: what it reads from ``__remote_log_metadata`` it decodes by itself, so that tests and demo
compare the package with something else than itself.
"""

from __future__ import annotations

import base64
import os
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from dev.broker import METADATA_TOPIC, LocalKafka, await_condition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

SEGMENT_BYTES = 16384
RECORDS_PER_SEGMENT = 4
RECORD_OVERHEAD_BYTES = 128
"""More than the headers of a batch that holds one record."""

TIERED_TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "local.retention.ms": "1000",
    "retention.ms": "86400000",
    # segment.bytes has a minimum of 1 MiB.
    "internal.segment.bytes": str(SEGMENT_BYTES),
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
    :param config: topic configuration, with Kafka's names (``**{"retention.ms": "60000"}``), over :data:`TIERED_TOPIC_CONFIG`.
    :return: the topic id.
    :raises confluent_kafka.KafkaException: if the broker refuses.
    """
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient(kafka.client_config())
    topic = NewTopic(name, partitions, 1, config=TIERED_TOPIC_CONFIG | config)
    admin.create_topics([topic])[name].result(30)
    # The controller has answered; the broker learns of the topic and elects itself a moment later.
    await_condition(lambda: _has_leaders(admin, name, partitions), f"topic {name} has leaders", 30)
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
    :return: path relative to ``kafka.remote_root``, with slashes → size in bytes.
    """
    sizes: dict[str, int] = {}
    for folder, _, names in os.walk(kafka.remote_root):
        for name in names:
            path = Path(folder, name)
            try:
                sizes[path.relative_to(kafka.remote_root).as_posix()] = path.stat().st_size
            except FileNotFoundError:
                continue  # deleted since it was listed
    return sizes


def produce_until_remote(
    kafka: LocalKafka,
    topic: str,
    segments_per_partition: int,
    *,
    segment_bytes: int = SEGMENT_BYTES,
    timeout: float = 60.0,
) -> dict[int, int]:
    """
    Produce until every partition has so many segments in remote storage, each in state COPY_SEGMENT_FINISHED.

    The number of records is computed, so a fresh topic gets exactly that many; segments that are remote already count.

    :param kafka: running broker.
    :param topic: tiered topic.
    :param segments_per_partition: at least so many per partition.
    :param segment_bytes: the topic's ``internal.segment.bytes``.
    :param timeout: seconds.
    :return: partition → number of remote segments.
    :raises TieringError: if the records are not accepted or not copied in time.
    """
    topic_id = topic_ids(kafka)[topic]
    partitions = _partitions(kafka, topic)
    with _MetadataTail(kafka) as tail:
        tail.catch_up()
        missing = {p: segments_per_partition - len(tail.finished(topic_id, p)) for p in partitions}
        # One record more closes the last one of the segments: the active segment is not copied.
        records = {p: n * RECORDS_PER_SEGMENT + 1 for p, n in missing.items() if n > 0}
        _produce(kafka, topic, records, segment_bytes, timeout)
        _await_segments(
            tail, topic, topic_id, partitions, lambda _, segments: len(segments) >= segments_per_partition, timeout
        )
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
    before = remote_listing(kafka)
    admin.delete_topics([topic])[topic].result(30)
    kafka.kill()
    kafka.start(timeout)
    await_condition(lambda: topic not in topic_ids(kafka), f"topic {topic} is gone", timeout)
    removed = before.keys() - remote_listing(kafka).keys()
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
    with _consumer(kafka, **{"auto.offset.reset": "error", "check.crcs": True}) as consumer:
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
    Show that tiering still works for a topic: new segments are copied, and old ones are served from remote storage.

    :param kafka: running broker.
    :param topic: live tiered topic without transactions.
    :param segment_bytes: the topic's ``internal.segment.bytes``.
    :param timeout: seconds, for each of the steps.
    :return: partition → what was read from its log start offset to its end.
    :raises TieringError: if a partition copies no segment produced after the call, or cannot be read from the beginning.
    """
    topic_id = topic_ids(kafka)[topic]
    partitions = _partitions(kafka, topic)
    with _MetadataTail(kafka) as tail:
        tail.catch_up()
        before = {p: frozenset(tail.finished(topic_id, p)) for p in partitions}
        _produce(kafka, topic, dict.fromkeys(partitions, 2 * RECORDS_PER_SEGMENT + 1), segment_bytes, timeout)
        # Two, because the first one may hold nothing but records that were there before the call.
        _await_segments(tail, topic, topic_id, partitions, lambda p, segments: len(segments - before[p]) >= 2, timeout)
    return consume_from_beginning(kafka, topic, timeout)


# -- topics and records ------------------------------------------------------------------------------------------------
