# SPDX-License-Identifier: Apache-2.0
"""Who sees which page, where rights are given DAG by DAG: every route is asked for the pages of somebody else's cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest
from airflow.models.dag import DagModel
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.plugins import dag_runs
from airflow_provider_rlmm.settings import artifact_name_of
from tests.sample_work_folder import CLUSTER, Sample, sample_work_folder, topic_id
from tests.unit.airflow.auth import log_in, pages, reads_as_fab, without_database

RUN = "remote_log_cleaner.manual__running"
PAGES = {
    "/": "/",
    "/clusters/{cluster_id}": f"/clusters/{CLUSTER}",
    "/clusters/{cluster_id}/topics": f"/clusters/{CLUSTER}/topics",
    "/clusters/{cluster_id}/search": f"/clusters/{CLUSTER}/search?text=topic",
    "/clusters/{cluster_id}/topics/{topic_id}": f"/clusters/{CLUSTER}/topics/{kafka_uuid_str(topic_id(3))}",
    "/clusters/{cluster_id}/topics/{topic_id}/{partition}": f"/clusters/{CLUSTER}/topics/{kafka_uuid_str(topic_id(3))}/0",
    "/clusters/{cluster_id}/leaders": f"/clusters/{CLUSTER}/leaders",
    "/clusters/{cluster_id}/runs": f"/clusters/{CLUSTER}/runs",
    "/runs/{artifact}": f"/runs/{RUN}",
    "/runs/{artifact}/now/json": f"/runs/{RUN}/now/json",
    "/dag-run": "/dag-run?dag_id=remote_log_cleaner&run_id=manual__running",
}
DOCUMENTS = {
    "/plans/{name}": "/plans/{}", "/plans/{name}/rows.csv": "/plans/{}/rows.csv",
    "/plans/{name}/files/{number}": "/plans/{}/files/0", "/plans/{name}/json": "/plans/{}/json",
    **{f"/{kind}/{{name}}{end}": f"/{kind}/{{}}{end}" for kind in ("reports", "doctor", "leaders", "scrubs", "scrub-plans")
       for end in ("", "/json")},
}  # fmt: skip


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sample:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    without_database(monkeypatch)
    return sample_work_folder(tmp_path / "work", topics=5)


@pytest.fixture
def app(sample: Sample) -> FastAPI:
    return pages()


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, raise_server_exceptions=False) as test_client:
        yield test_client


Asked = Callable[..., dict[str, int]]


@pytest.fixture
def asked(app: FastAPI, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Ask as a user who may read these DAGs, and return path → status."""

    def ask(paths: dict[str, str], *dag_ids: str, known: tuple[str, ...] = ("bakery",)) -> dict[str, int]:
        log_in(app, monkeypatch, reads_as_fab(*dag_ids), known)
        return {path: client.get(address).status_code for path, address in paths.items()}

    return ask


def of(artifact: str) -> dict[str, str]:
    return {path: address.format(artifact) for path, address in DOCUMENTS.items()}


def test_who_may_read_another_dag_alone_sees_none_of_the_pages(app: FastAPI, asked: Asked) -> None:
    everything = PAGES | of(RUN) | {f"{path} of no DAG": address for path, address in of("plan-1").items()}
    assert asked(everything, "bakery") == dict.fromkeys(everything, 403)
    routes = {str(getattr(route, "path", "")) for route in app.routes} - {"/static/{name}"}
    assert routes == {*PAGES, *DOCUMENTS}


def test_who_may_read_one_of_ours_loses_nothing(asked: Asked) -> None:
    assert asked(PAGES, "remote_log_cleaner") == dict.fromkeys(PAGES, 200)
    cluster = {path: address for path, address in PAGES.items() if "cluster" in path}
    assert asked(cluster, "remote_storage_scrub") == dict.fromkeys(cluster, 200)
    # There is no such document, and that is said.
    assert asked(of(RUN), "remote_log_cleaner") == dict.fromkeys(DOCUMENTS, 404)


@pytest.mark.parametrize("dag_id", ["~", "DAG:bakery", "DAG Run:bakery", "bakery\n", " ", "x" * 251])
def test_no_odd_id_asks_another_question(asked: Asked, sample: Sample, dag_id: str) -> None:
    """Airflow takes ~ for no id, FAB takes an id that begins with DAG: for the name of a permission."""
    # By the latter the name of the folder begins with the id of a DAG that the user may read: marks before it go.
    for run_id in (RUN, "bakery.1"):
        tab = f"/dag-run?{urlencode({'dag_id': dag_id, 'run_id': run_id})}"
        assert asked({"tab": tab}, "bakery")["tab"] in (403, 422)


def test_a_dag_of_somebody_else_has_its_own_runs_alone(asked: Asked) -> None:
    tabs = {dag_id: f"/dag-run?dag_id={dag_id}&run_id=manual__1" for dag_id in ("bakery", "mill", "_")}
    assert asked(tabs, "bakery") == {"bakery": 200, "mill": 403, "_": 403}
    assert asked({"its": "/reports/bakery.manual__1", "other": "/reports/mill.manual__1"}, "bakery") == {
        "its": 404, "other": 403,
    }  # fmt: skip


def test_where_ids_hold_dots_all_dags_must_be_readable_that_may_have_written_the_folder(asked: Asked) -> None:
    known = ("bakery", "bakery.night")
    paths = {"day": "/reports/bakery.1", "night": "/reports/bakery.night.1"}
    assert asked(paths, "bakery", known=known) == {"day": 404, "night": 403}
    assert asked(paths, "bakery", "bakery.night", known=known) == {"day": 404, "night": 404}
    # Ids of DAG and run become one name, and the marks that it begins with go.
    odd = {"tab": "/dag-run?dag_id=_&run_id=bakery.night.1"}
    assert artifact_name_of("_", "bakery.night.1") == "bakery.night.1"
    assert asked(odd, "_", known=known) == {"tab": 403}


def test_the_dags_that_airflow_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = create_engine("sqlite://")
    DagModel.__table__.create(engine)
    with Session(engine) as session:
        session.add(DagModel(dag_id="bakery.night", bundle_name="b"))
        session.commit()
    monkeypatch.setattr("airflow.utils.session.create_session", lambda: Session(engine))
    assert dag_runs.known_dags({"bakery", "bakery.night"}) == {"bakery.night"}


def test_the_dag_that_a_summary_names_only_narrows(asked: Asked, sample: Sample) -> None:
    run = next(run for run in sample.runs if run.dag_id == "remote_log_cleaner")
    (sample.cluster / "runs" / run.file_name).write_text(replace(run, dag_id="mill").to_json())
    path = {"run": f"/runs/{run.artifact}"}
    assert asked(path, "remote_log_cleaner") == {"run": 403}
    assert asked(path, "mill", known=("mill",)) == {"run": 403}
    assert asked(path, "mill", "remote_log_cleaner") == {"run": 200}
