# SPDX-License-Identifier: Apache-2.0
"""From the segments that are not finished to the rows of a plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.policy.plan import PLAN_COLUMNS, Reason
from airflow_provider_rlmm.spark.columns import SEGMENT, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLAN_SCHEMA = spark_schema(PLAN_COLUMNS)
_PLAN_NAMES = tuple(name for name, _ in PLAN_COLUMNS)


def plan_rows(segments: DataFrame, absent: Collection[tuple[UUID, str]]) -> DataFrame:
    """
    Return the segments that are to go, with the columns of :data:`PLAN_COLUMNS`.

    :param segments: rows of :data:`~airflow_provider_rlmm.spark.segments.SEGMENT_SCHEMA`.
    :param absent: (topic id, name) of deleted topics, as :func:`~airflow_provider_rlmm.policy.absence.judge_orphans` found
        them: nothing else is ever called orphaned.
    """
    from pyspark.sql import functions as sf

    deleted = arrow_table(
        segments.sparkSession,
        [(i.bytes, name) for i, name in sorted(absent)],
        {"topic_id": "binary", "topic": "string"},
    ).withColumn("absent", sf.lit(True))
    orphaned = sf.when(sf.col("absent") & sf.col("may_be_orphaned"), Reason.ORPHANED.value)
    return (
        segments.where(sf.col("kind") == SEGMENT)
        .join(sf.broadcast(deleted), ["topic_id", "topic"], "left")
        .withColumn("reason", sf.coalesce("reason", orphaned))
        .where("reason IS NOT NULL")
        .select(*_PLAN_NAMES)
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
    arrays = [pa.array(value, pa.type_for_alias(kind)) for value, kind in zip(values, columns.values(), strict=True)]
    return spark.createDataFrame(pa.table(arrays, names=list(columns)))
