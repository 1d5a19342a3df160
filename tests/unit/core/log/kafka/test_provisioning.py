# SPDX-License-Identifier: Apache-2.0
"""What brokers may answer, without a broker; tests/integration asks a real one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import KafkaError, Uuid
from confluent_kafka.admin import AdminClient

from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    EventLogAccessError,
    EventLogUnavailableError,
    MetadataTopicNotFoundError,
    TopicIdMissingError,
)
from airflow_provider_rlmm.core.log.kafka.client import KafkaAdmin
from airflow_provider_rlmm.core.log.kafka.manager_config import TopicBasedRemoteLogMetadataManagerConfig
from airflow_provider_rlmm.core.log.kafka.provisioning import (
    MAX_WAIT_MS,
    ProvisionedTopic,
    Retry,
    provision_metadata_topic,
)

TOPIC = "__remote_log_metadata"
TOPIC_ID = UUID("00000000-0000-0001-0000-000000000002")
UNKNOWN = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "no such topic")
CONFIG = TopicBasedRemoteLogMetadataManagerConfig.from_properties(
    {"remote.log.metadata.common.client.bootstrap.servers": "127.0.0.1:1"}
)


@dataclass
class Description:
    partitions: list[int]
    topic_id: Uuid = field(default_factory=lambda: Uuid(1, 2))


class Cluster:
    """Gives its answers in order and keeps what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.timeouts: list[float] = []
        self.created: list[Any] = []
        monkeypatch.setattr(AdminClient, "create_topics", lambda _, new, **__: self.created.extend(new))
        monkeypatch.setattr(KafkaAdmin, "results", lambda admin, what, start: self._answer(admin, what, start))

    def _answer(self, admin: KafkaAdmin, what: str, start: Any) -> dict[str, Any]:
        self.asked.append(what.split()[0])
        self.timeouts.append(admin.request_timeout_s)
        if self.asked[-1] == "creating":
            start(admin.client)
        return {TOPIC: self.answers.pop(0)}


def provision(
    config: TopicBasedRemoteLogMetadataManagerConfig = CONFIG, *, allow_create: bool = True, timeout_ms=9_000
):
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    retry = Retry(1_000, timeout_ms, lambda: now[0], sleep, lambda: 0.9)
    return provision_metadata_topic(config, allow_create=allow_create, retry=retry)


@pytest.mark.parametrize("allow_create", [True, False])
def test_an_existing_topic_is_used_and_its_partition_count_wins(monkeypatch, caplog, allow_create):
    caplog.set_level("INFO")
    cluster = Cluster(monkeypatch, Description([0, 1, 2]))

    assert provision(allow_create=allow_create) == ProvisionedTopic(TOPIC_ID, 3, created=False)
    assert cluster.created == []
    assert "has 3 partitions, remote.log.metadata.topic.num.partitions is 50" in caplog.text


def test_an_absent_topic_is_created_as_configured(monkeypatch):
    cluster = Cluster(monkeypatch, UNKNOWN, None, Description([0] * 50))

    assert provision() == ProvisionedTopic(TOPIC_ID, 50, created=True)
    (new,) = cluster.created
    assert (new.topic, new.num_partitions, new.replication_factor) == (TOPIC, 50, 3)
    assert new.config == {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "min.insync.replicas": "2",
        "remote.storage.enable": "false",
    }


def test_without_leave_to_write_nothing_is_created(monkeypatch):
    cluster = Cluster(monkeypatch, UNKNOWN)

    with pytest.raises(MetadataTopicNotFoundError, match=TOPIC):
        provision(allow_create=False)
    assert cluster.asked == ["describing"]


def test_somebody_else_may_create_it_first(monkeypatch):
    Cluster(monkeypatch, UNKNOWN, KafkaError(KafkaError.TOPIC_ALREADY_EXISTS, "exists"), Description([0, 1]))

    assert provision() == ProvisionedTopic(TOPIC_ID, 2, created=False)


def test_a_new_topic_that_does_not_show_yet_is_waited_for(monkeypatch):
    cluster = Cluster(monkeypatch, UNKNOWN, None, UNKNOWN, Description([0]))

    assert provision().created
    assert cluster.asked == ["describing", "creating", "describing", "describing"]


@pytest.mark.parametrize("answers", [(Description([0], Uuid(0, 0)),), (UNKNOWN, None, Description([0], Uuid(0, 0)))])
def test_a_topic_id_of_zeros_is_an_error_at_once(monkeypatch, answers):
    cluster = Cluster(monkeypatch, *answers)

    with pytest.raises(TopicIdMissingError, match=f"{TOPIC}.*no topic id"):
        provision()
    assert cluster.answers == []


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (KafkaError.INVALID_REPLICATION_FACTOR, ["topic.replication.factor=3"]),
        (KafkaError.INVALID_PARTITIONS, ["topic.num.partitions=50"]),
        (KafkaError.INVALID_CONFIG, ["topic.retention.ms=-1", "topic.min.isr=2"]),
        (KafkaError.POLICY_VIOLATION, ["topic.num.partitions=50", "topic.retention.ms=-1"]),
    ],
)
def test_settings_that_brokers_refuse_are_named_and_not_tried_again(monkeypatch, code, names):
    Cluster(monkeypatch, UNKNOWN, KafkaError(code, "because"))

    with pytest.raises(ConfigurationError, match="because") as caught:
        provision()
    assert all(f"remote.log.metadata.{name}" in str(caught.value) for name in names)


def test_what_librdkafka_itself_refuses_is_named_too(monkeypatch):
    def answer(admin: KafkaAdmin, what: str, start: Any) -> dict[str, Any]:
        return {TOPIC: UNKNOWN} if what.startswith("describing") else start(admin.client)

    monkeypatch.setattr(KafkaAdmin, "results", answer)
    with pytest.raises(
        ConfigurationError, match=r"remote\.log\.metadata\.topic\.num\.partitions=100001.*expected range"
    ):
        provision(replace(CONFIG, topic_num_partitions=100_001))


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED])
@pytest.mark.parametrize("before", [(), (UNKNOWN,)])
def test_a_missing_permission_is_not_tried_again(monkeypatch, code, before):
    Cluster(monkeypatch, *before, KafkaError(code, "denied"))

    with pytest.raises(EventLogAccessError, match=f"{TOPIC}.*denied"):
        provision()


def test_what_may_pass_is_tried_again_within_the_maximum(monkeypatch):
    late = KafkaError(KafkaError._TIMED_OUT, "late")
    cluster = Cluster(monkeypatch, late, UNKNOWN, KafkaError(KafkaError.NOT_CONTROLLER, "moved"), Description([0]))

    assert provision() == ProvisionedTopic(TOPIC_ID, 1, created=False)
    # Each attempt asks for no longer than what is left.
    assert cluster.timeouts == pytest.approx([9.0, 8.1, 8.1, 6.3])


def test_the_maximum_ends_it_with_one_error(monkeypatch):
    cluster = Cluster(monkeypatch, *[KafkaError(KafkaError._TIMED_OUT, "late")] * 20)

    with pytest.raises(
        EventLogUnavailableError, match=rf"^initializing topic '{TOPIC}' failed for 9 s, attempts: 4.*late"
    ):
        provision()
    assert len(cluster.asked) == 4
    assert min(cluster.timeouts) >= 1.0


class Hands:
    """A clock that only sleeping and working turn."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def hands() -> Hands:
    return Hands()


def retry_of(hands: Hands, *, interval_ms: int = 100, max_timeout_ms: int = 10_000, draw: float = 0.5) -> Retry:
    return Retry(interval_ms, max_timeout_ms, lambda: hands.now, hands.sleep, lambda: draw)


def failing(times: int, hands: Hands, cost_s: float = 0.0):
    """Return an attempt that fails so many times, and the list of the seconds it was given."""
    given: list[float] = []

    def attempt(left_s: float) -> str:
        given.append(left_s)
        hands.now += cost_s
        if len(given) <= times:
            raise EventLogUnavailableError("no answer") from OSError("refused")
        return "done"

    return attempt, given


def test_a_success_is_not_repeated(hands):
    attempt, given = failing(0, hands)

    assert retry_of(hands).call("asking", attempt) == "done"
    assert (len(given), hands.slept) == (1, [])


def test_waits_grow_exponentially_under_a_bound_and_are_drawn_in_full(hands):
    attempt, given = failing(9, hands)

    retry_of(hands, max_timeout_ms=1_000_000).call("asking", attempt)

    assert hands.slept == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, MAX_WAIT_MS / 2_000, MAX_WAIT_MS / 2_000]
    assert given[1] == pytest.approx(given[0] - 0.05)


@pytest.mark.parametrize("draw", [0.0, 0.999])
def test_jitter_spreads_over_the_whole_wait(hands, draw):
    attempt, _ = failing(1, hands)

    retry_of(hands, interval_ms=1_000, draw=draw).call("asking", attempt)

    assert hands.slept == [draw]


@pytest.mark.parametrize("kind", [ConfigurationError, EventLogAccessError])
def test_what_is_not_retriable_fails_at_once_as_it_is(hands, kind):
    original = kind("acks must be all")

    def attempt(left_s: float) -> None:
        raise original

    with pytest.raises(kind) as caught:
        retry_of(hands).call("asking", attempt)
    assert caught.value is original
    assert hands.slept == []


def test_other_exceptions_are_not_swallowed(hands):
    with pytest.raises(ZeroDivisionError):
        retry_of(hands).call("asking", lambda left_s: 1 / 0)


def test_the_maximum_ends_it_with_the_last_error_and_its_type(hands):
    attempt, given = failing(10**6, hands, cost_s=1.0)
    started = hands.now

    with pytest.raises(EventLogUnavailableError) as caught:
        retry_of(hands, max_timeout_ms=3_500).call("asking", attempt)

    assert str(caught.value) == f"asking failed for 3.5 s, attempts: {len(given)}; the last one: no answer"
    assert isinstance(caught.value.__cause__, OSError)
    assert hands.now - started <= 3.5 + 1.0
    assert given == sorted(given, reverse=True)
    assert given[-1] > 0


def test_no_wait_that_would_end_after_the_maximum_is_begun(hands):
    attempt, given = failing(10**6, hands)

    with pytest.raises(EventLogUnavailableError):
        retry_of(hands, interval_ms=60_000, max_timeout_ms=2_000).call("asking", attempt)
    assert (len(given), hands.slept) == (1, [])


def test_without_time_there_is_one_attempt(hands):
    attempt, given = failing(1, hands)

    with pytest.raises(EventLogUnavailableError, match="attempts: 1"):
        retry_of(hands, max_timeout_ms=0, draw=0.0).call("asking", attempt)
    assert given == [0.0]
