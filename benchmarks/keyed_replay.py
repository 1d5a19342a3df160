# SPDX-License-Identifier: Apache-2.0
"""P13 of docs/benchmarks.md: a log whose records have keys, beside the same history without, each replayed by a first run."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from benchmarks import ours
from benchmarks.keyed import keyed_by_end_offset, keyed_by_state, plain
from benchmarks.measuring import Budget, in_turns, spread
from benchmarks.topic import METADATA_PARTITIONS, TOPIC, create_metadata_topic, publish_records, served_topic
from benchmarks.workload import generate

LEAST_RUNS = 3
"""Runs of each form of the log, at least."""
PLAIN = "plain"
KEYED = {"37-byte keys": keyed_by_state, "text keys": keyed_by_end_offset}
"""How those write the same history who write keys: name → form."""


@dataclass(frozen=True, slots=True)
class _Replay:
    """
    What one replay took.

    :param seconds: from opening the clients to closing them.
    :param cpu_s: s of CPU time.
    :param read_s: s in reads of the log.
    :param live: segments that are not finished.
    """

    seconds: float
    cpu_s: float
    read_s: float
    live: int


@dataclass(frozen=True, slots=True)
class _Log:
    """
    One form of the log, as a topic.

    :param name: of the form.
    :param topic: its name.
    :param size: bytes of keys and values.
    """

    name: str
    topic: str
    size: int


def keyed_beside_plain(size: int, runs: int) -> Iterator[Budget]:
    """
    Replay each form of the log in turns.

    :param size: about how many events.
    :param runs: of each form; :data:`LEAST_RUNS` at least.
    """
    with served_topic() as config:
        logs, events = _leave_logs(config, size)
        works = [partial(_replay, config, log, events) for log in logs]
        # What the first run of a process loads is no form's; and all forms say the same.
        assert len({work().live for work in works}) == 1
        unkeyed, *keyed = zip(logs, in_turns(works, max(runs, LEAST_RUNS)), strict=True)
    for log, taken in keyed:
        details = _details({log: taken, unkeyed[0]: unkeyed[1]}, events)
        ratio = _median(taken, lambda run: run.seconds) / _median(unkeyed[1], lambda run: run.seconds)
        yield Budget(f"P13 replay of a log with {log.name}", ratio, 1.2, False, details)


def _leave_logs(config: KafkaClientConfig, size: int) -> tuple[list[_Log], int]:
    """Fill a topic with each form of the same history; return them, the plain one first, and the number of events."""
    workload = generate(size, metadata_partitions=METADATA_PARTITIONS)
    print("topics of P13:", workload.said, flush=True)
    logs = []
    for number, (name, form) in enumerate({PLAIN: plain, **KEYED}.items()):
        records, topic = form(workload.values), f"{TOPIC}-{number}"
        create_metadata_topic(config, topic)
        publish_records(config, topic, records, workload.metadata_partitions)
        logs.append(_Log(name, topic, records.size))
    return logs, len(workload.values)


def _replay(config: KafkaClientConfig, log: _Log, events: int) -> _Replay:
    run = ours.replay_from_nothing(config, log.topic)
    assert run.records == events
    assert not run.topic_state.quarantined, run.topic_state.quarantined[0]
    return _Replay(run.seconds, run.cpu_s, run.read_s, run.topic_state.state.segments.num_rows)


def _details(runs: Mapping[_Log, Sequence[_Replay]], events: int) -> list[str]:
    lines = []
    for log, taken in runs.items():
        cpu_s, read_s = (_median(taken, what) for what in (lambda run: run.cpu_s, lambda run: run.read_s))
        lines.append(spread(log.name, [run.seconds for run in taken], events))
        lines.append(f"  of it {read_s:.2f} s in reads; {cpu_s:.2f} s of CPU time; {log.size:,} B of keys and values")
    return lines


def _median(runs: Sequence[_Replay], what: Callable[[_Replay], float]) -> float:
    return statistics.median(what(run) for run in runs)
