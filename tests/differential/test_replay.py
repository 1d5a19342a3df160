# SPDX-License-Identifier: Apache-2.0
"""
Kafka's own classes, the scalar cache and the columnar state make the same of the same values.

The cache answers lookups by leader epoch; the columnar state keeps segments and deletions. Below DELETE_PARTITION_FINISHED it
keeps what is unfinished, where Kafka forgets: there only the cache is compared.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pytest

from airflow_provider_rlmm.core.records.columnar import ColumnarState, decode
from airflow_provider_rlmm.core.records.keys import parse_key
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from tests.differential.answers import ScalarReplay, columnar_answers, without_empty
from tests.differential.kafka_replay import KafkaAnswer, KafkaReplay
from tests.differential.world import EVENTS_PER_ROUND, PROBES, Batch, World, is_comparable
from tests.property.broker_lives import broker_lives
from tests.property.written_topics import Record

BATCH_SIZES = (1, 3, 20, 100, 500, 1000)
CROWDED_TOPICS, CROWDED_SIZES = 6, (4, 8, 12, 16)
LIVES = 2


def test_same_as_kafka(kafka_replay: KafkaReplay, differential_seed: int, differential_round: int) -> None:
    seed = f"{differential_seed}/{differential_round}"
    for batches in (list(round_of(seed)), *crowded_topics_of(seed), *lives_of(seed)):
        compare(kafka_replay, seed, batches)


def compare(kafka_replay: KafkaReplay, seed: str, batches: Sequence[Batch]) -> None:
    difference = first_difference(kafka_replay, batches)
    if difference is None:
        return
    one_by_one = [
        Batch([value], [key], batch.probes)
        for batch in batches
        for value, key in zip(batch.values, batch.keys, strict=True)
    ]
    # Where batches of one value agree, cutting into batches is what goes wrong.
    pytest.fail(f"seed {seed}: {first_difference(kafka_replay, one_by_one) or difference}", pytrace=False)


def round_of(seed: str) -> Iterator[Batch]:
    world = World(seed)
    rng = random.Random(f"{seed}/batches")
    left = EVENTS_PER_ROUND
    while left:
        size = min(left, rng.choice(BATCH_SIZES))
        left -= size
        yield world.batch(size)


def crowded_topics_of(seed: str) -> Iterator[list[Batch]]:
    for number in range(CROWDED_TOPICS):
        world, rng = World(f"{seed}/crowded-{number}", crowded=True), random.Random(f"{seed}/{number}")
        yield [world.batch(rng.choice(CROWDED_SIZES)) for _ in range(rng.randint(1, 3))]


def lives_of(seed: str) -> Iterator[list[Batch]]:
    """Clusters that lived: what all their metadata partitions hold, one after the other."""
    for number in range(LIVES):
        rng = random.Random(f"{seed}/lives-{number}")
        topic = broker_lives(rng.getrandbits(32))
        records = [r for _, _, r in topic.left() if is_of_today(r) and (r.value is None or is_comparable(r.value))]
        probes = [(rng.randrange(6), rng.randrange(150)) for _ in range(PROBES)]
        size = rng.choice(BATCH_SIZES[1:])
        yield [
            Batch([r.value for r in records[at : at + size]], [r.key for r in records[at : at + size]], probes)
            for at in range(0, len(records), size)
        ]


def is_of_today(record: Record) -> bool:
    """Kafka up to 4.4 ends at a null value, whatever its key asks for, and at a value that only comes with a key."""
    if record.value is None:
        return parse_key(record.key or b"") is None
    return record.key is None or record.value[2:3] != b"\1"


def first_difference(kafka_replay: KafkaReplay, batches: Sequence[Batch]) -> str | None:
    kafka_replay.forget()
    scalar = ScalarReplay()
    state = ColumnarState.empty()
    offset = 0
    for number, batch in enumerate(batches):
        kafka = kafka_replay.apply(batch.values, batch.probes)
        outcomes = scalar.apply(batch.values)
        decoded = decode(
            batch.values, keys=batch.keys, offset=range(offset, offset + len(batch.values)), metadata_partition=0
        )
        state, report = state.apply(decoded)
        if number % 5 == 4:
            state = ColumnarState.from_ipc(state.to_ipc())
        different = differences(kafka, outcomes, scalar.answers(batch.probes), "cache")
        different += columnar_differences(kafka, report, offset, columnar_answers(state), scalar.finished)
        if different:
            value = batch.values[-1] if len(batch.values) == 1 else None
            return f"batch {number}, values {offset} to {offset + len(batch.values) - 1}: " + "\n".join(
                [*different, f"the value: {value.hex() if value else value}", str(kafka.thrown)]
            )
        offset += len(batch.values)
    return None


def columnar_differences(
    kafka: KafkaAnswer,
    report: Any,
    offset: int,
    partitions: dict[Any, dict[str, Any]],
    finished: Collection[TopicIdPartition],
) -> list[str]:
    """Compare what a report and a state's tables say, but for user partitions that are finished."""
    found = []
    before = {row for row, outcome in enumerate(kafka.outcomes) if outcome.islower()}
    dropped = {row - offset for row in report.dropped.column("offset").to_pylist()}
    ends = [row - offset for row in report.would_end_consumer.column("offset").to_pylist()]
    thrown = [row for row, outcome in enumerate(kafka.outcomes) if outcome not in "ad"]
    if ends != thrown:
        found.append(f"columnar: {ends} would end a consumer\nKafka: {thrown}")
    if dropped & before != (expected := {row for row in before if kafka.outcomes[row] == "d"}):
        found.append(f"columnar: {sorted(dropped & before)} dropped\nKafka: {sorted(expected)}")
    if len(before) == len(kafka.outcomes) and report.applied != kafka.outcomes.count("a"):
        found.append(f"columnar: {report.applied} applied\nKafka: {kafka.outcomes.count('a')}")
    left_out = {(tip.topic_id.hex, tip.topic, tip.partition) for tip in finished}
    for key in {**partitions, **kafka.partitions}.keys() - left_out:
        for name, nothing in (("deletion", None), ("segments", [])):
            mine, theirs = (answers.get(key, {}).get(name, nothing) for answers in (partitions, kafka.partitions))
            if mine != theirs:
                found.append(f"{name} of {key}: columnar: {mine}\nKafka: {theirs}")
    return found


def differences(kafka: KafkaAnswer, outcomes: str, partitions: dict[Any, dict[str, Any]], who: str) -> list[str]:
    found = []
    if outcomes != kafka.outcomes:
        found.append(f"{who}: {outcomes}\nKafka: {kafka.outcomes}")
    theirs = without_empty(kafka.partitions)
    for key in {**partitions, **theirs}:
        mine = partitions.get(key, {})
        for name, value in theirs.get(key, dict.fromkeys(mine)).items():
            if name != "served" and mine.get(name) != value:
                found.append(f"{name} of {key}: {who}: {mine.get(name)}\nKafka: {value}")
    return found
