# SPDX-License-Identifier: Apache-2.0
"""Pages of a topic: its user partitions, their segments, and the trail of each."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request
from fastapi.responses import HTMLResponse

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.overview import inventories
from airflow_provider_rlmm.overview.trails import Deletions, deletions_of, trail_of
from airflow_provider_rlmm.plugins.ages import ages_of_topic
from airflow_provider_rlmm.plugins.clusters import readable_cluster, shell_of_cluster
from airflow_provider_rlmm.plugins.listing import MAX_PAGE, PAGE_ROWS, Listing
from airflow_provider_rlmm.plugins.next_runs import deletion_times
from airflow_provider_rlmm.plugins.overview import price_of
from airflow_provider_rlmm.plugins.rendering import render
from airflow_provider_rlmm.plugins.rights import RightsDep, require_reader
from airflow_provider_rlmm.plugins.segment_map import segment_map
from airflow_provider_rlmm.settings import NO_PRICE, price_per_gb_month, work_uri

router = APIRouter(prefix="/clusters/{cluster_id}/topics/{topic_id}", dependencies=[Depends(require_reader)])

_PageNumber = Annotated[int, Query(ge=1, le=MAX_PAGE)]
_PartitionNumber = Annotated[int, Path(ge=0, le=2**31 - 1)]


@router.get("", response_class=HTMLResponse)
def show_topic(
    request: Request, rights: RightsDep, cluster_id: str, topic_id: str, page: _PageNumber = 1
) -> HTMLResponse:
    """Show a topic and its user partitions."""
    cluster = readable_cluster(rights, cluster_id)
    shell, topic = shell_of_cluster(request, cluster, "topics"), inventories.topic(work_uri(), cluster.folder, topic_id)
    if topic is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, "the newest survey has no such topic id: it may be gone by now")
    found = inventories.partitions(work_uri(), cluster.folder, topic_id, start=(page - 1) * PAGE_ROWS, rows=PAGE_ROWS)
    listing = Listing(shell.to("clusters", cluster_id, "topics", topic_id), found.rows, found.total, page)
    ages, price = ages_of_topic(cluster.folder, topic_id), price_of(cluster.inventory, price_per_gb_month())
    return HTMLResponse(
        render(
            "topic.html", shell, topic=topic, list=listing, ages=ages, price=price, no_price=NO_PRICE,
            times=deletion_times(cluster, system_clock()),
        )
    )  # fmt: skip


@router.get("/{partition}", response_class=HTMLResponse)
def show_partition(
    request: Request,
    rights: RightsDep,
    cluster_id: str,
    topic_id: str,
    partition: _PartitionNumber,
    page: _PageNumber = 1,
) -> HTMLResponse:
    """Show a user partition, its segments and what became of those that runs have deleted."""
    cluster = readable_cluster(rights, cluster_id)
    shell = shell_of_cluster(request, cluster, "topics")
    found = inventories.partition(work_uri(), cluster.folder, topic_id, partition)
    now_ms = system_clock()
    # Of a topic that lives, a run deletes nothing.
    deletions = (
        Deletions((), False, 0)
        if found is not None and found.deletion is None
        else deletions_of(f"{work_uri()}/{cluster.folder}", cluster.cluster_id, topic_id, partition, now_ms)
    )
    if found is None and not deletions.rows:
        raise HTTPException(HTTPStatus.NOT_FOUND, "no survey knows such a user partition")
    segments = inventories.segments(
        work_uri(), cluster.folder, topic_id, partition, start=(page - 1) * PAGE_ROWS, rows=PAGE_ROWS
    )
    address = shell.to("clusters", cluster_id, "topics", topic_id, partition)
    trails = [trail_of(segment, found, deletions) for segment in segments.rows]
    return HTMLResponse(
        render(
            "partition.html", shell, topic_id=topic_id, number=partition, partition=found,
            times=deletion_times(cluster, now_ms),
            list=Listing(address, list(zip(segments.rows, trails, strict=True)), segments.total, page),
            map=segment_map(segments.rows) if segments.rows else "", deletions=deletions,
        )
    )  # fmt: skip
