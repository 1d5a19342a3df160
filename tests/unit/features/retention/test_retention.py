# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.plans.limits import MIN_AGE
from airflow_provider_rlmm.core.plans.plan import Reason
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as State
from airflow_provider_rlmm.features.retention.rules import (
    EvaluationLimits,
    PartitionLimits,
    RetentionFinding,
    SegmentFacts,
    evaluate,
)

NOW = 1_000 * HOUR_MS
RECENT = NOW - HOUR_MS
LONG_AGO = NOW - MIN_AGE.default - 1
UNLIMITED = PartitionLimits(EvaluationLimits(NOW), live=True, listed_at_ms=NOW)


def segment(
    number: int,
    state: State = State.COPY_SEGMENT_FINISHED,
    *,
    newest_ms: int = RECENT,
    event_ms: int = RECENT,
    size: int = 100,
) -> SegmentFacts:
    """Segment ``number`` of a partition whose segments hold ten offsets each."""
    return SegmentFacts(bytes([number] * 16), state, number * 10, number * 10 + 9, newest_ms, event_ms, size)


def verdicts(segments: Iterable[SegmentFacts], limits: PartitionLimits) -> dict[int, Reason]:
    return {f.segment.segment_id[0]: f.reason for f in evaluate(segments, limits)}


def test_without_limits_everything_stays() -> None:
    assert evaluate([segment(i) for i in range(5)], UNLIMITED) == []


def test_every_segment_of_an_absent_topic_is_orphaned_in_any_state() -> None:
    segments = [segment(2), segment(0, State.COPY_SEGMENT_STARTED), segment(1, State.DELETE_SEGMENT_STARTED)]
    limits = replace(UNLIMITED, live=False, log_start_offset=100, retention_ms=0, retention_bytes=0)
    expected = [RetentionFinding(s, Reason.ORPHANED, exact=True) for s in (segments[1], segments[2], segments[0])]
    assert evaluate(segments, limits) == expected


def test_what_happened_after_the_listing_is_not_orphaned() -> None:
    limits = replace(UNLIMITED, live=False, listed_at_ms=RECENT)
    segments = [segment(0, event_ms=RECENT - 1), segment(1, event_ms=RECENT), segment(2, event_ms=RECENT + 1)]
    assert verdicts(segments, limits) == {0: Reason.ORPHANED}


@pytest.mark.parametrize("state", [State.COPY_SEGMENT_STARTED, State.DELETE_SEGMENT_STARTED])
def test_dangling_takes_more_than_the_minimum_age(state: State) -> None:
    at_the_limit = NOW - MIN_AGE.default
    assert verdicts([segment(0, state, event_ms=at_the_limit)], UNLIMITED) == {}
    findings = evaluate([segment(0, state, event_ms=at_the_limit - 1)], UNLIMITED)
    assert [(f.reason, f.exact) for f in findings] == [(Reason.DANGLING, False)]


def test_a_copied_segment_never_dangles() -> None:
    assert verdicts([segment(0, event_ms=0)], UNLIMITED) == {}


def test_dangling_is_found_behind_segments_that_stay() -> None:
    segments = [segment(0), segment(1, State.DELETE_SEGMENT_STARTED, event_ms=LONG_AGO)]
    assert verdicts(segments, replace(UNLIMITED, retention_ms=HOUR_MS * 2)) == {1: Reason.DANGLING}


def test_log_start_offset_takes_whole_segments_only() -> None:
    segments = [segment(i) for i in range(4)]
    assert verdicts(segments, replace(UNLIMITED, log_start_offset=20)) == dict.fromkeys((0, 1), Reason.LOG_START_OFFSET)
    assert verdicts(segments, replace(UNLIMITED, log_start_offset=19)) == {0: Reason.LOG_START_OFFSET}


def test_retention_time_is_compared_strictly() -> None:
    limits = replace(UNLIMITED, retention_ms=HOUR_MS)
    assert verdicts([segment(0, newest_ms=NOW - HOUR_MS)], limits) == {}
    assert verdicts([segment(0, newest_ms=NOW - HOUR_MS - 1)], limits) == {0: Reason.RETENTION_MS}


def test_retention_time_that_reaches_beyond_the_epoch_is_none() -> None:
    old = [segment(0, newest_ms=-1)]
    assert verdicts(old, replace(UNLIMITED, retention_ms=NOW + 1)) == {}
    assert verdicts(old, replace(UNLIMITED, retention_ms=NOW)) == {0: Reason.RETENTION_MS}


def test_retention_size_never_goes_below_the_limit() -> None:
    segments = [segment(i) for i in range(4)]  # 400 bytes
    assert verdicts(segments, replace(UNLIMITED, retention_bytes=400)) == {}
    assert verdicts(segments, replace(UNLIMITED, retention_bytes=301)) == {}
    assert verdicts(segments, replace(UNLIMITED, retention_bytes=300)) == {0: Reason.RETENTION_BYTES}
    assert list(verdicts(segments, replace(UNLIMITED, retention_bytes=0))) == [0, 1, 2, 3]


def test_size_counts_copied_segments_only() -> None:
    segments = [
        segment(0),
        segment(1),
        segment(2, State.DELETE_SEGMENT_STARTED),
        segment(3, State.COPY_SEGMENT_STARTED),
    ]
    assert verdicts(segments, replace(UNLIMITED, retention_bytes=200)) == {}


def test_bytes_that_go_for_their_age_no_longer_count_for_the_size() -> None:
    segments = [segment(0, newest_ms=0), segment(1), segment(2)]
    limits = replace(UNLIMITED, retention_ms=HOUR_MS * 2, retention_bytes=150)
    assert verdicts(segments, limits) == {0: Reason.RETENTION_MS}
    assert verdicts(segments, replace(limits, retention_bytes=100)) == {
        0: Reason.RETENTION_MS,
        1: Reason.RETENTION_BYTES,
    }


def test_bytes_below_the_log_start_offset_still_count_as_they_do_in_kafka() -> None:
    segments = [segment(i) for i in range(3)]
    assert verdicts(segments, replace(UNLIMITED, log_start_offset=10, retention_bytes=200)) == {
        0: Reason.LOG_START_OFFSET,
        1: Reason.RETENTION_BYTES,
    }


def test_the_walk_stops_at_the_first_segment_that_stays() -> None:
    segments = [segment(0, newest_ms=0), segment(1), segment(2, newest_ms=0)]
    assert verdicts(segments, replace(UNLIMITED, retention_ms=HOUR_MS * 2)) == {0: Reason.RETENTION_MS}


def test_the_walk_stops_at_a_copy_in_progress() -> None:
    segments = [segment(0, State.COPY_SEGMENT_STARTED, newest_ms=0), segment(1, newest_ms=0)]
    assert verdicts(segments, replace(UNLIMITED, retention_ms=HOUR_MS)) == {}


def test_the_walk_passes_a_deletion_in_progress() -> None:
    segments = [segment(0, State.DELETE_SEGMENT_STARTED), segment(1, newest_ms=0)]
    assert verdicts(segments, replace(UNLIMITED, retention_ms=HOUR_MS)) == {1: Reason.RETENTION_MS}


def test_an_abandoned_copy_is_walked_like_any_segment() -> None:
    abandoned = segment(0, State.COPY_SEGMENT_STARTED, newest_ms=0, event_ms=LONG_AGO)
    limits = replace(UNLIMITED, retention_ms=HOUR_MS)
    assert verdicts([abandoned, segment(1, newest_ms=0)], limits) == {0: Reason.DANGLING, 1: Reason.RETENTION_MS}
    young_records = replace(abandoned, max_timestamp_ms=NOW)
    assert verdicts([young_records, segment(1, newest_ms=0)], limits) == {0: Reason.DANGLING}


def test_the_first_reason_wins() -> None:
    limits = replace(UNLIMITED, log_start_offset=100, retention_ms=0, retention_bytes=0)
    segments = [segment(0, State.DELETE_SEGMENT_STARTED, event_ms=LONG_AGO), segment(1, newest_ms=0)]
    assert verdicts(segments, limits) == {0: Reason.DANGLING, 1: Reason.LOG_START_OFFSET}
    no_log_start = replace(limits, log_start_offset=None)
    assert verdicts(segments, no_log_start) == {0: Reason.DANGLING, 1: Reason.RETENTION_MS}


@pytest.mark.parametrize("min_age_ms", [0, 24 * HOUR_MS - 1])
def test_a_minimum_age_below_its_floor_needs_the_override(min_age_ms: int) -> None:
    with pytest.raises(ConfigurationError, match="floor"):
        EvaluationLimits(NOW, min_age_ms)
    assert EvaluationLimits(NOW, min_age_ms, allow_low_min_age=True).min_age_ms == min_age_ms


def test_a_negative_minimum_age_is_refused_even_with_the_override() -> None:
    with pytest.raises(ConfigurationError, match="negative"):
        EvaluationLimits(NOW, -1, allow_low_min_age=True)


def test_the_floor_itself_is_allowed() -> None:
    assert EvaluationLimits(NOW, 24 * HOUR_MS).min_age_ms == 24 * HOUR_MS


STATES = st.sampled_from([s for s in State if s is not State.DELETE_SEGMENT_FINISHED])
TIMES = st.sampled_from([0, LONG_AGO, RECENT, NOW])
SEGMENTS = st.lists(
    st.builds(segment, st.integers(0, 8), STATES, newest_ms=TIMES, event_ms=TIMES, size=st.integers(0, 300)),
    max_size=9,
    unique_by=lambda s: s.segment_id,
)
LIMITS = st.builds(
    PartitionLimits,
    st.just(EvaluationLimits(NOW)),
    st.booleans(),
    st.just(NOW),
    st.none() | st.integers(0, 90),
    st.sampled_from([-1, 0, HOUR_MS, NOW, NOW + 1]),
    st.integers(-1, 900),
)


@given(SEGMENTS, LIMITS, st.randoms())
def test_the_order_of_the_input_does_not_matter(
    segments: list[SegmentFacts], limits: PartitionLimits, random: Random
) -> None:
    shuffled = random.sample(segments, len(segments))
    assert evaluate(shuffled, limits) == evaluate(segments, limits)


@given(SEGMENTS, LIMITS)
def test_a_live_partition_keeps_what_no_limit_is_past(segments: list[SegmentFacts], limits: PartitionLimits) -> None:
    findings = evaluate(segments, limits)
    assert len({f.segment.segment_id for f in findings}) == len(findings)
    if not limits.live:
        assert {f.reason for f in findings} <= {Reason.ORPHANED}
        return
    start = limits.log_start_offset
    for finding in findings:
        s = finding.segment
        expected = {
            Reason.DANGLING: s.state is not State.COPY_SEGMENT_FINISHED and s.event_timestamp_ms < LONG_AGO + 1,
            Reason.LOG_START_OFFSET: start is not None and s.end_offset < start,
            Reason.RETENTION_MS: 0 <= limits.retention_ms <= NOW and s.max_timestamp_ms < NOW - limits.retention_ms,
            Reason.RETENTION_BYTES: limits.retention_bytes >= 0,
        }
        assert expected[finding.reason]
        assert not finding.exact


@given(SEGMENTS, st.integers(0, 900))
def test_size_alone_leaves_at_least_the_limit(segments: list[SegmentFacts], retention_bytes: int) -> None:
    copied = [replace(s, state=State.COPY_SEGMENT_FINISHED) for s in segments]
    gone = sum(
        f.segment.segment_size_in_bytes for f in evaluate(copied, replace(UNLIMITED, retention_bytes=retention_bytes))
    )
    total = sum(s.segment_size_in_bytes for s in copied)
    assert total - gone >= min(total, retention_bytes)
