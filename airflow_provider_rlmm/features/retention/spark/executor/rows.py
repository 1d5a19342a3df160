# SPDX-License-Identifier: Apache-2.0
"""
From what is known of a metadata partition to the rows of the data set: each unfinished segment, and what becomes of it.

The segments are judged where they lie, and turned into rows a few at a time: both take little memory beside the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_provider_rlmm.core.records.columnar import ColumnarState
from airflow_provider_rlmm.core.records.fold.living import LivingSegments
from airflow_provider_rlmm.features.retention.spark.columns import (
    QUARANTINED,
    SEGMENT,
    SEGMENT_COLUMNS,
    UNCERTAIN_COLUMNS,
    UNLISTED_COLUMNS,
    UNRESOLVED,
    arrow_schema,
)
from airflow_provider_rlmm.features.retention.spark.executor.judging import (
    Evaluation,
    Judgement,
    judge,
    listed_topics,
    pieces,
)
from airflow_provider_rlmm.features.retention.spark.executor.retention_walk import NONE, REASONS

Array = Any

SCHEMA = arrow_schema(SEGMENT_COLUMNS)
"""Of the data set."""

ROWS_AT_ONCE = 16_384
"""So many rows are made, and written as one group, at a time: a few megabytes."""
UNLISTED = arrow_schema(UNLISTED_COLUMNS)
"""Of what is told of topics that the listing lacks."""

UNCERTAIN = arrow_schema(UNCERTAIN_COLUMNS)
"""Of what is told of user partitions with segments whose state is not certain."""


@dataclass(frozen=True)
class EvaluatedState:
    """A state, evaluated."""

    segments: LivingSegments  # the segments that are not finished
    unresolved: pa.Table  # segments whose state is not certain
    is_listed: Array  # of each user partition
    judgement: Judgement  # what becomes of the segments of listed topics
    may_be_orphaned: Array  # of each segment
    exact: bool  # whether what may be orphaned is that for certain
    bytes: int  # sizes of the segments, summed

    @property
    def largest(self) -> int:
        """The most segments of one user partition."""
        return int(self.segments.sizes.max(initial=0))

    @property
    def partitions(self) -> int:
        """User partitions with segments."""
        return int(self.segments.first.size)

    @property
    def unlisted(self) -> pa.Table:
        """Topics that the listing lacks, by id and name, with the segments that may be orphaned: maybe none."""
        found: dict[tuple[bytes, str], list[int]] = {}
        partitions, ends = self.segments.partitions, [*self.segments.first[1:].tolist(), self.segments.size]
        for number in np.flatnonzero(~self.is_listed).tolist():
            key = partitions["topic_id"][number].as_py(), partitions["topic"][number].as_py()
            some = np.flatnonzero(self.may_be_orphaned[self.segments.first[number] : ends[number]])
            sizes = self.segments.numbers("segment_size_in_bytes", some + self.segments.first[number])
            count = found.setdefault(key, [0, 0])
            count[0] += some.size
            count[1] += int(sizes.sum(dtype=np.int64))
        # Names count wherever they come from: two are too many.
        for row in self.unresolved.select(["topic_id", "topic", "listed"]).to_pylist():
            if not row["listed"]:
                found.setdefault((row["topic_id"], row["topic"]), [0, 0])
        rows = [(*key, *count) for key, count in found.items()]
        columns = [pa.array([row[n] for row in rows], field.type) for n, field in enumerate(UNLISTED)]
        return pa.Table.from_arrays(columns, schema=UNLISTED)

    @property
    def uncertain(self) -> pa.Table:
        """User partitions with segments whose state is not certain, and how many these are."""
        found = self.unresolved.group_by(list(UNCERTAIN.names[:-1])).aggregate([([], "count_all")])
        return found.rename_columns(list(UNCERTAIN.names)).cast(UNCERTAIN)

    def rows(self, number: int, quarantined: pa.Table) -> Iterator[pa.Table]:
        """
        Yield the rows of the data set, at most :data:`ROWS_AT_ONCE` at a time: those of segments that have a reason or whose
        topic is not listed (:func:`as_listed` says what holds of any other), of segments whose state is not certain, and of
        the metadata partition's records that cannot be applied.
        """
        told = np.flatnonzero((self.judgement.codes != NONE) | ~self.is_listed.repeat(self.segments.sizes))
        for start in range(0, told.size, ROWS_AT_ONCE):
            yield _rows(SEGMENT, self._judged(told[start : start + ROWS_AT_ONCE]))
        yield from _in_pieces(UNRESOLVED, self.unresolved)
        home = pa.repeat(pa.scalar(number, pa.int32()), quarantined.num_rows)
        said = quarantined.select(["event_offset", "error"])
        yield from _in_pieces(QUARANTINED, said.append_column("metadata_partition", home))

    def _judged(self, some: Array) -> pa.Table:
        table = self.segments.table(some, SCHEMA.names)
        partition = np.searchsorted(self.segments.first, some, "right") - 1
        listed, codes = self.is_listed.take(partition), self.judgement.codes[some]
        reasons = pa.array([reason.value for reason in REASONS], pa.string())
        judged = {
            "listed": listed,
            "may_be_orphaned": self.may_be_orphaned[some],
            "reason": reasons.take(pa.array(codes, mask=codes == NONE)),
            "exact": np.where(listed, self.judgement.exact[some], self.exact),
        }
        columns = {name: table[name] for name in table.schema.names}
        return pa.table({**columns, **{name: pa.array(values) for name, values in judged.items()}})


def evaluate_state(
    state: ColumnarState, evaluation: Evaluation, quarantined: int, doubt: str | None = None
) -> EvaluatedState:
    """
    Evaluate what is known of one metadata partition.

    :param state: what is known.
    :param evaluation: what holds.
    :param quarantined: how many of its records cannot be applied.
    :param doubt: why nothing is told of leaders, with any answer of theirs; ``None`` where nothing stands against it.
    """
    segments, unresolved = state.living(), state.unresolved
    is_listed = np.array([topic is not None for topic in listed_topics(segments, evaluation)], bool)
    may_be_orphaned, size = np.zeros(segments.size, bool), 0
    for partitions, some in pieces(segments):
        is_older = segments.numbers("event_timestamp_ms", some) < evaluation.cluster_state.observed_at_ms
        may_be_orphaned[some] = is_older & ~is_listed[partitions].repeat(segments.sizes[partitions])
        size += int(segments.numbers("segment_size_in_bytes", some).sum(dtype=np.int64))
    may_be_orphaned[segments.uncertain] = False
    lives = [topic_id in evaluation.topics for topic_id in unresolved["topic_id"].to_pylist()]
    told = unresolved.select(["metadata_partition", "topic_id", "topic", "partition", "segment_id", "offset"])
    told = told.rename_columns([*told.schema.names[:-1], "event_offset"]).append_column(
        "listed", pa.array(lives, pa.bool_())
    )
    # Beside a record that cannot be applied it is not certain what a segment has become.
    exact = quarantined == 0
    judgement = judge(segments, evaluation, unresolved, doubt)
    return EvaluatedState(segments, told, is_listed, judgement, may_be_orphaned, exact, size)


def as_listed(segments: pa.Table) -> pa.Table:
    """
    Return rows of segments of which nothing is written: their topic is listed, and nothing says that they go.

    :param segments: with the columns of :data:`SCHEMA` that a state has.
    """
    judged = {"listed": True, "may_be_orphaned": False, "exact": False}
    for name, value in judged.items():
        segments = segments.append_column(name, pa.repeat(pa.scalar(value), segments.num_rows))
    return _rows(SEGMENT, segments)


def _in_pieces(kind: str, table: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, table.num_rows, ROWS_AT_ONCE):
        yield _rows(kind, table.slice(start, ROWS_AT_ONCE))


def _rows(kind: str, table: pa.Table) -> pa.Table:
    """Return rows of one kind; columns that are not given are null."""
    size = table.num_rows
    given = {"kind": pa.repeat(pa.scalar(kind), size), **{name: table[name] for name in table.schema.names}}
    arrays = [given[f.name].cast(f.type) if f.name in given else pa.nulls(size, f.type) for f in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)
