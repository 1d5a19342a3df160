# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import EventLogAccessError
from airflow_provider_rlmm.core.log.in_process_topics import InProcessClusterTopics
from airflow_provider_rlmm.core.world.cluster_look import observe_cluster
from airflow_provider_rlmm.core.world.cluster_state import ListedTopic

METADATA_TOPIC = "__remote_log_metadata"
TOPICS = {"orders": UUID(int=2), "local": UUID(int=3)}
SETTINGS: dict[str, dict[str, int | bool | str]] = {
    METADATA_TOPIC: {"retention.ms": -1, "remote.storage.enable": False},
    "orders": {"retention.ms": 5, "retention.bytes": 6, "remote.storage.enable": True},
    "local": {"retention.ms": 7, "remote.storage.enable": False},
}


class Topics(InProcessClusterTopics):
    """Topics with settings; every partition begins at its number."""

    def topic_settings(self, names: Iterable[str]) -> Mapping[str, Mapping[str, int | bool | str]]:
        return {name: SETTINGS[name] for name in names}

    def partition_counts(self, names: Iterable[str]) -> Mapping[str, int]:
        return dict.fromkeys(names, 2)

    def log_start_offsets(self, partition_counts: Mapping[str, int]) -> Mapping[tuple[str, int], int]:
        return {(name, p): p for name, count in partition_counts.items() for p in range(count)}


def test_the_observation_holds_every_topic_and_the_limits_of_tiered_ones() -> None:
    topics = Topics(TOPICS, cluster_id="cluster-1", metadata_topic_id=UUID(int=1))
    state = observe_cluster(topics, METADATA_TOPIC, lambda: 17)
    assert (state.cluster_id, state.observed_at_ms) == ("cluster-1", 17)
    assert state.topics == (
        ListedTopic(UUID(int=1), METADATA_TOPIC, -1, -1, {}),
        ListedTopic(UUID(int=3), "local", 7, -1, {}),
        ListedTopic(UUID(int=2), "orders", 5, 6, {0: 0, 1: 1}),
    )


def test_a_listing_without_the_metadata_topic_is_no_listing() -> None:
    topics = Topics(TOPICS)
    topics.denied.add(METADATA_TOPIC)
    with pytest.raises(EventLogAccessError, match=r"2 topics lacks '__remote_log_metadata': .*DESCRIBE on every topic"):
        observe_cluster(topics, METADATA_TOPIC, lambda: 17)


def test_a_listed_topic_that_may_not_be_described_is_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    class Contradicting(Topics):
        """Lists a name whose description it denies, as brokers do whose rights have just changed."""

        def topic_names(self) -> frozenset[str]:
            return frozenset({*TOPICS, METADATA_TOPIC})

    topics = Contradicting(TOPICS)
    topics.denied.add("orders")
    state = observe_cluster(topics, METADATA_TOPIC, lambda: 17)
    assert [topic.name for topic in state.topics] == [METADATA_TOPIC, "local"]
    assert "1 listed topic may not be described: ['orders']" in caplog.text
