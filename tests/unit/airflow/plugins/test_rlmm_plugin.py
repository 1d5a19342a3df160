# SPDX-License-Identifier: Apache-2.0
"""What Airflow's UI shows of the pages, and where."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.api_fastapi.core_api.datamodels.plugins import ExternalViewResponse
from airflow.plugins_manager import AirflowPlugin

from airflow_provider_rlmm.plugins import rlmm_plugin
from airflow_provider_rlmm.plugins.dag_ids import DAGS
from airflow_provider_rlmm.resources import dags_folder


@pytest.mark.parametrize(
    ("base_url", "root"), [("http://host:8080", "/rlmm"), ("https://host/airflow/", "/airflow/rlmm")]
)
def test_views_of_the_navigation_and_of_each_run(monkeypatch: pytest.MonkeyPatch, base_url: str, root: str) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base_url)
    views = [ExternalViewResponse(**view) for view in rlmm_plugin._views()]
    assert [(view.destination, view.href) for view in views] == [
        ("nav", f"{root}/"),
        ("dag_run", f"{root}/dag-run?dag_id={{DAG_ID}}&run_id={{RUN_ID}}"),
    ]
    assert len({view.url_route for view in views}) == 2
    assert views[0].icon == f"{root}/static/icon.svg"


def test_the_entry_of_the_navigation_is_not_cut() -> None:
    """Airflow 3.3 writes it at 10 px into a box of 56 px: letters of a wide font such as DejaVu Sans take up to 7."""
    nav, _ = rlmm_plugin._views()
    assert len(nav["name"]) * 7 <= 56


def test_the_plugin_is_as_airflow_wants_it() -> None:
    assert issubclass(rlmm_plugin.RlmmPlugin, AirflowPlugin)
    (app,) = rlmm_plugin.RlmmPlugin.fastapi_apps
    assert app["url_prefix"] == "/rlmm"
    assert rlmm_plugin.RlmmPlugin.external_views is rlmm_plugin.RlmmPlugin.external_views


def test_the_rights_know_every_dag_that_is_shipped() -> None:
    assert {path.stem for path in Path(dags_folder()).glob("*.py")} == set(DAGS)
