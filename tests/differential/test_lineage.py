# SPDX-License-Identifier: Apache-2.0
"""Lineage and look-ups by leader epoch, compared with Kafka's own classes on random inputs, extremes among them."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import DamagedObjectError
from airflow_provider_rlmm.core.log.known_segments import KnownSegments
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.lineage import (
    LeaderEpochCheckpoint,
    find_highest_remote_offset,
    is_remote_segment_within_leader_epochs,
)
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.features.reading.reader import RemoteLogReader
from dev.peers import SHORT_LIFE, peer_command
from tests.differential.answers import ScalarReplay
from tests.differential.kafka_replay import KafkaReplay
from tests.differential.world import World
from tests.examples import examples

INPUTS = examples(100_000)
MAX_EPOCH, MAX_OFFSET = 2**31 - 1, 2**63 - 1
TIP = TopicIdPartition(UUID(int=1), "orders", 0)
LOCATION = "orders-0/leader-epoch-checkpoint"

Epochs = list[tuple[int, int]]


def ask(lines: Sequence[str]) -> list[str]:
    """Return Kafka's answer to each line, see ``LineagePeer``."""
    command = peer_command("LineagePeer", options=SHORT_LIFE)
    answers = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    found = answers.stdout.splitlines()
    assert len(found) == len(lines)
    return found


class Inputs:
    """Random lineages, few epochs and offsets, so that they collide."""

    def __init__(self, seed: object) -> None:
        self.rng = random.Random(f"lineage {seed}")

    def epoch(self) -> int:
        rng = self.rng
        return rng.choice((0, 1, MAX_EPOCH - 1, MAX_EPOCH)) if rng.random() < 0.15 else rng.randrange(8)

    def offset(self) -> int:
        rng = self.rng
        return rng.choice((0, 1, MAX_OFFSET - 1, MAX_OFFSET)) if rng.random() < 0.15 else rng.randrange(40)

    def any_offset(self) -> int:
        return self.rng.choice((-1, -(2**63))) if self.rng.random() < 0.05 else self.offset()

    def lineage(self) -> Epochs:
        """Epochs and offsets ascend, as a broker's cache keeps them."""
        count = self.rng.choice((1, 2, 3, 4, 6))
        epochs, offsets = ({make() for _ in range(count)} for make in (self.epoch, self.offset))
        return list(zip(sorted(epochs), sorted(offsets), strict=False))

    def epochs_of_segment(self, lineage: Epochs) -> Epochs:
        """Some of a lineage's, and some of others; offsets in any order."""
        rng = self.rng
        some = lineage[rng.randrange(len(lineage)) :][: rng.randint(1, 4)]
        if rng.random() < 0.6:
            first = (some[0][0], some[0][1] + rng.choice((0, 0, 1, 3)))
            some = [first, *some[1:]]
        if rng.random() < 0.5:
            some = [*some, (self.epoch(), rng.choice((self.any_offset(), some[-1][1])))]
        return sorted({epoch: min(offset, MAX_OFFSET) for epoch, offset in some}.items())


def words(epochs: Epochs) -> str:
    return " ".join([str(len(epochs)), *(f"{epoch} {offset}" for epoch, offset in epochs)])


def test_a_segment_lies_within_a_lineage_where_kafka_says_so(differential_seed: int) -> None:
    inputs = Inputs(differential_seed)
    cases = []
    for _ in range(INPUTS):
        lineage = inputs.lineage()
        behind = lineage[-1][1] + inputs.rng.choice((0, 1, 5))
        near = inputs.rng.choice(
            [inputs.offset(), min(behind, MAX_OFFSET), *(max(start - 1, 0) for _, start in lineage)]
        )
        log_end = min(near + inputs.rng.choice((0, 1, 9)), MAX_OFFSET)
        cases.append((inputs.epochs_of_segment(lineage), lineage, near, log_end))
    answers = ask([f"w {words(of)} {words(lineage)} {end} {log_end}" for of, lineage, end, log_end in cases])
    ours = [
        str(
            is_remote_segment_within_leader_epochs(segment(of, end), log_end, LeaderEpochCheckpoint(tuple(lineage)))
        ).lower()
        for of, lineage, end, log_end in cases
    ]
    differ = [(case, a, o) for case, a, o in zip(cases, answers, ours, strict=True) if a != o]
    assert differ == []
    assert min(ours.count("true"), ours.count("false")) > INPUTS // 10


def segment(leader_epochs: Epochs, end_offset: int) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        RemoteLogSegmentId(TIP, UUID(int=2)), 0, end_offset, 0, 0, 0, 1, None, RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        tuple(leader_epochs),
    )  # fmt: skip


def test_a_lineage_is_cut_and_asked_as_kafkas_cache_is(differential_seed: int) -> None:
    inputs = Inputs(differential_seed)
    lines, ours = [], []
    for _ in range(INPUTS):
        epochs = inputs.lineage() if inputs.rng.random() < 0.98 else []
        start, end, offset = (inputs.any_offset() for _ in range(3))
        epoch, log_end = inputs.rng.choice((-1, inputs.epoch())), inputs.offset()
        lines.append(f"c {words(epochs)} {start} {end} {offset} {epoch} {log_end}")
        lineage = LeaderEpochCheckpoint(tuple(epochs))
        found = lineage.epoch_for_offset(offset)
        cut = (lineage.truncate_from_start(start), lineage.truncate_from_end(end), lineage.in_range(start, end))
        texts = [c.to_text().encode().hex() for c in cut]
        ours.append(
            " ".join([*texts, "-" if found is None else str(found), *map(str, lineage.end_offset_for(epoch, log_end))])
        )
    differ = [(line, a, o) for line, a, o in zip(lines, ask(lines), ours, strict=True) if a != o]
    assert differ == []


def test_the_highest_remote_offset_is_kafkas(differential_seed: int) -> None:
    inputs = Inputs(differential_seed)
    lines, ours = [], []
    for _ in range(INPUTS):
        epochs = inputs.lineage()
        highest = {epoch: inputs.offset() for epoch, _ in epochs if inputs.rng.random() < 0.4}
        if inputs.rng.random() < 0.3:
            highest[inputs.epoch()] = inputs.offset()
        log_end = inputs.offset()
        lines.append(f"h {words(epochs)} {words(sorted(highest.items()))} {log_end}")
        found = find_highest_remote_offset(LeaderEpochCheckpoint(tuple(epochs)), highest.get, log_end)
        # Kafka says -1 and -1 where nothing is remote.
        ours.append("{} {}".format(*(found or (-1, -1))))
    differ = [(line, a, o) for line, a, o in zip(lines, ask(lines), ours, strict=True) if a != o]
    assert differ == []


def test_a_checkpoint_that_we_read_says_the_same_to_kafka(differential_seed: int) -> None:
    inputs = Inputs(differential_seed)
    rng = inputs.rng
    contents = []
    for _ in range(INPUTS // 10):
        text = LeaderEpochCheckpoint(tuple(inputs.lineage())).to_text().encode()
        at = rng.randrange(len(text))
        damaged = [text[:at], text[:at] + bytes([rng.choice(b"0189 -\n\rx")]) + text[at + rng.choice((0, 1)) :]]
        contents.append(text if rng.random() < 0.3 else rng.choice(damaged))
    contents = [content for content in contents if content]
    read = 0
    for content, answer in zip(contents, ask([f"r {content.hex()}" for content in contents]), strict=True):
        try:
            ours = LeaderEpochCheckpoint.parse(content, location=LOCATION)
        except DamagedObjectError:
            # Kafka mends what does not ascend when it loads it; to us that is damage.
            continue
        assert ours.to_text().encode().hex() == answer, content
        read += 1
    assert read > len(contents) // 4


@pytest.mark.parametrize("part", range(20))
def test_the_segment_that_serves_an_offset_is_kafkas(
    part: int, differential_seed: int, kafka_replay: KafkaReplay
) -> None:
    """5,000 look-ups each, in the caches after random events."""
    kafka_replay.forget()
    world, ours = World(f"look-ups {differential_seed} {part}"), ScalarReplay()
    rng = random.Random(f"{differential_seed} {part}")
    compared = 0
    while compared < INPUTS // 20:
        batch = world.batch(150)
        epochs = sorted({epoch for epoch, _ in batch.probes})
        probes = [*batch.probes, *((rng.choice(epochs), rng.randrange(310)) for _ in range(400))]
        answer = kafka_replay.apply(batch.values, probes)
        ours.apply(batch.values)
        reader = RemoteLogReader(KnownSegments(ours.caches), InMemoryRemoteStorageManager(LocalTieredStorageLayout()))
        for tip in ours.caches:
            theirs = answer.partitions[tip.topic_id.hex, tip.topic, tip.partition]["found"]
            found = [reader.fetch_remote_log_segment_metadata(tip, epoch, offset) for epoch, offset in probes]
            assert [None if m is None else m.remote_log_segment_id.id.hex for m in found] == theirs
            compared += len(probes)
