# SPDX-License-Identifier: Apache-2.0
"""
P8 and P9 as users have them: marking and planning by ``execute`` of both operators, in two processes, from start to end.

In turns with two tasks that do nothing, which is Airflow's own start, with a bare replay of the topic, and with P7's consumer
in a warm JVM. The budgets are about processor time above Airflow's own start; the clock is printed beside it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import copytree

from airflow_provider_rlmm.core.log.kafka.cluster import verify_cluster
from benchmarks import ours
from benchmarks.filled import FilledTopic, World
from benchmarks.kafka_peer import KafkaPeer
from benchmarks.measuring import Budget, Effort, in_turns, spread, within
from benchmarks.processes import Taken
from benchmarks.reporting import add_option, report
from benchmarks.scale import DEFAULT_PARTITIONS
from benchmarks.tasks import Tasks
from benchmarks.topic import METADATA_PARTITIONS, served_topic

EACH_S, BASE_S = 1.3e-6, 2.5
"""Of P8: processor time for each event, and for all else, s."""
SHARE, LEAST_S = 0.15, 1.5
"""Of P9: a share of the first run, and the least that is allowed, s of processor time."""
MOST_BYTES = 600e6
PSS_EVENTS = 5_000_000
"""Events of which P8's memory is a budget."""


@dataclass(frozen=True, slots=True)
class Both:
    """
    What the two tasks of one run took.

    :param marking: of the first.
    :param planning: of the second.
    :param start: of as many tasks that do nothing.
    """

    marking: Taken
    planning: Taken
    start: Taken

    @property
    def cpu_seconds(self) -> float:
        """Processor time above Airflow's own start."""
        return self.marking.cpu_seconds + self.planning.cpu_seconds - self.start.cpu_seconds

    @property
    def seconds(self) -> float:
        """By the clock above Airflow's own start."""
        return self.marking.seconds + self.planning.seconds - self.start.seconds

    @property
    def pss_bytes(self) -> int:
        """The most that the processes of a task held."""
        return max(self.marking.pss_bytes, self.planning.pss_bytes)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=PSS_EVENTS, help="events of the topic (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each side (default: %(default)s)")
    add_option(parser)
    arguments = parser.parse_args()
    return report(_measured(arguments.events, arguments.runs), arguments.figures)


def _measured(events: int, runs: int) -> Iterator[Budget | str]:
    with tempfile.TemporaryDirectory(prefix="rlmm-bench-") as folder, served_topic() as config:
        world, cluster_id = World.make(config), verify_cluster(config).cluster_id
        for partitions in (METADATA_PARTITIONS, DEFAULT_PARTITIONS):
            filled = world.fill(f"in-{partitions}", partitions, events)
            yield f"topic: {filled.said}"
            extra = {"metadata_topic": filled.name, "expected_cluster_id": cluster_id}
            first = [Tasks(Path(folder, f"{partitions}-{run}"), dict(config.properties), extra) for run in range(runs)]
            found = yield from _first(filled, world, first)
            yield _again("P9 idle", filled, first, found)
            filled.write_the_rest()
            _know_the_storage(first, filled, world)
            yield _again("P9 1 % news", filled, first, found)


def _know_the_storage(installations: Sequence[Tasks], filled: FilledTopic, world: World) -> None:
    for tasks in installations:
        tasks.lay_newest_copies(world.ids.values(), filled.name)


def _run(tasks: Tasks, run_id: str) -> Both:
    marking, planning, _ = tasks.mark_and_plan(run_id)
    return Both(marking, planning, tasks.nothing(2))


def _first(filled: FilledTopic, world: World, installations: Sequence[Tasks]) -> Generator[Budget, None, list[Both]]:
    """Run with nothing kept from before; return the runs."""
    _know_the_storage(installations, filled, world)
    waiting = iter(installations)
    with KafkaPeer() as peer:
        consume = partial(peer.topic, filled.config.bootstrap_servers, filled.name)
        consume()
        runs, replays, consumed = in_turns(
            (
                lambda: _run(next(waiting), "first"),
                lambda: _advance(filled),
                lambda: consume()[0],
            ),
            len(installations),
        )
    where, allowed = f"in {filled.partitions}", EACH_S * filled.events + BASE_S
    cpu, clock = [run.cpu_seconds for run in runs], [run.seconds for run in runs]
    details = [
        spread("CPU", cpu, filled.events, "events"),
        spread("clock", clock, filled.events, "events"),
        _ratio("advance", clock, [replay.seconds for replay in replays]),
        _ratio("P7's consumer in a JVM", clock, consumed),
        _start(runs),
    ]
    median, beside = statistics.median(cpu), [replay.cpu_seconds for replay in replays]
    details.append(f"allowed: {allowed:.1f} s of CPU time")
    name = f"P8 mark and plan by execute, CPU, {where}"
    yield Budget(name, median / allowed, 1.0, False, details, cpu, beside, count=filled.events)
    peaks = [run.pss_bytes for run in runs]
    told = [f"{max(peaks):,} B; 600 MB are for {PSS_EVENTS:,} events, and {filled.events:,} were read"]
    yield Budget(
        f"P8 peak PSS of a task, of 600 MB, {where}", max(peaks) / MOST_BYTES, 1.0, False, told, peaks, unit="B"
    )
    return runs


def _advance(filled: FilledTopic) -> Effort:
    """Replay the topic in this process, which is warm; the state is not kept."""
    run = ours.replay_topic(filled.config, filled.name)
    return Effort(run.seconds, run.cpu_s)


def _again(said: str, filled: FilledTopic, installations: Sequence[Tasks], first: Sequence[Both]) -> Budget:
    """Run behind the first run of each installation, in a copy of it."""
    runs = []
    for number, tasks in enumerate(installations):
        copy = tasks.folder.with_name(f"{said.replace(' ', '-').replace('%', '')}-{filled.partitions}-{number}")
        runs.append(_run(Tasks(Path(copytree(tasks.folder, copy)), tasks.properties, tasks.extra), "again"))
    cpu, before = [run.cpu_seconds for run in runs], [run.cpu_seconds for run in first]
    allowed = max(SHARE * statistics.median(before), LEAST_S)
    details = [
        spread("CPU", cpu, filled.events, "events"),
        spread("clock", [run.seconds for run in runs], filled.events, "events"),
        _ratio("the first run, CPU", cpu, before),
        _start(runs),
    ]
    details.append(f"allowed: {allowed:.1f} s of CPU time")
    name = f"{said} by execute, CPU, in {filled.partitions}"
    return within(name, cpu, allowed, details, before)


def _ratio(name: str, mine: Sequence[float], peer: Sequence[float]) -> str:
    median = statistics.median(peer)
    return f"{statistics.median(mine) / median:.2f} times {name}, {median:.2f} s"


def _start(runs: Sequence[Both]) -> str:
    cpu, clock = (statistics.median(getattr(run.start, what) for run in runs) for what in ("cpu_seconds", "seconds"))
    return f"Airflow's own start, of two tasks that do nothing: {cpu:.2f} s of CPU time, {clock:.2f} s by the clock"


if __name__ == "__main__":
    sys.exit(main())
