# SPDX-License-Identifier: Apache-2.0
"""Observes the whole cluster, with the limits of its topics, for the Spark job."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Protocol
from uuid import UUID

from airflow_provider_rlmm.clock import Clock
from airflow_provider_rlmm.errors import EventLogAccessError
from airflow_provider_rlmm.event_log.protocol import ClusterTopics
from airflow_provider_rlmm.metadata.topic_answers import NoTopic
from airflow_provider_rlmm.policy.cluster_state import ClusterState, ListedTopic
from airflow_provider_rlmm.quoting import list_in_quotes

logger = logging.getLogger(__name__)

UNLIMITED = -1


class ObservableCluster(ClusterTopics, Protocol):
    """A cluster that also tells the limits of its topics."""

    def topic_settings(self, names: Iterable[str]) -> Mapping[str, Mapping[str, int | bool | str]]:
        """Return topic → setting → effective value."""
        ...

    def partition_counts(self, names: Iterable[str]) -> Mapping[str, int]:
        """Return topic → number of partitions."""
        ...

    def log_start_offsets(self, partition_counts: Mapping[str, int]) -> Mapping[tuple[str, int], int]:
        """Return (topic, partition) → log start offset."""
        ...


def observe_cluster(topics: ObservableCluster, metadata_topic: str, clock: Clock) -> ClusterState:
    """
    List every topic that may be described, with the limits of those that have remote storage.

    The time of observation is taken before the listing is asked for, so that nothing newer can be judged with it. A topic
    that is missing here is not called deleted for it: the job asks for its name after the read, and refuses it by name.

    :param topics: the cluster.
    :param metadata_topic: name of the topic that the job reads; a listing without it is of no use.
    :param clock: time.
    :raises ClusterMismatchError: if two clusters answer.
    :raises EventLogAccessError: if the metadata topic may not be described, or the configuration of a topic that may be.
    :raises EventLogUnavailableError: if an answer is partial or late.
    """
    observed_at_ms = clock()
    answers = topics.describe_topics(topics.topic_names()).answers
    listing = {name: answer for name, answer in answers.items() if isinstance(answer, UUID)}
    if denied := sorted(name for name, answer in answers.items() if answer is NoTopic.DENIED):
        logger.warning("%d listed topics may not be described: %s", len(denied), list_in_quotes(denied))
    if metadata_topic not in listing:
        raise EventLogAccessError(
            f"the listing of {len(listing)} topics lacks {metadata_topic!r}: the principal needs DESCRIBE on every topic"
        )
    settings = topics.topic_settings(listing)
    tiered = [name for name, values in settings.items() if values.get("remote.storage.enable")]
    starts: dict[str, dict[int, int]] = {}
    for (name, partition), offset in topics.log_start_offsets(topics.partition_counts(tiered)).items():
        starts.setdefault(name, {})[partition] = offset
    states = tuple(
        ListedTopic(
            topic_id=topic_id,
            name=name,
            retention_ms=int(settings.get(name, {}).get("retention.ms", UNLIMITED)),
            retention_bytes=int(settings.get(name, {}).get("retention.bytes", UNLIMITED)),
            log_start_offsets=starts.get(name, {}),
        )
        for name, topic_id in sorted(listing.items())
    )
    return ClusterState(topics.cluster_id(), observed_at_ms, states)
