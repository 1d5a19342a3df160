# SPDX-License-Identifier: Apache-2.0
"""
Which segments of listed topics are to go, judged in columns: for certain where the leader has told what it knows, else as an
estimate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_provider_rlmm.core.plans.certainty import Certainty
from airflow_provider_rlmm.core.records.fold.living import LivingSegments
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.world.cluster_state import ClusterState, ListedTopic, ToldLeader
from airflow_provider_rlmm.features.retention.rules import EvaluationLimits, PartitionLimits
from airflow_provider_rlmm.features.retention.spark.columns import LEADER_COLUMNS, NOT_TIERED, arrow_schema
from airflow_provider_rlmm.features.retention.spark.executor.leader_walk import Epochs, ToldPartition, pass_of_leaders
from airflow_provider_rlmm.features.retention.spark.executor.retention_walk import (
    DANGLING,
    FIELDS,
    NONE,
    WalkedSegments,
    dangling_of,
    reasons_of,
)

Array = Any

LEADERS = arrow_schema(LEADER_COLUMNS)
"""Of what is told of the leaders of user partitions."""

NOBODY_ASKED = "its leader was not asked"
UNCERTAIN = "it has segments whose state is not certain"
SHARED_PLACES = (
    "copied segments of it lie over each other, or their leader epochs are not in order: rlmm retention of this topic "
    "tells it"
)
STALE_LINEAGE = "its newest segment knows more leader epochs than the lineage that is kept: rlmm retention finds it"

_JUDGED_AT_ONCE = 65_536
"""So many segments are judged at a time, or those of one user partition where these are more."""


@dataclass(frozen=True)
class Evaluation:
    """What a task must know beside the records."""

    num_partitions: int  # how many metadata partitions the topic has
    cluster_state: ClusterState  # the listing of the cluster
    limits: EvaluationLimits  # time and minimum age

    @cached_property
    def topics(self) -> Mapping[bytes, ListedTopic]:
        """The listed topics by their ids."""
        return {topic.topic_id.bytes: topic for topic in self.cluster_state.topics}

    def partition_limits(self, topic: ListedTopic, partition: int) -> PartitionLimits:
        """Return what holds for a user partition, by its number."""
        return PartitionLimits(
            self.limits,
            True,
            self.cluster_state.observed_at_ms,
            topic.log_start_offsets.get(partition),
            topic.retention_ms,
            topic.retention_bytes,
        )


@dataclass(frozen=True)
class Judgement:
    """What becomes of segments."""

    codes: Array  # of each segment, of its reason
    exact: Array  # of each segment, whether its leader deletes it for certain
    leaders: pa.Table  # a row for each listed user partition


@dataclass
class _Told:
    """Rows of :data:`LEADERS`, as they are found."""

    columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in LEADERS.names})

    def add(self, *values: Any) -> None:
        for column, value in zip(self.columns.values(), values, strict=True):
            column.append(value)

    def table(self) -> pa.Table:
        return pa.Table.from_pydict(self.columns, schema=LEADERS)


def listed_topics(segments: LivingSegments, evaluation: Evaluation) -> list[ListedTopic | None]:
    """Return the topic of each user partition, ``None`` where the listing does not have it."""
    return [evaluation.topics.get(topic_id) for topic_id in segments.partitions["topic_id"].to_pylist()]


def judge(
    segments: LivingSegments, evaluation: Evaluation, unresolved: pa.Table, doubt: str | None = None
) -> Judgement:
    """
    Judge the segments of listed topics; those of others, and those whose state is not certain, have no reason.

    :param segments: the segments.
    :param evaluation: what holds.
    :param unresolved: segments whose state is not certain, with ``topic_id`` and ``partition``; whether or not they are among
        the others.
    :param doubt: why nothing is told of leaders, with any answer of theirs; ``None`` where nothing stands against it.
    """
    codes, exact, told = np.full(segments.size, NONE, np.int8), np.zeros(segments.size, bool), _Told()
    topics, numbers = listed_topics(segments, evaluation), segments.partitions["partition"].to_pylist()
    keys = zip(*(unresolved[name].to_pylist() for name in ("topic_id", "partition")), strict=True)
    uncertain = frozenset(keys)
    for partitions, _ in pieces(segments):
        by_leader: list[_Listed] = []
        others: list[_Listed] = []
        for at in range(partitions.start, partitions.stop):
            topic = topics[at]
            if topic is not None:
                is_uncertain = (topic.topic_id.bytes, numbers[at]) in uncertain
                found = _leader_of(topic, numbers[at], doubt or (UNCERTAIN if is_uncertain else None))
                (by_leader if isinstance(found, ToldPartition) else others).append((at, topic, found))
        rest = _by_leaders(segments, evaluation, by_leader, codes, exact, told)
        _estimate(segments, evaluation, numbers, [*others, *rest], codes, told)
    codes[segments.uncertain] = NONE
    return Judgement(codes, exact, told.table())


def pieces(segments: LivingSegments) -> Iterator[tuple[slice, slice]]:
    """Yield ranges of whole user partitions, and of their segments."""
    ends = [*segments.first[1:].tolist(), segments.size]
    begin = at = 0
    for number, end in enumerate(ends):
        if end - at >= _JUDGED_AT_ONCE or (end == segments.size and end > at):
            yield slice(begin, number + 1), slice(at, end)
            begin, at = number + 1, end


def _leader_of(topic: ListedTopic, partition: int, doubt: str | None) -> ToldPartition | str:
    """Return what the leader of a user partition has told, or why nothing is told."""
    leader: ToldLeader | None = topic.leaders.get(partition)
    if doubt is not None or leader is None:
        return doubt or topic.untold.get(partition, NOBODY_ASKED)
    return ToldPartition(
        LeaderEpochCheckpoint(leader.lineage),
        leader.log_start_offset,
        leader.log_end_offset,
        topic.retention_ms,
        topic.retention_bytes,
        leader.known_up_to,
    )


_Listed = tuple[int, ListedTopic, ToldPartition | str]
"""Number of a user partition here, its topic, and what its leader has told or why nothing is."""


def _walked(segments: LivingSegments, partitions: Sequence[_Listed]) -> tuple[Array, WalkedSegments]:
    """Return where the segments of some user partitions are, and these."""
    sizes = segments.sizes.take([at for at, _, _ in partitions])
    first = np.cumsum(sizes) - sizes
    at = np.repeat(segments.first.take([at for at, _, _ in partitions]) - first, sizes) + np.arange(sizes.sum())
    return at, WalkedSegments({name: segments.numbers(name, at) for name in FIELDS}, first)


def _by_leaders(
    segments: LivingSegments,
    evaluation: Evaluation,
    partitions: Sequence[_Listed],
    codes: Array,
    exact: Array,
    told: _Told,
) -> list[_Listed]:
    """Judge by what leaders have told; return the user partitions of which that tells nothing, with the reason why."""
    if not partitions:
        return []
    at, walked = _walked(segments, partitions)
    numbers = np.array([number for number, _, _ in partitions])
    found = pass_of_leaders(
        walked,
        Epochs(*segments.leader_epochs(at)),
        [leader for _, _, leader in partitions if isinstance(leader, ToldPartition)],
        segments.finished_over.take(numbers),
        now_ms=evaluation.limits.now_ms,
        passed_ms=evaluation.cluster_state.passed_ms,
    )
    goes = found.codes != NONE
    is_dangling = ~goes & dangling_of(walked.columns, evaluation.limits) & found.told.take(walked.partition)
    codes[at], exact[at] = np.where(is_dangling, DANGLING, found.codes), goes
    rest: list[_Listed] = []
    count = np.add.reduceat(goes.astype(np.int64), walked.first)
    size = np.add.reduceat(np.where(goes, walked.columns["segment_size_in_bytes"], 0).astype(np.int64), walked.first)
    for place, (number, topic, _) in enumerate(partitions):
        if not found.told[place]:
            rest.append((number, topic, STALE_LINEAGE if found.stale[place] else SHARED_PLACES))
            continue
        more = any(bool(why[place]) for why in (found.copying, found.undecided, found.later, found.outruns))
        certainty = Certainty.AT_LEAST if more or topic.retention_bytes >= 0 else Certainty.ALL
        key = topic.topic_id.bytes, topic.name, segments.partitions["partition"][number].as_py()
        told.add(*key, certainty.value, None, int(count[place]), int(size[place]))
    return rest


def _estimate(
    segments: LivingSegments,
    evaluation: Evaluation,
    numbers: Sequence[int],
    partitions: Sequence[_Listed],
    codes: Array,
    told: _Told,
) -> None:
    """Judge by what can be told without lineages: it is not known whether leaders do the same."""
    tiered = [one for one in partitions if one[1].tiered is not False]
    if tiered:
        at, walked = _walked(segments, tiered)
        codes[at] = reasons_of(walked, [evaluation.partition_limits(topic, numbers[n]) for n, topic, _ in tiered])
    for number, topic, why in partitions:
        key = topic.topic_id.bytes, topic.name, numbers[number]
        if topic.tiered is not False:
            told.add(*key, Certainty.UNRESOLVED.value, why, 0, 0)
            continue
        some = np.arange(segments.first[number], segments.first[number] + segments.sizes[number])
        sizes = segments.numbers("segment_size_in_bytes", some)
        told.add(*key, NOT_TIERED, None, some.size, int(sizes.sum(dtype=np.int64)))
