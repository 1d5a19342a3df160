# SPDX-License-Identifier: Apache-2.0
"""
The Airflow plugin ``rlmm``.

Every task process imports this module, only the API server needs the pages: the application is built when it is asked
for, and FastAPI is not imported before.
"""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_rlmm.links.artifacts import URL_PREFIX


class _OnFirstUse:
    """A class attribute that is built when somebody reads it."""

    def __init__(self) -> None:
        self._apps: list[dict[str, Any]] | None = None

    def __get__(self, instance: object, owner: type) -> list[dict[str, Any]]:
        if self._apps is None:
            from airflow_provider_rlmm.plugins.web import create_app

            self._apps = [{"app": create_app(), "url_prefix": URL_PREFIX, "name": "Remote log plans and reports"}]
        return self._apps


class RlmmPlugin(AirflowPlugin):
    """Shows plans and reports to whoever is logged in."""

    name = "rlmm"
    fastapi_apps = _OnFirstUse()
