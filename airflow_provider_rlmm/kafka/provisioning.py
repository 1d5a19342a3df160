# SPDX-License-Identifier: Apache-2.0
"""Finding the metadata topic, or creating it as Kafka's ``TopicBasedRemoteLogMetadataManager`` would."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from uuid import UUID

from airflow_provider_rlmm.errors import ConfigurationError, EventLogUnavailableError, MetadataTopicNotFoundError
from airflow_provider_rlmm.kafka.client import (
    METADATA_TOPIC,
    REQUEST_TIMEOUT_S,
    KafkaAdmin,
    admin_api,
)
from airflow_provider_rlmm.kafka.describing import metadata_topic_description, topic_id_of
from airflow_provider_rlmm.kafka.manager_config import (
    TOPIC_MIN_ISR,
    TOPIC_NUM_PARTITIONS,
    TOPIC_REPLICATION_FACTOR,
    TOPIC_RETENTION_MS,
    TopicBasedRemoteLogMetadataManagerConfig,
)
from airflow_provider_rlmm.kafka.retry import Retry

# An attempt that is left less than this could not even log in.
_SHORTEST_REQUEST_S = 1.0

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProvisionedTopic:
    """
    The metadata topic that is there now.

    :param topic_id: its id.
    :param partition_count: its metadata partitions: what everybody who routes events must go by.
    :param created: whether this call created it.
    """

    topic_id: UUID
    partition_count: int
    created: bool


def provision_metadata_topic(
    config: TopicBasedRemoteLogMetadataManagerConfig,
    *,
    allow_create: bool,
    topic: str = METADATA_TOPIC,
    request_timeout_s: float = REQUEST_TIMEOUT_S,
    retry: Retry | None = None,
) -> ProvisionedTopic:
    """
    Find the metadata topic; create it if it is absent and the caller allows that.

    An existing topic is used as it is: nothing about it is changed, and its partition count wins over the configured one.

    :param config: settings of the manager; they say how long to try, and what a new topic is like.
    :param allow_create: whether an absent topic may be created; creating is a write.
    :param topic: its name.
    :param request_timeout_s: seconds for one request.
    :param retry: how to try again, by default as the configuration says.
    :raises MetadataTopicNotFoundError: if it is absent and may not be created by this caller.
    :raises TopicIdMissingError: if it has no id.
    :raises ConfigurationError: if the brokers refuse to create it like that, naming the property.
    :raises EventLogAccessError: if the login fails, or an ACL forbids to describe or to create it.
    :raises EventLogUnavailableError: if the brokers do not answer in time.
    """
    created = False

    def attempt(left_s: float) -> ProvisionedTopic:
        nonlocal created
        with KafkaAdmin(config.client, min(request_timeout_s, max(left_s, _SHORTEST_REQUEST_S))) as admin:
            try:
                return _find(admin, topic, created=created)
            except MetadataTopicNotFoundError:
                if not allow_create:
                    raise
            created = _create(admin, topic, config) or created
            try:
                return _find(admin, topic, created=created)
            except MetadataTopicNotFoundError as error:
                # The controller has it, the broker that was asked has not heard of it yet.
                raise EventLogUnavailableError(f"topic {topic!r} was just created and does not show yet") from error

    found = (retry or config.initialization_retry()).call(f"initializing topic {topic!r}", attempt)
    if found.partition_count != config.topic_num_partitions:
        _logger.info(
            "topic %s has %d partitions, %s is %d: the topic's own count is used",
            topic,
            found.partition_count,
            TOPIC_NUM_PARTITIONS,
            config.topic_num_partitions,
        )
    return found


def topic_configs(config: TopicBasedRemoteLogMetadataManagerConfig) -> dict[str, str]:
    """
    Return the settings of a new metadata topic, as Kafka's manager sets them.

    :param config: settings of the manager.
    """
    return {
        "cleanup.policy": "delete",
        "min.insync.replicas": str(config.topic_min_isr),
        "remote.storage.enable": "false",
        "retention.ms": str(config.topic_retention_ms),
    }


def _find(admin: KafkaAdmin, topic: str, *, created: bool) -> ProvisionedTopic:
    description = metadata_topic_description(admin, topic)
    return ProvisionedTopic(topic_id_of(admin, topic, description), len(description.partitions), created)


@cache
def _to_blame() -> dict[int, tuple[str, ...]]:
    """Error codes of brokers that will never create such a topic → the properties that they are about."""
    from confluent_kafka import KafkaError

    every = (TOPIC_NUM_PARTITIONS, TOPIC_REPLICATION_FACTOR, TOPIC_RETENTION_MS, TOPIC_MIN_ISR)
    return {
        KafkaError.INVALID_PARTITIONS: (TOPIC_NUM_PARTITIONS,),
        KafkaError.INVALID_REPLICATION_FACTOR: (TOPIC_REPLICATION_FACTOR,),
        KafkaError.INVALID_CONFIG: (TOPIC_RETENTION_MS, TOPIC_MIN_ISR),
        KafkaError.INVALID_REQUEST: every,
        KafkaError.POLICY_VIOLATION: every,
        KafkaError.TOPIC_EXCEPTION: every,
    }


def _create(admin: KafkaAdmin, topic: str, config: TopicBasedRemoteLogMetadataManagerConfig) -> bool:
    """Create the topic; return whether it was this call that did."""
    from confluent_kafka import KafkaError

    new = admin_api().NewTopic(
        topic,
        num_partitions=config.topic_num_partitions,
        replication_factor=config.topic_replication_factor,
        config=topic_configs(config),
    )
    what = f"creating topic {topic!r}, which needs the ACL CREATE"
    timeout = admin.request_timeout_s
    try:
        outcome = admin.results(
            what, lambda client: client.create_topics([new], operation_timeout=timeout, request_timeout=timeout)
        )[topic]
    except ValueError as error:
        # librdkafka's own limits are below Kafka's.
        refused = _refusal(topic, config, (TOPIC_NUM_PARTITIONS, TOPIC_REPLICATION_FACTOR), str(error))
        raise ConfigurationError(refused) from error
    if isinstance(outcome, KafkaError):
        if outcome.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        if (names := _to_blame().get(outcome.code())) is not None:
            raise ConfigurationError(_refusal(topic, config, names, admin.watch.text_of(outcome)))
    admin.checked(what, outcome)
    _logger.info("topic %s created with %d partitions", topic, config.topic_num_partitions)
    return True


def _refusal(topic: str, config: TopicBasedRemoteLogMetadataManagerConfig, names: Sequence[str], why: str) -> str:
    settings = ", ".join(f"{name}={config.value_of(name)}" for name in names)
    return f"creating topic {topic!r} with {settings}, brokers {config.client.bootstrap_servers}: {why}"
