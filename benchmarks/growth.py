# SPDX-License-Identifier: Apache-2.0
"""
How the main job grows: marking and planning, and cleaning, as tasks in processes of their own, from process start to exit.

More events, more metadata partitions, more topics, more segments of one user partition, more that was cleaned before. Of each
size it prints processor time, the most memory and what lies in the work folder, and beside the next smaller one by how much
more each has grown than the size: more than 1.2 times is superlinear. ``--scale 0.001`` tries it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from benchmarks.filled import World
from benchmarks.measuring import Budget
from benchmarks.orphans import (
    BROKER_ID,
    MADE_MS,
    Place,
    Shape,
    absent_tips,
    lay_objects,
    mark,
    publish_copies,
    segments_of,
)
from benchmarks.processes import Taken, folder_bytes
from benchmarks.reporting import report
from benchmarks.tasks import CLEAN, LAYOUT, NOW, Tasks
from benchmarks.topic import BROKER_OPTIONS, METADATA_PARTITIONS, create_metadata_topic, create_topics, publish
from dev.broker import METADATA_TOPIC, LocalKafka
from dev.roots import expected_root_of
from dev.tiering import create_tiered_topic, produce_until_remote

SUPERLINEAR = 1.2
EVENTS = (1_000_000, 5_000_000, 20_000_000)
PARTITIONS, EVENTS_IN_THEM = (5, 50), 5_000_000
TOPICS, SEGMENTS_OF_EACH = (1_000, 10_000), 5
SEGMENTS_OF_ONE = (2_500, 60_000)
CLEANED = (100_000, 1_000_000)
AT_ONCE, AT_A_TIME = 50_000, 500
"""Segments whose records are made at once, and topics of one request."""
MEASURES: dict[str, Callable[[Case], float]] = {
    "CPU": lambda case: case.taken.cpu_seconds,
    "RSS": lambda case: case.taken.rss_bytes,
    "work folder": lambda case: case.folder_bytes,
}


@dataclass(frozen=True, slots=True)
class Case:
    """
    One size, and what the tasks took at it.

    :param name: what was done, at which size.
    :param size: what may cost in proportion; the same number for cases of which the second must cost no more.
    :param taken: by the processes of all tasks.
    :param folder_bytes: of the work folder afterwards.
    """

    name: str
    size: float
    taken: Taken
    folder_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.name:44} CPU {self.taken.cpu_seconds:8.2f} s   clock {self.taken.seconds:8.2f} s   "
            f"RSS {self.taken.rss_bytes / 1e6:7,.0f} MB   PSS {self.taken.pss_bytes / 1e6:7,.0f} MB   "
            f"work folder {self.folder_bytes / 1e6:8,.1f} MB"
        )


def factors(small: Case, large: Case) -> dict[str, float]:
    """
    Return by how much more than the size each measure has grown: 1 is in proportion.

    :param small: the smaller size.
    :param large: the larger one.
    """
    grown = large.size / small.size
    return {name: _grown(of(small), of(large)) / grown for name, of in MEASURES.items()}


def _grown(before: float, after: float) -> float:
    if before:
        return after / before
    return float("inf") if after else 0.0


def judged(cases: Sequence[Case]) -> Iterator[Budget]:
    """
    Yield a budget for each size beside the next smaller one.

    :param cases: of one kind, by size.
    """
    for small, large in pairwise(cases):
        found = factors(small, large)
        said = ", ".join(f"{name} {factor:.2f}" for name, factor in found.items())
        worst = max(found, key=lambda name: found[name])
        details = [f"beside {small.name}: {said}"]
        if found[worst] > SUPERLINEAR:
            details.append(f"superlinear: {worst}")
        yield Budget(f"growth: {large.name}", found[worst], SUPERLINEAR, False, details, unit="")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of all sizes (default: %(default)s)")
    parser.add_argument("--only", choices=KINDS, help="one kind of growth")
    arguments = parser.parse_args()
    return report(_measured(arguments.only, arguments.scale))


def _measured(only: str | None, scale: float) -> Iterator[Budget | str]:
    for name, kind in KINDS.items():
        if only in (None, name):
            yield from _told(kind(scale))


@contextmanager
def _cluster() -> Iterator[tuple[LocalKafka, Path]]:
    """Start a broker; yield it, and a folder for tasks."""
    with tempfile.TemporaryDirectory(prefix="rlmm-bench-") as folder, LocalKafka(jvm_options=BROKER_OPTIONS) as kafka:
        yield kafka, Path(folder)


def _tasks(kafka: LocalKafka, folder: Path, topic: str) -> Tasks:
    extra = {"metadata_topic": topic, "expected_cluster_id": kafka.cluster_id}
    return Tasks(folder / topic, kafka.client_config(), extra)


def _twice(name: str, size: float, tasks: Tasks) -> tuple[Case, Case]:
    """Mark and plan with nothing kept from before, and once more where nothing is new."""
    cases = []
    for said, run_id in (("a first run", "first"), ("an idle run", "idle")):
        marking, planning, _ = tasks.mark_and_plan(run_id)
        cases.append(Case(f"{said}, {name}", size, Taken.together([marking, planning]), folder_bytes(tasks.work)))
    return cases[0], cases[1]


def _told(sizes: Iterable[tuple[Case, ...]]) -> Iterator[Budget | str]:
    """Say what each size took as soon as it was measured: a larger one may fail."""
    measured = []
    for cases in sizes:
        yield from map(str, cases)
        measured.append(cases)
    for each in zip(*measured, strict=True):
        yield from judged(each)


def _events(scale: float) -> Iterator[tuple[Case, ...]]:
    yield from _filled([(f"{round(n * scale):,} events", 5, n * scale, n * scale) for n in EVENTS])


def _partitions(scale: float) -> Iterator[tuple[Case, ...]]:
    yield from _filled([(f"{n} metadata partitions", n, EVENTS_IN_THEM * scale, 1) for n in PARTITIONS])


def _filled(worlds: Sequence[tuple[str, int, float, float]]) -> Iterator[tuple[Case, ...]]:
    """Fill a metadata topic for each: name, metadata partitions, events, and the size that its cost is compared by."""
    with _cluster() as (kafka, folder):
        config = KafkaClientConfig(kafka.client_config())
        create_metadata_topic(config, "benchmark-metadata")
        world = World.make(config)
        for number, (name, partitions, events, size) in enumerate(worlds):
            filled = world.fill(f"world-{number}", partitions, round(events))
            tasks = _tasks(kafka, folder, filled.name)
            tasks.lay_newest_copies(world.ids.values(), filled.name)
            yield _twice(name, size, tasks)


def _topics(scale: float) -> Iterator[tuple[Case, ...]]:
    for count in (max(10, round(n * scale)) for n in TOPICS):
        with _cluster() as (kafka, folder):
            config = KafkaClientConfig(kafka.client_config())
            names = [f"topic-{number:05}" for number in range(count)]
            # The last fiftieth is gone.
            ids: dict[str, uuid.UUID] = {}
            for begin in range(0, count - count // 50, AT_A_TIME):
                some = dict.fromkeys(names[begin : min(begin + AT_A_TIME, count - count // 50)], 1)
                ids |= create_topics(config, some, metadata_topic=METADATA_TOPIC)
            tips = [TopicIdPartition(ids.get(name) or uuid.uuid4(), name, 0) for name in names]
            publish_copies(config, segments_of(tips, SEGMENTS_OF_EACH))
            mark(config, [tip for tip in tips if tip.topic not in ids])
            tasks = _tasks(kafka, folder, METADATA_TOPIC)
            tasks.lay_newest_copies([ids[name] for name in names if name in ids], METADATA_TOPIC)
            yield _twice(f"{count:,} topics", count, tasks)


def _one_partition(scale: float) -> Iterator[tuple[Case, ...]]:
    for segments in SEGMENTS_OF_ONE:
        yield (_cleaned(max(20, round(segments * scale))),)


def _cleaned(segments: int) -> Case:
    """Delete a user partition of so many segments for real: mark it, plan, clean."""
    with _cluster() as (kafka, folder):
        config = KafkaClientConfig(kafka.client_config())
        create_tiered_topic(kafka, "living", 16)
        produce_until_remote(kafka, "living", 1)
        place = Place(kafka.remote_dir.as_uri(), LAYOUT)
        tips = absent_tips(kafka.metadata_partitions, Shape(1, segments))
        metadatas = segments_of(tips, segments)
        lay_objects(kafka.remote_dir, place.layout, metadatas)
        publish_copies(config, metadatas)
        extra = {
            "expected_cluster_id": kafka.cluster_id,
            "allow_writes": True,
            "storage_uri": place.uri,
            "expected_root": expected_root_of(kafka.remote_dir),
        }
        tasks = Tasks(folder, kafka.client_config(), extra)
        marking, planning, parts = tasks.mark_and_plan(dry_run=False)
        cleaning = [
            tasks.run(CLEAN, metadata_partition=part, limits=NOW, dry_run_only=False, approve_above=None)
            for part in parts
        ]
        deleted = sum(counts["segments_deleted"] for _, counts in cleaning)
        assert deleted == segments, f"{deleted} of {segments} segments were deleted"
        taken = Taken.together([marking, planning, *(each for each, _ in cleaning)])
        return Case(f"cleaning {segments:,} segments of one", segments, taken, folder_bytes(tasks.work))


def _after_cleaning(scale: float) -> Iterator[tuple[Case, ...]]:
    """
    Run over the records of segments that were cleaned before, of many topics, beside one that lives.

    The records are made: what cleaning leaves in the work folder is ``_one_partition``'s.
    """
    for count in (max(10, round(n * scale)) for n in CLEANED):
        with _cluster() as (kafka, folder):
            config = KafkaClientConfig(kafka.client_config())
            living = create_topics(config, {"living": 1}, metadata_topic=METADATA_TOPIC)
            tip = TopicIdPartition(living["living"], "living", 0)
            publish_copies(config, segments_of([tip], SEGMENTS_OF_EACH))
            _publish_cleaned(config, count)
            tasks = _tasks(kafka, folder, METADATA_TOPIC)
            tasks.lay_newest_copies(living.values(), METADATA_TOPIC)
            yield _twice(f"{count:,} cleaned segments", count, tasks)


def _publish_cleaned(config: KafkaClientConfig, count: int) -> None:
    """Write the whole life of so many segments, and of their user partitions."""
    for begin in range(0, count, AT_ONCE):
        tip = TopicIdPartition(uuid.uuid4(), f"gone-{begin}", 0)
        metadatas = segments_of([tip], min(AT_ONCE, count - begin))
        values = [
            *_of_partition(tip, P.DELETE_PARTITION_MARKED, P.DELETE_PARTITION_STARTED),
            *(serialize(event) for metadata in metadatas for event in _life(metadata)),
            *_of_partition(tip, P.DELETE_PARTITION_FINISHED),
        ]
        where = np.full(len(values), metadata_partition_for(tip, METADATA_PARTITIONS))
        publish(config, pa.array(values, pa.binary()), where, METADATA_TOPIC)


def _life(
    metadata: RemoteLogSegmentMetadata,
) -> Iterator[RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate]:
    yield metadata
    for state in (S.COPY_SEGMENT_FINISHED, S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED):
        yield RemoteLogSegmentMetadataUpdate(metadata.remote_log_segment_id, MADE_MS, None, state, BROKER_ID)


def _of_partition(tip: TopicIdPartition, *states: P) -> Iterator[bytes]:
    for state in states:
        yield serialize(RemotePartitionDeleteMetadata(tip, state, MADE_MS, BROKER_ID))


KINDS: dict[str, Callable[[float], Iterator[tuple[Case, ...]]]] = {
    "events": _events,
    "partitions": _partitions,
    "topics": _topics,
    "one-partition": _one_partition,
    "cleaned": _after_cleaning,
}


if __name__ == "__main__":
    sys.exit(main())
