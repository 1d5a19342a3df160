# SPDX-License-Identifier: Apache-2.0
"""A plan: the rows that are to go, their files, one per metadata partition, and the summary that names these."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from airflow_provider_rlmm.errors import PlanError
from airflow_provider_rlmm.metadata.records import kafka_uuid_str
from airflow_provider_rlmm.policy.plan import (
    MAX_PLAN_FILE_BYTES,
    MAX_REFUSALS,
    PLAN_COLUMNS,
    SUMMARY_NAME,
    Count,
    PlanFile,
    PlanSummary,
    Reason,
    first_refusals,
    plan_file_name,
)
from airflow_provider_rlmm.policy.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.quoting import name_in_text
from airflow_provider_rlmm.spark.columns import SEGMENT, UNRESOLVED, spark_schema
from airflow_provider_rlmm.spark.job_report import JobReport
from airflow_provider_rlmm.spark.segments import SegmentDataSet, counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLAN_SCHEMA = spark_schema(PLAN_COLUMNS)
_PLAN_NAMES = tuple(name for name, _ in PLAN_COLUMNS)
_HOME = "home"
_ORDER = ("topic_id", "topic", "partition", "start_offset", "end_offset", "segment_id")
_LEFT_BEHIND = re.compile(r"rows-\w+\.tmp|\.summary\.json\.\w+\.tmp|metadata-partition-\d+\.parquet")


def plan_rows(segments: DataFrame, absent: Collection[tuple[UUID, str]]) -> DataFrame:
    """
    Return the segments that are to go, with the columns of :data:`PLAN_COLUMNS`.

    :param segments: rows of :data:`~airflow_provider_rlmm.spark.segments.SEGMENT_SCHEMA`.
    :param absent: (topic id, name) of deleted topics, as :func:`~airflow_provider_rlmm.policy.orphans.judge_orphans` found
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
    """Return a small table, by the names of its columns and their Arrow types, as a DataFrame."""
    import pyarrow as pa

    values = zip(*rows, strict=True) if rows else [()] * len(columns)
    arrays = [pa.array(value, pa.type_for_alias(kind)) for value, kind in zip(values, columns.values(), strict=True)]
    return spark.createDataFrame(pa.table(arrays, names=list(columns)))


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
            parts = sums_by("metadata_partition", counts)
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
        by_reason=sums_by("reason", counts),
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
    """Write the rows into a new folder, those of one metadata partition into one file and in order; count them then."""
    from pyspark.sql import functions as sf

    placed = plan.withColumn(_HOME, sf.col("metadata_partition"))
    ordered = placed.repartition(_HOME).sortWithinPartitions(_HOME, *_ORDER)
    ordered.write.option("maxRecordsPerFile", 0).partitionBy(_HOME).parquet(uri)
    return counted(plan.sparkSession.read.schema(PLAN_SCHEMA).parquet(uri), "reason", "metadata_partition")


def _take(folder: PlanFolder, rows: str, metadata_partition: int, count: Count) -> PlanFile:
    name = plan_file_name(metadata_partition)
    size, sha256 = folder.take(rows, name)
    if size > MAX_PLAN_FILE_BYTES:
        raise PlanError(f"{name} has {size} bytes, a plan's file may have {MAX_PLAN_FILE_BYTES}; clean orphans first")
    return PlanFile(name, count.segments, size, sha256)


def sums_by(key: str, rows: Iterable[Any]) -> dict[Any, Count]:
    """Return the sums of rows that have counts of ``segments`` and ``bytes``, by a column."""
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


class PlanFolder:
    """
    A folder on one of Hadoop's file systems.

    :param spark: the session.
    :param uri: of the folder.
    """

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self._jvm: Any = spark._jvm
        self._files: Any = self._path("").getFileSystem(spark._jsc.hadoopConfiguration())

    def clear(self) -> None:
        """Remove the plan that is there, its summary first, and what killed tries left."""
        self.delete(SUMMARY_NAME)
        for name in filter(_LEFT_BEHIND.fullmatch, self._children("")):
            self.delete(name)

    def new_rows(self) -> str:
        """Return the name of a folder for Spark to write into, of this try alone."""
        return f"rows-{uuid4().hex}.tmp"

    def take(self, rows: str, name: str) -> tuple[int, str]:
        """
        Give the one file that Spark wrote below ``rows`` its final name, in the place of an older one.

        :return: its size in bytes, and the SHA-256 of its bytes in lower-case hex.
        :raises PlanError: if Spark wrote several files or none.
        """
        found = [child for child in self._children(rows) if child.endswith(".parquet")]
        if len(found) != 1:
            raise PlanError(f"Spark wrote {len(found)} files into {self.uri}/{rows} where one was to be; run again")
        source, target = self._path(f"{rows}/{found[0]}"), self._path(name)
        stream = self._files.open(source)
        try:
            sha256 = str(self._jvm.org.apache.commons.codec.digest.DigestUtils.sha256Hex(stream))
        finally:
            stream.close()
        size = int(self._files.getFileStatus(source).getLen())
        self._files.delete(target, False)
        self._rename(source, target)
        return size, sha256

    def create(self, name: str, data: bytes) -> None:
        """
        Write a small file where there is none, whole or not at all.

        HDFS and local file systems see to it that one of two that do it at once fails. In an object store the connector looks
        first, so at worst both succeed, and what the summary of the later one says fits the files of one of them only.

        :raises PlanError: if there is one already.
        """
        temporary, target = self._path(f".{name}.{uuid4().hex}.tmp"), self._path(name)
        stream = self._files.create(temporary, False)
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()
        try:
            self._rename_to_new(temporary, target)
        finally:
            self._files.delete(temporary, False)

    def delete(self, name: str) -> None:
        """Remove a file or a folder with all that is in it, if it is there."""
        self._files.delete(self._path(name), True)

    def _children(self, name: str) -> list[str]:
        path = self._path(name)
        return [str(s.getPath().getName()) for s in self._files.listStatus(path)] if self._files.exists(path) else []

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.uri}/{name}" if name else self.uri)

    def _rename(self, source: Any, target: Any) -> None:
        if not self._files.rename(source, target):
            raise PlanError(f"{source} cannot be renamed to {target}: another try writes this plan; run again")

    def _rename_to_new(self, source: Any, target: Any) -> None:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j has no type information

        exists = f"{target} exists already: another try wrote this plan at the same time; run again"
        try:
            if self._files.getScheme() == "file":
                # There a rename would replace; a link does not.
                os.link(source.toUri().getPath(), target.toUri().getPath())
            else:
                self._rename(source, target)
        except FileExistsError as e:
            raise PlanError(exists) from e
        except Py4JJavaError as e:
            if "AlreadyExists" in str(e.java_exception.getClass().getName()):
                raise PlanError(exists) from None
            raise
