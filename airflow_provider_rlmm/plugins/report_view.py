# SPDX-License-Identifier: Apache-2.0
"""A cleanup report by topic: what lies scattered over metadata partitions, put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_rlmm.core.plans.refusals import Refusal
from airflow_provider_rlmm.features.cleanup.report_document import CleanupReport
from airflow_provider_rlmm.features.cleanup.reports import PartitionOutcome, UserPartitionReport

_WORST_FIRST: Final = (
    PartitionOutcome.REFUSED,
    PartitionOutcome.INCOMPLETE,
    PartitionOutcome.WAITING,
    PartitionOutcome.FINISHED,
)


@dataclass(frozen=True, slots=True)
class ReportedTopic:
    """
    What a run did about a topic.

    :param topic: its name.
    :param topic_id: in Kafka's text form.
    :param outcome: of its user partitions, the one that most needs to be seen.
    :param partitions: outcome → how many of its user partitions have it.
    :param segments_deleted: in a dry run, that would have been.
    :param segments_left: that are still there.
    :param objects_deleted: in a dry run, that would have been.
    :param bytes_deleted: in a dry run, that would have been.
    :param refusals: of all its user partitions, without repetitions.
    """

    topic: str
    topic_id: str
    outcome: PartitionOutcome
    partitions: Mapping[PartitionOutcome, int]
    segments_deleted: int
    segments_left: int
    objects_deleted: int
    bytes_deleted: int
    refusals: Sequence[Refusal]


def by_topic(report: CleanupReport) -> list[ReportedTopic]:
    """Return what a report says, topic by topic: those that were refused first, then the largest."""
    groups: dict[tuple[str, str], list[UserPartitionReport]] = {}
    for part in report.metadata_partitions:
        for partition in part.partitions:
            groups.setdefault((partition.topic, partition.topic_id), []).append(partition)
    found = [_topic(topic, topic_id, partitions) for (topic, topic_id), partitions in groups.items()]
    return sorted(found, key=lambda t: (_WORST_FIRST.index(t.outcome), -t.bytes_deleted, t.topic, t.topic_id))


def _topic(topic: str, topic_id: str, partitions: Sequence[UserPartitionReport]) -> ReportedTopic:
    outcomes = [p.outcome for p in partitions]
    counts = {outcome: outcomes.count(outcome) for outcome in _WORST_FIRST if outcome in outcomes}
    return ReportedTopic(
        topic,
        topic_id,
        next(iter(counts)),
        counts,
        segments_deleted=sum(p.segments_deleted for p in partitions),
        segments_left=sum(p.segments_left for p in partitions),
        objects_deleted=sum(p.objects_deleted for p in partitions),
        bytes_deleted=sum(p.bytes_deleted for p in partitions),
        refusals=list(_refusals(partitions)),
    )


def _refusals(partitions: Sequence[UserPartitionReport]) -> Iterator[Refusal]:
    seen = set()
    for partition in partitions:
        for refusal in partition.refusals:
            said = (refusal.what, refusal.why)
            if said not in seen:
                seen.add(said)
                yield refusal
