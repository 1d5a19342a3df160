# SPDX-License-Identifier: Apache-2.0
"""What a copier asks the living leader of a user partition, on a real one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from uuid import uuid4

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from airflow_provider_rlmm.core.base.errors import ClusterMismatchError, EventLogAccessError
from airflow_provider_rlmm.core.log.answers import CopyConfigs, LeaderOffsets
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.leader import KafkaLeader
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from dev import tiering
from dev.authorized import AuthorizedKafka
from dev.broker import METADATA_TOPIC, LocalKafka
from tests.integration.acls import Acl, allow_exactly
from tests.integration.copying.world import last_stable_offset, not_copied_topic
from tests.integration.copying.writing import Writer, alter_topic, read_records
from tests.integration.kafka_topics import config_of, create_topic, delete_records, delete_topic

pytestmark = pytest.mark.integration


@pytest.fixture
def leader(kafka: LocalKafka) -> Iterator[KafkaLeader]:
    with KafkaLeader(config_of(kafka), kafka.cluster_id) as asked:
        yield asked


def test_a_leader_says_what_it_is_and_how_far_it_reaches(kafka: LocalKafka, leader: KafkaLeader) -> None:
    topic = f"asked-{uuid4().hex}"
    not_copied_topic(kafka, topic)
    ids = tiering.topic_ids(kafka)
    writer = Writer(kafka.bootstrap_servers, topic)
    writer.write(20)
    delete_records(kafka, topic, 0, 5)
    still_open = writer.begin(3)
    writer.write(4)

    answer = leader.ask(topic, 0)

    assert answer is not None
    assert answer.topic_id_partition == TopicIdPartition(ids[topic], topic, 0)
    assert answer.metadata_topic_id == ids[METADATA_TOPIC]
    assert not answer.is_internal
    assert answer.configs == CopyConfigs(
        remote_storage_enable=True,
        remote_log_copy_disable=True,
        cleanup_policy=frozenset({"delete"}),
        retention_ms=86_400_000,
        retention_bytes=-1,
        segment_ms=604_800_000,
    )
    assert answer.offsets == LeaderOffsets(log_start_offset=5, last_stable_offset=20, high_watermark=27)
    assert last_stable_offset(kafka.bootstrap_servers, topic) == 20

    still_open.commit_transaction(30)
    alter_topic(kafka.bootstrap_servers, topic, **{"remote.log.copy.disable": "false", "retention.bytes": "100000"})
    # Its marker takes an offset of its own.
    after = leader.ask(topic, 0)
    assert after is not None
    assert after.offsets == LeaderOffsets(log_start_offset=5, last_stable_offset=28, high_watermark=28)
    assert not after.configs.remote_log_copy_disable
    assert after.configs.retention_bytes == 100_000


def test_every_record_is_what_a_consumer_reads_with_the_epoch_of_its_batch(
    kafka: LocalKafka, leader: KafkaLeader
) -> None:
    topic = f"served-{uuid4().hex}"
    not_copied_topic(kafka, topic)
    writer = Writer(kafka.bootstrap_servers, topic)
    writer.write(10)
    writer.abort(3)
    delete_records(kafka, topic, 0, 2)
    answer = leader.ask(topic, 0)
    assert answer is not None
    tip = answer.topic_id_partition

    served = {offset: leader.record_at(tip, offset) for offset in range(16)}

    expected = {record[0]: record for record in read_records(kafka.bootstrap_servers, topic)}
    # Deleted, a marker, the end, beyond it.
    assert [offset for offset, record in served.items() if record is None] == [0, 1, 13, 14, 15]
    for offset, record in served.items():
        if record is not None:
            assert (record.offset, record.key, record.value, record.headers) == (offset, *expected[offset][2:])
            assert record.timestamp_ms == expected[offset][1][1]
            assert record.leader_epoch == 0


def test_no_topic_and_no_partition_are_no_answer_and_none_is_created(kafka: LocalKafka, leader: KafkaLeader) -> None:
    topic = create_topic(kafka, 1)
    name = f"missing-{uuid4().hex}"

    assert leader.ask(topic, 1) is None
    assert leader.ask(name, 0) is None

    assert name not in tiering.topic_ids(kafka)
    delete_topic(kafka, topic)
    assert leader.ask(topic, 0) is None


def test_internal_topics_are_told_apart(kafka: LocalKafka, leader: KafkaLeader) -> None:
    # A transaction creates one.
    topic = create_topic(kafka, 1)
    Writer(kafka.bootstrap_servers, topic).commit(1)

    answer = leader.ask("__transaction_state", 0)

    assert answer is not None
    assert answer.is_internal


def test_another_cluster_serves_no_record(kafka: LocalKafka) -> None:
    topic = create_topic(kafka, 1)
    tip = TopicIdPartition(tiering.topic_ids(kafka)[topic], topic, 0)
    with (
        KafkaLeader(config_of(kafka), "another-cluster") as leader,
        pytest.raises(ClusterMismatchError, match="another-cluster"),
    ):
        leader.record_at(tip, 0)


def test_a_setting_that_is_not_told_passes_for_no_default(
    kafka: LocalKafka, leader: KafkaLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = create_topic(kafka, 1)
    monkeypatch.setattr("airflow_provider_rlmm.core.log.kafka.admin._BOOL_SETTINGS", ("remote.storage.enable",))
    with pytest.raises(EventLogAccessError, match=r"does not tell remote\.log\.copy\.disable"):
        leader.ask(topic, 0)


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (None, None),
        ((ResourceType.TOPIC, "orders", AclOperation.READ), "reading orders-0 at offset 0"),
        (
            (ResourceType.TOPIC, "orders", AclOperation.DESCRIBE_CONFIGS),
            "describing the configuration of topic 'orders'",
        ),
        ((ResourceType.TOPIC, "*", AclOperation.DESCRIBE), f"describing topic '{METADATA_TOPIC}'"),
    ],
    ids=["all", "records", "settings", "topics"],
)
def test_a_leader_answers_with_exactly_the_rights_of_the_page(
    authorized: AuthorizedKafka, missing: Acl | None, said: str | None
) -> None:
    rights = {
        (ResourceType.TOPIC, "*", AclOperation.DESCRIBE),  # as every job has it
        (ResourceType.TOPIC, "orders", AclOperation.READ),
        (ResourceType.TOPIC, "orders", AclOperation.DESCRIBE_CONFIGS),
    }
    allow_exactly(authorized, "copier", rights - {missing})
    config = KafkaClientConfig(authorized.login("copier"))
    refused = nullcontext() if said is None else pytest.raises(EventLogAccessError, match=said)

    with KafkaLeader(config, authorized.cluster_id) as asked, refused:
        answer = asked.ask("orders", 0)
        assert answer is not None
        assert asked.record_at(answer.topic_id_partition, 0) is not None


@pytest.fixture(scope="module")
def authorized() -> Iterator[AuthorizedKafka]:
    with AuthorizedKafka({"copier": "not-secret"}) as broker:
        not_copied_topic(broker, "orders")
        Writer(broker.bootstrap_servers, "orders").write(3)
        yield broker
