# SPDX-License-Identifier: Apache-2.0
"""Looks at the cluster and says what to type for each tiered topic; it reads only, and needs no metadata topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from airflow_provider_rlmm.core.log.tiered_topics import TIERED, TieredTopic, TieredTopics
from airflow_provider_rlmm.features.first_aid.commands import COPY_DISABLE, COPYING_OFF, Tools
from airflow_provider_rlmm.features.first_aid.log_directories import LogDirectories
from airflow_provider_rlmm.features.first_aid.rules import Disk, disk_of

_UNSEEN = (
    "brokers have replicas of it, and it is in no listing: DESCRIBE is missing on it, or it is new or just deleted"
)
_NO_DIRECTORIES = "what lies on the brokers' disks is told by Kafka's own tool only: see --log-dirs"


@dataclass(frozen=True, slots=True)
class TopicAid:
    """
    What to type for one topic.

    :param topic: its name.
    :param topic_id: its id.
    :param partitions: how many.
    :param replicas: of all of them together.
    :param today: each setting that is altered → what is set for this topic, ``None`` where it has the broker's value.
    :param copying_off: words that switch copying off; ``None`` where it is off.
    :param as_today: words that give back what is set today; ``None`` where nothing is altered.
    :param disk: that it takes while copying is off; ``None`` where it is off, so that nothing changes.
    """

    topic: str
    topic_id: UUID
    partitions: int
    replicas: int
    today: Mapping[str, str | None]
    copying_off: tuple[str, ...] | None
    as_today: tuple[str, ...] | None
    disk: Disk | None


@dataclass(frozen=True, slots=True)
class FirstAid:
    """
    What to type for all tiered topics.

    :param cluster_id: the cluster.
    :param listed: how many topics were listed.
    :param has_metadata_topic: whether the metadata topic is among them.
    :param proved_whole: whether the brokers' disks show that no topic was left out of the listing.
    :param topics: the tiered ones, by name.
    :param not_told: topic about which nothing can be said → why.
    """

    cluster_id: str
    listed: int
    has_metadata_topic: bool
    proved_whole: bool
    topics: tuple[TopicAid, ...]
    not_told: Mapping[str, str]

    @property
    def needs_a_person(self) -> bool:
        """Whether a topic was not told of, or there is none and nothing shows that all were seen."""
        return bool(self.not_told) or not (self.topics or self.proved_whole)


def first_aid(topics: TieredTopics, metadata_topic: str, tools: Tools, directories: LogDirectories | None) -> FirstAid:
    """
    Say what to type.

    :param topics: looks at the cluster.
    :param metadata_topic: its name; it need not be there.
    :param tools: how Kafka's own tools reach the cluster.
    :param directories: what lies on the brokers' disks, ``None`` where that was not asked.
    :raises EventLogError: as :meth:`~airflow_provider_rlmm.core.log.tiered_topics.TieredTopics.look`.
    """
    look = topics.look()
    not_told = dict(look.not_told)
    hidden = (directories.topics if directories else frozenset()) - look.listed
    not_told |= dict.fromkeys(sorted(hidden), _UNSEEN)
    found: list[TopicAid] = []
    for topic in look.tiered:
        try:
            found.append(_aid(topic, tools, directories))
        except ValueError as e:
            not_told[topic.topic] = str(e)
    return FirstAid(
        look.cluster_id,
        len(look.listed),
        metadata_topic in look.listed,
        directories is not None and look.brokers <= directories.brokers and not (directories.troubled or hidden),
        tuple(found),
        not_told,
    )


def _aid(topic: TieredTopic, tools: Tools, directories: LogDirectories | None) -> TopicAid:
    withheld = [
        name for name in (TIERED, *COPYING_OFF) if name not in topic.settings or topic.settings[name].value is None
    ]
    if withheld:
        raise ValueError(f"the brokers do not tell {withheld[0]}")
    today = {name: told.value if (told := topic.settings[name]).of_topic else None for name in COPYING_OFF}
    copies = topic.settings[COPY_DISABLE].value != "true"
    replicas = sum(map(len, topic.replicas))
    now = directories.bytes_of(topic.topic, topic.replicas) if directories else _NO_DIRECTORIES
    return TopicAid(
        topic.topic,
        topic.topic_id,
        len(topic.replicas),
        replicas,
        today,
        tools.copying_off(topic.topic) if copies else None,
        tools.as_today(topic.topic, today) if copies else None,
        disk_of(topic.settings, replicas, now) if copies else None,
    )
