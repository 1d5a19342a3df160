# SPDX-License-Identifier: Apache-2.0
"""
Whatever was copied, deleted and left out, and whatever a log directory holds of it: what a look at the copies says of holes
is compared with each single offset.
"""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.features.copying.copy_hole import find_hole, hole_ahead
from airflow_provider_rlmm.features.copying.rules import LocalSegment
from tests.examples import examples

TIP = TopicIdPartition(UUID(int=7), "living", 0)
SIZE, SEGMENTS = 4, 6
END = SIZE * SEGMENTS
COPIED, DELETED, DELETING, COPYING = "copied", "deleted", "deleting", "copying"
FATES = st.sampled_from([COPIED, COPIED, COPIED, None, DELETED, DELETING, COPYING])
LINEAGES = st.lists(st.integers(1, END - 1), max_size=4, unique=True).map(
    lambda starts: LeaderEpochCheckpoint(tuple((2 * n, start) for n, start in enumerate([0, *sorted(starts)])))
)
UPDATES = {
    COPIED: [S.COPY_SEGMENT_FINISHED],
    DELETING: [S.COPY_SEGMENT_FINISHED, S.DELETE_SEGMENT_STARTED],
    DELETED: [S.COPY_SEGMENT_FINISHED, S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED],
}


def cache_of(lineage: LeaderEpochCheckpoint, fates: list[str | None], order: list[int]) -> RemoteLogMetadataCache:
    cache = RemoteLogMetadataCache()
    for number in order:
        if (fate := fates[number]) is None:
            continue
        segment, start = RemoteLogSegmentId(TIP, UUID(int=100 + number)), number * SIZE
        epochs = lineage.in_range(start, start + SIZE).entries
        cache.add_copy_in_progress_segment(
            RemoteLogSegmentMetadata(
                segment, start, start + SIZE - 1, 0, 1, 0, 1, None, S.COPY_SEGMENT_STARTED, epochs, True
            )
        )
        for state in UPDATES.get(fate, []):
            cache.update_remote_log_segment_metadata(RemoteLogSegmentMetadataUpdate(segment, 0, None, state, 1))
    return cache


def missing_offsets(fates: list[str | None], planned: set[int], log_start: int) -> list[int]:
    """Each offset from the log start to the highest that was ever copied, or will be, that nobody could read from there."""
    ever = [number for number, fate in enumerate(fates) if fate in UPDATES or number in planned]
    there = {number for number, fate in enumerate(fates) if fate == COPIED} | planned
    return [offset for offset in range(log_start, SIZE * (max(ever, default=-1) + 1)) if offset // SIZE not in there]


@pytest.mark.slow
@settings(max_examples=examples(400), deadline=None)
@given(
    lineage=LINEAGES,
    fates=st.lists(FATES, min_size=SEGMENTS, max_size=SEGMENTS),
    order=st.permutations(range(SEGMENTS)),
    log_start=st.integers(0, END),
    directory_start=st.integers(0, END),
    directory_end=st.integers(0, END) | st.just(END),
)
@example(  # what a run has left out, and a directory that holds nothing
    lineage=LeaderEpochCheckpoint(((0, 0),)),
    fates=[None, *[COPIED] * 5],
    order=list(range(SEGMENTS)),
    log_start=0,
    directory_start=0,
    directory_end=0,
)
def test_no_offset_is_missed_whatever_a_log_directory_holds(
    lineage: LeaderEpochCheckpoint,
    fates: list[str | None],
    order: list[int],
    log_start: int,
    directory_start: int,
    directory_end: int,
) -> None:
    cache, missing = cache_of(lineage, fates, order), missing_offsets(fates, set(), log_start)
    known = lineage.truncate_from_start(directory_start).truncate_from_end(directory_end)
    hole = find_hole(cache, known.entries, log_start)
    said = hole_ahead("living", 0, (), hole)
    if hole is None:
        assert not missing
        assert said is None
        return
    assert hole.start_offset >= log_start
    if missing:
        assert hole.start_offset <= missing[0]
        assert missing[-1] <= hole.end_offset
    assert f"log start offset of living-0 is at least {hole.end_offset + 1} " in str(said)
    assert missing_offsets(fates, set(), hole.end_offset + 1) == []
    if known == lineage.truncate_from_start(log_start):
        assert (hole.start_offset, hole.end_offset) == (missing[0], missing[-1]), "a whole directory tells exactly"


@settings(max_examples=examples(200), deadline=None)
@given(
    lineage=LINEAGES,
    fates=st.lists(FATES, min_size=SEGMENTS, max_size=SEGMENTS),
    order=st.permutations(range(SEGMENTS)),
    log_start=st.integers(0, END),
    bounds=st.tuples(st.integers(0, SEGMENTS), st.integers(0, SEGMENTS)).map(sorted),
)
def test_a_plan_fills_what_it_would_copy(
    lineage: LeaderEpochCheckpoint, fates: list[str | None], order: list[int], log_start: int, bounds: list[int]
) -> None:
    numbers = range(*bounds)
    planned = [
        LocalSegment(n * SIZE, n * SIZE + SIZE - 1, 1, 0, lineage.in_range(n * SIZE, (n + 1) * SIZE).entries, True)
        for n in numbers
    ]
    missing = missing_offsets(fates, set(numbers), log_start)
    hole = find_hole(cache_of(lineage, fates, order), lineage.entries, log_start, planned)
    assert (None if hole is None else (hole.start_offset, hole.end_offset)) == (
        (missing[0], missing[-1]) if missing else None
    )


def test_the_lineage_decides_what_brokers_read() -> None:
    """A copy of a leader that was overruled serves nothing: brokers ask for the epoch of an offset."""
    of_its_own = LeaderEpochCheckpoint(((0, 0), (3, 4)))
    cache = cache_of(of_its_own, [COPIED, COPIED, None, None, None, None], [0, 1])
    assert find_hole(cache, of_its_own.entries, 0) is None
    hole = find_hole(cache, LeaderEpochCheckpoint(((0, 0), (5, 4))).entries, 0)
    assert hole is not None
    assert (hole.start_offset, hole.end_offset) == (4, 7)
