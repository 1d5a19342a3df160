# SPDX-License-Identifier: Apache-2.0
"""
Plans, reports and diagnoses as HTML: pure functions from documents to pages.

The form of a document is checked first. The template engine escapes everything, and no text brings a line break, a mark of
direction or a control character along.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from airflow_provider_rlmm.lifecycle.reports import check_report
from airflow_provider_rlmm.plugins.diagnosis_form import check_diagnosis
from airflow_provider_rlmm.policy.plan import PlanSummary, Reason
from airflow_provider_rlmm.policy.refusals import RefusalKind
from airflow_provider_rlmm.quoting import name_in_text, printable

if TYPE_CHECKING:
    from jinja2 import Environment

_MAX_TEXT = 4_000

REASONS = {
    Reason.ORPHANED: "the topic no longer exists",
    Reason.DANGLING: "copy or deletion never finished",
    Reason.LOG_START_OFFSET: "below the log start offset",
    Reason.RETENTION_MS: "older than retention.ms",
    Reason.RETENTION_BYTES: "beyond retention.bytes",
}
"""Why a segment is in a plan, in the words of the page."""


def plan_page(name: str, document: Mapping[str, Any]) -> str:
    """
    Return the page of a plan.

    :param name: name of the plan.
    :param document: its summary (:class:`~airflow_provider_rlmm.policy.plan.PlanSummary`).
    :raises PlanError: if the summary cannot be read.
    """
    plan = PlanSummary.from_json(json.dumps(document))
    template = _environment().get_template("plan.html")
    return template.render(name=name, plan=plan, reasons=REASONS, partitions=sorted(plan.read_until))


def report_page(name: str, document: Mapping[str, Any]) -> str:
    """
    Return the page of a cleanup report.

    :param name: name of the report.
    :param document: as :func:`~airflow_provider_rlmm.lifecycle.run_report.report_of_run` made it.
    :raises ValueError: if it does not have the form of a report.
    """
    check_report(document)
    template = _environment().get_template("report.html")
    return template.render(name=name, report=document)


def doctor_page(name: str, document: Mapping[str, Any]) -> str:
    """
    Return the page of what the doctor found.

    :param name: name of the diagnosis.
    :param document: what :meth:`~airflow_provider_rlmm.policy.findings.Diagnosis.to_dict` returned.
    :raises ValueError: if it does not have the form of a diagnosis.
    """
    check_diagnosis(document)
    template = _environment().get_template("doctor.html")
    return template.render(name=name, diagnosis=document)


def error_page(status: HTTPStatus, what: str, what_to_do: str) -> str:
    """
    Return the page that stands in the place of another.

    :param status: what kind of failure it is.
    :param what: what is wrong.
    :param what_to_do: what a reader can do about it.
    """
    template = _environment().get_template("error.html")
    return template.render(status=status.value, title=status.phrase, what=what, what_to_do=what_to_do)


def human_bytes(value: int) -> str:
    """
    Return a number of bytes for people, such as ``1.5 MiB``.

    :param value: bytes.
    """
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(amount) < 1024:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} PiB"


def human_time(value: int) -> str:
    """
    Return a time for people, in UTC; a number that is no time of this calendar stays one.

    :param value: ms since the epoch.
    """
    try:
        return datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{value} ms"


def human_duration(value: int) -> str:
    """
    Return a duration for people, such as ``3 min 20 s``.

    :param value: ms.
    """
    if value < 60_000:
        return f"{value / 1000:.1f} s"
    minutes, seconds = divmod(round(value / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def _visible(value: Any) -> Any:
    """Return what an expression of a template said as it may be shown; the templates' own markup stays as it is."""
    return printable(value, _MAX_TEXT) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("airflow_provider_rlmm.plugins"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["needing_a_person"] = lambda kind: RefusalKind(kind).needs_person
    environment.filters |= {
        "bytes": human_bytes,
        "time": human_time,
        "duration": human_duration,
        "topic": name_in_text,
        "number": lambda value: f"{value:,}",
        "json": json.dumps,
        "words": lambda value: str(value).replace("_", " "),
    }
    return environment
