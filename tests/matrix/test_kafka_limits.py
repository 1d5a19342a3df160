# SPDX-License-Identifier: Apache-2.0
"""What a newer Kafka's own classes read, beside the pom's and ours: the same, but for the limits that 4.4.0 has set."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_rlmm.core.records.columnar import ErrorCode, decode
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.features.doctor.findings import FindingKind, Severity
from dev import tiering
from dev.broker import METADATA_TOPIC, LocalKafka, await_condition
from tests.differential.kafka_replay import KafkaReplay
from tests.differential.world import World
from tests.integration.kafka_topics import delete_records
from tests.integration.test_doctor import consumers_ended, diagnose, send
from tests.matrix.test_kafka_versions import NEWEST
from tests.record_limits import MOST_TAGS, UPDATE, beyond, tags, within

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


@pytest.mark.parametrize(("version", "ends"), [(None, 0), (NEWEST, 1)])
def test_such_a_record_ends_the_consumer_of_a_newer_broker_until_it_is_recovered(
    version: str | None, ends: int
) -> None:
    with LocalKafka(kafka_version=version) as kafka:
        topic_id = tiering.create_tiered_topic(kafka, "living", 1)
        tiering.produce_until_remote(kafka, "living", 1)
        home = metadata_partition_for(TopicIdPartition(topic_id, "living", 0), kafka.metadata_partitions)
        # Of a topic that is gone: nothing but its number of tagged fields can do harm.
        _, offset = send(kafka, home, serialize(UPDATE)[:-1] + tags(MOST_TAGS + 1))
        _, behind = send(kafka, home, serialize(UPDATE))
        [finding] = [f for f in diagnose(kafka).findings if f.kind is FindingKind.BEYOND_LIMITS]
        assert (finding.severity, finding.metadata_partition, finding.offset) == (Severity.CRITICAL, home, offset)
        if not ends:
            tiering.tiering_alive(kafka, "living")
            assert consumers_ended(kafka) == 0
            return
        await_condition(lambda: consumers_ended(kafka) == 1, "the consumer of the broker has ended", 60)
        kafka.restart()
        await_condition(lambda: consumers_ended(kafka) == 2, "the consumer of the broker has ended again", 60)
        [recovery] = diagnose(kafka).recoveries
        assert recovery.delete_before_offset == offset + 1 == behind
        delete_records(kafka, METADATA_TOPIC, home, recovery.delete_before_offset)
        kafka.restart()
        tiering.create_tiered_topic(kafka, "fresh", 5)
        tiering.tiering_alive(kafka, "fresh")
        assert consumers_ended(kafka) == 2
