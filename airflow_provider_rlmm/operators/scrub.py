# SPDX-License-Identifier: Apache-2.0
"""The scrub of remote storage, and the deletion of what it has found: the steps of the DAG ``remote_storage_scrub``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import Context

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import DAY_MS
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.plans.approval import ApprovalLimits
from airflow_provider_rlmm.core.plans.guards import BlastRadius, CleanerLimits, ScrubLimits
from airflow_provider_rlmm.core.plans.limits import MAX_COPY, MAX_SEGMENTS_THIS_RUN, NAMED_OVERRIDES
from airflow_provider_rlmm.core.runs import run_parameters
from airflow_provider_rlmm.core.runs.attention import Attention, Judgement, RunProblem
from airflow_provider_rlmm.core.world.only import ALL_TOPICS, Only
from airflow_provider_rlmm.links.artifacts import ScrubLink, ScrubPlanLink
from airflow_provider_rlmm.observability.lineage import Place, Touched
from airflow_provider_rlmm.operators import arguments as given
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.operators.decision import mode_of
from airflow_provider_rlmm.operators.failing import HOW_TO_ACKNOWLEDGE, failed_before, judged, say_green_dry_run
from airflow_provider_rlmm.operators.history import facts_of, keep_summary
from airflow_provider_rlmm.operators.housekeeping import tidy_up_after
from airflow_provider_rlmm.operators.session import price_of, run_identity, session_of
from airflow_provider_rlmm.operators.writing import WritingOperator
from airflow_provider_rlmm.settings import NO_PRICE, artifact_uri, work_uri

if TYPE_CHECKING:
    from airflow_provider_rlmm.features.scrub.scrub_plan import ScrubPlan

__all__ = [
    "DeleteScrubbedObjectsOperator",
    "PlanRemoteStorageScrubOperator",
    "RemoteStorageScrubOperator",
    "ReportRemoteStorageScrubOperator",
]


_TASK_FAILED: Final = RunProblem.TASK_FAILED.value


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScrubArguments:
    rlmm_conn_id: str = given.read_by(given.text, "rlmm_default")
    max_copy_ms: int = given.declared_as(MAX_COPY)
    price_per_gb_month: int | None = given.read_by(given.price_micros, None)
    fail_on_problems: bool = given.read_by(given.flag, True)
    overrides: frozenset[str] = given.declared_as(NAMED_OVERRIDES)
    confirm_lost_records: tuple[str, ...] = given.declared_as(run_parameters.CONFIRM_LOST_RECORDS)
    confirm_metadata_topic_id: UUID | None = given.declared_as(run_parameters.CONFIRM_METADATA_TOPIC_ID)


class RemoteStorageScrubOperator(CheckedOperator[_ScrubArguments]):
    """
    Compare what lies in remote storage with the metadata topic; nothing is written to either.

    The run's folder gets ``scrub.parquet``, one row per object that is not in use and per segment that lacks an object, and
    ``scrub.json``. The task fails, after these are written, as long as something needs a person and is not acknowledged
    (Airflow variable ``rlmm_acknowledgements``): missing objects, objects that no record names and that must stay, folders
    that could not be listed whole, objects of which nothing can be told.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param max_copy_ms: for how long a copy may be under way before it counts as never finished, ms.
    :param price_per_gb_month: what storing 2^30 bytes costs in a month, in any unit of money; ``None``: what the connection
        says, or ``[rlmm] price_per_gb_month``.
    :param fail_on_problems: fail the task for what needs a person.
    :param overrides: names out of :data:`~airflow_provider_rlmm.core.plans.limits.OVERRIDES`.
    :param confirm_lost_records: names of lost records that a person confirms, as the refusal names them, such as ``3@24``:
        the run goes on, and their metadata partitions are in doubt from then on.
    :param confirm_metadata_topic_id: id of the metadata topic, in Kafka's form, where it was deleted and made anew and a
        person confirms that; ``None`` confirms none.
    :return: per class the number of ``objects`` and their ``bytes``, and the ``scrub``'s folder.
    :raises AirflowFailException: naming how many things need a person, and the first of them.
    :raises StorageRootError: if the storage root is not this cluster's, or not up to date.
    :raises EventLogError: if the topic cannot be read whole.
    """

    template_fields: Sequence[str] = (
        "rlmm_conn_id", "max_copy_ms", "price_per_gb_month", "fail_on_problems", "overrides", "confirm_lost_records",
        "confirm_metadata_topic_id",
    )  # fmt: skip
    arguments = _ScrubArguments
    operator_extra_links = (ScrubLink(),)
    ui_color = "#d5e8d4"
    touched = Touched(reads=(Place.TOPIC, Place.STORAGE))

    def __init__(
        self,
        *,
        rlmm_conn_id: str = "rlmm_default",
        max_copy_ms: int | str = MAX_COPY.default,
        price_per_gb_month: float | str | None = None,
        fail_on_problems: bool | str = True,
        overrides: Sequence[str] | None = None,
        confirm_lost_records: Sequence[str] | None = None,
        confirm_metadata_topic_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.rlmm_conn_id = rlmm_conn_id
        self.max_copy_ms = max_copy_ms
        self.price_per_gb_month = price_per_gb_month
        self.fail_on_problems = fail_on_problems
        self.overrides = overrides
        self.confirm_lost_records = confirm_lost_records
        self.confirm_metadata_topic_id = confirm_metadata_topic_id
        self.check_literals()

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_rlmm.features.scrub.scrub_files import open_scrub, problems_of
        from airflow_provider_rlmm.features.scrub.steps import scrub

        read, name = self.read_arguments(), given.artifact_name(context)
        limits = CleanerLimits(overrides=read.overrides)
        with session_of(
            context,
            read.rlmm_conn_id,
            limits,
            dry_run=True,
            confirm=read.confirm_lost_records,
            confirm_topic_id=read.confirm_metadata_topic_id,
        ) as session:
            summary = scrub(
                session,
                artifact_uri,
                name,
                limits=limits,
                max_copy_ms=read.max_copy_ms,
                price=price_of(session, read.price_per_gb_month),
            )
        ScrubLink.persist(context, name)
        uri = artifact_uri(name)
        counts = {kind: {"objects": amount.objects, "bytes": amount.bytes} for kind, amount in summary.classes.items()}
        self.log.info("scrub %s: %s", name, counts)
        self.log.info("%s", f"costs are {summary.price.in_words}" if summary.price else NO_PRICE)
        with open_scrub(uri) as (_, rows):
            judgement = judged(self.log, problems_of(summary, rows), summary.cluster_id)
        if read.fail_on_problems:
            _fail_on(judgement, uri)
        return self.told({**counts, "scrub": uri})


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlanArguments:
    rlmm_conn_id: str = given.read_by(given.text, "rlmm_default")
    limits: ScrubLimits = given.read_by(given.scrub_limits, ScrubLimits())
    blast_radius: BlastRadius = given.read_by(given.blast_radius, BlastRadius())
    hold: tuple[str, ...] = given.declared_as(run_parameters.HOLD)
    only: tuple[str, ...] = given.declared_as(run_parameters.ONLY)
    max_segments_this_run: int | None = given.declared_as(MAX_SEGMENTS_THIS_RUN)
    dry_run_only: bool | None = given.read_by(given.flag_or_unsaid, None)
    confirm_lost_records: tuple[str, ...] = given.declared_as(run_parameters.CONFIRM_LOST_RECORDS)
    confirm_metadata_topic_id: UUID | None = given.declared_as(run_parameters.CONFIRM_METADATA_TOPIC_ID)
    expires_in_ms: int = given.read_by(given.expiry, DAY_MS, templated=False)


class PlanRemoteStorageScrubOperator(CheckedOperator[_PlanArguments]):
    """
    Write down which of the objects that the scrub of this run has found may go: those of finished segments, and those that no
    record has named for long enough, of topics that are absent by the full rule.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param limits: fields of :class:`~airflow_provider_rlmm.core.plans.guards.ScrubLimits`.
    :param blast_radius: fields of :class:`~airflow_provider_rlmm.core.plans.guards.BlastRadius`.
    :param hold: topics that are not to be touched: names, patterns, ids; those of the connection count besides.
    :param only: topics whose objects are planned: names, patterns, ids; ``["*"]`` is all of them. What is looked at before
        anything is refused, limits and shares are those of the whole cluster all the same.
    :param max_segments_this_run: plan the objects of no more segments than these, ``None`` for all: a canary.
    :param dry_run_only: whether the run is a dry run, for the tasks that come after; a plan changes nothing. ``None``: what
        the tasks that write and come after this one say.
    :param confirm_lost_records: names of lost records that a person confirms, as the refusal names them, such as ``3@24``:
        the run goes on, and their metadata partitions are in doubt from then on.
    :param confirm_metadata_topic_id: id of the metadata topic, in Kafka's form, where it was deleted and made anew and a
        person confirms that; ``None`` confirms none.
    :param expires_in_ms: for how long the plan may be applied, ms; at most 30 days.
    :return: ``objects``, ``segments`` and ``bytes`` that are planned, ``waiting``, ``barred``, ``held``, ``elsewhere`` and
        ``left_for_later`` objects.
    :raises PlanError: if this run has no scrub, or one of another cluster.
    :raises BlastRadiusError: if the plan is larger than allowed; it is written all the same, to be looked at.
    """

    template_fields: Sequence[str] = (
        "rlmm_conn_id", "limits", "blast_radius", "hold", "only", "max_segments_this_run", "dry_run_only",
        "confirm_lost_records", "confirm_metadata_topic_id",
    )  # fmt: skip
    arguments = _PlanArguments
    operator_extra_links = (ScrubLink(), ScrubPlanLink())
    ui_color = "#cfe3f7"

    def __init__(
        self,
        *,
        rlmm_conn_id: str = "rlmm_default",
        limits: Mapping[str, Any] | None = None,
        blast_radius: Mapping[str, Any] | None = None,
        hold: Sequence[str] | None = None,
        only: Sequence[str] = ALL_TOPICS.entries,
        max_segments_this_run: int | str | None = None,
        dry_run_only: bool | str | None = None,
        confirm_lost_records: Sequence[str] | None = None,
        confirm_metadata_topic_id: str | None = None,
        expires_in_ms: int = DAY_MS,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.rlmm_conn_id = rlmm_conn_id
        self.limits = limits
        self.blast_radius = blast_radius
        self.hold = hold
        self.only = only
        self.max_segments_this_run = max_segments_this_run
        self.dry_run_only = dry_run_only
        self.confirm_lost_records = confirm_lost_records
        self.confirm_metadata_topic_id = confirm_metadata_topic_id
        self.expires_in_ms = expires_in_ms
        self.check_literals()

    def execute(self, context: Context) -> dict[str, int]:
        from airflow_provider_rlmm.features.scrub.steps import plan

        read, name = self.read_arguments(), given.artifact_name(context)
        limits, dry_run = read.limits, mode_of(self, context, read.rlmm_conn_id, read.dry_run_only).dry_run
        narrowed = Only(read.only)
        opened = session_of(
            context,
            read.rlmm_conn_id,
            limits.of_the_cleaner,
            dry_run=dry_run,
            hold=read.hold,
            only=narrowed,
            confirm=read.confirm_lost_records,
            confirm_topic_id=read.confirm_metadata_topic_id,
        )
        with opened as session:
            made = plan(
                session,
                artifact_uri(name),
                limits=limits,
                blast_radius=read.blast_radius,
                max_segments=read.max_segments_this_run,
                expires_in_ms=read.expires_in_ms,
                dry_run=dry_run,
            )
        ScrubLink.persist(context, name)
        ScrubPlanLink.persist(context, name)
        self.log.info("plan %s: %s", name, made.cost_in_words or NO_PRICE)
        made.check_blast_radius()
        others = {
            what: getattr(made, what).objects for what in ("waiting", "barred", "held", "elsewhere", "left_for_later")
        }
        counts = {"objects": made.file.rows, "segments": made.planned.segments, "bytes": made.planned.bytes, **others}
        self.log.info("plan %s: %s", name, counts)
        return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeleteArguments:
    rlmm_conn_id: str = given.read_by(given.text, "rlmm_default")
    limits: ScrubLimits = given.read_by(given.scrub_limits, ScrubLimits())
    hold: tuple[str, ...] = given.declared_as(run_parameters.HOLD)
    dry_run_only: bool | None = given.read_by(given.flag_or_unsaid, None)
    approve_above: ApprovalLimits | None = given.read_by(given.approval_limits, None)
    confirm_lost_records: tuple[str, ...] = given.declared_as(run_parameters.CONFIRM_LOST_RECORDS)
    confirm_metadata_topic_id: UUID | None = given.declared_as(run_parameters.CONFIRM_METADATA_TOPIC_ID)


class DeleteScrubbedObjectsOperator(WritingOperator[_DeleteArguments]):
    """
    Delete what the plan of this run names, as far as storage and log still say the same of it; no event is written.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param limits: fields of :class:`~airflow_provider_rlmm.core.plans.guards.ScrubLimits`.
    :param hold: topics that are not to be touched, besides those of the connection and of the plan.
    :param dry_run_only: say what would be deleted, do nothing; ``False``: delete. One of the two must be said.
    :param approve_above: fields of :class:`~airflow_provider_rlmm.core.plans.approval.ApprovalLimits`: a larger plan is
        applied for real only if a person has approved exactly it, as
        :class:`~airflow_provider_rlmm.operators.approval.ApproveRemoteStorageScrubOperator` asks; ``None``: no plan needs
        that.
    :param confirm_lost_records: names of lost records that a person confirms, as the refusal names them, such as ``3@24``:
        the run goes on, and their metadata partitions are in doubt from then on.
    :param confirm_metadata_topic_id: id of the metadata topic, in Kafka's form, where it was deleted and made anew and a
        person confirms that; ``None`` confirms none.
    :return: per class the ``objects`` and ``bytes`` that were deleted, ``gone_before``, ``held``, ``left`` objects, of these
        ``barred`` ones, and ``dry_run``.
    :raises NotApprovedError: if the plan needs an approval that it does not have.
    :raises PlanError: if the plan is not as it was written, has expired or was made for another cluster or log.
    :raises BlastRadiusError: if the plan is larger than the limit that it was judged by.
    :raises StorageRootError: if the storage root is not this cluster's, or not up to date.
    :raises RlmmError: if the rules forbid to go on; what was done stays done.
    """

    template_fields: Sequence[str] = (
        "rlmm_conn_id", "limits", "hold", "dry_run_only", "approve_above", "confirm_lost_records",
        "confirm_metadata_topic_id",
    )  # fmt: skip
    arguments = _DeleteArguments
    operator_extra_links = (ScrubLink(), ScrubPlanLink())
    ui_color = "#f2b8b5"
    touched = Touched(reads=(Place.TOPIC, Place.STORAGE), writes=(Place.STORAGE,))

    def __init__(
        self,
        *,
        rlmm_conn_id: str = "rlmm_default",
        limits: Mapping[str, Any] | None = None,
        hold: Sequence[str] | None = None,
        dry_run_only: bool | str | None = None,
        approve_above: Mapping[str, Any] | None = None,
        confirm_lost_records: Sequence[str] | None = None,
        confirm_metadata_topic_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.rlmm_conn_id = rlmm_conn_id
        self.limits = limits
        self.hold = hold
        self.dry_run_only = dry_run_only
        self.approve_above = approve_above
        self.confirm_lost_records = confirm_lost_records
        self.confirm_metadata_topic_id = confirm_metadata_topic_id
        self.check_literals()

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_rlmm.features.scrub.steps import delete

        read, name = self.read_arguments(), given.artifact_name(context)
        limits, plan = read.limits, _plan_if_any(artifact_uri(name))
        dry_run = mode_of(self, context, read.rlmm_conn_id, read.dry_run_only, plan=plan).dry_run
        ScrubLink.persist(context, name)
        ScrubPlanLink.persist(context, name)
        opened = session_of(
            context,
            read.rlmm_conn_id,
            limits.of_the_cleaner,
            dry_run=dry_run,
            hold=read.hold,
            confirm=read.confirm_lost_records,
            confirm_topic_id=read.confirm_metadata_topic_id,
        )
        run, above = run_identity(context), read.approve_above
        done = delete(opened, artifact_uri(name), limits=limits, dry_run=dry_run, run=run, approve_above=above)
        return self.told(done.counts())


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReportArguments:
    rlmm_conn_id: str = given.read_by(given.text, "rlmm_default")


class ReportRemoteStorageScrubOperator(CheckedOperator[_ReportArguments]):
    """
    Say what of a run needs a person, and fail for it: what the scrub has found, and what could not be deleted.

    It is to run even where the tasks before it failed (``trigger_rule="all_done"``).

    :param rlmm_conn_id: connection of type ``rlmm``, for the run's summary.
    :return: what was deleted, or would be.
    :raises PlanError: if the run has no scrub.
    :raises AirflowFailException: naming how many things need a person and are not acknowledged, and the first of them;
        also if the run's summary cannot be kept.
    """

    template_fields: Sequence[str] = ("rlmm_conn_id",)
    arguments = _ReportArguments
    operator_extra_links = (ScrubLink(), ScrubPlanLink())
    ui_color = "#c8e6c9"
    touched = Touched()

    def __init__(self, *, rlmm_conn_id: str = "rlmm_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rlmm_conn_id = rlmm_conn_id
        self.check_literals()

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_rlmm.features.scrub.scrub_cleaner import deletion_of
        from airflow_provider_rlmm.features.scrub.scrub_files import open_scrub, problems_of
        from airflow_provider_rlmm.features.scrub.steps import rejection_of
        from airflow_provider_rlmm.overview.history import summary_of_scrub

        read, name = self.read_arguments(), given.artifact_name(context)
        uri = artifact_uri(name)
        with open_scrub(uri) as (summary, rows):
            found = problems_of(summary, rows)
        ScrubLink.persist(context, name)
        ScrubPlanLink.persist(context, name)
        plan = _plan_if_any(uri)
        is_real = plan is not None and plan.dry_run is False
        deletion = deletion_of(uri, dry_run=not is_real)
        found += deletion.problems()
        rejected = rejection_of(uri)
        if rejected is not None:
            found.append(rejected)
        elif failed := failed_before(self, context):
            why, todo = f"{number_of(failed, 'task')} before this one failed", "look at their logs, then run again"
            found.append(Attention(_TASK_FAILED, "the run", why, todo, acknowledgeable=False))
        elif plan is not None and is_real and plan.file.rows and deletion.plan_sha256 != plan.sha256:
            # No task failed, and what was planned is still there.
            why = f"{number_of(plan.file.rows, 'object')} planned and not deleted: the task was skipped, or marked by hand"
            todo = "clear the task that deletes, or scrub again"
            found.append(Attention(_TASK_FAILED, "the deletion", why, todo, acknowledgeable=False))
        judgement = judged(self.log, found, summary.cluster_id)
        if deletion.dry_run and not judgement.failing:
            amounts = deletion.deleted.values()
            count, size = sum(amount.objects for amount in amounts), sum(amount.bytes for amount in amounts)
            say_green_dry_run(count, "objects", size)
        facts = facts_of(context, read.rlmm_conn_id)
        unkept = keep_summary(lambda: summary_of_scrub(work_uri(), facts, summary, deletion, judgement))
        tidy_up_after(name, summary.cluster_id, summary.began_at_ms)
        _fail_on(judgement, uri, unkept)
        return deletion.counts()


def _plan_if_any(uri: str) -> ScrubPlan | None:
    """Return the plan of a run; the deletion itself says what is wrong where there is none that can be read."""
    from airflow_provider_rlmm.features.scrub.scrub_planner import read_scrub_plan

    try:
        return read_scrub_plan(uri)
    except PlanError:
        return None


def _fail_on(judgement: Judgement, uri: str, unkept: str = "") -> None:
    if judgement.failing:
        said = f"{judgement.headline()} The scrub is {uri}. {HOW_TO_ACKNOWLEDGE}"
        raise AirflowFailException(f"{said} {unkept}".rstrip())
    if unkept:
        raise AirflowFailException(unkept)
