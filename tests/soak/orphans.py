# SPDX-License-Identifier: Apache-2.0
"""Segments of topics that never were, as a broker would have left them: events in its log, objects in a folder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from confluent_kafka import Producer

from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    SegmentEvent,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from dev.broker import METADATA_TOPIC, LocalKafka

STARTED, COPIED, DELETING = (
    RemoteLogSegmentState.COPY_SEGMENT_STARTED,
    RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
    RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
)
TOPICS, PARTITIONS = 4, 10
RECORDS_PER_SEGMENT = 10
OBJECT_BYTES = 40
ONE_IN = 20
"""One in so many segments is a copy that never ended, and another one a deletion that the broker began."""
TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Orphans:
    """What was laid."""

    tips: list[TopicIdPartition]  # user partitions
    segments: int
    keys: frozenset[str]  # of their objects


def lay_orphans(kafka: LocalKafka, bucket: Path, key_prefix: str, segments: int) -> Orphans:
    """
    Lay orphans of :data:`TOPICS` deleted topics, evenly over their partitions.

    :param kafka: whose log it is.
    :param bucket: the folder that is the bucket.
    :param key_prefix: the plugin's.
    :param segments: how many.
    """
    layout = AivenLayout(key_prefix)
    topics = [(f"soaked-{number}", uuid4()) for number in range(TOPICS)]
    tips = [TopicIdPartition(topic_id, topic, p) for topic, topic_id in topics for p in range(PARTITIONS)]
    producer = Producer(kafka.client_config(linger_ms=20))
    keys: set[str] = set()
    for number in range(segments):
        tip = tips[number % len(tips)]
        added = _segment(tip, number // len(tips))
        suffixes = [".log"] if number % ONE_IN == 0 else list(layout.suffixes)
        for suffix in suffixes:
            key = layout.segment_stem(added) + suffix
            keys.add(key)
            path = bucket / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x" * OBJECT_BYTES)
        for event in _events(added, number, key_prefix):
            produce(kafka, producer, tip, event)
    assert producer.flush(TIMEOUT_S) == 0
    return Orphans(tips, segments, frozenset(keys))


def _segment(tip: TopicIdPartition, number: int) -> RemoteLogSegmentMetadata:
    first, now_ms = number * RECORDS_PER_SEGMENT, time.time_ns() // 1_000_000
    return RemoteLogSegmentMetadata(
        RemoteLogSegmentId(tip, uuid4()), first, first + RECORDS_PER_SEGMENT - 1, now_ms, 1, now_ms, 3 * OBJECT_BYTES, None,
        STARTED, ((0, first),),
    )  # fmt: skip


def _events(added: RemoteLogSegmentMetadata, number: int, key_prefix: str) -> Iterator[SegmentEvent]:
    yield added
    states = [] if number % ONE_IN == 0 else [COPIED, DELETING] if number % ONE_IN == 1 else [COPIED]
    text = key_prefix.encode()
    # Tag 1, the prefix at the time of the copy, with some of them.
    custom = bytes([1, 1, len(text) + 1, len(text) + 1]) + text if number % 3 == 0 else None
    for state in states:
        yield RemoteLogSegmentMetadataUpdate(added.remote_log_segment_id, added.event_timestamp_ms, custom, state, 1)


def produce(kafka: LocalKafka, producer: Producer, tip: TopicIdPartition, event: SegmentEvent) -> None:
    """Write an event to its metadata partition."""
    partition = metadata_partition_for(tip, kafka.metadata_partitions)
    while True:
        try:
            producer.produce(METADATA_TOPIC, serialize(event), partition=partition)
            break
        except BufferError:
            producer.poll(0.1)
    producer.poll(0)
