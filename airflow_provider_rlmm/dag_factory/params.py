# SPDX-License-Identifier: Apache-2.0
"""Parameters that several DAGs have, as the form of *Trigger DAG* shows them."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

from airflow_provider_rlmm.connection_ids import DEFAULT_CONN_ID
from airflow_provider_rlmm.core.base.declarations import Declared, Share, Whole
from airflow_provider_rlmm.core.base.values import MAX_INTEGER
from airflow_provider_rlmm.core.plans import limits
from airflow_provider_rlmm.core.plans.approval import ApprovalLimits
from airflow_provider_rlmm.core.plans.guards import DEFAULT_BATCH_SEGMENTS, MAX_BATCH_SEGMENTS, OVERRIDES
from airflow_provider_rlmm.operators.approval import DEFAULT_RESPONSE_TIMEOUT
from airflow_provider_rlmm.settings import connections

WHAT = "What to do"
PACE = "How fast, and when"
LIMITS = "Limits"
PROTECTIONS = "Protections"
APPROVAL = "Approval"
SPARK = "Spark"

DURATION: Any = {"type": ["string", "integer"], "pattern": r"^ *(\d+ *(d|h|min|s|ms) *)+$|^ *\d+ *$", "minimum": 0}
"""A duration in words, or ms."""

LIMITS_OF_A_DELETION = {
    "batch_segments": "{{ params.batch_segments }}",
    "overrides": "{{ params.overrides }}",
    "objects_per_second": "{{ params.objects_per_second }}",
    "deletion_window": "{{ params.deletion_window }}",
}

APPROVE_ABOVE = {
    "approve_above_segments": "{{ params.approve_above_segments }}",
    "approve_above_bytes": "{{ params.approve_above_bytes }}",
}

RADIUS = {
    "max_segments": "{{ params.max_segments }}",
    "max_bytes": "{{ params.max_bytes }}",
    "max_share": "{{ params.max_share }}",
}


def of(declared: Declared[Any], section: str, sentence: str | None = None) -> dict[str, Param]:
    """
    Return the parameter of a declared value, by its name.

    :param declared: the value.
    :param section: of the form.
    :param sentence: what it means in this DAG; ``None``: what it means everywhere.
    """
    schema = _schema(declared)
    if declared.default is None:
        schema["type"] = ["null", schema["type"]]
    said = declared.sentence if sentence is None else sentence
    return {declared.name: Param(declared.default, title=declared.title, section=section, description=said, **schema)}


def _schema(declared: Declared[Any]) -> dict[str, Any]:
    """Return the JSON schema of a declared value, as far as its kind says it."""
    match declared.kind:
        case Whole(minimum, maximum):
            return {"type": "integer", "minimum": minimum} | ({} if maximum == MAX_INTEGER else {"maximum": maximum})
        case Share():
            return {"type": "number", "minimum": 0, "maximum": 1}


def of_connection(conn_id: str) -> dict[str, Param]:
    """
    Return the parameter that names the connection: a DAG works for its own, whatever a run is given.

    The DAGs of ``rlmm_default`` take any connection that has no DAGs of its own.

    :param conn_id: the DAG's connection.
    """
    allowed: dict[str, Any] = {"enum": [conn_id]}
    said = f"Connection of type rlmm; this DAG works for {conn_id} alone"
    if conn_id == DEFAULT_CONN_ID:
        others, said = [c for c in connections() if c != conn_id], "Connection of type rlmm"
        allowed = {"not": {"enum": others}} if others else {}
    return {
        "rlmm_conn_id": Param(conn_id, type="string", title="Connection", section=WHAT, description=said, **allowed)
    }


def of_deletion(batch: str) -> dict[str, Param]:
    """
    Return how much is deleted at once, how fast, when, and which topics and protections are left out.

    :param batch: what ``batch_segments`` means.
    """
    return {
        "batch_segments": Param(
            DEFAULT_BATCH_SEGMENTS,
            type="integer",
            title="Segments per batch",
            section=PACE,
            minimum=1,
            maximum=MAX_BATCH_SEGMENTS,
            description=batch,
        ),
        "objects_per_second": Param(
            None,
            type=["null", "integer"],
            title="Objects per second",
            section=PACE,
            minimum=1,
            description="The most that each cleaning task deletes; empty: as many as the store allows",
        ),
        "deletion_window": Param(
            None,
            type=["null", "string"],
            title="Time of day",
            section=PACE,
            examples=["22:00-06:00 Europe/Berlin"],
            description="Time of day at which deletion may run; what is left then is for the next run; empty: any",
        ),
        "hold": Param(
            [],
            type="array",
            title="Topics on hold",
            section=WHAT,
            items={"type": "string"},
            description="Topics that this run must not touch: names, patterns with * and ?, topic ids; see the connection",
        ),
        "overrides": Param(
            [],
            type="array",
            title="Protections to switch off",
            section=PROTECTIONS,
            items={"type": "string", "enum": sorted(OVERRIDES)},
            examples=sorted(OVERRIDES),
            values_display=OVERRIDES,
            description="Named overrides; they need expected_cluster_id in the connection",
        ),
    }


def of_approval() -> dict[str, Param]:
    """Return from which size on a person is asked before a real run deletes, and for how long an answer is waited for."""
    return {
        "approve_above_segments": Param(
            ApprovalLimits().approve_above_segments,
            type="integer",
            title="Ask above this many segments",
            section=APPROVAL,
            minimum=0,
            description="A real run with a larger plan asks a person before it deletes",
        ),
        "approve_above_bytes": Param(
            ApprovalLimits().approve_above_bytes,
            type="integer",
            title="Ask above this many bytes",
            section=APPROVAL,
            minimum=0,
            description="A real run with a larger plan asks a person before it deletes",
        ),
        "answer_within": Param(
            DEFAULT_RESPONSE_TIMEOUT,
            **DURATION,
            title="Wait for an answer",
            section=APPROVAL,
            description="No answer within this time is a rejection, such as 18 h; never beyond the plan's expiry",
        ),
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
    Return whether a run only says what it would do, which is on unless somebody switches it off.

    :param description: what is only said.
    """
    return {"dry_run": Param(True, type="boolean", title="Dry run", section=WHAT, description=description)}


def of_lost_records() -> dict[str, Param]:
    """Return which lost records a person confirms, by the names that refusals give them."""
    return {
        "confirm_lost_records": Param(
            [],
            type="array",
            title="Lost records confirmed",
            section=PROTECTIONS,
            items={"type": "string", "pattern": r"^\d+@\d+$"},
            description="Go on without records that earlier runs had read and the log has lost: 3@24, as the refusal says",
        ),
        "confirm_metadata_topic_id": Param(
            None,
            type=["null", "string"],
            title="New metadata topic confirmed",
            section=PROTECTIONS,
            description="Go on though the metadata topic was deleted and made anew: its new id, as the refusal says",
        ),
    }
