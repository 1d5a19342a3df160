# SPDX-License-Identifier: Apache-2.0
"""Auth managers for the pages: whom they let read and start what."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.api_fastapi.core_api.security import get_user
from fastapi import FastAPI


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


def log_in(app: FastAPI, monkeypatch: pytest.MonkeyPatch, manager: type) -> None:
    """Have somebody logged in, who may do what the auth manager says; there is no database to ask for a DAG's team."""
    app.dependency_overrides[get_user] = lambda: object()
    monkeypatch.setattr("airflow.api_fastapi.core_api.security.get_auth_manager", manager)
    monkeypatch.setattr("airflow.models.dag.DagModel.get_team_name", lambda *_, **__: None)
