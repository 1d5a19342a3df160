# SPDX-License-Identifier: Apache-2.0
"""When something is deleted: the first run of the schedule that may do it, as far as Airflow and past runs tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from airflow_provider_rlmm.connection_ids import of_connection
from airflow_provider_rlmm.core.base.clock import duration_in_words
from airflow_provider_rlmm.features.survey.inventory import SurveyedState
from airflow_provider_rlmm.overview.run_summary import RunSummary
from airflow_provider_rlmm.overview.runs import runs
from airflow_provider_rlmm.plugins import dag_runs
from airflow_provider_rlmm.plugins.clusters import Cluster
from airflow_provider_rlmm.plugins.dag_ids import CLEANER
from airflow_provider_rlmm.plugins.rendering import moment
from airflow_provider_rlmm.settings import connections, work_uri

_LOOKED_AT: Final = 100
"""Among so many of the newest runs the last one is looked for that the schedule has started."""

_BY_ITSELF: Final = ("scheduled__", "asset_triggered__")
_STEPS: Final = 2_000
"""Runs of a schedule that are passed over on the way to a time, at most: an hourly one gets some 83 days far."""


@dataclass(frozen=True, slots=True)
class DeletionTimes:
    """
    When topics of a cluster are deleted.

    :param now_ms: ms since the epoch.
    :param run_after: returns the first run of the schedule at a time or later, ms since the epoch; ``None`` where none comes.
    :param why_not: why the schedule deletes nothing, in words; empty where it does.
    """

    now_ms: int
    run_after: Callable[[int], int | None]
    why_not: str

    def words(self, state: str, eligible_ms: int | None) -> str:
        """
        Say when something goes.

        :param state: of the topic or user partition: a
            :class:`~airflow_provider_rlmm.features.survey.inventory.SurveyedState`.
        :param eligible_ms: when it may be deleted, ms since the epoch; ``None`` where it does not wait.
        :return: empty where its state sets no time.
        """
        if state in (SurveyedState.ELIGIBLE, SurveyedState.DELETING):
            eligible_ms = self.now_ms
        elif state != SurveyedState.WAITING or eligible_ms is None:
            return ""
        if (run_ms := self._deleted_ms(eligible_ms)) is not None:
            return f"deleted {self._at(run_ms)} by the run of the schedule, if the topic stays absent"
        return f"{self._may(eligible_ms)}: {self.why_not or 'with the next real run'}"

    def short(self, eligible_ms: int) -> str:
        """
        Say when something that waits goes, where there is little room.

        :param eligible_ms: when it may be deleted, ms since the epoch.
        """
        run_ms = self._deleted_ms(eligible_ms)
        return self._may(eligible_ms) if run_ms is None else f"deleted {self._at(run_ms)}"

    def _deleted_ms(self, eligible_ms: int) -> int | None:
        return None if self.why_not else self.run_after(max(eligible_ms, self.now_ms))

    def _may(self, eligible_ms: int) -> str:
        return f"may go {self._at(eligible_ms)}" if eligible_ms > self.now_ms else "may go now"

    def _at(self, time_ms: int) -> str:
        return f"{moment(time_ms, self.now_ms)}, in {duration_in_words(max(0, time_ms - self.now_ms))}"


def deletion_times(cluster: Cluster, now_ms: int) -> DeletionTimes:
    """
    Return when topics of a cluster are deleted.

    :param cluster: the cluster.
    :param now_ms: ms since the epoch.
    """
    connection = cluster.connection
    if connection not in connections():
        return DeletionTimes(now_ms, _never, "no DAG of this Airflow cleans this cluster; a run of 'rlmm clean' does")
    dag_id = of_connection(CLEANER, connection)
    scheduled = dag_runs.schedule_of(dag_id)
    if scheduled is None or scheduled.is_paused:
        paused = "is not there" if scheduled is None else "is paused"
        return DeletionTimes(now_ms, _never, f"no run comes by itself, as the DAG {dag_id} {paused}")
    if scheduled.next_run is None:
        return DeletionTimes(
            now_ms, _never, f"no run comes at a time of its own, as the DAG {dag_id} has no such schedule"
        )
    last = _last_by_itself(cluster.folder, dag_id)
    if last is not None and last.dry_run:
        by_itself = "the runs of the schedule are dry (scheduled_runs of the connection): start a real run"
        return DeletionTimes(now_ms, _never, by_itself)
    if last is None:
        return DeletionTimes(
            now_ms, _never, "with the next real run: no run of the schedule has shown yet whether it deletes"
        )
    return DeletionTimes(now_ms, lambda time_ms: run_after(scheduled, time_ms), "")


def run_after(scheduled: dag_runs.Scheduled, time_ms: int) -> int | None:
    """
    Return the first run of a schedule at a time or later, ms since the epoch; ``None`` where none comes.

    :param scheduled: the schedule, and its next run.
    :param time_ms: ms since the epoch.
    """
    wanted, at, interval = datetime.fromtimestamp(time_ms / 1000, UTC), scheduled.next_run, scheduled.interval
    for _ in range(_STEPS):
        if at is None:
            return None
        if at >= wanted:
            return round(at.timestamp() * 1000)
        following: Any = scheduled.following(interval)
        if following is None or following.run_after <= at:
            return None
        at, interval = following.run_after, following.data_interval
    return None


def _never(_: int) -> None:
    return None


def _last_by_itself(folder: str, dag_id: str) -> RunSummary | None:
    """Return the last run of the cleaner that was not started by hand: what it was the next one is, too."""
    newest = runs(work_uri(), folder, rows=_LOOKED_AT).rows
    return next(
        (
            run
            for run in newest
            if isinstance(run, RunSummary) and run.dag_id == dag_id and run.run_id.startswith(_BY_ITSELF)
        ),
        None,
    )
