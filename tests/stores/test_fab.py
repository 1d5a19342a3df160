# SPDX-License-Identifier: Apache-2.0
"""The rights of the pages by FAB's own auth manager: what the stand-in of the unit tests says of its answers is so."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.api_fastapi.core_api.security import get_user
from fastapi import FastAPI
from fastapi.testclient import TestClient

from airflow_provider_rlmm.plugins import web
from tests.sample_work_folder import Sample, sample_work_folder
from tests.unit.airflow.auth import log_in, without_database
from tests.unit.airflow.plugins.test_page_rights import DOCUMENTS, PAGES, RUN

pytestmark = pytest.mark.stores

READ = "can_read"


@pytest.fixture
def app(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    without_database(monkeypatch)
    made: Sample = sample_work_folder(tmp_path / "work", topics=5)
    assert made.work.is_dir()
    return web.create_app()


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, raise_server_exceptions=False) as test_client:
        yield test_client


Asked = Callable[..., dict[str, int]]


@pytest.fixture
def asked(app: FastAPI, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> Asked:
    with warnings.catch_warnings():
        # FAB imports what Starlette is about to remove.
        warnings.simplefilter("ignore")
        from airflow.providers.fab.auth_manager.fab_auth_manager import FabAuthManager

    def ask(paths: dict[str, str], *permissions: tuple[str, str]) -> dict[str, int]:
        log_in(app, monkeypatch, FabAuthManager, ["bakery"])
        app.dependency_overrides[get_user] = lambda: SimpleNamespace(perms=set(permissions), get_id=lambda: "1")
        return {path: client.get(address).status_code for path, address in paths.items()}

    return ask


EVERYTHING = PAGES | {path: address.format(RUN) for path, address in DOCUMENTS.items()}


def test_who_may_read_another_dag_alone_sees_none_of_the_pages(asked: Asked) -> None:
    of_no_dag = {f"{path} of no DAG": address.format("plan-1") for path, address in DOCUMENTS.items()}
    everything = EVERYTHING | of_no_dag
    assert asked(everything, (READ, "DAG:bakery"), (READ, "DAG Runs")) == dict.fromkeys(everything, 403)
    assert asked({"tab": "/dag-run?dag_id=bakery&run_id=1"}, (READ, "DAG:bakery")) == {"tab": 200}


@pytest.mark.parametrize("permission", ["DAG:remote_log_cleaner", "DAGs"])
def test_who_may_read_one_of_ours_or_all_loses_nothing(asked: Asked, permission: str) -> None:
    assert asked(PAGES, (READ, permission)) == dict.fromkeys(PAGES, 200)
    documents = {path: EVERYTHING[path] for path in DOCUMENTS}
    assert asked(documents, (READ, permission)) == dict.fromkeys(DOCUMENTS, 404)


def test_what_belongs_to_no_dag_is_for_those_who_may_read_all(asked: Asked) -> None:
    path = {"plan": "/plans/plan-1"}
    assert asked(path, (READ, "DAGs")) == {"plan": 404}
    assert asked(path, (READ, "DAG:remote_log_cleaner")) == {"plan": 403}


@pytest.mark.parametrize("dag_id", ["~", "DAG:bakery", "DAG%20Run:bakery"])
def test_no_odd_id_asks_another_question(asked: Asked, dag_id: str) -> None:
    tab = {"tab": f"/dag-run?dag_id={dag_id}&run_id={RUN}"}
    assert asked(tab, (READ, "DAG:bakery"), (READ, "DAG Run:bakery")) == {"tab": 403}
