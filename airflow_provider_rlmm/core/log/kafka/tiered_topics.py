# SPDX-License-Identifier: Apache-2.0
"""The cluster's tiered topics by their settings alone: the metadata topic may be lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException

from airflow_provider_rlmm.core.log.kafka.client import (
    REQUEST_TIMEOUT_S,
    TOPIC_DENIED,
    UNKNOWN_TOPIC,
    KafkaAdmin,
    admin_api,
    chunks,
    is_error,
)
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.tiered_topics import TIERED, TieredLook, TieredTopic, ToldSetting

_GONE = "it was deleted since it was listed, or this login may not see it any more"


@dataclass
class KafkaTieredTopics:
    """A :class:`~airflow_provider_rlmm.core.log.tiered_topics.TieredTopics` on Kafka's Admin API; it creates no topic."""

    config: KafkaClientConfig  # the client's properties
    cluster_id: str  # the cluster that must answer
    request_timeout_s: float = field(default=REQUEST_TIMEOUT_S, kw_only=True)  # seconds for one request

    def __post_init__(self) -> None:
        self._admin = KafkaAdmin(self.config, self.request_timeout_s)

    def look(self) -> TieredLook:
        """See :class:`~airflow_provider_rlmm.core.log.tiered_topics.TieredTopics`."""
        listing = self._listed()
        names = frozenset(listing.topics)
        not_told: dict[str, str] = {}
        settings: dict[str, Mapping[str, ToldSetting]] = {}
        for chunk in chunks(sorted(names)):
            for name, outcome in self._admin.describe_configs(chunk).items():
                if isinstance(outcome, Mapping):
                    settings[name] = {setting: _told(entry) for setting, entry in outcome.items()}
                else:
                    not_told[name] = _why(outcome, "DESCRIBE_CONFIGS")
        tiered: list[TieredTopic] = []
        for chunk in chunks(name for name, of in settings.items() if _may_be_tiered(of)):
            for name, outcome in self._admin.describe_topics(chunk).items():
                if is_error(outcome):
                    not_told[name] = _why(outcome, "DESCRIBE")
                else:
                    tiered.append(self._tiered(name, outcome, settings[name]))
        by_name = tuple(sorted(tiered, key=lambda topic: topic.topic))
        return TieredLook(self.cluster_id, frozenset(listing.brokers), names, by_name, not_told)

    def _listed(self) -> Any:
        client = self._admin.client
        self._admin.require_cluster(client, self.cluster_id, "what lists the topics")
        try:
            # Without a topic argument this request cannot create one.
            return client.list_topics(timeout=self.request_timeout_s)
        except KafkaException as error:
            raise self._admin.watch.error("listing topics", error.args[0]) from None

    def _tiered(self, name: str, described: Any, settings: Mapping[str, ToldSetting]) -> TieredTopic:
        partitions = sorted(described.partitions, key=lambda partition: partition.id)
        replicas = tuple(tuple(node.id for node in partition.replicas) for partition in partitions)
        return TieredTopic(name, self._admin.topic_id(name, described), settings, replicas)

    def close(self) -> None:
        """Let the client go."""
        self._admin.close()


def _may_be_tiered(settings: Mapping[str, ToldSetting]) -> bool:
    """Brokers that do not know the setting have no tiered topics; a value that is withheld is no no."""
    return TIERED in settings and settings[TIERED].value != "false"


def _told(entry: Any) -> ToldSetting:
    # By its number: the answer has the number, not the member.
    of_topic = int(getattr(entry.source, "value", entry.source)) == admin_api.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return ToldSetting(entry.value, of_topic)


def _why(outcome: Any, right: str) -> str:
    if is_error(outcome, UNKNOWN_TOPIC):
        return _GONE
    if is_error(outcome, TOPIC_DENIED):
        return f"{right} is missing on it"
    return f"the brokers answer {outcome.name()}"
