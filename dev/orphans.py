# SPDX-License-Identifier: Apache-2.0
"""Orphans in any number: segments of a topic that is not there, as a broker leaves them that died after its deletion."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from confluent_kafka import Producer

from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from dev.broker import METADATA_TOPIC, LocalKafka

BROKER_ID, MADE_MS = 1, 1_700_000_000_000


def leave_orphans(kafka: LocalKafka, topic: str, segments: int) -> tuple[TopicIdPartition, Path]:
    """
    Write the records and the objects of segments of a user partition whose topic never was.

    :param kafka: running broker, whose storage is ``LocalTieredStorage``.
    :param topic: its name; the topic id is a new one.
    :param segments: how many.
    :return: the user partition, and the folder of its objects.
    """
    tip, layout = TopicIdPartition(uuid4(), topic, 0), LocalTieredStorageLayout()
    producer, home = Producer(kafka.client_config()), metadata_partition_for(tip, kafka.metadata_partitions)
    folder = kafka.remote_dir / layout.partition_prefix(tip)
    folder.mkdir(parents=True)
    for number in range(segments):
        added = RemoteLogSegmentMetadata(
            RemoteLogSegmentId(tip, uuid4()), 10 * number, 10 * number + 9, MADE_MS, BROKER_ID, MADE_MS, 1, None,
            RemoteLogSegmentState.COPY_SEGMENT_STARTED, ((0, 10 * number),),
        )  # fmt: skip
        finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        copied = RemoteLogSegmentMetadataUpdate(added.remote_log_segment_id, MADE_MS, None, finished, BROKER_ID)
        for key in layout.required_keys(added):
            (kafka.remote_dir / key).write_bytes(b"x")
        for event in (added, copied):
            producer.produce(METADATA_TOPIC, serialize(event), None, home)
            producer.poll(0)
    if left := producer.flush(60):
        raise TimeoutError(f"{left} records were not acknowledged")
    return tip, folder
