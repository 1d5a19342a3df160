# SPDX-License-Identifier: Apache-2.0
"""
TLS and logins by Airflow's ``kafka`` connection: everything works with the right one, and each wrong one is one error.

``docs/troubleshooting.md`` prints these errors; it is held against what is really said here.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.base.errors import EventLogAccessError, EventLogUnavailableError, RlmmError
from airflow_provider_rlmm.core.log.protocol import Acked, ProvenLook
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import OWN_BROKER_ID, RemotePartitionDeleteMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from airflow_provider_rlmm.core.runs.access import CLEANER_GROUP_ID
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from dev.broker import METADATA_TOPIC
from dev.secured import CertificateAuthority, SecuredKafka
from tests.integration.acls import allow_exactly
from tests.integration.kafka_topics import existing_topics

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
USER = "cleaner"
PASSWORD = f"right-{uuid4().hex}"
WRONG_PASSWORD = f"wrong-{uuid4().hex}"
SMALL_TOPIC = {
    "remote.log.metadata.topic.num.partitions": 3,
    "remote.log.metadata.topic.replication.factor": 1,
    "remote.log.metadata.initialization.retry.max.timeout.ms": 3_000,
}
READER = (
    (ResourceType.TOPIC, METADATA_TOPIC, AclOperation.READ),
    (ResourceType.TOPIC, METADATA_TOPIC, AclOperation.DESCRIBE_CONFIGS),
)
EVERYTHING_NEEDED = (
    *READER,
    (ResourceType.TOPIC, METADATA_TOPIC, AclOperation.WRITE),
    (ResourceType.TOPIC, "*", AclOperation.DESCRIBE),
    (ResourceType.GROUP, CLEANER_GROUP_ID, AclOperation.READ),
)


@pytest.fixture(scope="module")
def kafka() -> Iterator[SecuredKafka]:
    with SecuredKafka({USER: PASSWORD}) as broker:
        yield broker


@pytest.fixture
def connect(kafka: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RemoteLogMetadataHook]:
    """Set up both Airflow connections and return a hook."""

    def connect(
        *, login: dict[str, str] | None = None, kafka_extra: dict[str, str] | None = None, **extra: Any
    ) -> RemoteLogMetadataHook:
        login = (login or kafka.login(USER)) | (kafka_extra or {})
        rlmm = {"kafka_conn_id": "kafka_prod", "allow_writes": True, "expected_cluster_id": kafka.cluster_id} | extra
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_PROD", json.dumps({"conn_type": "kafka", "extra": login}))
        monkeypatch.setenv("AIRFLOW_CONN_RLMM_DEFAULT", json.dumps({"conn_type": "rlmm", "extra": rlmm}))
        return RemoteLogMetadataHook()

    return connect


@pytest.fixture(autouse=True)
def no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    assert PASSWORD not in caplog.text
    assert WRONG_PASSWORD not in caplog.text


class Absent:
    """What the guard is told: of this topic id there is nothing in the cluster."""

    def __init__(self, metadata_topic_id: UUID) -> None:
        self.metadata_topic_id = metadata_topic_id

    def segment(self, segment_id: Any) -> None:
        return None

    def partition_delete_state(self, topic_id_partition: Any) -> None:
        return None

    def obstacle_to_finish(self, topic_id_partition: Any) -> None:
        return None

    def look_at(self, topic_id: UUID) -> ProvenLook:
        return ProvenLook(self.metadata_topic_id, frozenset({topic_id}))

    def routing_verified(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("login", "principal"), [("login", USER), ("token_login", USER), ("certificate_login", f"CN={USER}")]
)
def test_reading_publishing_and_asking_work_with_every_login(kafka, connect, login, principal):
    allow_exactly(kafka, principal, EVERYTHING_NEEDED)
    hook = connect(login=getattr(kafka, login)(USER), expected_cluster_id=kafka.cluster_id)
    tip = TopicIdPartition(uuid4(), "gone", 0)
    marker = RemotePartitionDeleteMetadata(
        tip, RemotePartitionDeleteState.DELETE_PARTITION_MARKED, system_clock(), OWN_BROKER_ID
    )

    with hook.get_event_log() as log:
        assert not hasattr(log, "publish")
        (outcome,) = hook.get_publisher(log).publish([marker], Absent(log.topic_id))
        assert isinstance(outcome, Acked)
        partition = metadata_partition_for(tip, log.partition_count)
        (batch,) = log.read(partition, outcome.offset, outcome.offset + 1)
        assert deserialize(batch.to_pylist()[0]["value"]) == marker

    assert hook.check_cluster() == kafka.cluster_id
    assert set(hook.get_cluster_topics().list_topics()) == existing_topics(kafka)
    store = hook.get_offset_store()
    store.commit({partition: outcome.offset})
    assert store.committed()[partition] == outcome.offset


def test_the_forms_test_of_such_a_connection(kafka, connect):
    allow_exactly(kafka, USER, EVERYTHING_NEEDED)

    good, text = connect(expected_cluster_id=kafka.cluster_id).test_connection()

    assert good, text
    assert "Its replicas, cleanup policy and retention are as they must be." in text


def test_with_the_permission_an_absent_topic_is_created(kafka, connect):
    topic = f"metadata-{uuid4().hex}"
    allow_exactly(
        kafka,
        USER,
        [(ResourceType.TOPIC, topic, operation) for operation in (AclOperation.CREATE, AclOperation.DESCRIBE)],
    )

    found = connect(metadata_topic=topic).provision_metadata_topic(SMALL_TOPIC)

    assert (found.partition_count, found.created) == (3, True)


# -- what goes wrong --------------------------------------------------------------------------------------------------


def wrong_password(kafka: SecuredKafka, connect: Any, tmp_path: Path) -> RemoteLogMetadataHook:
    return connect(kafka_extra={"sasl.password": WRONG_PASSWORD})


def wrong_ca(kafka: SecuredKafka, connect: Any, tmp_path: Path) -> RemoteLogMetadataHook:
    other = tmp_path / "other.pem"
    other.write_bytes(CertificateAuthority.make("somebody else").certificate_pem())
    return connect(kafka_extra={"ssl.ca.location": str(other)})


def wrong_host(kafka: SecuredKafka, connect: Any, tmp_path: Path) -> RemoteLogMetadataHook:
    # The certificate holds the address, not the name.
    return connect(kafka_extra={"bootstrap.servers": kafka.secured_servers.replace("127.0.0.1", "localhost")})


def unreachable(kafka: SecuredKafka, connect: Any, tmp_path: Path) -> RemoteLogMetadataHook:
    return connect(kafka_extra={"bootstrap.servers": "127.0.0.1:1"})


def missing_acl(kafka: SecuredKafka, connect: Any, tmp_path: Path) -> RemoteLogMetadataHook:
    allow_exactly(kafka, USER, [])
    return connect()


def may_not_create(kafka: SecuredKafka, connect: Any, tmp_path: Path) -> RemoteLogMetadataHook:
    allow_exactly(kafka, USER, [(ResourceType.TOPIC, "absent_topic", AclOperation.DESCRIBE)])
    return connect(metadata_topic="absent_topic")


def on_the_page(message: str, kafka: SecuredKafka) -> str:
    """Put the page's words in the place of what differs from run to run."""
    text = message
    for host in (kafka.secured_servers, kafka.secured_servers.replace("127.0.0.1", "localhost"), "127.0.0.1:1"):
        text = text.replace(host, "broker.example.com:9093")
    text = text.replace("'localhost'", "'broker.example.com'")
    text = re.sub(r"ssl\.ca\.location \('.*?'\)", "ssl.ca.location ('/etc/kafka/ca.pem')", text)
    text = re.sub(r"after \d+ms in state (\w+)(, \d+ identical error\(s\) suppressed)?", r"after 5ms in state \1", text)
    return re.sub(r"failed for [\d.]+ s, attempts: \d+", "failed for 120 s, attempts: 8", text)


@pytest.mark.parametrize(
    ("mistake", "expected"),
    [
        (wrong_password, EventLogAccessError),
        (wrong_ca, EventLogAccessError),
        (wrong_host, EventLogAccessError),
        (unreachable, EventLogUnavailableError),
        (missing_acl, EventLogAccessError),
        (may_not_create, EventLogAccessError),
    ],
)
def test_each_mistake_is_one_clear_error_in_time_and_on_the_page(kafka, connect, tmp_path, caplog, mistake, expected):
    hook = mistake(kafka, connect, tmp_path)
    started = time.monotonic()

    with pytest.raises(RlmmError) as caught:
        hook.provision_metadata_topic(SMALL_TOPIC)

    assert time.monotonic() - started < 3 + 10
    assert type(caught.value) is expected
    message = str(caught.value)
    assert message.startswith("connection 'kafka_prod': ")
    for secret in (PASSWORD, WRONG_PASSWORD):
        assert secret not in message + repr(caught.value) + repr(hook.get_manager_config()) + caplog.text
    assert on_the_page(message, kafka) in (ROOT / "docs" / "troubleshooting.md").read_text()


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (wrong_password, "check the credentials and ACLs"),
        (wrong_ca, "was not issued by an authority in ssl.ca.location"),
        (wrong_host, "is for another host"),
        (missing_acl, "check the credentials and ACLs"),
    ],
)
@pytest.mark.parametrize(
    "call",
    [
        lambda hook: hook.get_event_log(),
        lambda hook: hook.get_cluster_topics().describe_metadata_topic(METADATA_TOPIC),
        lambda hook: hook.get_offset_store().committed(),
    ],
    ids=["log", "topics", "offsets"],
)
def test_whoever_asks_is_told_at_once(kafka, connect, tmp_path, mistake, words, call):
    hook = mistake(kafka, connect, tmp_path)
    started = time.monotonic()

    with pytest.raises(EventLogAccessError, match=words):
        call(hook)
    assert time.monotonic() - started < 10


def test_without_leave_to_write_an_absent_topic_stays_absent(kafka, connect):
    allow_exactly(kafka, USER, [(ResourceType.TOPIC, "absent_topic", AclOperation.DESCRIBE), *EVERYTHING_NEEDED])

    good, text = connect(metadata_topic="absent_topic", allow_writes=False).test_connection()

    assert not good
    assert "topic 'absent_topic' does not exist" in text
    assert "absent_topic" not in existing_topics(kafka)
