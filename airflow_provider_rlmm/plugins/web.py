# SPDX-License-Identifier: Apache-2.0
"""
The web application: pages of clusters and runs, and one page and one JSON document for each plan, report and diagnosis.

Nothing is changed here: what a button asks for, it asks of Airflow's own interface.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import cast

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airflow_provider_rlmm.core.base.errors import ConfigurationError, DocumentError
from airflow_provider_rlmm.core.base.quoting import printable
from airflow_provider_rlmm.plugins import (
    cluster_routes,
    plan_routes,
    run_routes,
    scrub_plan_routes,
    search_routes,
    topic_routes,
)
from airflow_provider_rlmm.plugins.heavy_answers import BoundedAnswers
from airflow_provider_rlmm.plugins.pages import DOCUMENT_PAGES, error_page
from airflow_provider_rlmm.plugins.rendering import STATIC_FILES, static_file
from airflow_provider_rlmm.plugins.rights import RightsDep, rights_of
from airflow_provider_rlmm.plugins.serving import readable_document, shell_of, shell_of_run, shown

_HEADERS = {
    # The pages need one style sheet, one script and this server, nothing else: what slips through the escaping stays
    # inert. No other page may frame them and lure a click.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_KEEP_FOR_GOOD = "public, max-age=31536000, immutable"
_CORRECT_THE_SETTING = "correct the setting in Airflow's configuration, section [rlmm], and start the API server again"
_LOOK_AT_IT = (
    "look at the file in the work folder: it was not written by this package, or by another version of it, or something "
    "wrote over it; run the task again to have it made anew"
)
_WHAT_TO_DO = {
    HTTPStatus.UNAUTHORIZED: "log in to Airflow, then open the link again",
    HTTPStatus.FORBIDDEN: "ask an administrator of Airflow for the permission to read the DAGs of remote logs",
    HTTPStatus.NOT_FOUND: "open the link of a task: it leads to what the task has written",
    HTTPStatus.TOO_MANY_REQUESTS: "wait until one of them has ended, or end one, then ask again",
}


def create_app() -> FastAPI:
    """Return the application; every page asks Airflow's auth manager for the right to read the DAG that it is about."""
    app = FastAPI(
        title="Remote log",
        dependencies=[Depends(rights_of)],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    # Without a login, as the page that asks for one needs its style, too; they tell nothing of anybody's cluster.
    app.add_route("/static/{name}", _static, include_in_schema=False)
    # Before the pages of single documents: of a plan the rows are shown, too.
    app.include_router(plan_routes.router)
    app.include_router(scrub_plan_routes.router)
    for page in DOCUMENT_PAGES:
        _add_routes(app, page)
    for routes in (cluster_routes, topic_routes, search_routes, run_routes):
        app.include_router(routes.router)
    app.add_middleware(_SecurityHeaders)
    app.add_middleware(BoundedAnswers)
    app.add_exception_handler(StarletteHTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _not_understood)
    app.add_exception_handler(ConfigurationError, _not_showable)
    app.add_exception_handler(DocumentError, _not_showable)
    app.add_exception_handler(Exception, _failed)
    return app


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC_FILES:
        raise HTTPException(HTTPStatus.NOT_FOUND, "no such file")
    headers = {"Cache-Control": _KEEP_FOR_GOOD if "v" in request.query_params else "no-cache"}
    return Response(static_file(name), headers=headers, media_type=STATIC_FILES[name])


def _add_routes(app: FastAPI, page: str) -> None:
    """Show a document by its name, as a page and as it was written."""

    def show(request: Request, rights: RightsDep, name: str) -> HTMLResponse:
        shown_as = DOCUMENT_PAGES[page]
        document = readable_document(rights, name, shown_as.file)
        shell = shell_of_run(request, name, document.get("cluster_id"))
        with shown(name, shown_as.file):
            return HTMLResponse(shown_as.show(name, document, shell))

    def show_json(rights: RightsDep, name: str) -> Response:
        # ASCII only: no mark of direction reaches the reader.
        return Response(
            json.dumps(readable_document(rights, name, DOCUMENT_PAGES[page].file)), media_type="application/json"
        )

    app.add_api_route(f"/{page}/{{name}}", show, response_class=HTMLResponse)
    app.add_api_route(f"/{page}/{{name}}/json", show_json)


def _refused(request: Request, error: Exception) -> Response:
    """Answer what was refused, with a page or, where JSON was asked for, with JSON."""
    error = cast("StarletteHTTPException", error)
    status = HTTPStatus(error.status_code)
    return _failure(request, status, str(error.detail), _WHAT_TO_DO.get(status, _LOOK_AT_IT), error.headers)


def _not_understood(request: Request, error: Exception) -> Response:
    """Answer an address with a page number, a state or a text that no list has."""
    wrong = ", ".join(str(e["loc"][-1]) for e in cast("RequestValidationError", error).errors())
    what = f"the address asks for something that there is not: {wrong}"
    return _failure(request, HTTPStatus.UNPROCESSABLE_ENTITY, what, "go back, and choose from the page", None)


def _not_showable(request: Request, error: Exception) -> Response:
    """Answer a setting or a document that cannot be used."""
    what_to_do = _CORRECT_THE_SETTING if isinstance(error, ConfigurationError) else _LOOK_AT_IT
    return _failure(request, HTTPStatus.UNPROCESSABLE_ENTITY, str(error), what_to_do, None)


def _failed(request: Request, error: Exception) -> Response:
    """Answer an unforeseen error; the error itself goes to the log only."""
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
    return HTMLResponse(error_page(status, what, what_to_do, shell_of(request)), status, everything)


class _SecurityHeaders:
    """Puts the headers on every answer that the application makes, redirects and refusals included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update({name: value for name, value in _HEADERS.items() if name != "Cache-Control"})
                headers.setdefault("Cache-Control", _HEADERS["Cache-Control"])
            await send(message)

        await self._app(scope, receive, send_with_headers)
