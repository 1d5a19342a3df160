# SPDX-License-Identifier: Apache-2.0
"""The steps of a cleanup: mark, plan, clean one metadata partition. Each leaves its document in the folder of the run."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import DAY_MS
from airflow_provider_rlmm.core.base.documents import plain_of
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.base.work_folder import MARK_DOCUMENT
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.early_deletion import early_deletion
from airflow_provider_rlmm.core.plans.guards import BlastRadius, CleanerLimits
from airflow_provider_rlmm.core.plans.plan import PlanSummary, first_refusals
from airflow_provider_rlmm.core.plans.plan_files import planned_segments, write_document, write_plan
from airflow_provider_rlmm.core.plans.prices import StoragePrice
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
from airflow_provider_rlmm.core.runs.holding import require_known_hold, require_known_only
from airflow_provider_rlmm.core.runs.kept_metadata import kept_metadata
from airflow_provider_rlmm.core.runs.second_place import second_place
from airflow_provider_rlmm.core.runs.steps import step
from airflow_provider_rlmm.core.world.only import Chosen, only_of_plan
from airflow_provider_rlmm.core.world.run_identity import RunIdentity
from airflow_provider_rlmm.features.archiving.steps import archive_wanted, guard_of
from airflow_provider_rlmm.features.cleanup import run_report as documents
from airflow_provider_rlmm.features.cleanup.reports import (
    MOST_MARKED_TOPICS,
    Marked,
    MarkedTopic,
    Marking,
    MetadataPartitionReport,
    Totals,
    read_part,
)

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.log.protocol import OffsetStore
    from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
    from airflow_provider_rlmm.core.world.audit_log import AuditLog
    from airflow_provider_rlmm.core.world.effects import Effects
    from airflow_provider_rlmm.features.cleanup.marker import MarkReport
    from airflow_provider_rlmm.features.cleanup.partition_work import UserPartitionWork

logger = logging.getLogger(__name__)

MAX_EXPIRES_IN_MS = 30 * DAY_MS
"""The longest that a plan may be applied, ms."""


def mark(
    session: CleanerSession, uri: str, *, limits: CleanerLimits, source_plan: str | None = None, dry_run: bool
) -> MarkReport:
    """
    Write DELETE_PARTITION_MARKED for every partition of a deleted topic that still has remote segments.

    :param session: of the run.
    :param uri: of the folder of the run.
    :param limits: by which it is said when what is marked may be deleted.
    :param source_plan: folder of a plan; only its orphaned partitions are marked. ``None``: all are looked for.
    :param dry_run: say what would be written, write nothing.
    :raises StoppedError: if the kill switch is on.
    :raises UnknownHoldError: if the hold of this run names a topic that neither log nor cluster knows.
    :raises ConfigurationError: if the run is for topics that neither log nor cluster knows.
    :raises StorageRootError: if living topics have copies at places that the connection does not name.
    :raises RlmmError: if the cluster cannot be read or a write is refused.
    """
    from airflow_provider_rlmm.features.cleanup.marker import (
        DeletedPartitionMarker,
        DryRunMarkerEffects,
        MarkerEffects,
        RealMarkerEffects,
    )

    session.require_running(dry_run=dry_run)
    work = session.work_of(source_plan)
    # The only place where anything marks that is not a dry run.
    effects: MarkerEffects = DryRunMarkerEffects(session.log)
    if not dry_run:
        effects = RealMarkerEffects(session.access.get_publisher(session.log))
    with step(uri, "mark"), session.topic(or_folded=True) as topic:
        session.require_known_places(topic)
        require_known_hold(session, topic)
        require_known_only(session, topic)
        marker = DeletedPartitionMarker(topic, effects, clock=session.clock, hold=session.hold)
        report = marker.mark(Chosen(session.only, work))
    left = Marking(
        session.cluster_id,
        report.dry_run,
        len(report.marked),
        report.already_marked,
        report.refusals,
        session.log.era.told(),
        topic.folded,
        _marked(report.topics, session.clock() + limits.min_absence_ms) if report.topics else None,
    )
    write_document(uri, MARK_DOCUMENT, json.dumps(plain_of(left)))
    log_refusals(report.refusals)
    return report


def _marked(topics: Sequence[MarkedTopic], eligible_ms: int) -> Marked:
    every = Count.sum(Count(topic.segments, topic.bytes) for topic in topics)
    return Marked(tuple(topics[:MOST_MARKED_TOPICS]), every, eligible_ms)


def plan(
    session: CleanerSession,
    uri: str,
    name: str,
    *,
    limits: CleanerLimits,
    blast_radius: BlastRadius,
    source_plan: str | None = None,
    max_segments: int | None = None,
    expires_in_ms: int = DAY_MS,
    price: StoragePrice | None = None,
    dry_run: bool | None = None,
) -> PlanSummary:
    """
    Find the marked partitions that may be cleaned now, and write the plan of every segment that would go.

    :param session: of the run.
    :param uri: of the folder of the run.
    :param name: of the plan.
    :param limits: of destructive work.
    :param blast_radius: by which the plan is judged; the task that applies it asks for that judgement.
    :param source_plan: folder of a plan; only its orphaned partitions are planned.
    :param max_segments: plan no more segments than these, ``None`` for all.
    :param expires_in_ms: for how long the plan may be applied, ms.
    :param price: by which costs are reckoned, ``None`` where none is set.
    :param dry_run: whether the run only says what it would do; the plan carries it to the tasks that come after it.
    :raises StorageRootError: if the storage root is not this cluster's, or not up to date.
    :raises UnknownHoldError: if the hold of this run names a topic that neither log nor cluster knows.
    :raises ConfigurationError: if the run is for topics that neither log nor cluster knows.
    :raises RlmmError: if cluster, topic or storage cannot be read.
    """
    from airflow_provider_rlmm.features.cleanup.planner import CleanupPlanner, sizes_and_ages

    work = session.work_of(source_plan)
    with step(uri, "plan"), session.topic(or_folded=True) as topic:
        # A plan deletes nothing: it says for what its application would be refused.
        root, unknown = session.prove_root(topic, limits, dry_run=True), require_known_hold(session, topic)
        require_known_only(session, topic)
        planner = CleanupPlanner(topic, limits=limits, clock=session.clock, hold=session.hold)
        made = planner.plan(
            name, expires_in_ms=expires_in_ms, chosen=Chosen(session.only, work), max_segments=max_segments
        )
        kept = kept_metadata(session, topic)
    copied = second_place(session)
    refusals = first_refusals([*root.refusals, *unknown, *kept.refusals, *copied.refusals, *made.summary.refusals])
    proven = replace(
        made.summary,
        root=root.to_dict(),
        clock=str(session.clock),
        refusals=refusals,
        price=price,
        early=early_deletion(price, sizes_and_ages(made.rows), made.summary.created_at_ms),
        dry_run=dry_run,
    )
    summary = write_plan(uri, made.rows, proven.judged_by(blast_radius))
    log_refusals(summary.refusals)
    return summary


def clean(
    session: CleanerSession,
    uri: str,
    summary: PlanSummary,
    metadata_partition: int,
    *,
    limits: CleanerLimits,
    dry_run: bool,
    run: RunIdentity,
    archive_first: bool = False,
    at_once: int = 1,
    on_segments: Callable[[int], object] = lambda _: None,
) -> MetadataPartitionReport:
    """
    Clean one metadata partition as the plan of the run allows. Restartable: another try goes on where the topic stands.

    :param session: of the run.
    :param uri: of the folder of the run.
    :param summary: of its plan.
    :param metadata_partition: which one.
    :param limits: of destructive work.
    :param dry_run: say what would be written and deleted, do nothing.
    :param run: who deletes, for the audit log.
    :param archive_first: delete only what the run has archived; the settings may ask for it, too.
    :param at_once: how many metadata partitions the run cleans at the same time, at most: each has its share of the rate.
    :param on_segments: told before the first batch and after each how many segments this try has deleted.
    :return: the report of all tries of the run, as its folder holds it.
    :raises PlanError: if the plan is not as it was written, has expired or was made for another cluster.
    :raises BlastRadiusError: if the plan is larger than the limit that it was judged by.
    :raises ArchiveError: if it must be archived before, and the run has no archive of exactly this plan.
    :raises RlmmError: if the rules forbid to go on; what was done stays done, and is in the folder.
    """
    from airflow_provider_rlmm.core.world.root_proof import ProvenRoot, require_places_of_plan, samples_of
    from airflow_provider_rlmm.features.cleanup.cleaner import RemoteLogCleaner
    from airflow_provider_rlmm.features.cleanup.cleaning_time import began_to_delete
    from airflow_provider_rlmm.features.cleanup.progress import ProgressWriter

    limits = session.paced(limits)
    summary.check_valid(session.cluster_id, session.clock())
    summary.check_blast_radius()
    planned = planned_segments(uri, summary, metadata_partition)
    wanted = archive_wanted(session.access.get_connection_settings(), archive_first) and not dry_run
    guard = guard_of(uri, summary, metadata_partition, wanted=wanted)
    # A dry run, too, is refused by settings that do not say to which cluster may be written.
    session.access.get_connection_settings().check_writable()
    audit = session.audit_log(run.applying(summary.plan_id, summary.sha256), metadata_partition)
    offsets, storage = session.access.get_offset_store(), session.storage.get_storage_manager()
    effects = _effects(session, storage, offsets, audit, dry_run=dry_run)

    def on_root(root: ProvenRoot) -> None:
        require_places_of_plan(summary.root, root.check)

    progress = ProgressWriter(uri, run.artifact, metadata_partition, dry_run=dry_run)

    def on_progress(works: Sequence[UserPartitionWork]) -> None:
        progress(works)
        on_segments(sum(work.segments for work in works))

    cleaner = RemoteLogCleaner(
        session.log,
        effects,
        offsets,
        session.topics,
        storage,
        limits=limits,
        audit=audit,
        expected_cluster_id=session.access.get_connection_settings().expected_cluster_id,
        clock=session.clock,
        hold=session.hold_with(summary),
        only=only_of_plan(summary.only),
        should_stop=session.should_stop,
        archive=guard,
        root=session.root_expectation(limits),
        ledger=session.root_ledger,
        samples=samples_of(summary.root),
        on_root=on_root,
        snapshots=session.snapshots,
        on_progress=on_progress,
        at_once=at_once,
        began_ms=began_to_delete(uri, summary, session.clock()) if limits.max_minutes and not dry_run else None,
    )
    tail, on_interrupted = summary.tail_of(metadata_partition), partial(_keep_interrupted, uri)
    with step(uri, f"clean-{metadata_partition}"), progress:
        report = cleaner.clean(metadata_partition, planned, tail, on_interrupted=on_interrupted)
    kept = _keep(uri, report)
    if kept.out_of_time is not None:
        left = Totals.of([kept]).segments_left
        are = number_of(left, "segment is", "segments are")
        logger.info("metadata partition %d: %s: %s left", metadata_partition, kept.out_of_time, are)
    for line in report.would_write:
        logger.info("would write %s", line)
    return kept


def _effects(
    session: CleanerSession, storage: RemoteStorageManager, offsets: OffsetStore, audit: AuditLog, *, dry_run: bool
) -> Effects:
    """Make what writes and deletes: the only place where anything does that is not a dry run's."""
    from airflow_provider_rlmm.core.world.effects import DryRunEffects, RealEffects
    from airflow_provider_rlmm.core.world.root_ledger import record_roots

    if dry_run:
        return DryRunEffects(session.log, storage, session.clock)
    return RealEffects(
        session.access.get_publisher(session.log, open_ahead=True),
        storage,
        offsets,
        audit,
        sleep=session.rest,
        on_root=lambda check: record_roots(session.cluster_uri, session.cluster_id, check.root_ids),
    )


def log_refusals(refusals: Iterable[Refusal]) -> None:
    """Say what was left, why, and what to do."""
    for refusal in refusals:
        logger.warning("left: %s: %s. To do: %s", refusal.what, refusal.why, refusal.what_to_do)


def _keep(uri: str, report: MetadataPartitionReport) -> MetadataPartitionReport:
    """Write the report of this try, with what earlier tries of the run did; return it."""
    log_refusals(report.every_refusal())
    number = report.metadata_partition
    name, kept = documents.part_name(number), report
    try:
        earlier = None if report.dry_run else documents.read_of_run(uri, name, read_part)
    except PlanError as e:
        what = f"metadata partition {number}"
        why = f"what an earlier try of its task did is not in this report: {e}"
        kind, what_to_do = RefusalKind.REPORT, "look at the log of that try"
        kept = replace(report, refusals=(*report.refusals, Refusal(what, why, what_to_do, kind, number)))
    else:
        # What a dry pass of the same run would have done is nothing that was done.
        kept = report.with_earlier_try(earlier) if earlier and not earlier.dry_run else report
    try:
        write_document(uri, name, json.dumps(plain_of(kept)))
    except OSError:
        # On a full disk the log is the only place left to say it.
        logger.error("the report cannot be written; this try did: %s", plain_of(Totals.of([report])))
        raise
    return kept


def _keep_interrupted(uri: str, report: MetadataPartitionReport) -> None:
    """Write the report of a try that an error ended; even where that fails, that error is the one to be raised."""
    try:
        _keep(uri, report)
    except (OSError, PlanError) as e:
        logger.error("no report of this try: %s", e)
