# SPDX-License-Identifier: Apache-2.0
"""Pages of clusters: at a glance, and their topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.base.file_systems import folder_in_words
from airflow_provider_rlmm.features.survey.inventory import SurveyedState
from airflow_provider_rlmm.overview import inventories
from airflow_provider_rlmm.overview.inventories import TopicRow
from airflow_provider_rlmm.plugins.actions import of_cluster
from airflow_provider_rlmm.plugins.ages import ages_of_cluster
from airflow_provider_rlmm.plugins.clusters import Cluster, readable_cluster, readable_clusters, shell_of_cluster
from airflow_provider_rlmm.plugins.dag_runs import under_way
from airflow_provider_rlmm.plugins.listing import MAX_PAGE, MAX_SEARCH, PAGE_ROWS, Column, Listing
from airflow_provider_rlmm.plugins.next_runs import deletion_times
from airflow_provider_rlmm.plugins.overview import Problem, charts_of, price_of, problems_of, view_of
from airflow_provider_rlmm.plugins.pages import leaders_page
from airflow_provider_rlmm.plugins.rendering import Shell, render
from airflow_provider_rlmm.plugins.rights import Rights, RightsDep, require_reader
from airflow_provider_rlmm.plugins.serving import shell_of
from airflow_provider_rlmm.plugins.switches import set_switches
from airflow_provider_rlmm.settings import NO_PRICE, price_per_gb_month, work_uri

router = APIRouter(dependencies=[Depends(require_reader)])

_Search = Annotated[str, Query(max_length=MAX_SEARCH)]
_PageNumber = Annotated[int, Query(ge=1, le=MAX_PAGE)]

GO_ON: Final = "delete the variable in Airflow, or below, when the reason is gone: any value stops, an empty one too"
SHOWN_RUNS: Final = 8
LARGEST: Final = 5

COLUMNS = (
    Column("Topic", "topic"),
    Column("State", "state"),
    Column("Partitions", "partitions", is_number=True),
    Column("Segments", "segments", is_number=True),
    Column("Size", "bytes", is_number=True),
    Column("Oldest record, UTC", "oldest_ms"),
    Column("First seen absent, UTC", "first_absent_ms"),
    Column("Why, and when it goes"),
)
BEHIND_THE_SIZE: Final = [column.key for column in COLUMNS].index("bytes") + 1


@router.get("/", response_class=HTMLResponse)
def show_clusters(request: Request, rights: RightsDep) -> HTMLResponse:
    """Show the clusters; where there is one alone, show that."""
    shell, seen = shell_of(request), readable_clusters(rights)
    if len(seen) == 1:
        return _overview(shell, rights, seen[0])
    now_ms, otherwise = system_clock(), price_per_gb_month()
    views = [view_of(c, shell=shell, times=deletion_times(c, now_ms), otherwise=otherwise) for c in seen]
    problems = [
        replace(p, what=f"{c.cluster_id}: {p.what}")
        for c in seen
        for p in (*_stopped(set_switches(c.stoppable)), *problems_of(c, shell, now_ms))
    ]
    return HTMLResponse(
        render(
            "clusters.html",
            shell,
            clusters=views,
            problems=problems,
            folder=folder_in_words(work_uri()),
            no_price=NO_PRICE,
        )
    )


@router.get("/clusters/{cluster_id}", response_class=HTMLResponse)
def show_cluster(request: Request, rights: RightsDep, cluster_id: str) -> HTMLResponse:
    """Show a cluster at a glance."""
    return _overview(shell_of(request), rights, readable_cluster(rights, cluster_id))


@router.get("/clusters/{cluster_id}/topics", response_class=HTMLResponse)
def show_topics(
    request: Request,
    rights: RightsDep,
    cluster_id: str,
    search: _Search = "",
    state: SurveyedState | Literal["", "GONE"] = "",
    sort: str = "",
    down: bool = False,
    page: _PageNumber = 1,
) -> HTMLResponse:
    """Show the topics of a cluster, page by page."""
    cluster = readable_cluster(rights, cluster_id, with_runs=False)
    shell = shell_of_cluster(request, cluster, "topics")
    sort = sort if sort in inventories.SORTS else ""
    found = inventories.topics(
        work_uri(), cluster.folder, search=search, state=str(state), sort=sort, descending=down,
        start=(page - 1) * PAGE_ROWS, rows=PAGE_ROWS,
    )  # fmt: skip
    address = shell.to("clusters", cluster_id, "topics")
    listing = Listing(address, found.rows, found.total, page, search, str(state), sort, down)
    inventory = cluster.inventory
    price = price_of(inventory, price_per_gb_month())
    cost = [] if price is None else [Column("Cost a month", is_number=True)]
    columns = [*COLUMNS[:BEHIND_THE_SIZE], *cost, *COLUMNS[BEHIND_THE_SIZE:]]
    return HTMLResponse(
        render(
            "topics.html", shell, list=listing, columns=columns, states=[*(s.value for s in SurveyedState), inventories.GONE],
            times=deletion_times(cluster, system_clock()), surveyed_at_ms=inventory.created_at_ms if inventory else None,
            price=price, no_price=NO_PRICE,
        )
    )  # fmt: skip


@router.get("/clusters/{cluster_id}/leaders", response_class=HTMLResponse)
def show_leaders(request: Request, rights: RightsDep, cluster_id: str) -> HTMLResponse:
    """Show what the leaders of a cluster delete next, as it was told last."""
    cluster = readable_cluster(rights, cluster_id, with_runs=False)
    shell = shell_of_cluster(request, cluster, "leaders")
    if cluster.leaders_unreadable:
        raise DocumentError(cluster.leaders_unreadable)
    return HTMLResponse(leaders_page("", cluster.leaders, shell))


def _overview(shell: Shell, rights: Rights, cluster: Cluster) -> HTMLResponse:
    shell = replace(shell, cluster_id=cluster.cluster_id, active="overview")
    now_ms, switches = system_clock(), set_switches(cluster.stoppable)
    times = deletion_times(cluster, now_ms)
    view = view_of(
        cluster, shell=shell, times=times, otherwise=price_per_gb_month(), refused_topics=_refused_topics(cluster)
    )
    return HTMLResponse(
        render(
            "overview.html", shell, cluster=view, no_price=NO_PRICE,
            problems=[*_stopped(switches), *problems_of(cluster, shell, now_ms)], under_way=under_way(cluster.connection),
            actions=of_cluster(cluster.connection, switches, rights, shell), charts=charts_of(cluster.runs),
            folder=folder_in_words(work_uri()), largest=_largest(cluster), ages=ages_of_cluster(cluster.folder),
            runs=cluster.runs[: -SHOWN_RUNS - 1 : -1], times=times,
        )
    )  # fmt: skip


def _stopped(switches: Mapping[str, str]) -> list[Problem]:
    return [Problem(f"The kill switch stops this cluster: {name}", why, GO_ON) for name, why in switches.items()]


def _refused_topics(cluster: Cluster) -> int | None:
    """Return of how many topics something stands against the deletion, ``None`` where no survey was made."""
    if cluster.inventory is None:
        return None
    return inventories.topics(work_uri(), cluster.folder, state=SurveyedState.REFUSED.value, rows=1).total


def _largest(cluster: Cluster) -> Sequence[TopicRow]:
    """Return the largest topics that are gone, however far their deletion is."""
    if cluster.inventory is None or not cluster.inventory.totals.orphaned_topics:
        return ()
    rows: Sequence[TopicRow] = inventories.topics(work_uri(), cluster.folder, state=inventories.GONE, rows=LARGEST).rows
    return rows
