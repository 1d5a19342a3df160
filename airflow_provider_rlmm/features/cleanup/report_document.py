# SPDX-License-Identifier: Apache-2.0
"""
The report of a run of the cleanup, as people read it: what its tasks did, put together, and what of it needs a person.

``docs/reports.md`` says what each field means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.documents import AbsentAs, LongText, Text, plain_of, reader_of
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.early_deletion import EarlyDeletion, early_in_words
from airflow_provider_rlmm.core.plans.plan_archive import PlanArchive
from airflow_provider_rlmm.core.plans.prices import StoragePrice, money
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.told_era import ToldEra
from airflow_provider_rlmm.core.runs.attention import Judgement, ReportedProblem
from airflow_provider_rlmm.features.cleanup.reports import (
    Marked,
    MetadataPartitionReport,
    Refused,
    Totals,
    count_refused,
    met_in,
    named,
)

REPORT_FORMAT = 1
"""Version of the report's form; one of another version is not read."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """Why a run stopped before it cleaned anything."""

    why: LongText  # the reason
    what_to_do: LongText  # what a person can do about it
    left: Count  # what is left


@dataclass(frozen=True, slots=True)
class Waiting:
    """What will be eligible by itself."""

    segments: int  # number of segments
    bytes: int  # their sizes, summed
    refusals: tuple[Refused, ...]  # what waits, and until when


@dataclass(frozen=True, slots=True)
class ReportedArchivePartition:
    """What was archived of a user partition: see :class:`~airflow_provider_rlmm.core.plans.plan_archive.PlanArchive`."""

    topic: LongText
    topic_id: LongText
    partition: int
    segments: int
    not_whole: int
    bytes: int
    records: int
    records_sha256: LongText
    manifest: LongText  # its URI
    manifest_sha256: LongText
    as_is: Annotated[int | None, AbsentAs(None)] = None  # encrypted ones; earlier releases tell of none


@dataclass(frozen=True, slots=True)
class ReportedArchive:
    """What was archived before anything was deleted."""

    name: LongText  # of the archive
    uri: LongText  # of the folder of all archives
    counts: Mapping[Text, int]  # what it holds, added up
    partitions: tuple[ReportedArchivePartition, ...]

    @classmethod
    def of(cls, archive: PlanArchive) -> ReportedArchive:
        """
        Report an archive.

        :param archive: what a run has archived of its plan.
        """
        partitions = tuple(ReportedArchivePartition(**found.to_report()) for found in archive.partitions)
        return cls(archive.name, archive.archive_uri, archive.counts(), partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupReport:
    """
    The report of a run: what its tasks left in its folder, put together.

    :param report_id: names the report.
    :param plan_id: the plan that was applied, ``None`` where there was none.
    :param cluster_id: the cluster, ``None`` where it is not known.
    :param created_at_ms: ms since the epoch.
    :param dry_run: whether nothing was written or deleted.
    :param era: the era of the log, ``None`` where no document tells: those of earlier releases do not.
    :param stopped: what stopped it before it cleaned anything, ``None`` where nothing did.
    :param deletion: whether deletion frees space, in words; ``None`` where that was not asked.
    :param archive: what was archived before anything was deleted, ``None`` where nothing was.
    :param needs_person: what needs a person.
    :param acknowledged: what would, if it were not acknowledged.
    :param waiting: what will be eligible by itself, as of the plan.
    :param totals: counts under the names that are true (:func:`named`).
    :param not_marked: refusals of the marker that neither wait nor need a person.
    :param not_planned: such refusals of the planner.
    :param metadata_partitions: what the cleaning tasks did.
    :param price: by which costs are reckoned, as of the plan; ``None`` where none is set.
    :param early: what of the plan goes before its storage class's minimum duration, ``None`` where it cannot be told.
    :param marked: what was marked, by topic; in a dry run, what would have been. ``None`` for nothing.
    :param out_of_time: that the time of the run was over before all was deleted, and how much is left; ``None`` where not.
    """

    report_id: LongText
    plan_id: LongText | None
    cluster_id: LongText | None
    created_at_ms: int
    dry_run: bool
    era: Annotated[ToldEra | None, AbsentAs(None)]
    stopped: Stopped | None
    deletion: LongText | None
    archive: Annotated[ReportedArchive | None, AbsentAs(None)]  # reports of earlier releases know of none
    needs_person: tuple[ReportedProblem, ...]
    acknowledged: tuple[ReportedProblem, ...]
    waiting: Waiting
    totals: Mapping[Text, int]
    not_marked: tuple[Refused, ...]
    not_planned: tuple[Refused, ...]
    metadata_partitions: tuple[MetadataPartitionReport, ...]
    price: Annotated[StoragePrice | None, AbsentAs(None)] = None
    early: Annotated[EarlyDeletion | None, AbsentAs(None)] = None
    marked: Annotated[Marked | None, AbsentAs(None)] = None
    out_of_time: Annotated[LongText | None, AbsentAs(None)] = None

    @property
    def cost_in_words(self) -> str:
        """What is saved in a month, and what it costs as it comes early; empty where no price is set."""
        if self.price is None:
            return ""
        counted = Totals.of(self.metadata_partitions)
        saved = money(self.price.month(counted.bytes_deleted, counted.objects_deleted))
        early = early_in_words(self.price, self.early, "segment")
        what = "What would be deleted costs" if self.dry_run else "What was deleted cost"
        return f"{what} {saved} a month.{f' By the plan: {early}' if early else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Return the document as plain JSON types."""
        return {"format_version": REPORT_FORMAT, **plain_of(self)}


def cleanup_report(
    *,
    report_id: str,
    plan_id: str | None,
    cluster_id: str | None,
    created_at_ms: int,
    parts: Sequence[MetadataPartitionReport],
    dry_run: bool = False,
    era: ToldEra | None = None,
    judgement: Judgement | None = None,
    stopped: Stopped | None = None,
    waiting: Count | None = None,
    left: int = 0,
    not_marked: Sequence[Refusal] = (),
    not_planned: Sequence[Refusal] = (),
    partitions_marked: int = 0,
    marked: Marked | None = None,
    deletion: str | None = None,
    archive: PlanArchive | None = None,
    price: StoragePrice | None = None,
    early: EarlyDeletion | None = None,
) -> CleanupReport:
    """
    Put what the tasks of a run left into one report.

    :param report_id: names the report.
    :param plan_id: the plan that was applied, ``None`` where there was none.
    :param cluster_id: the cluster, ``None`` where it is not known.
    :param created_at_ms: ms since the epoch.
    :param parts: what the cleaning tasks did.
    :param dry_run: whether nothing was written or deleted.
    :param era: the era of the log, ``None`` where no document tells.
    :param judgement: what needs a person, and what a person has seen; ``None`` for nothing.
    :param stopped: what stopped the run before it cleaned anything.
    :param left: segments that are left in metadata partitions without a report of their own.
    :param waiting: what will be eligible by itself, as of the plan; ``None`` for nothing.
    :param not_marked: refusals of the marker.
    :param not_planned: refusals of the planner; waits among them and in the reports count apart.
    :param partitions_marked: how many partitions were marked.
    :param marked: what was marked, by topic.
    :param deletion: whether deletion frees space, in words; ``None`` where that was not asked.
    :param archive: what was archived before anything was deleted, ``None`` where nothing was.
    :param price: by which costs are reckoned, as of the plan.
    :param early: what of the plan goes before its storage class's minimum duration.
    """
    judgement, waiting = judgement or Judgement(), waiting or Count(0, 0)
    counted = Totals.of(parts)
    earlier = ((None, refusal) for refusal in (*not_planned, *not_marked))
    counted = replace(
        counted,
        segments_left=counted.segments_left + left,
        refusals=count_refused((*earlier, *met_in(parts))),
    )
    planned_or_met = (*not_planned, *(refusal for part in parts for refusal in part.every_refusal()))
    waits = {r.what: r for r in reversed(planned_or_met) if r.kind is RefusalKind.WAITING}
    return CleanupReport(
        report_id=report_id,
        plan_id=plan_id,
        cluster_id=cluster_id,
        created_at_ms=created_at_ms,
        dry_run=dry_run,
        era=era,
        stopped=stopped,
        deletion=deletion,
        archive=None if archive is None else ReportedArchive.of(archive),
        needs_person=tuple(j.entry(cluster_id or "", created_at_ms) for j in judgement.failing),
        acknowledged=tuple(j.entry(cluster_id or "", created_at_ms) for j in judgement.acknowledged),
        waiting=Waiting(waiting.segments, waiting.bytes, tuple(waits[what] for what in sorted(waits))),
        totals={
            **named(counted, dry_run, partitions_marked=partitions_marked),
            "waiting_segments": waiting.segments,
            "waiting_bytes": waiting.bytes,
            "needs_person": judgement.things,
            "acknowledged": len(judgement.acknowledged),
        },
        not_marked=tuple(r for r in not_marked if _is_left(r.kind)),
        not_planned=tuple(r for r in not_planned if _is_left(r.kind)),
        metadata_partitions=tuple(parts),
        price=price,
        early=early,
        marked=marked,
        out_of_time=_out_of_time(parts, counted.segments_left),
    )


def _out_of_time(parts: Sequence[MetadataPartitionReport], left: int) -> str | None:
    """Say that a run had no time for all of its work, and what becomes of the rest."""
    why = next((part.out_of_time for part in parts if part.out_of_time is not None), None)
    return (
        None
        if why is None
        else f"{why}: {number_of(left, 'segment is', 'segments are')} left, and the next run goes on with them"
    )


def _is_left(kind: RefusalKind) -> bool:
    """Tell whether something was left that neither waits for its time nor needs a person: those have lists of their own."""
    return kind is not RefusalKind.WAITING and not kind.needs_person


def read_report(document: Mapping[str, Any]) -> CleanupReport:
    """
    Read the report of a run.

    :param document: what :meth:`CleanupReport.to_dict` returned.
    :raises ValueError: naming the first field that is wrong.
    """
    return _READ_REPORT(strict.versioned_fields(document, REPORT_FORMAT), "report")


_READ_REPORT = reader_of(CleanupReport)
