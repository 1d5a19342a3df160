# SPDX-License-Identifier: Apache-2.0
"""
A survey beside the plan of the same topic: both begin where an earlier task has left its snapshot.

Prints one line per budget and what was measured; ends with 1 if a budget is missed. Needs no broker.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.log.in_process_topics import InProcessClusterTopics
from airflow_provider_rlmm.core.log.snapshot_file import SnapshotFile
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
from airflow_provider_rlmm.core.world.hold import Hold
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.features.cleanup.planner import CleanupPlanner
from airflow_provider_rlmm.features.survey.inventory_files import write_inventory
from airflow_provider_rlmm.features.survey.survey import survey
from airflow_provider_rlmm.overview.inventories import segments, topics
from benchmarks.measuring import Budget, beside, spread
from benchmarks.reporting import add_option, report

METADATA_PARTITIONS = 50
SEGMENTS_PER_PARTITION = 50
PARTITIONS_PER_TOPIC = 2
GONE_EVERY = 50
"""Of so many topics one is deleted, and marked."""

NOW_MS = 1_780_000_000_000
DAY_MS = 86_400_000
MOST_PAGE_S = 0.2


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=500_000, help="live segments (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each side (default: %(default)s)")
    add_option(parser)
    arguments = parser.parse_args()
    log, cluster = _topic(arguments.segments)
    with tempfile.TemporaryDirectory(prefix="rlmm-bench-") as folder:
        budgets = _measured(log, cluster, arguments.segments, arguments.runs, Path(folder))
    return report(budgets, arguments.figures)


def _topic(count: int) -> tuple[InProcessMetadataEventLog, InProcessClusterTopics]:
    """Return a metadata topic with as many segments that are not finished."""
    log = InProcessMetadataEventLog(METADATA_PARTITIONS, clock=lambda: NOW_MS)
    living: dict[str, UUID] = {}
    for number in range(-(-count // (SEGMENTS_PER_PARTITION * PARTITIONS_PER_TOPIC))):
        topic_id, gone = UUID(int=number + 1), number % GONE_EVERY == 0
        if not gone:
            living[f"topic-{number:06}"] = topic_id
        for partition in range(PARTITIONS_PER_TOPIC):
            _user_partition(log, TopicIdPartition(topic_id, f"topic-{number:06}", partition), gone)
    return log, InProcessClusterTopics(living)


def _user_partition(log: InProcessMetadataEventLog, tip: TopicIdPartition, gone: bool) -> None:
    where = metadata_partition_for(tip, METADATA_PARTITIONS)
    copied = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    for number in range(SEGMENTS_PER_PARTITION):
        segment = RemoteLogSegmentId(tip, UUID(int=tip.topic_id.int << 64 | tip.partition << 32 | number))
        start, time_ms = number * 1_000, NOW_MS - 30 * DAY_MS + number
        added = RemoteLogSegmentMetadata(
            segment, start, start + 999, time_ms, 1, time_ms, 10**8, None, RemoteLogSegmentState.COPY_SEGMENT_STARTED,
            ((number // 10, start),),
        )  # fmt: skip
        log.append(where, serialize(added))
        log.append(where, serialize(RemoteLogSegmentMetadataUpdate(segment, time_ms, None, copied, 1)))
    if gone:
        marked = RemotePartitionDeleteState.DELETE_PARTITION_MARKED
        event = RemotePartitionDeleteMetadata(tip, marked, NOW_MS - 2 * DAY_MS, OWN_BROKER_ID)
        log.append(where, serialize(event))


def _measured(
    log: InProcessMetadataEventLog, cluster: InProcessClusterTopics, count: int, runs: int, folder: Path
) -> list[Budget]:
    snapshots, limits = SnapshotFile(str(folder / "topic.snapshot")), CleanerLimits()

    def opened() -> TopicReplay:
        topic = TopicReplay(log, cluster, lambda: NOW_MS, snapshots)
        topic.advance()
        return topic

    opened().keep()

    def plan() -> float:
        planner = CleanupPlanner(opened(), limits=limits, clock=lambda: NOW_MS)
        return _seconds(lambda: planner.plan("plan", expires_in_ms=DAY_MS))

    def look() -> float:
        topic = opened()
        shutil.rmtree(folder / "cluster-bench", ignore_errors=True)
        return _seconds(lambda: _survey(topic, limits, str(folder / "cluster-bench")))

    plans, surveys = [plan() for _ in range(runs)], [look() for _ in range(runs)]
    ids = topics(str(folder), "cluster-bench", rows=1).rows[0].topic_id
    pages = [
        _seconds(lambda: (topics(str(folder), "cluster-bench"), segments(str(folder), "cluster-bench", ids, 0)))
        for _ in range(runs)
    ]
    page = statistics.median(pages)
    size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    told = [spread("survey", surveys, count, "segments"), spread("plan", plans, count, "segments"), f"{size:,} B"]
    return [
        beside("a survey beside the plan", surveys, plans, 2.0, told, count),
        Budget("two pages of it, of 0.2 s", page / MOST_PAGE_S, 1.0, False, [f"{page * 1000:.1f} ms"], pages),
    ]


def _survey(topic: TopicReplay, limits: CleanerLimits, uri: str) -> None:
    found = survey(topic, limits, Hold(), NOW_MS)
    write_inventory(
        uri, cluster_id="bench", connection="bench", artifact="bench", created_at_ms=NOW_MS, topics=found.topics,
        partitions=found.partitions, segments=found.segments(), totals=found.totals,
    )  # fmt: skip


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
