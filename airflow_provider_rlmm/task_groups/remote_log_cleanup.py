# SPDX-License-Identifier: Apache-2.0
"""The cleaner as a group of tasks, beside other tasks of a DAG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Asset

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.world.only import ALL_TOPICS
from airflow_provider_rlmm.dag_factory.cleaner import cleanup_tasks
from airflow_provider_rlmm.notifications.configured import of_tasks
from airflow_provider_rlmm.run_groups import RunGroup

__all__ = ["RemoteLogCleanupTaskGroup"]


class RemoteLogCleanupTaskGroup(RunGroup):
    """
    The tasks of the DAG ``remote_log_cleaner`` as a group: check, mark, plan, approve, archive, clean, survey, report.

    It is a run of its own: its plan, its report and what else it leaves lie in a folder that carries the id of the group, so
    that several groups of a DAG, such as one for each cluster, have nothing in common. The DAG should have
    ``max_active_runs=1``: two runs at once lose nothing, and do the same work twice.

    :param group_id: of the group; the ids of its tasks begin with it.
    :param rlmm_conn_id: connection of type ``rlmm``.
    :param only: topics that the run is for: names, patterns, ids; ``["*"]`` is all of them.
    :param dry_run_only: say what would be written and deleted, do nothing; on by default. ``False``, or a template that
        renders to it, does it.
    :param limits: fields of :class:`~airflow_provider_rlmm.core.plans.guards.CleanerLimits`.
    :param blast_radius: fields of :class:`~airflow_provider_rlmm.core.plans.guards.BlastRadius`.
    :param hold: topics that are not to be touched: names, patterns, ids; those of the connection count besides.
    :param max_segments_this_run: plan no more segments than these, ``None`` for all: a canary.
    :param archive_first: copy every planned segment to ``archive_uri`` of the connection, and delete only what compares.
    :param approve_above: fields of :class:`~airflow_provider_rlmm.core.plans.approval.ApprovalLimits`: a person is asked
        about a larger plan before a real run deletes; ``None``: the defaults.
    :param answer_within: for how long an answer is waited for, ms or in words such as ``18 h``.
    :param tasks_at_once: how many metadata partitions are cleaned at once.
    :param outlets: assets of which a real run that succeeds emits an event, with its counts.
    :param default_args: arguments of all tasks, such as ``pool``.
    :param kwargs: what Airflow's ``TaskGroup`` takes, such as ``tooltip``.
    :raises ConfigurationError: if ``dry_run_only`` is ``None``, or naming an argument that is wrong.
    """

    def __init__(
        self,
        group_id: str = "remote_log_cleanup",
        rlmm_conn_id: str = "rlmm_default",
        only: Sequence[str] = ALL_TOPICS.entries,
        *,
        dry_run_only: bool | str = True,
        limits: Mapping[str, Any] | None = None,
        blast_radius: Mapping[str, Any] | None = None,
        hold: Sequence[str] | None = None,
        max_segments_this_run: int | str | None = None,
        archive_first: bool | str = False,
        approve_above: Mapping[str, Any] | None = None,
        answer_within: int | str = "18 h",
        tasks_at_once: int = 4,
        outlets: Sequence[Asset] = (),
        default_args: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if dry_run_only is None:
            raise ConfigurationError(
                f"group {group_id}: dry_run_only=None says neither dry nor real: leave it out for a dry run, or write "
                "dry_run_only=False to delete"
            )
        kwargs["default_args"] = {**of_tasks(), **(default_args or {})}
        super().__init__(group_id=group_id, **kwargs)
        with self:
            cleanup_tasks(
                rlmm_conn_id=rlmm_conn_id,
                dry_run_only=dry_run_only,
                limits=limits,
                blast_radius=blast_radius,
                hold=hold,
                only=only,
                max_segments_this_run=max_segments_this_run,
                archive_first=archive_first,
                # The cleaning looks for the answer itself: what becomes of the task that asks approves nothing.
                approve_above=approve_above or {},
                answer_within=answer_within,
                tasks_at_once=tasks_at_once,
                outlets=outlets,
            )
