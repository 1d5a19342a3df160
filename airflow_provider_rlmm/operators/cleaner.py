# SPDX-License-Identifier: Apache-2.0
"""Operators that mark, plan, clean and report: the steps of the DAG ``remote_log_cleaner``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, cast

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_rlmm.clock import system_clock
from airflow_provider_rlmm.errors import PlanError
from airflow_provider_rlmm.lifecycle import run_report as documents
from airflow_provider_rlmm.lifecycle.plan_files import planned_segments, read_plan, write_document, write_plan
from airflow_provider_rlmm.lifecycle.reports import MetadataPartitionReport, check_part, named, totals, with_earlier_try
from airflow_provider_rlmm.links.artifacts import PlanLink, ReportLink
from airflow_provider_rlmm.operators import arguments as given
from airflow_provider_rlmm.operators.failing import HOW_TO_ACKNOWLEDGE, acknowledgements, failed_before, say_judgement
from airflow_provider_rlmm.operators.session import cleaner_session
from airflow_provider_rlmm.policy.hold import Hold
from airflow_provider_rlmm.policy.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.settings import artifact_uri

DAY_MS = 86_400_000
MAX_EXPIRES_IN_MS = 30 * DAY_MS


class MarkDeletedPartitionsOperator(BaseOperator):
    """
    Write DELETE_PARTITION_MARKED for every partition of a deleted topic that still has remote segments.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param source_plan: name of a plan, or its URI below an allowed root (:func:`~airflow_provider_rlmm.settings.plan_uri`);
        only its orphaned partitions are marked. ``None`` or empty: all are looked for.
    :param limits: fields of :class:`~airflow_provider_rlmm.policy.guards.CleanerLimits`; its overrides count here.
    :param dry_run_only: say what would be written, write nothing.
    :return: counts: ``marked`` (in a dry run ``would_mark``), ``already_marked``, ``refused``; ``dry_run``; and
        ``records_read``, of the metadata topic: what an earlier task's snapshot held is not read again.
    :raises RlmmError: if the cluster cannot be read or a write is refused.
    """

    template_fields: Sequence[str] = ("rlmm_conn_id", "source_plan", "limits", "dry_run_only")
    ui_color = "#f4d9a8"

    def __init__(
        self,
        *,
        rlmm_conn_id: str = "rlmm_default",
        source_plan: str | None = None,
        limits: Mapping[str, Any] | None = None,
        dry_run_only: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.rlmm_conn_id = rlmm_conn_id
        self.source_plan = source_plan
        self.limits = limits
        self.dry_run_only = dry_run_only

    def execute(self, context: Context) -> dict[str, Any]:
        """Mark."""
        from airflow_provider_rlmm.lifecycle.marker import DeletedPartitionMarker

        conn_id = given.text("rlmm_conn_id", self.rlmm_conn_id)
        source_plan = given.text_or_none("source_plan", self.source_plan)
        limits, dry_run = given.cleaner_limits(self.limits), given.flag("dry_run_only", self.dry_run_only)
        with cleaner_session(context, conn_id, limits, dry_run=dry_run) as session:
            work = session.work_of(source_plan)
            publisher = session.hook.get_publisher(session.log)
            with session.topic() as topic:
                report = DeletedPartitionMarker(topic, publisher, clock=session.clock, dry_run=dry_run).mark(work)
        uri = artifact_uri(given.artifact_name(context))
        write_document(uri, documents.MARK_DOCUMENT, json.dumps(documents.mark_document(report, session.cluster_id)))
        _log_refusals(self.log, report.refusals)
        return {
            "would_mark" if dry_run else "marked": len(report.marked),
            "already_marked": report.already_marked,
            "refused": len(report.refusals),
            "dry_run": dry_run,
            "records_read": report.records_read,
        }


class PlanRemoteLogCleanupOperator(BaseOperator):
    """
    Find the marked partitions that may be cleaned now, and write the plan of every segment that would go.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param source_plan: name of a plan, or its URI below an allowed root; only its orphaned partitions are planned.
    :param limits: fields of :class:`~airflow_provider_rlmm.policy.guards.CleanerLimits`.
    :param blast_radius: fields of :class:`~airflow_provider_rlmm.policy.guards.BlastRadius`.
    :param hold: topics that are not to be touched: names, patterns, ids; those of the connection count besides.
    :param max_segments_this_run: plan no more segments than these, ``None`` for all: a canary.
    :param dry_run_only: as the tasks after this one are told; a plan changes nothing.
    :param expires_in_ms: for how long the plan may be applied, ms; at most 30 days.
    :return: the metadata partitions that have work, to map the cleaning over.
    :raises BlastRadiusError: if the plan is larger than allowed; it is written all the same, to be looked at.
    """

    template_fields: Sequence[str] = (
        "rlmm_conn_id", "source_plan", "limits", "blast_radius", "hold", "max_segments_this_run", "dry_run_only",
    )  # fmt: skip
    operator_extra_links = (PlanLink(),)
    ui_color = "#cfe3f7"

    def __init__(
        self,
        *,
        rlmm_conn_id: str = "rlmm_default",
        source_plan: str | None = None,
        limits: Mapping[str, Any] | None = None,
        blast_radius: Mapping[str, Any] | None = None,
        hold: Sequence[str] | None = None,
        max_segments_this_run: int | str | None = None,
        dry_run_only: bool | str = False,
        expires_in_ms: int = DAY_MS,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.rlmm_conn_id = rlmm_conn_id
        self.source_plan = source_plan
        self.limits = limits
        self.blast_radius = blast_radius
        self.hold = hold
        self.max_segments_this_run = max_segments_this_run
        self.dry_run_only = dry_run_only
        self.expires_in_ms = expires_in_ms

    def execute(self, context: Context) -> list[int]:
        """Plan."""
        from airflow_provider_rlmm.lifecycle.planner import CleanupPlanner

        conn_id = given.text("rlmm_conn_id", self.rlmm_conn_id)
        source_plan = given.text_or_none("source_plan", self.source_plan)
        limits, radius = given.cleaner_limits(self.limits), given.blast_radius(self.blast_radius)
        expires_in_ms = given.integer("expires_in_ms", self.expires_in_ms, 1, MAX_EXPIRES_IN_MS)
        most = given.optional_integer("max_segments_this_run", self.max_segments_this_run, 1)
        hold, dry_run = given.hold_entries(self.hold), given.flag("dry_run_only", self.dry_run_only)
        name = given.artifact_name(context)
        with cleaner_session(context, conn_id, limits, dry_run=dry_run, hold=hold) as session:
            work = session.work_of(source_plan)
            with session.topic() as topic:
                root = session.prove_root(topic, limits)
                planner = CleanupPlanner(topic, limits=limits, clock=session.clock, hold=session.hold)
                plan = planner.plan(name, expires_in_ms=expires_in_ms, only=work, max_segments=most)
        plan = replace(plan, summary=replace(plan.summary, root=root.to_dict(), clock=str(session.clock)))
        summary = write_plan(artifact_uri(name), plan.rows, plan.summary.judged_by(radius))
        PlanLink.persist(context, name)
        _log_refusals(self.log, summary.refusals)
        summary.check_blast_radius()
        planned, parts = summary.planned, sorted(summary.by_metadata_partition)
        self.log.info(
            "plan %s: %d segments, %d bytes in %d metadata partitions",
            name,
            planned.segments,
            planned.bytes,
            len(parts),
        )
        return parts


class CleanMetadataPartitionOperator(BaseOperator):
    """
    Clean one metadata partition as the run's plan allows. Restartable: a retry goes on where the topic stands.

    :param metadata_partition: which one; map over the plan's.
    :param rlmm_conn_id: connection of type ``rlmm``.
    :param limits: fields of :class:`~airflow_provider_rlmm.policy.guards.CleanerLimits`.
    :param hold: topics that are not to be touched, besides those of the connection.
    :param dry_run_only: say what would be written and deleted, do nothing.
    :return: counts of partitions, segments, objects and bytes, in a dry run under names that begin with ``would_``, and
        ``dry_run``.
    :raises PlanError: if the plan is not as it was written, has expired or was made for another cluster.
    :raises BlastRadiusError: if the plan is larger than the limit that it was judged by.
    :raises RlmmError: if the rules forbid to go on; what was done stays done.
    """

    template_fields: Sequence[str] = ("rlmm_conn_id", "limits", "hold", "dry_run_only")
    operator_extra_links = (PlanLink(), ReportLink())
    ui_color = "#f2b8b5"

    def __init__(
        self,
        *,
        metadata_partition: int,
        rlmm_conn_id: str = "rlmm_default",
        limits: Mapping[str, Any] | None = None,
        hold: Sequence[str] | None = None,
        dry_run_only: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.metadata_partition = metadata_partition
        self.rlmm_conn_id = rlmm_conn_id
        self.limits = limits
        self.hold = hold
        self.dry_run_only = dry_run_only

    def execute(self, context: Context) -> dict[str, Any]:
        """Clean."""
        self.metadata_partition = given.metadata_partition("metadata_partition", self.metadata_partition)
        name = given.artifact_name(context)
        PlanLink.persist(context, name)
        ReportLink.persist(context, name)
        report = self._clean(context, artifact_uri(name))
        kept = self._keep(artifact_uri(name), report)
        for line in report.would_write:
            self.log.info("would write %s", line)
        counts = totals([kept])
        # The UI names the mapped task by its template, which is rendered again after this.
        done = "would be deleted" if report.dry_run else "deleted"
        label = f": {counts['segments_deleted']} segments {done}, {counts['segments_left']} left"
        cast("dict[str, Any]", context)["rlmm_counts"] = label
        return {**named(counts, report.dry_run), "dry_run": report.dry_run}

    def _clean(self, context: Context, uri: str) -> MetadataPartitionReport:
        from airflow_provider_rlmm.lifecycle.cleaner import RemoteLogCleaner
        from airflow_provider_rlmm.lifecycle.root_proof import ProvenRoot, record_roots, samples_of

        limits, dry_run = given.cleaner_limits(self.limits), given.flag("dry_run_only", self.dry_run_only)
        conn_id, hold = given.text("rlmm_conn_id", self.rlmm_conn_id), given.hold_entries(self.hold)
        summary = read_plan(uri)
        with cleaner_session(context, conn_id, limits, dry_run=dry_run, hold=hold) as session:
            summary.check_valid(session.cluster_id, session.clock())
            summary.check_blast_radius()
            planned = planned_segments(uri, summary, self.metadata_partition)

            def on_root(root: ProvenRoot) -> None:
                if not dry_run:
                    record_roots(session.cluster_uri, session.cluster_id, root.check.root_ids)

            cleaner = RemoteLogCleaner(
                session.log,
                session.hook.get_publisher(session.log, open_ahead=not dry_run),
                session.hook.get_offset_store(),
                session.topics,
                session.storage.get_storage_manager(),
                limits=limits,
                expected_cluster_id=session.hook.get_connection_settings().expected_cluster_id,
                clock=session.clock,
                dry_run=dry_run,
                hold=lambda: Hold.of(session.hold().entries, summary.hold),
                root=session.root_expectation(limits),
                samples=samples_of(summary.root),
                on_root=on_root,
                snapshots=session.snapshots,
            )
            tail, on_interrupted = summary.tail_of(self.metadata_partition), partial(self._keep_interrupted, uri)
            return cleaner.clean(self.metadata_partition, planned, tail, on_interrupted=on_interrupted)

    def _keep(self, uri: str, report: MetadataPartitionReport) -> dict[str, Any]:
        """Write the report of this try, with what earlier tries of the run did; return it."""
        _log_refusals(self.log, [*report.refusals, *(r for p in report.partitions for r in p.refusals)])
        part, document = documents.part_name(self.metadata_partition), report.to_dict()
        try:
            earlier = None if report.dry_run else documents.read_checked(uri, part, check_part)
        except PlanError as e:
            what = f"metadata partition {self.metadata_partition}"
            why = f"what an earlier try of its task did is not in this report: {e}"
            kind, what_to_do = RefusalKind.REPORT, "look at the log of that try"
            document["refusals"].append(asdict(Refusal(what, why, what_to_do, kind, self.metadata_partition)))
        else:
            document = with_earlier_try(document, earlier) if earlier else document
        try:
            write_document(uri, part, json.dumps(document))
        except OSError:
            # On a full disk the log is the only place left to say it.
            self.log.error("the report cannot be written; this try did: %s", totals([report.to_dict()]))
            raise
        return document

    def _keep_interrupted(self, uri: str, report: MetadataPartitionReport) -> None:
        """Write the report of a try that an error ended; whatever becomes of it, that error is the one to be raised."""
        try:
            self._keep(uri, report)
        except (OSError, PlanError) as e:
            self.log.error("no report of this try: %s", e)


class ReportRemoteLogCleanupOperator(BaseOperator):
    """
    Put what the run's tasks left into one report, and emit the counts with the task's outlet assets.

    It is to run whatever became of the tasks before it (``trigger_rule="all_done"``): the healthy part of the work is done
    by then. It fails, after the report is written, as long as something needs a person that nobody has acknowledged; the
    Airflow variable ``rlmm_acknowledgements`` holds what people have said. A dry run emits no asset event.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param dry_run_only: as the tasks before it were told.
    :return: the totals, in a dry run under names that begin with ``would_``, ``dry_run``, and the path of the ``report``.
    :raises AirflowFailException: naming how many things need a person, and the first of them.
    """

    template_fields: Sequence[str] = ("rlmm_conn_id", "dry_run_only")
    operator_extra_links = (PlanLink(), ReportLink())
    ui_color = "#c8e6c9"

    def __init__(self, *, rlmm_conn_id: str = "rlmm_default", dry_run_only: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rlmm_conn_id = rlmm_conn_id
        self.dry_run_only = dry_run_only

    def execute(self, context: Context) -> dict[str, Any]:
        """Report."""
        name, now_ms = given.artifact_name(context), system_clock()
        report = documents.report_of_run(
            artifact_uri(name),
            name,
            failed_tasks=failed_before(self, context),
            marked=any(isinstance(t, MarkDeletedPartitionsOperator) for t in self.get_flat_relatives(upstream=True)),
            dry_run=given.flag("dry_run_only", self.dry_run_only),
            acknowledgements=acknowledgements(now_ms),
            now_ms=now_ms,
        )
        # Said first: where the report cannot be written, the log is the only place left.
        say_judgement(self.log, report.judgement, report.document["cluster_id"] or "", now_ms)
        path = write_document(artifact_uri(name), documents.REPORT_DOCUMENT, json.dumps(report.document, indent=2))
        PlanLink.persist(context, name)
        ReportLink.persist(context, name)
        dry_run = report.document["dry_run"]
        counts = {**report.document["totals"], "dry_run": dry_run, "report": path}
        self.log.info("report %s", counts)
        if report.judgement.failing:
            raise AirflowFailException(f"{report.judgement.headline()} The report is {path}. {HOW_TO_ACKNOWLEDGE}")
        if dry_run:
            # Airflow registers an event for every outlet of a task that succeeds.
            self.outlets = []
        for asset in self.outlets:
            context["outlet_events"][asset].extra = counts
        return counts


def _log_refusals(log: Any, refusals: Sequence[Refusal]) -> None:
    for refusal in refusals:
        log.warning("left: %s: %s. To do: %s", refusal.what, refusal.why, refusal.what_to_do)
