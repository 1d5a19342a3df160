# SPDX-License-Identifier: Apache-2.0
"""What is believed of many living leaders; that brokers answer so is for tests/integration/test_kafka_leaders.py."""

from __future__ import annotations

from uuid import UUID

import pytest
from confluent_kafka import KafkaError

from airflow_provider_rlmm.core.base.errors import (
    ClusterMismatchError,
    EventLogAccessError,
    EventLogUnavailableError,
    MetadataTopicNotFoundError,
)
from airflow_provider_rlmm.core.log.answers import NewestRecord, NotTold, PartitionLook, ServedRecord, TopicLook
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from tests.unit.core.log.kafka.asked_cluster import METADATA_TOPIC, AskedCluster

ORDERS = [TopicIdPartition(UUID(int=2), "orders", n) for n in range(3)]
PAYMENTS = TopicIdPartition(UUID(int=3), "payments", 0)
UNKNOWN = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
DENIED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> AskedCluster:
    asked = AskedCluster(monkeypatch)
    asked.create("orders", ORDERS[0].topic_id, 3)
    asked.create("payments", PAYMENTS.topic_id, 1)
    return asked


def test_one_look_tells_all_of_many(cluster: AskedCluster) -> None:
    cluster.offsets["orders", 1] = (10, 70, 4)
    found = cluster.leaders.look([ORDERS[0], ORDERS[1], PAYMENTS])
    look = found[ORDERS[1]]
    assert isinstance(look, PartitionLook)
    assert look.topic_id_partition == ORDERS[1]
    assert (look.log_start_offset, look.high_watermark, look.leader_epoch, look.leader) == (10, 70, 4, 1)
    assert look.configs.retention_ms == -1
    assert cluster.requests == {"describe": 1, "configs": 1, "offsets": 2}
    assert cluster.asked_for == ["earliest", "latest"], "a start that is asked for last may be above the end"


def test_what_is_wrong_with_one_leaves_the_others(cluster: AskedCluster) -> None:
    cluster.create("gone", UUID(int=4), 1)
    cluster.described["gone"] = UNKNOWN
    cluster.create("hidden", UUID(int=5), 1)
    cluster.described["hidden"] = DENIED
    cluster.create("no-configs", UUID(int=6), 1)
    cluster.configs["no-configs"] = DENIED
    cluster.create("old", UUID(int=7), 1)
    del cluster.configs["old"]["remote.log.copy.disable"]
    cluster.offsets["orders", 2] = KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)
    other = {name: TopicIdPartition(UUID(int=1), name, 0) for name in ("gone", "hidden", "no-configs", "old")}
    found = cluster.leaders.look([*ORDERS, *other.values()])
    assert isinstance(found[ORDERS[0]], PartitionLook)
    why = {tip.topic: one.why for tip, one in found.items() if isinstance(one, NotTold)}
    assert why["gone"] == "there is no such topic any more"
    assert "TOPIC_AUTHORIZATION_FAILED" in why["hidden"]
    assert "its settings may not be described: TOPIC_AUTHORIZATION_FAILED" in why["no-configs"]
    assert "does not tell remote.log.copy.disable" in why["old"]
    assert "its leader does not tell its offsets: NOT_LEADER_FOR_PARTITION" in why["orders"]


def test_topics_are_told_with_their_settings(cluster: AskedCluster) -> None:
    cluster.create("no-configs", UUID(int=6), 1)
    cluster.configs["no-configs"] = DENIED
    found = cluster.leaders.topics()
    orders, without = found["orders"], found["no-configs"]
    assert isinstance(orders, TopicLook)
    assert (orders.topic_id, orders.partitions) == (ORDERS[0].topic_id, 3)
    assert isinstance(without, TopicLook)
    assert isinstance(without.configs, NotTold)
    assert METADATA_TOPIC not in found
    assert cluster.leaders.topics(["payments"]).keys() == {"payments"}
    cluster.described["payments"] = UNKNOWN
    assert cluster.leaders.topics(["payments"]) == {}


def test_between_two_leaders_there_is_none_for_a_moment(cluster: AskedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    elected = cluster.described["orders"]
    cluster.described["orders"] = cluster.description(ORDERS[0].topic_id, 3, leaderless={1})

    def sleep(_: float) -> None:
        cluster.described["orders"] = elected

    monkeypatch.setattr("airflow_provider_rlmm.core.log.kafka.leaders.time.sleep", sleep)
    assert isinstance(cluster.leaders.look(ORDERS)[ORDERS[1]], PartitionLook)


def test_a_partition_that_nobody_leads_is_told_as_such(cluster: AskedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.described["orders"] = cluster.description(ORDERS[0].topic_id, 3, leaderless={1})
    clock = cluster.stop_time(monkeypatch)
    found = cluster.leaders.look(ORDERS)
    assert found[ORDERS[1]] == NotTold("it has no leader")
    assert isinstance(found[ORDERS[0]], PartitionLook)
    assert clock.now < cluster.leaders._admin.request_timeout_s
    assert ("orders", 1) not in cluster.asked_offsets, "the client would wait for a leader in vain"


def test_another_cluster_answers_nothing(cluster: AskedCluster) -> None:
    cluster.described[METADATA_TOPIC] = cluster.description(UUID(int=66), 1)
    with pytest.raises(ClusterMismatchError, match="these are two clusters"):
        cluster.leaders.look(ORDERS)
    cluster.described[METADATA_TOPIC] = UNKNOWN
    with pytest.raises(MetadataTopicNotFoundError):
        cluster.leaders.topics(["orders"])


def test_a_request_without_an_answer_leaves_the_others_and_brokers_that_are_away_end_it(cluster: AskedCluster) -> None:
    cluster.create("wide", UUID(int=9), 1_600)
    wide = [TopicIdPartition(UUID(int=9), "wide", n) for n in range(1_600)]
    cluster.silent = {1}
    found = cluster.leaders.look(wide)
    assert [isinstance(one, NotTold) for one in found.values()] == [500 <= n < 1_000 for n in range(1_600)]
    cluster.silent = set(range(10))
    with pytest.raises(EventLogUnavailableError):
        cluster.leaders.look(wide)


# -- times


def test_the_times_of_records_are_asked_for_many_at_once(cluster: AskedCluster) -> None:
    cluster.times = {("orders", 0): (70, 5_000), ("orders", 1): DENIED}
    found = cluster.leaders.newest_records([*ORDERS[:2], PAYMENTS])
    assert (found[ORDERS[0]], found[PAYMENTS]) == (NewestRecord(70, 5_000), None)
    denied = found[ORDERS[1]]
    assert isinstance(denied, NotTold)
    assert "does not tell the times of records: TOPIC_AUTHORIZATION_FAILED" in denied.why
    assert cluster.leaders.first_since({ORDERS[0]: 5_000}) == {ORDERS[0]: 70}
    assert cluster.leaders.first_since({ORDERS[0]: 5_001, PAYMENTS: 0}) == {ORDERS[0]: None, PAYMENTS: None}
    assert cluster.requests == {"times": 3}


def test_brokers_that_tell_no_times_are_not_asked_for_ever(cluster: AskedCluster) -> None:
    wide = [TopicIdPartition(UUID(int=9), "wide", n) for n in range(5_000)]
    cluster.silent = {1}
    found = cluster.leaders.newest_records(wide)
    assert [isinstance(found[tip], NotTold) for tip in wide] == [500 <= n < 1_000 for n in range(5_000)]
    cluster.requests.clear()
    cluster.silent = set(range(100))
    assert set(cluster.leaders.newest_records(wide).values()) == {NotTold("no answer")}
    assert cluster.requests == {"times": 3}


# -- records


def test_the_first_record_of_each_is_asked_for_at_once(cluster: AskedCluster) -> None:
    cluster.records = {("orders", 0): [(7, 3)], ("orders", 1): [(9, 4), (10, 5)], ("payments", 0): []}
    found = cluster.leaders.first_records({ORDERS[0]: 7, ORDERS[1]: 8, PAYMENTS: 0})
    assert found == {ORDERS[0]: ServedRecord(7, 3), ORDERS[1]: ServedRecord(9, 4), PAYMENTS: None}
    assert cluster.assigned == [3]
    assert not cluster.consumer.assigned, "what has answered is not fetched any more"


def test_a_thousand_are_assigned_at_once(cluster: AskedCluster) -> None:
    cluster.create("wide", UUID(int=9), 2_500)
    wide = {TopicIdPartition(UUID(int=9), "wide", n): 5 for n in range(2_500)}
    cluster.records = {("wide", n): [(5, 0)] for n in range(2_500)}
    assert set(cluster.leaders.first_records(wide).values()) == {ServedRecord(5, 0)}
    assert cluster.assigned == [1_000, 1_000, 500]


def test_silence_is_no_record_and_no_answer_of_others(cluster: AskedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = cluster.stop_time(monkeypatch)
    cluster.records = {("orders", 0): [(7, 3)]}
    found = cluster.leaders.first_records({ORDERS[0]: 7, ORDERS[1]: 8})
    assert found[ORDERS[0]] == ServedRecord(7, 3)
    silent = found[ORDERS[1]]
    assert isinstance(silent, NotTold)
    assert "has sent no record and no end within" in silent.why
    assert clock.now >= cluster.leaders._admin.request_timeout_s


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KafkaError(KafkaError._AUTO_OFFSET_RESET), None),
        (DENIED, "its leader serves no records: TOPIC_AUTHORIZATION_FAILED"),
    ],
    ids=["out of range", "denied"],
)
def test_an_error_is_of_its_own_user_partition(cluster: AskedCluster, error: KafkaError, told: str | None) -> None:
    cluster.records = {("orders", 0): [(7, 3)]}
    cluster.errors = {("orders", 1): error}
    found = cluster.leaders.first_records({ORDERS[0]: 7, ORDERS[1]: 8})
    assert found[ORDERS[0]] == ServedRecord(7, 3)
    answer = found[ORDERS[1]]
    assert answer is None if told is None else isinstance(answer, NotTold) and told in answer.why


def test_a_record_without_an_epoch_confirms_nothing(cluster: AskedCluster) -> None:
    cluster.records = {("orders", 0): [(7, None)]}
    (answer,) = cluster.leaders.first_records({ORDERS[0]: 7}).values()
    assert isinstance(answer, NotTold)


def test_a_login_that_is_refused_ends_it(cluster: AskedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(what: str) -> None:
        raise EventLogAccessError(what)

    monkeypatch.setattr(cluster.leaders._watch, "raise_if_denied", refuse)
    with pytest.raises(EventLogAccessError, match="reading one record of each of 1 user partition"):
        cluster.leaders.first_records({ORDERS[0]: 7})


def test_only_the_leaders_themselves_are_read(cluster: AskedCluster) -> None:
    cluster.records = {("orders", 0): [(7, 3)]}
    cluster.leaders.first_records({ORDERS[0]: 7})
    assert cluster.properties["client.rack"] == ""


def test_clients_are_let_go(cluster: AskedCluster) -> None:
    cluster.records = {("orders", 0): [(7, 3)]}
    with cluster.leaders as leaders:
        leaders.first_records({ORDERS[0]: 7})
    assert cluster.consumer.closed
