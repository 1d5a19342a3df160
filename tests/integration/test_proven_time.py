# SPDX-License-Identifier: Apache-2.0
"""What time is it? Both ways of reading a broker's clock, and what becomes of a worker whose own clock is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, OffsetSpec, ResourceType

from airflow_provider_rlmm.core.base.clock import HOUR_MS, ProvenClock, TimeBound, system_clock
from airflow_provider_rlmm.core.base.errors import ClockSkewError, ConfigurationError, UnprovenClockError
from airflow_provider_rlmm.core.log.kafka import broker_time as kafka_time
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.broker_time import OFFSETS_TOPIC, KafkaTime, group_partition
from airflow_provider_rlmm.core.log.kafka.client import KafkaAdmin
from airflow_provider_rlmm.core.log.kafka.offsets import KafkaOffsetStore
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.runs.access import CLEANER_GROUP_ID, CLOCK_GROUP_ID
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from dev.authorized import AuthorizedKafka
from dev.broker import METADATA_TOPIC, LocalKafka
from tests.builders import add, tip
from tests.integration.acls import Acl, allow_exactly
from tests.integration.kafka_topics import (
    METADATA_SETTINGS,
    TIMEOUT_S,
    config_of,
    create_topic,
    delete_topic,
    existing_topics,
)

pytestmark = pytest.mark.integration

LOG_APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
YEAR_MS = 365 * 24 * HOUR_MS
WRONG_MS = [25 * HOUR_MS, 10 * YEAR_MS, -25 * HOUR_MS]
USER = "reader"

Connect = Callable[..., RemoteLogMetadataHook]


def worker_clock(ahead_ms: int) -> Callable[[], int]:
    return lambda: system_clock() + ahead_ms


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalKafka]:
    """A broker with as many partitions for offsets as a real cluster has."""
    with LocalKafka(properties={"offsets.topic.num.partitions": "50"}) as broker:
        yield broker


@pytest.fixture
def connect(kafka: LocalKafka, monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Set up both Airflow connections and return a hook."""

    def connect(login: dict[str, Any] | None = None, **extra: Any) -> RemoteLogMetadataHook:
        rlmm = {"allow_writes": True} | extra
        properties = login or {"bootstrap.servers": kafka.bootstrap_servers}
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": properties}))
        monkeypatch.setenv("AIRFLOW_CONN_RLMM_DEFAULT", json.dumps({"conn_type": "rlmm", "extra": rlmm}))
        return RemoteLogMetadataHook()

    return connect


def proven_clock(hook: RemoteLogMetadataHook, ahead_ms: int = 0, **options: Any) -> ProvenClock:
    with hook.get_event_log() as log:
        return hook.get_proven_clock(log, worker_clock=worker_clock(ahead_ms), **options)


def ends_of(kafka: LocalKafka, topic: str) -> dict[tuple[str, int], int]:
    admin, topics = KafkaAdmin(config_of(kafka)), KafkaClusterTopics(config_of(kafka))
    count = topics.partition_counts([topic]).get(topic, 0)
    keys = [(topic, partition) for partition in range(count)]
    return {key: answer.offset for key, answer in admin.list_offsets(keys, OffsetSpec.latest()).items()} if keys else {}


# -- a record in a topic with LogAppendTime ---------------------------------------------------------------------------


def test_a_record_of_a_clock_topic_tells_the_brokers_time(kafka: LocalKafka, connect: Connect) -> None:
    topic = create_topic(kafka, 1, settings=LOG_APPEND_TIME)
    before = ends_of(kafka, METADATA_TOPIC)

    clock = proven_clock(connect(clock_topic=topic))

    assert (clock.proof.proven, clock.proof.source) == (True, f"LogAppendTime of topic '{topic}'")
    assert abs(clock.proof.difference_ms) < 10_000  # both run on this machine
    assert f"is proven by LogAppendTime of topic '{topic}'; this worker's own clock is" in str(clock)
    assert ends_of(kafka, topic) == {(topic, 0): 1}
    assert ends_of(kafka, METADATA_TOPIC) == before


@pytest.mark.parametrize("ahead_ms", WRONG_MS)
def test_a_wrong_worker_is_refused_by_the_clock_topic(kafka: LocalKafka, connect: Connect, ahead_ms: int) -> None:
    topic = create_topic(kafka, 1, settings=LOG_APPEND_TIME)
    with pytest.raises(
        ClockSkewError, match=f"this worker's own clock says .*, LogAppendTime of topic '{topic}' says "
    ):
        proven_clock(connect(clock_topic=topic), ahead_ms)


def test_a_topic_with_the_producers_time_is_no_clock(kafka: LocalKafka, connect: Connect) -> None:
    topic = create_topic(kafka, 1, settings={"message.timestamp.type": "CreateTime"})
    with pytest.raises(ConfigurationError, match=f"clock_topic '{topic}' delivers the producer's time"):
        proven_clock(connect(clock_topic=topic))


def test_a_missing_clock_topic_is_not_created(kafka: LocalKafka, connect: Connect) -> None:
    topic = f"missing-{uuid4().hex}"
    with pytest.raises(ConfigurationError, match=f"connection 'kafka_default': clock_topic '{topic}' does not exist"):
        proven_clock(connect(clock_topic=topic))
    assert topic not in existing_topics(kafka)


# -- an offset commit -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("repeat", range(3))
def test_an_offset_commit_tells_the_coordinators_time(kafka: LocalKafka, connect: Connect, repeat: int) -> None:
    store = KafkaOffsetStore(config_of(kafka), CLEANER_GROUP_ID)
    store.commit({1: 5})
    before = ends_of(kafka, METADATA_TOPIC)

    clock = proven_clock(connect())

    assert (clock.proof.proven, clock.proof.source) == (True, f"an offset commit of group '{CLOCK_GROUP_ID}'")
    assert abs(clock.proof.difference_ms) < 10_000
    assert store.committed() == {1: 5}
    assert ends_of(kafka, METADATA_TOPIC) == before


def test_the_first_commit_of_a_cluster_creates_the_offsets_topic(kafka: LocalKafka) -> None:
    delete_topic(kafka, OFFSETS_TOPIC)  # looking for a coordinator creates it, and every consumer does
    assert OFFSETS_TOPIC not in existing_topics(kafka)
    first = KafkaTime(config_of(kafka), group_id="clock").by_offset_commit()
    second = KafkaTime(config_of(kafka), group_id="clock").by_offset_commit()
    assert first.time_ms <= second.time_ms
    assert abs(first.worker_ms - first.time_ms) < 10_000


# The hash of the second is negative.
@pytest.mark.parametrize("group_id", ["clock-a", "cleaner-clock-1", CLOCK_GROUP_ID])
def test_a_commit_lands_in_the_partition_of_its_group(kafka: LocalKafka, group_id: str) -> None:
    time = KafkaTime(config_of(kafka), group_id=group_id)
    time.by_offset_commit()
    before = ends_of(kafka, OFFSETS_TOPIC)
    time.by_offset_commit()
    after = ends_of(kafka, OFFSETS_TOPIC)
    assert len(after) == 50
    moved = {partition for (_, partition), end in after.items() if end != before[OFFSETS_TOPIC, partition]}
    assert moved == {group_partition(group_id, len(after))}


@pytest.mark.parametrize("ahead_ms", WRONG_MS)
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_wrong_worker_is_refused_by_an_offset_commit(connect: Connect, ahead_ms: int, dry_run: bool) -> None:
    with pytest.raises(ClockSkewError, match=f"own clock says .*, an offset commit of group '{CLOCK_GROUP_ID}' says "):
        proven_clock(connect(), ahead_ms, dry_run=dry_run, overrides=frozenset({"unproven_clock"}))


def test_a_time_from_before_the_commit_is_not_taken_for_its_own(
    kafka: LocalKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if an older record of the partition had a later time: a client cannot write one there."""
    monkeypatch.setattr(kafka_time, "_RETRY_S", 0.001)
    time = KafkaTime(config_of(kafka), group_id="clock")
    time.by_offset_commit()
    key = OFFSETS_TOPIC, group_partition("clock", 50)
    stale = ends_of(kafka, OFFSETS_TOPIC)[key] - 1
    monkeypatch.setattr(time, "_newest", lambda keys: {key: (stale, system_clock())})
    with pytest.raises(
        UnprovenClockError, match=f"record at offset {stale} of {OFFSETS_TOPIC}-{key[1]} has a later time"
    ):
        time.by_offset_commit()


# -- what else is known -----------------------------------------------------------------------------------------------


def metadata_topic(kafka: LocalKafka, **settings: str) -> str:
    return create_topic(kafka, 3, settings=METADATA_SETTINGS | settings)


def broker_writes(kafka: LocalKafka, topic: str, ahead_ms: int, partition: int = 1) -> None:
    """A record as brokers write them, with a clock that is ahead: brokers take up to an hour."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 2})
    value = serialize(add(tip("alive", 0, 1), 1))
    producer.produce(topic, value=value, partition=partition, timestamp=system_clock() + ahead_ms)
    assert producer.flush(TIMEOUT_S) == 0


def test_a_broker_that_wrote_a_later_time_contradicts_the_proof(kafka: LocalKafka, connect: Connect) -> None:
    topic = metadata_topic(kafka)
    hook = connect(metadata_topic=topic)
    broker_writes(kafka, topic, 50 * 60_000)

    said = rf"the record at offset 0 of {topic}-1 \(written by broker 1\) says "
    with pytest.raises(ClockSkewError, match=f"an offset commit of group '{CLOCK_GROUP_ID}' says .*, {said}"):
        proven_clock(hook)
    clock = proven_clock(hook, overrides=frozenset({"unproven_clock"}))
    assert clock.proof.proven
    assert "Override 'unproven_clock' lets this pass" in str(clock)

    broker_writes(kafka, topic, 0)
    assert proven_clock(hook).proof.remarks == ()


def test_a_worker_behind_a_brokers_record_is_refused_without_leave_to_write(
    kafka: LocalKafka, connect: Connect
) -> None:
    topic = metadata_topic(kafka)
    broker_writes(kafka, topic, 0)
    hook = connect(metadata_topic=topic, allow_writes=False)
    with pytest.raises(ClockSkewError, match=r"own clock says .*written by broker 1\) says .*25 h 0 min behind"):
        proven_clock(hook, -25 * HOUR_MS)


def test_without_leave_to_write_the_time_is_unproven_and_nothing_is_committed(
    kafka: LocalKafka, connect: Connect
) -> None:
    topic = metadata_topic(kafka, **LOG_APPEND_TIME)
    broker_writes(kafka, topic, 0)
    offsets = ends_of(kafka, OFFSETS_TOPIC)

    clock = proven_clock(connect(metadata_topic=topic, allow_writes=False))

    assert (clock.proof.proven, clock.proof.source) == (False, "this worker's own clock")
    assert "is unproven: it is this worker's own clock. Nothing may be written here" in str(clock)
    assert f"the record at offset 0 of {topic}-1 (LogAppendTime) says that it is not before 20" in str(clock)
    assert abs(clock() - system_clock()) < 10_000
    assert ends_of(kafka, OFFSETS_TOPIC) == offsets


def test_what_the_caller_knows_must_not_be_contradicted(connect: Connect) -> None:
    bound = TimeBound("Airflow's time of the run", system_clock() + HOUR_MS)
    with pytest.raises(ClockSkewError, match="Airflow's time of the run says "):
        proven_clock(connect(), bounds=[bound])


# -- principals that may not do everything ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authorized() -> Iterator[AuthorizedKafka]:
    with AuthorizedKafka({USER: "not-secret"}) as broker:
        yield broker


def allow(kafka: AuthorizedKafka, *further: Acl) -> dict[str, str]:
    """Let the user read, and do this; return the login."""
    reads = ((ResourceType.TOPIC, METADATA_TOPIC, AclOperation.READ), (ResourceType.TOPIC, "*", AclOperation.DESCRIBE))
    allow_exactly(kafka, USER, {*reads, *further})
    return kafka.login(USER)


@pytest.mark.parametrize("allow_writes", [False, True])
def test_a_dry_run_that_may_only_read_works_and_says_unproven(
    authorized: AuthorizedKafka, connect: Connect, allow_writes: bool
) -> None:
    clock = proven_clock(connect(allow(authorized), allow_writes=allow_writes), dry_run=True)
    assert (clock.proof.proven, clock.proof.source) == (False, "this worker's own clock")
    assert "is unproven" in str(clock)


def test_without_the_right_to_commit_a_real_run_is_refused_and_the_group_named(
    authorized: AuthorizedKafka, connect: Connect
) -> None:
    hook = connect(allow(authorized))
    with pytest.raises(
        UnprovenClockError, match=f"group '{CLOCK_GROUP_ID}'.*GROUP_AUTHORIZATION_FAILED.*'unproven_clock'"
    ):
        proven_clock(hook)
    assert not proven_clock(hook, overrides=frozenset({"unproven_clock"})).proof.proven


def test_the_right_to_commit_is_all_that_it_takes(authorized: AuthorizedKafka, connect: Connect) -> None:
    login = allow(authorized, (ResourceType.GROUP, CLOCK_GROUP_ID, AclOperation.READ))
    assert proven_clock(connect(login)).proof.source == f"an offset commit of group '{CLOCK_GROUP_ID}'"


def test_where_the_clock_topic_may_not_be_written_the_other_way_is_taken(
    authorized: AuthorizedKafka, connect: Connect
) -> None:
    topic = create_topic(authorized, 1, settings=LOG_APPEND_TIME)
    login = allow(authorized, (ResourceType.GROUP, CLOCK_GROUP_ID, AclOperation.READ))
    clock = proven_clock(connect(login, clock_topic=topic))
    assert clock.proof.source == f"an offset commit of group '{CLOCK_GROUP_ID}'"
    assert f"writing to clock_topic '{topic}'" in str(clock)
    login = allow(authorized, (ResourceType.TOPIC, topic, AclOperation.WRITE))
    assert proven_clock(connect(login, clock_topic=topic)).proof.source == f"LogAppendTime of topic '{topic}'"
