# SPDX-License-Identifier: Apache-2.0
"""A plan: the rows that are to go, their files, one per metadata partition, and the summary that names these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.base.quoting import name_in_text
from airflow_provider_rlmm.core.generations.manifest import GenerationFile
from airflow_provider_rlmm.core.plans.certainty import MAX_REASONS, Certainty, LeadersTold
from airflow_provider_rlmm.core.plans.counts import Count, sums_by
from airflow_provider_rlmm.core.plans.plan import (
    MAX_PLAN_FILE_BYTES,
    MAX_REFUSALS,
    SUMMARY_NAME,
    PlanFile,
    PlanSummary,
    Reason,
    first_refusals,
    plan_file_name,
)
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.told_era import ToldEra
from airflow_provider_rlmm.features.retention.spark.columns import NOT_TIERED, PLANNED_COLUMNS
from airflow_provider_rlmm.features.retention.spark.job_report import JobReport
from airflow_provider_rlmm.features.retention.spark.plan_folder import PlanFolder
from airflow_provider_rlmm.features.retention.spark.segments import SegmentDataSet, per_piece

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

SMALL_BYTES = 16 * 2**20
"""Of so few rows the driver writes a plan itself, in less time than tasks take to begin."""


@dataclass(frozen=True, slots=True)
class PlanHeader:
    """What a summary says beside its counts; the fields are those of :class:`PlanSummary`."""

    plan_id: str  # names the plan
    cluster_id: str  # the cluster that it is made for
    created_at_ms: int  # when the reading began, ms since the epoch
    expires_at_ms: int  # when it may no longer be applied, ms since the epoch
    read_until: Mapping[int, int]  # metadata partition → offset, exclusive
    era: ToldEra | None = None  # of the log
    refusals: tuple[Refusal, ...] = ()  # what was refused before the rows were known
    # what the job says of its own work; writing the rows is a stage of it
    job: JobReport = field(default_factory=JobReport)


def save_plan(
    spark: SparkSession,
    segments: SegmentDataSet,
    absent: Collection[tuple[UUID, str]],
    folder: PlanFolder,
    header: PlanHeader,
    changed: Mapping[tuple[bytes, int], str] = MappingProxyType({}),
) -> PlanSummary:
    """
    Write ``metadata-partition-<n>.parquet`` and, last, ``summary.json``: without it there is no plan.

    Tasks write into a folder of this try's own, and what they counted and hashed gets its final name: what a killed try left
    is never taken for this one's.

    :param spark: the session.
    :param segments: what was read.
    :param absent: (topic id, name) of deleted topics, as :func:`~airflow_provider_rlmm.core.world.absence.judge_orphans`
        found them: nothing else is ever called orphaned.
    :param folder: the folder of the plan, cleared.
    :param header: what the summary says beside its counts.
    :param changed: (topic id, user partition) → why nothing that its leader said before the read is certain.
    :raises PlanError: if another try writes a plan there at the same time, the folder cannot be used, or a file is larger
        than what is read.
    """
    with folder.new_rows() as rows, header.job.stage("plan"):
        planned = _write_rows(spark, segments, absent, changed, f"{folder.uri}/{rows}")
        files = dict(sorted(_take(folder, rows, told) for told in _by_metadata_partition(planned)))
    summary = PlanSummary(
        plan_id=header.plan_id,
        cluster_id=header.cluster_id,
        created_at_ms=header.created_at_ms,
        expires_at_ms=header.expires_at_ms,
        read_until=dict(header.read_until),
        known=segments.known,
        by_reason=sums_by("reason", planned),
        by_metadata_partition=sums_by("metadata_partition", planned),
        quarantined=dict(segments.quarantined),
        unresolved=segments.unresolved,
        refusals=first_refusals([*header.refusals, *_quarantined(segments), *_unresolved(segments)]),
        files=files,
        job=header.job.document(),
        era=header.era,
        leaders=leaders_told(segments.leaders, planned, changed),
    )
    folder.create(SUMMARY_NAME, summary.to_json().encode())
    return summary


def leaders_told(leaders: pa.Table, planned: Iterable[Any], changed: Mapping[tuple[bytes, int], str]) -> LeadersTold:
    """
    Return what a plan tells of the leaders of living topics.

    :param leaders: what tasks told, by :data:`~airflow_provider_rlmm.features.retention.spark.columns.LEADER_COLUMNS`.
    :param planned: the rows that were written, counted by :data:`PLANNED_COLUMNS`.
    :param changed: (topic id, user partition) → why nothing that its leader said before the read is certain.
    """
    certainties, why = Counter[str](), Counter[str]()
    not_tiered = []
    for row in leaders.to_pylist():
        reason = changed.get((row["topic_id"], row["partition"]))
        certainty = row["certainty"] if reason is None else Certainty.UNRESOLVED.value
        certainties[certainty] += 1
        if certainty == Certainty.UNRESOLVED.value:
            why[reason or row["why"]] += 1
        elif certainty == NOT_TIERED:
            not_tiered.append(Count(row["segments"], row["bytes"]))
    goes = (row for row in planned if row["exact"] and Reason(row["reason"]).is_of_leaders)
    return LeadersTold(
        all=certainties[Certainty.ALL.value],
        at_least=certainties[Certainty.AT_LEAST.value],
        unresolved=certainties[Certainty.UNRESOLVED.value],
        goes=Count.sum(Count(row["segments"], row["bytes"]) for row in goes),
        not_tiered=Count.sum(not_tiered),
        why=dict(why.most_common(MAX_REASONS)),
    )


def _write_rows(
    spark: SparkSession,
    segments: SegmentDataSet,
    absent: Collection[tuple[UUID, str]],
    changed: Collection[tuple[bytes, int]],
    target: str,
) -> list[Any]:
    """Write the rows that are to go, a file per metadata partition; return the :data:`PLANNED_COLUMNS` of all."""
    source, deleted = segments.folder, frozenset((topic_id.bytes, name) for topic_id, name in absent)
    untold = frozenset(changed)

    def task(file: GenerationFile) -> Iterable[pa.RecordBatch]:
        from airflow_provider_rlmm.features.retention.spark.executor.plan_file import write_plan_file

        return write_plan_file(source, file, deleted, untold, target, f"{uuid4().hex}.parquet")

    if sum(file.bytes for file in segments.files) <= SMALL_BYTES:
        return [row for file in segments.files for batch in task(file) for row in batch.to_pylist()]
    return per_piece(spark, segments.files, task, PLANNED_COLUMNS)


def _by_metadata_partition(planned: Iterable[Any]) -> list[list[Any]]:
    ordered = sorted(planned, key=lambda row: row["metadata_partition"])
    return [list(rows) for _, rows in groupby(ordered, lambda row: row["metadata_partition"])]


def _take(folder: PlanFolder, rows: str, told: Sequence[Any]) -> tuple[int, PlanFile]:
    """Give the file that a task told of its final name."""
    row, name = told[0], plan_file_name(told[0]["metadata_partition"])
    if row["file_bytes"] > MAX_PLAN_FILE_BYTES:
        raise PlanError(
            f"{name} has {row['file_bytes']} bytes, a plan's file may have {MAX_PLAN_FILE_BYTES}; clean orphans first"
        )
    folder.take(f"{rows}/{row['file']}", name)
    segments = sum(part["segments"] for part in told)
    return row["metadata_partition"], PlanFile(name, segments, row["file_bytes"], row["sha256"])


def _quarantined(segments: SegmentDataSet) -> Iterator[Refusal]:
    for metadata_partition, records in sorted(segments.quarantined.items()):
        yield Refusal(
            what=f"{number_of(records, 'record')} of metadata partition {metadata_partition}",
            why="they cannot be applied; what they may say of a segment is not in this plan",
            what_to_do="let the doctor list them; the cleaner decides about each partition of a topic by itself",
            kind=RefusalKind.QUARANTINED,
            metadata_partition=metadata_partition,
        )


def _unresolved(segments: SegmentDataSet) -> Iterator[Refusal]:
    order = [(name, "ascending") for name in segments.uncertain.schema.names]
    for row in segments.uncertain.sort_by(order).slice(0, MAX_REFUSALS + 1).to_pylist():
        topic, topic_id = name_in_text(row["topic"]), kafka_uuid_str(UUID(bytes=row["topic_id"]))
        yield Refusal(
            what=f"partition {row['partition']} of topic {topic}, id {topic_id}",
            why=(
                f"{number_of(row['segments'], 'segment has', 'segments have')} events before the record that adds "
                f"{agreeing(row['segments'], 'it', 'them')}, or events that no broker can apply: it cannot be told what lies "
                "in storage"
            ),
            what_to_do="let the doctor look at this partition; these segments are not planned",
            kind=RefusalKind.INCOMPLETE_HISTORY,
            metadata_partition=row["metadata_partition"],
            topic=topic,
        )
