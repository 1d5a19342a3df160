# SPDX-License-Identifier: Apache-2.0
"""Auth managers for the pages: whom they let read and start what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.api_fastapi.core_api.security import get_user
from fastapi import FastAPI

from airflow_provider_rlmm.plugins import web


class Everybody:
    """Everybody may do everything."""

    def is_authorized_dag(self, **_: Any) -> bool:
        return True


class Nobody:
    """Nobody may do anything."""

    def is_authorized_dag(self, **_: Any) -> bool:
        return False


class Viewer:
    """Everybody may read, nobody may start anything."""

    def is_authorized_dag(self, *, method: str, **_: Any) -> bool:
        return method == "GET"


def only(*dag_ids: str) -> type:
    """Return an auth manager with rights to these DAGs alone, and to no others."""

    class Only:
        def is_authorized_dag(self, *, details: Any, **_: Any) -> bool:
            return details.id in dag_ids

    return Only


def reads_as_fab(*dag_ids: str) -> type:
    """
    Return an auth manager that judges as FAB's does, of a user who may read these DAGs, each by a permission of its own.

    Asked without an id, it says whether the user may read any single one; ``tests/stores/test_fab.py`` asks FAB itself.
    """
    permissions = {f"DAG:{dag_id}" for dag_id in dag_ids}

    class LikeFab:
        def is_authorized_dag(self, *, method: str, details: Any = None, **_: Any) -> bool:
            if method != "GET":
                return False
            if details is None or not details.id:
                return bool(permissions)
            return (details.id if details.id.startswith(("DAG:", "DAG Run:")) else f"DAG:{details.id}") in permissions

    return LikeFab


@cache
def pages() -> FastAPI:
    """
    Return the application of the pages, the same for all tests of a process.

    Making its routes takes longer than most tests do. Nothing of a request stays in it, and :func:`log_in` holds for one
    test.
    """
    return web.create_app()


@cache
def pages_without_a_login() -> FastAPI:
    """Return another application, as which nobody ever logs in."""
    return web.create_app()


def log_in(app: FastAPI, monkeypatch: pytest.MonkeyPatch, manager: Callable[[], Any], dags: Sequence[str] = ()) -> None:
    """
    Have somebody logged in, who may do what the auth manager says.

    There is no database to ask for a DAG's team, or for the DAGs that Airflow knows besides those of this package: ``dags``.
    """
    ada = SimpleNamespace(get_name=lambda: "Ada", get_id=lambda: "1")
    monkeypatch.setitem(app.dependency_overrides, get_user, lambda: ada)
    monkeypatch.setattr("airflow_provider_rlmm.plugins.rights.known_dags", lambda ids: {*ids} & {*dags})
    monkeypatch.setattr("airflow.api_fastapi.core_api.security.get_auth_manager", manager)
    monkeypatch.setattr("airflow.models.dag.DagModel.get_team_name", lambda *_, **__: None)


def without_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Have Airflow's database tell the pages of no run, task, schedule and variable, so that they need none.

    :param monkeypatch: undoes it.
    """
    monkeypatch.setattr("airflow_provider_rlmm.plugins.dag_runs._of", lambda _: [])
    monkeypatch.setattr("airflow_provider_rlmm.plugins.dag_runs._task_ids", lambda *_: [])
    monkeypatch.setattr("airflow_provider_rlmm.plugins.dag_runs._scheduled", lambda _: None)
    monkeypatch.setattr("airflow_provider_rlmm.plugins.switches._value_of", lambda _: None)
