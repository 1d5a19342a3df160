# SPDX-License-Identifier: Apache-2.0
"""Committed offsets in Kafka, under the cleaner's group id."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_rlmm.errors import MetadataTopicNotFoundError
from airflow_provider_rlmm.manager.kafka_client import (
    METADATA_TOPIC,
    REQUEST_TIMEOUT_S,
    KafkaAdmin,
    is_unknown_topic,
)
from airflow_provider_rlmm.manager.kafka_config import KafkaClientConfig


class KafkaOffsetStore:
    """
    An :class:`~airflow_provider_rlmm.manager.event_log.OffsetStore` in a consumer group without members.

    Nothing joins the group. Brokers forget the offsets of such a group after ``offsets.retention.minutes`` (7 days by
    default) without a commit; that means a replay and nothing else.

    :param config: the client's properties.
    :param group_id: the cleaner's group id.
    :param topic: the metadata topic.
    :param request_timeout_s: seconds for one request.
    """

    def __init__(
        self,
        config: KafkaClientConfig,
        group_id: str,
        topic: str = METADATA_TOPIC,
        *,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self._admin = KafkaAdmin(config, request_timeout_s)
        self._group_id = group_id
        self._topic = topic

    def committed(self) -> Mapping[int, int]:
        """
        See :class:`~airflow_provider_rlmm.manager.event_log.OffsetStore`; a missing group has committed nothing.

        :raises EventLogAccessError: if the group may not be described.
        :raises EventLogUnavailableError: if the brokers do not answer.
        """
        from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError

        request = [ConsumerGroupTopicPartitions(self._group_id)]
        timeout = self._admin.request_timeout_s
        what = f"asking for the offsets of group {self._group_id!r}"
        outcome = self._admin.results(
            what, lambda client: client.list_consumer_group_offsets(request, request_timeout=timeout)
        )[self._group_id]
        if isinstance(outcome, KafkaError) and outcome.code() == KafkaError.GROUP_ID_NOT_FOUND:
            return {}
        partitions = self._admin.checked(what, outcome).topic_partitions
        for partition in partitions:
            self._admin.checked(f"{what}, {partition.topic}-{partition.partition}", partition.error)
        return {p.partition: p.offset for p in partitions if p.topic == self._topic and p.offset >= 0}

    def commit(self, offsets: Mapping[int, int]) -> None:
        """
        See :class:`~airflow_provider_rlmm.manager.event_log.OffsetStore`.

        :raises MetadataTopicNotFoundError: if a metadata partition does not exist; brokers check that.
        :raises EventLogAccessError: if the group may not be written.
        :raises EventLogUnavailableError: if the brokers do not answer, or the group has members.
        """
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        if not offsets:
            return
        partitions = [TopicPartition(self._topic, p, offset) for p, offset in sorted(offsets.items())]
        request = [ConsumerGroupTopicPartitions(self._group_id, partitions)]
        timeout = self._admin.request_timeout_s
        what = f"committing offsets of group {self._group_id!r}"
        outcome = self._admin.results(
            what, lambda client: client.alter_consumer_group_offsets(request, request_timeout=timeout)
        )[self._group_id]
        for partition in self._admin.checked(what, outcome).topic_partitions:
            if is_unknown_topic(partition.error):
                raise MetadataTopicNotFoundError(
                    f"{what}, brokers {self._admin.config.bootstrap_servers}: there is no {self._topic}-{partition.partition}"
                )
            self._admin.checked(f"{what}, {partition.topic}-{partition.partition}", partition.error)

    def close(self) -> None:
        """Let the client go."""
        self._admin.close()
