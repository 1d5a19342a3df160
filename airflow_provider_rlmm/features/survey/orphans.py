# SPDX-License-Identifier: Apache-2.0
"""What the metadata topic names and the cluster has or lacks: for people, who decide nothing by it but where to look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.plans.counts import counted_by
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.world.cluster_look import look
from airflow_provider_rlmm.core.world.hold import Hold
from airflow_provider_rlmm.core.world.only import ALL_TOPICS, Only
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.features.survey.inventory import READY, SurveyedState, Totals
from airflow_provider_rlmm.features.survey.survey import survey

NOTHING_HELD = Hold()


@dataclass(frozen=True, slots=True)
class TopicInventory:
    """
    A topic that the metadata topic names.

    :param topic: its name; several are separated by commas, which is no legal name.
    :param topic_id: its id, in Kafka's text form.
    :param presence: ``present``, ``absent``, ``ambiguous``, ``denied`` or ``diskless``, by one look at the cluster.
    :param partitions: user partitions that the metadata topic names.
    :param segments: segments that are not finished.
    :param bytes: their sizes, summed.
    :param states: name of a state → segments in it.
    :param unsized: segments besides these, of which the log tells neither size nor a certain state.
    """

    topic: str
    topic_id: str
    presence: str
    partitions: int
    segments: int
    bytes: int
    states: dict[str, int]
    unsized: int


def topics_in_log(topic: TopicReplay) -> list[TopicInventory]:
    """
    Return every topic that the metadata topic names, by name.

    :param topic: the metadata topic, read.
    :raises EventLogError: if the cluster cannot be asked.
    """
    names = topic.names()
    seen = look(topic.topics, topic.log, names).observations
    partitions = Counter(tip.topic_id for tip in topic.partitions())
    unsized: Counter[UUID] = Counter()
    for (topic_id, _), count in topic.without_size().items():
        unsized[topic_id] += count
    states: dict[UUID, Counter[str]] = {topic_id: Counter() for topic_id in names}
    sizes: Counter[UUID] = Counter()
    for row, found_there in counted_by(topic.segments, ["topic_id", "state"]):
        topic_id = UUID(bytes=row["topic_id"])
        states[topic_id][RemoteLogSegmentState(row["state"]).name] += found_there.segments
        sizes[topic_id] += found_there.bytes
    found = [
        TopicInventory(
            topic=", ".join(sorted(names[topic_id])),
            topic_id=kafka_uuid_str(topic_id),
            presence=seen[topic_id].presence.value,
            partitions=partitions[topic_id],
            segments=states[topic_id].total(),
            bytes=sizes[topic_id],
            states=dict(sorted(states[topic_id].items())),
            unsized=unsized[topic_id],
        )
        for topic_id in names
    ]
    return sorted(found, key=lambda t: (t.topic, t.topic_id))


@dataclass(frozen=True, slots=True)
class OrphanedPartition:
    """
    A user partition of a deleted topic that still has remote segments, or whose deletion is not finished; or one of which
    it cannot be told whether it is that: its state is ``UNSEEN`` then.

    :param topic: its topic's name.
    :param topic_id: in Kafka's text form.
    :param partition: its number.
    :param metadata_partition: where its events lie.
    :param segments: segments that are not finished.
    :param bytes: their sizes, summed.
    :param deletion: name of the state of its deletion, ``None`` where it was never marked.
    :param observed_ms: since when its absence counts, ms since the epoch; ``None`` where it was not observed.
    :param status: :data:`~airflow_provider_rlmm.features.survey.inventory.READY`, the kind of what stands against its
        cleaning, or ``UNSEEN``.
    :param why: what stands against it or the right that is missing, in words; empty where it is ready.
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


@dataclass(frozen=True, slots=True)
class Orphans:
    """
    What was found of deleted topics.

    :param partitions: their user partitions that are not cleaned, and those of which it cannot be told, by topic and number.
    :param totals: of the survey that they come from.
    """

    partitions: list[OrphanedPartition]
    totals: Totals


def orphaned_partitions(
    topic: TopicReplay, limits: CleanerLimits, now_ms: int, hold: Hold = NOTHING_HELD, only: Only = ALL_TOPICS
) -> Orphans:
    """
    Return the user partitions of deleted topics that are not cleaned, and those of which it cannot be told.

    :param topic: the metadata topic, read.
    :param limits: by which it is judged what may be cleaned now.
    :param now_ms: ms since the epoch.
    :param hold: what is never touched.
    :param only: the topics that are looked for.
    :raises EventLogError: if log or cluster cannot be asked.
    """
    made = survey(topic, limits, hold, now_ms, only)
    rows = made.partitions.append_column("status", made.statuses).to_pylist()
    found = [_orphan(row) for row in rows if row["state"] != SurveyedState.LIVING.value]
    return Orphans(sorted(found, key=lambda o: (o.topic, o.topic_id, o.partition)), made.totals)


def _orphan(row: Mapping[str, Any]) -> OrphanedPartition:
    return OrphanedPartition(
        topic=row["topic"],
        topic_id=kafka_uuid_str(UUID(bytes=row["topic_id"])),
        partition=row["partition"],
        metadata_partition=row["metadata_partition"],
        segments=row["segments"],
        bytes=row["bytes"],
        deletion=row["deletion"],
        observed_ms=row["first_absent_ms"],
        status=row["status"],
        why="" if row["status"] == READY else row["why"],
    )
