# SPDX-License-Identifier: Apache-2.0
"""``docs/reports.md`` names every field, kind and count that a report can have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.runs.attention import FIELDS, Attention, RunProblem, judge
from airflow_provider_rlmm.features.cleanup.report_document import Stopped, cleanup_report
from airflow_provider_rlmm.features.cleanup.reports import (
    MetadataPartitionReport,
    PartitionOutcome,
    UserPartitionReport,
)

PAGE = (Path(__file__).parents[2] / "docs" / "reports.md").read_text()
TIP = TopicIdPartition(UUID(int=7), "orders", 0)


def names(value: Any) -> Iterator[str]:
    """Every field of a document, however deep."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield name
            yield from names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from names(inner)


def test_the_page_names_every_field() -> None:
    refusal = Refusal("what", "why", "what to do", RefusalKind.NEXT_RUN)
    part = MetadataPartitionReport(
        0, False, (UserPartitionReport.refused(TIP, 1, refusal),), (refusal,), {}, (), None, 1
    )
    for dry_run in (False, True):
        report = cleanup_report(
            report_id="r", plan_id="p", cluster_id="c", created_at_ms=1, dry_run=dry_run, parts=[part],
            judgement=judge([Attention("QUARANTINED", "w", "w", "w", "t", 1, 2)], [], "c", 1), not_planned=[refusal],
            stopped=Stopped("", "", Count(1, 1)),
        )  # fmt: skip
        assert not {name for name in names(report.to_dict()) if f"`{name}`" not in PAGE}


def test_the_page_names_every_kind_and_every_field_of_an_acknowledgement() -> None:
    passing = {kind for kind in RefusalKind if not kind.needs_person}
    kinds = {*RunProblem, *RefusalKind, *PartitionOutcome} - passing
    assert not {kind.value for kind in kinds if f"`{kind.value}`" not in PAGE}
    assert not {name for name in FIELDS if f"`{name}`" not in PAGE}
