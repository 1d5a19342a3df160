# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from typing import Any

import pytest

from airflow_provider_rlmm.errors import BlastRadiusError, ClusterMismatchError, ConfigurationError
from airflow_provider_rlmm.policy.freshness import MISSING_LIVING_SEGMENTS, UNPROVEN_ROOT
from airflow_provider_rlmm.policy.guards import (
    DEFAULT_MIN_ABSENCE_MS,
    OVERRIDES,
    BlastRadius,
    CleanerLimits,
    check_cluster,
)
from airflow_provider_rlmm.policy.plan import Count, PlanSummary
from airflow_provider_rlmm.policy.unseen import SETTLE_CHANGED_PREFIX, SETTLE_MISSING
from airflow_provider_rlmm.storage.root import MOVE_STAMP

NONE: frozenset[str] = frozenset()
SHORT = frozenset({"short_min_absence"})


def test_min_absence_is_a_day_by_default() -> None:
    assert CleanerLimits().min_absence_ms == DEFAULT_MIN_ABSENCE_MS == 86_400_000


@pytest.mark.parametrize("limits", [{"min_absence_ms": -1}, {"batch_segments": 0}, {"max_missing_segments": -1}])
def test_a_limit_out_of_range_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="must be 0 or more, batch_segments 1 or more"):
        CleanerLimits(**limits, overrides=SHORT)  # type: ignore[arg-type]  # one name at a time


def test_the_smallest_limits_are_allowed() -> None:
    limits = CleanerLimits(min_absence_ms=0, batch_segments=1, max_missing_segments=0, overrides=SHORT)
    assert limits.max_missing_segments == 0


def test_overrides_that_messages_name_are_known() -> None:
    named = {MOVE_STAMP, MISSING_LIVING_SEGMENTS, UNPROVEN_ROOT, SETTLE_MISSING, SETTLE_CHANGED_PREFIX}
    assert CleanerLimits(overrides=frozenset(named)).overrides == named


def test_an_unknown_override_is_refused_and_the_known_ones_named() -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"['yolo']; known are {sorted(OVERRIDES)}")):
        CleanerLimits(overrides=frozenset({"yolo", "settle_missing"}))


@pytest.mark.parametrize("overrides", [NONE, frozenset({"settle_missing"})])
def test_a_short_min_absence_needs_its_own_override(overrides: frozenset[str]) -> None:
    with pytest.raises(ConfigurationError, match="needs the override 'short_min_absence'"):
        CleanerLimits(min_absence_ms=DEFAULT_MIN_ABSENCE_MS - 1, overrides=overrides)


@pytest.mark.parametrize(
    ("expected", "overrides"), [("here", NONE), ("here", SHORT), (None, NONE), ("", NONE)], ids=repr
)
def test_the_right_cluster_passes(expected: str | None, overrides: frozenset[str]) -> None:
    assert check_cluster("here", expected, overrides) is None  # type: ignore[func-returns-value]  # it does not raise


@pytest.mark.parametrize("overrides", [NONE, SHORT])
def test_another_cluster_is_refused(overrides: frozenset[str]) -> None:
    with pytest.raises(ClusterMismatchError, match="connected to cluster 'here', expected 'there'"):
        check_cluster("here", "there", overrides)


@pytest.mark.parametrize("expected", [None, ""])
def test_an_override_without_an_expected_cluster_is_refused(expected: str | None) -> None:
    with pytest.raises(ConfigurationError, match=r"\['short_min_absence'\] need expected_cluster_id"):
        check_cluster("here", expected, SHORT)


def summary(planned: Count, known: int) -> PlanSummary:
    return PlanSummary("plan-1", "c", 0, 1, {}, Count(known, 0), {"ORPHANED": planned}, {}, {}, 0)


LIMITS = {"max_segments": 10, "max_bytes": 1_000, "max_share": 0.5}


@pytest.mark.parametrize(
    ("planned", "known"), [(Count(10, 1_000), 20), (Count(0, 0), 0)], ids=["at every limit", "nothing at all"]
)
def test_a_plan_within_its_limits_passes(planned: Count, known: int) -> None:
    within: Any = BlastRadius(**LIMITS).check(summary(planned, known))  # type: ignore[arg-type, func-returns-value]
    assert within is None


@pytest.mark.parametrize(
    ("planned", "known", "message"),
    [
        (Count(11, 1), 100, "11 of 100 segments, 1 bytes: max_segments is 11, the limit 10"),
        (Count(1, 1_001), 100, "max_bytes is 1001, the limit 1000"),
        (Count(6, 1), 10, "max_share is 0.6, the limit 0.5"),
    ],
)
def test_a_plan_beyond_a_limit_is_stopped_by_the_limit_s_name(planned: Count, known: int, message: str) -> None:
    with pytest.raises(BlastRadiusError) as error:
        BlastRadius(**LIMITS).check(summary(planned, known))  # type: ignore[arg-type]  # the share is a float
    assert message in str(error.value)
    assert "plan-1" in str(error.value)
