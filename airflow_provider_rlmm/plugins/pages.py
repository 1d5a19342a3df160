# SPDX-License-Identifier: Apache-2.0
"""Plans, reports and diagnoses as HTML: pure functions from documents to pages, everything escaped by the template engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.lifecycle.report_form import check_report
from airflow_provider_rlmm.policy.plan import PlanSummary, Reason
from airflow_provider_rlmm.policy.refusals import RefusalKind

if TYPE_CHECKING:
    from jinja2 import Environment

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
    """
    template = _environment().get_template("doctor.html")
    return template.render(name=name, diagnosis=document)


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
    Return a time for people, in UTC.

    :param value: ms since the epoch.
    """
    return datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


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


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("airflow_provider_rlmm.plugins"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["needing_a_person"] = lambda kind: RefusalKind(kind).needs_person
    environment.filters |= {
        "bytes": human_bytes,
        "time": human_time,
        "duration": human_duration,
        "number": lambda value: f"{value:,}",
        "json": json.dumps,
        "words": lambda value: str(value).replace("_", " "),
    }
    return environment
