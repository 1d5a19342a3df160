# SPDX-License-Identifier: Apache-2.0
"""Operators that mark, plan, clean and report: the steps of the DAG ``remote_log_cleaner``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import UUID

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import Context

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import DAY_MS, system_clock
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.base.work_folder import REPORT_DOCUMENT
from airflow_provider_rlmm.core.plans.approval import ApprovalLimits
from airflow_provider_rlmm.core.plans.guards import BlastRadius, CleanerLimits
from airflow_provider_rlmm.core.plans.limits import MAX_SEGMENTS_THIS_RUN
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.plans.plan_files import read_plan, write_document
from airflow_provider_rlmm.core.runs import run_parameters
from airflow_provider_rlmm.core.world.only import ALL_TOPICS, Only
from airflow_provider_rlmm.features.cleanup import run_report as documents
from airflow_provider_rlmm.features.cleanup.reports import Totals, named
from airflow_provider_rlmm.links.artifacts import PlanLink, ReportLink
from airflow_provider_rlmm.observability.lineage import Place, Touched
from airflow_provider_rlmm.operators import arguments as given
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.operators.decision import (
    AS_CHECKED,
    decision_of,
    flag_or_as_checked,
    mode_of,
    said_by_run,
)
from airflow_provider_rlmm.operators.failing import (
    HOW_TO_ACKNOWLEDGE,
    acknowledgements,
    failed_before,
    failed_tasks_before,
    say_green_dry_run,
    say_judgement,
)
from airflow_provider_rlmm.operators.history import cluster_of, facts_of, keep_summary
from airflow_provider_rlmm.operators.housekeeping import tidy_up_after
from airflow_provider_rlmm.operators.session import price_of, run_identity, session_of
from airflow_provider_rlmm.operators.writing import WritingOperator
from airflow_provider_rlmm.settings import NO_PRICE, artifact_uri, work_uri

__all__ = [
    "CleanMetadataPartitionOperator",
    "MarkDeletedPartitionsOperator",
    "PlanRemoteLogCleanupOperator",
    "ReportRemoteLogCleanupOperator",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _MarkArguments:
    rlmm_conn_id: str = given.read_by(given.text, "rlmm_default")
    source_plan: str | None = given.declared_as(run_parameters.SOURCE_PLAN)
    limits: CleanerLimits = given.read_by(given.cleaner_limits, CleanerLimits())
    hold: tuple[str, ...] = given.declared_as(run_parameters.HOLD)
    only: tuple[str, ...] = given.declared_as(run_parameters.ONLY)
    dry_run_only: bool | str | None = given.read_by(flag_or_as_checked, None)
    confirm_lost_records: tuple[str, ...] = given.declared_as(run_parameters.CONFIRM_LOST_RECORDS)
    confirm_metadata_topic_id: UUID | None = given.declared_as(run_parameters.CONFIRM_METADATA_TOPIC_ID)


class MarkDeletedPartitionsOperator(WritingOperator[_MarkArguments]):
    """
    Write DELETE_PARTITION_MARKED for every partition of a deleted topic that still has remote segments.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param source_plan: name of a plan, or its URI below an allowed root (:func:`~airflow_provider_rlmm.settings.plan_uri`);
        only its orphaned partitions are marked. ``None`` or empty: all are looked for.
    :param limits: fields of :class:`~airflow_provider_rlmm.core.plans.guards.CleanerLimits`; its overrides count here.
    :param hold: topics that are not to be marked: names, patterns, ids; those of the connection count besides.
    :param only: topics that the run is for: names, patterns, ids; ``["*"]`` is all of them. Nothing else stands for all: an
        empty list is refused, as it may come from a template without a value.
    :param dry_run_only: say what would be written, write nothing; ``False``: write it. One of the two must be said.
        ``"as checked"``, here and for ``source_plan``: what the task ``check`` of the run has decided.
    :param confirm_lost_records: names of lost records that a person confirms, as the refusal names them, such as ``3@24``:
        the run goes on, and their metadata partitions are in doubt from then on.
    :param confirm_metadata_topic_id: id of the metadata topic, in Kafka's form, where it was deleted and made anew and a
        person confirms that; ``None`` confirms none.
    :return: counts: ``marked`` (in a dry run ``would_mark``), ``already_marked``, ``refused``; ``dry_run``; and
        ``records_read``, of the metadata topic: what an earlier task's snapshot held is not read again, but in the metadata
        partitions in which a marker is due.
    :raises RlmmError: if the cluster cannot be read or a write is refused.
    """

    template_fields: Sequence[str] = (
        "rlmm_conn_id", "source_plan", "limits", "hold", "only", "dry_run_only", "confirm_lost_records",
        "confirm_metadata_topic_id",
    )  # fmt: skip
    arguments = _MarkArguments
    ui_color = "#f4d9a8"
    touched = Touched(reads=(Place.TOPIC,), writes=(Place.TOPIC,))

    def __init__(
        self,
        *,
        rlmm_conn_id: str = "rlmm_default",
        source_plan: str | None = None,
        limits: Mapping[str, Any] | None = None,
        hold: Sequence[str] | None = None,
        only: Sequence[str] = ALL_TOPICS.entries,
        dry_run_only: bool | str | None = None,
        confirm_lost_records: Sequence[str] | None = None,
        confirm_metadata_topic_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.rlmm_conn_id = rlmm_conn_id
        self.source_plan = source_plan
        self.limits = limits
        self.hold = hold
        self.only = only
        self.dry_run_only = dry_run_only
        self.confirm_lost_records = confirm_lost_records
        self.confirm_metadata_topic_id = confirm_metadata_topic_id
        self.check_literals()

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_rlmm.features.cleanup.steps import mark

        read = self.read_arguments()
        mode = mode_of(self, context, read.rlmm_conn_id, read.dry_run_only, read.source_plan, marks=True)
        source_plan, dry_run = given.plan_folder(mode.source_plan), mode.dry_run
        uri = artifact_uri(given.artifact_name(context))
        opened = session_of(
            context,
            read.rlmm_conn_id,
            read.limits,
            dry_run=dry_run,
            hold=read.hold,
            only=Only(read.only),
            confirm=read.confirm_lost_records,
            confirm_topic_id=read.confirm_metadata_topic_id,
        )
        with opened as session:
            report = mark(session, uri, limits=read.limits, source_plan=source_plan, dry_run=dry_run)
        return self.told(
            {
                "would_mark" if dry_run else "marked": len(report.marked),
                "already_marked": report.already_marked,
                "refused": len(report.refusals),
                "dry_run": dry_run,
                "records_read": report.records_read,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlanArguments:
    rlmm_conn_id: str = given.read_by(given.text, "rlmm_default")
    source_plan: str | None = given.declared_as(run_parameters.SOURCE_PLAN)
    limits: CleanerLimits = given.read_by(given.cleaner_limits, CleanerLimits())
    blast_radius: BlastRadius = given.read_by(given.blast_radius, BlastRadius())
    hold: tuple[str, ...] = given.declared_as(run_parameters.HOLD)
    only: tuple[str, ...] = given.declared_as(run_parameters.ONLY)
    max_segments_this_run: int | None = given.declared_as(MAX_SEGMENTS_THIS_RUN)
    dry_run_only: bool | str | None = given.read_by(flag_or_as_checked, None)
    expires_in_ms: int = given.read_by(given.expiry, DAY_MS, templated=False)


class PlanRemoteLogCleanupOperator(CheckedOperator[_PlanArguments]):
    """
    Find the marked partitions that may be cleaned now, and write the plan of every segment that would go.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param source_plan: name of a plan, or its URI below an allowed root; only its orphaned partitions are planned.
    :param limits: fields of :class:`~airflow_provider_rlmm.core.plans.guards.CleanerLimits`.
    :param blast_radius: fields of :class:`~airflow_provider_rlmm.core.plans.guards.BlastRadius`.
    :param hold: topics that are not to be touched: names, patterns, ids; those of the connection count besides.
    :param only: topics that the plan is for, as :class:`MarkDeletedPartitionsOperator` takes them; a task that applies the
        plan deletes of no other. Limits and shares are those of the whole cluster all the same.
    :param max_segments_this_run: plan no more segments than these, ``None`` for all: a canary.
    :param dry_run_only: whether the run is a dry run, for the tasks that come after; a plan changes nothing. ``None``: what
        ``check``, the marker, or the tasks that write and come after this one say; ``"as checked"``, here and for
        ``source_plan``: what the task ``check`` of the run has decided.
    :param expires_in_ms: for how long the plan may be applied, ms; at most 30 days.
    :return: the metadata partitions that have work, to map the cleaning over.
    :raises BlastRadiusError: if the plan is larger than allowed; it is written all the same, to be looked at.
    """

    template_fields: Sequence[str] = (
        "rlmm_conn_id", "source_plan", "limits", "blast_radius", "hold", "only", "max_segments_this_run", "dry_run_only",
    )  # fmt: skip
    arguments = _PlanArguments
    operator_extra_links = (PlanLink(),)
    ui_color = "#cfe3f7"
    touched = Touched(reads=(Place.TOPIC, Place.STORAGE))

    def __init__(
        self,
        *,
        rlmm_conn_id: str = "rlmm_default",
        source_plan: str | None = None,
        limits: Mapping[str, Any] | None = None,
        blast_radius: Mapping[str, Any] | None = None,
        hold: Sequence[str] | None = None,
        only: Sequence[str] = ALL_TOPICS.entries,
        max_segments_this_run: int | str | None = None,
        dry_run_only: bool | str | None = None,
        expires_in_ms: int = DAY_MS,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.rlmm_conn_id = rlmm_conn_id
        self.source_plan = source_plan
        self.limits = limits
        self.blast_radius = blast_radius
        self.hold = hold
        self.only = only
        self.max_segments_this_run = max_segments_this_run
        self.dry_run_only = dry_run_only
        self.expires_in_ms = expires_in_ms
        self.check_literals()

    def execute(self, context: Context) -> list[int]:
        from airflow_provider_rlmm.features.cleanup.steps import plan

        read = self.read_arguments()
        mode = mode_of(self, context, read.rlmm_conn_id, read.dry_run_only, read.source_plan)
        source_plan, name = given.plan_folder(mode.source_plan), given.artifact_name(context)
        opened = session_of(
            context, read.rlmm_conn_id, read.limits, dry_run=mode.dry_run, hold=read.hold, only=Only(read.only)
        )
        with opened as session:
            summary = plan(
                session,
                artifact_uri(name),
                name,
                limits=read.limits,
                blast_radius=read.blast_radius,
                source_plan=source_plan,
                max_segments=read.max_segments_this_run,
                expires_in_ms=read.expires_in_ms,
                price=price_of(session),
                dry_run=mode.dry_run,
            )
        PlanLink.persist(context, name)
        self.log.info("plan %s: %s", name, summary.cost_in_words or NO_PRICE)
        summary.check_blast_radius()
        planned, parts = summary.planned, sorted(summary.by_metadata_partition)
        self.told({"planned_segments": planned.segments, "planned_bytes": planned.bytes})
        self.log.info(
            "plan %s: %s, %s in %s",
            name,
            number_of(planned.segments, "segment"),
            human_bytes(planned.bytes),
            number_of(len(parts), "metadata partition"),
        )
        return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class _CleanArguments:
    metadata_partition: int = given.read_by(given.metadata_partition, templated=False)
    rlmm_conn_id: str = given.read_by(given.text, "rlmm_default")
    limits: CleanerLimits = given.read_by(given.cleaner_limits, CleanerLimits())
    hold: tuple[str, ...] = given.declared_as(run_parameters.HOLD)
    dry_run_only: bool | str | None = given.read_by(flag_or_as_checked, None)
    archive_first: bool = given.read_by(given.flag, False)
    approve_above: ApprovalLimits | None = given.read_by(given.approval_limits, None)


class CleanMetadataPartitionOperator(WritingOperator[_CleanArguments]):
    """
    Clean one metadata partition as the run's plan allows. Restartable: a retry goes on where the topic stands.

    :param metadata_partition: which one; map over the plan's.
    :param rlmm_conn_id: connection of type ``rlmm``.
    :param limits: fields of :class:`~airflow_provider_rlmm.core.plans.guards.CleanerLimits`.
    :param hold: topics that are not to be touched, besides those of the connection.
    :param dry_run_only: say what would be written and deleted, do nothing; ``False``: do it. One of the two must be said.
        ``"as checked"``: what ``check`` has decided.
    :param archive_first: delete only what
        :class:`~airflow_provider_rlmm.operators.archive.ArchivePlannedSegmentsOperator` has archived of exactly this plan;
        the connection's field ``archive_before_deletion`` may ask for it, too.
    :param approve_above: fields of :class:`~airflow_provider_rlmm.core.plans.approval.ApprovalLimits`: a larger plan is
        applied for real only if a person has approved exactly it, as
        :class:`~airflow_provider_rlmm.operators.approval.ApproveRemoteLogCleanupOperator` asks; ``None``: no plan needs
        that.
    :return: counts of partitions, segments, objects and bytes, in a dry run under names that begin with ``would_``, and
        ``dry_run``.
    :raises NotApprovedError: if the plan needs an approval that it does not have.
    :raises ArchiveError: if the plan must be archived before, and the run has no archive of exactly this plan.
    :raises PlanError: if the plan is not as it was written, has expired or was made for another cluster.
    :raises BlastRadiusError: if the plan is larger than the limit that it was judged by.
    :raises RlmmError: if the rules forbid to go on; what was done stays done.
    """

    template_fields: Sequence[str] = (
        "rlmm_conn_id",
        "limits",
        "hold",
        "dry_run_only",
        "archive_first",
        "approve_above",
    )
    arguments = _CleanArguments
    operator_extra_links = (PlanLink(), ReportLink())
    ui_color = "#f2b8b5"
    touched = Touched(reads=(Place.TOPIC, Place.STORAGE), writes=(Place.TOPIC, Place.STORAGE))

    def __init__(
        self,
        *,
        metadata_partition: int,
        rlmm_conn_id: str = "rlmm_default",
        limits: Mapping[str, Any] | None = None,
        hold: Sequence[str] | None = None,
        dry_run_only: bool | str | None = None,
        archive_first: bool | str = False,
        approve_above: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.metadata_partition = metadata_partition
        self.rlmm_conn_id = rlmm_conn_id
        self.limits = limits
        self.hold = hold
        self.dry_run_only = dry_run_only
        self.archive_first = archive_first
        self.approve_above = approve_above
        self.check_literals()

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_rlmm.core.runs.approving import require_approval
        from airflow_provider_rlmm.features.cleanup.steps import clean

        read = self.read_arguments()
        self.metadata_partition = read.metadata_partition
        name = given.artifact_name(context)
        PlanLink.persist(context, name)
        ReportLink.persist(context, name)
        uri = artifact_uri(name)
        summary, run = read_plan(uri), run_identity(context)
        dry_run = mode_of(self, context, read.rlmm_conn_id, read.dry_run_only, plan=summary).dry_run
        if read.approve_above is not None and not dry_run:
            # Not what the task before this one has become, but what a person has answered.
            approval = require_approval(uri, summary, read.approve_above)
            run = replace(run, approved_by=approval.decided_by if approval else None)
        with session_of(context, read.rlmm_conn_id, read.limits, dry_run=dry_run, hold=read.hold) as session:
            kept = clean(
                session,
                uri,
                summary,
                self.metadata_partition,
                limits=read.limits,
                dry_run=dry_run,
                run=run,
                archive_first=read.archive_first,
                at_once=self._at_once(summary),
            )
        counts = Totals.of([kept])
        # The UI names the mapped task by its template, which is rendered again after this.
        done = "would be deleted" if dry_run else "deleted"
        label = f": {number_of(counts.segments_deleted, 'segment')} {done}, {counts.segments_left} left"
        cast("dict[str, Any]", context)["rlmm_counts"] = label
        return self.told({**named(counts, dry_run), "dry_run": dry_run})

    def _at_once(self, plan: PlanSummary) -> int:
        """Return how many tasks of the run may clean at the same time, as far as its DAG says: they share the rate."""
        dag = self.get_dag()
        bounds = (self.max_active_tis_per_dagrun, self.max_active_tis_per_dag, dag.max_active_tasks if dag else None)
        return max(1, min([len(plan.by_metadata_partition), *(bound for bound in bounds if bound)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReportArguments:
    rlmm_conn_id: str = given.read_by(given.text, "rlmm_default")
    dry_run_only: bool | str | None = given.read_by(flag_or_as_checked, None)


class ReportRemoteLogCleanupOperator(CheckedOperator[_ReportArguments]):
    """
    Put what the run's tasks left into one report, and emit the counts with the task's outlet assets.

    It is to run even where the tasks before it failed (``trigger_rule="all_done"``): the healthy part of the work is done
    by then. It fails, after the report is written, as long as something needs a person and is not acknowledged; the
    Airflow variable ``rlmm_acknowledgements`` holds what people have said. A dry run emits no asset event.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param dry_run_only: as the tasks before it were told; ``None``: what the plan of the run says; ``"as checked"``: what
        ``check`` has decided.
    :return: the totals, in a dry run under names that begin with ``would_``, ``dry_run``, and the path of the ``report``.
    :raises AirflowFailException: naming how many things need a person, and the first of them; also if the run's summary
        cannot be kept.
    """

    template_fields: Sequence[str] = ("rlmm_conn_id", "dry_run_only")
    arguments = _ReportArguments
    operator_extra_links = (PlanLink(), ReportLink())
    ui_color = "#c8e6c9"
    touched = Touched()

    def __init__(
        self, *, rlmm_conn_id: str = "rlmm_default", dry_run_only: bool | str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.rlmm_conn_id = rlmm_conn_id
        self.dry_run_only = dry_run_only
        self.check_literals()

    def execute(self, context: Context) -> dict[str, Any]:
        read = self.read_arguments()
        name, now_ms = given.artifact_name(context), system_clock()
        report = documents.report_of_run(
            artifact_uri(name),
            name,
            failed_tasks=(failed := failed_before(self, context)),
            failed=failed_tasks_before(self, context) if failed else (),
            marked=any(isinstance(t, MarkDeletedPartitionsOperator) for t in self.get_flat_relatives(upstream=True)),
            dry_run=self._was_dry(context, read),
            acknowledgements=acknowledgements(now_ms),
            now_ms=now_ms,
        )
        if report.document.dry_run and not report.judgement.failing:
            # A green task looks like one that has deleted. No task can write its own note: its log begins with it.
            totals = report.document.totals
            say_green_dry_run(totals["would_delete_segments"], "segments", totals["would_delete_bytes"])
        # Said first: where the report cannot be written, the log is the only place left.
        say_judgement(self.log, report.judgement, report.document.cluster_id or "", now_ms)
        path = write_document(artifact_uri(name), REPORT_DOCUMENT, json.dumps(report.document.to_dict(), indent=2))
        PlanLink.persist(context, name)
        ReportLink.persist(context, name)
        dry_run = report.document.dry_run
        counts = self.told({**report.document.totals, "dry_run": dry_run, "report": path})
        self.log.info("report %s", counts)
        unkept = self._keep_summary(context, read.rlmm_conn_id, report)
        self._tidy_up(name)
        if report.judgement.failing:
            said = f"{report.judgement.headline()} The report is {path}. {HOW_TO_ACKNOWLEDGE}"
            raise AirflowFailException(f"{said} {unkept}".rstrip())
        if unkept:
            raise AirflowFailException(unkept)
        if dry_run:
            # Airflow registers an event for every outlet of a task that succeeds.
            self.outlets = []
        for asset in self.outlets:
            context["outlet_events"][asset].extra = counts
        return counts

    def _keep_summary(self, context: Context, rlmm_conn_id: str, report: documents.RunReport) -> str:
        """Keep the summary of the run; return why that failed."""
        from airflow_provider_rlmm.overview.history import summary_of_cleanup

        # A run that was stopped by its first task may not know where it was.
        cluster_id = report.document.cluster_id or cluster_of(rlmm_conn_id)
        if cluster_id is None:
            self.log.warning("no summary of this run is kept: it does not know of which cluster it is")
            return ""
        facts = facts_of(context, rlmm_conn_id)
        return keep_summary(lambda: summary_of_cleanup(work_uri(), facts, cluster_id, report))

    def _tidy_up(self, name: str) -> None:
        """A run without a plan has deleted nothing, and knows no cluster whose old runs may go."""
        plan = _plan_if_any(name)
        if plan is not None:
            tidy_up_after(name, plan.cluster_id, plan.created_at_ms)

    def _was_dry(self, context: Context, read: _ReportArguments) -> bool:
        """Tell what the run was told to be; a run for which nothing was decided has done nothing."""
        try:
            if read.dry_run_only == AS_CHECKED:
                return decision_of(context, read.rlmm_conn_id).dry_run
            if read.dry_run_only is not None:
                return bool(read.dry_run_only)
            # Without a plan nothing was deleted, and what was marked the marker has written down.
            return next(iter(said_by_run(context, _plan_if_any(given.artifact_name(context))).values()), True)
        except PlanError as e:
            self.log.warning("%s", e)
            return True


def _plan_if_any(name: str) -> PlanSummary | None:
    """Return the plan of a run, ``None`` where there is none that can be read."""
    try:
        return read_plan(artifact_uri(name))
    except PlanError:
        return None
