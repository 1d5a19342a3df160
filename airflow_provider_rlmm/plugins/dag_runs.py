# SPDX-License-Identifier: Apache-2.0
"""
What Airflow's own database says of DAGs and their runs: which there are, which are under way, when the next comes.

It is read only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from airflow_provider_rlmm.connection_ids import of_connection
from airflow_provider_rlmm.plugins.dag_ids import DAGS, possible_dags
from airflow_provider_rlmm.settings import artifact_name_of, groups_around, may_be_of_run

logger = logging.getLogger(__name__)

_UNDER_WAY: Final = ("queued", "running")
_MAX_RUNS: Final = 50


@dataclass(frozen=True, slots=True)
class DagRunUnderWay:
    """
    A run that has not ended.

    :param dag_id: its DAG.
    :param run_id: its id.
    :param artifact: name of its folder below the work folder.
    :param state: ``queued`` or ``running``.
    :param group_id: of the group of its tasks whose folder that is, ``None`` for the folder of those in none.
    """

    dag_id: str
    run_id: str
    artifact: str
    state: str
    group_id: str | None = None


def under_way(connection: str) -> list[DagRunUnderWay]:
    """Return the runs of the DAGs of a connection that have not ended, the newest first."""
    return _of([of_connection(dag, connection) for dag in DAGS])


def run_under_way(artifact: str) -> DagRunUnderWay | None:
    """
    Return a run that has not ended, by its state in Airflow; ``None`` if it has, or there is none.

    :param artifact: name of its folder below the work folder.
    """
    for run in _of(sorted(possible_dags(artifact))):
        if run.artifact == artifact:
            return run
        if may_be_of_run(artifact, run.dag_id, run.run_id):
            for group in groups_of(run.dag_id, run.run_id):
                if artifact_name_of(run.dag_id, run.run_id, group) == artifact:
                    return replace(run, artifact=artifact, group_id=group)
    return None


def groups_of(dag_id: str, run_id: str) -> list[str]:
    """
    Return the ids of the groups that tasks of a run are in.

    :param dag_id: of its DAG.
    :param run_id: of the run.
    """
    return sorted({group for task_id in _task_ids(dag_id, run_id) for group in groups_around(task_id)})


def conf_of(dag_id: str, run_id: str) -> dict[str, Any]:
    """Return the parameters that a run was started with; none where it was started without, or Airflow has forgotten it."""
    return _conf(dag_id, run_id)


def _conf(dag_id: str, run_id: str) -> dict[str, Any]:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.scalar(select(DagRun.conf).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
    return dict(found) if isinstance(found, dict) else {}


def _task_ids(dag_id: str, run_id: str) -> list[str]:
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    wanted = select(TaskInstance.task_id).where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id)
    with create_session() as session:
        return list(session.scalars(wanted.distinct()))


def known_dags(dag_ids: Collection[str]) -> set[str]:
    """Return which of these DAGs Airflow knows."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        return set(session.scalars(select(DagModel.dag_id).where(DagModel.dag_id.in_(dag_ids))))


def _of(dag_ids: list[str]) -> list[DagRunUnderWay]:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    found = (
        select(DagRun.dag_id, DagRun.run_id, DagRun.state)
        .where(DagRun.dag_id.in_(dag_ids), DagRun.state.in_(_UNDER_WAY))
        .order_by(DagRun.id.desc())
        .limit(_MAX_RUNS)
    )
    with create_session() as session:
        rows = [(row.dag_id, row.run_id, str(row.state)) for row in session.execute(found)]
    return [DagRunUnderWay(dag, run, artifact_name_of(dag, run), state) for dag, run, state in rows]


@dataclass(frozen=True, slots=True)
class Scheduled:
    """
    When the next run of a DAG comes.

    :param is_paused: whether none comes before a person unpauses it.
    :param next_run: when it comes, ``None`` where the schedule names no time.
    :param interval: of the data of that run, as Airflow has it.
    :param following: returns the run after the one of a data interval, as Airflow's timetables tell it; ``None`` for none.
    """

    is_paused: bool
    next_run: datetime | None = None
    interval: Any = None
    following: Callable[[Any], Any] = lambda _: None


def schedule_of(dag_id: str) -> Scheduled | None:
    """Return when the next run of a DAG comes, ``None`` where Airflow does not know the DAG."""
    return _scheduled(dag_id)


def _scheduled(dag_id: str) -> Scheduled | None:
    from airflow.models.dag import DagModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.timetables.base import TimeRestriction
    from airflow.utils.session import create_session

    with create_session() as session:
        model = session.get(DagModel, dag_id)
        if model is None:
            return None
        paused, at, interval = bool(model.is_paused), model.next_dagrun_create_after, model.next_dagrun_data_interval
        if paused or at is None:
            return Scheduled(paused)
        try:
            timetable = SerializedDagModel.get_dag(dag_id, session=session).timetable  # type: ignore[union-attr]
        except Exception:  # a timetable may be foreign code, and a page tells of more than of it
            logger.warning("the schedule of %s cannot be read: when its runs come is not told", dag_id, exc_info=True)
            return Scheduled(paused, at, interval)
    restriction = TimeRestriction(earliest=None, latest=None, catchup=True)
    return Scheduled(
        paused, at, interval,
        lambda last: timetable.next_dagrun_info(last_automated_data_interval=last, restriction=restriction),
    )  # fmt: skip
