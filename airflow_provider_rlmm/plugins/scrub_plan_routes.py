# SPDX-License-Identifier: Apache-2.0
"""The page of a plan that was made from a scrub: the document, and the largest topics that its table names."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.features.scrub.scrub_plan import ScrubPlan
from airflow_provider_rlmm.plugins.listing import PAGE_ROWS
from airflow_provider_rlmm.plugins.pages import DOCUMENT_PAGES, DocumentPage, ScrubTopicsPart, scrub_plan_page
from airflow_provider_rlmm.plugins.rights import RightsDep
from airflow_provider_rlmm.plugins.scrub_plan_topics import scrubbed_topics
from airflow_provider_rlmm.plugins.serving import readable_document, shell_of_run, shown
from airflow_provider_rlmm.settings import work_uri

router = APIRouter()

_KIND: Final = "scrub-plans"


@router.get(f"/{_KIND}/{{name}}", response_class=HTMLResponse)
def show_scrub_plan(request: Request, rights: RightsDep, name: str) -> HTMLResponse:
    """Show a plan that was made from a scrub, and the largest topics that it names."""
    page: DocumentPage[ScrubPlan] = DOCUMENT_PAGES[_KIND]
    document = readable_document(rights, name, page.file)
    shell = shell_of_run(request, name, document.get("cluster_id"))
    with shown(name, page.file):
        plan = page.read(document)
        return HTMLResponse(scrub_plan_page(name, plan, shell, _topics(name, plan)))


def _topics(name: str, plan: ScrubPlan) -> ScrubTopicsPart:
    try:
        found = scrubbed_topics(work_uri(), name, plan, PAGE_ROWS)
    except FileNotFoundError:
        return ScrubTopicsPart(why_not="The table of the plan is gone")
    except DocumentError as e:
        return ScrubTopicsPart(why_not=f"They cannot be read: {e}")
    return ScrubTopicsPart(found.rows, found.total - len(found.rows))
