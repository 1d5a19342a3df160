# SPDX-License-Identifier: Apache-2.0
"""
The Airflow plugin ``rlmm``: the entry *Remote* of the navigation, a tab of each DAG run, and the pages behind them.

Every task process imports this module, only the API server needs the pages: the application is built when it is asked
for, and FastAPI is not imported before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_rlmm.links.artifacts import URL_PREFIX

NAME_IN_NAVIGATION = "Remote"
"""Airflow gives an entry of its navigation 56 pixels, and cuts what is longer: *Remote log* is 57 of them wide."""


class _OnFirstUse:
    """A class attribute that is made when it is read."""

    def __init__(self, make: Callable[[], list[dict[str, Any]]]) -> None:
        self._make = make
        self._made: list[dict[str, Any]] | None = None

    def __get__(self, instance: object, owner: type) -> list[dict[str, Any]]:
        if self._made is None:
            self._made = self._make()
        return self._made


def _apps() -> list[dict[str, Any]]:
    from airflow_provider_rlmm.plugins.web import create_app

    return [{"app": create_app(), "url_prefix": URL_PREFIX, "name": "Remote log"}]


def _views() -> list[dict[str, Any]]:
    """Return what Airflow's own pages show of ours, in a frame."""
    from airflow.providers.common.compat.sdk import conf

    # The address within the frame is resolved by the browser: Airflow may live below a path.
    root = urlsplit(conf.get("api", "base_url", fallback="/") or "/").path.rstrip("/") + URL_PREFIX
    return [
        {
            "name": NAME_IN_NAVIGATION,
            "href": f"{root}/",
            "destination": "nav",
            "nav_top_level": True,
            "icon": f"{root}/static/icon.svg",
            "icon_dark_mode": f"{root}/static/icon-dark.svg",
            "url_route": "remote-log",
        },
        {
            "name": "Remote log",
            "href": f"{root}/dag-run?dag_id={{DAG_ID}}&run_id={{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "remote-log-run",
        },
    ]


class RlmmPlugin(AirflowPlugin):
    """Shows remote logs, plans, reports and runs to users who may read the DAGs."""

    name = "rlmm"
    fastapi_apps = _OnFirstUse(_apps)
    external_views = _OnFirstUse(_views)
