# SPDX-License-Identifier: Apache-2.0
"""Orphans in any number, without the minutes that a broker needs for them: copies of a segment that it has made."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

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
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from dev.broker import METADATA_TOPIC, LocalKafka

STARTED, COPIED = RemoteLogSegmentState.COPY_SEGMENT_STARTED, RemoteLogSegmentState.COPY_SEGMENT_FINISHED
TIMEOUT_S = 30.0


def clone_orphans(
    kafka: LocalKafka,
    model: RemoteLogSegmentMetadata,
    topic: str,
    partitions: int,
    segments_per_partition: int,
    *,
    topic_id: UUID | None = None,
) -> UUID:
    """
    Let a topic look deleted that never was: objects, and the events of their copies by the model's broker.

    Brokers pass over events about topics that they do not serve.
    """
    topic_id = topic_id or uuid4()
    producer = Producer(kafka.client_config(linger_ms=20))
    for partition in range(partitions):
        tip = TopicIdPartition(topic_id, topic, partition)
        for number in range(segments_per_partition):
            clone = _clone(model, tip, number)
            _link_objects(kafka, model, clone)
            copied = RemoteLogSegmentMetadataUpdate(
                clone.remote_log_segment_id, clone.event_timestamp_ms, None, COPIED, clone.broker_id
            )
            for event in (clone, copied):
                _produce(producer, tip, event, kafka.metadata_partitions)
    assert producer.flush(TIMEOUT_S) == 0
    return topic_id


def clone_unnamed(kafka: LocalKafka, model: RemoteLogSegmentMetadata, tip: TopicIdPartition) -> UUID:
    """Lay the objects of one more segment beside those of a user partition, and say nothing of it in the log."""
    clone = _clone(model, tip, number=0)
    _link_objects(kafka, model, clone)
    return clone.remote_log_segment_id.id


def _clone(model: RemoteLogSegmentMetadata, tip: TopicIdPartition, number: int) -> RemoteLogSegmentMetadata:
    length = model.end_offset - model.start_offset + 1
    return replace(
        model,
        remote_log_segment_id=RemoteLogSegmentId(tip, uuid4()),
        start_offset=number * length,
        end_offset=(number + 1) * length - 1,
        state=STARTED,
        segment_leader_epochs=((0, number * length),),
    )


def _link_objects(kafka: LocalKafka, model: RemoteLogSegmentMetadata, clone: RemoteLogSegmentMetadata) -> None:
    layout = LocalTieredStorageLayout()
    pairs = zip(layout.required_keys(model), layout.required_keys(clone), strict=True)
    for source, target in pairs:
        path: Path = kafka.remote_dir / target
        path.parent.mkdir(exist_ok=True)
        os.link(kafka.remote_dir / source, path)


def _produce(producer: Producer, tip: TopicIdPartition, event: SegmentEvent, metadata_partitions: int) -> None:
    producer.produce(METADATA_TOPIC, serialize(event), partition=metadata_partition_for(tip, metadata_partitions))
    producer.poll(0)
