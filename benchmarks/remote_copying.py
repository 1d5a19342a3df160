# SPDX-License-Identifier: Apache-2.0
"""Copying the closed segments of topics that nobody copies: by the copier, and by the broker."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_provider_rlmm.core.log.event_decoding import decode_batch
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog, KafkaMetadataLogReader
from airflow_provider_rlmm.core.log.kafka.leader import KafkaLeader
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
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
from airflow_provider_rlmm.core.storage.root import RootExpectation
from airflow_provider_rlmm.features.copying.copier import RemoteLogCopier
from airflow_provider_rlmm.features.copying.copy_context import CopyContext
from airflow_provider_rlmm.features.copying.copy_source import DirectorySource
from airflow_provider_rlmm.features.copying.copy_writer import CopyWriter
from airflow_provider_rlmm.features.copying.log_directory.disk import LogDisk
from airflow_provider_rlmm.features.copying.log_directory.names import TopicPartition
from airflow_provider_rlmm.features.copying.log_directory.partition import LogDirectory
from benchmarks.remote_topic import alter_topic, pinned_to, warm_imports
from dev.broker import LocalKafka, await_condition

NOT_COPIED: Final[Mapping[str, str]] = {
    "remote.log.copy.disable": "true",
    # Kafka wants local retention to be that of the topic while nothing is copied.
    "local.retention.ms": "-2",
    "local.retention.bytes": "-2",
    "retention.ms": "86400000",
    "internal.segment.bytes": str(128 * 2**20),
}
TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Copied:
    """
    One user partition, copied.

    :param seconds: from opening the clients, or from the first announcement, until all copies are finished and on the disk.
    :param unsynced_s: of that, after the last COPY_SEGMENT_FINISHED.
    :param segments: how many.
    :param log_bytes: of their logs.
    """

    seconds: float
    unsynced_s: float
    segments: int
    log_bytes: int


def copy(kafka: LocalKafka, snapshot: Path, tip: TopicIdPartition, core: int) -> Copied:
    """
    Copy all closed segments with the copier, in a process of its own.

    :param kafka: the broker, which leads the user partition.
    :param snapshot: of its disk.
    :param tip: the user partition.
    :param core: to run on.
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(
            _copy, (kafka.client_config(), kafka.cluster_id, kafka.remote_dir.as_uri(), snapshot, tip, core)
        )


def _copy(
    properties: dict[str, str], cluster_id: str, uri: str, snapshot: Path, tip: TopicIdPartition, core: int
) -> Copied:
    config = KafkaClientConfig(properties)
    warm_imports()
    _synced()
    began = time.perf_counter()
    with (
        pinned_to(core),
        KafkaMetadataEventLog(config) as log,
        KafkaLeader(config, cluster_id) as leader,
    ):
        storage = ObjectStoreRemoteStorageManager(uri, LocalTieredStorageLayout())
        # The broker has copied nothing there yet that could show whose root it is.
        [place] = storage.check_root(frozenset(), cluster_id).places
        writer = CopyWriter(GuardedPublisher(log, allow_writes=True, allow_copy=True), storage)
        root = RootExpectation(expected_root=str(place.where))
        copier = RemoteLogCopier(CopyContext(log, leader, storage, cluster_id, root), writer)
        directory = LogDirectory.open(LogDisk.open(snapshot), TopicPartition(tip.topic, tip.partition))
        report = copier.copy(DirectorySource(directory))
    assert report.stopped_by is None, report.stopped_by
    seconds = time.perf_counter() - began
    unsynced_s = _synced()
    return Copied(seconds + unsynced_s, unsynced_s, len(report.copied), report.copied_bytes)


def copied_by_broker(kafka: LocalKafka, tip: TopicIdPartition, segments: int) -> Copied:
    """
    Let the broker copy all closed segments, and say how long it took by the times in its own events: it begins when it likes.

    It finishes a copy that is in memory only, so the time until that is on the disk, as the copier's is, is added.

    :param kafka: the broker.
    :param tip: the user partition.
    :param segments: how many are closed.
    """
    _synced()
    alter_topic(kafka, tip.topic, **{"remote.log.copy.disable": "false"})
    with KafkaMetadataLogReader(KafkaClientConfig(kafka.client_config())) as log:

        def finished() -> list[SegmentEvent]:
            events = list(_events_about(log, tip))
            ended = [e for e in events if e.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED]
            return events if len(ended) >= segments else []

        events = await_condition(finished, f"the broker copies {segments} segments of {tip}", TIMEOUT_S, 0.2)
    unsynced_s = _synced()
    times = [event.event_timestamp_ms for event in events]
    sizes = [event.segment_size_in_bytes for event in events if isinstance(event, RemoteLogSegmentMetadata)]
    return Copied((max(times) - min(times)) / 1000 + unsynced_s, unsynced_s, len(sizes), sum(sizes))


def _synced() -> float:
    """Wait until all that was written is on the disk; seconds. Neither side pays for what the other has left in memory."""
    began = time.perf_counter()
    os.sync()
    return time.perf_counter() - began


def _events_about(log: MetadataLogReader, tip: TopicIdPartition) -> Iterator[SegmentEvent]:
    number = metadata_partition_for(tip, log.partition_count)
    for batch in log.read(number, 0, log.high_water_marks()[number]):
        for located in decode_batch(batch, number, log.partition_count, {tip.topic_id}).events:
            if isinstance(located.event, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate):
                yield located.event
