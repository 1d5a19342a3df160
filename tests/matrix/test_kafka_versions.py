# SPDX-License-Identifier: Apache-2.0
"""Brokers of several Kafka versions: their records are read, their orphans cleaned, and they live on with what we write."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.log.broker_versions import SETTINGS_SINCE, BrokerVersion, version_of
from airflow_provider_rlmm.core.log.copy_lag import CopyLag
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.records.records import (
    RemoteLogMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    kafka_uuid_str,
)
from airflow_provider_rlmm.core.records.serde import deserialize, serialize
from dev import POM, formatter, tiering
from dev.broker import LocalKafka, await_condition
from tests.integration.cleaning import Cleaning
from tests.integration.copying.adopting import check_a_broker_goes_on_from_our_copies
from tests.integration.copying.writing import alter_topic
from tests.integration.kafka_topics import config_of
from tests.scrub import scrub
from tests.unit.core.records.recorded import parse_formatted

pytestmark = [pytest.mark.matrix, pytest.mark.integration]

NEWEST = "4.4.0"
VERSIONS = ["3.9.2", "4.0.2", "4.1.2", "4.2.1", None, NEWEST]
"""
The newest of each line that came out with ``LocalTieredStorage``; none: the one of ``dev/pom.xml``, of all other tests. The
newest of all borrows the one of that.
"""
KNOWS_EMPTY_TRANSACTION_INDEXES = 4
"""Major version since which a segment's record says whether its transaction index is empty."""
PARTITIONS, SEGMENTS = 3, 4


@dataclass(frozen=True)
class Cleaned:
    """A broker whose orphans were cleaned, and which was restarted afterwards."""

    version: str | None
    kafka: LocalKafka
    orphans: set[str]
    living: set[str]
    gone: UUID
    totals: dict[str, Any]

    def objects(self) -> set[str]:
        return set(tiering.remote_listing(self.kafka))


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda version: version or "pom")
def cleaned(request: pytest.FixtureRequest) -> Iterator[Cleaned]:
    """Scenario B: the broker dies while it deletes a topic. Marker, planner and cleaner delete what it left behind."""
    with LocalKafka(kafka_version=request.param) as kafka:
        alive = tiering.create_tiered_topic(kafka, "orders", 2)
        gone = tiering.create_tiered_topic(kafka, "clickstream", PARTITIONS)
        tiering.produce_until_remote(kafka, "orders", 2)
        tiering.produce_until_remote(kafka, "clickstream", SEGMENTS)
        tiering.provoke_scenario_b(kafka, "clickstream")
        orphans, living = (tiering.remote_files(kafka, topic_id) for topic_id in (gone, alive))
        with Cleaning.of(kafka) as cleaning:
            cleaning.mark()
            totals = cleaning.clean()
        kafka.restart()
        yield Cleaned(request.param, kafka, orphans, living, gone, totals)


def test_all_orphans_are_deleted_and_nothing_else(cleaned: Cleaned) -> None:
    assert cleaned.orphans
    assert cleaned.living
    assert cleaned.objects() == cleaned.living
    assert (cleaned.totals["partitions_finished"], cleaned.totals["segments_deleted"]) == (
        PARTITIONS,
        PARTITIONS * SEGMENTS,
    )
    assert (cleaned.totals["segments_left"], cleaned.totals["reasons"]) == (0, [])
    with Cleaning.of(cleaned.kafka) as cleaning:
        assert cleaning.segment_states(cleaned.gone) == Counter()


def test_its_version_is_told_by_the_settings_that_it_lists(cleaned: Cleaned) -> None:
    (listed,) = KafkaClusterTopics(config_of(cleaned.kafka)).broker_setting_names().values()
    (of_the_pom,) = re.findall("<kafka.version>(.+)</kafka.version>", POM.read_text())
    running = tuple(map(int, (cleaned.version or of_the_pom).split(".")))[:2]
    newest = max(version for version in SETTINGS_SINCE.values() if version <= running)
    below = min((version for version in SETTINGS_SINCE.values() if version > running), default=None)
    assert version_of(listed) == BrokerVersion(newest, below)


def test_the_restarted_broker_tiers_on(cleaned: Cleaned) -> None:
    tiering.tiering_alive(cleaned.kafka, "orders")
    assert scrub(cleaned.kafka) == []


def test_the_newest_goes_on_from_our_copies_of_its_disk(tmp_path: Path) -> None:
    check_a_broker_goes_on_from_our_copies(tmp_path, NEWEST)


def test_every_record_means_the_same_to_this_kafka_and_to_us(cleaned: Cleaned) -> None:
    lines = formatter.formatter_lines(cleaned.kafka)
    with Cleaning.of(cleaned.kafka) as cleaning:
        log, ends = cleaning.log, cleaning.log.high_water_marks()
        values = [
            value
            for partition in range(log.partition_count)
            for batch in log.read(partition, 0, ends[partition])
            for value in batch.column("value").to_pylist()
        ]
    events = [deserialize(value) for value in values]
    assert len(lines) == len(events)
    assert {type(event) for event in events} == {
        RemoteLogSegmentMetadata,
        RemoteLogSegmentMetadataUpdate,
        RemotePartitionDeleteMetadata,
    }
    knows = cleaned.version is None or int(cleaned.version.partition(".")[0]) >= KNOWS_EMPTY_TRANSACTION_INDEXES
    for line, event, value in zip(lines, events, values, strict=True):
        assert serialize(event) == value
        check_printed(line, event, transaction_index=knows)


def test_a_copy_lag_is_told_where_brokers_know_one_and_keeps_segments_back(cleaned: Cleaned) -> None:
    kafka, topics = cleaned.kafka, KafkaClusterTopics(config_of(cleaned.kafka))
    assert topics.copy_lags(["orders"]) == {}
    if cleaned.version != NEWEST:
        return
    late = {"remote.copy.lag.ms": "3600000", "remote.copy.lag.bytes": "-1", "local.retention.ms": "7200000"}
    topic_id = tiering.create_tiered_topic(kafka, "late", 1, **late)
    tiering.produce(kafka, "late", {0: 3 * tiering.RECORDS_PER_SEGMENT})
    # What is copied at once, and began later, shows that there was time to copy it.
    tiering.tiering_alive(kafka, "orders")
    assert len(list((kafka.log_dir / "late-0").glob("*.log"))) > 1
    assert not tiering.remote_files(kafka, topic_id)
    assert topics.copy_lags(["orders", "late"]) == {"late": CopyLag(3_600_000, -1)}
    alter_topic(kafka.bootstrap_servers, "late", **{"remote.copy.lag.ms": "0"})
    await_condition(lambda: tiering.remote_files(kafka, topic_id), "the topic is copied once it has no lag", 60)
    assert topics.copy_lags(["late"]) == {}


def check_printed(line: str, event: RemoteLogMetadata, *, transaction_index: bool) -> None:
    """Kafka's formatter prints what the event says; what it does not print it does not know."""
    if isinstance(event, RemotePartitionDeleteMetadata):
        tip = event.topic_id_partition
        name = f"{kafka_uuid_str(tip.topic_id)}:{tip.topic}-{tip.partition}"
        said = (f"topicPartition={name}, state={event.state.name}, eventTimestampMs={event.event_timestamp_ms}, ",)
        assert all(words in line for words in (*said, f"brokerId={event.broker_id}")), line
        return
    assert isinstance(event, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate)
    if not transaction_index and isinstance(event, RemoteLogSegmentMetadata):
        assert "txnIdxEmpty" not in line
        assert event.txn_idx_empty is False
        line = line.removesuffix("}") + ", txnIdxEmpty=false}"
    printed = parse_formatted(line)
    said_of_both = ("state", "broker_id", "event_timestamp_ms")
    of_a_segment = ("start_offset", "end_offset", "max_timestamp_ms", "segment_size_in_bytes", "txn_idx_empty")
    names = said_of_both + (of_a_segment if isinstance(event, RemoteLogSegmentMetadata) else ())
    assert {name: printed[name] for name in names} == {name: getattr(event, name) for name in names}
    segment = event.remote_log_segment_id
    assert (printed["topic"], printed["partition"], printed["segment_id"]) == (
        segment.topic_id_partition.topic,
        segment.topic_id_partition.partition,
        segment.id.bytes,
    )
    if isinstance(event, RemoteLogSegmentMetadata):
        assert tuple(printed["segment_leader_epochs"]) == tuple(event.segment_leader_epochs)
