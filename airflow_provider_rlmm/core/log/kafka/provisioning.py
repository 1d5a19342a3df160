# SPDX-License-Identifier: Apache-2.0
"""Finding the metadata topic, or creating it as Kafka's ``TopicBasedRemoteLogMetadataManager`` would."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from confluent_kafka import KafkaError

from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    EventLogUnavailableError,
    MetadataTopicNotFoundError,
    RlmmError,
)
from airflow_provider_rlmm.core.log.kafka.client import METADATA_TOPIC, REQUEST_TIMEOUT_S, KafkaAdmin, admin_api
from airflow_provider_rlmm.core.log.kafka.manager_config import (
    TOPIC_MIN_ISR,
    TOPIC_NUM_PARTITIONS,
    TOPIC_REPLICATION_FACTOR,
    TOPIC_RETENTION_MS,
    TopicBasedRemoteLogMetadataManagerConfig,
)

MAX_WAIT_MS = 10_000
"""No wait between two attempts is longer."""

# An attempt that is left less than this could not even log in.
_SHORTEST_REQUEST_S = 1.0

# Errors of brokers that will never create such a topic → the properties that they are about.
_EVERY = (TOPIC_NUM_PARTITIONS, TOPIC_REPLICATION_FACTOR, TOPIC_RETENTION_MS, TOPIC_MIN_ISR)
_TO_BLAME = {
    "INVALID_PARTITIONS": (TOPIC_NUM_PARTITIONS,),
    "INVALID_REPLICATION_FACTOR": (TOPIC_REPLICATION_FACTOR,),
    "INVALID_CONFIG": (TOPIC_RETENTION_MS, TOPIC_MIN_ISR),
    **dict.fromkeys(("INVALID_REQUEST", "POLICY_VIOLATION", "TOPIC_EXCEPTION"), _EVERY),
}

_logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retry:
    """
    Exponential back-off with full jitter: each wait is drawn between zero and a bound that doubles.

    The libraries for it measure time and draw random numbers by themselves: a test could not turn the hands.
    """

    interval_ms: int  # bound of the first wait, ms
    max_timeout_ms: int  # time for all attempts and waits together, ms; 0 means one attempt
    clock: Callable[[], float] = time.monotonic  # monotonic time, s
    sleep: Callable[[float], object] = time.sleep  # waits, s
    draw: Callable[[], float] = random.random  # returns a random number of [0, 1)

    def call(self, what: str, attempt: Callable[[float], T]) -> T:
        """
        Try until it succeeds, fails for good, or the time is over.

        :param what: names the attempt in messages, such as ``initializing the metadata topic``.
        :param attempt: called with the seconds that are left, which it must respect.
        :return: what the attempt returned.
        :raises RlmmError: the attempt's own error: at once if it is not retriable; of the last attempt, saying how many
            there were, when the time is over.
        """
        deadline = self.clock() + self.max_timeout_ms / 1000
        bound_s = self.interval_ms / 1000
        attempts = 0
        while True:
            attempts += 1
            try:
                return attempt(max(0.0, deadline - self.clock()))
            except RlmmError as error:
                if not error.retriable:
                    raise
                wait_s = self.draw() * min(bound_s, MAX_WAIT_MS / 1000)
                if self.clock() + wait_s >= deadline:
                    # In place: an error may hold more than its message.
                    tried = f"{what} failed for {self.max_timeout_ms / 1000:g} s, attempts: {attempts}"
                    error.args = (f"{tried}; the last one: {error}",)
                    raise
                _logger.info("%s failed, trying again in %.1f s: %s", what, wait_s, error)
            self.sleep(wait_s)
            bound_s *= 2


@dataclass(frozen=True, slots=True)
class ProvisionedTopic:
    """The metadata topic that is there now."""

    topic_id: UUID  # its id
    partition_count: int  # its metadata partitions: what everybody who routes events must go by
    created: bool  # whether this call created it


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
        with closing(KafkaAdmin(config.client, min(request_timeout_s, max(left_s, _SHORTEST_REQUEST_S)))) as admin:
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

    if retry is None:
        retry = Retry(config.initialization_retry_interval_ms, config.initialization_retry_max_timeout_ms)
    found = retry.call(f"initializing topic {topic!r}", attempt)
    if found.partition_count != config.topic_num_partitions:
        said = "topic %s has %d partitions, %s is %d: the topic's own count is used"
        _logger.info(said, topic, found.partition_count, TOPIC_NUM_PARTITIONS, config.topic_num_partitions)
    return found


def _find(admin: KafkaAdmin, topic: str, *, created: bool) -> ProvisionedTopic:
    description = admin.metadata_topic(topic, admin.describe_topics([topic])[topic])
    return ProvisionedTopic(admin.topic_id(topic, description), len(description.partitions), created)


def _create(admin: KafkaAdmin, topic: str, config: TopicBasedRemoteLogMetadataManagerConfig) -> bool:
    """Create the topic; return whether it was this call that did."""
    new = admin_api.NewTopic(
        topic,
        num_partitions=config.topic_num_partitions,
        replication_factor=config.topic_replication_factor,
        # As Kafka's manager sets them.
        config={
            "cleanup.policy": "delete",
            "min.insync.replicas": str(config.topic_min_isr),
            "remote.storage.enable": "false",
            "retention.ms": str(config.topic_retention_ms),
        },
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
        if outcome.name() == "TOPIC_ALREADY_EXISTS":
            return False
        if (names := _TO_BLAME.get(outcome.name())) is not None:
            raise ConfigurationError(_refusal(topic, config, names, admin.watch.text_of(outcome)))
    admin.checked(what, outcome)
    _logger.info("topic %s created with %d partitions", topic, config.topic_num_partitions)
    return True


def _refusal(topic: str, config: TopicBasedRemoteLogMetadataManagerConfig, names: Sequence[str], why: str) -> str:
    settings = ", ".join(f"{name}={config.value_of(name)}" for name in names)
    return f"creating topic {topic!r} with {settings}, brokers {config.client.bootstrap_servers}: {why}"
