# SPDX-License-Identifier: Apache-2.0
"""What a newer Kafka's own classes read, beside the pom's and ours: the same, but for the limits that 4.4.0 has set."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_rlmm.core.records.columnar import ErrorCode, decode
from tests.differential.kafka_replay import KafkaReplay
from tests.differential.world import World
from tests.matrix.test_kafka_versions import NEWEST
from tests.record_limits import beyond, within

pytestmark = pytest.mark.matrix

SEEDS, BATCHES, VALUES = 8, 4, 500


@pytest.fixture(scope="module")
def older() -> Iterator[KafkaReplay]:
    with KafkaReplay() as peer:
        yield peer


@pytest.fixture(scope="module")
def newer() -> Iterator[KafkaReplay]:
    with KafkaReplay(NEWEST) as peer:
        yield peer


def test_both_make_the_same_of_the_same_values(older: KafkaReplay, newer: KafkaReplay) -> None:
    for seed in range(SEEDS):
        world = World(f"kafka-limits/{seed}")
        for _ in range(BATCHES):
            batch = world.batch(VALUES)
            answers = [kafka.apply(batch.values, batch.probes) for kafka in (older, newer)]
            assert answers[0].outcomes == answers[1].outcomes, seed
            assert answers[0].partitions == answers[1].partitions, seed
        older.forget()
        newer.forget()


def test_only_beyond_its_limits_the_newer_one_throws(older: KafkaReplay, newer: KafkaReplay) -> None:
    for values, code, thrown in ((within(), ErrorCode.GOOD, "newer"), (beyond(), ErrorCode.BEYOND_LIMITS, "r")):
        for what, value in values:
            older.forget()
            newer.forget()
            read, outcome = older.apply([value], []).outcomes, newer.apply([value], []).outcomes
            assert read in "adt", what
            assert outcome == (read if thrown == "newer" else thrown), what
            assert decode([value]).column("error_code").to_pylist() == [code], what
