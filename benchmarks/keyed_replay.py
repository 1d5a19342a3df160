# SPDX-License-Identifier: Apache-2.0
"""P13 of docs/benchmarks.md: a log whose records have keys, beside the same history without, each read by a first run."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from benchmarks import ours
from benchmarks.keyed import keyed_by_end_offset, keyed_by_state, plain
from benchmarks.measuring import RLMM, Budget, Effort, beside, in_turns, process_effort, spread
from benchmarks.topic import METADATA_PARTITIONS, TOPIC, create_metadata_topic, publish_records, served_topic
from benchmarks.workload import generate

LEAST_RUNS = 3
"""Runs of each form of the log, at least."""
BUDGET = 1.2
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
    Read each form of the log in turns: by a command of its own, and by the replay that this consists of mostly.

    :param size: about how many events.
    :param runs: of each form; :data:`LEAST_RUNS` at least.
    """
    runs = max(runs, LEAST_RUNS)
    with served_topic() as config:
        logs, events = _leave_logs(config, size)
        commands = in_turns([partial(_command, config, log) for log in logs], runs)
        replays = _replayed(config, logs, events, runs)
    for log, command, replay in list(zip(logs, commands, replays, strict=True))[1:]:
        details = _told({log: command, logs[0]: commands[0]}, events)
        yield beside(f"P13 rlmm orphans, {log.name}", *_seconds(command, commands[0]), BUDGET, details, events)
        details = _details({log: replay, logs[0]: replays[0]}, events)
        yield beside(f"P13 of it, the replay, {log.name}", *_seconds(replay, replays[0]), BUDGET, details, events)


def _command(config: KafkaClientConfig, log: _Log) -> Effort:
    """Run a command that has read nothing before, from the start of its process to its end."""
    with tempfile.TemporaryDirectory(prefix="rlmm-bench-") as folder:
        # People may have a file of settings: an empty one here.
        settings = Path(folder, "settings.toml")
        settings.touch()
        options = {
            "--bootstrap-server": config.bootstrap_servers,
            "--metadata-topic": log.topic,
            "--work-dir": str(Path(folder, "work")),
            "--config": str(settings),
        }
        flat = [part for option in options.items() for part in option]
        # One in a hundred segments has an irregular history: of some the log tells no size, which needs a person.
        return process_effort([RLMM, "orphans", *flat, "--json"], expected=4)


def _replayed(config: KafkaClientConfig, logs: Sequence[_Log], events: int, runs: int) -> list[list[_Replay]]:
    works = [partial(_replay, config, log, events) for log in logs]
    # What the first run of a process loads is no form's; and all forms say the same.
    assert len({work().live for work in works}) == 1
    return in_turns(works, runs)


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


def _told(runs: Mapping[_Log, Sequence[Effort]], events: int) -> list[str]:
    return [
        f"{spread(log.name, [run.seconds for run in taken], events)}; "
        f"{statistics.median(run.cpu_seconds for run in taken):.2f} s of CPU time"
        for log, taken in runs.items()
    ]


def _details(runs: Mapping[_Log, Sequence[_Replay]], events: int) -> list[str]:
    lines = []
    for log, taken in runs.items():
        cpu_s, read_s = (_median(taken, what) for what in (lambda run: run.cpu_s, lambda run: run.read_s))
        lines.append(spread(log.name, [run.seconds for run in taken], events))
        lines.append(f"  of it {read_s:.2f} s in reads; {cpu_s:.2f} s of CPU time; {log.size:,} B of keys and values")
    return lines


def _median(runs: Sequence[_Replay], what: Callable[[_Replay], float]) -> float:
    return statistics.median(what(run) for run in runs)


def _seconds(*sides: Sequence[Effort | _Replay]) -> list[list[float]]:
    return [[run.seconds for run in runs] for runs in sides]
