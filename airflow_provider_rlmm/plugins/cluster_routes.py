# SPDX-License-Identifier: Apache-2.0
"""Pages of clusters: at a glance, and their topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse

from airflow_provider_rlmm.clock import system_clock
from airflow_provider_rlmm.errors import DocumentError
from airflow_provider_rlmm.plugins import reading
from airflow_provider_rlmm.plugins.listing import MAX_PAGE, MAX_SEARCH, PAGE_ROWS, Column, Listing
from airflow_provider_rlmm.plugins.overview import Problem, charts_of, problems_of, view_of
from airflow_provider_rlmm.plugins.rendering import Shell, render
from airflow_provider_rlmm.plugins.rights import Rights, RightsDep
from airflow_provider_rlmm.plugins.serving import shell_of
from airflow_provider_rlmm.policy.inventory import Inventory, SurveyedState
from airflow_provider_rlmm.policy.run_summary import RunSummary
from airflow_provider_rlmm.policy.work_folder import cluster_folder
from airflow_provider_rlmm.settings import price_per_gb_month, work_uri

router = APIRouter()

_Search = Annotated[str, Query(max_length=MAX_SEARCH)]
_PageNumber = Annotated[int, Query(ge=1, le=MAX_PAGE)]

SHOWN_RUNS = 8
CHARTED_RUNS = 400
LARGEST = 5

COLUMNS = (
    Column("Topic", "topic"),
    Column("State", "state"),
    Column("Partitions", "partitions", is_number=True),
    Column("Segments", "segments", is_number=True),
    Column("Size", "bytes", is_number=True),
    Column("Oldest record", "oldest_ms"),
    Column("First seen absent", "first_absent_ms"),
    Column("Why"),
)
_ORDERS = {column.key for column in COLUMNS if column.sorts}


@router.get("/", response_class=HTMLResponse)
def show_clusters(request: Request, rights: RightsDep) -> HTMLResponse:
    """Show the clusters; where there is one alone, show that."""
    shell, known = shell_of(request), [_known(folder) for folder in reading.clusters(work_uri())]
    seen = [cluster for cluster in known if rights.may_see(cluster.connection)]
    if len(seen) == 1:
        return _overview(shell, seen[0])
    now_ms, price = system_clock(), price_per_gb_month()
    views = [view_of(c.cluster_id, c.inventory, c.runs, shell=shell, now_ms=now_ms, price=price) for c in seen]
    problems = [replace(p, what=f"{c.cluster_id}: {p.what}") for c in seen for p in c.problems(shell, now_ms)]
    return HTMLResponse(render("clusters.html", shell, clusters=views, problems=problems))


@router.get("/clusters/{cluster_id}", response_class=HTMLResponse)
def show_cluster(request: Request, rights: RightsDep, cluster_id: str) -> HTMLResponse:
    """Show a cluster at a glance."""
    return _overview(shell_of(request), _cluster(rights, cluster_id))


@router.get("/clusters/{cluster_id}/topics", response_class=HTMLResponse)
def show_topics(
    request: Request,
    rights: RightsDep,
    cluster_id: str,
    search: _Search = "",
    state: SurveyedState | Literal[""] = "",
    sort: str = "",
    down: bool = False,
    page: _PageNumber = 1,
) -> HTMLResponse:
    """Show the topics of a cluster, page by page."""
    cluster = _cluster(rights, cluster_id)
    shell = replace(shell_of(request), cluster_id=cluster_id, active="topics")
    sort = sort if sort in _ORDERS else ""
    rows, total = (
        reading.topics(work_uri(), cluster.inventory, search, str(state), sort, down, (page - 1) * PAGE_ROWS, PAGE_ROWS)
        if cluster.inventory
        else ((), 0)
    )
    listing = Listing(shell.to("clusters", cluster_id, "topics"), rows, total, page, search, str(state), sort, down)
    return HTMLResponse(
        render(
            "topics.html", shell, list=listing, columns=COLUMNS, states=[s.value for s in SurveyedState],
            now_ms=system_clock(),
            surveyed_at_ms=cluster.inventory.created_at_ms if cluster.inventory else None,
        )
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Cluster:
    """What is known of a cluster."""

    folder: str
    inventory: Inventory | None
    runs: Sequence[RunSummary]
    unreadable: str = ""

    @property
    def cluster_id(self) -> str:
        told = self.inventory or (self.runs[-1] if self.runs else None)
        return told.cluster_id if told else self.folder.removeprefix("cluster-")

    @property
    def connection(self) -> str:
        told = self.inventory or (self.runs[-1] if self.runs else None)
        return told.connection if told else ""

    def problems(self, shell: Shell, now_ms: int) -> list[Problem]:
        found = problems_of(self.inventory, self.runs, shell=shell, now_ms=now_ms)
        if self.unreadable:
            found.insert(0, Problem("What runs have written cannot be read", self.unreadable, "run the cleaner again"))
        return found


def _known(folder: str) -> _Cluster:
    try:
        return _Cluster(
            folder, reading.inventory(work_uri(), folder), reading.history(work_uri(), folder, CHARTED_RUNS)
        )
    except (DocumentError, OSError, UnicodeDecodeError) as e:
        return _Cluster(folder, None, (), str(e))


def _cluster(rights: Rights, cluster_id: str) -> _Cluster:
    folder = cluster_folder(cluster_id)
    if "/" in cluster_id or folder not in reading.clusters(work_uri()):
        raise HTTPException(HTTPStatus.NOT_FOUND, "no run has told of such a cluster")
    cluster = _known(folder)
    if not rights.may_see(cluster.connection):
        raise HTTPException(HTTPStatus.FORBIDDEN, "no DAG of this cluster may be read")
    return cluster


def _overview(shell: Shell, cluster: _Cluster) -> HTMLResponse:
    shell = replace(shell, cluster_id=cluster.cluster_id, active="overview")
    now_ms, inventory = system_clock(), cluster.inventory
    view = view_of(cluster.cluster_id, inventory, cluster.runs, shell=shell, now_ms=now_ms, price=price_per_gb_month())
    return HTMLResponse(
        render(
            "overview.html", shell, cluster=view, problems=cluster.problems(shell, now_ms), under_way=(), actions=(),
            charts=charts_of(cluster.runs), largest=_largest(inventory), runs=cluster.runs[: -SHOWN_RUNS - 1 : -1],
        )
    )  # fmt: skip


def _largest(inventory: Inventory | None) -> Sequence[reading.TopicRow]:
    if inventory is None or not inventory.totals.orphaned_topics:
        return ()
    rows, _ = reading.topics(work_uri(), inventory, "", "", "bytes", True, 0, 1_000)
    return [row for row in rows if row.state not in (SurveyedState.LIVING, SurveyedState.UNSEEN)][:LARGEST]
