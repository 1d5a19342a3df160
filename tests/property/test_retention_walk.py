# SPDX-License-Identifier: Apache-2.0
"""The walk in columns says of every segment what the rules say that go segment by segment."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.plans.plan import Reason
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as State
from airflow_provider_rlmm.features.retention.rules import EvaluationLimits, PartitionLimits, SegmentFacts, evaluate
from airflow_provider_rlmm.features.retention.spark.executor.retention_walk import (
    NONE,
    REASONS,
    WalkedSegments,
    reasons_of,
)
from tests.examples import examples

NOW, MIN_AGE = 1_000, 100
MAX = 2**63 - 1
FIELDS = ("state", "start_offset", "end_offset", "max_timestamp_ms", "event_timestamp_ms", "segment_size_in_bytes")
TYPES = {"state": np.int8, "segment_size_in_bytes": np.int32}

EDGES = st.sampled_from([-(2**63), -1, 0, NOW - MIN_AGE - 1, NOW - MIN_AGE, NOW, MAX])
STATES_OF_LIFE = [s for s in State if s is not State.DELETE_SEGMENT_FINISHED]
STATES = st.sampled_from(STATES_OF_LIFE)
# Mostly such as go on: a walk that stops at once shows little.
WALKED = st.sampled_from([State.COPY_SEGMENT_FINISHED] * 4 + [State.DELETE_SEGMENT_STARTED]) | STATES
SIZES = st.integers(0, 120) | st.sampled_from([0, 2**31 - 1]) | st.integers(-60, 60)
SEGMENTS = st.lists(
    st.builds(
        SegmentFacts,
        st.binary(min_size=16, max_size=16),
        WALKED,
        st.integers(0, 90),
        st.integers(0, 90) | st.just(MAX),
        st.integers(-1, NOW) | EDGES,
        st.integers(NOW - 2 * MIN_AGE, NOW) | EDGES,
        st.one_of(st.integers(0, 120), st.integers(0, 120), SIZES),
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda segment: segment.segment_id,
)
LIMITS = st.builds(
    PartitionLimits,
    st.just(EvaluationLimits(NOW, MIN_AGE, allow_low_min_age=True)),
    st.just(True),
    st.just(NOW),
    st.none() | st.integers(0, 90) | st.just(MAX),
    st.sampled_from([-(2**63), -1, 0, 1, MIN_AGE, NOW, NOW + 1, MAX]) | st.integers(0, NOW),
    st.integers(-1, 600) | st.sampled_from([-(2**63), MAX]),
)


@pytest.mark.slow
@given(st.lists(st.tuples(SEGMENTS, LIMITS), max_size=5))
@settings(max_examples=examples(200), deadline=None)
def test_any_segments(partitions: list[tuple[list[SegmentFacts], PartitionLimits]]) -> None:
    check(partitions)


@given(st.integers(0, 2**32))
@settings(max_examples=examples(300), deadline=None)
def test_walks_that_go_far(seed: int) -> None:
    """Partitions as they are in life, with limits that a part of their segments is past."""
    random = Random(seed)
    check([partition_of(random) for _ in range(3)])


def partition_of(random: Random) -> tuple[list[SegmentFacts], PartitionLimits]:
    size = random.randrange(1, 25)
    is_odd, smallest = random.random() < 0.3, random.choice([0, 0, 0, -20])
    segments = []
    for number in range(size):
        state = random.choice(STATES_OF_LIFE) if is_odd and random.random() < 0.4 else State.COPY_SEGMENT_FINISHED
        newest_ms = NOW - 10 * (size - number) - random.randrange(20)
        event_ms = random.choice([0, NOW])
        bounds = (number * 10, number * 10 + random.choice([9, 9, 14]))
        segments.append(
            SegmentFacts(random.randbytes(16), state, *bounds, newest_ms, event_ms, random.randrange(smallest, 20))
        )
    total = sum(segment.segment_size_in_bytes for segment in segments)
    limits = PartitionLimits(
        EvaluationLimits(NOW, MIN_AGE, allow_low_min_age=True),
        True,
        NOW,
        random.choice([None, random.randrange(size * 10)]),
        random.choice([-1, random.randrange(size * 10)]),
        random.choice([-1, random.randrange(max(total, 1))]),
    )
    return segments, limits


def check(partitions: list[tuple[list[SegmentFacts], PartitionLimits]]) -> None:
    ordered = [
        (sorted(segments, key=lambda s: (s.start_offset, s.end_offset, s.segment_id)), limits)
        for segments, limits in partitions
    ]
    expected: list[Reason | None] = []
    for segments, limits in ordered:
        found = {finding.segment.segment_id: finding.reason for finding in evaluate(segments, limits)}
        expected += [found.get(segment.segment_id) for segment in segments]
    codes = reasons_of(walked([segments for segments, _ in ordered]), [limits for _, limits in ordered])
    assert [None if code == NONE else REASONS[code] for code in codes.tolist()] == expected


def walked(partitions: list[list[SegmentFacts]]) -> WalkedSegments:
    segments = [segment for partition in partitions for segment in partition]
    columns = {name: np.array([getattr(s, name) for s in segments], TYPES.get(name, np.int64)) for name in FIELDS}
    first = np.cumsum([0, *(len(partition) for partition in partitions)])[: len(partitions)]
    return WalkedSegments(columns, first.astype(np.int64))


def test_the_cases_reach_every_reason_and_every_way_to_stop() -> None:
    """A property that holds of nothing holds: the generator finds each reason, also together in one walk."""
    limits = PartitionLimits(EvaluationLimits(NOW, MIN_AGE, allow_low_min_age=True), True, NOW, 10, 500, 50)
    copied, copying, deleting = State.COPY_SEGMENT_FINISHED, State.COPY_SEGMENT_STARTED, State.DELETE_SEGMENT_STARTED
    rows = [
        (copied, 0, 9, NOW, NOW, 10),  # below the log start offset, its bytes still count
        (deleting, 10, 19, 0, NOW, 10),  # passed
        (copying, 20, 29, 0, 0, 40),  # dangles, and its bytes go for their age
        (copied, 30, 39, 0, NOW, 60),
        (copied, 40, 49, NOW, NOW, 100),  # 122 bytes are too many here
        (copied, 50, 59, NOW, NOW, 101),  # and 22 here
        (copied, 60, 69, 0, NOW, 1),  # behind the one that stays
    ]
    segments = [SegmentFacts(bytes([number]) * 16, *row) for number, row in enumerate(rows)]
    found = {finding.segment.segment_id: finding.reason for finding in evaluate(segments, limits)}
    codes = reasons_of(walked([segments, segments]), [limits, limits]).tolist()
    once = ["LOG_START_OFFSET", None, "DANGLING", "RETENTION_MS", "RETENTION_BYTES", None, None]
    assert [None if code == NONE else REASONS[code].value for code in codes] == once * 2
    assert [found.get(segment.segment_id) for segment in segments] == once
