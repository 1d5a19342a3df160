# SPDX-License-Identifier: Apache-2.0
"""Metadata topics of one cluster that tell of the same topics, most of which exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from benchmarks.cleaning import Run, mark_and_plan
from benchmarks.topic import TOPIC, create_metadata_topic, create_topics, publish
from benchmarks.workload import FIRST_EVENT_MS, SPAN_MS, generate, topics_of

GONE = 0.02
"""Share of the user partitions whose topics are deleted."""
DUE = 0.01
"""Share of the time in which segments were written that is beyond retention: leaders delete what is due every few minutes."""
NEW = 0.01
"""Share of the events that are written after the first run."""


@dataclass(frozen=True, slots=True)
class FilledTopic:
    """
    A metadata topic with all of its events but the last.

    :param config: the clients' properties.
    :param name: its name.
    :param partitions: how many metadata partitions it has.
    :param events: that are written.
    :param rest: values that are not, and where each of them belongs.
    :param said: what it holds.
    """

    config: KafkaClientConfig
    name: str
    partitions: int
    events: int
    rest: tuple[Any, Any]
    said: str

    @property
    def later(self) -> int:
        """Number of events that are not written yet."""
        return len(self.rest[0])

    def write_the_rest(self) -> None:
        """Append the last events."""
        publish(self.config, *self.rest, self.name)

    def mark_and_plan(self, folder: Path) -> Run:
        """
        Mark, as a dry run, and plan; in a process of its own, as tasks are.

        :param folder: the work folder: what an earlier run has left there is used.
        """
        return mark_and_plan(dict(self.config.properties), folder, self.name)


@dataclass(frozen=True, slots=True)
class World:
    """
    The topics that events tell of: they exist, but for a few whose user partitions are all marked.

    :param config: the clients' properties.
    :param ids: name → id.
    :param gone: names of the deleted ones.
    """

    config: KafkaClientConfig
    ids: Mapping[str, UUID]
    gone: Sequence[str]

    @classmethod
    def make(cls, config: KafkaClientConfig) -> World:
        """
        Make the topics.

        :param config: the clients' properties, of a cluster that has the metadata topic.
        """
        topics = topics_of()
        gone: list[str] = []
        for name, count in sorted(topics.items(), key=lambda item: item[1]):
            if sum(topics[other] for other in gone) + count <= max(1, GONE * sum(topics.values())):
                gone.append(name)
        due_before_ms = FIRST_EVENT_MS + round(DUE * SPAN_MS)
        settings = {"retention.ms": str(system_clock() - due_before_ms)}
        ids = create_topics(config, {name: count for name, count in topics.items() if name not in gone}, settings)
        return cls(config, ids, gone)

    def fill(self, name: str, partitions: int, size: int) -> FilledTopic:
        """
        Fill a metadata topic, but for the last events.

        :param name: of the topic, which is made unless it is the cluster's own.
        :param partitions: how many metadata partitions it has.
        :param size: events, approximately.
        """
        if name != TOPIC:
            create_metadata_topic(self.config, name, partitions)
        workload = generate(size, metadata_partitions=partitions, topic_ids=self.ids, marked=self.gone)
        values, where = workload.values, workload.metadata_partitions
        events = len(values) - round(len(values) * NEW)
        publish(self.config, values[:events], where[:events], name)
        return FilledTopic(self.config, name, partitions, events, (values[events:], where[events:]), workload.said)
