# SPDX-License-Identifier: Apache-2.0
"""Synthetic segments of a topic, and a cleaner in a process of its own that deletes them."""

from __future__ import annotations

import os
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet  # a task has read its plan with it by the time that it deletes

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog, KafkaMetadataLogWriter
from airflow_provider_rlmm.core.log.kafka.offsets import KafkaOffsetStore
from airflow_provider_rlmm.core.log.snapshot_file import SnapshotFile
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    OWN_BROKER_ID,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.layouts import LayoutOptions, layout_named
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.core.storage.root import UNKNOWN_ROOT, RootExpectation
from airflow_provider_rlmm.core.world.audit_log import AuditFiles
from airflow_provider_rlmm.core.world.effects import RealEffects
from airflow_provider_rlmm.core.world.freshness import Sample
from airflow_provider_rlmm.core.world.root_proof import prove_root
from airflow_provider_rlmm.core.world.run_identity import RunIdentity
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.features.cleanup.cleaner import RemoteLogCleaner
from benchmarks.topic import METADATA_PARTITIONS, publish
from dev.broker import METADATA_TOPIC

TASKS = 2
GROUP_ID = "benchmark-cleaner"
RUN = RunIdentity("benchmark", "benchmark", "benchmark", "nobody")
BROKER_ID = 1
DAY_MS = 86_400_000
MADE_MS = system_clock() - 2 * DAY_MS
CONTENT = b"a few bytes"

Planned = dict[TopicIdPartition, frozenset[uuid.UUID]]
"""User partition → ids of its segments."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How many segments lie in how many user partitions."""

    partitions: int
    segments: int

    @property
    def total(self) -> int:
        return self.partitions * self.segments

    def __str__(self) -> str:
        return f"{self.partitions} user partitions of {self.segments:,} segments"


@dataclass(frozen=True, slots=True)
class Place:
    """Where segments lie, as a process of its own can open it."""

    uri: str
    layout_name: str
    key_prefix: str = ""
    options: Mapping[str, str] = field(default_factory=dict)  # of the store

    @property
    def layout(self) -> Layout:
        return layout_named(self.layout_name, LayoutOptions(key_prefix=self.key_prefix))

    def storage(self) -> ObjectStoreRemoteStorageManager:
        return ObjectStoreRemoteStorageManager(self.uri, self.layout, options=self.options)


@dataclass(frozen=True, slots=True)
class Task:
    """What every cleaning task is given."""

    properties: Mapping[str, str]  # of the Kafka clients
    place: Place
    cluster_id: str
    samples: Sequence[Sample]  # the newest copies of living topics, as the plan has them
    snapshots: SnapshotFile  # where the planner has left what it read
    expected_root: str  # no broker copies anything between plan and deletion: the root is named


def segments_of(tips: Sequence[TopicIdPartition], segments: int) -> list[RemoteLogSegmentMetadata]:
    """Make the metadata of so many segments of each user partition."""
    return [_segment(tip, number) for tip in tips for number in range(segments)]


def lay_objects(folder: Path, layout: Layout, metadatas: Sequence[RemoteLogSegmentMetadata]) -> None:
    """Write the objects of segments below a storage root, as many as there are without aborted transactions."""
    suffixes = [suffix for suffix, required in layout.suffixes.items() if required]
    for tip in {metadata.remote_log_segment_id.topic_id_partition for metadata in metadatas}:
        (folder / layout.partition_prefix(tip)).mkdir(parents=True)
    for metadata in metadatas:
        stem = layout.segment_stem(metadata)
        for suffix in suffixes:
            (folder / f"{stem}{suffix}").write_bytes(CONTENT)
    # Segments have lain on the disk for long when they are deleted. What has not reached it yet is deleted for nothing: no
    # blocks have to be freed, and the side that begins sooner after this would have the less to do.
    os.sync()


def publish_copies(config: KafkaClientConfig, metadatas: Sequence[RemoteLogSegmentMetadata]) -> Planned:
    """Write the records of segments whose copy is finished; return which they are."""
    records: list[tuple[TopicIdPartition, bytes]] = []
    planned: dict[TopicIdPartition, set[uuid.UUID]] = {}
    for metadata in metadatas:
        tip = metadata.remote_log_segment_id.topic_id_partition
        records += [(tip, serialize(metadata)), (tip, serialize(_copied(metadata)))]
        planned.setdefault(tip, set()).add(metadata.remote_log_segment_id.id)
    _publish(config, records)
    return {tip: frozenset(segments) for tip, segments in planned.items()}


def _segment(tip: TopicIdPartition, number: int) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        remote_log_segment_id=RemoteLogSegmentId(tip, uuid.uuid4()),
        start_offset=10 * number,
        end_offset=10 * number + 9,
        max_timestamp_ms=MADE_MS,
        broker_id=BROKER_ID,
        event_timestamp_ms=MADE_MS,
        segment_size_in_bytes=len(CONTENT),
        custom_metadata=None,
        state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
        segment_leader_epochs=((0, 10 * number),),
    )


def _copied(metadata: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadataUpdate:
    finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    return RemoteLogSegmentMetadataUpdate(metadata.remote_log_segment_id, MADE_MS, None, finished, BROKER_ID)


def _publish(config: KafkaClientConfig, records: Sequence[tuple[TopicIdPartition, bytes]]) -> None:
    homes = np.array([metadata_partition_for(tip, METADATA_PARTITIONS) for tip, _ in records])
    publish(config, pa.array([value for _, value in records], pa.binary()), homes, METADATA_TOPIC)


def mark(config: KafkaClientConfig, tips: Sequence[TopicIdPartition]) -> None:
    """Write the markers of user partitions, as if their absence had been observed two days ago."""
    marked = RemotePartitionDeleteState.DELETE_PARTITION_MARKED
    _publish(config, [(t, serialize(RemotePartitionDeleteMetadata(t, marked, MADE_MS, OWN_BROKER_ID))) for t in tips])


def absent_tips(metadata_partitions: int, shape: Shape) -> list[TopicIdPartition]:
    """Return user partitions of a topic that is not there: no task gets more than its share, where that is possible."""
    while True:
        topic_id = uuid.uuid4()
        tips = [TopicIdPartition(topic_id, "absent", number) for number in range(shape.partitions)]
        shares = Counter(metadata_partition_for(tip, metadata_partitions) for tip in tips)
        if shape.partitions < TASKS or max(shares.values()) <= shape.partitions // TASKS:
            return tips


def task_of(config: KafkaClientConfig, place: Place, cluster_id: str, snapshots: SnapshotFile) -> Task:
    """Read the topic as the planner does, who leaves a snapshot and has seen the newest copies of living topics."""
    with _opened(config) as (log, topics):
        topic = TopicReplay(log, topics, system_clock, snapshots)
        root = prove_root(
            topic, place.storage(), cluster_id=cluster_id, expectation=UNKNOWN_ROOT, overrides=frozenset(), dry_run=True
        )
        topic.keep()
    named = " ".join(str(check.where) for check in root.check.places)
    return Task(dict(config.properties), place, cluster_id, root.freshness.samples, snapshots, named)


@contextmanager
def _opened(config: KafkaClientConfig) -> Iterator[tuple[KafkaMetadataEventLog, KafkaClusterTopics]]:
    """Open the log and what tells of the cluster's topics."""
    with KafkaMetadataEventLog(config) as log, closing(KafkaClusterTopics(config)) as topics:
        yield log, topics


class Taken(NamedTuple):
    """What cleaning has taken."""

    seconds: float  # from the opening of the clients on
    cpu_s: float  # CPU time of the tasks


def cleaned_in(task: Task, planned: Planned, metadata_partitions: int) -> Taken:
    """
    Clean in tasks side by side, each in a process of its own as Airflow's are.

    :param task: what each is given.
    :param planned: what is to be deleted.
    :param metadata_partitions: how many there are.
    """
    shares: dict[int, dict[tuple[uuid.UUID, int], frozenset[uuid.UUID]]] = {}
    for tip, segments in planned.items():
        shares.setdefault(metadata_partition_for(tip, metadata_partitions), {})[tip.topic_id, tip.partition] = segments
    with get_context("spawn").Pool(TASKS) as pool:
        # Airflow's workers are forked with the imports done.
        pool.map(time.sleep, [0.1] * TASKS, chunksize=1)
        began = time.perf_counter()
        done = pool.starmap(partial(_clean, task), shares.items(), chunksize=1)
        seconds = time.perf_counter() - began
    deleted, wanted = sum(number for number, _ in done), sum(map(len, planned.values()))
    assert deleted == wanted, f"{deleted} of {wanted} segments were deleted"
    return Taken(seconds, sum(cpu_s for _, cpu_s in done))


def _clean(
    task: Task, metadata_partition: int, planned: Mapping[tuple[uuid.UUID, int], frozenset[uuid.UUID]]
) -> tuple[int, float]:
    """Clean one metadata partition; return how many segments were deleted, and the CPU time in seconds."""
    began = time.process_time()
    config = KafkaClientConfig(task.properties)
    with (
        _opened(config) as (log, topics),
        closing(KafkaOffsetStore(config, GROUP_ID)) as offsets,
        TemporaryDirectory(prefix="audit-") as folder,
    ):
        writer = KafkaMetadataLogWriter(log)
        writer.open_ahead()
        storage = task.place.storage()
        audit = AuditFiles(folder, task.cluster_id, RUN, metadata_partition, system_clock)
        cleaner = RemoteLogCleaner(
            log,
            RealEffects(GuardedPublisher(writer, allow_writes=True), storage, offsets, audit),
            offsets,
            topics,
            storage,
            limits=CleanerLimits(min_absence_ms=0, overrides=frozenset({"short_min_absence"})),
            audit=audit,
            expected_cluster_id=task.cluster_id,
            root=RootExpectation(expected_root=task.expected_root),
            samples=task.samples,
            snapshots=task.snapshots,
        )
        report = cleaner.clean(metadata_partition, planned)
    return sum(partition.segments_deleted for partition in report.partitions), time.process_time() - began
