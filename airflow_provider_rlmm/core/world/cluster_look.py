# SPDX-License-Identifier: Apache-2.0
"""
One look at the cluster: which of these topic ids are absent right now, at the cluster whose log is read?

Log, topic listing, offsets and write guard are different clients, and a client with a list of addresses chooses for itself
among them. So a look proves where it was taken: the metadata topic is asked for in the same requests as the topics in
question, and its id must be that of the log. For the Spark job the whole cluster is observed, with the limits of its topics.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import Clock
from airflow_provider_rlmm.core.base.errors import ClusterMismatchError, EventLogAccessError
from airflow_provider_rlmm.core.base.quoting import list_in_quotes
from airflow_provider_rlmm.core.log.protocol import ClusterTopics, MetadataLogReader, ProvenLook
from airflow_provider_rlmm.core.records.topic_answers import NoTopic, TopicAnswer
from airflow_provider_rlmm.core.records.topic_names import is_legal_topic_name
from airflow_provider_rlmm.core.world.absence import Observation, Presence, observe_all
from airflow_provider_rlmm.core.world.cluster_state import ClusterState, ListedTopic
from airflow_provider_rlmm.core.world.diskless import why_diskless

logger = logging.getLogger(__name__)

UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class ClusterLook:
    """What one look saw."""

    proof: ProvenLook  # what the write guard asks for
    observations: Mapping[UUID, Observation]  # one per topic id that was asked for
    living: Mapping[str, UUID]  # id of every topic that answered, name → id
    denied: frozenset[str]  # names that may not be described
    names: Mapping[UUID, frozenset[str]]  # topic id → the names in the log that were asked for


@dataclass(frozen=True, slots=True)
class ClusterAnswers:
    """What the cluster answered at one time, before anybody asks which topic ids are absent by it."""

    topics: ClusterTopics  # the cluster
    metadata_topic_id: UUID  # id of the metadata topic, at the cluster that answered and of the log that was read
    listed: frozenset[str]  # the names of its listing
    answers: Mapping[str, TopicAnswer]  # name → what it said of it

    @property
    def living(self) -> Mapping[str, UUID]:
        """Id of every topic that answered, name → id."""
        return {name: answer for name, answer in self.answers.items() if isinstance(answer, UUID)}

    def observe(self, names: Mapping[UUID, frozenset[str]]) -> ClusterLook:
        """
        Observe topic ids by these answers.

        :param names: topic id → its names in the metadata topic, of which each that is legal was asked for.
        """
        told = observe_all(names, self.answers, self.listed)
        observations = _told_from_diskless(self.topics, told, names, self.answers)
        absent = frozenset(topic_id for topic_id, o in observations.items() if o.presence is Presence.ABSENT)
        denied = frozenset(name for name, answer in self.answers.items() if answer is NoTopic.DENIED)
        return ClusterLook(ProvenLook(self.metadata_topic_id, absent), observations, self.living, denied, names)


def ask(topics: ClusterTopics, log: MetadataLogReader, names: Iterable[str]) -> ClusterAnswers:
    """
    Ask the cluster once, for all topic ids that are observed by it: the listing supplies names, one describe answers for
    them and for the names in question.

    A name that Kafka would refuse is not asked for: a broker answers it with an error, and one bad record must not stop
    the work on all the others.

    :param topics: the cluster.
    :param log: the log whose records name the ids; it was read before.
    :param names: names of the metadata topic.
    :raises ClusterMismatchError: if another cluster answered than the one whose log is read.
    :raises EventLogAccessError: if the metadata topic may not be described.
    :raises EventLogUnavailableError: if an answer is partial or late.
    """
    listed = topics.topic_names()
    described = topics.describe_topics(listed | {name for name in names if is_legal_topic_name(name)})
    if described.metadata_topic_id != log.topic_id:
        raise ClusterMismatchError(
            f"the metadata topic that is read has id {log.topic_id}, the cluster that was asked for its topics gives it "
            f"{described.metadata_topic_id}: these are two clusters, or the topic was replaced; name the brokers of one "
            "cluster only in the Kafka connection, then run again"
        )
    return ClusterAnswers(topics, log.topic_id, listed, described.answers)


def look(topics: ClusterTopics, log: MetadataLogReader, names: Mapping[UUID, frozenset[str]]) -> ClusterLook:
    """
    Observe topic ids by one look at the cluster.

    :param topics: the cluster.
    :param log: the log whose records name the ids; it was read before.
    :param names: topic id → its names in the metadata topic.
    :raises EventLogError: as :func:`ask`.
    """
    return ask(topics, log, (name for known in names.values() for name in known)).observe(names)


def _told_from_diskless(
    topics: ClusterTopics,
    observations: Mapping[UUID, Observation],
    names: Mapping[UUID, frozenset[str]],
    answers: Mapping[str, TopicAnswer],
) -> Mapping[UUID, Observation]:
    """Tell apart the absent ids whose name a topic without disks has now; most looks need not ask for that."""
    came_back = {
        topic_id: name
        for topic_id, seen in observations.items()
        if seen.presence is Presence.ABSENT
        for name in names[topic_id]
        if isinstance(answers.get(name), UUID)
    }
    if not came_back:
        return observations
    diskless = topics.diskless_topics(frozenset(came_back.values()))
    told = {
        topic_id: Observation(Presence.DISKLESS, why_diskless(name, diskless[name]))
        for topic_id, name in came_back.items()
        if name in diskless
    }
    return {**observations, **told}


class ObservableCluster(ClusterTopics, Protocol):
    """A cluster that also tells how far its topics reach."""

    def partition_counts(self, names: Iterable[str]) -> Mapping[str, int]:
        """Return topic → number of partitions."""

    def log_start_offsets(self, partition_counts: Mapping[str, int]) -> Mapping[tuple[str, int], int]:
        """Return (topic, partition) → log start offset."""


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
        listed = number_of(len(denied), "listed topic")
        logger.warning("%s may not be described: %s", listed, list_in_quotes(denied))
    if metadata_topic not in listing:
        raise EventLogAccessError(
            f"the listing of {number_of(len(listing), 'topic')} lacks {metadata_topic!r}: the principal needs "
            "DESCRIBE on every topic"
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
