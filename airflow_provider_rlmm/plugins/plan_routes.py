# SPDX-License-Identifier: Apache-2.0
"""A plan's rows: to search and sort on a page, and to take along."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from itertools import chain
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Path, Query, Request
from fastapi.responses import HTMLResponse, StreamingResponse

from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.plans.plan import PlanSummary, Reason
from airflow_provider_rlmm.plugins.actions import Action, of_plan
from airflow_provider_rlmm.plugins.dag_runs import conf_of
from airflow_provider_rlmm.plugins.listing import MAX_PAGE, MAX_SEARCH, PAGE_ROWS, Column, Listing
from airflow_provider_rlmm.plugins.pages import DOCUMENT_PAGES, DocumentPage, PlanPart, plan_page
from airflow_provider_rlmm.plugins.plan_downloads import csv_chunks, parquet_chunks
from airflow_provider_rlmm.plugins.plan_rows import planned_segments, planned_topics
from airflow_provider_rlmm.plugins.raised_limits import Made, of_limits, raised_limits
from airflow_provider_rlmm.plugins.rendering import Shell
from airflow_provider_rlmm.plugins.rights import Rights, RightsDep
from airflow_provider_rlmm.plugins.run_view import told_run
from airflow_provider_rlmm.plugins.serving import readable_document, shell_of_run, shown
from airflow_provider_rlmm.settings import work_uri

router = APIRouter(prefix="/plans/{name}")

_PAGE: DocumentPage[PlanSummary] = DOCUMENT_PAGES["plans"]

_Number = Annotated[int, Path(ge=0, le=2**31 - 1)]
_Search = Annotated[str, Query(max_length=MAX_SEARCH)]
_PageNumber = Annotated[int, Query(ge=1, le=MAX_PAGE)]

TOPIC_COLUMNS = (
    Column("Topic", "topic"),
    Column("Why", "reason"),
    Column("Partitions", "partitions", is_number=True),
    Column("Segments", "segments", is_number=True),
    Column("Size", "bytes", is_number=True),
    Column("Oldest record, UTC", "oldest_ms"),
)
SEGMENT_COLUMNS = (
    Column("Topic", "topic"),
    Column("Partition", "partition", is_number=True),
    Column("Offsets", "start_offset", is_number=True),
    Column("Size", "bytes", is_number=True),
    Column("Newest record, UTC", "max_timestamp_ms"),
    Column("State"),
    Column("Why", "reason"),
    Column("Metadata partition", "metadata_partition", is_number=True),
)


@router.get("", response_class=HTMLResponse)
def show_plan(
    request: Request,
    rights: RightsDep,
    name: str,
    by: Literal["topic", "segment"] = "topic",
    search: _Search = "",
    state: Reason | Literal[""] = "",
    sort: str = "",
    down: bool = False,
    page: _PageNumber = 1,
) -> HTMLResponse:
    """Show a plan, and what it names: topic by topic, or segment by segment."""
    plan = readable_plan(rights, name)
    shell = shell_of_run(request, name, plan.cluster_id)
    read, columns = (planned_topics, TOPIC_COLUMNS) if by == "topic" else (planned_segments, SEGMENT_COLUMNS)
    found: Sequence[Any] = ()
    total, why_not = 0, ""
    try:
        found, total = read(
            work_uri(), name, plan, search=search, reason=str(state), sort=sort, descending=down,
            start=(page - 1) * PAGE_ROWS, rows=PAGE_ROWS,
        )  # fmt: skip
    except FileNotFoundError:
        why_not = "a file of the plan is gone"
    except DocumentError as e:
        why_not = str(e)
    address = shell.to("plans", name)
    listing = Listing(address, found, total, page, search, str(state), sort, down, fixed=(("by", by),))
    part = PlanPart(listing, columns, by, why_not, of_plan(name, rights, shell), _of_limits(name, plan, rights, shell))
    return HTMLResponse(plan_page(name, plan, shell, part))


def _of_limits(name: str, plan: PlanSummary, rights: Rights, shell: Shell) -> list[Action]:
    """Return the button of a plan that is larger than its run may delete, or would be by the usual limits."""
    if plan.within_blast_radius and not raised_limits(plan):
        return []
    run = told_run(work_uri(), name)
    made = None if run is None else Made(run, conf_of(run.dag_id, run.run_id))
    return of_limits(name, plan, made, rights, shell)


@router.get("/rows.csv")
def give_csv(rights: RightsDep, name: str) -> StreamingResponse:
    """Give out all rows of a plan as CSV."""
    plan = readable_plan(rights, name)
    rights.begin_heavy_answer()
    rows = _begun(csv_chunks(work_uri(), name, plan))
    return StreamingResponse(rows, media_type="text/csv", headers=_attached(f"{name}.csv"))


@router.get("/files/{number}")
def give_parquet(rights: RightsDep, name: str, number: _Number) -> StreamingResponse:
    """Give out the Parquet file of a metadata partition as it was written."""
    file = readable_plan(rights, name).files.get(number)
    if file is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"the plan has nothing of metadata partition {number}")
    rights.begin_heavy_answer()
    chunks = _begun(parquet_chunks(work_uri(), name, file))
    return StreamingResponse(
        chunks, media_type="application/vnd.apache.parquet", headers=_attached(f"{name}.{number}.parquet")
    )


def readable_plan(rights: Rights, name: str) -> PlanSummary:
    """
    Return the summary of a plan that a user may see.

    :raises HTTPException: 404 if there is none, 403 if the user may not see it, 422 if it cannot be read.
    :raises DocumentError: if it is no regular file below the work folder, too large or unreadable.
    """
    document = readable_document(rights, name, _PAGE.file)
    with shown(name, _PAGE.file):
        return _PAGE.read(document)


def _begun(chunks: Iterator[bytes]) -> Iterable[bytes]:
    """Read the first part at once: what cannot be read is a page that says so, as long as nothing was sent."""
    try:
        first = next(chunks, None)
    except FileNotFoundError as e:
        raise HTTPException(HTTPStatus.NOT_FOUND, "a file of the plan is gone") from e
    return () if first is None else chain([first], chunks)


def _attached(name: str) -> dict[str, str]:
    # A name of an artifact has letters, digits, dots, dashes and underscores alone.
    return {"Content-Disposition": f'attachment; filename="{name}"'}
