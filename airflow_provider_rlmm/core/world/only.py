# SPDX-License-Identifier: Apache-2.0
"""
What a run is for, where a person has said it: some topics, by name, pattern or id.

It narrows what is planned and written, and never what is looked at before something is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.world.topic_entries import (
    KnownTopics,
    UnknownTopic,
    entries_of,
    names_topic,
    require_entries,
)

EVERY_TOPIC = "*"
"""What a person writes where a run is for all topics. Nothing written is a slip, such as a variable without a value."""


@dataclass(frozen=True, slots=True)
class Only:
    """
    The topics that a run is for.

    :param entries: topic names, patterns of names with ``*`` and ``?``, and topic ids in Kafka's base64 form.
    :raises ConfigurationError: if an entry can be none of these, or there is none: a slip must not widen a run to all topics.
    """

    entries: tuple[str, ...]

    def __post_init__(self) -> None:
        require_entries("only", self.entries)
        if not self.entries:
            raise ConfigurationError(f"only names no topic: write {EVERY_TOPIC} where a run is for all topics")

    @classmethod
    def of(cls, *sources: str | Iterable[str] | None) -> Only:
        """
        Put lists together: what any of them names is chosen.

        :param sources: lists of entries, or texts with entries separated by commas or white space; ``None`` for none.
        :raises ConfigurationError: see :class:`Only`.
        """
        return cls(entries_of(*sources))

    @property
    def is_all(self) -> bool:
        """Whether the run is for all topics."""
        return EVERY_TOPIC in self.entries

    @property
    def narrowed_to(self) -> tuple[str, ...]:
        """What plans say that they are for; empty where that is all topics."""
        return () if self.is_all else self.entries

    def chooses(self, tip: TopicIdPartition, names: Iterable[str] = ()) -> bool:
        """
        Tell whether a run is for a user partition.

        :param tip: the user partition.
        :param names: every name that its topic was seen under.
        """
        return self.is_all or names_topic(self.entries, (tip.topic, *names), kafka_uuid_str(tip.topic_id))

    def among(self, topic_ids: Iterable[UUID], names_of: Callable[[UUID], Iterable[str]]) -> frozenset[UUID]:
        """
        Return the topic ids that a run is for.

        :param topic_ids: to choose from.
        :param names_of: returns every name that a topic id was seen under; it is asked only where a run is not for all.
        """
        if self.is_all:
            return frozenset(topic_ids)
        return frozenset(i for i in topic_ids if names_topic(self.entries, tuple(names_of(i)), kafka_uuid_str(i)))

    def unmatched(self, topics: KnownTopics) -> list[UnknownTopic]:
        """
        Return the entries that no topic answers to, patterns too: a run that is for nothing has found nothing.

        :param topics: what log and cluster name.
        """
        return [found for entry in self.narrowed_to if (found := topics.unmatched(entry)) is not None]


ALL_TOPICS = Only((EVERY_TOPIC,))
"""A run for all topics."""


def only_of_plan(narrowed_to: tuple[str, ...]) -> Only:
    """
    Return the topics that a plan is for.

    :param narrowed_to: what the plan says, see :attr:`Only.narrowed_to`.
    """
    return Only(narrowed_to) if narrowed_to else ALL_TOPICS


@dataclass(frozen=True, slots=True)
class Chosen:
    """
    The user partitions that a step of a run takes.

    :param only: the topics that the run is for.
    :param planned: topic id and partition of those that a plan names, ``None`` where no plan was given.
    """

    only: Only = ALL_TOPICS
    planned: frozenset[tuple[UUID, int]] | None = None

    def takes(self, tip: TopicIdPartition, names: Iterable[str]) -> bool:
        """
        Tell whether a user partition is taken.

        :param tip: the user partition.
        :param names: every name that its topic was seen under.
        """
        named = self.planned is None or (tip.topic_id, tip.partition) in self.planned
        return named and self.only.chooses(tip, names)

    def among(self, topic_ids: Iterable[UUID], names_of: Callable[[UUID], Iterable[str]]) -> frozenset[UUID]:
        """
        Return the topic ids of which a user partition may be taken.

        :param topic_ids: to choose from.
        :param names_of: returns every name that a topic id was seen under.
        """
        found = self.only.among(topic_ids, names_of)
        return found if self.planned is None else found & {topic_id for topic_id, _ in self.planned}


EVERYTHING = Chosen()
"""Every user partition."""
