# SPDX-License-Identifier: Apache-2.0
"""What brokers tell of the topics that are tiered by their own settings, where no metadata topic need be left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol
from uuid import UUID

TIERED: Final = "remote.storage.enable"


@dataclass(frozen=True, slots=True)
class ToldSetting:
    """A setting of a topic, in effect now."""

    value: str | None  # as the broker writes it; ``None`` where it withholds it
    of_topic: bool  # whether it is set for this topic, and not taken from the broker or Kafka's default


@dataclass(frozen=True, slots=True)
class TieredTopic:
    """A topic with ``remote.storage.enable``."""

    topic: str
    topic_id: UUID
    settings: Mapping[str, ToldSetting]  # Kafka's name → setting; what the broker does not know is not there
    replicas: tuple[tuple[int, ...], ...]  # of each partition the brokers that have one, in the order of partitions


@dataclass(frozen=True, slots=True)
class TieredLook:
    """
    One look at all topics.

    :param cluster_id: the cluster that answered.
    :param brokers: ids of those that are up.
    :param listed: names of all topics that it listed; those that this login may not describe are not among them.
    :param tiered: those that are tiered, by name.
    :param not_told: topic that was listed, and of which it is not known whether or how it is tiered → why.
    """

    cluster_id: str
    brokers: frozenset[int]
    listed: frozenset[str]
    tiered: tuple[TieredTopic, ...]
    not_told: Mapping[str, str] = field(default_factory=dict)


class TieredTopics(Protocol):
    """Looks at all topics."""

    def look(self) -> TieredLook:
        """
        List all topics, and ask for the settings of each.

        :raises ClusterMismatchError: if another cluster answers.
        :raises EventLogAccessError: if the login fails.
        :raises EventLogUnavailableError: if no broker answers, or a whole answer is late.
        """
