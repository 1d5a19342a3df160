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

from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.topic_state import CHUNK_ROWS
from benchmarks import ours
from benchmarks.kafka_peer import KafkaPeer
from benchmarks.keyed_replay import keyed_beside_plain
from benchmarks.measuring import Budget, faster, seconds, spread, turn_by_turn
from benchmarks.reporting import add_option, report
from benchmarks.topic import METADATA_PARTITIONS, TOPIC, publish, served_topic
from benchmarks.workload import generate, write

WARM_UP = 10
"""Runs of the peer before the first that counts: the JVM is still getting faster at the fifth."""
TOPIC_BUDGETS = {"P5", "P7", "P13"}
LATER = 1_000
"""Events that are written after the snapshot: applying the first of them makes what a resumed state has put off."""


def main() -> int:
    """Measure and print."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="rlmm-bench-") as folder:
        return report(_measured(arguments, Path(folder)), arguments.figures)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=1_200_000, help="values of P1, P2 and P6 (default: %(default)s)")
    parser.add_argument("--events", type=int, default=5_000_000, help="events of P7 (default: %(default)s)")
    parser.add_argument("--keyed-events", type=int, default=5_000_000, help="events of P13 (default: %(default)s)")
    parser.add_argument("--snapshot-events", type=int, default=10_000_000, help="events of P5 (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each side (default: %(default)s)")
    parser.add_argument(
        "--only", nargs="+", default=["P1", "P2", "P6", "P7", "P13", "P5"], metavar="P", help="some budgets"
    )
    add_option(parser)
    return parser.parse_args()


def _measured(arguments: argparse.Namespace, folder: Path) -> Iterator[Budget]:
    wanted = set(arguments.only)
    if wanted - TOPIC_BUDGETS:
        yield from _from_values(arguments, folder / "values", wanted)
    if "P7" in wanted:
        yield _p7(arguments)
    if "P13" in wanted:
        yield from keyed_beside_plain(arguments.keyed_events, arguments.runs)
    if "P5" in wanted:
        yield _p5(arguments, folder / "snapshot")


def _from_values(arguments: argparse.Namespace, path: Path, wanted: set[str]) -> Iterator[Budget]:
    workload = generate(arguments.values)
    print("workload:", workload.said)
    write(path, workload.values)
    with KafkaPeer() as peer:
        peer.load(path)
        if "P1" in wanted:
            yield _p1(workload.values, peer, arguments.runs)
        if "P2" in wanted:
            yield _p2(workload.values, peer, arguments.runs)
        if "P6" in wanted:
            yield _p6(path, peer, arguments.runs)


def _p1(values: Any, peer: KafkaPeer, runs: int) -> Budget:
    for _ in range(WARM_UP):
        peer.decode()
    ours.decode_all(values.slice(0, CHUNK_ROWS))
    mine, theirs = turn_by_turn(lambda: seconds(partial(ours.decode_all, values)), peer.decode, runs)
    return faster("P1 decode", mine, theirs, len(values), 1.5)


def _p2(values: Any, peer: KafkaPeer, runs: int) -> Budget:
    for _ in range(WARM_UP):
        peer.replay()
    ours.replay(values.slice(0, CHUNK_ROWS))
    mine, theirs = turn_by_turn(lambda: seconds(partial(ours.replay, values)), lambda: peer.replay()[0], runs)
    _, live = peer.replay()
    return faster("P2 decode and apply", mine, theirs, len(values), 8.0, f"{live:,} live segments in Kafka's caches")


def _p6(path: Path, peer: KafkaPeer, runs: int) -> Budget:
    taken = [ours.memory(path) for _ in range(runs)]
    columns, growth, live = sorted(taken, key=lambda each: max(each[:2]))[len(taken) // 2]
    heap, live_in_kafka = peer.memory()
    mine, theirs = max(columns, growth) / live, heap / live_in_kafka
    details = [
        f"ours   {columns / live:8.0f} B per live segment in its columns, {growth / live:.0f} B by growth of the process",
        f"peer   {theirs:8.0f} B per live segment on the heap; {live:,} and {live_in_kafka:,} live segments",
    ]
    each = [max(used, grown) / live for used, grown, _ in taken]
    return Budget("P6 memory per live segment", mine / theirs, 1 / 4, False, details, each, [theirs], "B")


def _p7(arguments: argparse.Namespace) -> Budget:
    with served_topic() as config:
        workload = generate(arguments.events, metadata_partitions=METADATA_PARTITIONS)
        print("topic of P7:", workload.said, flush=True)
        events = len(workload.values)
        publish(config, workload.values, workload.metadata_partitions)
        # Its memory is for the peer.
        del workload
        with KafkaPeer() as peer:

            def replay() -> float:
                nonlocal last
                last = ours.replay_topic(config)
                assert last.records == events
                return last.seconds

            def peer_topic() -> float:
                taken, records, _ = peer.topic(config.bootstrap_servers, TOPIC)
                assert records == events
                return taken

            last = ours.replay_topic(config)
            peer_topic()
            mine, theirs = turn_by_turn(replay, peer_topic, arguments.runs)
    rest = f"ours, last run: {last.read_s:.2f} s to read, {last.seconds - last.read_s:.2f} s for all else"
    return faster("P7 replay of the topic", mine, theirs, events, 2.5, rest)


def _p5(arguments: argparse.Namespace, snapshot: Path) -> Budget:
    with served_topic() as config:
        events = _leave_snapshot(config, arguments.snapshot_events, snapshot)
        answers: list[float] = []

        def resume() -> float:
            nonlocal resumed
            resumed = ours.resume_topic(config, snapshot)
            assert resumed.records == LATER
            answers.append(seconds(lambda: resumed.topic_state.state.segments))
            return resumed.seconds

        def replay() -> float:
            nonlocal replayed
            replayed = ours.replay_topic(config)
            assert replayed.records == events
            return replayed.seconds

        resumed = replayed = ours.resume_topic(config, snapshot)
        quick, full = turn_by_turn(resume, replay, arguments.runs)
    state = resumed.topic_state.state
    live = state.segments.num_rows
    assert live == replayed.topic_state.state.segments.num_rows
    details = [
        spread("resume", quick, events),
        spread("replay", full, events),
        f"{snapshot.stat().st_size:,} B for {live:,} live segments; {LATER:,} events were written since",
        f"first answer {statistics.median(answers):.3f} s later: the table of all {live:,} segments",
    ]
    ratio = statistics.median(full) / statistics.median(quick)
    return Budget("P5 resume instead of a full replay", ratio, 40.0, True, details, quick, full, count=events)


def _leave_snapshot(config: KafkaClientConfig, size: int, snapshot: Path) -> int:
    """Fill a topic, with a snapshot shortly before its end; return the number of events."""
    workload = generate(size, metadata_partitions=METADATA_PARTITIONS)
    print("topic of P5:", workload.said, flush=True)
    values, partitions = workload.values, workload.metadata_partitions
    publish(config, values[:-LATER], partitions[:-LATER])
    ours.leave_snapshot(config, snapshot)
    publish(config, values[-LATER:], partitions[-LATER:])
    return len(values)


if __name__ == "__main__":
    sys.exit(main())
