# SPDX-License-Identifier: Apache-2.0
"""
Decoding, replay, memory, resuming: this package beside Kafka's own classes, with the budgets of docs/benchmarks.md.

Prints one line per budget and what was measured; ends with 1 if a budget is missed. Quote ratios: the machine's speed drifts.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import ours
from benchmarks.kafka_peer import KafkaPeer
from benchmarks.measuring import Budget, faster, seconds, spread, turn_by_turn
from benchmarks.topic import METADATA_PARTITIONS, TOPIC, loaded_topic
from benchmarks.workload import generate, write

WARM_UP = 10
"""Runs of the peer before the first that counts: the JVM is still getting faster at the fifth."""
TOPIC_BUDGETS = {"P5", "P7"}


def main() -> int:
    """Measure and print."""
    arguments = _arguments()
    missed = 0
    with tempfile.TemporaryDirectory(prefix="rlmm-bench-") as folder:
        for budget in _measured(arguments, Path(folder)):
            print(budget, flush=True)
            missed += not budget.met
    return 1 if missed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=1_200_000, help="values of P1, P2 and P6 (default: %(default)s)")
    parser.add_argument("--events", type=int, default=5_000_000, help="events of P5 and P7 (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each side (default: %(default)s)")
    parser.add_argument("--only", nargs="+", default=["P1", "P2", "P5", "P6", "P7"], metavar="P", help="some budgets")
    return parser.parse_args()


def _measured(arguments: argparse.Namespace, folder: Path) -> Iterator[Budget]:
    wanted = set(arguments.only)
    if wanted - TOPIC_BUDGETS:
        workload = generate(arguments.values)
        print("workload:", _mix(workload.mix))
        path = folder / "values"
        write(path, workload.values)
        with KafkaPeer() as peer:
            peer.load(path)
            if "P1" in wanted:
                yield _p1(workload.values, peer, arguments.runs)
            if "P2" in wanted:
                yield _p2(workload.values, peer, arguments.runs)
            if "P6" in wanted:
                yield _p6(path, peer)
    if wanted & TOPIC_BUDGETS:
        yield from _from_the_topic(arguments, folder, wanted)


def _mix(mix: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in mix.items())


def _p1(values: Any, peer: KafkaPeer, runs: int) -> Budget:
    for _ in range(WARM_UP):
        peer.decode()
    ours.decode_all(values.slice(0, ours.BATCH_ROWS))
    mine, theirs = turn_by_turn(lambda: seconds(partial(ours.decode_all, values)), peer.decode, runs)
    return faster("P1 decode", mine, theirs, len(values), 1.5)


def _p2(values: Any, peer: KafkaPeer, runs: int) -> Budget:
    for _ in range(WARM_UP):
        peer.replay()
    ours.replay(values.slice(0, ours.BATCH_ROWS))
    mine, theirs = turn_by_turn(lambda: seconds(partial(ours.replay, values)), lambda: peer.replay()[0], runs)
    _, live = peer.replay()
    return faster("P2 decode and apply", mine, theirs, len(values), 8.0, f"{live:,} live segments in Kafka's caches")


def _p6(path: Path, peer: KafkaPeer) -> Budget:
    columns, growth, live = ours.memory(path)
    heap, live_in_kafka = peer.memory()
    mine, theirs = max(columns, growth) / live, heap / live_in_kafka
    details = [
        f"ours   {columns / live:8.0f} B per live segment in its columns, {growth / live:.0f} B by growth of the process",
        f"peer   {theirs:8.0f} B per live segment on the heap; {live:,} and {live_in_kafka:,} live segments",
    ]
    return Budget("P6 memory per live segment", mine / theirs, 1 / 3, False, details)


def _from_the_topic(arguments: argparse.Namespace, folder: Path, wanted: set[str]) -> Iterator[Budget]:
    workload = generate(arguments.events, metadata_partitions=METADATA_PARTITIONS)
    print("topic:", _mix(workload.mix), flush=True)
    events = len(workload.values)
    with loaded_topic(workload) as (kafka, log), KafkaPeer() as peer:
        del workload
        replays: list[ours.TopicReplay] = []

        def replay_topic() -> float:
            replays[:-1] = []
            replays.append(ours.TopicReplay())
            taken = seconds(lambda: replays[-1].run(log))
            assert replays[-1].events == events
            return taken

        def peer_topic() -> float:
            taken, records, _ = peer.topic(kafka.bootstrap_servers, TOPIC)
            assert records == events
            return taken

        peer_topic()
        mine, theirs = turn_by_turn(replay_topic, peer_topic, arguments.runs)
        steps = ", ".join(f"{step} {taken:.2f} s" for step, taken in replays[-1].seconds.items())
        if "P7" in wanted:
            yield faster("P7 replay of the topic", mine, theirs, events, 1.0, f"ours, last run: {steps}")
        if "P5" in wanted:
            yield _p5(replays[-1], mine, folder / "snapshot", arguments.runs)


def _p5(replayed: ours.TopicReplay, full: list[float], path: Path, runs: int) -> Budget:
    ours.save(replayed.state, path)
    resumed = [seconds(partial(ours.resume, path)) for _ in range(runs)]
    details = [
        spread("resume", resumed, replayed.events),
        spread("replay", full, replayed.events),
        f"{path.stat().st_size:,} B for {replayed.state.segments.num_rows:,} live segments",
    ]
    ratio = statistics.median(full) / statistics.median(resumed)
    return Budget("P5 resume instead of a full replay", ratio, 20.0, True, details)


if __name__ == "__main__":
    sys.exit(main())
