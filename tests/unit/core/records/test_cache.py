# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_rlmm.core.base.errors import InvalidStateTransitionError, MetadataError
from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.outcomes import EventFate
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from tests.unit.core.records.events import copied, deleted, deleting, segment_id, started, update

State = RemoteLogSegmentState


def cache_after(*applied):
    cache = RemoteLogMetadataCache()
    for event in applied:
        assert apply(cache, event) is EventFate.APPLIED, event
    return cache


def apply(cache, event):
    if hasattr(event, "start_offset"):
        return cache.add_copy_in_progress_segment(event)
    return cache.update_remote_log_segment_metadata(event)


def numbers(segments):
    return [segment.remote_log_segment_id.id.int for segment in segments]


def number_at(cache, leader_epoch, offset):
    found = cache.remote_log_segment_metadata(leader_epoch, offset)
    return None if found is None else found.remote_log_segment_id.id.int


def test_an_empty_cache_knows_nothing():
    cache = RemoteLogMetadataCache()
    assert cache.list_remote_log_segments() == cache.list_remote_log_segments(0) == []
    assert cache.remote_log_segment_metadata(0, 0) is None
    assert cache.highest_offset_for_epoch(0) is None


@pytest.mark.parametrize("state", [state for state in State if state is not State.COPY_SEGMENT_STARTED])
def test_the_first_event_must_be_copy_segment_started(state):
    cache = RemoteLogMetadataCache()
    with pytest.raises(InvalidStateTransitionError, match=state.name):
        cache.add_copy_in_progress_segment(started(1, state=state))
    assert cache.list_remote_log_segments() == []


def test_an_update_to_copy_segment_started_throws_only_while_the_segment_is_being_copied():
    cache = cache_after(started(1))
    with pytest.raises(InvalidStateTransitionError, match="COPY_SEGMENT_STARTED"):
        apply(cache, update(1, State.COPY_SEGMENT_STARTED))
    cache = cache_after(started(1), copied(1))
    assert apply(cache, update(1, State.COPY_SEGMENT_STARTED)) is EventFate.DROPPED_INVALID_TRANSITION
    assert apply(cache, update(2, State.COPY_SEGMENT_STARTED)) is EventFate.DROPPED_UNKNOWN_SEGMENT


@pytest.mark.parametrize("event", [copied(1), deleting(1), deleted(1)])
def test_updates_of_unknown_segments_are_dropped(event):
    cache = RemoteLogMetadataCache()
    assert apply(cache, event) is EventFate.DROPPED_UNKNOWN_SEGMENT
    assert cache.list_remote_log_segments() == []
    cache = cache_after(started(1), deleting(1), deleted(1))
    assert apply(cache, event) is EventFate.DROPPED_UNKNOWN_SEGMENT


@pytest.mark.parametrize(
    ("before", "event"),
    [
        ((started(1),), deleted(1)),
        ((started(1), copied(1)), deleted(1)),
        ((started(1), copied(1)), started(1)),
        ((started(1), deleting(1)), copied(1)),
        ((started(1), deleting(1)), started(1)),
    ],
)
def test_invalid_transitions_are_dropped(before, event):
    cache = cache_after(*before)
    listed = cache.list_remote_log_segments()
    outcome = apply(cache, event)
    assert outcome is EventFate.DROPPED_INVALID_TRANSITION
    assert not outcome.applied
    assert cache.list_remote_log_segments() == listed


def test_repeated_events_change_nothing_more():
    cache = cache_after(started(1), started(1), copied(1), copied(1))
    assert number_at(cache, 0, 50) == 1
    assert numbers(cache.list_remote_log_segments(0)) == [1]
    cache = cache_after(started(1), copied(1), deleting(1), deleting(1))
    assert numbers(cache.list_remote_log_segments(0)) == [1]


def test_only_copied_segments_serve_reads_and_all_unfinished_ones_are_listed():
    cache = RemoteLogMetadataCache()
    for event, served, listed in [
        (started(1), None, [1]),
        (copied(1), 1, [1]),
        (deleting(1), None, [1]),
        (deleted(1), None, []),
    ]:
        assert apply(cache, event).applied
        assert number_at(cache, 0, 0) == number_at(cache, 0, 99) == served
        assert numbers(cache.list_remote_log_segments()) == numbers(cache.list_remote_log_segments(0)) == listed


def test_a_segment_takes_over_what_updates_say():
    cache = cache_after(started(1), update(1, State.COPY_SEGMENT_FINISHED, b"where"))
    segment = cache.segment(segment_id(1))
    assert segment is not None
    assert (segment.custom_metadata, segment.broker_id, segment.event_timestamp_ms) == (b"where", 7, 3_000)
    assert (segment.end_offset, segment.segment_size_in_bytes) == (99, 4_096)
    assert cache.segment(segment_id(2)) is None


def test_an_offset_is_found_within_its_epoch_only():
    epochs = ((0, 0), (2, 30), (3, 70))
    cache = cache_after(started(1, 0, 99, epochs), copied(1), started(2, 100, 199, ((3, 100),)), copied(2))
    for leader_epoch, offset, number in [
        (0, 0, 1),
        (0, 29, 1),
        (0, 30, None),  # belongs to epoch 2
        (1, 10, None),
        (2, 29, None),
        (2, 30, 1),
        (2, 69, 1),
        (2, 70, None),
        (3, 99, 1),
        (3, 100, 2),
        (3, 199, 2),
        (3, 200, None),
    ]:
        assert number_at(cache, leader_epoch, offset) == number, (leader_epoch, offset)
    assert [cache.highest_offset_for_epoch(epoch) for epoch in range(5)] == [29, None, 69, 199, None]


def test_lists_are_sorted_by_start_offset():
    cache = cache_after(
        started(3, 200, 299),
        copied(3),
        started(1, 0, 99),
        copied(1),
        started(2, 100, 199),
        started(4, 50, 60, ((1, 50),)),
    )
    assert numbers(cache.list_remote_log_segments()) == [1, 4, 2, 3]
    assert numbers(cache.list_remote_log_segments(0)) == [1, 2, 3]
    assert numbers(cache.list_remote_log_segments(1)) == [4]


def test_an_epoch_lists_by_its_own_start_offsets_while_all_of_its_segments_serve_reads():
    # Leaders of different lineages copied them: the epoch starts later in the one that begins earlier.
    overlapping = [started(1, 223, 285, ((3, 223),)), copied(1), started(2, 219, 307, ((2, 219), (3, 241))), copied(2)]
    assert numbers(cache_after(*overlapping).list_remote_log_segments(3)) == [1, 2]
    assert numbers(cache_after(*overlapping).list_remote_log_segments()) == [2, 1]
    # Kafka sorts as soon as there is one that does not.
    being_copied = started(3, 308, 400, ((3, 308),))
    assert numbers(cache_after(*overlapping, being_copied).list_remote_log_segments(3)) == [2, 1, 3]


def test_a_larger_copy_supersedes_those_it_covers():
    cache = cache_after(
        started(1, 0, 99), copied(1), started(2, 100, 149), copied(2), started(3, 150, 180), copied(3),
        started(4, 100, 200), copied(4),
    )  # fmt: skip
    assert [number_at(cache, 0, offset) for offset in (50, 100, 150, 200)] == [1, 4, 4, 4]
    assert numbers(cache.list_remote_log_segments(0)) == [1, 4, 2, 3]
    assert set(cache.leader_epochs[0].unreferenced) == {segment_id(2), segment_id(3)}


def test_a_copy_that_starts_earlier_serves_what_both_hold():
    cache = cache_after(started(1, 10, 90), copied(1), started(2, 5, 100), copied(2), started(3, 101, 200), copied(3))
    assert [number_at(cache, 0, offset) for offset in (5, 10, 95, 101)] == [2, 2, 2, 3]
    assert list(cache.leader_epochs[0].unreferenced) == [segment_id(1)]


def test_a_copy_that_ends_at_the_same_offset_supersedes():
    cache = cache_after(started(1, 50, 100), copied(1), started(2, 0, 100), copied(2))
    assert [number_at(cache, 0, offset) for offset in (0, 50, 100)] == [2, 2, 2]
    assert list(cache.leader_epochs[0].unreferenced) == [segment_id(1)]


def test_a_smaller_copy_takes_a_place_without_superseding():
    cache = cache_after(started(1, 0, 100), copied(1), started(2, 0, 50), copied(2))
    assert number_at(cache, 0, 50) == 2
    assert number_at(cache, 0, 51) is None
    assert cache.highest_offset_for_epoch(0) == 100
    # The larger one is forgotten by its epoch, as in Kafka, but not by the partition.
    assert numbers(cache.list_remote_log_segments(0)) == [2]
    assert sorted(numbers(cache.list_remote_log_segments())) == [1, 2]


def test_deleting_a_superseded_segment_keeps_its_successor():
    cache = cache_after(started(1, 0, 99), copied(1), started(2, 0, 150), copied(2), deleting(1), deleted(1))
    assert number_at(cache, 0, 50) == 2
    assert numbers(cache.list_remote_log_segments(0)) == [2]


def test_the_highest_offset_outlives_its_segments():
    cache = cache_after(started(1, 0, 99), copied(1), deleting(1), deleted(1))
    assert cache.highest_offset_for_epoch(0) == 99
    assert cache.list_remote_log_segments(0) == []


def test_a_segment_that_was_never_copied_leaves_no_highest_offset():
    cache = cache_after(started(1, 0, 99), deleting(1), deleted(1))
    assert cache.highest_offset_for_epoch(0) is None


def test_an_epoch_that_still_names_a_deleted_segment_cannot_be_listed():
    cache = cache_after(started(1, epochs=((0, 0),)), started(1, epochs=((1, 0),)), deleting(1), deleted(1))
    assert cache.list_remote_log_segments() == cache.list_remote_log_segments(1) == []
    with pytest.raises(MetadataError, match=r"leader epoch 0 still refers to .*orders-2/"):
        cache.list_remote_log_segments(0)


def test_a_copy_is_independent():
    cache = cache_after(started(1), copied(1))
    other = cache.copy()
    assert apply(other, deleting(1)).applied
    assert apply(other, started(2, 100, 199)).applied
    assert number_at(cache, 0, 50) == 1
    assert number_at(other, 0, 50) is None
    assert numbers(cache.list_remote_log_segments(0)) == [1]
    assert apply(cache, copied(1)).applied


def test_the_smallest_start_offset_wraps_around_as_in_java():
    cache = cache_after(started(1, 0, 9, ((0, 0), (1, -(2**63)))), copied(1))
    assert cache.highest_offset_for_epoch(0) == 2**63 - 1
    assert number_at(cache, 0, 2**40) == 1


def test_the_search_for_aborted_transactions_ends_where_leader_epochs_lead_in_a_circle():
    """Nothing checks where leader epochs begin: this segment seems to serve all that comes behind it."""
    endless = replace(started(1, 0, 9, ((0, 5), (1, -(2**63)))), txn_idx_empty=True)
    cache = cache_after(endless, copied(1))
    assert number_at(cache, 0, 10) == 1
    assert cache.next_segment_with_txn_index(0, 7) is None
