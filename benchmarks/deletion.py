# SPDX-License-Identifier: Apache-2.0
"""
The cleaner beside the broker's own deletion of the same synthetic segments, on a local folder (P4 of docs/benchmarks.md).

Segments of a few small files and their records are made for topics of two kinds: of a living one, which is then deleted, so
that the broker deletes its segments; and of one that does not exist, which the cleaner cleans, two tasks at once, each in a
process of its own as Airflow's are. A run begins with opening the clients.

Prints one line per budget and what was measured; ends with 1 if a budget is missed. Quote ratios: the machine's speed drifts.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from airflow_provider_rlmm.clock import system_clock
from airflow_provider_rlmm.event_log.protocol import Acked
from airflow_provider_rlmm.event_log.snapshot_file import SnapshotFile
from airflow_provider_rlmm.event_log.write_guard import GuardedPublisher
from airflow_provider_rlmm.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.kafka.event_log import KafkaMetadataEventLog, KafkaMetadataLogWriter
from airflow_provider_rlmm.kafka.offsets import KafkaOffsetStore
from airflow_provider_rlmm.lifecycle.cleaner import RemoteLogCleaner
from airflow_provider_rlmm.lifecycle.root_proof import prove_root
from airflow_provider_rlmm.lifecycle.topic_view import TopicReplay
from airflow_provider_rlmm.metadata.partitioner import metadata_partition_for
from airflow_provider_rlmm.metadata.records import (
    OWN_BROKER_ID,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.metadata.serde import serialize
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.policy.freshness import Sample
from airflow_provider_rlmm.policy.guards import CleanerLimits
from airflow_provider_rlmm.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.storage.root import UNKNOWN_ROOT
from benchmarks.measuring import Budget
from benchmarks.topic import BROKER_OPTIONS
from dev.broker import LocalKafka, await_condition
from dev.tiering import create_tiered_topic, produce_until_remote

TASKS = 2
GROUP_ID = "benchmark-cleaner"
SNAPSHOT = "topic.snapshot"
BROKER_ID = 1
DAY_MS = 86_400_000
MADE_MS = system_clock() - 2 * DAY_MS
LAYOUT = LocalTieredStorageLayout()
# As many files as LocalTieredStorage writes for a segment without aborted transactions.
FILES = tuple(suffix for suffix, required in LAYOUT.suffixes.items() if required)


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
class Cluster:
    """The broker, as clients and storage see it."""

    kafka: LocalKafka
    config: KafkaClientConfig

    @property
    def root(self) -> Path:
        return self.kafka.remote_dir

    @property
    def snapshots(self) -> SnapshotFile:
        return SnapshotFile(str(self.root.parent / SNAPSHOT))

    def samples(self, topic: TopicReplay) -> Sequence[Sample]:
        storage, cluster_id = ObjectStoreRemoteStorageManager(self.root.as_uri(), LAYOUT), self.kafka.cluster_id
        root = prove_root(topic, storage, cluster_id=cluster_id, expectation=UNKNOWN_ROOT, overrides=frozenset())
        return root.freshness.samples


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--segments", type=int, default=2_500, help="of each of 4 user partitions (default: %(default)s)"
    )
    parser.add_argument("--small", type=int, default=200, help="user partitions of 10 segments (default: %(default)s)")
    parser.add_argument(
        "--large", type=int, default=60_000, help="segments of one user partition (default: %(default)s)"
    )
    parser.add_argument("--runs", type=int, default=5, help="runs of each side (default: %(default)s)")
    arguments = parser.parse_args()
    missed = 0
    for budget in _measured(arguments):
        print(budget, flush=True)
        missed += not budget.met
    return 1 if missed else 0


@contextmanager
def _cluster() -> Iterator[Cluster]:
    """Start a broker of its own for each measurement: what others have left in the topic would be read again."""
    with LocalKafka(jvm_options=BROKER_OPTIONS) as kafka:
        create_tiered_topic(kafka, "living", 16)
        produce_until_remote(kafka, "living", 1)
        yield Cluster(kafka, KafkaClientConfig(kafka.client_config()))


def _measured(arguments: argparse.Namespace) -> Iterator[Budget]:
    few, many = Shape(4, arguments.segments), Shape(arguments.small, 10)
    pairs: dict[Shape, tuple[list[float], list[float]]] = {few: ([], []), many: ([], [])}
    for _ in range(arguments.runs):
        for shape, (ours, peer) in pairs.items():
            with _cluster() as cluster:
                ours.append(_ours(cluster, shape))
            with _cluster() as cluster:
                peer.append(_broker(cluster, shape))
    for shape, bound in ((few, 2.0), (many, 0.5)):
        yield _beside(f"P4 {shape}", shape, *pairs[shape], bound)
    with _cluster() as cluster:
        retained = _by_retention(cluster, Shape(4, max(1, arguments.segments // 25)))
    rate = few.total / statistics.median(pairs[few][0])
    yield Budget("P4 beside deletion by retention", rate / retained, 30, True, [f"peer {retained:,.0f} segments/s"])
    yield _growth(arguments)


def _beside(name: str, shape: Shape, ours: Sequence[float], peer: Sequence[float], bound: float) -> Budget:
    lines = [
        f"{who} {statistics.median(times):8.3f} s ({min(times):.3f} to {max(times):.3f}, n={len(times)}), "
        f"{shape.total / statistics.median(times):>8,.0f} segments/s"
        for who, times in (("ours", ours), ("peer", peer))
    ]
    return Budget(name, statistics.median(peer) / statistics.median(ours), bound, True, lines)


def _growth(arguments: argparse.Namespace) -> Budget:
    """What a segment costs in a large user partition, beside one in a small one: one task."""
    small, large = Shape(1, arguments.segments), Shape(1, arguments.large)
    each: dict[Shape, float] = {}
    for shape in (small, large):
        with _cluster() as cluster:
            each[shape] = _ours(cluster, shape) / shape.total
    details = [f"{shape.segments:>8,} segments: {1e6 * cost:,.0f} us each" for shape, cost in each.items()]
    return Budget("P4 cost of a segment in a large partition", each[large] / each[small], 1.2, False, details)


def _ours(cluster: Cluster, shape: Shape) -> float:
    """Make segments of a topic that does not exist, and return how long cleaning them takes."""
    planned = _make(cluster, uuid.uuid4(), "absent", shape)
    by_partition: dict[int, dict[tuple[uuid.UUID, int], frozenset[uuid.UUID]]] = {}
    for tip, segments in planned.items():
        number = metadata_partition_for(tip, cluster.kafka.metadata_partitions)
        by_partition.setdefault(number, {})[tip.topic_id, tip.partition] = segments
    with _opened(cluster.config) as (log, topics):
        marked = RemotePartitionDeleteState.DELETE_PARTITION_MARKED
        _publish(
            log, [(t, serialize(RemotePartitionDeleteMetadata(t, marked, MADE_MS, OWN_BROKER_ID))) for t in planned]
        )
        # The planner has read the topic before, and has seen the newest copies of living topics.
        topic = TopicReplay(log, topics, system_clock, cluster.snapshots)
        samples = cluster.samples(topic)
        topic.keep()
    with multiprocessing.get_context("spawn").Pool(TASKS) as pool:
        # Airflow's workers are forked with the imports done.
        pool.map(time.sleep, [0.1] * TASKS, chunksize=1)
        began = time.perf_counter()
        task = partial(_clean, dict(cluster.config.properties), cluster.root, cluster.kafka.cluster_id, samples)
        deleted = sum(pool.starmap(task, by_partition.items(), chunksize=1))
        taken = time.perf_counter() - began
    assert deleted == shape.total, f"{deleted} of {shape.total} segments were deleted"
    return taken


@contextmanager
def _opened(config: KafkaClientConfig) -> Iterator[tuple[KafkaMetadataEventLog, KafkaClusterTopics]]:
    with KafkaMetadataEventLog(config) as log, closing(KafkaClusterTopics(config)) as topics:
        yield log, topics


def _clean(
    properties: dict[str, str],
    root: Path,
    cluster_id: str,
    samples: Sequence[Sample],
    metadata_partition: int,
    planned: Mapping[tuple[uuid.UUID, int], frozenset[uuid.UUID]],
) -> int:
    config = KafkaClientConfig(properties)
    with _opened(config) as (log, topics), closing(KafkaOffsetStore(config, GROUP_ID)) as offsets:
        writer = KafkaMetadataLogWriter(log)
        writer.open_ahead()
        cleaner = RemoteLogCleaner(
            log,
            GuardedPublisher(writer, allow_writes=True),
            offsets,
            topics,
            ObjectStoreRemoteStorageManager(root.as_uri(), LAYOUT),
            limits=CleanerLimits(min_absence_ms=0, overrides=frozenset({"short_min_absence"})),
            expected_cluster_id=cluster_id,
            samples=samples,
            snapshots=SnapshotFile(str(root.parent / SNAPSHOT)),
        )
        report = cleaner.clean(metadata_partition, planned)
    return sum(partition.segments_deleted for partition in report.partitions)


def _broker(cluster: Cluster, shape: Shape) -> float:
    """Make segments of a living topic, delete it, and return how long its broker takes."""
    name = "deleted"
    topic_id = create_tiered_topic(cluster.kafka, name, shape.partitions)
    _make(cluster, topic_id, name, shape)
    _await_consumed(cluster)
    admin = AdminClient(dict(cluster.config.properties))
    with _Finished(cluster, topic_id) as finished:
        began = time.perf_counter()
        admin.delete_topics([name])[name].result(30.0)
        await_condition(lambda: finished.count() >= shape.total, f"the broker deletes {shape}", 600.0)
        return time.perf_counter() - began


def _by_retention(cluster: Cluster, shape: Shape) -> float:
    """Return how many segments per second the broker deletes because they are too old."""
    name = "retained"
    topic_id = create_tiered_topic(cluster.kafka, name, shape.partitions, **{"retention.ms": "-1"})
    _make(cluster, topic_id, name, shape)
    _await_consumed(cluster)
    entry = ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
    admin = AdminClient(dict(cluster.config.properties))
    with _Finished(cluster, topic_id) as finished:
        began = time.perf_counter()
        admin.incremental_alter_configs([resource])[resource].result(30.0)
        await_condition(lambda: finished.count() >= shape.total, f"the broker's retention deletes {shape}", 600.0)
        return shape.total / (time.perf_counter() - began)


def _await_consumed(cluster: Cluster) -> None:
    """
    Wait until the broker knows all that was published: a segment of each user partition of another topic is copied, and a
    broker finishes a copy once it has read its own record, which lies behind the others.
    """
    copied = produce_until_remote(cluster.kafka, "living", 1)
    produce_until_remote(cluster.kafka, "living", 1 + max(copied.values()))


def _make(
    cluster: Cluster, topic_id: uuid.UUID, topic: str, shape: Shape
) -> dict[TopicIdPartition, frozenset[uuid.UUID]]:
    """Write files and records of segments whose copy is finished; return the ids of each user partition's."""
    planned: dict[TopicIdPartition, frozenset[uuid.UUID]] = {}
    records: list[tuple[TopicIdPartition, bytes]] = []
    for partition in range(shape.partitions):
        tip = TopicIdPartition(topic_id, topic, partition)
        segments = [_segment(tip, number) for number in range(shape.segments)]
        (cluster.root / LAYOUT.partition_prefix(tip)).mkdir(parents=True)
        for metadata in segments:
            stem = LAYOUT.segment_stem(metadata)
            for suffix in FILES:
                (cluster.root / f"{stem}{suffix}").write_bytes(b"a few bytes")
            copied = RemoteLogSegmentMetadataUpdate(
                metadata.remote_log_segment_id,
                MADE_MS,
                None,
                RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
                BROKER_ID,
            )
            records += [(tip, serialize(metadata)), (tip, serialize(copied))]
        planned[tip] = frozenset(metadata.remote_log_segment_id.id for metadata in segments)
    with KafkaMetadataEventLog(cluster.config) as log:
        _publish(log, records)
    return planned


def _segment(tip: TopicIdPartition, number: int) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        remote_log_segment_id=RemoteLogSegmentId(tip, uuid.uuid4()),
        start_offset=10 * number,
        end_offset=10 * number + 9,
        max_timestamp_ms=MADE_MS,
        broker_id=BROKER_ID,
        event_timestamp_ms=MADE_MS,
        segment_size_in_bytes=11,
        custom_metadata=None,
        state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
        segment_leader_epochs=((0, 10 * number),),
    )


def _publish(log: KafkaMetadataEventLog, records: Sequence[tuple[TopicIdPartition, bytes]]) -> None:
    values = [(metadata_partition_for(tip, log.partition_count), value) for tip, value in records]
    for start in range(0, len(values), 50_000):
        outcomes = log.publish(values[start : start + 50_000])
        assert all(isinstance(outcome, Acked) for outcome in outcomes)


class _Finished:
    """Counts the DELETE_SEGMENT_FINISHED of a topic, from the high watermarks of its making on."""

    def __init__(self, cluster: Cluster, topic_id: uuid.UUID) -> None:
        self._log = KafkaMetadataEventLog(cluster.config)
        self._topic_id = topic_id.bytes
        self._next = self._log.high_water_marks()
        self._seen: Counter[bytes] = Counter()

    def __enter__(self) -> _Finished:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()

    def count(self) -> int:
        from airflow_provider_rlmm.event_log.event_decoding import decode_records

        ends = self._log.high_water_marks()
        for partition, start in self._next.items():
            for batch in self._log.read(partition, start, ends[partition]):
                decoded = decode_records(batch, partition, self._log.partition_count)
                rows = decoded.select(["topic_id", "api_key", "state", "segment_id"]).to_pylist()
                self._seen.update(
                    row["segment_id"]
                    for row in rows
                    if row["topic_id"] == self._topic_id
                    and row["api_key"] == 1
                    and row["state"] == RemoteLogSegmentState.DELETE_SEGMENT_FINISHED
                )
        self._next = ends
        return len(self._seen)


if __name__ == "__main__":
    sys.exit(main())
