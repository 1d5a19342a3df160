# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import DamagedObjectError
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.lineage import (
    LeaderEpochCheckpoint,
    find_highest_remote_offset,
    is_remote_segment_within_leader_epochs,
)

FILE = "orders-0/leader-epoch-checkpoint"
LINEAGE = LeaderEpochCheckpoint(((1, 0), (3, 100), (4, 250)))
SEGMENT = RemoteLogSegmentMetadata(
    RemoteLogSegmentId(TopicIdPartition(UUID(int=1), "orders", 0), UUID(int=2)),
    90, 199, 0, 1, 0, 1000, None, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, ((1, 90), (3, 100)),
)  # fmt: skip


@st.composite
def lineages(draw: st.DrawFn) -> LeaderEpochCheckpoint:
    epochs = sorted(draw(st.sets(st.integers(0, 2**31 - 1), max_size=5)))
    offsets = sorted(draw(st.sets(st.integers(0, 2**63 - 1), min_size=len(epochs), max_size=len(epochs))))
    return LeaderEpochCheckpoint(tuple(zip(epochs, offsets, strict=True)))


def test_a_checkpoint_file_is_read_as_a_broker_writes_it() -> None:
    assert LeaderEpochCheckpoint.parse(b"0\n3\n1 0\n3 100\n4 250\n", location=FILE) == LINEAGE
    assert LINEAGE.to_text() == "0\n3\n1 0\n3 100\n4 250\n"


def test_a_file_that_was_just_created_has_no_entries() -> None:
    assert LeaderEpochCheckpoint.parse(b"", location=FILE) == LeaderEpochCheckpoint()


@given(lineages())
def test_what_is_written_is_read_back(lineage: LeaderEpochCheckpoint) -> None:
    assert LeaderEpochCheckpoint.parse(lineage.to_text().encode(), location=FILE) == lineage


@given(lineages().filter(lambda lineage: lineage.entries), st.data())
def test_a_file_that_was_cut_is_never_taken_for_another_lineage(
    lineage: LeaderEpochCheckpoint, data: st.DataObject
) -> None:
    whole = lineage.to_text().encode()
    cut = whole[: data.draw(st.integers(1, len(whole) - 1))]
    with pytest.raises(DamagedObjectError) as refused:
        LeaderEpochCheckpoint.parse(cut, location=FILE)
    assert refused.value.location == FILE


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"1\n0\n", "its version is '1'"),
        (b"0\n", "not the number of entries"),
        (b"0\n-1\n", "not the number of entries"),
        (b"0\n2\n1 0\n", "announces 2 entries and has 1"),
        (b"0\n1\n1 0\n2 5\n", "announces 1 entry and has 2"),
        (b"0\n1\n1 0 7\n", "'1 0 7' is not a leader epoch and an offset"),
        (b"0\n1\n1\n", "'1' is not a leader epoch and an offset"),
        (b"0\n1\n-1 0\n", "'-1 0' is not a leader epoch and an offset"),
        (b"0\n1\n1 12", "ends in '1 12' in the middle of a line"),
        (b"0\n1\n1 \xb2\n", "is not a leader epoch and an offset"),
        (b"0\n1\n2147483648 0\n", "is none that a broker knows"),
        (b"0\n1\n0 9223372036854775808\n", "is none that a broker knows"),
        (b"0\n2\n3 0\n3 5\n", "cannot follow epoch 3"),
        (b"0\n2\n3 5\n4 5\n", "cannot follow epoch 3 from offset 5"),
    ],
)
def test_what_no_broker_has_written_is_refused_with_the_files_name(content: bytes, why: str) -> None:
    with pytest.raises(DamagedObjectError, match=why) as refused:
        LeaderEpochCheckpoint.parse(content, location=FILE)
    assert FILE in str(refused.value)


def test_a_log_that_begins_later_has_the_epoch_of_its_first_offset() -> None:
    assert LINEAGE.truncate_from_start(150).entries == ((3, 150), (4, 250))
    assert LINEAGE.truncate_from_start(250).entries == ((4, 250),)
    assert LINEAGE.truncate_from_start(-1) == LINEAGE


def test_a_log_that_ends_earlier_has_only_the_epochs_before() -> None:
    assert LINEAGE.truncate_from_end(250).entries == ((1, 0), (3, 100))
    assert LINEAGE.truncate_from_end(251) == LINEAGE
    assert LINEAGE.truncate_from_end(0).entries == ()
    assert LINEAGE.truncate_from_end(-1) == LINEAGE


def test_a_segments_epochs_are_those_of_its_range() -> None:
    assert LINEAGE.in_range(90, 200).entries == ((1, 90), (3, 100))
    assert LINEAGE.in_range(-1, 200).entries == ((1, 0), (3, 100))


@pytest.mark.parametrize(("offset", "epoch"), [(-1, None), (0, 1), (99, 1), (100, 3), (10**9, 4)])
def test_an_offset_was_written_in_the_last_epoch_that_begins_before_it(offset: int, epoch: int | None) -> None:
    assert LINEAGE.epoch_for_offset(offset) == epoch


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [(-1, (-1, -1)), (0, (0, 0)), (1, (1, 100)), (2, (1, 100)), (3, (3, 250)), (4, (4, 500)), (5, (-1, -1))],
)
def test_an_epoch_ends_where_the_next_one_begins(epoch: int, answer: tuple[int, int]) -> None:
    assert LINEAGE.end_offset_for(epoch, 500) == answer


@pytest.mark.parametrize(
    ("segment", "lineage", "within"),
    [
        (SEGMENT, LINEAGE, True),
        # Retention has moved the beginning of the log into the segment since it was copied.
        (SEGMENT, LeaderEpochCheckpoint(((3, 150), (4, 250))), True),
        (SEGMENT, LeaderEpochCheckpoint(((1, 0), (3, 101), (4, 250))), False),
        (SEGMENT, LeaderEpochCheckpoint(((1, 0), (2, 100), (3, 150), (4, 250))), False),
        (SEGMENT, LeaderEpochCheckpoint(((1, 0), (4, 100))), False),
        (SEGMENT, LeaderEpochCheckpoint(((4, 0),)), False),
        (SEGMENT, LeaderEpochCheckpoint(((1, 0), (2, 95))), False),
        (SEGMENT, LeaderEpochCheckpoint(), False),
        (replace(SEGMENT, end_offset=250), LINEAGE, False),
        (replace(SEGMENT, end_offset=299, segment_leader_epochs=((4, 249),)), LINEAGE, False),
        (replace(SEGMENT, end_offset=299, segment_leader_epochs=((4, 250),)), LINEAGE, True),
        (replace(SEGMENT, end_offset=300, segment_leader_epochs=((4, 250),)), LINEAGE, False),
    ],
)
def test_a_segment_belongs_to_a_lineage_whose_leaders_wrote_it(
    segment: RemoteLogSegmentMetadata, lineage: LeaderEpochCheckpoint, within: bool
) -> None:
    assert is_remote_segment_within_leader_epochs(segment, 300, lineage) is within


@pytest.mark.parametrize(
    ("highest", "found"),
    [
        ({}, None),
        ({4: 270, 1: 99}, (270, 4)),
        ({1: 50}, (50, 1)),
        # A later leader has truncated what an earlier one had copied.
        ({3: 400}, (249, 3)),
        ({4: 300}, (299, 4)),
    ],
)
def test_the_highest_remote_offset_is_that_of_the_latest_epoch_that_was_copied(
    highest: dict[int, int], found: tuple[int, int] | None
) -> None:
    assert find_highest_remote_offset(LINEAGE, highest.get, 300) == found
