# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import BlastRadiusError, ClusterMismatchError, ConfigurationError
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.guards import BlastRadius, CleanerLimits, check_cluster
from airflow_provider_rlmm.core.plans.limits import MIN_ABSENCE, OVERRIDES
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.storage.hidden_copies import VERSIONED_BUCKET
from airflow_provider_rlmm.core.storage.root import MOVE_STAMP
from airflow_provider_rlmm.core.world.freshness import MISSING_LIVING_SEGMENTS, UNPROVEN_ROOT
from airflow_provider_rlmm.core.world.proven_time import UNPROVEN_CLOCK
from airflow_provider_rlmm.core.world.unseen import SETTLE_CHANGED_PREFIX, SETTLE_MISSING

NONE: frozenset[str] = frozenset()
SHORT = frozenset({"short_min_absence"})


def test_min_absence_is_a_day_by_default() -> None:
    assert CleanerLimits().min_absence_ms == MIN_ABSENCE.default == 86_400_000


WRONG_INTEGERS: list[Any] = [1.0, 1.5, True, "1", None, float("nan"), 10**400]


@pytest.mark.parametrize(
    ("limits", "allowed"),
    [
        *(({"min_absence_ms": wrong}, "an integer from 0 to 2^63 - 1") for wrong in (-1, *WRONG_INTEGERS)),
        *(({"batch_segments": wrong}, "an integer from 1 to 10000") for wrong in (0, 10_001, *WRONG_INTEGERS)),
        *(({"max_missing_segments": wrong}, "an integer from 0 to 2^63 - 1") for wrong in (-1, *WRONG_INTEGERS)),
        *(({"objects_per_second": wrong}, "an integer from 1 to 2^63 - 1") for wrong in (0, -1, 1.5, True, "1")),
        *(({"overrides": wrong}, "a list of at most 1000 names") for wrong in ("short_min_absence", {1}, None, 5)),
        *(({"allowed_quarantine": wrong}, "a list of at most 1000 names") for wrong in ("KEYED", {b"KEYED"}, {}, 5)),
    ],
    ids=repr,
)
def test_a_limit_out_of_range_is_refused(limits: dict[str, Any], allowed: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        CleanerLimits(**{"overrides": SHORT, **limits})
    assert f"{next(iter(limits))} must be {allowed}, not " in str(error.value)


@pytest.mark.parametrize("kind", ["GOOD", "keyed", "ANY"])
def test_an_unknown_kind_of_record_is_refused_and_the_known_ones_named(kind: str) -> None:
    known = (
        r"\['BEYOND_LIMITS', 'KEYED', 'MALFORMED', 'MISROUTED', 'NEWER_VERSION', 'SNAPSHOT', 'TOMBSTONE', "
        r"'UNKNOWN_API_KEY'\]"
    )
    with pytest.raises(ConfigurationError, match=rf"unknown allowed_quarantine \['{kind}'\]; known are {known}"):
        CleanerLimits(allowed_quarantine=frozenset({kind, "KEYED"}))


@pytest.mark.parametrize(
    ("limits", "allowed"),
    [
        *(({"max_segments": wrong}, "an integer from 0 to 2^63 - 1") for wrong in (-1, 2**63, *WRONG_INTEGERS)),
        *(({"max_bytes": wrong}, "an integer from 0 to 2^63 - 1") for wrong in (-1, *WRONG_INTEGERS)),
        *(
            ({"max_share": wrong}, "a number from 0 to 1")
            for wrong in (-0.1, 1.1, float("nan"), float("inf"), -float("inf"), True, "0.5", None, 10**400)
        ),
    ],
    ids=repr,
)
def test_a_blast_radius_out_of_range_is_refused(limits: dict[str, Any], allowed: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        BlastRadius(**limits)
    assert f"{next(iter(limits))} must be {allowed}, not " in str(error.value)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("share", [0, 0.0, 1, 1.0, 0.5])
def test_every_share_is_allowed(share: float) -> None:
    assert BlastRadius(0, 0, share).max_share == share


def test_the_smallest_limits_are_allowed() -> None:
    limits = CleanerLimits(min_absence_ms=0, batch_segments=1, max_missing_segments=0, overrides=SHORT)
    assert limits.max_missing_segments == 0


def test_overrides_that_messages_name_are_known() -> None:
    named = {MOVE_STAMP, MISSING_LIVING_SEGMENTS, UNPROVEN_ROOT, SETTLE_MISSING, SETTLE_CHANGED_PREFIX, UNPROVEN_CLOCK}
    named.add(VERSIONED_BUCKET)
    assert CleanerLimits(overrides=frozenset(named)).overrides == named


def test_an_unknown_override_is_refused_and_the_known_ones_named() -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"['yolo']; known are {sorted(OVERRIDES)}")):
        CleanerLimits(overrides=frozenset({"yolo", "settle_missing"}))


@pytest.mark.parametrize("overrides", [NONE, frozenset({"settle_missing"})])
def test_a_short_min_absence_needs_its_own_override(overrides: frozenset[str]) -> None:
    with pytest.raises(ConfigurationError, match="needs the override 'short_min_absence'"):
        CleanerLimits(min_absence_ms=MIN_ABSENCE.default - 1, overrides=overrides)


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
    with pytest.raises(
        ConfigurationError,
        match=r"\['short_min_absence'\] need .*set expected_cluster_id in the rlmm connection; .*the id",
    ):
        check_cluster("here", expected, SHORT)


def summary(planned: Count, known: int) -> PlanSummary:
    plan = PlanSummary(
        plan_id="plan-1", cluster_id="c", created_at_ms=0, expires_at_ms=1, read_until={}, known=Count(known, 0),
        by_reason={"ORPHANED": planned}, by_metadata_partition={}, quarantined={}, unresolved=0,
    )  # fmt: skip
    return plan.judged_by(BlastRadius(max_segments=10, max_bytes=1_000, max_share=0.5))


@pytest.mark.parametrize(
    ("planned", "known"), [(Count(10, 1_000), 20), (Count(0, 0), 0)], ids=["at every limit", "nothing at all"]
)
def test_a_plan_within_its_limits_passes(planned: Count, known: int) -> None:
    summary(planned, known).check_blast_radius()


@pytest.mark.parametrize(
    ("planned", "known", "message"),
    [
        (Count(11, 1), 100, "11 of 100 segments, 1 bytes: max_segments is 11, the limit 10"),
        (Count(1, 1_001), 100, "max_bytes is 1001 B, the limit 1000 B"),
        (Count(6, 1), 10, "max_share is 60 %, the limit 50 %"),
    ],
)
def test_a_plan_beyond_a_limit_is_stopped_by_the_limit_s_name(planned: Count, known: int, message: str) -> None:
    with pytest.raises(BlastRadiusError) as error:
        summary(planned, known).check_blast_radius()
    assert message in str(error.value)
    assert "plan-1" in str(error.value)


@pytest.mark.parametrize(
    ("planned", "known", "least"),
    [
        (Count(4, 1), 7, 'the parameter "max_share": 0.58 of the DAG'),
        (Count(57, 1), 100, 'the parameters "max_segments": 57, "max_share": 0.57 of the DAG'),
        (Count(1, 2_000), 100, 'the parameter "max_bytes": 2000 of the DAG'),
    ],
)
def test_a_refusal_names_the_least_limits_that_would_do(planned: Count, known: int, least: str) -> None:
    radius = BlastRadius(max_segments=10, max_bytes=1_000, max_share=0.5)
    assert least in radius.remedy(planned, Count(known, 10_000))
    with pytest.raises(BlastRadiusError, match=re.escape(least)):
        summary(planned, known).check_blast_radius()


@given(known=st.integers(1, 10**12), share=st.floats(0, 1))
def test_the_share_that_is_named_lets_the_plan_pass(known: int, share: float) -> None:
    planned, all_of_it = Count(max(1, int(known * share)), 1), Count(known, 1)
    if BlastRadius(max_segments=2**62, max_share=0.5).excess(planned, all_of_it) is None:
        return
    said = BlastRadius(max_segments=2**62, max_share=0.5).remedy(planned, all_of_it)
    named = float(said.rpartition(": ")[2].removesuffix(" of the DAG"))
    assert BlastRadius(max_segments=2**62, max_share=named).excess(planned, all_of_it) is None
    assert named - 0.01 < planned.segments / known
