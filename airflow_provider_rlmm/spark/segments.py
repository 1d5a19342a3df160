# SPDX-License-Identifier: Apache-2.0
"""
From the records of ``__remote_log_metadata`` to one row per segment, in one pass and one stage.

A task reads one metadata partition from where an earlier generation has left off to its end. All that was ever said of a user
partition is in one metadata partition, so nothing has to be brought together afterwards and nothing is shuffled. Each task
writes its own files; what it returns to the driver is a line about them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.errors import PlanError
from airflow_provider_rlmm.policy.plan import Count
from airflow_provider_rlmm.spark.columns import (
    QUARANTINED,
    SEGMENT,
    SEGMENT_COLUMNS,
    UNRESOLVED,
    spark_schema,
)
from airflow_provider_rlmm.spark.task_report import TOLD_COLUMNS, TaskReport

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_rlmm.spark.executor.metadata_partition import GenerationOrder
    from airflow_provider_rlmm.spark.executor.rows import Evaluation

log = logging.getLogger(__name__)

SEGMENT_SCHEMA = spark_schema(SEGMENT_COLUMNS)
"""Spark schema of the data set; :data:`~airflow_provider_rlmm.spark.columns.SEGMENT_COLUMNS` says what the columns mean."""

_COUNTED = {SEGMENT: "segments", UNRESOLVED: "unresolved", QUARANTINED: "quarantined"}


@dataclass(frozen=True)
class SegmentDataSet:
    """What the records came to, written down: to be read as often as one likes."""

    frame: DataFrame  # rows of :data:`SEGMENT_SCHEMA`
    known: Count  # all segments that are not finished
    unresolved: int  # segments whose state is not certain
    quarantined: Mapping[int, int]  # metadata partition → number of records that cannot be applied


def run_tasks(
    records: DataFrame, evaluation: Evaluation, order: GenerationOrder, expected: Collection[int]
) -> tuple[TaskReport, ...]:
    """
    Decode, fold, evaluate and write; return what each task tells of its metadata partition.

    A record with a key is applied, as brokers apply it; one where Kafka's partitioner would not have put it is not. A segment
    below ``DELETE_PARTITION_FINISHED`` stays until it is finished itself. Of a task that ran several times the one that Spark
    takes the result of counts: the files of the others are named nowhere.

    :param records: ``metadata_partition`` int, ``offset`` long, ``key`` and ``value`` binary; each partition of the DataFrame
        holds whole metadata partitions in the order of their offsets, as Spark's Kafka connector reads them.
    :param evaluation: what holds.
    :param order: what is to be written.
    :param expected: the metadata partitions that have records.
    :raises PlanError: if the task of a metadata partition did not see all of it.
    """
    from airflow_provider_rlmm.spark.executor.versions import software

    driver = software()
    columns = records.select("metadata_partition", "offset", "key", "value")
    rows = columns.mapInArrow(_worker(evaluation, order, driver), spark_schema(TOLD_COLUMNS)).collect()
    try:
        reports = sorted((TaskReport.from_json(row["told"]) for row in rows), key=lambda r: r.metadata_partition)
    except ValueError as e:
        raise PlanError(f"a task told what cannot be read ({e}); run again") from e
    _say_differences(driver, reports)
    for number in sorted({*expected, *(report.metadata_partition for report in reports)}):
        _check_pieces(number, [report for report in reports if report.metadata_partition == number])
    return tuple(reports)


def _worker(
    evaluation: Evaluation, order: GenerationOrder, driver: Mapping[str, str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from uuid import uuid4

        from pyspark import TaskContext

        from airflow_provider_rlmm.spark.executor.metadata_partition import evaluate_batches
        from airflow_provider_rlmm.spark.executor.versions import require_one_pyspark

        require_one_pyspark(driver)
        context = TaskContext.get()
        attempt = f"attempt-{context.taskAttemptId() if context else 0}-{uuid4().hex}"
        yield from evaluate_batches(batches, evaluation, order, attempt)

    return work


def _say_differences(driver: Mapping[str, str], reports: Iterable[TaskReport]) -> None:
    from airflow_provider_rlmm.spark.executor.versions import differences

    if found := sorted({differences(driver, report.versions) for report in reports} - {""}):
        log.warning("executors and driver differ: %s", "; ".join(found))


def _check_pieces(number: int, reports: Sequence[TaskReport]) -> None:
    """Refuse a metadata partition that was not read in one piece."""
    if len(reports) != 1 or not reports[0].in_order:
        raise PlanError(
            f"metadata partition {number} was not read by one task in the order of its offsets ({len(reports)} pieces): no "
            "state can be told from that; run without options that split or reorder what the Kafka connector reads"
        )


def data_set_of(spark: SparkSession, folder: str, reports: Sequence[TaskReport]) -> SegmentDataSet:
    """
    Return what was written, once it was counted.

    :param spark: the session.
    :param folder: URI of the generation's folder.
    :param reports: what its tasks told.
    :raises PlanError: if what was written is not what the tasks told.
    """
    parts = {report.metadata_partition: report.part for report in reports}
    names = [part.rows.name for part in parts.values() if part.rows is not None]
    reader = spark.read.schema(SEGMENT_SCHEMA)
    frame = (
        reader.parquet(*(f"{folder}/{name}" for name in names)) if names else spark.createDataFrame([], SEGMENT_SCHEMA)
    )
    counts = counted(frame, "metadata_partition", "kind")
    for number, part in parts.items():
        mine = {row["kind"]: row for row in counts if row["metadata_partition"] == number}
        written = {total: mine[kind]["segments"] if kind in mine else 0 for kind, total in _COUNTED.items()}
        written["bytes"] = mine[SEGMENT]["bytes"] if SEGMENT in mine else 0
        if different := {
            name: (getattr(part, name), count) for name, count in written.items() if getattr(part, name) != count
        }:
            raise PlanError(
                f"metadata partition {number}: what was written is not what its task told, (told, written) is {different}; "
                "run again"
            )
    return SegmentDataSet(
        frame,
        Count.sum(Count(part.segments, part.bytes) for part in parts.values()),
        sum(part.unresolved for part in parts.values()),
        {number: part.quarantined for number, part in sorted(parts.items()) if part.quarantined},
    )


def counted(frame: DataFrame, *by: str) -> list[Any]:
    """Count ``segments`` and their ``bytes`` by some columns that have few values, whatever the size of the data set."""
    from pyspark.sql import functions as sf

    size = sf.coalesce(sf.sum("segment_size_in_bytes"), sf.lit(0)).alias("bytes")
    return list(frame.groupBy(*by).agg(sf.count(sf.lit(1)).alias("segments"), size).collect())
