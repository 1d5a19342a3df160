# SPDX-License-Identifier: Apache-2.0
"""Every rule of a snapshot on a real broker, one that is restarted, killed or loses its data included."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka.admin import NewPartitions

from airflow_provider_rlmm.core.base.errors import EventLogUnavailableError
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.core.log.snapshot_file import SnapshotFile
from airflow_provider_rlmm.core.log.topic_state import Progress, TopicState
from airflow_provider_rlmm.core.records.lost_records import HistoryGap
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.records.serde import serialize
from dev.broker import LocalKafka, await_condition
from tests.integration.kafka_topics import TIMEOUT_S, admin_of, config_of, create_topic, delete_records, delete_topic
from tests.unit.core.records.events import copied, deleting, started
from tests.unit.library.topics import tables

pytestmark = [pytest.mark.integration, pytest.mark.manager]

PARTITIONS = 2
SEGMENTS = 40
TIPS = [TopicIdPartition(UUID(int=5), "orders", n) for n in range(6)]


@pytest.fixture(scope="module")
def mortal() -> Iterator[LocalKafka]:
    """A broker that may be killed; each test makes its own topic."""
    with LocalKafka() as broker:
        yield broker


class Topic:
    """A topic that holds what a metadata topic holds, garbage included, and who replays it."""

    def __init__(self, kafka: LocalKafka, path: Path) -> None:
        self.kafka, self.uri = kafka, (path / "snapshot").as_uri()
        self.name = create_topic(kafka, PARTITIONS)
        self.config = config_of(kafka)
        self.topics = KafkaClusterTopics(self.config, self.name)

    def await_led(self, partitions: int = PARTITIONS) -> None:
        """A broker that has just started leads its partitions a moment later."""
        await_condition(
            lambda: len(self.topics.log_start_offsets({self.name: partitions})) == partitions,
            f"{self.name} is led",
            TIMEOUT_S,
        )

    def log(self) -> KafkaMetadataEventLog:
        return KafkaMetadataEventLog(self.config, self.name, request_timeout_s=10)

    def fill(self, first: int, count: int = SEGMENTS) -> None:
        """Copies of some segments per user partition, with a record that nobody can read in each metadata partition."""
        records = [(p, b"garbage %d" % p) for p in range(PARTITIONS)]
        for tip in TIPS:
            for number in range(first, first + count):
                begin = started(number, 100 * number, 100 * number + 99, partition=tip)
                home = metadata_partition_for(tip, PARTITIONS)
                records += [(home, serialize(event)) for event in (begin, copied(number, tip))]
        with self.log() as log:
            log.publish(records)

    def state(self, **options: Any) -> TopicState:
        return TopicState(self.log(), self.topics, **options)

    def replayed(self) -> TopicState:
        state = self.state()
        state.advance()
        return state

    def save(self) -> TopicState:
        state = self.replayed()
        SnapshotFile(self.uri).write(state.snapshot())
        return state

    def resume(self) -> TopicState:
        return TopicState.resume(SnapshotFile(self.uri), self.log(), self.topics)


@pytest.fixture
def topic(mortal: LocalKafka, tmp_path: Path) -> Topic:
    topic = Topic(mortal, tmp_path)
    topic.fill(1)
    return topic


def assert_replayed_whole(topic: Topic, refusal: str) -> None:
    """The snapshot is refused with this reason, and a full replay follows."""
    state = topic.resume()
    assert refusal in (state.refusal or "")
    assert state.next_offsets == dict.fromkeys(state.next_offsets, 0)
    state.advance()
    assert tables(state.state) == tables(topic.replayed().state)


def assert_history_is_incomplete(topic: Topic, begin: int, of: set[int]) -> None:
    """The records of metadata partition 0 below an offset are missing, and what is left of it names these partitions."""
    state = topic.resume()
    state.advance()
    assert state.gaps == (HistoryGap(0, 0, begin),)
    assert set(state.incomplete_history().column("partition").to_pylist()) == of


def test_a_restarted_broker_is_read_on_at_the_next_offset(topic: Topic) -> None:
    saved = topic.save()
    topic.kafka.restart()
    topic.await_led()
    topic.fill(1000, 3)
    state = topic.resume()
    assert (state.refusal, state.next_offsets) == (None, saved.next_offsets)
    seen: list[Progress] = []
    state.advance(seen.append)
    assert seen[-1].records == PARTITIONS + len(TIPS) * 3 * 2
    assert tables(state.state) == tables(topic.replayed().state)


def test_a_broker_killed_in_the_middle_of_a_replay(topic: Topic) -> None:
    # One read is one batch of what the consumer has at that moment: more records than it prefetches.
    big = deleting(1, TIPS[0])
    home = metadata_partition_for(TIPS[0], PARTITIONS)
    with topic.log() as log:
        log.publish([(home, serialize(replace(big, custom_metadata=bytes(10_000)))) for _ in range(2_000)])
        config = config_of(topic.kafka, **{"queued.min.messages": 1, "fetch.message.max.bytes": 100_000})
    slow = KafkaMetadataEventLog(config, topic.name, request_timeout_s=3)
    state = TopicState(slow, topic.topics, chunk_rows=1)

    def kill(progress: Progress) -> None:
        if topic.kafka.alive and state.next_offsets[home] > 100:
            # Its identity cannot be asked for any more afterwards.
            SnapshotFile(topic.uri).write(state.snapshot())
            topic.kafka.kill()

    with pytest.raises(EventLogUnavailableError):
        state.advance(kill)
    assert not topic.kafka.alive
    topic.kafka.start()
    topic.await_led()
    resumed = topic.resume()
    assert resumed.refusal is None
    assert 100 < resumed.next_offsets[home] < resumed._log.high_water_marks()[home]
    whole = topic.replayed()
    for interrupted in (resumed, state):
        interrupted.advance()
        assert tables(interrupted.state) == tables(whole.state)
        assert interrupted.next_offsets == whole.next_offsets


def test_a_damaged_one_and_one_of_another_version(topic: Topic) -> None:
    topic.save()
    path = Path(topic.uri.removeprefix("file://"))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert_replayed_whole(topic, "corrupt")
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert_replayed_whole(topic, "checksum")
    path.write_bytes(content[:8] + b"\0\0\0\x63" + content[12:])
    assert_replayed_whole(topic, "of version 99")


def test_a_topic_deleted_and_made_again(topic: Topic) -> None:
    topic.save()
    delete_topic(topic.kafka, topic.name)
    create_topic(topic.kafka, PARTITIONS, name=topic.name)
    topic.fill(1)
    assert_replayed_whole(topic, "it is of topic id")


def test_a_topic_that_got_more_partitions(topic: Topic) -> None:
    topic.save()
    admin = admin_of(topic.kafka)
    admin.create_partitions([NewPartitions(topic.name, PARTITIONS + 1)])[topic.name].result(TIMEOUT_S)
    topic.await_led(PARTITIONS + 1)
    assert_replayed_whole(topic, f"it is of partition count {PARTITIONS}")


def test_a_log_that_has_lost_its_records(topic: Topic) -> None:
    topic.save()
    topic.kafka.stop()
    shutil.rmtree(topic.kafka.log_dir / f"{topic.name}-0")
    topic.kafka.start()
    topic.await_led()
    assert_replayed_whole(topic, "metadata partition 0: its offset")


def test_another_cluster(topic: Topic) -> None:
    topic.save()
    topic.kafka.stop()
    topic.kafka.wipe()
    topic.kafka.start()
    create_topic(topic.kafka, PARTITIONS, name=topic.name)
    topic.fill(1)
    assert_replayed_whole(topic, "it is of cluster")


def test_records_deleted_since_the_snapshot_are_incomplete_history(topic: Topic) -> None:
    saved = topic.save()
    topic.fill(1000, 3)
    begin = saved.next_offsets[0] + 2
    delete_records(topic.kafka, topic.name, 0, begin)
    assert_replayed_whole(topic, f"it was read up to offset {saved.next_offsets[0]}, and begins at {begin} now")
    assert_history_is_incomplete(
        topic, begin, {t.partition for t in TIPS if metadata_partition_for(t, PARTITIONS) == 0}
    )


def test_records_deleted_below_the_snapshot_leave_nothing_to_know_the_log_by(topic: Topic) -> None:
    saved = topic.save()
    begin = saved.next_offsets[0]
    delete_records(topic.kafka, topic.name, 0, begin)
    assert_replayed_whole(topic, f"is to be read from offset {saved.tails[0].records[0][0]} and begins at {begin}")
    assert_history_is_incomplete(topic, begin, set())


def test_records_deleted_below_the_last_ones_are_still_known(topic: Topic) -> None:
    saved = topic.save()
    oldest_kept, _ = saved.tails[0].records[0]
    delete_records(topic.kafka, topic.name, 0, oldest_kept)
    state = topic.resume()
    state.advance()
    assert (state.refusal, state.gaps, tables(state.state)) == (None, (), tables(saved.state))
