# SPDX-License-Identifier: Apache-2.0
"""From the current states of segments to the rows of a plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState
from airflow_provider_rlmm.policy.cluster_state import ClusterState
from airflow_provider_rlmm.policy.plan import PLAN_COLUMNS, Reason
from airflow_provider_rlmm.policy.retention import (
    UNFINISHED_STEPS,
    EvaluationLimits,
    PartitionLimits,
    SegmentFacts,
    evaluate,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

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
PLAN_SCHEMA = ", ".join(f"{name} {_SPARK_TYPES[kind]}" for name, kind in PLAN_COLUMNS)
_USER_PARTITION = ("topic_id", "topic", "partition")
_LIMIT_NAMES = ("log_start_offset", "retention_ms", "retention_bytes")


def plan_rows(
    states: DataFrame, cluster_state: ClusterState, limits: EvaluationLimits, absent: Collection[tuple[UUID, str]]
) -> DataFrame:
    """
    Return the segments that are to go, with the columns of :data:`PLAN_COLUMNS`.

    Orphans never leave the JVM. Of live topics, only user partitions in which some limit is past reach Python, where
    :func:`~airflow_provider_rlmm.policy.retention.evaluate` walks them.

    :param states: what :func:`~airflow_provider_rlmm.spark.states.segment_states` returned; it is read more than once.
    :param cluster_state: the complete listing of the cluster.
    :param limits: time and minimum age.
    :param absent: (topic id, name) of deleted topics, as :func:`~airflow_provider_rlmm.policy.orphans.judge_orphans` found
        them: nothing else is ever called orphaned. A segment with an event after the listing is not, either.
    """
    from pyspark.sql import functions as sf

    spark = states.sparkSession
    topics, log_starts = _limit_tables(spark, cluster_state)
    deleted = arrow_table(
        spark, [(i.bytes, name) for i, name in sorted(absent)], {"topic_id": "binary", "topic": "string"}
    )
    orphans = (
        states.join(sf.broadcast(topics), "topic_id", "left_anti")
        .join(sf.broadcast(deleted), ["topic_id", "topic"], "left_semi")
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
        # A group comes whole. What repartition puts together may not: Spark takes its exchange away where a join has one like
        # it, and adaptive execution may read that one in pieces.
        .groupBy(*_USER_PARTITION)
        .applyInArrow(_evaluator(limits, cluster_state.observed_at_ms), PLAN_SCHEMA)
    )
    return orphans.unionByName(due)


def _limit_tables(spark: SparkSession, cluster_state: ClusterState) -> tuple[DataFrame, DataFrame]:
    """
    Return the listing as tables: the limits per topic id, and the log start offset per user partition.

    :param spark: the session.
    :param cluster_state: the complete listing of the cluster.
    """
    # Any negative limit is none; -1 cannot overflow Spark's checked arithmetic.
    topics = [(t.topic_id.bytes, max(t.retention_ms, -1), max(t.retention_bytes, -1)) for t in cluster_state.topics]
    log_starts = [
        (t.topic_id.bytes, p, offset) for t in cluster_state.topics for p, offset in t.log_start_offsets.items()
    ]
    return (
        arrow_table(spark, topics, {"topic_id": "binary", "retention_ms": "int64", "retention_bytes": "int64"}),
        arrow_table(spark, log_starts, {"topic_id": "binary", "partition": "int32", "log_start_offset": "int64"}),
    )


def arrow_table(spark: SparkSession, rows: Sequence[tuple[Any, ...]], columns: Mapping[str, str]) -> DataFrame:
    """
    Return a small table as a DataFrame.

    :param spark: the session.
    :param rows: its rows.
    :param columns: name → Arrow type.
    """
    import pyarrow as pa

    values = zip(*rows, strict=True) if rows else [()] * len(columns)
    types = (pa.binary() if kind == "binary" else pa.type_for_alias(kind) for kind in columns.values())
    arrays = [pa.array(value, kind) for value, kind in zip(values, types, strict=True)]
    return spark.createDataFrame(pa.table(arrays, names=list(columns)))


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


def _evaluator(limits: EvaluationLimits, listed_at_ms: int) -> Callable[[pa.Table], pa.Table]:
    def evaluate_user_partition(segments: pa.Table) -> pa.Table:
        import pyarrow as pa

        found = list(_evaluate_partition(segments.to_pylist(), limits, listed_at_ms))
        return pa.Table.from_pylist(found, schema=pa.schema(PLAN_COLUMNS))

    return evaluate_user_partition


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
