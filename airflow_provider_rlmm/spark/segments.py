# SPDX-License-Identifier: Apache-2.0
"""
From the records of ``__remote_log_metadata`` to one row per segment, in one pass and one stage.

A task reads one metadata partition from its first offset to its last. All that was ever said of a user partition is in one
metadata partition, so nothing has to be brought together afterwards and nothing is shuffled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.errors import PlanError
from airflow_provider_rlmm.policy.cluster_state import ClusterState
from airflow_provider_rlmm.policy.plan import Count
from airflow_provider_rlmm.policy.retention import EvaluationLimits
from airflow_provider_rlmm.spark.columns import (
    METADATA_PARTITION,
    QUARANTINED,
    SEGMENT,
    SEGMENT_COLUMNS,
    UNRESOLVED,
    spark_schema,
)
from airflow_provider_rlmm.spark.plan_folder import PlanFolder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

SEGMENT_SCHEMA = spark_schema(SEGMENT_COLUMNS)
"""Spark schema of the data set; :data:`~airflow_provider_rlmm.spark.columns.SEGMENT_COLUMNS` says what the columns mean."""

_COUNTED = {SEGMENT: "segments", UNRESOLVED: "unresolved", QUARANTINED: "quarantined"}


def segment_rows(
    records: DataFrame, num_partitions: int, cluster_state: ClusterState, limits: EvaluationLimits
) -> DataFrame:
    """
    Decode, fold and evaluate; returns a DataFrame of :data:`SEGMENT_SCHEMA`.

    A record with a key is applied, as brokers apply it; one where Kafka's partitioner would not have put it is not. A segment
    below ``DELETE_PARTITION_FINISHED`` stays until it is finished itself.

    :param records: ``metadata_partition`` int, ``offset`` long, ``key`` and ``value`` binary; each partition of the DataFrame
        holds whole metadata partitions in the order of their offsets, as Spark's Kafka connector reads them.
    :param num_partitions: how many metadata partitions the topic has.
    :param cluster_state: the listing of the cluster.
    :param limits: time and minimum age.
    """
    return records.select("metadata_partition", "offset", "key", "value").mapInArrow(
        _evaluator(num_partitions, cluster_state, limits), SEGMENT_SCHEMA
    )


def _evaluator(
    num_partitions: int, cluster_state: ClusterState, limits: EvaluationLimits
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def evaluate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from airflow_provider_rlmm.spark.executor.metadata_partition import Evaluation, evaluate_batches

        yield from evaluate_batches(batches, Evaluation(num_partitions, cluster_state, limits))

    return evaluate


@dataclass(frozen=True)
class SegmentDataSet:
    """
    What :func:`segment_rows` came to, written down: to be read as often as one likes.

    :param frame: the rows.
    :param known: all segments that are not finished.
    :param unresolved: segments whose state is not certain.
    :param quarantined: metadata partition → number of records that cannot be applied.
    """

    frame: DataFrame
    known: Count
    unresolved: int
    quarantined: Mapping[int, int]


@contextmanager
def written_segments(rows: DataFrame, folder: PlanFolder, expected: Collection[int]) -> Iterator[SegmentDataSet]:
    """
    Return a context manager: the rows as a Parquet data set, which is gone when the block ends.

    :param rows: what :func:`segment_rows` returned; the topic is read here, and once.
    :param folder: where to put it.
    :param expected: the metadata partitions that have records.
    :raises PlanError: if the task of a metadata partition did not see all of it, or what was written is not what it told.
    """
    name = folder.new_rows()
    uri = f"{folder.uri}/{name}"
    try:
        rows.write.option("maxRecordsPerFile", 0).parquet(uri)
        frame = rows.sparkSession.read.schema(SEGMENT_SCHEMA).parquet(uri)
        counted = _counted(frame)
        for number in sorted({*expected, *(row["metadata_partition"] for row in counted)}):
            _check(number, {row["kind"]: row for row in counted if row["metadata_partition"] == number})
        yield _data_set(frame, counted)
    finally:
        folder.delete(name)


def _counted(frame: DataFrame) -> list[Any]:
    """Count the rows of each kind and metadata partition; few rows, whatever the size of the data set."""
    from pyspark.sql import functions as sf

    return list(
        frame.groupBy("metadata_partition", "kind")
        .agg(
            sf.count(sf.lit(1)).alias("rows"),
            sf.coalesce(sf.sum("segment_size_in_bytes"), sf.lit(0)).alias("bytes"),
            sf.first("totals", ignorenulls=True).alias("totals"),
        )
        .collect()
    )


def _check(number: int, counted: Mapping[str, Any]) -> None:
    """Refuse a metadata partition that was not read in one piece, or not written as it was read."""
    told = counted.get(METADATA_PARTITION)
    if told is None or told["rows"] != 1 or not told["totals"]["in_order"]:
        pieces = 0 if told is None else told["rows"]
        raise PlanError(
            f"metadata partition {number} was not read by one task in the order of its offsets ({pieces} pieces): no state "
            "can be told from that; run without options that split or reorder what the Kafka connector reads"
        )
    written = {total: counted[kind]["rows"] if kind in counted else 0 for kind, total in _COUNTED.items()}
    written["bytes"] = counted[SEGMENT]["bytes"] if SEGMENT in counted else 0
    if different := {
        name: (told["totals"][name], count) for name, count in written.items() if told["totals"][name] != count
    }:
        raise PlanError(
            f"metadata partition {number}: what was written is not what its task told, (told, written) is {different}; "
            "run again"
        )


def _data_set(frame: DataFrame, counted: Iterable[Any]) -> SegmentDataSet:
    ordered = sorted(counted, key=lambda row: row["metadata_partition"])
    of = {kind: [row for row in ordered if row["kind"] == kind] for kind in _COUNTED}
    return SegmentDataSet(
        frame,
        Count.sum(Count(row["rows"], row["bytes"]) for row in of[SEGMENT]),
        sum(row["rows"] for row in of[UNRESOLVED]),
        {row["metadata_partition"]: row["rows"] for row in of[QUARANTINED]},
    )
