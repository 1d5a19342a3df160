# SPDX-License-Identifier: Apache-2.0
"""
The document of what the leaders of a cluster delete next: for the pages, the doctor and readers of a run's folder.

It is bounded, for a cluster of any size: sums are of all, lists name the worst. Nothing that deletes reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, TypeVar

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.documents import AbsentAs, AtMost, LongText, Text, plain_of, reader_of
from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.base.quoting import human_bytes, name_in_text, printable
from airflow_provider_rlmm.core.plans.certainty import Certainty
from airflow_provider_rlmm.core.plans.counts import NOTHING, Count, added_up
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.runs.attention import Attention
from airflow_provider_rlmm.features.retention.hanging_copies import CopyProgress, in_words
from airflow_provider_rlmm.features.retention.leader_pass import PartitionPass
from airflow_provider_rlmm.features.retention.leader_retention import LeaderRetention, TopicSum

LEADER_RETENTION_DOCUMENT: Final = "leader-retention.json"
"""In the folder of a run, and the newest one in that of the cluster."""

MAX_LISTED: Final = 1_000
"""Entries of each list; all are counted."""

MAX_BYTES: Final = 16 * 2**20

_MAX_WHY: Final = 1_000
_FORMAT: Final = 1


class LeaderProblem(StrEnum):
    """Kinds of what needs a person."""

    OVERDUE = "OVERDUE"  # a leader is stuck
    OVERDUE_NOT_LISTED = "OVERDUE_NOT_LISTED"  # more leaders are stuck than the document lists
    COPIES_HANG = "COPIES_HANG"  # a leader has stopped copying
    COPIES_HANG_NOT_LISTED = "COPIES_HANG_NOT_LISTED"  # more have than the document lists


@dataclass(frozen=True, slots=True)
class ReportedOverdue:
    """Segments that a leader should have deleted long ago."""

    topic: LongText
    topic_id: Text  # in Kafka's text form
    partition: int
    leader: int | None  # id of the broker that leads the user partition
    since_ms: int  # when the first of them was seen to be due, ms since the epoch
    segments: int
    bytes: int
    what_to_do: LongText


@dataclass(frozen=True, slots=True)
class ReportedHanging:
    """A leader that has stopped copying."""

    topic: LongText
    topic_id: Text  # in Kafka's text form
    partition: int
    leader: int | None  # id of the broker that leads the user partition
    since_ms: int  # since when nothing was copied, ms since the epoch
    copied_to: int  # end of what was copied, exclusive
    waiting: int  # offsets behind that
    usual: int | None  # offsets that the last segments held, ``None`` where no copy is there
    what_to_do: LongText
    # Whether the times of records show a closed segment among them; an earlier release did not ask for times.
    is_closed: Annotated[bool | None, AbsentAs(None)] = None

    def in_words(self, now_ms: int) -> str:
        """
        Say how far behind it is.

        :param now_ms: when it was asked, ms since the epoch.
        """
        progress = CopyProgress(self.copied_to, self.waiting, self.usual, self.is_closed)
        return in_words(progress, max(0, now_ms - self.since_ms))


@dataclass(frozen=True, slots=True)
class ReportedLeaked:
    """Segments of a user partition that Kafka lists for none of their leader epochs."""

    topic: LongText
    topic_id: Text
    partition: int
    segments: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ReportedUnresolved:
    """User partitions of a topic of which it cannot be told what their leaders delete, for one reason."""

    topic: LongText
    why: LongText
    partitions: int  # how many
    first: int  # the smallest of their numbers


@dataclass(frozen=True, slots=True)
class ReportedTopic:
    """What the leaders of one topic delete next."""

    topic: LongText
    topic_id: Text
    all: int  # user partitions of which all is told
    at_least: int
    unresolved: int
    goes: Count
    kept: Count
    overdue: Count | None  # ``None`` where it cannot be told
    next_due_ms: int | None

    @classmethod
    def of(cls, found: TopicSum) -> ReportedTopic:
        """
        Report a topic.

        :param found: its sums.
        """
        return cls(
            topic=found.topic,
            topic_id=kafka_uuid_str(found.topic_id),
            all=found.certainty.get(Certainty.ALL, 0),
            at_least=found.certainty.get(Certainty.AT_LEAST, 0),
            unresolved=found.certainty.get(Certainty.UNRESOLVED, 0),
            goes=found.goes,
            kept=found.kept,
            overdue=found.overdue_count,
            next_due_ms=found.next_due_ms,
        )


T = TypeVar("T", ReportedOverdue, ReportedLeaked)

_Listed = AtMost(MAX_LISTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedLeaders:
    """
    What the leaders of a cluster delete next.

    :param cluster_id: the cluster.
    :param connection: by which it was reached.
    :param asked_at_ms: when that was asked, ms since the epoch.
    :param topics: how many topics were told.
    :param all: user partitions of which all is told that their leaders delete.
    :param at_least: those whose leaders may delete more.
    :param unresolved: those of which it cannot be told.
    :param by_reason: what goes, by the name of the reason.
    :param kept: what stays of the leaders' own lineages.
    :param foreign: what stays of other lineages.
    :param undecided: what stays, as it cannot be told whether it is of the lineage.
    :param leaked: what no leader ever finds.
    :param dangling: segments whose copy or deletion was begun days ago and has not ended; they are in other sums, too.
    :param not_tiered: segments of topics that are not tiered any more.
    :param overdue: what leaders should have deleted long ago.
    :param overdue_partitions: of how many user partitions.
    :param hanging_partitions: how many leaders have stopped copying; ``None`` where an earlier release asked them.
    :param leaked_partitions: how many user partitions have leaked segments.
    :param not_judged: user partitions of which it cannot be told whether anything is overdue, or their leaders copy.
    :param why_not_judged: why, the first reason; ``None`` where all were judged.
    :param not_told: topics of which nothing is known, not even their ids.
    :param listed_topics: the first ones, by urgency.
    :param listed_overdue: the largest ones.
    :param listed_hanging: those that are furthest behind.
    :param listed_leaked: the largest ones.
    :param listed_unresolved: the first ones, by topic.
    """

    cluster_id: Text
    connection: Text
    asked_at_ms: int
    topics: int
    all: int
    at_least: int
    unresolved: int
    by_reason: Mapping[Text, Count]
    kept: Count
    foreign: Count
    undecided: Count
    leaked: Count
    dangling: Count
    not_tiered: Count
    overdue: Count
    overdue_partitions: int
    hanging_partitions: Annotated[int | None, AbsentAs(None)]
    leaked_partitions: int
    not_judged: int
    why_not_judged: LongText | None
    not_told: int
    listed_topics: Annotated[tuple[ReportedTopic, ...], _Listed]
    listed_overdue: Annotated[tuple[ReportedOverdue, ...], _Listed]
    listed_hanging: Annotated[tuple[ReportedHanging, ...], _Listed, AbsentAs([])]
    listed_leaked: Annotated[tuple[ReportedLeaked, ...], _Listed]
    listed_unresolved: Annotated[tuple[ReportedUnresolved, ...], _Listed]

    @property
    def partitions(self) -> int:
        """How many user partitions were told, in any way."""
        return self.all + self.at_least + self.unresolved

    @property
    def goes(self) -> Count:
        """What goes."""
        return Count.sum(self.by_reason.values())

    @property
    def judged(self) -> bool:
        """Whether of any user partition it is known whether something is overdue."""
        return self.not_judged < self.partitions or not self.partitions

    @classmethod
    def of(cls, found: LeaderRetention, *, cluster_id: str, connection: str, asked_at_ms: int) -> ReportedLeaders:
        """
        Report what leaders delete next.

        :param found: all of a cluster.
        :param cluster_id: the cluster.
        :param connection: by which it was reached.
        :param asked_at_ms: ms since the epoch.
        """
        topics = found.topics()
        certainties = [one.certainty for one in found.partitions]
        overdue, hanging, leaked = list(_overdue(found)), list(_hanging(found)), list(_leaked(found.partitions))
        not_judged = [one for one in found.partitions if one.topic_id_partition.topic in found.not_judged]
        return cls(
            cluster_id=cluster_id,
            connection=connection,
            asked_at_ms=asked_at_ms,
            topics=len(topics),
            all=certainties.count(Certainty.ALL),
            at_least=certainties.count(Certainty.AT_LEAST),
            unresolved=certainties.count(Certainty.UNRESOLVED),
            by_reason=dict(sorted(added_up(item for one in topics for item in one.by_reason.items()).items())),
            kept=Count.sum(one.kept for one in topics),
            foreign=Count.sum(one.foreign for one in topics),
            undecided=Count.sum(one.undecided for one in topics),
            leaked=Count.sum(one.leaked for one in topics),
            dangling=Count.sum(one.dangling for one in topics),
            not_tiered=Count.sum(one.not_tiered for one in topics),
            overdue=Count.sum(Count(one.segments, one.bytes) for one in overdue),
            overdue_partitions=len(overdue),
            hanging_partitions=len(hanging),
            leaked_partitions=len(leaked),
            not_judged=len(not_judged),
            why_not_judged=next((printable(why, _MAX_WHY) for why in found.not_judged.values()), None),
            not_told=len(found.not_told),
            listed_topics=tuple(map(ReportedTopic.of, topics[:MAX_LISTED])),
            listed_overdue=_largest(overdue),
            listed_hanging=tuple(sorted(hanging, key=lambda one: one.waiting, reverse=True)[:MAX_LISTED]),
            listed_leaked=_largest(leaked),
            listed_unresolved=tuple(_unresolved(topics))[:MAX_LISTED],
        )

    def to_json(self) -> str:
        """Return the document."""
        return json.dumps(strict.sealed(plain_of(self), _FORMAT), indent=1)

    @classmethod
    def from_json(cls, text: str) -> ReportedLeaders:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises DocumentError: if it is not.
        """
        try:
            return _READ(strict.unsealed(text, _FORMAT), "leaders")
        except ValueError as e:
            raise DocumentError(f"what leaders delete next cannot be read ({e})") from e

    def problems(self) -> Iterator[Attention]:
        """Yield what of it needs a person: a leader that is stuck, or has stopped copying, for each user partition."""
        for late in self.listed_overdue:
            amount = f"{number_of(late.segments, 'segment')}, {human_bytes(late.bytes)}"
            yield Attention(
                LeaderProblem.OVERDUE.value,
                f"{late.topic_id}:{late.topic}-{late.partition}",
                f"{amount} of {name_in_text(late.topic)}, partition {late.partition}, should have been deleted hours ago: "
                "its leader's expiration is stuck, and it grows for good",
                late.what_to_do,
                late.topic,
            )
        if (more := self.overdue_partitions - len(self.listed_overdue)) > 0:
            yield Attention(
                LeaderProblem.OVERDUE_NOT_LISTED.value,
                f"{number_of(more, 'more user partition')} with overdue segments",
                f"the document lists the {MAX_LISTED:,} largest",
                "see to those that it lists",
                acknowledgeable=False,
                count=more,
            )
        for one in self.listed_hanging:
            yield Attention(
                LeaderProblem.COPIES_HANG.value,
                f"{one.topic_id}:{one.topic}-{one.partition}",
                f"the leader of {name_in_text(one.topic)}, partition {one.partition}, has stopped copying: "
                f"{one.in_words(self.asked_at_ms)}. Local segments are not purged, and the disk of its broker fills",
                one.what_to_do,
                one.topic,
            )
        if (more := (self.hanging_partitions or 0) - len(self.listed_hanging)) > 0:
            yield Attention(
                LeaderProblem.COPIES_HANG_NOT_LISTED.value,
                f"{number_of(more, 'more user partition')} whose leaders have stopped copying",
                f"the document lists the {MAX_LISTED:,} that are furthest behind",
                "see to those that it lists",
                acknowledgeable=False,
                count=more,
            )


def _overdue(found: LeaderRetention) -> Iterator[ReportedOverdue]:
    for tip, late in found.overdue.items():
        yield ReportedOverdue(
            tip.topic,
            kafka_uuid_str(tip.topic_id),
            tip.partition,
            late.leader,
            late.since_ms,
            late.count.segments,
            late.count.bytes,
            late.what_to_do,
        )


def _hanging(found: LeaderRetention) -> Iterator[ReportedHanging]:
    for tip, one in found.hanging.items():
        yield ReportedHanging(
            tip.topic,
            kafka_uuid_str(tip.topic_id),
            tip.partition,
            one.leader,
            one.since_ms,
            one.progress.copied_to,
            one.progress.waiting,
            one.progress.usual,
            one.what_to_do,
            one.progress.is_closed,
        )


def _leaked(passes: Iterable[PartitionPass]) -> Iterator[ReportedLeaked]:
    for one in passes:
        if one.stays.leaked != NOTHING:
            tip, count = one.topic_id_partition, one.stays.leaked
            yield ReportedLeaked(tip.topic, kafka_uuid_str(tip.topic_id), tip.partition, count.segments, count.bytes)


def _largest(entries: list[T]) -> tuple[T, ...]:
    return tuple(sorted(entries, key=lambda one: one.bytes, reverse=True)[:MAX_LISTED])


def _unresolved(topics: Iterable[TopicSum]) -> Iterator[ReportedUnresolved]:
    for one in topics:
        for why, partitions in one.unresolved.items():
            yield ReportedUnresolved(one.topic, printable(why, _MAX_WHY), len(partitions), min(partitions))


_READ = reader_of(ReportedLeaders)
