# SPDX-License-Identifier: Apache-2.0
"""Parameters that several DAGs have, as the form of *Trigger DAG* shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from airflow.sdk import Param

from airflow_provider_rlmm.connection_ids import DEFAULT_CONN_ID
from airflow_provider_rlmm.core.base.declarations import (
    Declared,
    Duration,
    Flag,
    Names,
    Share,
    Text,
    Texts,
    Whole,
    Written,
)
from airflow_provider_rlmm.core.base.values import MAX_INTEGER, duration_text
from airflow_provider_rlmm.core.plans import limits
from airflow_provider_rlmm.core.runs import run_parameters
from airflow_provider_rlmm.settings import connections

WHAT = "Run Parameters"
"""The section that Airflow's form shows open, by this very name; it folds all others (3.0 to 3.3)."""

PACE = "How fast, and when"
LIMITS = "Limits"
PROTECTIONS = "Protections"
APPROVAL = "Approval"
SPARK = "Spark"

DURATION: Any = {"type": ["string", "integer"], "pattern": r"^ *(\d+ *(d|h|min|s|ms) *)+$|^ *\d+ *$", "minimum": 0}
"""A duration in words, or ms."""


def of(declared: Declared[Any], section: str | None, sentence: str | None = None, **named: Any) -> dict[str, Param]:
    """
    Return the parameter of a declared value, by its name.

    :param declared: the value.
    :param section: of the form, ``None`` for the first, which has no name.
    :param sentence: what it means in this DAG; ``None``: what it means everywhere. The form adds how it is written.
    :param named: what Airflow is told in place of what is declared.
    """
    value, schema, how = _form_of(declared)
    if declared.default is None:
        schema["type"] = ["null", schema["type"]]
    if section is not None:
        schema["section"] = section
    absent = f"; empty: {declared.absent}" if declared.absent else ""
    said = f"{declared.sentence if sentence is None else sentence}{how}{absent}"
    return {declared.name: Param(value, **{"title": declared.title, "description": said, **schema, **named})}


def _form_of(declared: Declared[Any]) -> tuple[Any, dict[str, Any], str]:
    """Return what the form shows at first, the JSON schema, and what is said of how the value is written."""
    match declared.kind:
        case Whole(minimum, maximum, unit):
            most = {} if maximum == MAX_INTEGER else {"maximum": maximum}
            how = f", {unit}" if unit == "ms" else ""
            return declared.default, {"type": "integer", "minimum": minimum, **most}, how
        case Duration(minimum):
            words = duration_text(declared.default)
            least = f", {duration_text(minimum)} or more" if minimum else ""
            return words, DURATION | {"minimum": minimum}, f", such as {words}{least}; a number is ms"
        case Share():
            return declared.default, {"type": "number", "minimum": 0, "maximum": 1}, ""
        case Flag():
            return declared.default, {"type": "boolean"}, ""
        case Text(words):
            return declared.default, {"type": "string", **({"enum": list(words)} if words else {})}, ""
        case Names(known):
            meant = {"values_display": known} if isinstance(known, Mapping) else {}
            items = {"type": "string", "enum": sorted(known)}
            return sorted(declared.default), {"type": "array", "items": items, "examples": sorted(known), **meant}, ""
        case Texts(pattern=pattern):
            of_each = {"type": "string"} | ({"pattern": pattern} if pattern else {})
            return list(declared.default), {"type": "array", "items": of_each}, ""
        case Written():
            examples = {"examples": [declared.example]} if declared.example else {}
            return declared.default, {"type": "string", **examples}, ""


def filled_in(declared: Iterable[Declared[Any]]) -> dict[str, str]:
    """
    Return the templates that fill parameters into an operator's mapping of limits.

    :param declared: fields of the mapping.
    """
    return {field.name: f"{{{{ params.{field.name} }}}}" for field in declared}


APPROVE_ABOVE = filled_in(limits.APPROVAL)
RADIUS = filled_in(limits.BLAST_RADIUS)


def of_connection(conn_id: str) -> dict[str, Param]:
    """
    Return the parameter that names the connection: a DAG works for its own, over what a run is given.

    The DAGs of ``rlmm_default`` take any connection that has no DAGs of its own.
    """
    allowed: dict[str, Any] = {"enum": [conn_id]}
    said = f"Connection of type rlmm; this DAG works for {conn_id} alone"
    if conn_id == DEFAULT_CONN_ID:
        others, said = [c for c in connections() if c != conn_id], "Connection of type rlmm"
        allowed = {"not": {"enum": others}} if others else {}
    return {
        "rlmm_conn_id": Param(conn_id, type="string", title="Connection", section=WHAT, description=said, **allowed)
    }


def of_deletion(batch: str | None = None) -> dict[str, Param]:
    """
    Return how much is deleted at once, how fast, when, and which topics and protections are left out.

    :param batch: what ``batch_segments`` means, if it is not what it means to the cleaner.
    """
    window = f"{limits.DELETION_WINDOW.sentence}; what is left then is for the next run"
    return {
        **of(limits.BATCH_SEGMENTS, PACE, batch),
        **of(limits.OBJECTS_PER_SECOND, PACE),
        **of(limits.DELETION_WINDOW, PACE, window),
        **of(run_parameters.ONLY, WHAT),
        **of(run_parameters.HOLD, WHAT),
        **of(limits.NAMED_OVERRIDES, PROTECTIONS),
    }


def of_approval() -> dict[str, Param]:
    """Return from which size on a person is asked before a real run deletes, and for how long an answer is waited for."""
    return {
        **of(limits.APPROVE_ABOVE_SEGMENTS, APPROVAL),
        **of(limits.APPROVE_ABOVE_BYTES, APPROVAL),
        **of(run_parameters.ANSWER_WITHIN, APPROVAL),
    }


def of_blast_radius(segments: str | None = None, share: str | None = None) -> dict[str, Param]:
    """
    Return the most that one run may delete.

    :param segments: what ``max_segments`` means, if it is not what it means to the cleaner.
    :param share: what ``max_share`` means, likewise.
    """
    return {
        **of(limits.MAX_SEGMENTS, LIMITS, segments),
        **of(limits.MAX_BYTES, LIMITS),
        **of(limits.MAX_SHARE, LIMITS, share),
    }


def of_dry_run(description: str) -> dict[str, Param]:
    """
    Return whether a run only says what it would do, which is on unless a user switches it off.

    :param description: what is only said.
    """
    return {"dry_run": Param(True, type="boolean", title="Dry run", section=WHAT, description=description)}


def of_lost_records() -> dict[str, Param]:
    """Return which lost records a person confirms, by the names that refusals give them."""
    return {
        **of(run_parameters.CONFIRM_LOST_RECORDS, PROTECTIONS),
        **of(run_parameters.CONFIRM_METADATA_TOPIC_ID, PROTECTIONS),
    }
