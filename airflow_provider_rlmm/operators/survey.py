# SPDX-License-Identifier: Apache-2.0
"""The operator that surveys: it writes down what there is, for the pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.sdk import Context

from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.base.work_folder import CHECK_DOCUMENT
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.plans.plan_files import read_document
from airflow_provider_rlmm.core.runs import run_parameters
from airflow_provider_rlmm.core.world.only import ALL_TOPICS, Only
from airflow_provider_rlmm.core.world.visibility import UNSEEN_ADVICE, UNSIZED_ADVICE
from airflow_provider_rlmm.observability.stats import send_survey_metrics
from airflow_provider_rlmm.operators import arguments as given
from airflow_provider_rlmm.operators.check import CheckRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.operators.decision import said_by_run
from airflow_provider_rlmm.operators.session import price_of, session_of
from airflow_provider_rlmm.settings import artifact_uri

__all__ = ["SurveyRemoteLogOperator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _SurveyArguments:
    rlmm_conn_id: str = given.read_by(given.text, "rlmm_default")
    limits: CleanerLimits = given.read_by(given.cleaner_limits, CleanerLimits())
    hold: tuple[str, ...] = given.declared_as(run_parameters.HOLD)
    only: tuple[str, ...] = given.declared_as(run_parameters.ONLY)
    dry_run_only: bool | None = given.read_by(given.flag_or_unsaid, None)


class SurveyRemoteLogOperator(CheckedOperator[_SurveyArguments]):
    """
    Judge every topic that has remote segments, living or gone, and write the inventory that the pages show.

    It changes nothing in the cluster and in storage, and nothing that deletes reads the inventory. It may run even where
    the tasks before it failed (``trigger_rule="all_done"``); where one of them checks the run, and has refused it, it is
    skipped.

    What it cannot judge it counts apart and says in its log; the run is red for it by its report.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param limits: fields of :class:`~airflow_provider_rlmm.core.plans.guards.CleanerLimits`: by these it is judged what
        waits.
    :param hold: topics that are not to be touched, besides those of the connection.
    :param only: topics that are surveyed: names, patterns, ids; unless that is ``["*"]``, all of them, the inventory stays in
        the folder of the run, and pages do not show it.
    :param dry_run_only: as the tasks before it were told: an unproven time is good enough for a dry run. ``None``: what
        ``check`` or the marker of the run has written down, and without any of them not dry.
    :return: ``topics``, ``orphaned_topics``, ``unseen_topics``, segments and bytes that are ``stored``, ``orphaned``,
        ``waiting``, ``eligible``, being deleted (``deleting``) and ``unseen``, of which it cannot be told whether they are
        orphaned, the ``inventory``'s folder, and ``unsized_segments``, of which the log tells no size.
    :raises RlmmError: if the cluster cannot be read.
    """

    template_fields: Sequence[str] = ("rlmm_conn_id", "limits", "hold", "only", "dry_run_only")
    arguments = _SurveyArguments
    ui_color = "#d9d2e9"

    def __init__(
        self,
        *,
        rlmm_conn_id: str = "rlmm_default",
        limits: Mapping[str, Any] | None = None,
        hold: Sequence[str] | None = None,
        only: Sequence[str] = ALL_TOPICS.entries,
        dry_run_only: bool | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.rlmm_conn_id = rlmm_conn_id
        self.limits = limits
        self.hold = hold
        self.only = only
        self.dry_run_only = dry_run_only
        self.check_literals()

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_rlmm.features.survey.steps import survey, survey_folder

        read, name = self.read_arguments(), given.artifact_name(context)
        self._skip_what_was_refused(artifact_uri(name))
        dry_run = read.dry_run_only
        if dry_run is None:
            dry_run = _dry_by_run(context)
        narrowed = Only(read.only)
        opened = session_of(context, read.rlmm_conn_id, read.limits, dry_run=dry_run, hold=read.hold, only=narrowed)
        with opened as session:
            inventory = survey(
                session, artifact_uri(name), name, read.rlmm_conn_id, limits=read.limits, price=price_of(session)
            )
            uri = f"{survey_folder(session, artifact_uri(name))}/{inventory.generation}"
        if narrowed.is_all:
            # The gauges are the cluster's: those of some topics would say 0 of all that was not looked at.
            send_survey_metrics(inventory)
        totals = inventory.totals
        counts = {
            f"{what}_{unit}": getattr(getattr(totals, what), unit)
            for what in ("stored", "orphaned", "waiting", "eligible", "deleting", "unseen")
            for unit in ("segments", "bytes")
        }
        counts |= {"topics": totals.topics, "orphaned_topics": totals.orphaned_topics}
        counts |= {"unseen_topics": totals.unseen_topics}
        counts |= {"unsized_segments": totals.unsized.segments if totals.unsized else 0}
        if why := totals.why_not_all_seen:
            self.log.warning("%s. %s", why, UNSEEN_ADVICE)
        if why := totals.why_not_all_sized:
            self.log.warning("%s. %s", why, UNSIZED_ADVICE)
        return self.told({**counts, "inventory": uri})

    def _skip_what_was_refused(self, uri: str) -> None:
        """Do not ask again a cluster that has just not answered, or was the wrong one: that would only delay the report."""
        if not any(isinstance(t, CheckRemoteLogCleanupOperator) for t in self.get_flat_relatives(upstream=True)):
            return
        try:
            read_document(uri, CHECK_DOCUMENT)
        except PlanError:
            raise AirflowSkipException(
                "the task that checks this run has left no document: it has refused the run, or died. Nothing is "
                "surveyed, see its log"
            ) from None


def _dry_by_run(context: Context) -> bool:
    try:
        return next(iter(said_by_run(context).values()), False)
    except PlanError:
        # A survey never waits for the sake of a document: it is as strict as for a real run then.
        return False
