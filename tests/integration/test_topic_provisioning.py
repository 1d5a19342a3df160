# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from uuid import uuid4

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError, MetadataTopicNotFoundError
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.health import check_metadata_topic
from airflow_provider_rlmm.core.log.kafka.manager_config import TopicBasedRemoteLogMetadataManagerConfig
from airflow_provider_rlmm.core.log.kafka.provisioning import provision_metadata_topic
from airflow_provider_rlmm.core.log.metadata_settings import HealthSeverity
from dev.broker import METADATA_TOPIC
from tests.integration.kafka_topics import config_of, create_topic, existing_topics

pytestmark = pytest.mark.integration

DAY_MS = 86_400_000


@pytest.fixture
def topic():
    return f"metadata-{uuid4().hex}"


@pytest.fixture
def topics(kafka):
    return KafkaClusterTopics(config_of(kafka))


def manager_config(kafka, *, partitions=3, replicas=1):
    return TopicBasedRemoteLogMetadataManagerConfig.from_properties(
        {
            "remote.log.metadata.common.client.bootstrap.servers": kafka.bootstrap_servers,
            "remote.log.metadata.topic.num.partitions": partitions,
            "remote.log.metadata.topic.replication.factor": replicas,
        }
    )


def findings_of(topics, topic):
    return check_metadata_topic(topics, topics.describe_metadata_topic(topic), topic)


def test_an_absent_topic_is_created_as_kafka_would(kafka, topics, topic):
    created = provision_metadata_topic(manager_config(kafka), allow_create=True, topic=topic)

    assert created.created
    assert created.topic_id == topics.describe_topics([topic]).answers[topic]
    ours, kafkas = topics.describe_metadata_topic(topic), topics.describe_metadata_topic(METADATA_TOPIC)
    assert (ours.partition_count, {p.replicas for p in ours.replicas}) == (3, {1})
    assert ours.settings == kafkas.settings
    assert ours.settings["cleanup.policy"] == "delete"
    assert ours.settings["retention.ms"] == -1


def test_an_existing_topic_is_reused_and_left_as_it_is(kafka, topics, topic):
    create_topic(kafka, 2, name=topic)
    before = topics.describe_metadata_topic(topic)

    found = provision_metadata_topic(manager_config(kafka, partitions=7), allow_create=True, topic=topic)

    assert (found.topic_id, found.partition_count, found.created) == (before.topic_id, 2, False)
    assert topics.describe_metadata_topic(topic) == before


def test_without_leave_nothing_is_created(kafka, topic):
    with pytest.raises(MetadataTopicNotFoundError, match=topic):
        provision_metadata_topic(manager_config(kafka), allow_create=False, topic=topic)
    assert topic not in existing_topics(kafka)


def test_more_replicas_than_brokers_is_an_error_that_names_the_property(kafka, topic):
    with pytest.raises(ConfigurationError, match=r"remote\.log\.metadata\.topic\.replication\.factor=3"):
        provision_metadata_topic(manager_config(kafka, replicas=3), allow_create=True, topic=topic)
    assert topic not in existing_topics(kafka)


def test_the_brokers_own_metadata_topic_and_ours_are_healthy(kafka, topics, topic):
    provision_metadata_topic(manager_config(kafka), allow_create=True, topic=topic)

    # One replica, and min.insync.replicas=2: brokers ask for no more replicas than there are.
    assert findings_of(topics, METADATA_TOPIC) == []
    assert findings_of(topics, topic) == []


def test_what_would_lose_events_is_found(kafka, topics, topic):
    create_topic(
        kafka,
        1,
        settings={
            "remote.storage.enable": "true",
            "retention.ms": str(30 * DAY_MS),
            "local.retention.ms": "1000",
        },
    )
    create_topic(
        kafka,
        1,
        name=topic,
        settings={"cleanup.policy": "compact,delete", "retention.ms": str(DAY_MS), "retention.bytes": "100000"},
    )

    found = findings_of(topics, topic)

    assert [finding.severity for finding in found] == [HealthSeverity.ERROR] * 3
    # The versions of the running brokers tell that they write no keys.
    assert [finding.what_to_do.partition(";")[0] for finding in found] == [
        f"set {setting} on {topic}" for setting in ("cleanup.policy=delete", "retention.ms=-1", "retention.bytes=-1")
    ]
