# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_rlmm.errors import PlanError
from airflow_provider_rlmm.policy.plan import PLAN_COLUMNS, Count, PlanSummary, Reason

SUMMARY = PlanSummary(
    plan_id="p-1",
    cluster_id="cluster",
    created_at_ms=1,
    expires_at_ms=2,
    read_until={0: 10, 4: 0},
    known=Count(5, 500),
    by_reason={Reason.ORPHANED: Count(2, 200), Reason.DANGLING: Count(1, 7)},
    by_metadata_partition={0: Count(3, 207)},
    quarantined={4: 1},
    unresolved=3,
)


def test_json_round_trip() -> None:
    assert PlanSummary.from_json(SUMMARY.to_json()) == SUMMARY


def test_planned_is_the_sum_of_all_reasons() -> None:
    assert SUMMARY.planned == Count(3, 207)


def test_column_names_are_unique_and_end_with_the_verdict() -> None:
    names = [name for name, _ in PLAN_COLUMNS]
    assert len(set(names)) == len(names)
    assert names[-2:] == ["reason", "exact"]


@pytest.mark.parametrize(
    "changes",
    [{"known": 5}, {"known": {"segments": 1}}, {"read_until": {"zero": 1}}, {"by_reason": []}, {"quarantined": None}],
)
def test_bad_documents_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match="make a new plan"):
        PlanSummary.from_json(json.dumps({**json.loads(SUMMARY.to_json()), **changes}))


@pytest.mark.parametrize("text", ["", "[]", "{}", "7"])
def test_other_documents_are_refused(text: str) -> None:
    with pytest.raises(PlanError, match="make a new plan"):
        PlanSummary.from_json(text)
