# SPDX-License-Identifier: Apache-2.0
"""
The main job at scale, and again once little is new.

Marking and planning beside a bare replay of the topic, the Spark job beside bare scans of it.

Prints one line per budget and what was measured; ends with 1 if a budget is missed. Quote ratios: the machine's speed drifts.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from benchmarks import ours
from benchmarks.cleaning import Run, mark_and_plan
from benchmarks.measuring import Budget, spread
from benchmarks.spark import SparkJob, session
from benchmarks.topic import METADATA_PARTITIONS, TOPIC, create_metadata_topic, create_topics, publish, served_topic
from benchmarks.workload import Workload, generate, topics_of

GONE = 0.02
"""Share of the user partitions whose topics are deleted."""
NEW = 0.01
"""Share of the events that are written after the first run."""
MOST_BYTES = 1.2e9
SMALL, SMALL_S = 50_000, 3.0
DEFAULT_PARTITIONS = 50
"""Metadata partitions that Kafka makes where nobody names a number."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=5_000_000, help="events of the topic (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each side (default: %(default)s)")
    arguments = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory(prefix="rlmm-bench-") as folder, served_topic() as config:
        for budget in _measured(config, arguments.events, arguments.runs, Path(folder)):
            print(budget, flush=True)
            missed += not budget.met
    return 1 if missed else 0


def _measured(config: KafkaClientConfig, size: int, runs: int, folder: Path) -> Iterator[Budget]:
    workload = _topic(config, size)
    values, partitions = workload.values, workload.metadata_partitions
    later = round(len(values) * NEW)
    print("topic:", workload.said, flush=True)
    publish(config, values[:-later], partitions[:-later])
    events, properties = len(values) - later, dict(config.properties)
    first: list[Run] = []
    replays: list[float] = []
    for number in range(runs):
        # Nothing is kept from before: each run has a work folder of its own.
        first.append(mark_and_plan(properties, folder / f"first-{number}"))
        assert first[-1].records == events
        replays.append(ours.replay_topic(config).seconds)
    yield from _p8(first, replays, events)
    with session(folder) as spark:
        job = SparkJob(spark, config, TOPIC, folder / "spark")
        full = yield from _p3(job, runs, events)
        yield from _p3_other_sizes(config, spark, folder, size, full)
        idle = [mark_and_plan(properties, _copy(folder, f"idle-{n}")) for n in range(runs)]
        publish(config, values[-later:], partitions[-later:])
        new = [mark_and_plan(properties, _copy(folder, f"new-{n}")) for n in range(runs)]
        assert [run.records for run in (*idle, *new)] == [0] * runs + [later] * runs
        yield _p9("P9 an hour later, 1 % new events", new, first, events)
        yield _p9("P9 an idle run", idle, first, events)
        yield _p3i(job, runs, full, later)


def _topic(config: KafkaClientConfig, size: int) -> Workload:
    """Return the events of topics that exist, but for a few whose user partitions are all marked."""
    topics = topics_of()
    gone: list[str] = []
    for name, count in sorted(topics.items(), key=lambda item: item[1]):
        if sum(topics[other] for other in gone) + count <= max(1, GONE * sum(topics.values())):
            gone.append(name)
    ids = create_topics(config, {name: count for name, count in topics.items() if name not in gone})
    return generate(size, metadata_partitions=METADATA_PARTITIONS, topic_ids=ids, marked=gone)


def _copy(folder: Path, name: str) -> Path:
    return Path(copytree(folder / "first-0", folder / name))


def _p8(first: list[Run], replays: list[float], events: int) -> Iterator[Budget]:
    peak = max(run.peak_bytes for run in first)
    details = [
        spread("ours", [run.seconds for run in first], events),
        spread("peer", replays, events),
        f"mark {_median(first, 'mark_s'):.2f} s, plan {_median(first, 'plan_s'):.2f} s, {first[0].planned:,} planned",
    ]
    ratio = statistics.median(run.seconds for run in first) / statistics.median(replays)
    yield Budget("P8 mark and plan, nothing kept", ratio, 1.5, False, details)
    yield Budget("P8 peak memory, of 1.2 GB", peak / MOST_BYTES, 1.0, False, [f"{peak:,} B"])


def _p3(job: SparkJob, runs: int, events: int) -> Generator[Budget, None, list[float]]:
    """Return the times of the full runs, whose data sets are ``full-0`` and so on."""
    # The first two runs compile what later ones call.
    for name in ("warm-0", "warm-1"):
        job.run(job.data_set(name))
    job.scan()
    full: list[float] = []
    scans: list[float] = []
    tuned: list[float] = []
    for number in range(runs):
        taken, records = job.run(job.data_set(f"full-{number}"))
        assert records == events
        full.append(taken)
        scans.append(job.scan())
        tuned.append(job.tuned_scan())
    for name, peer, bound in (("with defaults", scans, 2.2), ("tuned", tuned, 2.7)):
        ratio = statistics.median(full) / statistics.median(peer)
        details = [spread("ours", full, events), spread("peer", peer, events)]
        yield Budget(f"P3 Spark, beside a scan {name}", ratio, bound, False, details)
    return full


def _p3_other_sizes(
    config: KafkaClientConfig, spark: Any, folder: Path, size: int, full: list[float]
) -> Iterator[Budget]:
    """The same job on topics of its own, half as large and small."""
    taken: dict[str, list[float]] = {}
    sizes = (
        ("half", size // 2, METADATA_PARTITIONS),
        ("small", SMALL, METADATA_PARTITIONS),
        ("full-in-50", size, DEFAULT_PARTITIONS),
        ("small-in-50", SMALL, DEFAULT_PARTITIONS),
    )
    for name, events, partitions in sizes:
        workload = generate(events, metadata_partitions=partitions)
        create_metadata_topic(config, name, partitions)
        publish(config, workload.values, workload.metadata_partitions, name)
        job = SparkJob(spark, config, name, folder / name)
        taken[name] = [job.run(job.data_set(f"full-{number}"))[0] for number in range(len(full))]
    ratio = statistics.median(full) / statistics.median(taken["half"])
    yield Budget("P3 Spark, twice the events", ratio, 2.2, False, [spread("half", taken["half"], size // 2)])
    for name, said in (("small", "50,000 events"), ("small-in-50", "50,000 events in 50 metadata partitions")):
        ratio = statistics.median(taken[name]) / SMALL_S
        yield Budget(f"P3 Spark, {said}, of 3 s", ratio, 1.0, False, [spread(name, taken[name], SMALL)])
    ratio = statistics.median(taken["full-in-50"]) / statistics.median(full)
    yield Budget("P3 Spark, in 50 metadata partitions", ratio, 1.2, False, [spread("50", taken["full-in-50"], size)])


def _p3i(job: SparkJob, runs: int, full: list[float], later: int) -> Budget:
    """Read on behind each of the full runs, once."""
    found = [job.run(job.data_set(f"full-{number}")) for number in range(runs)]
    assert [records for _, records in found] == [later] * runs
    new = [taken for taken, _ in found]
    ratio = statistics.median(new) / statistics.median(full)
    return Budget("P3i Spark, 1 % new events", ratio, 0.25, False, [spread("ours", new, later)])


def _p9(name: str, runs: list[Run], first: list[Run], events: int) -> Budget:
    ratio = statistics.median(run.seconds for run in runs) / statistics.median(run.seconds for run in first)
    details = [
        spread("ours", [run.seconds for run in runs], events),
        f"mark {_median(runs, 'mark_s'):.2f} s, plan {_median(runs, 'plan_s'):.2f} s, {runs[0].records:,} records read",
    ]
    return Budget(name, ratio, 0.1, False, details)


def _median(runs: list[Run], name: str) -> float:
    return statistics.median(getattr(run, name) for run in runs)


if __name__ == "__main__":
    sys.exit(main())
