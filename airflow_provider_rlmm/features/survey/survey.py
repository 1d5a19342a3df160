# SPDX-License-Identifier: Apache-2.0
"""
A survey: what the whole metadata topic says is stored, judged by one look at the cluster, as tables for people.

The state of a user partition is decided by the rules of planner and cleaner
(:func:`~airflow_provider_rlmm.core.world.absence.refusal_of`), in one place: :func:`_of_marked`. Segments stay columns from
the log to the files; there are objects only for user partitions whose deletion is under way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from airflow_provider_rlmm.core.plans.counts import Count, Unsized
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from airflow_provider_rlmm.core.world.absence import Observation, Presence, first_observation, refusal_of
from airflow_provider_rlmm.core.world.cluster_look import look
from airflow_provider_rlmm.core.world.hold import Hold
from airflow_provider_rlmm.core.world.only import ALL_TOPICS, Only
from airflow_provider_rlmm.core.world.out_of_service import _out_of_service
from airflow_provider_rlmm.core.world.replay import MetadataPartitionView
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.features.survey.inventory import READY, SurveyedState, Totals, Verdict
from airflow_provider_rlmm.features.survey.inventory_files import partitions_schema, segments_schema, topics_schema

if TYPE_CHECKING:
    import pyarrow as pa


NOT_MARKED = "not marked yet: the next run that may write marks it"
_STARTED = RemotePartitionDeleteState.DELETE_PARTITION_STARTED

BY_URGENCY = (
    SurveyedState.UNSEEN,
    SurveyedState.REFUSED,
    SurveyedState.DELETING,
    SurveyedState.ELIGIBLE,
    SurveyedState.WAITING,
    SurveyedState.ORPHANED,
    SurveyedState.LIVING,
)
"""Where the user partitions of a topic differ, the first of these is the topic's state."""


@dataclass(frozen=True, slots=True)
class Survey:
    """
    What a survey found.

    :param topics: a row for each topic id, as :data:`~airflow_provider_rlmm.features.survey.inventory.TOPIC_COLUMNS` has it.
    :param partitions: a row for each user partition, as
        :data:`~airflow_provider_rlmm.features.survey.inventory.PARTITION_COLUMNS` has it.
    :param statuses: of these rows: :data:`READY`, or the kind of what stands against the cleaning.
    :param stored: the segments that are not finished, as the columnar state has them.
    :param totals: summed up.
    """

    topics: pa.Table
    partitions: pa.Table
    statuses: pa.ChunkedArray
    stored: pa.Table
    totals: Totals

    def segments(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield each metadata partition that has segments, and these, sorted by user partition and start offset."""
        from airflow_provider_rlmm.features.survey.tables import segments_of

        for number in sorted(self.stored.column("metadata_partition").unique().to_pylist()):
            yield number, segments_of(self.stored, number, segments_schema())


def survey(topic: TopicReplay, limits: CleanerLimits, hold: Hold, now_ms: int, only: Only = ALL_TOPICS) -> Survey:
    """
    Survey a metadata topic that was read.

    :param topic: the metadata topic.
    :param limits: by which it is judged what may be cleaned now.
    :param hold: what is never touched.
    :param now_ms: ms since the epoch, proven.
    :param only: what is told is of these topics; metadata partitions out of service and records that cannot be used are
        those of all.
    :raises ClusterMismatchError: if another cluster answers than the one whose log is read.
    :raises EventLogError: if log or cluster cannot be asked.
    """
    from airflow_provider_rlmm.features.survey.tables import (
        partition_rows,
        rows_of_topics,
        topic_rows,
        user_partitions_of,
        without_what_is_unreadable,
    )

    views = [
        topic.view(number, topic.under_way(number), with_segments=False) for number in range(topic.log.partition_count)
    ]
    marked = {
        (history.topic_id_partition, view.metadata_partition): history
        for view in views
        for history in view.histories.values()
        if history.deletion_under_way()
    }
    known = topic.names()
    chosen = only.among(known, known.__getitem__)
    stored = topic.segments if len(chosen) == len(known) else rows_of_topics(topic.segments, chosen)
    found = user_partitions_of(stored, {key: h for key, h in marked.items() if key[0].topic_id in chosen})
    names = {topic_id: known[topic_id] for topic_id in found.topic_ids()}
    unsized = {key: count for key, count in topic.without_size().items() if key[0] in chosen}
    asked = names | {topic_id: known[topic_id] for topic_id, _ in unsized}
    seen = look(topic.topics, topic.log, asked).observations if asked else {}
    by_topic = {topic_id: _of_topic(topic_id, names[topic_id], seen[topic_id], hold) for topic_id in names}
    by_partition = {
        key: _of_marked(history, seen[key[0].topic_id], by_topic[key[0].topic_id], limits, now_ms)
        for key, history in marked.items()
        if key[0].topic_id in chosen
    }
    out = _out_of_service(views, limits.allowed_quarantine)
    partitions, statuses = without_what_is_unreadable(
        *partition_rows(found, by_topic, by_partition, partitions_schema()), out
    )
    presence = {topic_id: observation.presence for topic_id, observation in seen.items()}
    topics = topic_rows(found, partitions, names, presence, BY_URGENCY, topics_schema())
    totals = _totals(topics, partitions, views, _unsized(unsized, presence, out))
    return Survey(topics, partitions, statuses, stored, totals)


def _of_topic(topic_id: UUID, names: frozenset[str], seen: Observation, hold: Hold) -> Verdict:
    """Judge the user partitions of a topic id without a marker."""
    if seen.presence is not Presence.ABSENT:
        if seen.presence is Presence.PRESENT:
            return Verdict(SurveyedState.LIVING, seen.presence.value, seen.reason)
        return Verdict(SurveyedState.UNSEEN, SurveyedState.UNSEEN.value, seen.reason)
    held = hold.refusal_of(TopicIdPartition(topic_id, min(names), 0), names)
    if held is not None:
        return _refused(held)
    return Verdict(SurveyedState.ORPHANED, RefusalKind.NEXT_RUN.value, NOT_MARKED)


def _refused(refusal: Refusal) -> Verdict:
    return Verdict(SurveyedState.REFUSED, refusal.kind.value, f"{refusal.why}; {refusal.what_to_do}")


def _of_marked(
    history: UserPartitionHistory, seen: Observation, of_topic: Verdict, limits: CleanerLimits, now_ms: int
) -> Verdict:
    """Judge a user partition whose deletion is under way; ``of_topic`` says what holds for its topic."""
    state, status, why, eligible_ms = of_topic.state, of_topic.status, of_topic.why, None
    first = first_observation(history.observations, now_ms)
    refusal = None if state is SurveyedState.REFUSED else refusal_of(history, seen, now_ms, limits)
    if refusal is not None:
        status = status if state is SurveyedState.UNSEEN else refusal.kind.value
        why = f"{refusal.why}; {refusal.what_to_do}"
    if state is SurveyedState.ORPHANED:
        state = _progress_of(history, refusal)
        if refusal is None:
            status, why = READY, "a run may clean it now"
        elif refusal.kind is RefusalKind.WAITING and first is not None:
            eligible_ms = first.time_ms + limits.min_absence_ms
    deletion = history.delete_state.name if history.delete_state is not None else None
    return Verdict(state, status, why, deletion, first.time_ms if first else None, eligible_ms)


def _progress_of(history: UserPartitionHistory, refusal: Refusal | None) -> SurveyedState:
    """Tell how far the deletion of a user partition is whose topic is gone."""
    if refusal is not None and refusal.kind.needs_person:
        return SurveyedState.REFUSED
    if history.delete_state is _STARTED:
        return SurveyedState.DELETING
    if refusal is None:
        return SurveyedState.ELIGIBLE
    # A marker that does not count is as good as none: the next run makes another one.
    return SurveyedState.WAITING if refusal.kind is RefusalKind.WAITING else SurveyedState.ORPHANED


def _unsized(
    counted: Mapping[tuple[UUID, int], int], presence: Mapping[UUID, Presence], out: Collection[int]
) -> Unsized:
    """Tell whose the segments are of which the log tells no size, by the rule of the user partitions that have a row."""
    living = unseen = 0
    for (topic_id, metadata_partition), count in counted.items():
        if presence[topic_id] is Presence.PRESENT:
            living += count
        elif presence[topic_id] is not Presence.ABSENT or metadata_partition in out:
            unseen += count
    return Unsized(sum(counted.values()) - living - unseen, unseen, living)


def _totals(topics: pa.Table, partitions: pa.Table, views: list[MetadataPartitionView], unsized: Unsized) -> Totals:
    import pyarrow.compute as pc

    sums = partitions.group_by("state").aggregate([("segments", "sum"), ("bytes", "sum")]).to_pylist()
    by_state = {SurveyedState(row["state"]): Count(row["segments_sum"], row["bytes_sum"]) for row in sums}
    nothing = Count(0, 0)
    absent = topics.filter(pc.equal(topics.column("presence"), Presence.ABSENT.value))
    gone = [state for state in by_state if state not in (SurveyedState.LIVING, SurveyedState.UNSEEN)]
    return Totals(
        stored=Count.sum(by_state.values()),
        orphaned=Count.sum(by_state[state] for state in gone),
        waiting=by_state.get(SurveyedState.WAITING, nothing),
        eligible=by_state.get(SurveyedState.ELIGIBLE, nothing),
        deleting=by_state.get(SurveyedState.DELETING, nothing),
        next_eligible_ms=_lowest(
            partitions.filter(pc.equal(partitions.column("state"), SurveyedState.WAITING.value)), "eligible_ms"
        ),
        oldest_orphan_ms=_lowest(absent, "oldest_ms"),
        topics=topics.num_rows,
        orphaned_topics=absent.num_rows,
        unseen=by_state.get(SurveyedState.UNSEEN, nothing),
        unseen_topics=pc.sum(pc.equal(topics.column("state"), SurveyedState.UNSEEN.value)).as_py() or 0,
        quarantined_records=sum(view.quarantined_records for view in views),
        metadata_partitions_out_of_service=tuple(_out_of_service(views)),
        unsized=unsized,
    )


def _lowest(rows: pa.Table, column: str) -> int | None:
    import pyarrow.compute as pc

    found: int | None = pc.min(rows.column(column)).as_py()
    # A time before the epoch is none.
    return None if found is None or found < 0 else found
