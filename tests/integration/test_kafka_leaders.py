# SPDX-License-Identifier: Apache-2.0
"""What is asked of the living leaders of many user partitions, on a real broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType

from airflow_provider_rlmm.core.base.errors import ClusterMismatchError
from airflow_provider_rlmm.core.log.answers import NewestRecord, NotTold, PartitionLook, ServedRecord, TopicLook
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.leaders import KafkaLeaders
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from dev import tiering
from dev.authorized import AuthorizedKafka
from dev.broker import METADATA_TOPIC, LocalKafka
from tests.integration.acls import Acl, allow_exactly
from tests.integration.copying.world import not_copied_topic
from tests.integration.copying.writing import Writer
from tests.integration.kafka_topics import config_of, create_topic, delete_records

pytestmark = pytest.mark.integration


@pytest.fixture
def leaders(kafka: LocalKafka) -> Iterator[KafkaLeaders]:
    # The first tiered topic makes the metadata topic.
    not_copied_topic(kafka, f"first-{uuid4().hex}")
    with KafkaLeaders(config_of(kafka), kafka.cluster_id, tiering.topic_ids(kafka)[METADATA_TOPIC]) as asked:
        yield asked


def test_one_look_at_many_says_what_they_are_and_how_far_they_reach(kafka: LocalKafka, leaders: KafkaLeaders) -> None:
    topic, local = f"asked-{uuid4().hex}", create_topic(kafka, 40)
    not_copied_topic(kafka, topic)
    Writer(kafka.bootstrap_servers, topic).write(20)
    delete_records(kafka, topic, 0, 5)
    ids = tiering.topic_ids(kafka)
    tip = TopicIdPartition(ids[topic], topic, 0)
    wide = [TopicIdPartition(ids[local], local, n) for n in range(41)]
    gone = TopicIdPartition(UUID(int=1), f"missing-{uuid4().hex}", 0)

    found = leaders.look([tip, *wide, gone])

    look = found[tip]
    assert isinstance(look, PartitionLook)
    assert look.topic_id_partition == tip
    assert (look.log_start_offset, look.high_watermark, look.leader_epoch) == (5, 20, 0)
    assert look.configs.remote_storage_enable
    assert look.configs.retention_ms == 86_400_000
    assert [isinstance(found[one], PartitionLook) for one in wide] == [True] * 40 + [False]
    assert found[gone] == NotTold("there is no such topic any more")
    assert gone.topic not in tiering.topic_ids(kafka)
    topics = leaders.topics()
    told = topics[local]
    assert isinstance(told, TopicLook)
    assert (told.topic_id, told.partitions) == (ids[local], 40)
    assert METADATA_TOPIC not in topics


def test_first_records_are_told_with_their_epochs_and_ends_as_ends(kafka: LocalKafka, leaders: KafkaLeaders) -> None:
    topic = create_topic(kafka, 30)
    topic_id = tiering.topic_ids(kafka)[topic]
    tips = [TopicIdPartition(topic_id, topic, n) for n in range(30)]
    writer = Writer(kafka.bootstrap_servers, topic)
    writer.write(10)
    # Markers of transactions take an offset and are not served.
    writer.commit(3)
    writer.write(2)

    found = leaders.first_records(
        {tips[0]: 4, **dict.fromkeys(tips[1:29], 0), tips[29]: 7, replace(tips[0], topic=f"no-{topic}"): 0}
    )

    assert found[tips[0]] == ServedRecord(4, 0)
    assert all(found[one] is None for one in tips[1:])
    assert isinstance(found[replace(tips[0], topic=f"no-{topic}")], NotTold)
    again = leaders.first_records({tips[0]: 13})
    assert again == {tips[0]: ServedRecord(14, 0)}, "offset 13 is the marker's"
    assert leaders.first_records({tips[0]: 100}) == {tips[0]: None}


def test_the_times_of_records_are_told(kafka: LocalKafka, leaders: KafkaLeaders) -> None:
    topic = create_topic(kafka, 3)
    topic_id = tiering.topic_ids(kafka)[topic]
    tips = [TopicIdPartition(topic_id, topic, n) for n in range(3)]
    begun_ms = int(time.time() * 1_000)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for hours in (5, 1, 3):
        producer.produce(topic, b"x", partition=0, timestamp=begun_ms - hours * 3_600_000)
        producer.flush()

    absent = replace(tips[0], topic=f"no-{topic}")
    newest = leaders.newest_records([*tips, absent])

    assert newest[tips[0]] == NewestRecord(1, begun_ms - 3_600_000)
    assert (newest[tips[1]], newest[tips[2]]) == (None, None)
    assert isinstance(newest[absent], NotTold)
    hours_ago = {4: 1, 6: 0, 0: None}
    for hours, first in hours_ago.items():
        assert leaders.first_since({tips[0]: begun_ms - hours * 3_600_000}) == {tips[0]: first}
    found = leaders.first_since({tips[0]: begun_ms - 6 * 3_600_000, tips[1]: 0})
    assert found == {tips[0]: 0, tips[1]: None}
    look = leaders.look(tips)[tips[0]]
    assert isinstance(look, PartitionLook)
    assert look.configs.segment_ms == 604_800_000


def test_another_cluster_is_not_believed(kafka: LocalKafka, leaders: KafkaLeaders) -> None:
    topic = create_topic(kafka, 1)
    tip = TopicIdPartition(tiering.topic_ids(kafka)[topic], topic, 0)
    with (
        KafkaLeaders(config_of(kafka), kafka.cluster_id, UUID(int=5)) as other,
        pytest.raises(ClusterMismatchError, match="these are two clusters"),
    ):
        other.look([tip])
    with (
        KafkaLeaders(config_of(kafka), "another-cluster", UUID(int=5)) as other,
        pytest.raises(ClusterMismatchError, match="another-cluster"),
    ):
        other.first_records({tip: 0})


@pytest.mark.rare
@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (None, None),
        ((ResourceType.TOPIC, "orders", AclOperation.READ), "its leader serves no records: TOPIC_AUTHORIZATION_FAILED"),
        ((ResourceType.TOPIC, "orders", AclOperation.DESCRIBE_CONFIGS), "its settings may not be described"),
    ],
    ids=["all", "records", "settings"],
)
def test_a_right_that_is_missing_is_told_of_the_topic(
    authorized: AuthorizedKafka, missing: Acl | None, said: str | None
) -> None:
    rights = {
        (ResourceType.TOPIC, "*", AclOperation.DESCRIBE),  # as every job has it
        (ResourceType.TOPIC, "orders", AclOperation.READ),
        (ResourceType.TOPIC, "orders", AclOperation.DESCRIBE_CONFIGS),
    }
    allow_exactly(authorized, "reader", rights - {missing})
    ids = tiering.topic_ids(authorized)
    tip = TopicIdPartition(ids["orders"], "orders", 0)
    config = KafkaClientConfig(authorized.login("reader"))
    with KafkaLeaders(config, authorized.cluster_id, ids[METADATA_TOPIC]) as asked:
        answers = [asked.look([tip])[tip], asked.first_records({tip: 0})[tip]]
    told = [one.why for one in answers if isinstance(one, NotTold)]
    assert len(told) == (0 if said is None else 1)
    assert all(why.startswith(said or "") for why in told)


@pytest.fixture(scope="module")
def authorized() -> Iterator[AuthorizedKafka]:
    with AuthorizedKafka({"reader": "not-secret"}) as broker:
        not_copied_topic(broker, "orders")
        Writer(broker.bootstrap_servers, "orders").write(3)
        yield broker
