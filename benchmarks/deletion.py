# SPDX-License-Identifier: Apache-2.0
"""
The cleaner beside the broker's own deletion of the same synthetic segments, on a local folder (P4 of docs/benchmarks.md).

Segments of a few small files and their records are made for topics of two kinds: of a living one, which is then deleted, so
that the broker deletes its segments; and of one that does not exist, which the cleaner cleans, two tasks at once.
A run begins with opening the clients.

Prints one line per budget and what was measured; ends with 1 if a budget is missed. Quote ratios: the machine's speed drifts.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from airflow_provider_rlmm.core.log.event_decoding import decode_records
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.core.log.snapshot_file import SnapshotFile
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.records.serde import SEGMENT_UPDATE_API_KEY
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from benchmarks.measuring import Budget, beside, faster, in_turns, turn_by_turn
from benchmarks.orphans import (
    Place,
    Planned,
    Shape,
    Taken,
    absent_tips,
    cleaned_in,
    lay_objects,
    mark,
    publish_copies,
    segments_of,
    task_of,
)
from benchmarks.reporting import LEAST_RUNS, add_option, report
from benchmarks.topic import BROKER_OPTIONS
from dev.broker import LocalKafka, await_condition
from dev.s3_proxy import S3Proxy
from dev.tiering import create_tiered_topic, produce_until_remote

LAYOUT = LocalTieredStorageLayout()
TIMEOUT_S = 900.0
LATENCY_S = 0.03
"""What each request to an object store takes more, as in another availability zone."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """
    The broker, as clients and storage see it.

    :param kafka: the broker.
    :param root: the folder in which all objects lie, whoever serves them.
    :param place: where clients find them.
    :param proxy: what stands before an object store, ``None`` where none does.
    """

    kafka: LocalKafka
    root: Path
    place: Place
    proxy: S3Proxy | None = None

    @property
    def config(self) -> KafkaClientConfig:
        """The clients' properties."""
        return KafkaClientConfig(self.kafka.client_config())

    def be_late(self) -> None:
        """From now on each request to an object store is late, as in another availability zone."""
        if self.proxy is not None:
            self.proxy.latency_s = LATENCY_S


World = Callable[[], AbstractContextManager[Cluster]]
"""Makes a cluster."""


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
    add_option(parser)
    arguments = parser.parse_args()
    return report(_measured(arguments), arguments.figures)


@contextmanager
def cluster_of_its_own() -> Iterator[Cluster]:
    """Start a broker of its own for each measurement: what others have left in the topic would be read again."""
    with LocalKafka(jvm_options=BROKER_OPTIONS) as kafka:
        create_tiered_topic(kafka, "living", 16)
        produce_until_remote(kafka, "living", 1)
        yield Cluster(kafka, kafka.remote_dir, Place(kafka.remote_dir.as_uri(), LAYOUT.name))


def _measured(arguments: argparse.Namespace) -> Iterator[Budget]:
    few, many, runs = Shape(4, arguments.segments), Shape(arguments.small, 10), arguments.runs
    ours, peer = turn_by_turn(lambda: _ours(few).seconds, lambda: by_broker(few), runs)
    yield faster(f"P4 {few}", ours, peer, few.total, 2.0, what="segments")
    rates, retained = [few.total / each for each in ours], _by_retention(Shape(4, max(1, arguments.segments // 25)))
    told, ratio = [f"peer {retained:,.0f} segments/s"], statistics.median(rates) / retained
    yield Budget("P4 beside deletion by retention", ratio, 30, True, told, rates, [retained], "segments/s")
    ours, peer = turn_by_turn(lambda: _ours(many).seconds, lambda: by_broker(many), runs)
    yield faster(f"P4 {many}", ours, peer, many.total, 0.5, what="segments")
    yield _growth(Shape(1, arguments.segments), Shape(1, arguments.large), min(runs, LEAST_RUNS))


def _growth(small: Shape, large: Shape, runs: int) -> Budget:
    """What CPU time a segment costs in a large user partition, beside one in a small one."""
    costs = in_turns([lambda shape=shape: _ours(shape).cpu_s / shape.total for shape in (small, large)], runs)
    few, many = costs
    each = zip((small, large), map(statistics.median, costs), strict=True)
    details = [f"{shape.segments:>8,} segments: {1e6 * cost:,.0f} us each" for shape, cost in each]
    return beside("P4 cost of a segment in a large partition", many, few, 1.2, details)


def _ours(shape: Shape) -> Taken:
    """Make segments of a topic that does not exist, and return what cleaning them takes."""
    with cluster_of_its_own() as cluster:
        count = cluster.kafka.metadata_partitions
        planned = lay_orphans(cluster, shape)
        snapshots = SnapshotFile(str(cluster.root.parent / "topic.snapshot"))
        return cleaned_in(task_of(cluster.config, cluster.place, cluster.kafka.cluster_id, snapshots), planned, count)


def by_broker(shape: Shape, world: World = cluster_of_its_own) -> float:
    """
    Make segments of a living topic, delete it, and return how many seconds its broker takes.

    :param shape: of the segments.
    :param world: makes the cluster.
    """
    name = "deleted"
    with world() as cluster:
        planned = _lay_of_living(cluster, name, shape)
        admin = AdminClient(dict(cluster.config.properties))
        cluster.be_late()
        return _until_finished(cluster, planned, lambda: admin.delete_topics([name])[name].result(30.0))


def _by_retention(shape: Shape) -> float:
    """Return how many segments per second the broker deletes because they are too old."""
    name = "retained"
    entry = ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
    with cluster_of_its_own() as cluster:
        # Large local segments: what lies in them must not be copied beside what is made here.
        planned = _lay_of_living(cluster, name, shape, **{"retention.ms": "-1", "internal.segment.bytes": str(1 << 20)})
        # A broker takes a remote segment behind the end of its own log for somebody else's, and lets it be.
        _produce(cluster, name, shape.partitions, 10 * shape.segments + 1)
        admin = AdminClient(dict(cluster.config.properties))

        def shorten() -> object:
            return admin.incremental_alter_configs([resource])[resource].result(30.0)

        return shape.total / _until_finished(cluster, planned, shorten)


def _lay_of_living(cluster: Cluster, name: str, shape: Shape, **config: str) -> Planned:
    """
    Make segments of a topic that is there, and wait until the broker knows them: a segment of each user partition of another
    topic is copied, and a broker finishes a copy once it has read its own record, which lies behind the others.
    """
    topic_id = create_tiered_topic(cluster.kafka, name, shape.partitions, **config)
    tips = [TopicIdPartition(topic_id, name, number) for number in range(shape.partitions)]
    planned = _lay(cluster, tips, shape.segments)
    copied = produce_until_remote(cluster.kafka, "living", 1)
    produce_until_remote(cluster.kafka, "living", 1 + max(copied.values()))
    return planned


def lay_orphans(cluster: Cluster, shape: Shape) -> Planned:
    """
    Make segments of a topic that does not exist, whose user partitions are marked.

    :param cluster: where.
    :param shape: of the segments.
    """
    tips = absent_tips(cluster.kafka.metadata_partitions, shape)
    planned = _lay(cluster, tips, shape.segments)
    mark(cluster.config, tips)
    return planned


def _lay(cluster: Cluster, tips: Sequence[TopicIdPartition], segments: int) -> Planned:
    metadatas = segments_of(tips, segments)
    lay_objects(cluster.root, cluster.place.layout, metadatas)
    return publish_copies(cluster.config, metadatas)


def _produce(cluster: Cluster, topic: str, partitions: int, records: int) -> None:
    producer = Producer(dict(cluster.config.properties) | {"queue.buffering.max.messages": 10_000_000})
    for partition in range(partitions):
        for _ in range(records):
            producer.produce(topic, b"a", partition=partition)
    assert producer.flush(60.0) == 0


def _until_finished(cluster: Cluster, planned: Planned, begin: Callable[[], object]) -> float:
    """Begin something, and return how many seconds later all segments are DELETE_SEGMENT_FINISHED."""
    left = {segment_id.bytes for segments in planned.values() for segment_id in segments}
    with KafkaMetadataEventLog(cluster.config) as log:
        position = dict(log.high_water_marks())
        began = time.perf_counter()
        begin()

        def finished() -> bool:
            ends = log.high_water_marks()
            for partition, start in position.items():
                for batch in log.read(partition, start, ends[partition]):
                    left.difference_update(_finished_in(batch, partition, log.partition_count))
            position.update(ends)
            return not left

        await_condition(finished, f"the broker deletes {sum(map(len, planned.values()))} segments", TIMEOUT_S)
        return time.perf_counter() - began


def _finished_in(batch: object, partition: int, count: int) -> Iterator[bytes]:
    decoded = decode_records(batch, partition, count)
    rows = zip(*(decoded.column(name).to_pylist() for name in ("segment_id", "api_key", "state")), strict=True)
    for segment_id, api_key, state in rows:
        if api_key == SEGMENT_UPDATE_API_KEY and state == RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
            yield segment_id


if __name__ == "__main__":
    sys.exit(main())
