# SPDX-License-Identifier: Apache-2.0
"""Topics of the tests' own on a shared broker."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.records.topic_answers import NoTopic
from dev.broker import LocalKafka, await_condition

METADATA_SETTINGS = {"cleanup.policy": "delete", "retention.ms": "-1", "min.insync.replicas": "2"}
"""As the broker sets up ``__remote_log_metadata``; never write garbage into that one, it ends the broker's consumer."""

TIMEOUT_S = 30.0


def config_of(kafka: LocalKafka, **properties: object) -> KafkaClientConfig:
    return KafkaClientConfig({"bootstrap.servers": kafka.bootstrap_servers} | properties)


def admin_of(kafka: LocalKafka) -> AdminClient:
    """Return a plain admin client; keep it referenced while its futures run."""
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 2})


def create_topic(
    kafka: LocalKafka, partitions: int, *, name: str | None = None, settings: Mapping[str, str] = METADATA_SETTINGS
) -> str:
    """Create a topic and return its name once the broker leads all of it."""
    topic = name or f"test-{uuid4().hex}"
    admin = admin_of(kafka)
    admin.create_topics([NewTopic(topic, partitions, 1, config=dict(settings))])[topic].result(TIMEOUT_S)
    topics = KafkaClusterTopics(config_of(kafka))

    await_condition(
        lambda: len(topics.log_start_offsets({topic: partitions})) == partitions, f"{topic} is led", TIMEOUT_S
    )
    return topic


def delete_topic(kafka: LocalKafka, topic: str) -> None:
    """Delete a topic and return once the broker does not know it any more."""
    admin = admin_of(kafka)
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    topics = KafkaClusterTopics(config_of(kafka))
    await_condition(
        lambda: topics.describe_topics([topic]).answers[topic] is NoTopic.UNKNOWN, f"{topic} is gone", TIMEOUT_S
    )


def delete_records(kafka: LocalKafka, topic: str, partition: int, before_offset: int) -> None:
    admin = admin_of(kafka)
    (future,) = admin.delete_records([TopicPartition(topic, partition, before_offset)]).values()
    future.result(TIMEOUT_S)


def set_policy(kafka: LocalKafka, topic: str, policy: str) -> None:
    """Set a topic's ``cleanup.policy`` and return once the broker tells it."""
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = admin_of(kafka)
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
    topics = KafkaClusterTopics(config_of(kafka))
    await_condition(
        lambda: topics.topic_settings([topic])[topic]["cleanup.policy"] == policy, f"{topic} is {policy}", TIMEOUT_S
    )


def existing_topics(kafka: LocalKafka) -> set[str]:
    """Names by the plain metadata request, which this package's own listing is checked against."""
    return set(admin_of(kafka).list_topics(timeout=TIMEOUT_S).topics)
