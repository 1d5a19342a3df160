# SPDX-License-Identifier: Apache-2.0
"""A kill switch for tests whose tasks run without a supervisor; a conftest imports the fixture by its name."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def the_api_server_knows_no_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Airflow's API server say that there is no such variable, as nobody else would answer here."""
    from airflow_provider_rlmm.hooks import kill_switch

    monkeypatch.setattr(kill_switch, "_require_unset", lambda name: None)


@pytest.fixture(autouse=True)
def the_pages_know_no_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the pages find no such variable, and no DAG with a schedule: Airflow's database is not there."""
    from airflow_provider_rlmm.plugins import dag_runs, switches

    monkeypatch.setattr(switches, "_value_of", lambda name: None)
    monkeypatch.setattr(dag_runs, "_scheduled", lambda dag_id: None)
    monkeypatch.setattr(dag_runs, "_conf", lambda dag_id, run_id: {})
