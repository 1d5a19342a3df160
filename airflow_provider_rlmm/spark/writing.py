# SPDX-License-Identifier: Apache-2.0
"""Writes a plan: one Parquet file per metadata partition and, last, the summary that names them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.errors import PlanError
from airflow_provider_rlmm.metadata.records import kafka_uuid_str
from airflow_provider_rlmm.policy.plan import (
    MAX_PLAN_FILE_BYTES,
    MAX_REFUSALS,
    SUMMARY_NAME,
    Count,
    PlanFile,
    PlanSummary,
    first_refusals,
    plan_file_name,
)
from airflow_provider_rlmm.policy.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.quoting import name_in_text
from airflow_provider_rlmm.spark.columns import UNRESOLVED
from airflow_provider_rlmm.spark.job_report import JobReport
from airflow_provider_rlmm.spark.plan import PLAN_SCHEMA
from airflow_provider_rlmm.spark.plan_folder import PlanFolder
from airflow_provider_rlmm.spark.segments import SegmentDataSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HOME = "home"
_ORDER = ("topic_id", "topic", "partition", "start_offset", "end_offset", "segment_id")


@dataclass(frozen=True, slots=True)
class PlanHeader:
    """What a summary says beside its counts; the fields are those of :class:`PlanSummary`."""

    plan_id: str  # names the plan
    cluster_id: str  # the cluster that it is made for
    created_at_ms: int  # when the reading began, ms since the epoch
    expires_at_ms: int  # when it may no longer be applied, ms since the epoch
    read_until: Mapping[int, int]  # metadata partition → offset, exclusive
    refusals: tuple[Refusal, ...] = ()  # what was refused before the rows were known
    # what the job says of its own work; writing the rows is a stage of it
    job: JobReport = field(default_factory=JobReport)


def save_plan(plan: DataFrame, segments: SegmentDataSet, folder: PlanFolder, header: PlanHeader) -> PlanSummary:
    """
    Write ``metadata-partition-<n>.parquet`` and, last, ``summary.json``: without it there is no plan.

    Spark writes into a folder of this try's own, and what was counted and hashed there gets its final name: what a killed try
    left is never taken for this one's.

    :param plan: what :func:`~airflow_provider_rlmm.spark.plan.plan_rows` returned.
    :param segments: what it was made from.
    :param folder: the folder of the plan, cleared.
    :param header: what the summary says beside its counts.
    :raises PlanError: if another try writes a plan there at the same time, or a file is larger than what is read.
    """
    refusals = [*header.refusals, *_quarantined(segments), *_unresolved(segments)]
    rows = folder.new_rows()
    try:
        with header.job.stage("plan"):
            counts = _write_rows(plan, f"{folder.uri}/{rows}")
            parts = _sums(counts, "metadata_partition")
            files = {home: _take(folder, f"{rows}/{_HOME}={home}", home, n) for home, n in sorted(parts.items())}
    finally:
        folder.delete(rows)
    summary = PlanSummary(
        plan_id=header.plan_id,
        cluster_id=header.cluster_id,
        created_at_ms=header.created_at_ms,
        expires_at_ms=header.expires_at_ms,
        read_until=dict(header.read_until),
        known=segments.known,
        by_reason=_sums(counts, "reason"),
        by_metadata_partition=parts,
        quarantined=dict(segments.quarantined),
        unresolved=segments.unresolved,
        refusals=first_refusals(refusals),
        files=files,
        job=header.job.document(),
    )
    folder.create(SUMMARY_NAME, summary.to_json().encode())
    return summary


def _write_rows(plan: DataFrame, uri: str) -> list[Any]:
    """
    Write the rows, those of one metadata partition into one file and in order.

    :param plan: the rows.
    :param uri: of a folder that does not exist yet.
    :return: counts per metadata partition and reason, of what was written.
    """
    from pyspark.sql import functions as sf

    placed = plan.withColumn(_HOME, sf.col("metadata_partition"))
    ordered = placed.repartition(_HOME).sortWithinPartitions(_HOME, *_ORDER)
    ordered.write.option("maxRecordsPerFile", 0).partitionBy(_HOME).parquet(uri)
    return _counted(plan.sparkSession.read.schema(PLAN_SCHEMA).parquet(uri))


def _take(folder: PlanFolder, rows: str, metadata_partition: int, count: Count) -> PlanFile:
    name = plan_file_name(metadata_partition)
    size, sha256 = folder.take(rows, name)
    if size > MAX_PLAN_FILE_BYTES:
        raise PlanError(f"{name} has {size} bytes, a plan's file may have {MAX_PLAN_FILE_BYTES}; clean orphans first")
    return PlanFile(name, count.segments, size, sha256)


def _counted(frame: DataFrame) -> list[Any]:
    """Count rows of a plan per reason and metadata partition: few rows, whatever its size."""
    from pyspark.sql import functions as sf

    size = sf.coalesce(sf.sum("segment_size_in_bytes"), sf.lit(0)).alias("bytes")
    counted = frame.groupBy("reason", "metadata_partition").agg(sf.count(sf.lit(1)).alias("segments"), size)
    return list(counted.collect())


def _sums(rows: Iterable[Any], key: str) -> dict[Any, Count]:
    sums: dict[Any, Count] = {}
    for row in rows:
        sums[row[key]] = Count.sum((sums.get(row[key], Count(0, 0)), Count(row["segments"], row["bytes"])))
    return sums


def _quarantined(segments: SegmentDataSet) -> Iterator[Refusal]:
    for metadata_partition, records in sorted(segments.quarantined.items()):
        yield Refusal(
            what=f"{records} records of metadata partition {metadata_partition}",
            why="they cannot be applied; what they may say of a segment is not in this plan",
            what_to_do="let the doctor list them; the cleaner decides about each partition of a topic by itself",
            kind=RefusalKind.QUARANTINED,
            metadata_partition=metadata_partition,
        )


def _unresolved(segments: SegmentDataSet) -> Iterator[Refusal]:
    if not segments.unresolved:
        return
    user_partition = ("metadata_partition", "topic_id", "topic", "partition")
    rows = segments.frame.where(f"kind = '{UNRESOLVED}'")
    found = rows.groupBy(*user_partition).count().orderBy(*user_partition)
    for row in found.limit(MAX_REFUSALS + 1).collect():
        topic, topic_id = row["topic"], UUID(bytes=bytes(row["topic_id"]))
        yield Refusal(
            what=f"partition {row['partition']} of topic {name_in_text(topic)}, id {kafka_uuid_str(topic_id)}",
            why=f"{row['count']} segments have events before the record that adds them, or events that no broker can apply: "
            "nobody can tell what lies in storage",
            what_to_do="let the doctor look at this partition; these segments are not planned",
            kind=RefusalKind.INCOMPLETE_HISTORY,
            metadata_partition=row["metadata_partition"],
            topic=name_in_text(topic),
        )
