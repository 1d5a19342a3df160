# SPDX-License-Identifier: Apache-2.0
"""Operators that mark, plan, clean and report: the steps of the DAG ``remote_log_cleaner``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_rlmm.clock import system_clock
from airflow_provider_rlmm.errors import PlanError
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.hooks.storage import RemoteStorageHook
from airflow_provider_rlmm.lifecycle.plan_files import (
    orphaned_partitions,
    planned_segments,
    read_document,
    read_plan,
    write_document,
    write_plan,
)
from airflow_provider_rlmm.lifecycle.reports import MetadataPartitionReport, cleanup_document, totals, with_earlier_try
from airflow_provider_rlmm.links.artifacts import PlanLink, ReportLink
from airflow_provider_rlmm.operators.arguments import artifact_name, blast_radius, cleaner_limits, flag
from airflow_provider_rlmm.policy.plan import Count, Refusal, RefusalKind
from airflow_provider_rlmm.settings import artifact_uri, plan_uri

if TYPE_CHECKING:
    from uuid import UUID

    from airflow.sdk import Context

DAY_MS = 86_400_000


class MarkDeletedPartitionsOperator(BaseOperator):
    """
    Write DELETE_PARTITION_MARKED for every partition of a deleted topic that still has remote segments.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param source_plan: name of a plan, or its URI below an allowed root (:func:`~airflow_provider_rlmm.settings.plan_uri`);
        only its orphaned partitions are marked. ``None`` or empty: all are looked for.
    :param dry_run_only: say what would be written, write nothing.
    :return: counts: ``marked``, ``already_marked``, ``refused``.
    :raises RlmmError: if the cluster cannot be read or a write is refused.
    """

    template_fields: Sequence[str] = ("rlmm_conn_id", "source_plan", "dry_run_only")
    ui_color = "#f4d9a8"

    def __init__(
        self,
        *,
        rlmm_conn_id: str = "rlmm_default",
        source_plan: str | None = None,
        dry_run_only: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.rlmm_conn_id = rlmm_conn_id
        self.source_plan = source_plan
        self.dry_run_only = dry_run_only

    def execute(self, context: Context) -> dict[str, int]:
        """Mark."""
        from airflow_provider_rlmm.lifecycle.marker import DeletedPartitionMarker

        dry_run = flag("dry_run_only", self.dry_run_only)
        hook = RemoteLogMetadataHook(self.rlmm_conn_id)
        work = _work_of(self.source_plan, hook.check_cluster())
        with hook.naming_connection(), hook.get_event_log() as log:
            marker = DeletedPartitionMarker(
                log, hook.get_publisher(log), hook.get_cluster_topics(), clock=system_clock, dry_run=dry_run
            )
            report = marker.mark(work)
        _log_refusals(self.log, report.refusals)
        return {
            "marked": len(report.marked),
            "already_marked": report.already_marked,
            "refused": len(report.refusals),
        }


class PlanRemoteLogCleanupOperator(BaseOperator):
    """
    Find the marked partitions that may be cleaned now, and write the plan of every segment that would go.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param source_plan: name of a plan, or its URI below an allowed root; only its orphaned partitions are planned.
    :param limits: fields of :class:`~airflow_provider_rlmm.policy.guards.CleanerLimits`.
    :param blast_radius: fields of :class:`~airflow_provider_rlmm.policy.guards.BlastRadius`.
    :param expires_in_ms: for how long the plan may be applied, ms.
    :return: the metadata partitions that have work, to map the cleaning over.
    :raises BlastRadiusError: if the plan is larger than allowed; it is written all the same, to be looked at.
    """

    template_fields: Sequence[str] = ("rlmm_conn_id", "source_plan", "limits", "blast_radius")
    operator_extra_links = (PlanLink(),)
    ui_color = "#cfe3f7"

    def __init__(
        self,
        *,
        rlmm_conn_id: str = "rlmm_default",
        source_plan: str | None = None,
        limits: Mapping[str, Any] | None = None,
        blast_radius: Mapping[str, Any] | None = None,
        expires_in_ms: int = DAY_MS,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.rlmm_conn_id = rlmm_conn_id
        self.source_plan = source_plan
        self.limits = limits
        self.blast_radius = blast_radius
        self.expires_in_ms = expires_in_ms

    def execute(self, context: Context) -> list[int]:
        """Plan."""
        from airflow_provider_rlmm.lifecycle.planner import CleanupPlanner

        limits, radius = cleaner_limits(self.limits), blast_radius(self.blast_radius)
        hook = RemoteLogMetadataHook(self.rlmm_conn_id)
        work = _work_of(self.source_plan, hook.check_cluster(limits.overrides))
        name = artifact_name(context)
        with hook.naming_connection(), hook.get_event_log() as log:
            planner = CleanupPlanner(log, hook.get_cluster_topics(), limits=limits, clock=system_clock)
            plan = planner.plan(name, expires_in_ms=self.expires_in_ms, only=work)
        summary = write_plan(artifact_uri(name), plan.rows, plan.summary.judged_by(radius))
        PlanLink.persist(context, name)
        _log_refusals(self.log, summary.refusals)
        summary.check_blast_radius()
        planned = summary.planned
        self.log.info(
            "plan %s: %d segments, %d bytes in %d metadata partitions",
            name,
            planned.segments,
            planned.bytes,
            len(summary.by_metadata_partition),
        )
        return sorted(summary.by_metadata_partition)


class CleanMetadataPartitionOperator(BaseOperator):
    """
    Clean one metadata partition as the run's plan allows. Restartable: a retry goes on where the topic stands.

    :param metadata_partition: which one; map over the plan's.
    :param rlmm_conn_id: connection of type ``rlmm``.
    :param limits: fields of :class:`~airflow_provider_rlmm.policy.guards.CleanerLimits`.
    :param dry_run_only: say what would be written and deleted, do nothing.
    :return: counts of partitions, segments, objects and bytes, and whether it was a dry run, which only would have.
    :raises PlanError: if the plan is not as it was written, has expired or was made for another cluster.
    :raises BlastRadiusError: if the plan is larger than the limit that it was judged by.
    :raises RlmmError: if the rules forbid to go on; what was done stays done.
    """

    template_fields: Sequence[str] = ("rlmm_conn_id", "limits", "dry_run_only")
    operator_extra_links = (PlanLink(), ReportLink())
    ui_color = "#f2b8b5"

    def __init__(
        self,
        *,
        metadata_partition: int,
        rlmm_conn_id: str = "rlmm_default",
        limits: Mapping[str, Any] | None = None,
        dry_run_only: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.metadata_partition = metadata_partition
        self.rlmm_conn_id = rlmm_conn_id
        self.limits = limits
        self.dry_run_only = dry_run_only

    def execute(self, context: Context) -> dict[str, Any]:
        """Clean."""
        name = artifact_name(context)
        PlanLink.persist(context, name)
        ReportLink.persist(context, name)
        report = self._clean(artifact_uri(name))
        kept = self._keep(artifact_uri(name), report)
        for line in report.would_write:
            self.log.info("would write %s", line)
        counts = totals([kept])
        # The UI names the mapped task by its template, which is rendered again after this.
        done = "would be deleted" if report.dry_run else "deleted"
        label = f": {counts['segments_deleted']} segments {done}, {counts['segments_left']} left"
        cast("dict[str, Any]", context)["rlmm_counts"] = label
        return {**counts, "dry_run": report.dry_run}

    def _clean(self, uri: str) -> MetadataPartitionReport:
        from airflow_provider_rlmm.lifecycle.cleaner import RemoteLogCleaner

        limits, dry_run = cleaner_limits(self.limits), flag("dry_run_only", self.dry_run_only)
        hook = RemoteLogMetadataHook(self.rlmm_conn_id)
        summary = read_plan(uri)
        summary.check_valid(hook.check_cluster(limits.overrides), system_clock())
        summary.check_blast_radius()
        planned = planned_segments(uri, summary, self.metadata_partition)
        with hook.naming_connection(), hook.get_event_log() as log:
            cleaner = RemoteLogCleaner(
                log,
                hook.get_publisher(log),
                hook.get_offset_store(),
                hook.get_cluster_topics(),
                RemoteStorageHook(self.rlmm_conn_id).get_storage_manager(),
                limits=limits,
                expected_cluster_id=hook.get_connection_settings().expected_cluster_id,
                dry_run=dry_run,
            )
            return cleaner.clean(self.metadata_partition, planned, on_interrupted=partial(self._keep, uri))

    def _keep(self, uri: str, report: MetadataPartitionReport) -> dict[str, Any]:
        """Write the report of this try, with what earlier tries of the run did; return it."""
        part, document = _part_name(self.metadata_partition), report.to_dict()
        if not report.dry_run and (earlier := _document(uri, part)) is not None:
            document = with_earlier_try(document, earlier)
        write_document(uri, part, json.dumps(document))
        _log_refusals(self.log, [*report.refusals, *(r for p in report.partitions for r in p.refusals)])
        return document


class ReportRemoteLogCleanupOperator(BaseOperator):
    """
    Put the run's reports into one document, and emit the counts with the task's outlet assets.

    It is to run whatever became of the cleaning tasks (``trigger_rule="all_done"``). It fails after it has written the
    report where one of them failed or left none, so that the run does not look green.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :return: the totals, whether they are those of a dry run, and the path of the report.
    :raises AirflowFailException: if the run made no plan, a planned metadata partition has no report, or a task before
        this one failed.
    """

    template_fields: Sequence[str] = ("rlmm_conn_id",)
    operator_extra_links = (PlanLink(), ReportLink())
    ui_color = "#c8e6c9"

    def __init__(self, *, rlmm_conn_id: str = "rlmm_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rlmm_conn_id = rlmm_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Report."""
        name = artifact_name(context)
        uri = artifact_uri(name)
        failed = self._failed_before(context)
        try:
            summary = read_plan(uri)
        except PlanError as e:
            raise AirflowFailException(
                f"nothing to report, the run made no plan: see the tasks before this one ({e})"
            ) from e
        reports, missing = [], []
        for metadata_partition, planned in sorted(summary.by_metadata_partition.items()):
            report = _document(uri, _part_name(metadata_partition))
            if report is None:
                missing.append(metadata_partition)
            reports.append(report or _no_report(metadata_partition, planned).to_dict())
        document = cleanup_document(
            report_id=name,
            plan_id=summary.plan_id,
            cluster_id=summary.cluster_id,
            created_at_ms=system_clock(),
            reports=reports,
            not_planned=summary.refusals,
        )
        path = write_document(uri, "report.json", json.dumps(document, indent=2))
        PlanLink.persist(context, name)
        ReportLink.persist(context, name)
        counts = {**document["totals"], "dry_run": any(r["dry_run"] for r in reports), "report": path}
        self.log.info("report %s", counts)
        for asset in self.outlets:
            context["outlet_events"][asset].extra = counts
        if missing or failed:
            raise AirflowFailException(
                f"{failed} tasks before this one failed, metadata partitions {missing} left no report: look at the logs "
                "of those tasks, then run again"
            )
        return counts

    def _failed_before(self, context: Context) -> int:
        """Count the failed instances of the tasks that this one waits for."""
        if not self.upstream_task_ids:
            return 0
        run = context["dag_run"]
        count: int = context["ti"].get_ti_count(
            dag_id=run.dag_id,
            run_ids=[run.run_id],
            task_ids=sorted(self.upstream_task_ids),
            states=["failed", "upstream_failed"],
        )
        return count


def _part_name(metadata_partition: int) -> str:
    return f"clean-{metadata_partition}.json"


def _document(uri: str, part: str) -> dict[str, Any] | None:
    """Return a report that this run has written, ``None`` where it has not."""
    try:
        document: dict[str, Any] = json.loads(read_document(uri, part))
    except PlanError:
        return None
    return document


def _no_report(metadata_partition: int, planned: Count) -> MetadataPartitionReport:
    """Stand in for the report of a task that left none, so that the run's report shows it."""
    refusal = Refusal(
        f"metadata partition {metadata_partition}",
        f"its cleaning task left no report; {planned.segments} segments were planned",
        "look at the log of the task; what it deleted before it failed stays deleted, the next run goes on from there",
        RefusalKind.REPORT,
        metadata_partition,
    )
    return MetadataPartitionReport(
        metadata_partition, False, partitions=(), refusals=(refusal,), events={}, would_write=(), committed_offset=None,
        duration_ms=0,
    )  # fmt: skip


def _work_of(source_plan: str | None, cluster_id: str) -> frozenset[tuple[UUID, int]] | None:
    """Return the partitions that a valid plan of this cluster names as orphaned, ``None`` where no plan was given."""
    if not source_plan:
        return None
    uri = plan_uri(source_plan)
    summary = read_plan(uri)
    summary.check_valid(cluster_id, system_clock())
    return orphaned_partitions(uri, summary)


def _log_refusals(log: Any, refusals: Sequence[Refusal]) -> None:
    for refusal in refusals:
        log.warning("left: %s: %s. To do: %s", refusal.what, refusal.why, refusal.what_to_do)
