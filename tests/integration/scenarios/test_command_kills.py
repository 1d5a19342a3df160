# SPDX-License-Identifier: Apache-2.0
"""``rlmm clean`` in two processes: it, or one of them, is ended at twenty points of its work; the next run goes on."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psutil
import pytest

from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataLogReader
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from dev import tiering
from dev.broker import await_condition
from dev.faults import FaultyKafka
from dev.roots import expected_root_of
from tests.integration.cleaning import Cleaning
from tests.integration.scenarios.orphans import clone_orphans
from tests.integration.scenarios.provoke import METADATA_PARTITIONS, assert_unharmed
from tests.scrub import unfinished_segments

pytestmark = [pytest.mark.integration, pytest.mark.scenarios]

PARTITIONS = 4
SEGMENTS = 30
"""Per partition."""
BATCH = 10
EVENTS_OF_A_BATCH = 4 * BATCH
"""More than a process writes for one: two of each segment, and those of its user partitions."""

EVENTS = PARTITIONS * (2 + 2 * SEGMENTS)
"""What cleaning writes in all, markers not counted."""
SEED = 7
FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
WAYS = ("Ctrl-C", "SIGTERM", "SIGKILL", "SIGTERM of a process", "SIGKILL of a process")


@dataclass(frozen=True)
class Command:
    """
    The command, as somebody types it.

    :param kafka: the cluster.
    :param home: folder of the user.
    """

    kafka: FaultyKafka
    home: Path

    def start(self) -> subprocess.Popen[str]:
        """Start it, with two processes; it leads a group of its own, as it does in a terminal."""
        program = str(Path(sys.executable).with_name("rlmm"))
        options = (
            "--execute", "--cluster-id", self.kafka.cluster_id, "--override", "short_min_absence", "--min-absence-ms", "0",
            "--max-share", "1", "--batch-segments", str(BATCH), "--processes", "2", "--json",
        )  # fmt: skip
        return subprocess.Popen(
            [program, "clean", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
            env={
                **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
                "HOME": str(self.home),
                "RLMM_BOOTSTRAP_SERVER": self.kafka.bootstrap_servers,
                "RLMM_STORAGE_URI": self.kafka.remote_dir.as_uri(),
                "RLMM_EXPECTED_ROOT": expected_root_of(self.kafka.remote_dir),
            },
        )

    def run(self) -> Any:
        """Run it to its end, and return its report; see it end well."""
        with self.start() as process:
            said, errors = process.communicate(timeout=300)
        assert process.returncode == ExitCode.DONE, f"{process.returncode}\n{said}\n{errors}"
        return json.loads(said)


@pytest.fixture
def command(kafka: FaultyKafka, tmp_path: Path) -> Command:
    return Command(kafka, tmp_path)


@pytest.fixture
def log(kafka: FaultyKafka) -> Iterator[KafkaMetadataLogReader]:
    with KafkaMetadataLogReader(KafkaClientConfig({"bootstrap.servers": kafka.bootstrap_servers})) as reader:
        yield reader


def topic_id_in_both(topic: str) -> UUID:
    """Return a topic id whose user partitions are in both metadata partitions, half and half: each process has work."""
    while True:
        topic_id = uuid4()
        tips = [TopicIdPartition(topic_id, topic, partition) for partition in range(PARTITIONS)]
        found = Counter(metadata_partition_for(tip, METADATA_PARTITIONS) for tip in tips)
        if set(found.values()) == {PARTITIONS // METADATA_PARTITIONS}:
            return topic_id


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Return the processes that clean; the one that looks after semaphores does not."""
    try:
        found = psutil.Process(process.pid).children()
        return [child for child in found if not any("resource_tracker" in word for word in child.cmdline())]
    except psutil.NoSuchProcess:
        return []


def written(log: KafkaMetadataLogReader) -> int:
    return sum(log.high_water_marks().values())


def end(way: str, process: subprocess.Popen[str], workers: list[psutil.Process], draw: random.Random) -> None:
    """End the command, or one of its processes, in one of the ways."""
    match way:
        case "Ctrl-C":
            # A terminal sends it to all of them.
            os.killpg(process.pid, signal.SIGINT)
        case "SIGTERM":
            process.terminate()
        case "SIGKILL":
            process.kill()
        case "SIGTERM of a process":
            draw.choice(workers).terminate()
        case _:
            draw.choice(workers).kill()


def ended_at(
    command: Command, log: KafkaMetadataLogReader, point: int, way: str, draw: random.Random
) -> tuple[int, str, int]:
    """
    Start the command and end it once so many events are in the log; return its exit code, what it said, and how many events
    were written from then on, by whoever was left.
    """
    before, workers = written(log), list[psutil.Process]()
    with command.start() as process:
        reached = PARTITIONS + point
        await_condition(
            lambda: process.poll() is not None or written(log) - before >= reached, f"{reached} events", 120, 0.002
        )
        if process.poll() is None:
            workers = workers_of(process)
            end(way, process, workers, draw)
        at = written(log)
        _, errors = process.communicate(timeout=120)
    # Nobody is left: who has lost its parent ends by itself.
    _, alive = psutil.wait_procs(workers, timeout=120)
    assert not alive
    return process.returncode, errors, written(log) - at


def assert_told(way: str, code: int, errors: str) -> bool:
    """See that it said how it ended; tell whether it was ended before its work was done."""
    if code == ExitCode.DONE:
        return False
    match way:
        case "Ctrl-C":
            assert (code, "interrupted" in errors) == (ExitCode.INTERRUPTED, True), errors
        case "SIGTERM":
            assert code == -signal.SIGTERM
        case "SIGKILL":
            assert code == -signal.SIGKILL
        case _:
            ended = "was killed by signal 9" if "SIGKILL" in way else f"ended with exit code {ExitCode.INTERRUPTED:d}"
            assert re.search(rf"rlmm: metadata partition \d: its process {ended}.*run the same command again", errors)
            assert code == ExitCode.NEEDS_A_PERSON
    assert "Traceback" not in errors
    return True


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("way", WAYS)
def test_whoever_ends_the_next_run_ends_what_was_left(
    kafka: FaultyKafka, log: KafkaMetadataLogReader, command: Command, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Four points for each of five ways, twenty in all: after each, one more run leaves nothing behind.

    Protection: a process asks before every batch whether its parent lives (``cli.cleaning_child._with_parent``); without, it
    goes on to its end after the command was killed, with nobody to see it.
    """
    draw = random.Random(SEED)
    model = next(m for m in unfinished_segments(kafka) if isinstance(m, RemoteLogSegmentMetadata))
    left = Counter[str]()
    for point in (1, EVENTS // 8, EVENTS // 4, EVENTS // 2):
        topic = f"{way.replace(' ', '-')}-{point}"
        topic_id = clone_orphans(kafka, model, topic, PARTITIONS, SEGMENTS, topic_id=topic_id_in_both(topic))
        code, errors, more = ended_at(command, log, point, way, draw)
        assert_told(way, code, errors)
        if way in ("SIGTERM", "SIGKILL"):
            # Each of the two ends its batch, and may have been about to begin one.
            assert more <= 2 * 2 * EVENTS_OF_A_BATCH, "a process has gone on without its parent"
        with Cleaning.of(kafka) as cleaning:
            found = cleaning.segment_states(topic_id)
            left += found
            if found:
                assert command.run()["totals"]["needs_person"] == 0
            assert cleaning.segment_states(topic_id) == {}
            assert cleaning.deletions(topic_id) == [FINISHED] * PARTITIONS
        assert tiering.remote_files(kafka, topic_id) == set()
    with capsys.disabled():
        sys.stdout.write(f"\n{way}: found {dict(left)}\n")
    assert left, "nothing was left to do at any point"
    assert_unharmed(kafka)
