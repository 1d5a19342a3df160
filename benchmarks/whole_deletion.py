# SPDX-License-Identifier: Apache-2.0
"""
Deletion as users start it, from the start of a process to its end, beside the broker's own of the same segments (P4).

Cleaning tasks of the DAG, two at once, each in a process of its own: ``execute`` of the operator, above as many tasks that
do nothing, whose time is Airflow's own and printed beside it. And ``rlmm clean --execute``, which checks, marks, plans,
cleans and reports: over a folder, and over S3 whose every request is 30 ms late. Beside them what a cleaning task takes
before it reads the log, above a task that does nothing. Prints one line per budget; ends with 1 if one is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

from benchmarks.deletion import Cluster, World, by_broker, cluster_of_its_own, lay_orphans
from benchmarks.deletion_s3 import in_s3
from benchmarks.measuring import RLMM, Budget, faster, in_turns, within
from benchmarks.orphans import TASKS, Shape
from benchmarks.processes import Taken, taken_by
from benchmarks.reporting import LEAST_RUNS, add_option, report
from benchmarks.tasks import CLEAN, NOW, READY, Tasks
from dev.roots import expected_root_in_s3, expected_root_of
from dev.s3 import BUCKET, VersityGateway
from dev.s3_proxy import S3Proxy

T = TypeVar("T")
SECRETS = ("aws_access_key_id", "aws_secret_access_key")
"""Options of the store that go into the environment of the command."""
CPU_OF_SEGMENT_S = 300e-6
OWN_PART_S = 0.5
"""What a cleaning task may take before it reads the log, above a task that does nothing, s of CPU time."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """
    What a deletion took.

    :param seconds: by the clock, from the start of the first process to the end of the last, without Airflow's own.
    :param cpu_seconds: of all its processes, likewise.
    :param own_part: CPU time of a cleaning task before it reads the log, above a task that does nothing; 0 of a command.
    :param airflow: seconds of as many tasks that do nothing.
    """

    seconds: float
    cpu_seconds: float
    own_part: float = 0.0
    airflow: float = 0.0


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--segments", type=int, default=2_500, help="of each of 4 user partitions (default: %(default)s)"
    )
    parser.add_argument("--runs", type=int, default=LEAST_RUNS, help="runs of each side (default: %(default)s)")
    add_option(parser)
    arguments = parser.parse_args()
    shape, runs = Shape(4, arguments.segments), arguments.runs
    return report(
        chain(_measured(shape, runs), _late(Shape(4, max(10, shape.segments // 10)), runs)), arguments.figures
    )


def _late(shape: Shape, runs: int) -> Iterator[Budget]:
    with (
        tempfile.TemporaryDirectory(prefix="rlmm-bench-") as folder,
        VersityGateway(Path(folder)) as server,
        S3Proxy(server.port) as proxy,
    ):
        world = partial(in_s3, server, proxy.endpoint, 16, proxy)
        ours, peer = in_turns([lambda: _by_command(shape, world).seconds, lambda: by_broker(shape, world)], runs)
    yield faster(f"P4 rlmm clean, S3 30 ms late, {shape}", ours, peer, shape.total, 1.5, what="segments")


def _measured(shape: Shape, runs: int) -> Iterator[Budget]:
    tasks, command, broker = in_turns(
        [lambda: _by_tasks(shape), lambda: _by_command(shape), lambda: _by_broker(shape)], runs
    )
    peer = [each.seconds for each in broker]
    sides = (("tasks by execute", tasks, 2.0), ("rlmm clean", command, 1.5))
    for name, ours, bound in sides:
        told = [f"{statistics.median(each.cpu_seconds for each in ours):.2f} s of CPU time"]
        if airflow := statistics.median(each.airflow for each in ours):
            told.append(f"Airflow's own start apart: {airflow:.2f} s")
        seconds = [each.seconds for each in ours]
        yield faster(f"P4 {name}, {shape}", seconds, peer, shape.total, bound, *told, what="segments")
    for name, ours, _ in sides:
        yield _at_most(
            f"P4 CPU of a segment, {name}, of 300 µs", [e.cpu_seconds / shape.total for e in ours], CPU_OF_SEGMENT_S
        )
    yield _at_most(
        "a cleaning task before it reads the log, CPU, of 0.5 s", [each.own_part for each in tasks], OWN_PART_S
    )


def _at_most(name: str, ours: Sequence[float], most: float) -> Budget:
    return within(name, ours, most, [f"{statistics.median(ours):.6f} s"])


def _by_broker(shape: Shape) -> Deleted:
    return Deleted(by_broker(shape), 0.0)


@contextmanager
def _orphans(shape: Shape, world: World = cluster_of_its_own) -> Iterator[tuple[Cluster, Path]]:
    """Make marked segments of a topic that does not exist; yield their cluster, and a folder."""
    with world() as cluster, tempfile.TemporaryDirectory(prefix="rlmm-bench-") as folder:
        lay_orphans(cluster, shape)
        yield cluster, Path(folder)


def _by_tasks(shape: Shape) -> Deleted:
    """Mark and plan, then clean: only cleaning counts."""
    with _orphans(shape) as (cluster, folder):
        extra = {
            "expected_cluster_id": cluster.kafka.cluster_id,
            "allow_writes": True,
            "storage_uri": cluster.place.uri,
            "expected_root": _expected_root(cluster),
        }
        tasks = Tasks(folder, cluster.kafka.client_config(), extra)
        *_, parts = tasks.mark_and_plan(dry_run=False)
        ready, _ = _clean(tasks, READY, parts[0])
        nothing, airflow = _side_by_side(tasks.nothing, [1] * len(parts))
        done, seconds = _side_by_side(lambda part: _clean(tasks, CLEAN, part), parts)
    deleted = sum(counts["segments_deleted"] for _, counts in done)
    assert deleted == shape.total, f"{deleted} of {shape.total} segments were deleted"
    own = [taken.cpu_seconds for taken in nothing]
    cpu_seconds = sum(taken.cpu_seconds for taken, _ in done) - sum(own)
    return Deleted(seconds - airflow, cpu_seconds, ready.cpu_seconds - statistics.median(own), airflow)


def _side_by_side(run: Callable[[int], T], given: Sequence[int]) -> tuple[list[T], float]:
    """Run as many at once as there are tasks at a time; return what each returned, and the seconds of all."""
    with ThreadPoolExecutor(TASKS) as pool:
        began = time.perf_counter()
        done = list(pool.map(run, given))
        return done, time.perf_counter() - began


def _clean(tasks: Tasks, task: str, metadata_partition: int) -> tuple[Taken, dict[str, int]]:
    taken, counts = tasks.run(
        task, metadata_partition=metadata_partition, limits=NOW, dry_run_only=False, approve_above=None
    )
    return taken, counts


def _by_command(shape: Shape, world: World = cluster_of_its_own) -> Deleted:
    """Check, mark, plan, clean and report."""
    with _orphans(shape, world) as (cluster, folder):
        place, options = cluster.place, cluster.place.options
        secrets = {name.upper(): options[name] for name in SECRETS if name in options}
        stored = [f"--store-option={name}={value}" for name, value in options.items() if name not in SECRETS]
        command = [
            RLMM, "clean", "--execute",
            "--bootstrap-server", cluster.config.bootstrap_servers, "--cluster-id", cluster.kafka.cluster_id,
            "--storage", place.uri, "--layout", place.layout_name, "--key-prefix", place.key_prefix, *stored,
            "--expected-root", _expected_root(cluster), "--work-dir", str(folder / "work"),
            "--override", "short_min_absence", "--min-absence-ms", "0", "--max-share", "1",
        ]  # fmt: skip
        cluster.be_late()
        taken = taken_by(command, environment={**os.environ, **secrets})
        left = sum("absent" in str(file) for file in cluster.root.rglob("*.log"))
    assert not left, f"{left} logs are left"
    return Deleted(taken.seconds, taken.cpu_seconds)


def _expected_root(cluster: Cluster) -> str:
    place = cluster.place
    if "aws_endpoint" not in place.options:
        return expected_root_of(cluster.root)
    return expected_root_in_s3(BUCKET, place.options["aws_endpoint"], [place.key_prefix.rstrip("/")])


if __name__ == "__main__":
    sys.exit(main())
