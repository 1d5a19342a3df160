# SPDX-License-Identifier: Apache-2.0
"""Copying the closed segments of topics that nobody copies: by the command, and by the broker."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_provider_rlmm.core.log.event_decoding import decode_batch
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataLogReader
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.records.located import LocatedEvent
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    SegmentEvent,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from benchmarks.remote_commands import copy
from benchmarks.remote_topic import alter_topic
from dev.broker import LocalKafka, await_condition

NOT_COPIED: Final[Mapping[str, str]] = {
    "remote.log.copy.disable": "true",
    # Kafka wants local retention to be that of the topic while nothing is copied.
    "local.retention.ms": "-2",
    "local.retention.bytes": "-2",
    "retention.ms": "86400000",
}
SEGMENT_BYTES = 128 * 2**20
TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Copied:
    """
    One user partition, copied.

    :param seconds: from the start of the process, or from the first announcement, until all copies are on the disk.
    :param unsynced_s: of that, after the end of the process, or the last COPY_SEGMENT_FINISHED.
    :param segments: how many.
    :param log_bytes: of their logs.
    """

    seconds: float
    unsynced_s: float
    segments: int
    log_bytes: int


def storage_root(kafka: LocalKafka) -> str:
    """Return what ``rlmm check`` prints of the broker's storage: nothing shows whose it is before a broker has copied."""
    storage = ObjectStoreRemoteStorageManager(kafka.remote_dir.as_uri(), LocalTieredStorageLayout())
    [place] = storage.check_root(frozenset(), kafka.cluster_id).places
    return str(place.where)


def copied_by_command(kafka: LocalKafka, snapshot: Path, tip: TopicIdPartition, root: str, segments: int) -> Copied:
    """
    Copy all closed segments by ``rlmm copy``, from the start of its process to its end.

    :param kafka: the broker, which leads the user partition.
    :param snapshot: of its disk.
    :param tip: the user partition.
    :param root: see :func:`storage_root`.
    :param segments: how many are closed.
    """
    synced()
    seconds = copy(kafka, snapshot, tip, root).seconds
    unsynced_s = synced()
    with KafkaMetadataLogReader(KafkaClientConfig(kafka.client_config())) as log:
        events = list(_events_about(log, tip))
    sizes = [event.segment_size_in_bytes for event in events if isinstance(event, RemoteLogSegmentMetadata)]
    ended = [event for event in events if event.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED]
    assert len(sizes) == len(ended) == segments
    return Copied(seconds + unsynced_s, unsynced_s, segments, sum(sizes))


def copied_by_broker(kafka: LocalKafka, tip: TopicIdPartition, segments: int) -> Copied:
    """
    Let the broker copy all closed segments, and say how long it took by the times in its own events: it begins when it likes.

    It finishes a copy that is in memory only, so the time until that is on the disk, as the copier's is, is added.

    :param kafka: the broker.
    :param tip: the user partition.
    :param segments: how many are closed.
    """
    synced()
    alter_topic(kafka, tip.topic, **{"remote.log.copy.disable": "false"})
    with KafkaMetadataLogReader(KafkaClientConfig(kafka.client_config())) as log:

        def finished() -> list[SegmentEvent]:
            events = list(_events_about(log, tip))
            ended = [e for e in events if e.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED]
            return events if len(ended) >= segments else []

        events = await_condition(finished, f"the broker copies {segments} segments of {tip}", TIMEOUT_S, 0.2)
    unsynced_s = synced()
    times = [event.event_timestamp_ms for event in events]
    sizes = [event.segment_size_in_bytes for event in events if isinstance(event, RemoteLogSegmentMetadata)]
    return Copied((max(times) - min(times)) / 1000 + unsynced_s, unsynced_s, len(sizes), sum(sizes))


def synced() -> float:
    """Wait until all that was written is on the disk; seconds. Neither side pays for what the other has left in memory."""
    began = time.perf_counter()
    os.sync()
    return time.perf_counter() - began


def _events_about(log: MetadataLogReader, tip: TopicIdPartition) -> Iterator[SegmentEvent]:
    number = metadata_partition_for(tip, log.partition_count)
    for batch in log.read(number, 0, log.high_water_marks()[number]):
        for located in decode_batch(batch, number, log.partition_count, {tip.topic_id}).records:
            if isinstance(located, LocatedEvent) and isinstance(
                located.event, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate
            ):
                yield located.event
