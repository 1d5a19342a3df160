# SPDX-License-Identifier: Apache-2.0
"""The web application behind the links: one page and one JSON document per plan, report and diagnosis."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import HTMLResponse, JSONResponse
from jinja2 import TemplateError

from airflow_provider_rlmm.errors import ConfigurationError, PlanError, RlmmError
from airflow_provider_rlmm.lifecycle.plan_files import read_document
from airflow_provider_rlmm.plugins.pages import doctor_page, plan_page, report_page
from airflow_provider_rlmm.settings import artifact_uri

PLAN_DOCUMENT = "summary.json"
REPORT_DOCUMENT = "report.json"
DOCTOR_DOCUMENT = "doctor.json"

_HEADERS = {
    # The pages need one inline style sheet and nothing else: whatever slips through the escaping stays inert.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
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
    app.add_api_route("/plans/{name}", show_plan, response_class=HTMLResponse)
    app.add_api_route("/plans/{name}/json", plan_json)
    app.add_api_route("/reports/{name}", show_report, response_class=HTMLResponse)
    app.add_api_route("/reports/{name}/json", report_json)
    app.add_api_route("/doctor/{name}", show_diagnosis, response_class=HTMLResponse)
    app.add_api_route("/doctor/{name}/json", diagnosis_json)
    return app


def show_plan(name: str) -> HTMLResponse:
    """
    Show the summary of a plan.

    :param name: name of the plan.
    """
    return HTMLResponse(_rendered(plan_page, name, PLAN_DOCUMENT), headers=_HEADERS)


def show_report(name: str) -> HTMLResponse:
    """
    Show a report.

    :param name: name of the report.
    """
    return HTMLResponse(_rendered(report_page, name, REPORT_DOCUMENT), headers=_HEADERS)


def show_diagnosis(name: str) -> HTMLResponse:
    """
    Show what the doctor found.

    :param name: name of the diagnosis.
    """
    return HTMLResponse(_rendered(doctor_page, name, DOCTOR_DOCUMENT), headers=_HEADERS)


def plan_json(name: str) -> JSONResponse:
    """
    Return the summary of a plan as it was written.

    :param name: name of the plan.
    """
    return JSONResponse(_document(name, PLAN_DOCUMENT), headers=_HEADERS)


def report_json(name: str) -> JSONResponse:
    """
    Return a report as it was written.

    :param name: name of the report.
    """
    return JSONResponse(_document(name, REPORT_DOCUMENT), headers=_HEADERS)


def diagnosis_json(name: str) -> JSONResponse:
    """
    Return what the doctor found as it was written.

    :param name: name of the diagnosis.
    """
    return JSONResponse(_document(name, DOCTOR_DOCUMENT), headers=_HEADERS)


def _rendered(page: Callable[[str, Mapping[str, Any]], str], name: str, file: str) -> str:
    document = _document(name, file)
    try:
        return page(name, document)
    except (RlmmError, TemplateError, LookupError, TypeError, ValueError, AttributeError) as e:
        raise HTTPException(422, f"{file} of {name} does not have the expected form ({type(e).__name__})") from e


def _document(name: str, file: str) -> dict[str, Any]:
    try:
        document = json.loads(read_document(artifact_uri(name), file))
    except ConfigurationError as e:
        raise HTTPException(404, "no such document") from e
    except PlanError as e:
        raise HTTPException(404, f"{name} has no {file} below [rlmm] work_uri, or not yet") from e
    except ValueError as e:
        raise HTTPException(422, f"{file} of {name} is not JSON") from e
    if not isinstance(document, dict):
        raise HTTPException(422, f"{file} of {name} is not a JSON object")
    return document
