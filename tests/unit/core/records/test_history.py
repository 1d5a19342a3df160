# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.records import COPIER_BROKER_ID, OWN_BROKER_ID
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from tests.builders import add, deletion, tip, update

PARTITION = tip()


@pytest.fixture
def history() -> UserPartitionHistory:
    """One copied segment, events at the offsets 0 and 1."""
    history = UserPartitionHistory(PARTITION)
    history.apply_segment_event(add(PARTITION, 0), 0)
    history.apply_segment_event(update(PARTITION, 0, S.COPY_SEGMENT_FINISHED), 1)
    return history


def mark(history: UserPartitionHistory, offset: int, at_ms: int, state: P = P.DELETE_PARTITION_MARKED) -> None:
    history.apply_partition_event(deletion(PARTITION, state, at_ms), offset, at_ms)


def foreign(history: UserPartitionHistory, offset: int, at_ms: int) -> None:
    marker = replace(deletion(PARTITION, P.DELETE_PARTITION_MARKED, at_ms), broker_id=5)
    history.apply_partition_event(marker, offset, at_ms)


def times(history: UserPartitionHistory) -> list[int]:
    """Times of the observations that stand, in the order of the log."""
    return [observation.time_ms for observation in history.observations]


def delete_own(history: UserPartitionHistory, number: int, offset: int) -> None:
    for i, state in enumerate((S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED)):
        history.apply_segment_event(update(PARTITION, number, state, broker_id=OWN_BROKER_ID), offset + i)


@pytest.mark.parametrize(("event_ms", "record_ms"), [(500, 900), (900, 500)])
def test_the_later_of_event_and_record_timestamp_is_the_first_observation(
    history: UserPartitionHistory, event_ms: int, record_ms: int
) -> None:
    history.apply_partition_event(deletion(PARTITION, P.DELETE_PARTITION_MARKED, event_ms), 2, record_ms)
    assert times(history) == [900]


def test_a_foreign_event_voids_the_observation(history: UserPartitionHistory) -> None:
    mark(history, 2, 100)
    history.apply_segment_event(update(PARTITION, 0, S.DELETE_SEGMENT_STARTED), 3)
    assert (times(history), history.last_foreign_offset) == ([], 3)


def test_a_foreign_event_that_kafka_drops_voids_it_too(history: UserPartitionHistory) -> None:
    mark(history, 2, 100)
    history.apply_segment_event(update(PARTITION, 0, S.COPY_SEGMENT_FINISHED), 3)
    assert times(history) == []


@pytest.mark.parametrize("broker_id", [OWN_BROKER_ID, COPIER_BROKER_ID])
def test_whoever_copies_is_somebody_else_whatever_id_it_has(history: UserPartitionHistory, broker_id: int) -> None:
    mark(history, 2, 100)
    history.apply_segment_event(add(PARTITION, 5, broker_id=broker_id), 3)
    assert (times(history), history.last_foreign_offset) == ([], 3)
    mark(history, 4, 100, P.DELETE_PARTITION_STARTED)
    history.apply_segment_event(update(PARTITION, 5, S.COPY_SEGMENT_FINISHED, broker_id=broker_id), 5)
    assert (times(history), history.last_foreign_offset) == ([], 5)


def test_what_a_copier_takes_back_is_somebody_elses_deletion(history: UserPartitionHistory) -> None:
    mark(history, 2, 100)
    history.apply_segment_event(update(PARTITION, 0, S.DELETE_SEGMENT_STARTED, broker_id=COPIER_BROKER_ID), 3)
    assert (times(history), history.last_foreign_offset, history.started_by) == (
        [],
        3,
        {UUID(int=1000): COPIER_BROKER_ID},
    )


def test_our_own_events_leave_the_observation_alone(history: UserPartitionHistory) -> None:
    mark(history, 2, 100)
    mark(history, 3, 100, P.DELETE_PARTITION_STARTED)
    delete_own(history, 0, 4)
    assert (times(history), history.unfinished()) == ([100], [])


def test_repeated_markers_keep_the_first_observation_and_its_offset(history: UserPartitionHistory) -> None:
    mark(history, 2, 100)
    mark(history, 3, 900)
    assert (times(history), history.unsettled_marker_offset) == ([100], 2)


def test_a_repeated_marker_with_an_earlier_time_stands_behind_the_first(history: UserPartitionHistory) -> None:
    for offset, at_ms in enumerate([900, 950, 300, 600, 300, 100], 2):
        mark(history, offset, at_ms)
    assert [(o.offset, o.time_ms) for o in history.observations] == [(2, 900), (4, 300), (7, 100)]


def test_a_foreign_marker_is_bounded_by_the_next_time_to_rely_on_and_the_later_one_counts(
    history: UserPartitionHistory,
) -> None:
    foreign(history, 2, 900)
    foreign(history, 3, 100)
    foreign(history, 4, 500)
    assert history.awaits_bound()
    history.bound_observations(400)
    history.bound_observations(1)  # only the first such record counts
    assert [(o.offset, o.time_ms, o.bounded) for o in history.observations] == [(2, 900, True), (3, 400, True)]
    assert not history.awaits_bound()


def test_our_own_event_bounds_a_foreign_marker_of_the_same_partition(history: UserPartitionHistory) -> None:
    foreign(history, 2, 100)
    mark(history, 3, 700)
    assert [(o.offset, o.time_ms, o.bounded) for o in history.observations] == [(2, 700, True)]


def test_a_foreign_marker_from_the_future_leaves_ours_standing(history: UserPartitionHistory) -> None:
    foreign(history, 2, 2**63 - 1)
    mark(history, 3, 700)
    assert times(history) == [2**63 - 1, 700]


def test_a_marker_without_a_time_marks_and_observes_nothing(history: UserPartitionHistory) -> None:
    mark(history, 2, -1)
    assert (history.delete_state, times(history)) == (P.DELETE_PARTITION_MARKED, [])
    delete_own(history, 0, 3)
    assert history.obstacle_to_finish() is not None
    mark(history, 5, 700)
    assert (times(history), history.unsettled_marker_offset) == ([700], 2)


def test_a_marker_after_a_foreign_event_observes_anew_and_stays_unsettled_from_the_first(
    history: UserPartitionHistory,
) -> None:
    mark(history, 2, 100)
    history.apply_segment_event(add(PARTITION, 1), 3)
    mark(history, 4, 900)
    assert (times(history), history.unsettled_marker_offset) == ([900], 2)


def test_a_repeated_start_observes_anew_after_a_foreign_event_only(history: UserPartitionHistory) -> None:
    mark(history, 2, 100)
    mark(history, 3, 200, P.DELETE_PARTITION_STARTED)
    mark(history, 4, 300, P.DELETE_PARTITION_STARTED)
    assert times(history) == [100]
    history.apply_segment_event(add(PARTITION, 1), 5)
    mark(history, 6, 900, P.DELETE_PARTITION_STARTED)
    assert (times(history), history.delete_state) == ([900], P.DELETE_PARTITION_STARTED)


def test_a_start_without_a_marker_starts_nothing(history: UserPartitionHistory) -> None:
    mark(history, 2, 100, P.DELETE_PARTITION_STARTED)
    assert (history.delete_state, times(history), history.deletion_under_way()) == (None, [], False)


def test_a_marker_for_a_finished_partition_does_nothing(history: UserPartitionHistory) -> None:
    mark(history, 2, 100)
    mark(history, 3, 100, P.DELETE_PARTITION_STARTED)
    delete_own(history, 0, 4)
    mark(history, 6, 100, P.DELETE_PARTITION_FINISHED)
    mark(history, 7, 900)
    assert history.delete_state == P.DELETE_PARTITION_FINISHED
    assert (times(history), history.unsettled_marker_offset) == ([], None)


def test_new_segments_open_a_finished_partition_again_from_its_next_marker(history: UserPartitionHistory) -> None:
    mark(history, 2, 100)
    mark(history, 3, 100, P.DELETE_PARTITION_STARTED)
    delete_own(history, 0, 4)
    mark(history, 6, 100, P.DELETE_PARTITION_FINISHED)
    history.apply_segment_event(add(PARTITION, 1), 7)
    assert not history.deletion_under_way()
    mark(history, 8, 900)
    assert (history.delete_state, times(history)) == (P.DELETE_PARTITION_MARKED, [900])
    assert history.unsettled_marker_offset == 8


def test_an_update_without_its_add_is_unresolved(history: UserPartitionHistory) -> None:
    history.apply_segment_event(update(PARTITION, 5, S.COPY_SEGMENT_FINISHED), 2)
    assert history.without_add == {UUID(int=1005): 2}
    assert len(history.unfinished()) == 1


def test_an_update_without_its_add_is_resolved_once_it_is_deleted(history: UserPartitionHistory) -> None:
    history.apply_segment_event(update(PARTITION, 5, S.DELETE_SEGMENT_STARTED), 2)
    history.apply_segment_event(update(PARTITION, 5, S.DELETE_SEGMENT_FINISHED), 3)
    assert history.without_add == {}


def test_a_late_event_of_a_deleted_segment_is_no_incomplete_history(history: UserPartitionHistory) -> None:
    mark(history, 2, 100)
    delete_own(history, 0, 3)
    history.apply_segment_event(update(PARTITION, 0, S.DELETE_SEGMENT_FINISHED, broker_id=OWN_BROKER_ID), 5)
    assert (history.without_add, history.unfinished()) == ({}, [])


@pytest.mark.parametrize(
    "event",
    [replace(add(PARTITION, 5), state=S.COPY_SEGMENT_FINISHED), update(PARTITION, 1, S.COPY_SEGMENT_STARTED)],
    ids=["add in another state", "update back to COPY_SEGMENT_STARTED"],
)
def test_an_event_that_ends_a_consumer_makes_the_segment_unresolved(
    history: UserPartitionHistory, event: object
) -> None:
    history.apply_segment_event(add(PARTITION, 1), 2)
    history.apply_segment_event(event, 3)  # type: ignore[arg-type]  # both are segment events
    assert list(history.without_add.values()) == [3]


def test_obstacles_to_finish_in_the_order_in_which_they_are_removed(history: UserPartitionHistory) -> None:
    history.apply_segment_event(update(PARTITION, 5, S.COPY_SEGMENT_FINISHED), 2)
    assert "1 segment is not finished" in str(history.obstacle_to_finish())
    mark(history, 3, 100)
    delete_own(history, 0, 4)
    assert "incomplete history, see offset 2" in str(history.obstacle_to_finish())
    history.apply_segment_event(update(PARTITION, 5, S.DELETE_SEGMENT_FINISHED), 6)
    assert "foreign segment event at offset 6" in str(history.obstacle_to_finish())
    mark(history, 7, 900)
    assert history.obstacle_to_finish() is None
