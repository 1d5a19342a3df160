# SPDX-License-Identifier: Apache-2.0
"""The steps of a scrub: compare storage and log, plan what may go, delete it. Each leaves a document in the run's folder."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.clock import Clock, ProvenClock, monotonic_clock
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.plans.approval import NOT_APPROVED_ADVICE
from airflow_provider_rlmm.core.plans.guards import BlastRadius, CleanerLimits
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.runs.attention import Attention, RunProblem
from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
from airflow_provider_rlmm.core.runs.holding import require_known_hold, require_known_only
from airflow_provider_rlmm.core.runs.steps import step
from airflow_provider_rlmm.core.storage.hidden_copies import VERSIONED_BUCKET
from airflow_provider_rlmm.core.world.audit import SCRUB
from airflow_provider_rlmm.core.world.proven_time import UNPROVEN_CLOCK
from airflow_provider_rlmm.core.world.run_identity import RunIdentity

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from airflow_provider_rlmm.core.plans.approval import ApprovalLimits
    from airflow_provider_rlmm.core.plans.guards import ScrubLimits
    from airflow_provider_rlmm.core.plans.prices import StoragePrice
    from airflow_provider_rlmm.core.records.records import TopicIdPartition
    from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
    from airflow_provider_rlmm.core.world.root_proof import ProvenRoot
    from airflow_provider_rlmm.features.scrub.scrub_cleaner import ScrubDeletion
    from airflow_provider_rlmm.features.scrub.scrub_effects import ScrubEffects
    from airflow_provider_rlmm.features.scrub.scrub_plan import ScrubPlan
    from airflow_provider_rlmm.features.scrub.scrub_summary import ScrubSummary

logger = logging.getLogger(__name__)


def scrub(
    session: CleanerSession,
    uri_of: Callable[[str], str],
    name: str,
    *,
    limits: CleanerLimits,
    max_copy_ms: int,
    price: StoragePrice | None,
) -> ScrubSummary:
    """
    Compare what lies in remote storage with the metadata topic, write what was found, and record it as the latest of its
    cluster; nothing is written to either.

    :param session: of the run.
    :param uri_of: name of a run → its folder.
    :param name: of this run.
    :param limits: with the overrides in force.
    :param max_copy_ms: for how long a copy may be under way before it counts as never finished, ms.
    :param price: by which costs are reckoned, ``None`` where none is set.
    :return: the summary, which names the table: one row per object that is not in use and per segment that lacks an object.
    :raises StorageRootError: if the storage root is not this cluster's, or not up to date.
    :raises EventLogError: if the topic cannot be read whole.
    :raises RoomError: if this machine has not the memory or the disk that it takes.
    """
    from airflow_provider_rlmm.features.scrub import scrub_files
    from airflow_provider_rlmm.features.scrub.comparison import scrub as compare

    proven, topic_id = _is_proven(session.clock, limits), session.log.topic_id
    latest = scrub_files.latest_scrub(session.cluster_uri, uri_of, session.cluster_id, topic_id)
    storage = session.storage.get_storage_manager()
    root, known, prefixes = _looked_at(session, limits, storage, latest)
    with step(uri_of(name), "scrub"):
        found = compare(
            session.log, session.topics, storage, known=known, known_prefixes=prefixes, clock=session.clock,
            max_copy_ms=max_copy_ms,
        )  # fmt: skip
    proven = proven and _is_proven(session.clock, limits)
    origin = scrub_files.ScrubOrigin(
        name, session.cluster_id, topic_id, str(session.clock), proven, root.to_dict(), price
    )
    with scrub_files.table_of_latest(latest, uri_of) as earlier:
        summary = scrub_files.write_scrub(uri_of(name), found, origin, earlier)
    scrub_files.record_latest(session.cluster_uri, summary)
    return summary


def _looked_at(
    session: CleanerSession, limits: CleanerLimits, storage: RemoteStorageManager, latest: ScrubSummary | None
) -> tuple[ProvenRoot, frozenset[TopicIdPartition], frozenset[str]]:
    """
    Prove the root, and return it with the user partitions and key prefixes that the log names. What was read for that is let
    go: a scrub reads the log once more, and holds that.
    """
    from airflow_provider_rlmm.features.scrub.foretold import foretell, require_room

    with session.topic() as topic:
        # Whether deletion frees space is for those to ask who delete.
        looking = replace(limits, overrides=limits.overrides | {VERSIONED_BUCKET})
        root = session.prove_root(topic, looking, storage, dry_run=True)
        topic.advance()
        required = sum(storage.layout.suffixes.values())
        require_room(foretell(topic.not_finished.size, required, latest.listed.objects if latest else None))
        return root, topic.partitions(), topic.key_prefixes


def _is_proven(clock: Clock, limits: CleanerLimits) -> bool:
    """Tell whether a wait may be measured by a clock."""
    return UNPROVEN_CLOCK in limits.overrides or (isinstance(clock, ProvenClock) and clock.proof.proven)


def plan(
    session: CleanerSession,
    uri: str,
    *,
    limits: ScrubLimits,
    blast_radius: BlastRadius,
    max_segments: int | None,
    expires_in_ms: int,
    dry_run: bool | None = None,
) -> ScrubPlan:
    """
    Write down which of the objects that the scrub of this run has found may go.

    :param session: of the run.
    :param uri: of the folder of the run.
    :param limits: of what may be deleted.
    :param blast_radius: by which the plan is judged; the task that applies it asks for that judgement.
    :param max_segments: plan the objects of no more segments than these, ``None`` for all.
    :param expires_in_ms: for how long the plan may be applied, ms.
    :param dry_run: whether the run only says what it would do; the plan carries it to the tasks that come after it.
    :raises PlanError: if this run has no scrub, or one of another cluster.
    :raises UnknownHoldError: if the hold of this run names a topic that neither log nor cluster knows.
    :raises ConfigurationError: if the run is for topics that neither log nor cluster knows.
    """
    from airflow_provider_rlmm.features.scrub.scrub_plan import Choice
    from airflow_provider_rlmm.features.scrub.scrub_planner import plan_scrub

    sole_owner = session.access.get_connection_settings().sole_owner
    with session.topic() as topic:
        require_known_hold(session, topic)
        require_known_only(session, topic)
    choice = Choice(limits, session.hold(), sole_owner=sole_owner, max_segments=max_segments, only=session.only)
    return plan_scrub(
        uri,
        choice,
        cluster_id=session.cluster_id,
        now_ms=session.clock(),
        expires_in_ms=expires_in_ms,
        blast_radius=blast_radius,
        clock=str(session.clock),
        dry_run=dry_run,
    )


def delete(
    opened: AbstractContextManager[CleanerSession],
    uri: str,
    *,
    limits: ScrubLimits,
    dry_run: bool,
    run: RunIdentity,
    approve_above: ApprovalLimits | None = None,
) -> ScrubDeletion:
    """
    Delete what the plan of this run names, as far as storage and log still say the same of it; no event is written. However
    it ends, the folder of the run gets the report of what was done.

    :param opened: the session of the run, which is opened here.
    :param uri: of the folder of the run.
    :param limits: of what may be deleted.
    :param dry_run: say what would be deleted, do nothing.
    :param run: who deletes, for the audit log.
    :param approve_above: the largest plan that is applied for real without a person's approval; ``None``: every one is.
    :raises NotApprovedError: if the plan needs an approval, and no person has approved exactly it.
    :raises PlanError: if the plan is not as it was written, has expired or was made for another cluster or log.
    :raises BlastRadiusError: if the plan is larger than the limit that it was judged by.
    :raises StorageRootError: if the storage root is not this cluster's, or not up to date.
    :raises RlmmError: if the rules forbid to go on; what was done stays done.
    """
    from airflow_provider_rlmm.core.plans.plan_files import write_document
    from airflow_provider_rlmm.features.scrub.scrub_cleaner import DELETION_DOCUMENT, ScrubDeletion

    report, began = ScrubDeletion(dry_run), monotonic_clock()

    def keep() -> None:
        # Said first: where the report cannot be written, the log is the only place left.
        logger.info("objects of the scrub: %s", report.counts())
        report.duration_ms = monotonic_clock() - began
        if not dry_run:
            _add_earlier_try(report, uri)
        write_document(uri, DELETION_DOCUMENT, json.dumps(report.to_dict(), indent=2))

    try:
        with step(uri, "delete"), opened as session:
            _delete(session, uri, limits, report, run, None if dry_run else approve_above)
    except BaseException:
        # Even where the report fails, this error is the one to be raised.
        with suppress(OSError, PlanError):
            keep()
        raise
    keep()
    return report


def _add_earlier_try(report: ScrubDeletion, uri: str) -> None:
    """Add what an earlier try of the task has deleted: it tries again what may pass, and a person may clear it."""
    from airflow_provider_rlmm.features.scrub.scrub_cleaner import deletion_of

    try:
        earlier = deletion_of(uri)
    except PlanError as e:
        why = f"what an earlier try of its task did is not in this report: {e}"
        what_to_do = "look at the log of that try"
        report.note_problem(Refusal("the deletion of the scrub", why, what_to_do, RefusalKind.REPORT))
        return
    if not earlier.dry_run and report.plan_sha256 in ("", earlier.plan_sha256):
        report.add_earlier_try(earlier)
        report.plan_sha256 = earlier.plan_sha256


def rejection_of(uri: str) -> Attention | None:
    """
    Return that a person has rejected the plan of a scrub, or that no answer came in time; ``None`` where that is not so.

    :param uri: of the folder of the run.
    :raises PlanError: if plan or answer cannot be read.
    """
    from airflow_provider_rlmm.core.runs.approving import read_approval
    from airflow_provider_rlmm.features.scrub.scrub_planner import read_scrub_plan

    answer = read_approval(uri)
    if answer is None or answer.approved:
        return None
    plan = read_scrub_plan(uri)
    if not answer.is_of(plan):
        return None
    why = (
        f"it {answer}; {number_of(plan.file.rows, 'object')} with {human_bytes(plan.planned.bytes)} "
        f"{agreeing(plan.file.rows, 'is', 'are')} left"
    )
    kind = RunProblem.NOT_APPROVED.value
    return Attention(kind, f"plan {plan.plan_id}", why, NOT_APPROVED_ADVICE, acknowledgeable=False)


def _delete(
    session: CleanerSession,
    uri: str,
    limits: ScrubLimits,
    report: ScrubDeletion,
    run: RunIdentity,
    approve_above: ApprovalLimits | None,
) -> None:
    """Check the plan and the storage root, and delete."""
    from airflow_provider_rlmm.core.runs.approving import require_approval
    from airflow_provider_rlmm.features.scrub.scrub_cleaner import ScrubCleaner, require_places
    from airflow_provider_rlmm.features.scrub.scrub_planner import open_scrub_plan

    limits = session.paced(limits)
    with open_scrub_plan(uri) as (plan, rows):
        report.plan_sha256 = plan.sha256
        plan.check_valid(session.cluster_id, kafka_uuid_str(session.log.topic_id), session.clock())
        plan.check_blast_radius()
        if approve_above is not None:
            # Not what the task before this one has become, but what a person has answered.
            approval = require_approval(uri, plan, approve_above)
            run = replace(run, approved_by=approval.decided_by if approval else None)
        storage, sole_owner = session.storage.get_storage_manager(), session.access.get_connection_settings().sole_owner
        with session.topic() as topic:
            root = session.prove_root(topic, limits.of_the_cleaner, storage, dry_run=report.dry_run)
            for unknown in require_known_hold(session, topic):
                report.note_problem(unknown)
        require_places(rows, root.check)
        cleaner = ScrubCleaner(
            session.log,
            session.topics,
            storage,
            limits,
            session.clock,
            hold=session.hold_with(plan),
            should_stop=session.should_stop,
            effects=_effects(session, storage, run.applying(plan.plan_id, plan.sha256), dry_run=report.dry_run),
            sole_owner=sole_owner and plan.sole_owner,
        )
        cleaner.clean(rows, report)


def _effects(
    session: CleanerSession, storage: RemoteStorageManager, run: RunIdentity, *, dry_run: bool
) -> ScrubEffects:
    """Make what deletes: the only place where anything does that is not a dry run's."""
    from airflow_provider_rlmm.features.scrub.scrub_effects import DryRunScrubEffects, RealScrubEffects

    if dry_run:
        return DryRunScrubEffects()
    return RealScrubEffects(
        storage,
        require_writes=session.access.get_publisher(session.log).require_writes,
        audit=session.audit_log(run, SCRUB),
    )
