# SPDX-License-Identifier: Apache-2.0
"""From the current states of segments to a plan: its rows, its Parquet data set and its summary."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState
from airflow_provider_rlmm.policy.cluster_state import ClusterState
from airflow_provider_rlmm.policy.plan import PLAN_COLUMNS, Count, PlanSummary, Reason
from airflow_provider_rlmm.policy.retention import (
    UNFINISHED_STEPS,
    EvaluationLimits,
    PartitionLimits,
    SegmentFacts,
    evaluate,
)
from airflow_provider_rlmm.spark.states import QUARANTINED, SEGMENT

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PLAN_DATA = "plan.parquet"
PLAN_SUMMARY = "summary.json"

_SPARK_TYPES = {
    "int8": "byte",
    "int32": "int",
    "int64": "long",
    "bool": "boolean",
    "string": "string",
    "binary": "binary",
}
_PLAN_NAMES = tuple(name for name, _ in PLAN_COLUMNS)
_STATE_NAMES = _PLAN_NAMES[:-2]  # all but reason and exact
_PLAN_SCHEMA = ", ".join(f"{name} {_SPARK_TYPES[kind]}" for name, kind in PLAN_COLUMNS)
_USER_PARTITION = ("topic_id", "topic", "partition")
_LIMIT_NAMES = ("log_start_offset", "retention_ms", "retention_bytes")


@dataclass(frozen=True, slots=True)
class PlanHeader:
    """
    What a summary says beside its counts; the fields are those of :class:`PlanSummary`.

    :param plan_id: names the plan.
    :param cluster_id: the cluster that it is made for.
    :param created_at_ms: when the reading began, ms since the epoch.
    :param expires_at_ms: when it may no longer be applied, ms since the epoch.
    :param read_until: metadata partition → offset, exclusive.
    """

    plan_id: str
    cluster_id: str
    created_at_ms: int
    expires_at_ms: int
    read_until: Mapping[int, int]


def plan_rows(states: DataFrame, cluster_state: ClusterState, limits: EvaluationLimits) -> DataFrame:
    """
    Return the segments that are to go, with the columns of :data:`PLAN_COLUMNS`.

    Orphans never leave the JVM. Of live topics, only user partitions in which some limit is past reach Python, where
    :func:`~airflow_provider_rlmm.policy.retention.evaluate` walks them.

    :param states: what :func:`~airflow_provider_rlmm.spark.states.segment_states` returned; it is read more than once.
    :param cluster_state: the complete listing of the cluster.
    :param limits: time and minimum age.
    """
    from pyspark.sql import functions as sf

    topics, log_starts = _limit_tables(states.sparkSession, cluster_state)
    orphans = (
        states.join(sf.broadcast(topics), "topic_id", "left_anti")
        .where(sf.col("event_timestamp_ms") < cluster_state.observed_at_ms)
        .select(*_STATE_NAMES, sf.lit(Reason.ORPHANED.value).alias("reason"), sf.lit(True).alias("exact"))
    )
    live = (
        states.join(sf.broadcast(topics), "topic_id")
        .join(sf.broadcast(log_starts), ["topic_id", "partition"], "left")
        .select(*_STATE_NAMES, *_LIMIT_NAMES)
    )
    due = (
        live.join(_partitions_past_a_limit(live, limits), list(_USER_PARTITION), "left_semi")
        .repartition(*_USER_PARTITION)
        .sortWithinPartitions(*_USER_PARTITION)
        .mapInArrow(_evaluator(limits, cluster_state.observed_at_ms), _PLAN_SCHEMA)
    )
    return orphans.unionByName(due)


def write_plan(plan: DataFrame, resolved: DataFrame, output: str, header: PlanHeader) -> PlanSummary:
    """
    Write ``<output>/plan.parquet`` and, last, ``<output>/summary.json``: without a summary there is no plan.

    A plan that is there already is replaced, so a job may be tried again.

    :param plan: what :func:`plan_rows` returned.
    :param resolved: what :func:`~airflow_provider_rlmm.spark.states.resolve` returned.
    :param output: folder for the plan, any URI that Spark can write to.
    :param header: what the summary says beside its counts.
    """
    spark = plan.sparkSession
    root = output.rstrip("/")
    _delete_file(spark, f"{root}/{PLAN_SUMMARY}")
    # The cleaner works through a plan by metadata partition, each in one place and in order.
    ordered = plan.repartition("metadata_partition").sortWithinPartitions(
        *_USER_PARTITION, "start_offset", "segment_id"
    )
    ordered.write.mode("overwrite").parquet(f"{root}/{PLAN_DATA}")
    # Counted in what was written, not in what was meant to be.
    summary = _summarise(spark.read.parquet(f"{root}/{PLAN_DATA}"), resolved, header)
    _write_file(spark, f"{root}/{PLAN_SUMMARY}", summary.to_json())
    return summary


def _limit_tables(spark: SparkSession, cluster_state: ClusterState) -> tuple[DataFrame, DataFrame]:
    """
    Return the listing as tables: the limits per topic id, and the log start offset per user partition.

    :param spark: the session.
    :param cluster_state: the complete listing of the cluster.
    """
    import pyarrow as pa

    # Any negative limit is none; -1 cannot overflow Spark's checked arithmetic.
    topics = [(t.topic_id.bytes, max(t.retention_ms, -1), max(t.retention_bytes, -1)) for t in cluster_state.topics]
    log_starts = [
        (t.topic_id.bytes, p, offset) for t in cluster_state.topics for p, offset in t.log_start_offsets.items()
    ]

    def table(rows: list[tuple[Any, ...]], columns: dict[str, Any]) -> DataFrame:
        values = zip(*rows, strict=True) if rows else [()] * len(columns)
        arrays = [pa.array(value, kind) for value, kind in zip(values, columns.values(), strict=True)]
        return spark.createDataFrame(pa.table(arrays, names=list(columns)))

    return (
        table(topics, {"topic_id": pa.binary(), "retention_ms": pa.int64(), "retention_bytes": pa.int64()}),
        table(log_starts, {"topic_id": pa.binary(), "partition": pa.int32(), "log_start_offset": pa.int64()}),
    )


def _partitions_past_a_limit(live: DataFrame, limits: EvaluationLimits) -> DataFrame:
    """
    Return the user partitions in which the walk can find anything; it may find nothing in some, but in no other.

    :param live: segments of live topics, with their limits.
    :param limits: time and minimum age.
    """
    from pyspark.sql import functions as sf

    unfinished_step = sf.col("state").isin([int(s) for s in UNFINISHED_STEPS])
    retention_ms = sf.col("retention_ms")
    past_a_limit = (
        (unfinished_step & (sf.col("event_timestamp_ms") < limits.now_ms - limits.min_age_ms))
        | ((retention_ms >= 0) & (sf.col("max_timestamp_ms") < sf.lit(limits.now_ms) - retention_ms))
        | sf.coalesce(sf.col("end_offset") < sf.col("log_start_offset"), sf.lit(False))
    )
    copied = sf.sum(
        sf.when(sf.col("state") == int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED), sf.col("segment_size_in_bytes"))
    )
    return (
        live.groupBy(*_USER_PARTITION)
        .agg(
            sf.max(past_a_limit).alias("past_a_limit"),
            copied.alias("copied"),
            sf.max("retention_bytes").alias("retention_bytes"),
        )
        .where("past_a_limit OR (retention_bytes >= 0 AND copied > retention_bytes)")
        .select(*_USER_PARTITION)
    )


def _evaluator(
    limits: EvaluationLimits, listed_at_ms: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def evaluate_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = pa.schema(PLAN_COLUMNS)
        # A user partition may go on in the next batch, so the rows are grouped across batches.
        rows = (row for batch in batches for row in batch.to_pylist())
        partitions = itertools.groupby(rows, key=lambda row: tuple(row[name] for name in _USER_PARTITION))
        found = (row for _, group in partitions for row in _evaluate_partition(list(group), limits, listed_at_ms))
        while chunk := list(itertools.islice(found, 10_000)):
            yield pa.RecordBatch.from_pylist(chunk, schema=schema)

    return evaluate_batches


def _evaluate_partition(
    rows: list[dict[str, Any]], limits: EvaluationLimits, listed_at_ms: int
) -> Iterable[dict[str, Any]]:
    """
    Return the plan's rows of one user partition.

    :param rows: all its segments, each with the partition's limits.
    :param limits: time and minimum age.
    :param listed_at_ms: when the cluster was listed, ms since the epoch.
    """
    partition_limits = PartitionLimits(limits, True, listed_at_ms, **{name: rows[0][name] for name in _LIMIT_NAMES})
    by_id = {row["segment_id"]: row for row in rows}
    facts = [
        SegmentFacts(
            row["segment_id"],
            RemoteLogSegmentState(row["state"]),
            row["start_offset"],
            row["end_offset"],
            row["max_timestamp_ms"],
            row["event_timestamp_ms"],
            row["segment_size_in_bytes"],
        )
        for row in rows
    ]
    for finding in evaluate(facts, partition_limits):
        row = by_id[finding.segment.segment_id]
        planned = {name: row[name] for name in _STATE_NAMES}
        yield {**planned, "reason": finding.reason.value, "exact": finding.exact}


def _summarise(plan: DataFrame, resolved: DataFrame, header: PlanHeader) -> PlanSummary:
    known, bad, unresolved = Count(0, 0), {}, 0
    for row in _counts(resolved, "kind"):
        if row["kind"] == SEGMENT:
            known = _plus(known, row)
        elif row["kind"] == QUARANTINED:
            bad[row["metadata_partition"]] = row["events"]
        else:
            unresolved += row["segments"]
    by_reason: dict[str, Count] = {}
    by_metadata_partition: dict[int, Count] = {}
    for row in _counts(plan, "reason"):
        by_reason[row["reason"]] = _plus(by_reason.get(row["reason"]), row)
        partition = row["metadata_partition"]
        by_metadata_partition[partition] = _plus(by_metadata_partition.get(partition), row)
    return PlanSummary(
        plan_id=header.plan_id,
        cluster_id=header.cluster_id,
        created_at_ms=header.created_at_ms,
        expires_at_ms=header.expires_at_ms,
        read_until=dict(header.read_until),
        known=known,
        by_reason=by_reason,
        by_metadata_partition=by_metadata_partition,
        quarantined=bad,
        unresolved=unresolved,
    )


def _counts(frame: DataFrame, key: str) -> list[Any]:
    """
    Count a DataFrame per ``key`` and metadata partition: few rows, whatever its size.

    :param frame: with ``metadata_partition`` and ``segment_size_in_bytes``; its ``events`` are summed if it has them.
    :param key: a column with few values.
    """
    from pyspark.sql import functions as sf

    sums = [sf.coalesce(sf.sum("segment_size_in_bytes"), sf.lit(0)).alias("bytes")]
    sums += [sf.sum("events").alias("events")] if "events" in frame.columns else []
    counted = frame.groupBy(key, "metadata_partition").agg(sf.count(sf.lit(1)).alias("segments"), *sums)
    return list(counted.collect())


def _plus(count: Count | None, row: Any) -> Count:
    count = count or Count(0, 0)
    return Count(count.segments + row["segments"], count.bytes + row["bytes"])


def _delete_file(spark: SparkSession, uri: str) -> None:
    path, file_system = _hadoop_file(spark, uri)
    file_system.delete(path, False)


def _write_file(spark: SparkSession, uri: str, text: str) -> None:
    """
    Write a small file that appears whole or not at all, wherever Spark itself can write.

    :param spark: the session.
    :param uri: the file.
    :param text: its content.
    """
    target, file_system = _hadoop_file(spark, uri)
    temporary, _ = _hadoop_file(spark, f"{uri}.tmp")
    stream = file_system.create(temporary, True)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()
    if not file_system.rename(temporary, target):
        raise OSError(f"{uri} cannot be written: renaming {uri}.tmp failed")


def _hadoop_file(spark: SparkSession, uri: str) -> tuple[Any, Any]:
    path = spark._jvm.org.apache.hadoop.fs.Path(uri)
    return path, path.getFileSystem(spark._jsc.hadoopConfiguration())
