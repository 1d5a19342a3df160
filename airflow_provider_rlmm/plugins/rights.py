# SPDX-License-Identifier: Apache-2.0
"""
Who may see a page, and who gets its buttons: Airflow's auth manager says so, DAG by DAG.

A cluster's pages are for those who may read one of the DAGs of its connection, its buttons for those who may trigger its
cleaner. A document that belongs to none of these DAGs is for those who may read DAGs whatever they are called.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import Depends, HTTPException, Request

from airflow_provider_rlmm.settings import connections, of_connection

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser

CLEANER: Final = "remote_log_cleaner"
RETENTION: Final = "remote_log_retention"
DAGS: Final = (CLEANER, RETENTION, "remote_storage_scrub", "remote_log_doctor")
"""What the DAGs of ``rlmm_default`` are called; those of other connections have its id behind that."""

_ANY: Final = "~"  # how Airflow's own routes spell it


class Rights:
    """
    What the user of a request may do.

    :param request: the request.
    :param user: who made it.
    """

    def __init__(self, request: Request, user: BaseUser) -> None:
        self._request = request
        self._user = user

    def may_read(self, dag_id: str | None) -> bool:
        """
        Tell whether the user may read a DAG.

        :param dag_id: the DAG; ``None`` for any whatever.
        """
        return self._may("GET", None, dag_id)

    def may_trigger(self, dag_id: str) -> bool:
        """
        Tell whether the user may start runs of a DAG.

        :param dag_id: the DAG.
        """
        return self._may("POST", DagAccessEntity.RUN, dag_id)

    def may_answer(self, dag_id: str) -> bool:
        """
        Tell whether the user may answer what a run of a DAG asks people.

        :param dag_id: the DAG.
        """
        return self._may("PUT", DagAccessEntity.HITL_DETAIL, dag_id)

    def may_see(self, connection: str) -> bool:
        """
        Tell whether the user may see the cluster of a connection.

        :param connection: its id; one that has no DAGs is for those who may read any.
        """
        if connection not in connections():
            return self.may_read(None)
        return any(self.may_read(of_connection(dag, connection)) for dag in DAGS)

    def may_see_document(self, artifact: str) -> bool:
        """
        Tell whether the user may see the documents of a run.

        :param artifact: name of its folder; it begins with the id of its DAG and a dot.
        """
        dag_id = artifact.partition(".")[0]
        return self.may_read(dag_id if dag_id in _known_dags() else None)

    def may_see_run(self, dag_id: str, artifact: str) -> bool:
        """
        Tell whether the user may see a run.

        :param dag_id: its DAG, as the user says.
        :param artifact: name of its folder, made from both ids: an odd one may lead to a folder of another DAG.
        """
        begins = artifact.partition(".")[0]
        return self.may_read(dag_id) and (begins == dag_id or begins not in _known_dags() or self.may_read(begins))

    def _may(self, method: ResourceMethod, entity: DagAccessEntity | None, dag_id: str | None) -> bool:
        request = self._asking(dag_id=_ANY if dag_id is None else dag_id)
        return _passes(lambda: requires_access_dag(method, entity)(request, self._user))

    def _asking(self, **path: str) -> Request:
        """Return the request as one about something else: what it is about stands in its path for all versions of Airflow."""
        return Request({**self._request.scope, "path_params": path, "query_string": b""})


def _known_dags() -> set[str]:
    return {of_connection(dag, connection) for connection in connections() for dag in DAGS}


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
    Return the rights of whoever makes a request; without a login the request is refused before.

    :param request: the request.
    :param user: who made it.
    """
    return Rights(request, user)


RightsDep = Annotated[Rights, Depends(rights_of)]


def require_reader(rights: RightsDep) -> None:
    """
    Refuse whoever may read none of the DAGs that this package has.

    :param rights: of the user.
    :raises HTTPException: 403.
    """
    if not (rights.may_read(None) or any(rights.may_see(connection) for connection in connections())):
        raise HTTPException(HTTPStatus.FORBIDDEN, "none of the DAGs of remote logs may be read")
