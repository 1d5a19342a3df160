# SPDX-License-Identifier: Apache-2.0
"""The web application behind the links: one page and one JSON document per plan, report and diagnosis."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, cast

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airflow_provider_rlmm.errors import ConfigurationError, DocumentError
from airflow_provider_rlmm.plugins.documents import read_json_object
from airflow_provider_rlmm.plugins.pages import (
    doctor_page,
    error_page,
    plan_page,
    report_page,
    scrub_page,
    scrub_plan_page,
)
from airflow_provider_rlmm.policy.scrub_plan import SCRUB_PLAN_DOCUMENT
from airflow_provider_rlmm.policy.scrub_summary import SCRUB_DOCUMENT
from airflow_provider_rlmm.quoting import printable
from airflow_provider_rlmm.settings import is_artifact_name, work_uri

_PAGES: dict[str, tuple[str, Callable[[str, Mapping[str, Any]], str]]] = {
    "plans": ("summary.json", plan_page),
    "reports": ("report.json", report_page),
    "doctor": ("doctor.json", doctor_page),
    "scrubs": (SCRUB_DOCUMENT, scrub_page),
    "scrub-plans": (SCRUB_PLAN_DOCUMENT, scrub_plan_page),
}
"""Page as in its address → the document that a task wrote, and what renders it."""

_HEADERS = {
    # The pages need one inline style sheet and nothing else: whatever slips through the escaping stays inert. Nobody else's
    # page may frame them and lure a click.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_LOOK_AT_IT = (
    "look at the file in the work folder: it was not written by this package, or by another version of it, or something "
    "wrote over it; run the task again to have it made anew"
)
_WHAT_TO_DO = {
    HTTPStatus.UNAUTHORIZED: "log in to Airflow, then open the link again",
    HTTPStatus.FORBIDDEN: "ask an administrator of Airflow for the permission to see plugins",
    HTTPStatus.NOT_FOUND: "open the link of a task: it leads to what the task has written",
}


def create_app() -> FastAPI:
    """Return the application; every route asks Airflow's auth manager for the permission to see plugins."""
    app = FastAPI(
        title="Remote log plans and reports",
        dependencies=[Depends(requires_access_view(AccessView.PLUGINS))],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    for page in _PAGES:
        _add_routes(app, page)
    app.add_middleware(_SecurityHeaders)
    app.add_exception_handler(StarletteHTTPException, _refused)
    app.add_exception_handler(Exception, _failed)
    return app


def _add_routes(app: FastAPI, page: str) -> None:
    """Show a document by its name, as a page and as it was written."""

    def show(name: str) -> HTMLResponse:
        file, render = _PAGES[page]
        document = _document(name, file)
        try:
            return HTMLResponse(render(name, document))
        except Exception as e:
            # Whatever a page cannot show is the document's fault: the pages are pure functions of it.
            what = f"{file} of {name} does not have the expected form ({type(e).__name__}: {e})"
            raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, what) from e

    def show_json(name: str) -> Response:
        # ASCII only: no mark of direction reaches whoever looks at it.
        return Response(json.dumps(_document(name, _PAGES[page][0])), media_type="application/json")

    app.add_api_route(f"/{page}/{{name}}", show, response_class=HTMLResponse)
    app.add_api_route(f"/{page}/{{name}}/json", show_json)


def _document(name: str, file: str) -> dict[str, Any]:
    if not is_artifact_name(name):
        raise HTTPException(HTTPStatus.NOT_FOUND, "no such document")
    try:
        return read_json_object(work_uri(), name, file)
    except FileNotFoundError as e:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"{name} has no {file} below [rlmm] work_uri, or not yet") from e
    except (ConfigurationError, DocumentError) as e:
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, str(e)) from e


def _refused(request: Request, error: Exception) -> Response:
    """Answer what was refused, with a page or, where JSON was asked for, with JSON."""
    error = cast("StarletteHTTPException", error)
    status = HTTPStatus(error.status_code)
    return _failure(request, status, str(error.detail), _WHAT_TO_DO.get(status, _LOOK_AT_IT), error.headers)


def _failed(request: Request, error: Exception) -> Response:
    """Answer what nobody thought of; the error itself goes to the log only."""
    what = f"the page cannot be made ({type(error).__name__})"
    return _failure(request, HTTPStatus.INTERNAL_SERVER_ERROR, what, "look into the log of the API server", None)


def _failure(
    request: Request, status: HTTPStatus, what: str, what_to_do: str, headers: Mapping[str, str] | None
) -> Response:
    what = printable(what, 1_000)
    everything = {**(headers or {}), **_HEADERS}
    if request.url.path.endswith("/json"):
        document = json.dumps({"detail": what, "what_to_do": what_to_do})
        return Response(document, status, everything, media_type="application/json")
    return HTMLResponse(error_page(status, what, what_to_do), status, everything)


class _SecurityHeaders:
    """Puts the headers on every answer that the application makes, redirects and refusals included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers)
