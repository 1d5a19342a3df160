# SPDX-License-Identifier: Apache-2.0
"""
Who may see a page, and who gets its buttons: Airflow's auth manager says so, DAG by DAG.

A cluster's pages are for those who may read one of the DAGs of its connection, its buttons for those who may trigger its
cleaner, a run and its documents for those who may read its DAG. What belongs to no DAG is for those who may read
every DAG.

The auth manager is never asked without the id of a DAG: that would be the right to a list of those that one may read, and
FAB gives it to everybody who may read a single one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import Depends, HTTPException, Request

from airflow_provider_rlmm.connection_ids import of_connection
from airflow_provider_rlmm.plugins.dag_ids import DAGS, our_dags, possible_dags
from airflow_provider_rlmm.plugins.dag_runs import known_dags
from airflow_provider_rlmm.plugins.heavy_answers import begin_heavy_answer
from airflow_provider_rlmm.settings import connections

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser

NO_DAG: Final = "remote log: of no DAG"
"""Asked in the place of what is no DAG's id. No DAG can have it, so it is only for those who may read all DAGs."""

_DAG_ID: Final = re.compile(r"[\w.-]{1,250}")  # what Airflow takes for one


class Rights:
    """
    What the user of a request may do.

    :param request: the request.
    :param user: who made it.
    """

    def __init__(self, request: Request, user: BaseUser) -> None:
        self._request = request
        self._user = user

    @property
    def user_name(self) -> str:
        """What Airflow calls the user."""
        return self._user.get_name()

    def begin_heavy_answer(self) -> None:
        """
        Count the answer to the request as a large one.

        :raises HTTPException: 429, if enough of them are under way.
        """
        begin_heavy_answer(self._request, self._user.get_id())

    def may_read(self, dag_id: str) -> bool:
        """
        Tell whether the user may read a DAG.

        :param dag_id: the DAG; for :data:`NO_DAG`, or what no DAG can be called, whether the user may read all DAGs.
        """
        return self._may("GET", None, dag_id)

    def may_trigger(self, dag_id: str) -> bool:
        """Tell whether the user may start runs of a DAG."""
        return self._may("POST", DagAccessEntity.RUN, dag_id)

    def may_answer(self, dag_id: str) -> bool:
        """Tell whether the user may answer what a run of a DAG asks people."""
        return self._may("PUT", DagAccessEntity.HITL_DETAIL, dag_id)

    def may_see_any(self) -> bool:
        """Tell whether the user may see the cluster of any connection."""
        return any(map(self.may_see, connections()))

    def may_see(self, connection: str) -> bool:
        """
        Tell whether the user may see the cluster of a connection.

        :param connection: its id; one that has no DAGs is for those who may read all.
        """
        if connection not in connections():
            return self.may_read(NO_DAG)
        return any(self.may_read(of_connection(dag, connection)) for dag in DAGS)

    def may_see_document(self, artifact: str) -> bool:
        """
        Tell whether the user may see the documents of a run.

        :param artifact: name of its folder. It begins with the id of its DAG and a dot, but either id may hold dots: where
            several DAGs may have written it, the user must be allowed to read all of these.
        """
        return all(map(self.may_read, self._dags_of(artifact)))

    def may_see_run(self, dag_id: str, artifact: str) -> bool:
        """
        Tell whether the user may see a run.

        :param dag_id: its DAG, as the user says: that only narrows.
        :param artifact: name of its folder, made from both ids: an odd one may lead to a folder of another DAG.
        """
        return self.may_read(dag_id) and self.may_see_document(artifact)

    def _dags_of(self, artifact: str) -> set[str]:
        possible = possible_dags(artifact)
        return possible & our_dags() | known_dags(possible) or {NO_DAG}

    def _may(self, method: ResourceMethod, entity: DagAccessEntity | None, dag_id: str) -> bool:
        # Without an id, and by one with a meaning of its own (Airflow's ~, FAB's DAG:…), another question would be asked.
        asked = self._asking(dag_id=dag_id if _DAG_ID.fullmatch(dag_id) else NO_DAG)
        return _passes(lambda: requires_access_dag(method, entity)(asked, self._user))

    def _asking(self, **path: str) -> Request:
        """Return the request as one about something else: what it is about stands in its path for all versions of Airflow."""
        return Request({**self._request.scope, "path_params": path, "query_string": b""})


def _passes(check: Callable[[], None]) -> bool:
    try:
        check()
    except HTTPException as e:
        if e.status_code != HTTPStatus.FORBIDDEN:
            raise
        return False
    return True


def rights_of(request: Request, user: GetUserDep) -> Rights:
    """
    Return the rights of the user who makes a request; without a login the request is refused before.

    :param request: the request.
    :param user: who made it.
    """
    return Rights(request, user)


RightsDep = Annotated[Rights, Depends(rights_of)]


def require_reader(rights: RightsDep) -> None:
    """
    Refuse a user who may read none of the DAGs that this package has.

    :raises HTTPException: 403.
    """
    if not rights.may_see_any():
        raise HTTPException(HTTPStatus.FORBIDDEN, "none of the DAGs of remote logs may be read")
