# SPDX-License-Identifier: Apache-2.0
"""Which living user partitions make brokers read a metadata partition."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from airflow_provider_rlmm.errors import EventLogAccessError
from airflow_provider_rlmm.event_log.protocol import ClusterTopics
from airflow_provider_rlmm.metadata.partitioner import metadata_partition_for
from airflow_provider_rlmm.metadata.records import TopicIdPartition

logger = logging.getLogger(__name__)

NAMED_TOPICS = 5
"""Topics that a text names; all are counted."""


class TieredClusterTopics(ClusterTopics, Protocol):
    """A cluster that also tells which of its topics are tiered."""

    def topic_settings(self, names: Iterable[str]) -> Mapping[str, Mapping[str, int | bool | str]]:
        """Return topic → setting → effective value."""
        ...

    def partition_counts(self, names: Iterable[str]) -> Mapping[str, int]:
        """Return topic → number of partitions."""
        ...


@dataclass(frozen=True, slots=True)
class ServedPartitions:
    """
    The user partitions of living tiered topics: a broker reads the metadata partitions that its own ones map to.

    :param by_metadata_partition: metadata partition → topic → its partitions that map there.
    :param copying: ids of the topics whose segments are to be copied.
    :param unknown: why it is not known which topics are tiered; empty where it is.
    """

    by_metadata_partition: Mapping[int, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    copying: frozenset[UUID] = frozenset()
    unknown: str = ""

    def readers_of(self, metadata_partition: int) -> str:
        """
        Say which living user partitions make their brokers read a metadata partition.

        :param metadata_partition: which one.
        """
        if self.unknown:
            return f"which living topics map here is not known: {self.unknown}"
        topics = self.by_metadata_partition.get(metadata_partition, {})
        if not topics:
            return "no living tiered topic maps here today"
        names = [f"{topic} ({', '.join(map(str, numbers))})" for topic, numbers in sorted(topics.items())]
        more = f" and {len(names) - NAMED_TOPICS} more topics" if len(names) > NAMED_TOPICS else ""
        count = sum(map(len, topics.values()))
        return f"{count} living user partitions map here: {', '.join(names[:NAMED_TOPICS])}{more}"


def served_partitions(
    topics: TieredClusterTopics, living: Mapping[str, UUID], partition_count: int
) -> ServedPartitions:
    """
    Ask a cluster which of its topics are tiered, and where their metadata lies.

    :param topics: the cluster.
    :param living: its topics, name → topic id.
    :param partition_count: number of metadata partitions.
    :raises EventLogUnavailableError: if an answer is partial or late.
    """
    try:
        settings = topics.topic_settings(living)
    except EventLogAccessError as e:
        logger.warning("which topics are tiered is not known: %s", e)
        return ServedPartitions(copying=frozenset(living.values()), unknown=str(e))
    tiered = [name for name in living if settings.get(name, {}).get("remote.storage.enable")]
    found: dict[int, dict[str, list[int]]] = {}
    for name, count in topics.partition_counts(tiered).items():
        for number in range(count):
            metadata_partition = metadata_partition_for(TopicIdPartition(living[name], name, number), partition_count)
            found.setdefault(metadata_partition, {}).setdefault(name, []).append(number)
    return ServedPartitions(
        {p: {name: tuple(numbers) for name, numbers in by_topic.items()} for p, by_topic in found.items()},
        frozenset(living[name] for name in tiered if not settings[name].get("remote.log.copy.disable")),
    )
