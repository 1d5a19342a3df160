# SPDX-License-Identifier: Apache-2.0
"""Kafka's own classes, the scalar cache and the columnar state make the same of the same values."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from airflow_provider_rlmm.metadata.columnar import ColumnarState, decode
from tests.differential.answers import ScalarReplay, columnar_answers, lookup_answers, without_empty
from tests.differential.kafka_replay import KafkaAnswer, KafkaReplay, Probe
from tests.differential.world import EVENTS_PER_ROUND, Batch, World

BATCH_SIZES = (1, 3, 20, 100, 500, 1000)
CROWDED_TOPICS, CROWDED_SIZES = 6, (4, 8, 12, 16)


def test_same_as_kafka(kafka_replay: KafkaReplay, differential_seed: int, differential_round: int) -> None:
    seed = f"{differential_seed}/{differential_round}"
    for batches in (list(round_of(seed)), *crowded_topics_of(seed)):
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
        different = differences(kafka, outcomes, scalar.answers(batch.probes), "cache") + differences(
            kafka, columnar_outcomes(report, offset), columnar_answers(state, batch.probes), "columnar"
        )
        different += lookup_differences(kafka, state, batch.probes)
        if different:
            value = batch.values[-1] if len(batch.values) == 1 else None
            return f"batch {number}, values {offset} to {offset + len(batch.values) - 1}: " + "\n".join(
                [*different, f"the value: {value.hex() if value else value}", str(kafka.thrown)]
            )
        offset += len(batch.values)
    return None


def lookup_differences(kafka: KafkaAnswer, state: ColumnarState, probes: Sequence[Probe]) -> list[str]:
    """A state's lookups say of a deletion what state it is in, no more."""
    theirs = {
        key: {**value, "deletion": value["deletion"] and value["deletion"][0]}
        for key, value in kafka.partitions.items()
    }
    expected = KafkaAnswer(kafka.outcomes, kafka.thrown, theirs)
    return differences(expected, kafka.outcomes, lookup_answers(state, probes), "lookups")


def columnar_outcomes(report: Any, offset: int) -> dict[str, Any]:
    """What a report says, to be compared with :func:`outcomes_of`; a row that is there twice is seen."""
    return {
        "applied": report.applied,
        "dropped": [row - offset for row in report.dropped.column("offset").to_pylist()],
        "would_end_consumer": [row - offset for row in report.would_end_consumer.column("offset").to_pylist()],
    }


def outcomes_of(outcomes: str) -> dict[str, Any]:
    return {
        "applied": sum(outcome in "aA" for outcome in outcomes),
        "dropped": [row for row, outcome in enumerate(outcomes) if outcome in "dD"],
        "would_end_consumer": [row for row, outcome in enumerate(outcomes) if outcome not in "ad"],
    }


def differences(kafka: KafkaAnswer, outcomes: Any, partitions: dict[Any, dict[str, Any]], who: str) -> list[str]:
    found = []
    expected: Any = kafka.outcomes if isinstance(outcomes, str) else outcomes_of(kafka.outcomes)
    if outcomes != expected:
        found.append(f"{who}: {outcomes}\nKafka: {expected}")
    theirs = without_empty(kafka.partitions)
    for key in {**partitions, **theirs}:
        mine = partitions.get(key, {})
        for name, value in theirs.get(key, dict.fromkeys(mine)).items():
            if name != "served" and mine.get(name) != value:
                found.append(f"{name} of {key}: {who}: {mine.get(name)}\nKafka: {value}")
    return found
