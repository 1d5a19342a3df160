# SPDX-License-Identifier: Apache-2.0
"""Which offsets are wanted, which of them there are, and where a range is cut."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import ConfigurationError, OffsetNotInRemoteLogError
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.segments.read_range import OffsetRange, ReadRange, split, within

TIP = TopicIdPartition(UUID(int=7), "orders", 3)
REMOTE = OffsetRange(100, 200)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"start_offset": 1, "start_ms": 1}, "the start is given as an offset and as a time"),
        ({"end_offset": 1, "end_ms": 1}, "the end is given as an offset and as a time"),
        ({"start_offset": 5, "end_offset": 4}, "the end, 4, lies before the start, 5"),
        ({"start_ms": 5, "end_ms": 4}, "the end, 4, lies before the start, 5"),
    ],
)
def test_a_range_that_means_nothing_is_refused(wanted: dict[str, int], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ReadRange(**wanted)


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        (None, None, OffsetRange(100, 200)),
        (100, 200, OffsetRange(100, 200)),
        (150, None, OffsetRange(150, 200)),
        (None, 101, OffsetRange(100, 101)),
        (150, 150, OffsetRange(150, 150)),
        # What an earlier read returned as the next offset, and nothing was copied since.
        (200, None, OffsetRange(200, 200)),
        (180, 120, OffsetRange(180, 180)),
    ],
)
def test_what_is_in_remote_storage_is_read(start: int | None, end: int | None, found: OffsetRange) -> None:
    assert within(TIP, REMOTE, start, end) == found
    assert within(TIP, REMOTE, start, end, allow_incomplete=True) == found


@pytest.mark.parametrize(
    ("start", "end", "offset", "incomplete"),
    [
        (99, None, 99, OffsetRange(100, 200)),
        (0, 50, 0, OffsetRange(100, 100)),
        (None, 201, 200, OffsetRange(100, 200)),
        (150, 1000, 999, OffsetRange(150, 200)),
        (201, None, 200, OffsetRange(201, 201)),
        (201, 300, 299, OffsetRange(201, 201)),
    ],
)
def test_what_is_missing_is_refused_unless_somebody_allows_it(
    start: int | None, end: int | None, offset: int, incomplete: OffsetRange
) -> None:
    said = rf"offset {offset} of .*orders-3 is wanted, and remote storage has 100 to 199: .*(Begin at 100|Wait for it)"
    with pytest.raises(OffsetNotInRemoteLogError, match=said):
        within(TIP, REMOTE, start, end)
    assert within(TIP, REMOTE, start, end, allow_incomplete=True) == incomplete


def test_a_range_is_cut_where_segments_begin() -> None:
    segments = [(100, 60), (130, 50), (150, 40), (190, 10)]
    assert split(OffsetRange(110, 195), segments, 95) == [
        OffsetRange(110, 130),
        OffsetRange(130, 190),
        OffsetRange(190, 195),
    ]
    assert split(OffsetRange(110, 195), segments, 1) == [
        OffsetRange(110, 130),
        OffsetRange(130, 150),
        OffsetRange(150, 190),
        OffsetRange(190, 195),
    ]
    assert split(OffsetRange(110, 110), segments, 1) == []


@given(
    st.integers(0, 50),
    st.integers(0, 50),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30))),
    st.integers(1, 60),
)
def test_pieces_make_the_range_without_a_gap_and_stay_small(
    start: int, length: int, segments: list[tuple[int, int]], most_bytes: int
) -> None:
    offsets = OffsetRange(start, start + length)
    pieces = split(offsets, segments, most_bytes)
    covered = [offset for piece in pieces for offset in range(piece.start, piece.end)]
    assert covered == list(range(offsets.start, offsets.end))
    assert all(piece.start < piece.end for piece in pieces)
    assert all(later.start in {begin for begin, _ in segments} for _, later in pairwise(pieces))
