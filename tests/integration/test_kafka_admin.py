# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from uuid import uuid4

import pytest
from confluent_kafka import Producer

from airflow_provider_rlmm.core.base.errors import EventLogAccessError, MetadataTopicNotFoundError
from airflow_provider_rlmm.core.log.broker_versions import BrokerVersion, versions_of
from airflow_provider_rlmm.core.log.kafka import client
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.topic_answers import NoTopic
from airflow_provider_rlmm.core.world.storage_plugin import PLUGIN_CLASS
from dev.broker import METADATA_TOPIC, await_condition
from tests.integration.kafka_topics import (
    TIMEOUT_S,
    config_of,
    create_topic,
    delete_records,
    delete_topic,
    existing_topics,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def topics(kafka):
    return KafkaClusterTopics(config_of(kafka))


def test_the_cluster_has_its_id(kafka, topics):
    assert topics.cluster_id() == kafka.cluster_id


def test_the_listing_is_complete_and_its_ids_are_kafkas(kafka, topics, monkeypatch):
    names = [create_topic(kafka, 1) for _ in range(3)]
    monkeypatch.setattr(client, "CHUNK", 2)

    listing = topics.list_topics()

    assert set(listing) == existing_topics(kafka)
    assert METADATA_TOPIC in listing
    assert len(set(listing.values())) == len(listing)
    for name in names:
        # Kafka writes the id into each partition's folder; it is the only source that does not pass through a client.
        metadata = (kafka.log_dir / f"{name}-0" / "partition.metadata").read_text()
        assert f"topic_id: {kafka_uuid_str(listing[name])}" in metadata
        assert topics.describe_topics([name]).answers == {name: listing[name]}


def test_every_describe_says_which_metadata_topic_the_cluster_has(kafka, topics, monkeypatch):
    names = [create_topic(kafka, 1) for _ in range(3)]
    monkeypatch.setattr(client, "CHUNK", 2)
    metadata_topic_id = topics.list_topics()[METADATA_TOPIC]

    for asked in ([], names, [*names, METADATA_TOPIC]):
        described = topics.describe_topics(asked)
        assert described.metadata_topic_id == metadata_topic_id
        assert set(described.answers) == set(asked)
    assert METADATA_TOPIC in topics.topic_names()


def test_a_look_without_the_metadata_topic_is_refused(kafka):
    name = create_topic(kafka, 1)
    elsewhere = KafkaClusterTopics(config_of(kafka), f"missing-{uuid4().hex}")

    with pytest.raises(EventLogAccessError, match="lacks 'missing-"):
        elsewhere.topic_names()
    with pytest.raises(MetadataTopicNotFoundError, match="missing-"):
        elsewhere.describe_topics([name])


def test_a_deleted_topic_is_absent_and_a_new_one_of_its_name_is_another(kafka, topics):
    name = create_topic(kafka, 1)
    first = topics.describe_topics([name]).answers[name]

    delete_topic(kafka, name)

    assert topics.describe_topics([name]).answers == {name: NoTopic.UNKNOWN}
    assert name not in topics.list_topics()
    create_topic(kafka, 1, name=name)
    assert topics.describe_topics([name]).answers[name] not in (NoTopic.UNKNOWN, first)


def test_asking_for_a_topic_never_creates_it(kafka, topics):
    name = f"missing-{uuid4().hex}"

    assert topics.describe_topics([name]).answers == {name: NoTopic.UNKNOWN}
    assert topics.topic_settings([name]) == {}
    assert topics.log_start_offsets({name: 2}) == {}
    with pytest.raises(MetadataTopicNotFoundError, match=name):
        topics.describe_metadata_topic(name)

    assert name not in existing_topics(kafka)


@pytest.mark.parametrize("name", ["", "..", "../../etc", "a/b", "x" * 300])
def test_a_name_that_no_topic_can_have_is_not_absent_but_an_error(topics, name):
    with pytest.raises(EventLogAccessError, match="cannot be described"):
        topics.describe_topics([name])


def test_settings_are_the_ones_in_effect(kafka, topics):
    name = create_topic(
        kafka, 1, settings={"remote.storage.enable": "true", "retention.ms": "86400000", "local.retention.ms": "1000"}
    )

    settings = topics.topic_settings([name, "missing"])

    assert set(settings) == {name}
    assert settings[name]["retention.ms"] == 86_400_000
    assert settings[name]["retention.bytes"] == -1
    assert settings[name]["remote.storage.enable"] is True
    assert settings[name]["remote.log.copy.disable"] is False
    assert settings[name]["cleanup.policy"] == "delete"


def test_brokers_name_their_storage_plugin_and_hide_its_own_settings(topics):
    assert topics.broker_setting(PLUGIN_CLASS) == {1: "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"}
    assert topics.broker_setting("rsm.config.dir") == {1: None}
    assert topics.broker_setting("there.is.none") == {}


def test_kafkas_own_brokers_know_no_topics_without_disks(kafka, topics):
    name = create_topic(kafka, 1)

    assert topics.diskless_topics([name, METADATA_TOPIC, "missing"]) == {}
    assert "diskless.enable" not in topics.topic_settings([name])[name]


def test_a_broker_lists_the_settings_by_which_its_version_is_told(topics):
    assert versions_of(topics.broker_setting_names()) == {1: BrokerVersion((3, 6), (4, 4))}


def test_partitions_that_do_not_exist_have_no_log_start_offset(kafka, topics):
    name = create_topic(kafka, 2)

    assert topics.log_start_offsets({name: 3}) == {(name, 0): 0, (name, 1): 0}
    assert topics.log_start_offsets({}) == {}


def test_the_log_start_offset_of_a_tiered_topic_includes_the_remote_log(kafka, topics):
    name = create_topic(
        kafka,
        1,
        settings={
            "remote.storage.enable": "true",
            "local.retention.ms": "1000",
            "retention.ms": "86400000",
            "internal.segment.bytes": "16384",
        },
    )
    # One record per batch: a segment is rolled between two batches.
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 2, "batch.num.messages": 1})
    for _ in range(200):
        producer.produce(name, bytes(1_000), partition=0)
    assert producer.flush(TIMEOUT_S) == 0

    def local_start():
        return min(int(path.stem) for path in (kafka.log_dir / f"{name}-0").glob("*.log"))

    await_condition(local_start, "the first segments are only remote", TIMEOUT_S)

    assert topics.log_start_offsets({name: 1}) == {(name, 0): 0}
    delete_records(kafka, name, 0, 5)
    assert local_start() > 5
    assert topics.log_start_offsets({name: 1}) == {(name, 0): 5}


def test_the_metadata_topic_is_described(kafka, topics):
    description = topics.describe_metadata_topic()

    assert description.topic_id == topics.describe_topics(()).metadata_topic_id
    assert description.partition_count == kafka.metadata_partitions
    assert description.settings["retention.ms"] == -1
    assert description.settings["min.insync.replicas"] == 2
    assert description.authorized_operations is not None
    assert {"READ", "WRITE", "DESCRIBE"} <= description.authorized_operations
