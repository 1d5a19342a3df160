# SPDX-License-Identifier: Apache-2.0
"""
One look at the cluster: which of these topic ids are absent right now, at the cluster whose log is read?

Log, topic listing, offsets and write guard are different clients, and a client with a list of addresses chooses for itself
among them. So a look proves where it was taken: the metadata topic is asked for in the same requests as the topics in
question, and its id must be that of the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from airflow_provider_rlmm.errors import ClusterMismatchError
from airflow_provider_rlmm.event_log.protocol import ClusterTopics, MetadataLogReader, ProvenLook
from airflow_provider_rlmm.metadata.topic_answers import NoTopic
from airflow_provider_rlmm.policy.absence import Observation, Presence, observe
from airflow_provider_rlmm.storage.layouts import is_legal_topic_name


@dataclass(frozen=True, slots=True)
class ClusterLook:
    """
    What one look saw.

    :param proof: what the write guard asks for.
    :param observations: one per topic id that was asked for.
    :param living: id of every topic that answered, name → id.
    :param denied: names that may not be described.
    """

    proof: ProvenLook
    observations: Mapping[UUID, Observation]
    living: Mapping[str, UUID]
    denied: frozenset[str]


def look(topics: ClusterTopics, log: MetadataLogReader, names: Mapping[UUID, frozenset[str]]) -> ClusterLook:
    """
    Observe topic ids: the listing supplies names, one describe answers for them and for the names in question.

    A name that Kafka would refuse is not asked for: a broker answers it with an error, and one bad record must not stop
    the work on all the others.

    :param topics: the cluster.
    :param log: the log whose records name the ids; it was read before.
    :param names: topic id → its names in the metadata topic.
    :raises ClusterMismatchError: if another cluster answered than the one whose log is read.
    :raises EventLogAccessError: if the metadata topic may not be described.
    :raises EventLogUnavailableError: if an answer is partial or late.
    """
    asked = {name for known in names.values() for name in known if is_legal_topic_name(name)}
    listed = topics.topic_names()
    described = topics.describe_topics(listed | asked)
    if described.metadata_topic_id != log.topic_id:
        raise ClusterMismatchError(
            f"the metadata topic that is read has id {log.topic_id}, the cluster that was asked for its topics gives it "
            f"{described.metadata_topic_id}: these are two clusters, or the topic was replaced; name the brokers of one "
            "cluster only in the Kafka connection, then run again"
        )
    answers = described.answers
    observations = {topic_id: observe(topic_id, known, answers, listed) for topic_id, known in names.items()}
    absent = frozenset(topic_id for topic_id, o in observations.items() if o.presence is Presence.ABSENT)
    living = {name: answer for name, answer in answers.items() if isinstance(answer, UUID)}
    denied = frozenset(name for name, answer in answers.items() if answer is NoTopic.DENIED)
    return ClusterLook(ProvenLook(log.topic_id, absent), observations, living, denied)
