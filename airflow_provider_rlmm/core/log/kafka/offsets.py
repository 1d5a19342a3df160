# SPDX-License-Identifier: Apache-2.0
"""Committed offsets in Kafka, under the cleaner's group id."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from airflow_provider_rlmm.core.base.errors import EventLogUnavailableError, MetadataTopicNotFoundError
from airflow_provider_rlmm.core.log.kafka.client import (
    METADATA_TOPIC,
    REQUEST_TIMEOUT_S,
    UNKNOWN_TOPIC,
    KafkaAdmin,
    is_error,
)
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig

_MOVED = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")
_MOVED_S = 0.2


@dataclass
class KafkaOffsetStore:
    """
    An :class:`~airflow_provider_rlmm.core.log.protocol.OffsetStore` in a consumer group without members.

    Nothing joins the group. Brokers forget the offsets of such a group after ``offsets.retention.minutes`` (7 days by
    default) without a commit; that means a replay and nothing else.

    :param config: the client's properties.
    :param group_id: the cleaner's group id.
    :param topic: the metadata topic.
    :param request_timeout_s: seconds for one request; one without an answer is sent a second time.
    """

    config: KafkaClientConfig
    group_id: str
    topic: str = METADATA_TOPIC
    request_timeout_s: float = field(default=REQUEST_TIMEOUT_S, kw_only=True)

    def __post_init__(self) -> None:
        self._admin = KafkaAdmin(self.config, self.request_timeout_s)

    def committed(self) -> Mapping[int, int]:
        """
        See :class:`~airflow_provider_rlmm.core.log.protocol.OffsetStore`; a missing group has committed nothing.

        :raises EventLogAccessError: if the group may not be described.
        :raises EventLogUnavailableError: if the brokers do not answer.
        """
        request = [ConsumerGroupTopicPartitions(self.group_id)]
        timeout = self._admin.request_timeout_s
        what = f"asking for the offsets of group {self.group_id!r}"
        outcome = self._ask(what, lambda client: client.list_consumer_group_offsets(request, request_timeout=timeout))
        if is_error(outcome, "GROUP_ID_NOT_FOUND"):
            return {}
        partitions = self._admin.checked(what, outcome).topic_partitions
        for partition in partitions:
            self._admin.checked(f"{what}, {partition.topic}-{partition.partition}", partition.error)
        return {p.partition: p.offset for p in partitions if p.topic == self.topic and p.offset >= 0}

    def commit(self, offsets: Mapping[int, int]) -> None:
        """
        See :class:`~airflow_provider_rlmm.core.log.protocol.OffsetStore`.

        :raises MetadataTopicNotFoundError: if a metadata partition does not exist; brokers check that.
        :raises EventLogAccessError: if the group may not be written.
        :raises EventLogUnavailableError: if the brokers do not answer, or the group has members.
        """
        if not offsets:
            return
        partitions = [TopicPartition(self.topic, p, offset) for p, offset in sorted(offsets.items())]
        request = [ConsumerGroupTopicPartitions(self.group_id, partitions)]
        timeout = self._admin.request_timeout_s
        what = f"committing offsets of group {self.group_id!r}"
        deadline = time.monotonic() + timeout
        while True:
            outcome = self._ask(
                what, lambda client: client.alter_consumer_group_offsets(request, request_timeout=timeout)
            )
            answered = self._admin.checked(what, outcome).topic_partitions
            if time.monotonic() > deadline or not any(is_error(p.error, *_MOVED) for p in answered):
                break
            # The first commit of a cluster creates the offsets topic; until its partitions are led there is no coordinator.
            self._admin.close()
            time.sleep(_MOVED_S)
        for partition in answered:
            if is_error(partition.error, UNKNOWN_TOPIC):
                raise MetadataTopicNotFoundError(
                    f"{what}, brokers {self._admin.config.bootstrap_servers}: there is no {self.topic}-{partition.partition}"
                )
            self._admin.checked(f"{what}, {partition.topic}-{partition.partition}", partition.error)

    def _ask(self, what: str, start: Callable[[AdminClient], Mapping[str, Future[Any]]]) -> Any:
        """
        Ask the group's coordinator, and once more with a new client where there was no answer.

        A client whose search for the coordinator fails on a dying connection does not search again: it waits for the next
        change of a connection (librdkafka's ``rd_kafka_coord_req_fsm``), and after a broker's restart none may come. Both
        requests may be sent twice.
        """
        try:
            outcome = self._admin.results(what, start)[self.group_id]
        except EventLogUnavailableError:
            outcome = None
        if outcome is None or is_error(outcome, "_TIMED_OUT", "_TRANSPORT", "_WAIT_COORD"):
            self._admin.close()
            outcome = self._admin.results(what, start)[self.group_id]
        return outcome

    def close(self) -> None:
        """Let the client go."""
        self._admin.close()
