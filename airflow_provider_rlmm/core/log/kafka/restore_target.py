# SPDX-License-Identifier: Apache-2.0
"""What a topic is that archived records are restored into: asked before and after, and nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from airflow_provider_rlmm.core.base.errors import RestoreError
from airflow_provider_rlmm.core.log.answers import TargetTopic
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.client import METADATA_TOPIC, UNKNOWN_TOPIC, KafkaAdmin, admin_api, is_error
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig


class RestoreTarget:
    """
    A topic that archived records are to be written to. The client is opened when first used.

    :param config: the client's properties.
    :param topic: its name; it must exist.
    """

    def __init__(self, config: KafkaClientConfig, topic: str) -> None:
        self._config = config
        self._topic = topic
        self._admin = KafkaAdmin(config)

    def look(self) -> TargetTopic:
        """
        Ask what the topic is now.

        :raises RestoreError: if it does not exist, or is internal.
        :raises EventLogAccessError: if it may not be described.
        :raises EventLogUnavailableError: if no broker answers.
        """
        outcome = self._admin.describe_topics([self._topic])[self._topic]
        if is_error(outcome, UNKNOWN_TOPIC):
            raise RestoreError(
                f"topic {self._topic!r} does not exist: create it with as many partitions as the archive, "
                "message.timestamp.type=CreateTime and retention.ms=-1"
            )
        description = self._admin.checked(f"describing topic {self._topic!r}", outcome)
        if description.is_internal or self._topic == METADATA_TOPIC:
            raise RestoreError(f"topic {self._topic!r} is Kafka's own: restore into a topic of yours")
        numbers = sorted(partition.id for partition in description.partitions)
        settings = KafkaClusterTopics(self._config).topic_settings([self._topic]).get(self._topic, {})
        return TargetTopic(
            self._topic,
            self._admin.topic_id(self._topic, outcome),
            self._offsets(numbers, admin_api.OffsetSpec.earliest()),
            self._offsets(numbers, admin_api.OffsetSpec.latest()),
            settings,
        )

    def _offsets(self, partitions: list[int], spec: Any) -> Mapping[int, int]:
        found = self._admin.list_offsets([(self._topic, number) for number in partitions], spec)
        what = f"asking for the offsets of {self._topic!r}"
        return {number: int(self._admin.checked(what, answer).offset) for (_, number), answer in found.items()}

    def close(self) -> None:
        """Let the client go."""
        self._admin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
