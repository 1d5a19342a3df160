# SPDX-License-Identifier: Apache-2.0
"""From what is known of a metadata partition to the rows of the data set: each unfinished segment, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_rlmm.core.records.columnar import ColumnarState
from airflow_provider_rlmm.core.world.cluster_state import ClusterState, ListedTopic
from airflow_provider_rlmm.features.retention.rules import EvaluationLimits, PartitionLimits
from airflow_provider_rlmm.features.retention.spark.columns import (
    QUARANTINED,
    SEGMENT,
    SEGMENT_COLUMNS,
    UNCERTAIN_COLUMNS,
    UNLISTED_COLUMNS,
    UNRESOLVED,
    arrow_schema,
)
from airflow_provider_rlmm.features.retention.spark.executor.retention_walk import (
    FIELDS,
    NONE,
    REASONS,
    WalkedSegments,
    reasons_of,
)

Array = Any

SCHEMA = arrow_schema(SEGMENT_COLUMNS)
"""Of the data set."""


UNLISTED = arrow_schema(UNLISTED_COLUMNS)
"""Of what is told of topics that the listing lacks."""

UNCERTAIN = arrow_schema(UNCERTAIN_COLUMNS)
"""Of what is told of user partitions with segments whose state is not certain."""


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
class OrderedSegments:
    """Segments of one metadata partition, in the order of the walk."""

    table: pa.Table  # one row each
    first: Array  # where each user partition begins

    @property
    def sizes(self) -> Array:
        """The number of segments of each user partition."""
        return np.diff(self.first, append=self.table.num_rows)

    def of_partitions(self, name: str) -> list[Any]:
        """Return what the user partitions have in a column that is theirs."""
        values: list[Any] = self.table[name].take(pa.array(self.first)).to_pylist()
        return values

    def listed(self, evaluation: Evaluation) -> list[ListedTopic | None]:
        """Return the topic of each user partition, ``None`` where the listing does not have it."""
        return [evaluation.topics.get(topic_id) for topic_id in self.of_partitions("topic_id")]


def in_walk_order(segments: pa.Table) -> OrderedSegments:
    """Return segments, sorted by user partition and start offset, by end offset and id, too."""
    size = segments.num_rows
    topic = segments["topic"].combine_chunks().dictionary_encode().indices.to_numpy()
    ids, number = _halves(segments["topic_id"]), segments["partition"].to_numpy()
    new = np.ones(size, bool)
    new[1:] = (topic[1:] != topic[:-1]) | (number[1:] != number[:-1]) | (ids[1:] != ids[:-1]).any(axis=1)
    first = np.flatnonzero(new)
    start = segments["start_offset"].to_numpy()
    if (~new[1:] & (start[1:] == start[:-1])).any():
        by_id = _halves(segments["segment_id"])
        keys = (by_id[:, 1], by_id[:, 0], segments["end_offset"].to_numpy(), start, np.cumsum(new))
        segments = segments.take(np.lexsort(keys))
    return OrderedSegments(segments, first)


def reason_codes(segments: OrderedSegments, listed: Sequence[ListedTopic | None], evaluation: Evaluation) -> Array:
    """
    Return the code of each segment's reason, :data:`NONE` for those of topics that are not listed.

    :param segments: the segments.
    :param listed: the topic of each user partition.
    :param evaluation: what holds.
    """
    lives = np.array([topic is not None for topic in listed], bool)
    is_listed, sizes = lives.repeat(segments.sizes), segments.sizes[lives]
    numbers = {name: segments.table[name].to_numpy()[is_listed] for name in FIELDS}
    limits = [
        evaluation.partition_limits(topic, partition)
        for topic, partition in zip(listed, segments.of_partitions("partition"), strict=True)
        if topic is not None
    ]
    codes = np.full(segments.table.num_rows, NONE, np.int8)
    codes[is_listed] = reasons_of(WalkedSegments(numbers, np.cumsum(sizes) - sizes), limits)
    return codes


def uncertain_among(segments: pa.Table, unresolved: pa.Table) -> Array:
    """Tell which segments are among those whose state is not certain."""
    uncertain = np.zeros(segments.num_rows, bool)
    if not unresolved.num_rows:
        return uncertain
    names = ("topic_id", "topic", "partition", "segment_id")
    known = {tuple(row.values()) for row in unresolved.select(names).to_pylist()}
    # The same id may stand in several user partitions, so it only says which ones to look at.
    found = pc.is_in(segments["segment_id"], value_set=unresolved["segment_id"].combine_chunks())
    rows = np.flatnonzero(found.to_numpy())
    uncertain[rows] = [tuple(r.values()) in known for r in segments.select(names).take(pa.array(rows)).to_pylist()]
    return uncertain


@dataclass(frozen=True)
class EvaluatedState:
    """A state, evaluated."""

    segments: pa.Table  # with the columns that say what is to become of them
    largest: int  # the most segments of one user partition
    partitions: int  # user partitions with segments
    unresolved: pa.Table  # segments whose state is not certain

    @property
    def unlisted(self) -> pa.Table:
        """Topics that the listing lacks, by id and name, with the segments that may be orphaned: maybe none."""
        names = ["topic_id", "topic", "segment_size_in_bytes"]
        segments = self.segments.filter(pc.invert(self.segments["listed"]))
        is_older = segments["may_be_orphaned"]
        # Names count wherever they come from: two are too many.
        others = [segments.filter(pc.invert(is_older)), self.unresolved.filter(pc.invert(self.unresolved["listed"]))]
        tables = [segments.filter(is_older).select(names), *(table.select(names[:2]) for table in others)]
        found = pa.concat_tables(tables, promote_options="default").group_by(names[:2])
        return (
            found.aggregate([(names[2], "count"), (names[2], "sum")])
            .rename_columns(list(UNLISTED.names))
            .cast(UNLISTED)
        )

    @property
    def uncertain(self) -> pa.Table:
        """User partitions with segments whose state is not certain, and how many these are."""
        found = self.unresolved.group_by(list(UNCERTAIN.names[:-1])).aggregate([([], "count_all")])
        return found.rename_columns(list(UNCERTAIN.names)).cast(UNCERTAIN)

    @property
    def bytes(self) -> int:
        """Sizes of the segments, summed."""
        size: int = pc.sum(self.segments["segment_size_in_bytes"], min_count=0).as_py()
        return size

    def rows(self, number: int, quarantined: pa.Table) -> Iterator[pa.Table]:
        """Yield the rows of the data set, those of the metadata partition's records that cannot be applied among them."""
        yield _rows(SEGMENT, self.segments)
        yield _rows(UNRESOLVED, self.unresolved)
        home = pa.repeat(pa.scalar(number, pa.int32()), quarantined.num_rows)
        yield _rows(QUARANTINED, quarantined.append_column("metadata_partition", home))


def evaluate_state(state: ColumnarState, evaluation: Evaluation, quarantined: int) -> EvaluatedState:
    """Evaluate what is known of one metadata partition, of which some records cannot be applied."""
    ordered, unresolved = in_walk_order(state.segments), state.unresolved
    segments, listed = ordered.table, ordered.listed(evaluation)
    is_listed = np.array([topic is not None for topic in listed], bool).repeat(ordered.sizes)
    uncertain = uncertain_among(segments, unresolved)
    codes = reason_codes(ordered, listed, evaluation)
    codes[uncertain] = NONE
    is_older = segments["event_timestamp_ms"].to_numpy() < evaluation.cluster_state.observed_at_ms
    reasons = pa.array([reason.value for reason in REASONS], pa.string())
    judged = {
        "listed": is_listed,
        "may_be_orphaned": ~is_listed & is_older & ~uncertain,
        "reason": reasons.take(pa.array(codes, mask=codes == NONE)),
        # Beside a record that cannot be applied nobody knows for certain what a segment has become.
        "exact": ~is_listed & (quarantined == 0),
    }
    names = [name for name in SCHEMA.names if name in segments.schema.names]
    columns = {**{name: segments[name] for name in names}, **{name: pa.array(v) for name, v in judged.items()}}
    columns["segment_size_in_bytes"] = columns["segment_size_in_bytes"].cast(pa.int64())
    lives = [topic_id in evaluation.topics for topic_id in unresolved["topic_id"].to_pylist()]
    told = unresolved.select(["metadata_partition", "topic_id", "topic", "partition", "segment_id", "offset"])
    told = told.rename_columns([*told.schema.names[:-1], "event_offset"]).append_column(
        "listed", pa.array(lives, pa.bool_())
    )
    return EvaluatedState(pa.table(columns), int(ordered.sizes.max(initial=0)), ordered.first.size, told)


def _rows(kind: str, table: pa.Table) -> pa.Table:
    """Return rows of one kind; columns that are not given are null."""
    size = table.num_rows
    given = {"kind": pa.repeat(pa.scalar(kind), size), **{name: table[name] for name in table.schema.names}}
    arrays = [given[f.name].cast(f.type) if f.name in given else pa.nulls(size, f.type) for f in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _halves(ids: pa.ChunkedArray) -> Array:
    """Return ids of 16 bytes as two numbers each, which sort as the bytes do."""
    array = ids.combine_chunks()
    data = np.frombuffer(array.buffers()[2] or b"", ">u8", 2 * len(array), 16 * array.offset)
    return data.astype(np.uint64).reshape(-1, 2)
