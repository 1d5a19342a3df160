# SPDX-License-Identifier: Apache-2.0
"""``rlmm copy`` is killed with SIGKILL in mid-copy, again and again: nothing stays half, nothing is there twice."""

from __future__ import annotations

import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer

from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataLogReader
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.storage.uploads import CHUNK_BYTES
from dev.broker import LocalKafka, await_condition
from tests.integration.copying.copies import segments_of
from tests.integration.copying.copy_command import CopyCommand
from tests.integration.copying.uncopied import Uncopied, finished_ranges
from tests.integration.copying.writing import TIMEOUT_S

pytestmark = [pytest.mark.integration, pytest.mark.copying]

SEGMENT_BYTES = CHUNK_BYTES + CHUNK_BYTES // 8
"""A log is written in two chunks: there is a moment with the first half of its file."""

SEGMENTS = 24
"""More than all the killed runs copy together."""

BYTES_PER_SECOND = 4 * SEGMENT_BYTES
LEASE_MS = 6_000
SETTLED = {S.COPY_SEGMENT_FINISHED, S.DELETE_SEGMENT_FINISHED}

EVENTS = [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]
"""A process is killed as soon as so many of its events are in the metadata topic: of a roll-back, of copies."""

BYTES = [int(share * SEGMENT_BYTES) for share in (0.0001, 0.001, 0.01, 0.1, 0.5, 0.9, 0.95, 1.0, 1.2, 2.0)]
"""Others are killed as soon as so many bytes have reached remote storage."""


def write(kafka: LocalKafka, topic: str) -> None:
    """Write as much as fills the segments, one record a batch."""
    producer = Producer(kafka.client_config(linger_ms=0, batch_num_messages=1, acks="all"))
    values = random.Random(5)
    for number in range((SEGMENTS + 1) * SEGMENT_BYTES // 64_000):
        producer.produce(topic, values.randbytes(64_000), str(number), 0)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


@dataclass(frozen=True)
class Effects:
    """
    What a process does to the world, as seen from outside of it.

    :param kafka: the cluster.
    :param log: its metadata topic.
    :param tip: what is copied.
    """

    kafka: LocalKafka
    log: KafkaMetadataLogReader
    tip: TopicIdPartition

    @property
    def folder(self) -> Path:
        """Where the objects of the user partition lie."""
        return self.kafka.remote_root / f"{self.tip.topic}-{self.tip.partition}-{kafka_uuid_str(self.tip.topic_id)}"

    def events_from_now(self) -> Callable[[], int]:
        """Return what counts the events in the metadata partition from now on."""
        metadata_partition = metadata_partition_for(self.tip, self.log.partition_count)
        before = self.log.high_water_marks()[metadata_partition]
        return lambda: self.log.high_water_marks()[metadata_partition] - before

    def bytes_from_now(self) -> Callable[[], int]:
        """Return what measures by how much the objects have grown: what is taken back first does not count."""
        lowest = self._size()

        def grown() -> int:
            nonlocal lowest
            size = self._size()
            lowest = min(lowest, size)
            return size - lowest

        return grown

    def _size(self) -> int:
        return sum(size for path, size in self.kafka.remote_objects().items() if path.startswith(self.folder.name))

    def left_of(self, segment: RemoteLogSegmentMetadata) -> str:
        """Say how far a copy came."""
        if segment.state is not S.COPY_SEGMENT_STARTED:
            return segment.state.name
        name = f"*-{kafka_uuid_str(segment.remote_log_segment_id.id)}.log"
        log_size = sum(path.stat().st_size for path in self.folder.glob(name))
        if log_size == 0:
            return "announced, no byte of its log"
        return "all of its log" if log_size == segment.segment_size_in_bytes else "half of its log"


def kill_at(count_from_now: Callable[[], Callable[[], int]], wanted: int, command: CopyCommand) -> None:
    """
    Start the command and kill it as soon as it has had so many effects.

    One that ends by itself has met the lease of the one before, and is started again.
    """
    while not killed(command, count_from_now(), wanted):
        pass


def killed(command: CopyCommand, count: Callable[[], int], wanted: int) -> bool:
    with command.start_copying() as process:
        try:
            await_condition(
                lambda: process.poll() is not None or count() >= wanted, f"{wanted} of its effects", 120, 0.001
            )
        finally:
            process.kill()
        said = process.communicate()
    assert process.returncode in (-signal.SIGKILL, ExitCode.UNAVAILABLE), said
    return process.returncode == -signal.SIGKILL


@pytest.fixture
def log(copying_kafka: LocalKafka) -> Iterator[KafkaMetadataLogReader]:
    with KafkaMetadataLogReader(KafkaClientConfig({"bootstrap.servers": copying_kafka.bootstrap_servers})) as reader:
        yield reader


@pytest.mark.timeout(1200)
def test_twenty_kills_leave_nothing_half_and_nothing_twice(
    copying_kafka: LocalKafka,
    log: KafkaMetadataLogReader,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    kafka = copying_kafka
    uncopied = Uncopied.of(
        kafka, tmp_path, lambda topic: write(kafka, topic), {"internal.segment.bytes": str(SEGMENT_BYTES)}
    )
    tip, effects = uncopied.tip, Effects(kafka, log, uncopied.tip)
    options = ("--lease-ms", str(LEASE_MS), "--bytes-per-second", str(BYTES_PER_SECOND))
    command = CopyCommand(kafka, tmp_path, uncopied.snapshot, tip.topic, options)
    left: Counter[str] = Counter()
    for events, size in zip(EVENTS, BYTES, strict=True):
        for count_from_now, wanted in ((effects.events_from_now, events), (effects.bytes_from_now, size)):
            kill_at(count_from_now, wanted, command)
            unsettled = [segment for segment in segments_of(kafka, tip) if segment.state not in SETTLED]
            assert len(unsettled) <= 1
            left.update(effects.left_of(segment) for segment in unsettled)
            assert uncopied.complaints() == []
            kafka.restart()
            assert uncopied.complaints() == []
    record_property("left_by_kills", dict(left))
    with capsys.disabled():
        sys.stdout.write(f"\n{2 * len(EVENTS)} kills left {dict(left)}\n")
    assert left["half of its log"] > 0
    assert sum(left.values()) >= len(EVENTS), "most were killed in mid-copy"
    assert 0 < len(finished_ranges(kafka, tip)) < len(uncopied.expected)

    command.copy_after_the_lease()

    ours = uncopied.check_all_copied()
    assert finished_ranges(kafka, tip) == [(s.start_offset, s.end_offset) for s in ours.segments], "copied twice"
    assert {s.state for s in segments_of(kafka, tip)} == SETTLED
    uncopied.check_brokers_go_on(ours)
