# SPDX-License-Identifier: Apache-2.0
"""The first task of the cleaner: everything that can be known to be wrong is found before the first event is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from airflow.sdk import Context

from airflow_provider_rlmm.core.plans.guards import BlastRadius, CleanerLimits
from airflow_provider_rlmm.core.plans.limits import MAX_SEGMENTS_THIS_RUN
from airflow_provider_rlmm.core.runs import run_parameters
from airflow_provider_rlmm.core.world.only import ALL_TOPICS, Only
from airflow_provider_rlmm.observability.lineage import Place, Touched
from airflow_provider_rlmm.operators import arguments as given
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.operators.decision import decide
from airflow_provider_rlmm.operators.session import session_of
from airflow_provider_rlmm.settings import artifact_uri

__all__ = ["CheckRemoteLogCleanupOperator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CheckArguments:
    rlmm_conn_id: str = given.read_by(given.text, "rlmm_default")
    limits: CleanerLimits = given.read_by(given.cleaner_limits, CleanerLimits())
    blast_radius: BlastRadius = given.read_by(given.blast_radius, BlastRadius())
    hold: tuple[str, ...] = given.declared_as(run_parameters.HOLD)
    only: tuple[str, ...] = given.declared_as(run_parameters.ONLY)
    max_segments_this_run: int | None = given.declared_as(MAX_SEGMENTS_THIS_RUN)
    dry_run_only: bool | None = given.read_by(given.flag_or_unsaid, None)
    source_plan: str | None = given.declared_as(run_parameters.SOURCE_PLAN)
    archive_first: bool = given.read_by(given.flag, False)
    scheduled_by_connection: bool = given.read_by(given.flag, False, templated=False)
    confirm_lost_records: tuple[str, ...] = given.declared_as(run_parameters.CONFIRM_LOST_RECORDS)
    confirm_metadata_topic_id: UUID | None = given.declared_as(run_parameters.CONFIRM_METADATA_TOPIC_ID)


class CheckRemoteLogCleanupOperator(CheckedOperator[_CheckArguments]):
    """
    Check parameters, overrides, limits, layout, cluster, permissions, clock, storage root and work folder. No event
    is written and nothing is deleted.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param limits: fields of :class:`~airflow_provider_rlmm.core.plans.guards.CleanerLimits`.
    :param blast_radius: fields of :class:`~airflow_provider_rlmm.core.plans.guards.BlastRadius`.
    :param hold: topics that are not to be touched: names, patterns, ids.
    :param only: topics that the run is for; ``["*"]`` is all of them.
    :param max_segments_this_run: the most segments that this run may take.
    :param dry_run_only: whether nothing will be written; ``None``: what the tasks that write and come after this one say, and
        without any as strict as for a real run.
    :param source_plan: name or URI of the plan that the run takes its work from, ``None`` or empty for none.
    :param archive_first: whether the run archives what it deletes.
    :param scheduled_by_connection: whether a run that the schedule or an asset has started goes by the connection's field
        ``scheduled_runs``, and by the plan whose asset has started it, over the two arguments before.
    :param confirm_lost_records: names of lost records that a person confirms, as the refusal names them, such as ``3@24``:
        the run goes on, and their metadata partitions are in doubt from then on.
    :param confirm_metadata_topic_id: id of the metadata topic, in Kafka's form, where it was deleted and made anew and a
        person confirms that; ``None`` confirms none.
    :return: what was verified, one sentence each: ``switch``, ``cluster``, ``clock``, ``layout``, ``topic``, ``unseen`` (of
        which topics it cannot be told whether they are gone: the report of the run is red for these), ``run``, ``root``,
        ``deletion``, ``archive``, ``writes``, ``work``; the run's folder keeps it as ``check.json``, with the decision that
        tasks ask for whose ``dry_run_only`` is :data:`~airflow_provider_rlmm.operators.decision.AS_CHECKED`.
    :raises PlanError: if the plan cannot be read, has expired or is of another cluster.
    :raises StoppedError: if the kill switch is on, or frozen by an environment variable, and the run is for real.
    :raises ConfigurationError: naming the field, if the brokers' storage plugin has another layout, or if some tasks of the
        run are a dry run and some are not.
    :raises EventLogAccessError: naming the right that is missing.
    :raises ClockSkewError: if the storage of the work folder has another time.
    :raises OSError: if the work folder cannot be written now.
    :raises StorageRootError: if the storage root is not this cluster's, or not up to date.
    :raises RlmmError: for anything else that would stop the run later.
    """

    template_fields: Sequence[str] = (
        "rlmm_conn_id", "limits", "blast_radius", "hold", "only", "max_segments_this_run", "dry_run_only",
        "source_plan", "archive_first", "confirm_lost_records",
        "confirm_metadata_topic_id",
    )  # fmt: skip
    arguments = _CheckArguments
    ui_color = "#d9d2e9"
    touched = Touched(reads=(Place.TOPIC, Place.STORAGE))

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
        source_plan: str | None = None,
        archive_first: bool | str = False,
        scheduled_by_connection: bool = False,
        confirm_lost_records: Sequence[str] | None = None,
        confirm_metadata_topic_id: str | None = None,
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
        self.source_plan = source_plan
        self.archive_first = archive_first
        self.scheduled_by_connection = scheduled_by_connection
        self.confirm_lost_records = confirm_lost_records
        self.confirm_metadata_topic_id = confirm_metadata_topic_id
        self.check_literals()

    def execute(self, context: Context) -> dict[str, str]:
        from airflow_provider_rlmm.features.cleanup.checking import check
        from airflow_provider_rlmm.features.cleanup.deciding import forget_decision

        read, uri = self.read_arguments(), artifact_uri(given.artifact_name(context))
        forget_decision(uri)
        decision = decide(
            self,
            context,
            read.rlmm_conn_id,
            dry_run=read.dry_run_only,
            source_plan=read.source_plan,
            by_connection=read.scheduled_by_connection,
        )
        plan, limits, dry_run = given.plan_folder(decision.source_plan), read.limits, decision.dry_run
        with session_of(
            context,
            read.rlmm_conn_id,
            limits,
            dry_run=dry_run,
            hold=read.hold,
            only=Only(read.only),
            confirm=read.confirm_lost_records,
            confirm_topic_id=read.confirm_metadata_topic_id,
        ) as session:
            verified = check(
                session,
                uri,
                limits=limits,
                dry_run=dry_run,
                decision=decision,
                source_plan=plan,
                archive_first=read.archive_first,
            )
        for subject, sentence in verified.items():
            self.log.info("%s: %s", subject, sentence)
        return verified
