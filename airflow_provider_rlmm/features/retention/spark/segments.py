# SPDX-License-Identifier: Apache-2.0
"""
From the records of ``__remote_log_metadata`` to one row per segment, in one pass and one stage.

A task reads one metadata partition from where an earlier generation has left off to its end. All that was ever said of a user
partition is in one metadata partition, so nothing has to be brought together afterwards and nothing is shuffled. Each task
writes its own files; what it returns to the driver is a line about them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.generations.manifest import GenerationFile, GenerationPart
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.features.retention.spark.columns import (
    AGE_COLUMNS,
    LEADER_COLUMNS,
    UNCERTAIN_COLUMNS,
    UNLISTED_COLUMNS,
    arrow_schema,
    spark_schema,
)
from airflow_provider_rlmm.features.retention.spark.stores import stores_in_use
from airflow_provider_rlmm.features.retention.spark.task_report import TOLD_COLUMNS, TaskReport

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_rlmm.features.retention.spark.executor.judging import Evaluation
    from airflow_provider_rlmm.features.retention.spark.executor.metadata_partition import GenerationOrder

log = logging.getLogger(__name__)

Piece = TypeVar("Piece")

_TABLES = {
    "unlisted": UNLISTED_COLUMNS,
    "uncertain": UNCERTAIN_COLUMNS,
    "ages": AGE_COLUMNS,
    "leaders": LEADER_COLUMNS,
}


@dataclass(frozen=True)
class SegmentDataSet:
    """What the records came to, written down, and what the tasks told of it."""

    folder: str  # URI that the names of its files are below
    parts: Mapping[int, GenerationPart]  # metadata partition → what is known of it, of those that were read
    known: Count  # all segments that are not finished
    unresolved: int  # segments whose state is not certain
    quarantined: Mapping[int, int]  # metadata partition → number of records that cannot be applied
    unlisted: pa.Table  # UNLISTED_COLUMNS
    uncertain: pa.Table  # UNCERTAIN_COLUMNS
    ages: pa.Table  # AGE_COLUMNS
    leaders: pa.Table  # LEADER_COLUMNS

    @property
    def files(self) -> list[GenerationFile]:
        """The files with the columns of SEGMENT_COLUMNS."""
        return [part.rows for part in self.parts.values() if part.rows is not None]


@dataclass(frozen=True)
class Told:
    """What tasks told: a report each, and the rows of their tables."""

    reports: tuple[TaskReport, ...]
    unlisted: pa.Table  # UNLISTED_COLUMNS
    uncertain: pa.Table  # UNCERTAIN_COLUMNS
    ages: pa.Table  # AGE_COLUMNS
    leaders: pa.Table  # LEADER_COLUMNS

    def data_set(self, folder: str) -> SegmentDataSet:
        """Return what they wrote, by the URI that the names of files are below."""
        parts = {report.metadata_partition: report.part for report in self.reports}
        return SegmentDataSet(
            folder,
            parts,
            Count.sum(Count(part.segments, part.bytes) for part in parts.values()),
            sum(part.unresolved for part in parts.values()),
            {number: part.quarantined for number, part in sorted(parts.items()) if part.quarantined},
            self.unlisted,
            self.uncertain,
            self.ages,
            self.leaders,
        )


def run_tasks(records: DataFrame, evaluation: Evaluation, order: GenerationOrder, tasks: int) -> Told:
    """
    Decode, fold, evaluate and write; return what the tasks tell, each of its metadata partitions.

    A record with a key is applied, as brokers apply it; one where Kafka's partitioner would not have put it is not. A segment
    below ``DELETE_PARTITION_FINISHED`` stays until it is finished itself. Of a task that ran several times the one that Spark
    takes the result of counts: the files of the others are named nowhere.

    :param records: ``metadata_partition`` int, ``offset`` long, ``timestamp`` timestamp, ``key`` and ``value`` binary; each
        partition of the DataFrame holds whole metadata partitions in the order of their offsets, as Spark's Kafka connector
        reads them.
    :param evaluation: what holds.
    :param order: what is to be written.
    :param tasks: most tasks that the work is divided among: each reads whole metadata partitions, one after the other.
    :raises PlanError: if a metadata partition was not read in one piece, in the order of its offsets.
    """
    from pyspark.sql import functions as sf

    from airflow_provider_rlmm.features.retention.spark.executor.versions import software

    driver = software()
    # A task costs a third of a second before it begins, and a metadata topic has 50 partitions by default.
    timed = records.withColumn("timestamp_ms", sf.unix_millis("timestamp"))
    columns = timed.select("metadata_partition", "offset", "timestamp_ms", "key", "value").coalesce(tasks)
    rows = columns.mapInArrow(_worker(evaluation, order, driver), spark_schema(TOLD_COLUMNS)).collect()
    try:
        reports = sorted((TaskReport.from_json(row["told"]) for row in rows), key=lambda r: r.metadata_partition)
    except ValueError as e:
        raise PlanError(f"a task told what cannot be read ({e}); run again") from e
    _say_differences(driver, reports)
    for number, pieces in groupby(reports, lambda report: report.metadata_partition):
        if len(found := list(pieces)) != 1 or not found[0].in_order:
            raise not_read(number, len(found))
    return Told(tuple(reports), *(_table_of((row[name] for row in rows), columns) for name, columns in _TABLES.items()))


def _table_of(streams: Iterable[bytes], columns: tuple[tuple[str, str], ...]) -> pa.Table:
    import pyarrow as pa

    tables = [pa.ipc.open_stream(bytes(stream)).read_all() for stream in streams]
    return pa.concat_tables([arrow_schema(columns).empty_table(), *tables])


def _worker(
    evaluation: Evaluation, order: GenerationOrder, driver: Mapping[str, str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    stores = stores_in_use()

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from uuid import uuid4

        from pyspark import TaskContext

        from airflow_provider_rlmm.features.retention.spark.executor.metadata_partition import evaluate_batches
        from airflow_provider_rlmm.features.retention.spark.executor.versions import require_one_pyspark

        require_one_pyspark(driver)
        stores.use(order.folder)
        context = TaskContext.get()
        attempt = f"attempt-{context.taskAttemptId() if context else 0}-{uuid4().hex}"
        yield from evaluate_batches(batches, evaluation, order, attempt)

    return work


def _say_differences(driver: Mapping[str, str], reports: Iterable[TaskReport]) -> None:
    from airflow_provider_rlmm.features.retention.spark.executor.versions import differences

    if found := sorted({differences(driver, report.versions) for report in reports} - {""}):
        log.warning("executors and driver differ: %s", "; ".join(found))


def not_read(number: int, pieces: int) -> PlanError:
    """
    Return the error of a metadata partition that was not read as it must be.

    :param number: which one.
    :param pieces: in how many pieces it was read.
    """
    return PlanError(
        f"metadata partition {number} was not read by one task in the order of its offsets "
        f"({number_of(pieces, 'piece')}): no state can "
        "be told from that; run without options that split or reorder what the Kafka connector reads"
    )


def per_piece(
    spark: SparkSession,
    pieces: Sequence[Piece],
    task: Callable[[Piece], Iterable[pa.RecordBatch]],
    columns: tuple[tuple[str, str], ...],
) -> list[Any]:
    """
    Do some work for each piece of a generation, and return the rows of all.

    :param spark: the session.
    :param pieces: of the generation: files, or what is known of metadata partitions.
    :param task: what an executor does with one of them.
    :param columns: name and Arrow type of the columns of its rows.
    """
    return list(frame_per_piece(spark, pieces, task, columns).collect()) if pieces else []


def frame_per_piece(
    spark: SparkSession,
    pieces: Sequence[Piece],
    task: Callable[[Piece], Iterable[pa.RecordBatch]],
    columns: tuple[tuple[str, str], ...],
) -> DataFrame:
    """
    Return a DataFrame of the rows that some work gives for each piece of a generation; it is done when they are asked for.

    :param spark: the session.
    :param pieces: of the generation: files, or what is known of metadata partitions.
    :param task: what an executor does with one of them.
    :param columns: name and Arrow type of the columns of its rows.
    """
    stores = stores_in_use()

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stores.use()
        for batch in batches:
            for index in batch["id"].to_pylist():
                yield from task(pieces[index])

    # A task costs a third of a second before it begins, and pieces are small: no more tasks than run at once.
    tasks = max(1, min(len(pieces), spark.sparkContext.defaultParallelism))
    return spark.range(0, len(pieces), 1, tasks).mapInArrow(work, spark_schema(columns))
