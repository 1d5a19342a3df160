# SPDX-License-Identifier: Apache-2.0
"""The plan that is made from a scrub: which objects may go, written down before anything is deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.guards import BlastRadius
from airflow_provider_rlmm.core.plans.plan import PlanFile
from airflow_provider_rlmm.core.plans.plan_files import PlannedTopic, parquet_bytes, read_document
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.features.scrub.scrub_files import read_scrub, read_table, write_pair
from airflow_provider_rlmm.features.scrub.scrub_plan import (
    SCRUB_PLAN_DOCUMENT,
    SCRUB_PLAN_FORM,
    SCRUB_PLAN_TABLE,
    Choice,
    Chosen,
    ScrubPlan,
)
from airflow_provider_rlmm.features.scrub.scrub_summary import Amount, ScrubSummary

if TYPE_CHECKING:
    import pyarrow as pa


def plan_scrub(
    uri: str, choice: Choice, *, cluster_id: str, now_ms: int, expires_in_ms: int, blast_radius: BlastRadius, clock: str
) -> ScrubPlan:
    """
    Make a plan from the scrub of the same run, and write it beside it.

    :param uri: of the run's folder.
    :param choice: by what rules; time and places are those of the scrub.
    :param cluster_id: the connected cluster.
    :param now_ms: ms since the epoch.
    :param expires_in_ms: for how long it may be applied, ms.
    :param blast_radius: the limit that it is judged by.
    :param clock: which clock was used and how it was proven, in words.
    :raises PlanError: if there is no scrub, or one of another cluster.
    :raises OSError: if the plan cannot be written.
    """
    summary, rows = read_scrub(uri)
    if summary.cluster_id != cluster_id:
        raise PlanError(
            f"scrub {summary.scrub_id} is of cluster {summary.cluster_id!r}, this is {cluster_id!r}; scrub again"
        )
    scrubbed_at_ms = summary.began_at_ms if summary.time_is_proven else None
    listed_whole = not summary.incomplete
    chosen = replace(
        choice, places=verified_places(summary), scrubbed_at_ms=scrubbed_at_ms, listed_whole=listed_whole
    ).of(rows)
    data = parquet_bytes(chosen.rows)
    planned = Count(_segments(chosen.rows), _amount(chosen.rows).bytes)
    known = Count(summary.listed_segments, summary.listed.bytes)
    plan = ScrubPlan(
        plan_id=summary.scrub_id,
        scrub_sha256=summary.file.sha256,
        cluster_id=cluster_id,
        metadata_topic_id=summary.metadata_topic_id,
        created_at_ms=now_ms,
        expires_at_ms=now_ms + expires_in_ms,
        clock=clock,
        min_unreferenced_ms=choice.limits.min_unreferenced_ms,
        sole_owner=choice.sole_owner,
        classes=_classes(chosen),
        planned=planned,
        known=known,
        waiting=chosen.waiting,
        barred=chosen.barred,
        held=chosen.held,
        elsewhere=chosen.elsewhere,
        left_for_later=chosen.left_for_later,
        hold=choice.hold.entries,
        root=summary.root,
        era=summary.era,
        blast_radius=blast_radius,
        file=PlanFile.of(SCRUB_PLAN_TABLE, chosen.rows.num_rows, data),
    ).judged_by(blast_radius)
    write_pair(uri, (SCRUB_PLAN_DOCUMENT, plan.to_json()), (SCRUB_PLAN_TABLE, data))
    return plan


def read_scrub_plan(uri: str) -> tuple[ScrubPlan, pa.Table]:
    """
    Read a plan that was made from a scrub.

    :param uri: of the run's folder.
    :raises PlanError: if there is none, or it is not as it was written.
    """
    plan = ScrubPlan.from_json(read_document(uri, SCRUB_PLAN_DOCUMENT, SCRUB_PLAN_FORM.max_bytes))
    rows = read_table(uri, plan.file)
    if _segments(rows) != plan.planned.segments or _amount(rows).bytes != plan.planned.bytes:
        raise PlanError(f"plan {plan.plan_id} says other segments and bytes than its table has; scrub again")
    return plan, rows


def topics_of(rows: pa.Table) -> list[PlannedTopic]:
    """
    Return the topics whose objects a plan names, the largest first.

    :param rows: its table.
    """
    found: dict[tuple[str, bytes], list[Mapping[str, Any]]] = {}
    for row in rows.to_pylist():
        found.setdefault((row["topic"], row["topic_id"]), []).append(row)
    topics = [
        PlannedTopic(
            topic,
            kafka_uuid_str(UUID(bytes=topic_id)),
            len({(row["partition"], row["segment_id"]) for row in objects}),
            sum(row["bytes"] for row in objects),
            min(row["last_modified_ms"] for row in objects),
        )
        for (topic, topic_id), objects in found.items()
    ]
    return sorted(topics, key=lambda topic: (-topic.bytes, topic.topic, topic.topic_id))


def verified_places(summary: ScrubSummary) -> frozenset[str]:
    """
    Return the names of the places that a scrub has seen to be the cluster's.

    :param summary: of the scrub.
    """
    return frozenset(place["place"] for place in summary.root.get("places", ()) if place["verified"])


def _classes(chosen: Chosen) -> Mapping[str, Amount]:
    import pyarrow.compute as pc

    rows = chosen.rows
    return {kind: _amount(rows.filter(pc.equal(rows["class"], kind))) for kind in pc.unique(rows["class"]).to_pylist()}


def _amount(rows: pa.Table) -> Amount:
    import pyarrow.compute as pc

    return Amount(rows.num_rows, pc.sum(rows["bytes"]).as_py() or 0)


def _segments(rows: pa.Table) -> int:
    names = ["topic_id", "partition", "segment_id"]
    return int(rows.group_by(names).aggregate([]).num_rows)
