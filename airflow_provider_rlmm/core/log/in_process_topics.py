# SPDX-License-Identifier: Apache-2.0
"""Public fake: the topics of a cluster that exists in memory only, with the effect hooks of the fake of the log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID, uuid4

from airflow_provider_rlmm.core.base.errors import EventLogAccessError, MetadataTopicNotFoundError
from airflow_provider_rlmm.core.log.copy_lag import CopyLag
from airflow_provider_rlmm.core.log.in_process import METADATA_TOPIC, METADATA_TOPIC_ID, EffectHook, no_effect_hook
from airflow_provider_rlmm.core.log.protocol import DescribedTopics
from airflow_provider_rlmm.core.records.topic_answers import NoTopic, TopicAnswer

__all__ = ["InProcessClusterTopics"]


class InProcessClusterTopics:
    """
    The topics of a cluster that exists in memory only, beside its metadata topic.

    ``denied`` holds names that may not be described; ``metadata_topic_id`` is ``None`` where there is no such topic;
    ``diskless`` holds names of topics without disks; ``lags`` holds topic → copy lag, of topics that have one;
    ``settings`` holds topic → its settings, where something else is kept than for ever;
    ``broker_settings`` holds broker → setting → value, ``None`` for a broker that refuses or does not answer. All are
    attributes that may be set at any time.

    :param topics: name → topic id.
    :param cluster_id: the cluster's id.
    :param metadata_topic_id: id of the metadata topic, by default that of the fake of the log.
    :param on_effect: called before each effect; raise from it to make an answer fail.
    :param after_effect: called after each effect.
    """

    def __init__(
        self,
        topics: Mapping[str, UUID] | None = None,
        *,
        cluster_id: str = "in-process-cluster-id1",
        metadata_topic_id: UUID | None = METADATA_TOPIC_ID,
        on_effect: EffectHook = no_effect_hook,
        after_effect: EffectHook = no_effect_hook,
    ) -> None:
        self.topics = dict(topics or {})
        self.denied: set[str] = set()
        self.diskless: set[str] = set()
        self.lags: dict[str, CopyLag] = {}
        self.settings: dict[str, dict[str, int | bool | str]] = {}
        self.broker_settings: dict[int, dict[str, str | None] | None] = {}
        self.metadata_topic_id = metadata_topic_id
        self._cluster_id = cluster_id
        self.on_effect = on_effect
        self.after_effect = after_effect

    def cluster_id(self) -> str:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.ClusterTopics`."""
        self.on_effect("cluster_id", None)
        self.after_effect("cluster_id", None)
        return self._cluster_id

    def topic_names(self) -> frozenset[str]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.ClusterTopics`."""
        self.on_effect("list_topics", None)
        names = frozenset(self.topics) - self.denied
        if self.metadata_topic_id is None:
            raise EventLogAccessError(f"the listing lacks {METADATA_TOPIC!r}")
        self.after_effect("list_topics", None)
        return (names | {METADATA_TOPIC}) - self.denied

    def describe_topics(self, names: Collection[str]) -> DescribedTopics:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.ClusterTopics`."""
        self.on_effect("describe_topics", frozenset(names))
        if self.metadata_topic_id is None:
            raise MetadataTopicNotFoundError(f"topic {METADATA_TOPIC!r} does not exist")
        answers = {name: self._answer(name, self.metadata_topic_id) for name in names}
        described = DescribedTopics(self.metadata_topic_id, answers)
        self.after_effect("describe_topics", frozenset(names))
        return described

    def list_topics(self) -> Mapping[str, UUID]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.ClusterTopics`."""
        answers = self.describe_topics(self.topic_names()).answers
        return {name: answer for name, answer in answers.items() if isinstance(answer, UUID)}

    def diskless_topics(self, names: Collection[str]) -> Mapping[str, str]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.ClusterTopics`."""
        self.on_effect("diskless_topics", frozenset(names))
        found = dict.fromkeys(self.diskless.intersection(names, self.topics), "diskless.enable is true")
        self.after_effect("diskless_topics", frozenset(names))
        return found

    def copy_lags(self, names: Collection[str]) -> Mapping[str, CopyLag]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.ClusterTopics`."""
        self.on_effect("copy_lags", frozenset(names))
        found = {name: lag for name, lag in self.lags.items() if name in self.topics and name in names}
        self.after_effect("copy_lags", frozenset(names))
        return found

    def topic_settings(self, names: Iterable[str]) -> dict[str, dict[str, int | bool | str]]:
        """See :class:`~airflow_provider_rlmm.core.log.kafka.admin.KafkaClusterTopics`."""
        wanted = list(names)
        if denied := self.denied.intersection(wanted):
            raise EventLogAccessError(f"describing the configuration of topic {min(denied)!r}")
        return {name: dict(self.settings.get(name, {"retention.ms": -1})) for name in wanted}

    def broker_setting(self, name: str) -> dict[int, str | None]:
        """See :class:`~airflow_provider_rlmm.core.log.kafka.admin.KafkaClusterTopics`."""
        told = self.broker_settings.items()
        return {broker: settings[name] for broker, settings in told if settings is not None and name in settings}

    def broker_setting_names(self) -> dict[int, frozenset[str] | None]:
        """See :class:`~airflow_provider_rlmm.core.log.kafka.admin.KafkaClusterTopics`."""
        told = self.broker_settings.items()
        return {broker: None if settings is None else frozenset(settings) for broker, settings in told}

    def _answer(self, name: str, metadata_topic_id: UUID) -> TopicAnswer:
        if name in self.denied:
            return NoTopic.DENIED
        return metadata_topic_id if name == METADATA_TOPIC else self.topics.get(name, NoTopic.UNKNOWN)

    def create(self, name: str, topic_id: UUID | None = None) -> UUID:
        """
        Create a topic.

        :param name: its name; must be free.
        :param topic_id: its id, by default a random one.
        :return: its id.
        """
        if name in self.topics:
            raise ValueError(f"topic {name!r} exists")
        self.topics[name] = topic_id or uuid4()
        return self.topics[name]

    def delete(self, name: str) -> UUID:
        """
        Delete a topic.

        :param name: its name.
        :return: the id that it had.
        """
        return self.topics.pop(name)
