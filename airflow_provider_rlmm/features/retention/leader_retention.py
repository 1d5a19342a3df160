# SPDX-License-Identifier: Apache-2.0
"""What the leaders of a cluster delete next, and its sums by topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from airflow_provider_rlmm.core.plans.certainty import Certainty
from airflow_provider_rlmm.core.plans.counts import Count, added_up
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.features.retention.hanging_copies import HangingCopies
from airflow_provider_rlmm.features.retention.leader_pass import PartitionPass
from airflow_provider_rlmm.features.retention.overdue import Overdue


@dataclass(frozen=True, slots=True)
class TopicSum:
    """
    What the leaders of one topic delete next, all its user partitions together.

    :param topic: its name.
    :param topic_id: its id.
    :param certainty: how many user partitions are told how.
    :param by_reason: what goes, by the name of the reason.
    :param kept: what stays of the leaders' own lineages.
    :param foreign: what stays of other lineages.
    :param undecided: what stays, as it cannot be told whether it is of the lineage.
    :param leaked: what no leader ever finds.
    :param dangling: segments whose copy or deletion was begun days ago and has not ended.
    :param not_tiered: all segments, where the topic is not tiered any more: no leader deletes them.
    :param next_due_ms: when time takes the next segment, ms since the epoch; ``None`` where it never does, or that is not
        known.
    :param unresolved: why nothing is told → of which user partitions.
    :param overdue: what should have been deleted long ago, by user partition.
    :param hanging: leaders that have stopped copying, by user partition.
    :param not_judged: why it cannot be told whether anything is overdue, or hangs, ``None`` where it was judged.
    """

    topic: str
    topic_id: UUID
    certainty: Mapping[Certainty, int]
    by_reason: Mapping[str, Count]
    kept: Count
    foreign: Count
    undecided: Count
    leaked: Count
    dangling: Count
    not_tiered: Count
    next_due_ms: int | None
    unresolved: Mapping[str, Sequence[int]]
    overdue: Sequence[Overdue]
    hanging: Sequence[HangingCopies]
    not_judged: str | None

    @property
    def goes(self) -> Count:
        """What goes."""
        return Count.sum(self.by_reason.values())

    @property
    def overdue_count(self) -> Count | None:
        """What is overdue, ``None`` where it cannot be told."""
        return None if self.not_judged is not None else Count.sum(one.count for one in self.overdue)


@dataclass(frozen=True, slots=True)
class LeaderRetention:
    """
    What leaders delete next.

    :param partitions: what is told of each user partition, by topic and number.
    :param overdue: what they should have deleted long ago.
    :param hanging: what they should have copied long ago.
    :param not_judged: by topic why it cannot be told whether anything of it is overdue, or hangs.
    :param not_told: by topic why nothing is known of it, not even its id.
    """

    partitions: Sequence[PartitionPass]
    overdue: Mapping[TopicIdPartition, Overdue] = field(default_factory=dict)
    hanging: Mapping[TopicIdPartition, HangingCopies] = field(default_factory=dict)
    not_judged: Mapping[str, str] = field(default_factory=dict)
    not_told: Mapping[str, str] = field(default_factory=dict)

    @property
    def needs_a_person(self) -> bool:
        """Whether anything is overdue, or a leader has stopped copying, or it cannot be told what some leaders delete."""
        untold = any(one.certainty is Certainty.UNRESOLVED for one in self.partitions)
        return bool(self.overdue or self.hanging or self.not_told or untold)

    def topics(self) -> list[TopicSum]:
        """Return the sums by topic: first where something is overdue, then where nothing is told, then by bytes that go."""
        found: dict[tuple[str, UUID], list[PartitionPass]] = {}
        for one in self.partitions:
            tip = one.topic_id_partition
            found.setdefault((tip.topic, tip.topic_id), []).append(one)
        sums = [self._sum(topic, topic_id, passes) for (topic, topic_id), passes in found.items()]
        return sorted(sums, key=_urgency)

    def _sum(self, topic: str, topic_id: UUID, passes: Sequence[PartitionPass]) -> TopicSum:
        by_reason = added_up(item for one in passes for item in one.by_reason.items())
        unresolved: dict[str, list[int]] = {}
        for one in passes:
            if one.certainty is Certainty.UNRESOLVED:
                unresolved.setdefault("; ".join(one.why), []).append(one.topic_id_partition.partition)
        due = [one.stays.next_due_ms for one in passes if one.stays.next_due_ms is not None]
        return TopicSum(
            topic=topic,
            topic_id=topic_id,
            certainty=Counter(one.certainty for one in passes),
            by_reason=dict(sorted(by_reason.items())),
            kept=Count.sum(one.stays.kept for one in passes),
            foreign=Count.sum(one.stays.foreign for one in passes),
            undecided=Count.sum(one.stays.undecided for one in passes),
            leaked=Count.sum(one.stays.leaked for one in passes),
            dangling=Count.sum(one.dangling for one in passes),
            not_tiered=Count.sum(one.not_tiered for one in passes),
            next_due_ms=min(due, default=None),
            unresolved=unresolved,
            overdue=[late for one in passes if (late := self.overdue.get(one.topic_id_partition)) is not None],
            hanging=[stop for one in passes if (stop := self.hanging.get(one.topic_id_partition)) is not None],
            not_judged=self.not_judged.get(topic),
        )


def _urgency(one: TopicSum) -> tuple[int, int, int, str]:
    overdue = Count.sum(late.count for late in one.overdue)
    return -overdue.bytes, -one.certainty.get(Certainty.UNRESOLVED, 0), -one.goes.bytes, one.topic


def in_words(partitions: Iterable[int], most: int = 10) -> str:
    """
    Name user partitions.

    :param partitions: their numbers.
    :param most: how many are named; the others are counted.
    """
    numbers = sorted(partitions)
    named = ", ".join(map(str, numbers[:most]))
    return named if len(numbers) <= most else f"{named} and {len(numbers) - most:,} more"
