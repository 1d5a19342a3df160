# SPDX-License-Identifier: Apache-2.0
"""Pages of runs: those that have ended as a list, and one of them, kept current while it works."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi.responses import HTMLResponse

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.base.file_systems import folder_in_words, list_files
from airflow_provider_rlmm.links.artifacts import URL_PREFIX
from airflow_provider_rlmm.overview.run_summary import RunKind
from airflow_provider_rlmm.overview.runs import runs
from airflow_provider_rlmm.plugins import dag_runs
from airflow_provider_rlmm.plugins.actions import of_run
from airflow_provider_rlmm.plugins.clusters import cluster_of_run, readable_cluster, shell_of_cluster
from airflow_provider_rlmm.plugins.listing import MAX_PAGE, PAGE_ROWS, Listing
from airflow_provider_rlmm.plugins.rendering import render
from airflow_provider_rlmm.plugins.rights import Rights, RightsDep, require_reader
from airflow_provider_rlmm.plugins.run_view import RunView, run_view
from airflow_provider_rlmm.plugins.serving import shell_of, shell_of_run
from airflow_provider_rlmm.settings import artifact_name_of, is_artifact_name, work_uri

router = APIRouter()

_PageNumber = Annotated[int, Query(ge=1, le=MAX_PAGE)]
_Id = Annotated[str, Query(min_length=1, max_length=250)]
_MAX_GROUPS = 50


@router.get("/clusters/{cluster_id}/runs", response_class=HTMLResponse, dependencies=[Depends(require_reader)])
def show_runs(
    request: Request, rights: RightsDep, cluster_id: str, state: RunKind | Literal[""] = "", page: _PageNumber = 1
) -> HTMLResponse:
    """Show the past runs of a cluster, page by page, and those under way."""
    cluster = readable_cluster(rights, cluster_id, with_runs=False)
    shell = shell_of_cluster(request, cluster, "runs")
    found = runs(work_uri(), cluster.folder, kind=state or None, start=(page - 1) * PAGE_ROWS, rows=PAGE_ROWS)
    listing = Listing(shell.to("clusters", cluster_id, "runs"), found.rows, found.total, page, state=str(state))
    kinds = [kind.value for kind in RunKind]
    return HTMLResponse(
        render("runs.html", shell, list=listing, kinds=kinds, under_way=dag_runs.under_way(cluster.connection))
    )


@router.get("/runs/{artifact}", response_class=HTMLResponse)
def show_run(request: Request, rights: RightsDep, artifact: str) -> HTMLResponse:
    """Show a run by the name of its folder."""
    _check(rights, artifact)
    run, values = _values(request, rights, artifact)
    if not run.is_known and not run.under_way:
        nothing = f"{artifact} has written nothing in the work folder {folder_in_words(work_uri())}"
        raise HTTPException(HTTPStatus.NOT_FOUND, f"{nothing}, or it is pruned")
    return HTMLResponse(render("run.html", **values))


@router.get("/runs/{artifact}/now/json")
def show_run_now(request: Request, rights: RightsDep, artifact: str) -> Response:
    """Give out what the page of a run keeps current: whether it is under way, and the part that changes."""
    _check(rights, artifact)
    run, values = _values(request, rights, artifact)
    document = {"under_way": run.under_way, "html": render("run_now.html", **values)}
    return Response(json.dumps(document), media_type="application/json")


@router.get("/dag-run", response_class=HTMLResponse)
def show_dag_run(request: Request, rights: RightsDep, dag_id: _Id, run_id: _Id) -> HTMLResponse:
    """Show a run by the ids that Airflow gives it: a tab of each DAG run leads here."""
    artifact = artifact_name_of(dag_id, run_id)
    if not rights.may_see_run(dag_id, artifact):
        raise HTTPException(HTTPStatus.FORBIDDEN, "this DAG may not be read")
    _, values = _values(request, rights, artifact, (dag_id, run_id))
    return HTMLResponse(render("run.html", **values))


def _groups(dag_id: str, run_id: str) -> list[tuple[str, str]]:
    """Return the groups of tasks of a run that have a folder of their own, each with its name."""
    named = [
        (group, artifact_name_of(dag_id, run_id, group)) for group in dag_runs.groups_of(dag_id, run_id)[:_MAX_GROUPS]
    ]
    return [(group, artifact) for group, artifact in named if list_files(f"{work_uri()}/{artifact}")]


def _check(rights: Rights, artifact: str) -> None:
    if not is_artifact_name(artifact):
        raise HTTPException(HTTPStatus.NOT_FOUND, "no such run")
    if not rights.may_see_document(artifact):
        raise HTTPException(HTTPStatus.FORBIDDEN, "the DAG of this run may not be read")


def _values(
    request: Request, rights: Rights, artifact: str, ids: tuple[str, str] | None = None
) -> tuple[RunView, dict[str, Any]]:
    """Return a run, and what its templates show; its groups where Airflow's ids of it are given, or it is under way."""
    airflows = dag_runs.run_under_way(artifact)
    if ids is None and airflows is not None and airflows.group_id is None:
        ids = airflows.dag_id, airflows.run_id
    airflow_root = shell_of(request).root.removesuffix(URL_PREFIX)
    run = run_view(
        work_uri(), artifact, under_way=airflows is not None, now_ms=system_clock(), airflow_root=airflow_root
    )
    if run.summary is not None and not rights.may_read(run.summary.dag_id):
        raise HTTPException(HTTPStatus.FORBIDDEN, "the DAG that wrote the summary of this run may not be read")
    cluster_id = run.summary.cluster_id if run.summary else cluster_of_run(artifact)
    shell = shell_of_run(request, artifact, cluster_id, "runs")
    groups = [] if ids is None else _groups(*ids)
    asked, sha256 = (run.asked_plan.in_words, run.asked_plan.sha256) if run.asked_plan is not None else ("", "")
    actions = of_run(airflows, asked, sha256, rights, shell)
    return run, {"shell": shell, "run": run, "actions": actions, "groups": groups}
