# SPDX-License-Identifier: Apache-2.0
"""The living leader of a user partition, asked through Kafka: what it is, how far it reaches, which records it serves."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, Message, TopicPartition

from airflow_provider_rlmm.core.base.errors import EventLogAccessError
from airflow_provider_rlmm.core.log.answers import CopyConfigs, LeaderAnswer, LeaderOffsets, LeaderRecord
from airflow_provider_rlmm.core.log.copy_lag import AS_REMOTE, LOCAL_RETENTION_MS, copy_lag_of
from airflow_provider_rlmm.core.log.kafka.client import (
    METADATA_TOPIC,
    REQUEST_TIMEOUT_S,
    UNKNOWN_TOPIC,
    admin_api,
    is_error,
)
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.leader_clients import LeaderClients
from airflow_provider_rlmm.core.log.metadata_settings import TopicSettings
from airflow_provider_rlmm.core.records.era import policy_of
from airflow_provider_rlmm.core.records.records import TopicIdPartition

_ONE_RECORD = {"fetch.message.max.bytes": 1}
"""Of the consumer: each fetch is for one record."""

NOT_SERVED = frozenset({"_PARTITION_EOF", "_AUTO_OFFSET_RESET"})
"""What a consumer is told where a leader serves no record at an offset."""

_POLL_S = 0.1
_RETRY_S = 0.2


class KafkaLeader(LeaderClients):
    """
    A :class:`~airflow_provider_rlmm.core.log.living_leader.LivingLeader` on confluent-kafka.

    How many bytes a leader has is not told: confluent-kafka has no call for it.

    :param config: the clients' properties.
    :param cluster_id: the cluster that is worked on.
    :param metadata_topic: described with every topic: its id says which cluster has answered.
    :param request_timeout_s: seconds for one request, for one record to come, and for a leader to be elected.
    """

    def __init__(
        self,
        config: KafkaClientConfig,
        cluster_id: str,
        metadata_topic: str = METADATA_TOPIC,
        *,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        super().__init__(config, cluster_id, metadata_topic, request_timeout_s, "leader", _ONE_RECORD)

    def ask(self, topic: str, partition: int) -> LeaderAnswer | None:
        """
        See :class:`~airflow_provider_rlmm.core.log.living_leader.LivingLeader`.

        :raises EventLogAccessError: also if the cluster does not tell a setting of the topic.
        """
        deadline = time.monotonic() + self._admin.request_timeout_s
        while True:
            described = self._admin.describe_topics([self._metadata_topic, topic])
            if is_error(described[topic], UNKNOWN_TOPIC):
                # Only the right cluster may say that there is no such topic.
                self._admin.metadata_topic(self._metadata_topic, described[self._metadata_topic])
                return None
            description = self._admin.checked(f"describing topic {topic!r}", described[topic])
            leaders = {p.id: p.leader for p in description.partitions}
            if partition not in leaders:
                return None
            # Between two leaders there is none for a moment, which must not pass for a partition without a leader.
            if leaders[partition] is not None or time.monotonic() >= deadline:
                break
            time.sleep(_RETRY_S)
        witness = self._admin.metadata_topic(self._metadata_topic, described[self._metadata_topic])
        settings = self._topics.topic_settings([topic]).get(topic)
        if settings is None:
            return None
        return LeaderAnswer(
            TopicIdPartition(self._admin.topic_id(topic, description), topic, partition),
            metadata_topic_id=self._admin.topic_id(self._metadata_topic, witness),
            is_internal=bool(description.is_internal),
            configs=copy_configs_of(topic, settings),
            offsets=None if leaders[partition] is None else self._offsets(topic, partition),
            leader=None if (node := leaders[partition]) is None else int(node.id),
        )

    def _offsets(self, topic: str, partition: int) -> LeaderOffsets:
        def offset(spec: Any, isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED) -> int:
            (answer,) = self._admin.list_offsets([(topic, partition)], spec, isolation_level).values()
            return int(self._admin.checked(f"asking for offsets of {topic}-{partition}", answer).offset)

        # In this order: each may only grow meanwhile, so the start is never above what is said to be its end.
        return LeaderOffsets(
            log_start_offset=offset(admin_api.OffsetSpec.earliest()),
            last_stable_offset=offset(admin_api.OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
            high_watermark=offset(admin_api.OffsetSpec.latest()),
        )

    def record_at(self, topic_id_partition: TopicIdPartition, offset: int) -> LeaderRecord | None:
        """See :class:`~airflow_provider_rlmm.core.log.living_leader.LivingLeader`."""
        topic, partition = topic_id_partition.topic, topic_id_partition.partition
        what = f"reading {topic}-{partition} at offset {offset}"
        consumer = self._open_consumer()
        self._watch.forget()
        consumer.assign([TopicPartition(topic, partition, offset)])
        deadline = time.monotonic() + self._admin.request_timeout_s
        while time.monotonic() < deadline:
            message = consumer.poll(_POLL_S)
            self._watch.raise_if_denied(what)
            if message is None:
                continue
            error = message.error()
            if error is None:
                return _record(message) if message.offset() == offset else None
            if error.name() in NOT_SERVED:
                return None
            self._raise_unless_passing(what, error)
        raise self._watch.error(what, f"no record and no end within {self._admin.request_timeout_s:g} s")

    def _raise_unless_passing(self, what: str, error: KafkaError) -> None:
        # librdkafka looks for the coordinator of its unused group; nothing here needs permission for it.
        if error.name() != "GROUP_AUTHORIZATION_FAILED":
            raise self._watch.error(what, error)


def copy_configs_of(topic: str, settings: TopicSettings) -> CopyConfigs:
    """
    Return what decides about copying.

    :param topic: its name, for the message.
    :param settings: of the topic, in effect now.
    :raises EventLogAccessError: if a setting is missing: what is not known must not pass for a default.
    """
    needed = ("remote.storage.enable", "remote.log.copy.disable", "cleanup.policy", "retention.ms", "retention.bytes")
    if missing := [name for name in needed if name not in settings]:
        raise EventLogAccessError(
            f"topic {topic!r}: the cluster does not tell {', '.join(missing)}; copying needs Kafka 3.9 or later, and "
            "DESCRIBE_CONFIGS on the topic"
        )
    return CopyConfigs(
        remote_storage_enable=bool(settings["remote.storage.enable"]),
        remote_log_copy_disable=bool(settings["remote.log.copy.disable"]),
        cleanup_policy=policy_of(str(settings["cleanup.policy"])),
        retention_ms=int(settings["retention.ms"]),
        retention_bytes=int(settings["retention.bytes"]),
        diskless_enable=bool(settings.get("diskless.enable", False)),
        copy_lag=copy_lag_of(settings),
        local_retention_ms=int(settings.get(LOCAL_RETENTION_MS, AS_REMOTE)),
        segment_ms=None if (segment_ms := settings.get("segment.ms")) is None else int(segment_ms),
    )


def _record(message: Message) -> LeaderRecord:
    headers: Any = message.headers() or []
    epoch, offset = message.leader_epoch(), message.offset()
    return LeaderRecord(
        offset=-1 if offset is None else offset,
        leader_epoch=-1 if epoch is None else epoch,
        timestamp_ms=message.timestamp()[1],
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        headers=tuple((name, _bytes(value)) for name, value in headers),
    )


def _bytes(value: Any) -> bytes | None:
    # librdkafka's type says text, too.
    return None if value is None else bytes(value)
