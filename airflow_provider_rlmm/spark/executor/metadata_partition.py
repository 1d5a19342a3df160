# SPDX-License-Identifier: Apache-2.0
"""What a task does with the records of one metadata partition: decode, fold, evaluate, tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_rlmm.metadata.columnar import ColumnarState, ErrorCode, decode
from airflow_provider_rlmm.policy.cluster_state import ClusterState, ListedTopic
from airflow_provider_rlmm.policy.retention import EvaluationLimits, PartitionLimits
from airflow_provider_rlmm.spark.columns import (
    METADATA_PARTITION,
    QUARANTINED,
    SEGMENT,
    SEGMENT_COLUMNS,
    TOTALS,
    UNRESOLVED,
)
from airflow_provider_rlmm.spark.executor.retention_walk import NONE, REASONS, WalkedSegments, reasons_of

Array = Any

ROWS_AT_ONCE = 32_768
"""Rows that are handed to the JVM in one batch."""

_NUMBERS = ("state", "start_offset", "end_offset", "max_timestamp_ms", "event_timestamp_ms", "segment_size_in_bytes")
_EPOCHS = pa.list_(pa.struct({"leader_epoch": pa.int32(), "start_offset": pa.int64()}))


def _schema() -> Any:
    special = {"epochs": _EPOCHS, "totals": pa.struct([(name, pa.type_for_alias(kind)) for name, kind in TOTALS])}
    return pa.schema([(name, special.get(kind) or pa.type_for_alias(kind)) for name, kind in SEGMENT_COLUMNS])


SCHEMA = _schema()


@dataclass(frozen=True)
class Evaluation:
    """
    What a task must know beside the records.

    :param num_partitions: how many metadata partitions the topic has.
    :param cluster_state: the listing of the cluster.
    :param limits: time and minimum age.
    """

    num_partitions: int
    cluster_state: ClusterState
    limits: EvaluationLimits

    @cached_property
    def topics(self) -> Mapping[bytes, ListedTopic]:
        """The listed topics by their ids."""
        return {topic.topic_id.bytes: topic for topic in self.cluster_state.topics}

    def partition_limits(self, topic: ListedTopic, partition: int) -> PartitionLimits:
        """
        Return what holds for a user partition.

        :param topic: its topic.
        :param partition: its number.
        """
        return PartitionLimits(
            self.limits,
            True,
            self.cluster_state.observed_at_ms,
            topic.log_start_offsets.get(partition),
            topic.retention_ms,
            topic.retention_bytes,
        )


def evaluate_batches(batches: Iterator[pa.RecordBatch], evaluation: Evaluation) -> Iterator[pa.RecordBatch]:
    """
    Yield the rows of :data:`SCHEMA` that the records of a task come to; each metadata partition ends with its totals.

    :param batches: ``metadata_partition``, ``offset``, ``key``, ``value`` of whole metadata partitions, one after the other,
        each in the order of its offsets. Of one that comes in pieces there are several totals, so that it is found out.
    :param evaluation: the rest.
    """
    folding: _Folding | None = None
    for batch in batches:
        for number, records in _by_metadata_partition(batch):
            if folding is None or folding.number != number:
                if folding is not None:
                    yield from folding.rows()
                folding = _Folding(number, evaluation)
            yield from folding.apply(records)
    if folding is not None:
        yield from folding.rows()


def _by_metadata_partition(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    numbers = batch["metadata_partition"].to_numpy()
    changes = (np.flatnonzero(np.diff(numbers)) + 1).tolist()
    for start, end in pairwise([0, *changes, numbers.size]):
        if end > start:
            yield int(numbers[start]), batch.slice(start, end - start)


class _Folding:
    """
    The records of one metadata partition, as far as they were read.

    :param number: which one.
    :param evaluation: what the task knows.
    """

    def __init__(self, number: int, evaluation: Evaluation) -> None:
        self.number = number
        self._evaluation = evaluation
        self._state = ColumnarState.empty(keep_finished=True)
        self._first_offset = self._last_offset = -1
        self._records = self._quarantined = 0
        self._in_order = True

    def apply(self, records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """
        Apply records; yield those that cannot be applied.

        :param records: at least one.
        """
        self._note(records["offset"].to_numpy())
        decoded = decode(
            records["value"],
            keys=records["key"],
            metadata_partition=records["metadata_partition"],
            offset=records["offset"],
            num_partitions=self._evaluation.num_partitions,
        )
        self._state, report = self._state.apply(decoded)
        # A record with a key is applied, as a broker applies it.
        found = report.quarantined.filter(pc.not_equal(report.quarantined["error_code"], int(ErrorCode.KEYED)))
        if found.num_rows:
            self._quarantined += found.num_rows
            columns = {"metadata_partition": found["metadata_partition"], "event_offset": found["offset"]}
            yield from _rows(QUARANTINED, found.num_rows, {**columns, "error": found["reason"]})

    def _note(self, offsets: Array) -> None:
        self._in_order &= bool((np.diff(offsets, prepend=self._last_offset) > 0).all())
        self._first_offset = int(offsets[0]) if self._first_offset < 0 else self._first_offset
        self._last_offset = int(offsets[-1])
        self._records += offsets.size

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield what all the records have left: unfinished segments, what is not certain, and the totals."""
        segments, unresolved = self._state.segments, self._state.unresolved
        in_order, partition_first = _walk_order(segments)
        segments = segments if in_order is None else segments.take(in_order)
        listed = [self._evaluation.topics.get(topic_id) for topic_id in _taken(segments, "topic_id", partition_first)]
        columns = {name: segments[name] for name in SCHEMA.names if name in segments.schema.names}
        columns["segment_leader_epochs"] = _nullable(columns["segment_leader_epochs"].combine_chunks())
        columns |= self._judgement(segments, partition_first, listed, _uncertain(segments, unresolved))
        yield from _rows(SEGMENT, segments.num_rows, columns)
        yield from _rows(UNRESOLVED, unresolved.num_rows, self._unresolved_columns(unresolved))
        sizes = columns["segment_size_in_bytes"].cast(pa.int64())
        yield from self._totals(segments.num_rows, pc.sum(sizes, min_count=0).as_py(), unresolved.num_rows)

    def _judgement(
        self, segments: pa.Table, first: Array, listed: list[ListedTopic | None], uncertain: Array
    ) -> dict[str, Any]:
        """Return the columns that say what is to become of the segments; of one whose state is not certain nothing."""
        sizes = np.diff(first, append=segments.num_rows)
        is_listed = np.array([topic is not None for topic in listed], bool).repeat(sizes)
        codes = np.full(segments.num_rows, NONE, np.int8)
        codes[is_listed] = self._codes(segments, first, sizes, listed, is_listed)
        codes[uncertain] = NONE
        is_older = segments["event_timestamp_ms"].to_numpy() < self._evaluation.cluster_state.observed_at_ms
        # Beside a record that cannot be applied nobody knows for certain what a segment has become.
        exact = ~is_listed & (self._quarantined == 0)
        reasons = pa.array([reason.value for reason in REASONS], pa.string())
        return {
            "listed": is_listed,
            "may_be_orphaned": ~is_listed & is_older & ~uncertain,
            "reason": reasons.take(pa.array(codes, mask=codes == NONE)),
            "exact": exact,
        }

    def _codes(
        self, segments: pa.Table, first: Array, sizes: Array, listed: list[ListedTopic | None], is_listed: Array
    ) -> Array:
        """Return the codes of the segments of listed topics."""
        live = np.flatnonzero(np.array([topic is not None for topic in listed], bool))
        numbers = {name: segments[name].to_numpy()[is_listed] for name in _NUMBERS}
        begins = np.cumsum(sizes.take(live)) - sizes.take(live)
        partitions = _taken(segments, "partition", first)
        evaluation = self._evaluation
        limits = [
            evaluation.partition_limits(topic, partition)
            for topic, partition in zip(listed, partitions, strict=True)
            if topic is not None
        ]
        return reasons_of(WalkedSegments(numbers, begins), limits)

    def _unresolved_columns(self, unresolved: pa.Table) -> dict[str, Any]:
        names = ("metadata_partition", "topic_id", "topic", "partition", "segment_id")
        listed = [topic_id in self._evaluation.topics for topic_id in unresolved["topic_id"].to_pylist()]
        columns = {name: unresolved[name] for name in names}
        return {**columns, "event_offset": unresolved["offset"], "listed": np.array(listed, bool)}

    def _totals(self, segments: int, size: int, unresolved: int) -> Iterator[pa.RecordBatch]:
        totals = {
            "records": self._records,
            "first_offset": self._first_offset,
            "last_offset": self._last_offset,
            "in_order": self._in_order,
            "segments": segments,
            "bytes": size,
            "unresolved": unresolved,
            "quarantined": self._quarantined,
        }
        columns = {"metadata_partition": np.array([self.number]), "totals": pa.array([totals])}
        yield from _rows(METADATA_PARTITION, 1, columns)


def _rows(kind: str, size: int, columns: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """Yield rows of one kind; columns that are not given are null."""
    given = {"kind": pa.repeat(pa.scalar(kind), size), **columns}
    arrays = [_typed(given[f.name], f.type) if f.name in given else pa.nulls(size, f.type) for f in SCHEMA]
    yield from pa.Table.from_arrays(arrays, schema=SCHEMA).to_batches(ROWS_AT_ONCE)


def _typed(column: Any, arrow_type: Any) -> Any:
    return (pa.array(column) if isinstance(column, np.ndarray) else column).cast(arrow_type)


def _taken(table: pa.Table, name: str, rows: Array) -> list[Any]:
    values: list[Any] = table[name].take(pa.array(rows)).to_pylist()
    return values


def _walk_order(segments: pa.Table) -> tuple[Array | None, Array]:
    """
    Return the order in which the segments are walked, ``None`` where they are in it, and where user partitions begin.

    :param segments: sorted by user partition and start offset.
    """
    size = segments.num_rows
    topic = segments["topic"].combine_chunks().dictionary_encode().indices.to_numpy()
    ids, number = _halves(segments["topic_id"]), segments["partition"].to_numpy()
    new = np.ones(size, bool)
    new[1:] = (topic[1:] != topic[:-1]) | (number[1:] != number[:-1]) | (ids[1:] != ids[:-1]).any(axis=1)
    first = np.flatnonzero(new)
    start = segments["start_offset"].to_numpy()
    if not (~new[1:] & (start[1:] == start[:-1])).any():
        return None, first
    by_id = _halves(segments["segment_id"])
    keys = (by_id[:, 1], by_id[:, 0], segments["end_offset"].to_numpy(), start, np.cumsum(new))
    return np.lexsort(keys), first


def _halves(ids: pa.ChunkedArray) -> Array:
    """Return ids of 16 bytes as two numbers each, which sort as the bytes do."""
    array = ids.combine_chunks()
    data = np.frombuffer(array.buffers()[2] or b"", ">u8", 2 * len(array), 16 * array.offset)
    return data.astype(np.uint64).reshape(-1, 2)


def _uncertain(segments: pa.Table, unresolved: pa.Table) -> Array:
    """Tell which segments are among those whose state is not certain."""
    if not unresolved.num_rows:
        return np.zeros(segments.num_rows, bool)
    names = ("topic_id", "topic", "partition", "segment_id")
    known = {tuple(row.values()) for row in unresolved.select(names).to_pylist()}
    # The same id may stand in several user partitions, so it only says which ones to look at.
    found = pc.is_in(segments["segment_id"], value_set=unresolved["segment_id"].combine_chunks())
    rows = np.flatnonzero(found.to_numpy())
    uncertain = np.zeros(segments.num_rows, bool)
    uncertain[rows] = [tuple(r.values()) in known for r in segments.select(names).take(pa.array(rows)).to_pylist()]
    return uncertain


def _nullable(epochs: pa.ListArray) -> pa.ListArray:
    """Return leader epochs as Spark declares them: whatever is in an array may be null."""
    values = pa.StructArray.from_arrays(
        [epochs.values.field(0), epochs.values.field(1)], fields=list(_EPOCHS.value_type)
    )
    return pa.ListArray.from_arrays(epochs.offsets, values)
