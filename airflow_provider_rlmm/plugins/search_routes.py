# SPDX-License-Identifier: Apache-2.0
"""The search of a cluster: what a topic, a segment or an object is, as far as it is written down."""

from __future__ import annotations

import shlex
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.overview.finding import Place, find
from airflow_provider_rlmm.overview.trails import DELETIONS_OF_DAYS
from airflow_provider_rlmm.plugins.clusters import readable_cluster, shell_of_cluster
from airflow_provider_rlmm.plugins.next_runs import deletion_times
from airflow_provider_rlmm.plugins.overview import price_of
from airflow_provider_rlmm.plugins.rendering import render
from airflow_provider_rlmm.plugins.rights import RightsDep, require_reader
from airflow_provider_rlmm.settings import NO_PRICE, price_per_gb_month, work_uri

router = APIRouter(dependencies=[Depends(require_reader)])

_LONGEST = 2_048
_Text = Annotated[str, Query(max_length=_LONGEST)]


@router.get("/clusters/{cluster_id}/search", response_class=HTMLResponse)
def show_search(request: Request, rights: RightsDep, cluster_id: str, text: _Text = "") -> HTMLResponse:
    """Show what a text names: a topic, a segment, or the key of an object."""
    cluster = readable_cluster(rights, cluster_id)
    shell, now_ms, asked = shell_of_cluster(request, cluster, "search"), system_clock(), text.strip()
    found = None
    if asked:
        # An id may be that of any segment, and is looked for among all of them.
        rights.begin_heavy_answer()
        found = find(Place(work_uri(), cluster.folder, cluster.cluster_id, now_ms), asked)
    inventory = cluster.inventory
    return HTMLResponse(
        render(
            "search.html", shell, asked=asked, found=found, command=f"rlmm why {shlex.quote(asked)}", now_ms=now_ms,
            surveyed_at_ms=inventory.created_at_ms if inventory else None, days=DELETIONS_OF_DAYS,
            price=price_of(inventory, price_per_gb_month()), no_price=NO_PRICE,
            times=deletion_times(cluster, now_ms) if found else None,
        )
    )  # fmt: skip
