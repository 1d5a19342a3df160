# SPDX-License-Identifier: Apache-2.0
"""What the metadata topic names and the cluster has or lacks: for people, who decide nothing by it but where to look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from airflow_provider_rlmm.lifecycle.cluster_look import look
from airflow_provider_rlmm.lifecycle.eligibility import refusal_of
from airflow_provider_rlmm.lifecycle.topic_view import TopicReplay
from airflow_provider_rlmm.metadata.history import UserPartitionHistory
from airflow_provider_rlmm.metadata.records import kafka_uuid_str
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState
from airflow_provider_rlmm.policy.absence import Observation, Presence, first_observation
from airflow_provider_rlmm.policy.guards import CleanerLimits
from airflow_provider_rlmm.policy.refusals import RefusalKind

READY = "READY"
"""Status of an orphaned user partition that a run may clean now."""


@dataclass(frozen=True, slots=True)
class TopicInventory:
    """
    A topic that the metadata topic names.

    :param topic: its name; several are separated by commas, which is no legal name.
    :param topic_id: its id, in Kafka's text form.
    :param presence: ``present``, ``absent``, ``ambiguous`` or ``denied``, by one look at the cluster.
    :param partitions: user partitions that the metadata topic names.
    :param segments: segments that are not finished.
    :param bytes: their sizes, summed.
    :param states: name of a state → segments in it.
    """

    topic: str
    topic_id: str
    presence: str
    partitions: int
    segments: int
    bytes: int
    states: dict[str, int]


def topics_in_log(topic: TopicReplay) -> list[TopicInventory]:
    """
    Return every topic that the metadata topic names, by name.

    :param topic: the metadata topic, read.
    :raises EventLogError: if the cluster cannot be asked.
    """
    names = topic.names()
    seen = look(topic.topics, topic.log, names).observations
    partitions = Counter(tip.topic_id for tip in topic.partitions())
    states: dict[UUID, Counter[str]] = {topic_id: Counter() for topic_id in names}
    sizes: Counter[UUID] = Counter()
    columns = ["topic_id", "state"]
    amounts = [("segment_size_in_bytes", "count"), ("segment_size_in_bytes", "sum")]
    for row in topic.segments.group_by(columns).aggregate(amounts).to_pylist():
        topic_id = UUID(bytes=row["topic_id"])
        states[topic_id][RemoteLogSegmentState(row["state"]).name] += row["segment_size_in_bytes_count"]
        sizes[topic_id] += row["segment_size_in_bytes_sum"]
    found = [
        TopicInventory(
            topic=", ".join(sorted(names[topic_id])),
            topic_id=kafka_uuid_str(topic_id),
            presence=seen[topic_id].presence.value,
            partitions=partitions[topic_id],
            segments=states[topic_id].total(),
            bytes=sizes[topic_id],
            states=dict(sorted(states[topic_id].items())),
        )
        for topic_id in names
    ]
    return sorted(found, key=lambda t: (t.topic, t.topic_id))


@dataclass(frozen=True, slots=True)
class OrphanedPartition:
    """
    A user partition of a deleted topic that still has remote segments, or whose deletion is not finished.

    :param topic: its topic's name.
    :param topic_id: in Kafka's text form.
    :param partition: its number.
    :param metadata_partition: where its events lie.
    :param segments: segments that are not finished.
    :param bytes: their sizes, summed.
    :param deletion: name of the state of its deletion, ``None`` where it was never marked.
    :param observed_ms: since when its absence counts, ms since the epoch; ``None`` where nobody has observed it.
    :param status: :data:`READY`, or the kind of what stands against its cleaning.
    :param why: what stands against it, in words; empty where it is ready.
    """

    topic: str
    topic_id: str
    partition: int
    metadata_partition: int
    segments: int
    bytes: int
    deletion: str | None
    observed_ms: int | None
    status: str
    why: str


def orphaned_partitions(topic: TopicReplay, limits: CleanerLimits, now_ms: int) -> list[OrphanedPartition]:
    """
    Return the user partitions of deleted topics that are not cleaned, by topic and number.

    A topic that merely cannot be seen is none: see :func:`topics_in_log`, and what marker and planner refuse.

    :param topic: the metadata topic, read.
    :param limits: by which it is judged what may be cleaned now.
    :param now_ms: ms since the epoch.
    :raises EventLogError: if log or cluster cannot be asked.
    """
    numbers = range(topic.log.partition_count)
    ids = {number: topic.with_segments(number) | topic.under_way(number) for number in numbers}
    names = {topic_id: known for topic_id, known in topic.names().items() if any(topic_id in of for of in ids.values())}
    seen = look(topic.topics, topic.log, names).observations if names else {}
    absent = {topic_id for topic_id, observation in seen.items() if observation.presence is Presence.ABSENT}
    found = [
        _orphan(history, seen[history.topic_id_partition.topic_id], number, limits, now_ms)
        for number in numbers
        for history in _orphaned_in(topic, number, ids[number] & absent)
    ]
    return sorted(found, key=lambda o: (o.topic, o.topic_id, o.partition))


def _orphaned_in(topic: TopicReplay, metadata_partition: int, absent: Collection[UUID]) -> list[UserPartitionHistory]:
    histories = topic.view(metadata_partition, absent).histories.values() if absent else ()
    return [history for history in histories if history.deletion_under_way() or history.unfinished()]


def _orphan(
    history: UserPartitionHistory, observation: Observation, metadata_partition: int, limits: CleanerLimits, now_ms: int
) -> OrphanedPartition:
    tip, unfinished = history.topic_id_partition, history.unfinished()
    first = first_observation(history.observations, now_ms)
    status, why = READY, ""
    if not history.deletion_under_way():
        status, why = RefusalKind.NEXT_RUN.value, "not marked yet: the next run that may write marks it"
    elif (refusal := refusal_of(history, observation, now_ms, limits)) is not None:
        status, why = refusal.kind.value, f"{refusal.why}; {refusal.what_to_do}"
    return OrphanedPartition(
        topic=tip.topic,
        topic_id=kafka_uuid_str(tip.topic_id),
        partition=tip.partition,
        metadata_partition=metadata_partition,
        segments=len(unfinished),
        bytes=sum(m.segment_size_in_bytes for m in unfinished),
        deletion=history.delete_state.name if history.delete_state is not None else None,
        observed_ms=first.time_ms if first else None,
        status=status,
        why=why,
    )
