# SPDX-License-Identifier: Apache-2.0
"""
What the tasks of a cleanup did, what they refused and why: the documents that they leave for the report of their run.

``docs/reports.md`` says what each field means. The form of a document is its data class here: every field is there, none
besides, each of exactly its kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Annotated, Any

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.documents import AbsentAs, LongText, Text, reader_of
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.folded import Folded
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.records.told_era import ToldEra
from airflow_provider_rlmm.core.runs.attention import Attention


class PartitionOutcome(StrEnum):
    """How the cleaning of one user partition ended."""

    FINISHED = "FINISHED"
    """DELETE_PARTITION_FINISHED is durable (in a dry run: would have been written)."""

    INCOMPLETE = "INCOMPLETE"
    """Started, and something is left: see the refusals; the next run goes on."""

    REFUSED = "REFUSED"
    """Nothing was done."""

    WAITING = "WAITING"
    """Nothing was done: its time has not come yet."""


Refused = Annotated[
    Refusal,
    reader_of(Refusal, what=strict.text, why=strict.text, what_to_do=strict.text, topic=strict.optional(strict.text)),
]
"""A refusal in a document for people: its texts are as long as they are, the document as a whole is bounded."""


@dataclass(frozen=True, slots=True)
class UserPartitionReport:
    """One user partition of a cleaning run."""

    topic: LongText  # topic name
    topic_id: LongText  # Kafka's base64 form
    partition: int  # user partition
    outcome: PartitionOutcome  # how it ended
    segments_deleted: int  # segments that reached DELETE_SEGMENT_FINISHED
    segments_left: int  # segments that are not finished
    objects_deleted: int  # objects confirmed gone
    bytes_deleted: int  # their sizes, summed
    refusals: tuple[Refused, ...] = ()  # what was refused or left, and why

    @classmethod
    def refused(cls, tip: TopicIdPartition, segments_left: int, refusal: Refusal) -> UserPartitionReport:
        """
        Report a partition that was not touched.

        :param tip: the user partition.
        :param segments_left: its segments that are not finished.
        :param refusal: why.
        """
        waiting = refusal.kind is RefusalKind.WAITING
        outcome = PartitionOutcome.WAITING if waiting else PartitionOutcome.REFUSED
        return cls(tip.topic, kafka_uuid_str(tip.topic_id), tip.partition, outcome, 0, segments_left, 0, 0, (refusal,))

    def with_done(self, earlier: UserPartitionReport | None) -> UserPartitionReport:
        """
        Add what an earlier try has deleted.

        :param earlier: the earlier try's report of the same user partition, ``None`` where it has none.
        """
        if earlier is None:
            return self
        return replace(
            self,
            segments_deleted=self.segments_deleted + earlier.segments_deleted,
            objects_deleted=self.objects_deleted + earlier.objects_deleted,
            bytes_deleted=self.bytes_deleted + earlier.bytes_deleted,
        )


@dataclass(frozen=True, slots=True)
class MetadataPartitionReport:
    """One metadata partition of a cleaning run."""

    metadata_partition: int  # which one
    dry_run: bool  # whether nothing was written or deleted
    partitions: tuple[UserPartitionReport, ...]  # its user partitions that had work
    refusals: tuple[Refused, ...]  # what concerns the metadata partition as a whole
    events: Mapping[Text, int]  # events written, by state name
    would_write: tuple[LongText, ...]  # in a dry run, every event that would have been written, in order, in words
    committed_offset: int | None  # the offset committed at the end, ``None`` where none was
    duration_ms: Annotated[int, strict.signed]  # ms; of two clocks, so it may be less than nothing
    # why the time of the run was over before all was deleted, ``None`` where it was not; earlier releases had all the time
    out_of_time: Annotated[LongText | None, AbsentAs(None)] = None

    def every_refusal(self) -> Iterator[Refusal]:
        """Yield every refusal, those of the metadata partition before those of its user partitions."""
        yield from self.refusals
        for partition in self.partitions:
            yield from partition.refusals

    def with_earlier_try(self, earlier: MetadataPartitionReport) -> MetadataPartitionReport:
        """
        Add what an earlier try of the same run did; what is left and refused is as of this one.

        :param earlier: the earlier try's report, of the same metadata partition.
        """
        before = {(p.topic_id, p.partition): p for p in earlier.partitions}
        tried = tuple(p.with_done(before.pop((p.topic_id, p.partition), None)) for p in self.partitions)
        # That the report of a still earlier try is lost, or the audit log lacks something of it, stays true.
        lost = tuple(r for r in earlier.refusals if r.kind in (RefusalKind.REPORT, RefusalKind.AUDIT))
        return replace(
            self,
            # What the earlier try finished is no work any more; what a later one did not get to is as it was left.
            partitions=(*tried, *before.values()),
            refusals=(*self.refusals, *lost),
            events=dict(Counter(self.events) + Counter(earlier.events)),
            duration_ms=self.duration_ms + earlier.duration_ms,
        )


@dataclass(frozen=True, slots=True)
class MarkedTopic:
    """A topic of which a run has marked user partitions; in a dry run, would have."""

    topic: LongText
    topic_id: LongText  # in Kafka's form
    partitions: int  # user partitions
    segments: int  # of these that are not finished
    bytes: int  # their sizes, summed


@dataclass(frozen=True, slots=True)
class Marked:
    """
    What a run has marked, by topic; in a dry run, what it would have.

    :param topics: those that store most, the largest first, :data:`MOST_MARKED_TOPICS` at most.
    :param all: of all topics, those that are not named included.
    :param eligible_ms: when it may be deleted at the earliest, if the topics stay absent, ms since the epoch.
    """

    topics: tuple[MarkedTopic, ...]
    all: Count
    eligible_ms: int

    @property
    def more(self) -> Count:
        """Segments and bytes of the topics that are not named."""
        named = Count.sum(Count(topic.segments, topic.bytes) for topic in self.topics)
        return Count(self.all.segments - named.segments, self.all.bytes - named.bytes)


MOST_MARKED_TOPICS = 1_000


@dataclass(frozen=True, slots=True)
class Marking:
    """What the marker leaves for the report of its run."""

    cluster_id: LongText  # the cluster
    dry_run: bool  # whether nothing was written
    marked: int  # user partitions that were marked; in a dry run, that would have been
    already_marked: int  # user partitions whose observation of absence stands
    refusals: tuple[Refused, ...]  # what was not marked, and why
    # the era of the log; earlier releases did not say it
    era: Annotated[ToldEra | None, AbsentAs(None)] = None
    # the generation of the Spark job that its reading began with; ``None`` where there was none
    folded: Annotated[Folded | None, AbsentAs(None)] = None
    # by topic; earlier releases did not say it
    by_topic: Annotated[Marked | None, AbsentAs(None)] = None


@dataclass(frozen=True, slots=True)
class Totals:
    """
    What metadata partitions' reports count, added up; in a dry run, what would have been.

    :param refusals: what was refused or left, waits not among it; what was refused twice counts once.
    """

    segments_deleted: int
    objects_deleted: int
    bytes_deleted: int
    segments_left: int  # of user partitions that do not wait: what waits is not left
    partitions_finished: int
    partitions_incomplete: int
    partitions_refused: int
    partitions_waiting: int
    refusals: int

    @classmethod
    def of(cls, parts: Sequence[MetadataPartitionReport]) -> Totals:
        """Add up."""
        partitions = [partition for part in parts for partition in part.partitions]
        outcomes = Counter(partition.outcome for partition in partitions)
        return cls(
            segments_deleted=sum(p.segments_deleted for p in partitions),
            objects_deleted=sum(p.objects_deleted for p in partitions),
            bytes_deleted=sum(p.bytes_deleted for p in partitions),
            segments_left=sum(p.segments_left for p in partitions if p.outcome is not PartitionOutcome.WAITING),
            partitions_finished=outcomes[PartitionOutcome.FINISHED],
            partitions_incomplete=outcomes[PartitionOutcome.INCOMPLETE],
            partitions_refused=outcomes[PartitionOutcome.REFUSED],
            partitions_waiting=outcomes[PartitionOutcome.WAITING],
            refusals=count_refused(met_in(parts)),
        )


IN_A_DRY_RUN = {
    "segments_deleted": "would_delete_segments",
    "objects_deleted": "would_delete_objects",
    "bytes_deleted": "would_delete_bytes",
    "segments_left": "would_leave_segments",
    "partitions_finished": "would_finish_partitions",
    "partitions_incomplete": "would_leave_partitions_incomplete",
    "partitions_marked": "would_mark_partitions",
}
"""What a count is called where nothing was done; the others say what is, in a dry run too."""


def named(counted: Totals, dry_run: bool, **more: int) -> dict[str, int]:
    """
    Return counts under the names that are true: in a dry run nothing was deleted, it only would have been.

    :param counted: of a run, or of a part of it.
    :param dry_run: whether nothing was written or deleted.
    :param more: counts besides.
    """
    counts = {**asdict(counted), **more}
    return {IN_A_DRY_RUN.get(name, name) if dry_run else name: count for name, count in counts.items()}


Met = tuple[int | None, Refusal]
"""A refusal, and the metadata partition where it was met; ``None`` where it says that itself, or concerns none."""


def met_in(parts: Iterable[MetadataPartitionReport]) -> Iterator[Met]:
    """Yield every refusal of metadata partitions' reports."""
    for part in parts:
        yield from ((part.metadata_partition, refusal) for refusal in part.every_refusal())


def count_refused(met: Iterable[Met]) -> int:
    """
    Count what was refused or left, waits not among it: marker, planner and cleaner may each refuse the same thing.

    :param met: every refusal of a run, of any task.
    """
    first: dict[object, int] = {}
    for metadata_partition, refusal in met:
        if refusal.kind is not RefusalKind.WAITING:
            first.setdefault(Attention.of_refusal(refusal, metadata_partition).key, refusal.count)
    return sum(first.values())


def read_part(document: Mapping[str, Any]) -> MetadataPartitionReport:
    """
    Read the report of a metadata partition.

    :param document: as it was written.
    :raises ValueError: naming the first field that is wrong.
    """
    return _READ_PART(document, "part")


def read_marking(document: Mapping[str, Any]) -> Marking:
    """Read what the marker left as :func:`read_part` does."""
    return _READ_MARKING(document, "mark")


_READ_PART = reader_of(MetadataPartitionReport)
_READ_MARKING = reader_of(Marking)
