# SPDX-License-Identifier: Apache-2.0
"""The rule for finishing what was never seen, against a table written by hand, and for every combination of its inputs."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.core.plans.limits import OVERRIDES
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.world.unseen import UnseenSegment, UnseenVerdict, decide_unseen

MAY, MISSING, UNPROVEN = UnseenVerdict.MAY_FINISH, UnseenVerdict.MISSING, UnseenVerdict.NOT_PROVEN
YES, NO, ANY = (True,), (False,), (False, True)

# state, was copied, places proven, only place, root is fresh, started by us, places shown, same root, on record
# → verdict, override
TABLE = [
    (S.COPY_SEGMENT_STARTED, ANY, NO, ANY, ANY, ANY, ANY, ANY, ANY, UNPROVEN, None),
    (S.COPY_SEGMENT_STARTED, ANY, YES, ANY, ANY, ANY, NO, ANY, ANY, UNPROVEN, "settle_missing"),
    (S.COPY_SEGMENT_STARTED, ANY, YES, ANY, ANY, ANY, YES, ANY, ANY, MAY, None),
    (S.COPY_SEGMENT_FINISHED, ANY, NO, ANY, ANY, ANY, ANY, ANY, ANY, MISSING, None),
    (S.COPY_SEGMENT_FINISHED, ANY, YES, ANY, ANY, ANY, ANY, ANY, ANY, MISSING, "settle_missing"),
    (S.DELETE_SEGMENT_STARTED, ANY, NO, ANY, ANY, ANY, ANY, ANY, ANY, UNPROVEN, None),
    (S.DELETE_SEGMENT_STARTED, NO, YES, ANY, ANY, ANY, NO, ANY, ANY, UNPROVEN, "settle_missing"),
    (S.DELETE_SEGMENT_STARTED, NO, YES, ANY, ANY, ANY, YES, ANY, ANY, MAY, None),
    (S.DELETE_SEGMENT_STARTED, YES, YES, NO, ANY, YES, ANY, ANY, NO, MISSING, "settle_changed_prefix"),
    (S.DELETE_SEGMENT_STARTED, YES, YES, YES, ANY, YES, ANY, ANY, NO, MISSING, "settle_missing"),
    (S.DELETE_SEGMENT_STARTED, YES, YES, ANY, ANY, YES, NO, YES, YES, UNPROVEN, "settle_missing"),
    (S.DELETE_SEGMENT_STARTED, YES, YES, ANY, ANY, YES, YES, YES, YES, MAY, None),
]
# Somebody else's start, and one of ours of which nothing says that it was below this root.
TABLE += [
    (S.DELETE_SEGMENT_STARTED, YES, YES, *place, ours, shown, same_root, on_record, *follows)
    for ours, same_root, on_record in ((NO, ANY, ANY), (YES, NO, YES))
    for *place, shown, follows in (
        (NO, ANY, ANY, (MISSING, "settle_changed_prefix")),
        (YES, NO, ANY, (MISSING, "settle_missing")),
        (YES, YES, NO, (UNPROVEN, "settle_missing")),
        (YES, YES, YES, (MAY, None)),
    )
]
ROWS = {
    UnseenSegment(state, *inputs): (verdict, override)
    for state, *domains, verdict, override in TABLE
    for inputs in itertools.product(*domains)  # type: ignore[arg-type]  # the table's columns have types of their own
}
segments = st.sampled_from(sorted(ROWS, key=repr))
override_sets = st.frozensets(st.sampled_from([*OVERRIDES, "unknown"]))


def test_the_table_is_complete_and_names_each_case_once() -> None:
    assert len(ROWS) == 3 * 2**8


@pytest.mark.slow
@pytest.mark.parametrize(("segment", "expected"), ROWS.items(), ids=lambda value: "")
def test_the_rule_is_the_table(segment: UnseenSegment, expected: tuple[UnseenVerdict, str | None]) -> None:
    decision = decide_unseen(segment)
    assert (decision.verdict, decision.override) == expected
    assert decision.why
    assert decision.override is None or decision.override in OVERRIDES


@given(segments, override_sets)
def test_only_its_own_override_settles_a_segment(segment: UnseenSegment, overrides: frozenset[str]) -> None:
    verdict, override = ROWS[segment]
    settled = verdict is MAY or override in overrides
    # A place that shows nothing of the cluster needs a person besides.
    settled &= segment.places_shown or "settle_missing" in overrides
    assert (decide_unseen(segment, overrides).verdict is MAY) == settled


@given(segments, override_sets)
def test_at_a_place_that_is_not_proven_nothing_is_ever_finished(
    segment: UnseenSegment, overrides: frozenset[str]
) -> None:
    unproven = replace(segment, places_proven=False)
    assert decide_unseen(unproven, overrides).verdict is not MAY


@given(segments, override_sets)
def test_knowing_less_never_finishes_more(segment: UnseenSegment, overrides: frozenset[str]) -> None:
    if decide_unseen(segment, overrides).verdict is MAY:
        return
    for known in ("places_proven", "places_shown", "root_is_fresh", "same_root", "on_record"):
        assert decide_unseen(replace(segment, **{known: False}), overrides).verdict is not MAY
    assert decide_unseen(replace(segment, was_copied=True), overrides).verdict is not MAY


def test_a_finished_segment_has_no_place_here() -> None:
    with pytest.raises(ValueError, match="DELETE_SEGMENT_FINISHED"):
        decide_unseen(UnseenSegment(S.DELETE_SEGMENT_FINISHED, True, True, True, True))
