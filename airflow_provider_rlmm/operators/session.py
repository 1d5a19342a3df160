# SPDX-License-Identifier: Apache-2.0
"""The session of a task: its connection, its work folder and Airflow's time of its run."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING
from uuid import UUID

from airflow.sdk import Context

from airflow_provider_rlmm.core.log.floored_log import Confirmation
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.runs.cleaner_session import cleaner_session
from airflow_provider_rlmm.core.world.only import ALL_TOPICS, Only
from airflow_provider_rlmm.core.world.run_identity import RunIdentity
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.operators.arguments import artifact_name
from airflow_provider_rlmm.settings import price_per_gb_month, work_uri

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.plans.prices import StoragePrice
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession


def run_identity(context: Context) -> RunIdentity:
    """
    Return who runs a task, as its DAG run says.

    :param context: of the running task.
    """
    run = context["dag_run"]
    # A scheduled run names no user; its type says why it runs.
    by = getattr(run, "triggering_user_name", None) or getattr(run, "run_type", None) or "unknown"
    return RunIdentity(run.dag_id, run.run_id, artifact_name(context), str(getattr(by, "value", by)))


def price_of(session: CleanerSession, of_run: int | None = None) -> StoragePrice | None:
    """
    Return by which price storage is reckoned, ``None`` where none is set.

    :param session: of the run.
    :param of_run: what storing 2^30 bytes costs in a month by what this run was told, in millionths; it counts first.
    :raises ConfigurationError: if a price cannot be read.
    """
    return session.access.get_connection_settings().storage_price(of_run=of_run, otherwise=price_per_gb_month())


def session_of(
    context: Context,
    rlmm_conn_id: str,
    limits: CleanerLimits,
    *,
    dry_run: bool,
    must_know_floors: bool = False,
    hold: Iterable[str] = (),
    only: Only = ALL_TOPICS,
    confirm: tuple[str, ...] = (),
    confirm_topic_id: UUID | None = None,
) -> AbstractContextManager[CleanerSession]:
    """
    Open what a task of a run needs, see :func:`~airflow_provider_rlmm.core.runs.cleaner_session.cleaner_session`.

    :param context: of the running task.
    :param rlmm_conn_id: connection of type ``rlmm``.
    :param limits: with the overrides in force.
    :param dry_run: whether nothing will be written or deleted.
    :param must_know_floors: whether it ends where what earlier runs have read of the metadata topic is not known.
    :param hold: topics that this run must not touch, besides those that the connection names.
    :param only: topics that the run is for.
    :param confirm: names of lost records that a person has confirmed.
    :param confirm_topic_id: id of a metadata topic that was made anew, as a person has confirmed it.
    """
    return cleaner_session(
        RemoteLogMetadataHook(rlmm_conn_id),
        limits,
        work_uri=work_uri(),
        dry_run=dry_run,
        must_know_floors=must_know_floors,
        hold=hold,
        only=only,
        began=getattr(context["dag_run"], "start_date", None),
        confirmation=Confirmation(confirm, run_identity(context).triggered_by, confirm_topic_id),
    )
