# SPDX-License-Identifier: Apache-2.0
"""
The main job at scale, and again once little is new, in five metadata partitions and in fifty, as Kafka makes them.

Marking and planning beside a bare replay of the topic, the Spark job beside bare scans of it.

Prints one line per budget and what was measured; ends with 1 if a budget is missed. Quote ratios: the machine's speed drifts.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from pathlib import Path
from shutil import copytree

from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from benchmarks import ours
from benchmarks.cleaning import Run
from benchmarks.filled import FilledTopic, World
from benchmarks.measuring import Budget, beside, spread
from benchmarks.reporting import add_option, report
from benchmarks.spark import session
from benchmarks.spark_budgets import SparkBudgets
from benchmarks.topic import METADATA_PARTITIONS, TOPIC, served_topic

MOST_BYTES = 1.2e9
DEFAULT_PARTITIONS = 50
"""Metadata partitions that Kafka makes where nobody names a number."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=5_000_000, help="events of the topic (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each side (default: %(default)s)")
    parser.add_argument("--only", choices=("cleaner", "spark"), help="marking and planning alone, or the Spark job")
    add_option(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rlmm-bench-") as folder, served_topic() as config:
        return report(_measured(config, arguments, Path(folder)), arguments.figures)


def _measured(config: KafkaClientConfig, arguments: argparse.Namespace, folder: Path) -> Iterator[Budget]:
    world, size, runs = World.make(config), arguments.events, arguments.runs
    of_cleaner, of_spark = arguments.only != "spark", arguments.only != "cleaner"
    few = world.fill(TOPIC, METADATA_PARTITIONS, size)
    many = world.fill("in-50", DEFAULT_PARTITIONS, size)
    print("topic:", few.said, flush=True)
    first, full = {}, {}
    for filled in (few, many) if of_cleaner else ():
        first[filled.name] = yield from _p8(filled, runs, folder)
    with session(folder) if of_spark else nullcontext() as spark:
        budgets = SparkBudgets(spark, world, folder, runs)
        if of_spark:
            for filled in (few, many):
                full[filled.name] = yield from budgets.p3(filled)
            yield from budgets.as_in_few(many, full[many.name], full[few.name])
            yield from budgets.other_sizes(size, full[few.name], (METADATA_PARTITIONS, DEFAULT_PARTITIONS))
        for filled in (few, many):
            if of_cleaner:
                yield _p9("an idle run", filled, 0, first[filled.name], folder)
            filled.write_the_rest()
            if of_cleaner:
                yield _p9("an hour later, 1 % new events", filled, filled.later, first[filled.name], folder)
            if of_spark:
                yield from budgets.p3i(filled, full[filled.name])


def _p8(filled: FilledTopic, runs: int, folder: Path) -> Generator[Budget, None, list[Run]]:
    """Return the runs, of which the first one's work folder is kept for P9."""
    turns = [
        # Nothing is kept from before: each run has a work folder of its own.
        (filled.mark_and_plan(_work_folder(folder, filled, number)), ours.replay_topic(filled.config, filled.name))
        for number in range(runs)
    ]
    first, replays = [run for run, _ in turns], [replay.seconds for _, replay in turns]
    assert {run.records for run in first} == {filled.events}
    details = [
        spread("ours", [run.seconds for run in first], filled.events),
        spread("peer", replays, filled.events),
        f"mark {_median(first, 'mark_s'):.2f} s, plan {_median(first, 'plan_s'):.2f} s, {first[0].planned:,} planned",
    ]
    seconds, peaks = [run.seconds for run in first], [run.peak_bytes for run in first]
    yield beside(
        f"P8 mark and plan, nothing kept, in {filled.partitions}", seconds, replays, 1.5, details, filled.events
    )
    name, peak = f"P8 peak memory, of 1.2 GB, in {filled.partitions}", max(peaks)
    yield Budget(name, peak / MOST_BYTES, 1.0, False, [f"{peak:,} B"], peaks, unit="B")
    return first


def _p9(said: str, filled: FilledTopic, records: int, first: list[Run], folder: Path) -> Budget:
    """Run again behind the first run, as often as there are first runs; so many records are new."""
    kept = _work_folder(folder, filled, 0)
    again = [filled.mark_and_plan(Path(copytree(kept, f"{kept}-{records}-{n}"))) for n in range(len(first))]
    assert [run.records for run in again] == [records] * len(first)
    details = [
        spread("ours", [run.seconds for run in again], filled.events),
        f"mark {_median(again, 'mark_s'):.2f} s, plan {_median(again, 'plan_s'):.2f} s, {records:,} records read",
    ]
    mine, theirs = ([run.seconds for run in runs] for runs in (again, first))
    return beside(f"P9 {said}, in {filled.partitions}", mine, theirs, 0.1, details)


def _work_folder(folder: Path, filled: FilledTopic, number: int) -> Path:
    return folder / f"{filled.name}-{number}"


def _median(runs: list[Run], name: str) -> float:
    return statistics.median(getattr(run, name) for run in runs)


if __name__ == "__main__":
    sys.exit(main())
