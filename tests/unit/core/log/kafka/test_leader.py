# SPDX-License-Identifier: Apache-2.0
"""What is believed of a living leader; that brokers answer so is for tests/integration/test_kafka_leader.py."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import IsolationLevel, KafkaError

from airflow_provider_rlmm.core.base.errors import (
    EventLogAccessError,
    EventLogUnavailableError,
    MetadataTopicNotFoundError,
)
from airflow_provider_rlmm.core.log.answers import LeaderOffsets
from airflow_provider_rlmm.core.log.copy_lag import NO_LAG, CopyLag
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.leader import KafkaLeader
from airflow_provider_rlmm.core.records.records import TopicIdPartition

METADATA_TOPIC, METADATA_TOPIC_ID = "__remote_log_metadata", UUID(int=1)
TOPIC, TOPIC_ID = "orders", UUID(int=2)
TIP = TopicIdPartition(TOPIC_ID, TOPIC, 0)
SETTINGS = {
    "remote.storage.enable": True,
    "remote.log.copy.disable": True,
    "cleanup.policy": "compact, delete",
    "retention.ms": -1,
    "retention.bytes": -1,
}
UNKNOWN = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)


def description(topic_id: UUID, leader: object = SimpleNamespace(id=4)) -> Any:
    return SimpleNamespace(
        topic_id=base64.b64encode(topic_id.bytes).decode(),
        partitions=[SimpleNamespace(id=0, leader=leader)],
        is_internal=False,
    )


class Cluster:
    """Answers in the place of the admin client; a list of answers is gone through, and its last one repeated."""

    def __init__(self, leader: KafkaLeader, monkeypatch: pytest.MonkeyPatch, *described: Any) -> None:
        self.metadata_topic: Any = description(METADATA_TOPIC_ID)
        self.described = list(described) or [description(TOPIC_ID)]
        self.settings: dict[str, Any] = {TOPIC: SETTINGS}
        self.asked: list[tuple[str, IsolationLevel]] = []
        monkeypatch.setattr(leader._admin, "describe_topics", self.describe)
        monkeypatch.setattr(leader._admin, "list_offsets", self.list_offsets)
        monkeypatch.setattr(leader._topics, "topic_settings", lambda names: self.settings)

    def describe(self, names: Sequence[str]) -> dict[str, Any]:
        assert METADATA_TOPIC in names
        answer = self.described.pop(0) if len(self.described) > 1 else self.described[0]
        return {METADATA_TOPIC: self.metadata_topic, TOPIC: answer}

    def list_offsets(self, partitions: Any, spec: Any, isolation_level: IsolationLevel) -> dict[Any, Any]:
        self.asked.append((str(spec), isolation_level))
        return {(TOPIC, 0): SimpleNamespace(offset=10 * len(self.asked))}


@pytest.fixture
def leader() -> KafkaLeader:
    return KafkaLeader(KafkaClientConfig({"bootstrap.servers": "b:9092"}), "cluster", request_timeout_s=1.0)


@pytest.fixture
def cluster(leader: KafkaLeader, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Cluster]:
    return lambda *described: Cluster(leader, monkeypatch, *described)


def test_the_answer_names_the_topic_id_of_now_and_the_cluster_that_gave_it(
    leader: KafkaLeader, cluster: Callable[..., Cluster]
) -> None:
    asked = cluster()

    answer = leader.ask(TOPIC, 0)

    assert answer is not None
    assert (answer.topic_id_partition, answer.metadata_topic_id) == (TIP, METADATA_TOPIC_ID)
    assert answer.configs.cleanup_policy == {"compact", "delete"}
    assert answer.leader == 4
    assert answer.offsets == LeaderOffsets(log_start_offset=10, last_stable_offset=20, high_watermark=30)
    levels = [level for _, level in asked.asked]
    assert levels == [
        IsolationLevel.READ_UNCOMMITTED,
        IsolationLevel.READ_COMMITTED,
        IsolationLevel.READ_UNCOMMITTED,
    ]


def test_a_moment_between_two_leaders_does_not_pass_for_a_partition_that_nobody_leads(
    leader: KafkaLeader, cluster: Callable[..., Cluster]
) -> None:
    cluster(description(TOPIC_ID, leader=None), description(TOPIC_ID))
    answer = leader.ask(TOPIC, 0)
    assert answer is not None
    assert answer.offsets is not None


@pytest.mark.slow
def test_a_partition_without_a_leader_has_no_offsets(leader: KafkaLeader, cluster: Callable[..., Cluster]) -> None:
    cluster(description(TOPIC_ID, leader=None))
    answer = leader.ask(TOPIC, 0)
    assert answer is not None
    assert answer.offsets is None


def test_a_copy_lag_is_what_the_cluster_lists_and_none_where_it_knows_none(
    leader: KafkaLeader, cluster: Callable[..., Cluster]
) -> None:
    asked = cluster()
    lags = []
    for listed in ({}, {"remote.copy.lag.ms": 60_000, "remote.copy.lag.bytes": -1}):
        asked.settings = {TOPIC: SETTINGS | listed}
        answer = leader.ask(TOPIC, 0)
        assert answer is not None
        lags.append(answer.configs.copy_lag)
    assert lags == [NO_LAG, CopyLag(60_000, -1)]


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_the_cluster_does_not_tell_passes_for_no_default(
    leader: KafkaLeader, cluster: Callable[..., Cluster], name: str
) -> None:
    cluster().settings = {TOPIC: {key: value for key, value in SETTINGS.items() if key != name}}
    with pytest.raises(EventLogAccessError, match=f"topic 'orders': the cluster does not tell {name};"):
        leader.ask(TOPIC, 0)


def test_only_a_cluster_with_the_metadata_topic_may_say_that_a_topic_is_gone(
    leader: KafkaLeader, cluster: Callable[..., Cluster]
) -> None:
    asked = cluster(UNKNOWN)
    assert leader.ask(TOPIC, 0) is None
    asked.metadata_topic = UNKNOWN
    with pytest.raises(MetadataTopicNotFoundError):
        leader.ask(TOPIC, 0)


def test_a_topic_that_goes_while_it_is_asked_for_is_gone(leader: KafkaLeader, cluster: Callable[..., Cluster]) -> None:
    cluster().settings = {}
    assert leader.ask(TOPIC, 0) is None


def test_a_denied_topic_is_no_missing_one(leader: KafkaLeader, cluster: Callable[..., Cluster]) -> None:
    cluster(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(EventLogAccessError, match="describing topic 'orders'"):
        leader.ask(TOPIC, 0)


class Consumer:
    """Delivers messages in the place of a consumer."""

    def __init__(self, *messages: Any) -> None:
        self.messages = list(messages)
        self.assigned: list[Any] = []

    def assign(self, partitions: list[Any]) -> None:
        self.assigned += [(p.topic, p.partition, p.offset) for p in partitions]

    def poll(self, timeout: float) -> Any:
        return self.messages.pop(0) if self.messages else None

    def close(self) -> None: ...


def message(offset: int = 7, error: KafkaError | None = None) -> Any:
    fields = {
        "offset": offset,
        "error": error,
        "leader_epoch": 3,
        "timestamp": (1, 1_000),
        "key": None,
        "value": b"",
        "headers": [("a", None), ("b", b"1")],
    }
    return SimpleNamespace(**{name: (lambda value=value: value) for name, value in fields.items()})


def test_a_record_is_what_was_served_at_this_very_offset(leader: KafkaLeader) -> None:
    consumer = leader._consumer = Consumer(None, message(7), message(8))  # type: ignore[assignment]

    record = leader.record_at(TIP, 7)

    assert record is not None
    assert (record.offset, record.leader_epoch, record.timestamp_ms) == (7, 3, 1_000)
    assert (record.key, record.value, record.headers) == (None, b"", (("a", None), ("b", b"1")))
    # The offset asked for is a marker's.
    assert leader.record_at(TIP, 7) is None
    assert consumer.assigned == [(TOPIC, 0, 7), (TOPIC, 0, 7)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("code", [KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET])
def test_what_is_beyond_the_ends_is_not_served(leader: KafkaLeader, code: int) -> None:
    leader._consumer = Consumer(message(error=KafkaError(code)))  # type: ignore[assignment]
    assert leader.record_at(TIP, 7) is None


@pytest.mark.slow
def test_a_leader_that_says_nothing_has_not_said_that_there_is_no_record(leader: KafkaLeader) -> None:
    leader._consumer = Consumer(message(error=KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)))  # type: ignore[assignment]
    with pytest.raises(EventLogUnavailableError, match="reading orders-0 at offset 7"):
        leader.record_at(TIP, 7)


def test_only_the_leader_itself_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "airflow_provider_rlmm.core.log.kafka.leader_clients.open_client",
        lambda factory, properties, watch: opened.append(properties) or Consumer(message(7)),
    )
    config = KafkaClientConfig({"bootstrap.servers": "b:9092", "client.rack": "near"})
    leader = KafkaLeader(config, "cluster", request_timeout_s=1.0)
    monkeypatch.setattr(leader._admin, "require_cluster", lambda *_: None)

    assert leader.record_at(TIP, 7) is not None

    assert opened[0]["client.rack"] == ""
