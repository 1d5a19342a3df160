# SPDX-License-Identifier: Apache-2.0
"""The clients by which living leaders are asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self
from uuid import uuid4

from confluent_kafka import Consumer

from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.client import KafkaAdmin, open_client
from airflow_provider_rlmm.core.log.kafka.client_watch import ClientWatch
from airflow_provider_rlmm.core.log.kafka.config import CLIENT_ID_PREFIX, KafkaClientConfig

_FROM_THE_LEADER = {"client.rack": "", "queued.min.messages": 1}
"""Of a consumer: the leader's own word counts, never that of a replica near by."""


class LeaderClients:
    """
    Clients that are opened when first used, so that the object may be built before a fork, not shared across one.

    :param config: their properties.
    :param cluster_id: the cluster that is worked on: the consumer must be of it.
    :param metadata_topic: name of the metadata topic.
    :param request_timeout_s: seconds for one request.
    :param name: what the consumer's id says.
    :param fetching: properties of the consumer: how much of a leader's records it fetches.
    """

    def __init__(
        self,
        config: KafkaClientConfig,
        cluster_id: str,
        metadata_topic: str,
        request_timeout_s: float,
        name: str,
        fetching: Mapping[str, Any],
    ) -> None:
        self._config = config
        self._cluster_id = cluster_id
        self._metadata_topic = metadata_topic
        self._admin = KafkaAdmin(config, request_timeout_s)
        self._topics = KafkaClusterTopics(config, metadata_topic, request_timeout_s=request_timeout_s)
        self._watch = ClientWatch(config)
        self._name, self._fetching = name, fetching
        self._consumer: Consumer | None = None

    def _open_consumer(self) -> Consumer:
        if self._consumer is None:
            client_id = f"{CLIENT_ID_PREFIX}_{self._name}_{uuid4().hex}"
            properties = {**self._config.consumer(client_id), **_FROM_THE_LEADER, **self._fetching}
            consumer: Consumer = open_client(Consumer, properties, self._watch)
            self._admin.require_cluster(consumer, self._cluster_id, "the consumer of living records")
            self._consumer = consumer
        return self._consumer

    def close(self) -> None:
        """Let the clients go; the next question opens others."""
        self._admin.close()
        self._topics.close()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
