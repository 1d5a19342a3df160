# SPDX-License-Identifier: Apache-2.0
"""A manager that is opened again goes on behind the shared snapshot, and answers as one does that has read everything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import NotReadyError, QuarantinedRecordsError, SnapshotRefusedError
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog, no_effect_hook
from airflow_provider_rlmm.core.log.protocol import ProvenLook
from airflow_provider_rlmm.core.log.snapshot import Snapshot
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.records.records import OWN_BROKER_ID
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.library.publication import LookAt, no_look
from airflow_provider_rlmm.library.resumption import LookupReplay, Resumption
from airflow_provider_rlmm.library.topic_based import TopicBasedRemoteLogMetadataManager
from dev.broker import await_condition
from tests.contracts.consuming import TIMEOUT_S
from tests.unit.core.records.events import copied, deleted, deleting, partition_delete, started
from tests.unit.library.topics import new_log, put, topic_state, user_partition_of

HERE, THERE = user_partition_of(0), user_partition_of(1)
NEIGHBOUR = user_partition_of(0, topic="payments")


@pytest.fixture
def log() -> InProcessMetadataEventLog:
    """A segment that was deleted, one that lives, and another user partition in the same metadata partition."""
    log = new_log()
    put(log, started(9, 0, 99, partition=NEIGHBOUR), copied(9, NEIGHBOUR))
    put(log, started(1, 0, 99, partition=HERE), copied(1, HERE), deleting(1, HERE), deleted(1, HERE))
    put(log, started(2, 100, 150, partition=HERE), copied(2, HERE))
    return log


def snapshot_of(log: InProcessMetadataEventLog) -> Snapshot:
    state = topic_state(log)
    state.advance()
    return state.snapshot()


def opened(
    log: InProcessMetadataEventLog, snapshot: Snapshot | None, look_at: LookAt = no_look
) -> TopicBasedRemoteLogMetadataManager:
    publisher = GuardedPublisher(log, allow_writes=True)
    return TopicBasedRemoteLogMetadataManager(
        log, publisher, look_at=look_at, consume_wait_s=TIMEOUT_S, snapshot=snapshot
    )


def absent(log: InProcessMetadataEventLog) -> LookAt:
    """A look that finds no topic."""
    return lambda topic_id: ProvenLook(log.topic_id, frozenset({topic_id}))


class Effects:
    """What the log was asked for."""

    def __init__(self, log: InProcessMetadataEventLog) -> None:
        self.reads: list[tuple[int, int, int]] = []
        self.first_positions: dict[int, int] = {}
        log.on_effect = self

    def __call__(self, name: str, detail: Any) -> None:
        if name == "read":
            self.reads.append((detail.metadata_partition, detail.start, detail.end))
        elif name == "poll":
            for number, position in detail.items():
                self.first_positions.setdefault(number, position)


def test_consumption_goes_on_behind_the_last_record_of_the_snapshot(log: InProcessMetadataEventLog) -> None:
    snapshot = snapshot_of(log)
    put(log, started(3, 151, 200, partition=HERE), partition_delete(P.DELETE_PARTITION_MARKED, HERE))
    effects = Effects(log)
    with opened(log, snapshot) as manager:
        manager.reconcile_assignment([HERE])
        assert manager.await_ready([HERE], TIMEOUT_S)
        assert [segment.start_offset for segment in manager.list_remote_log_segments(HERE)] == [100, 151]
        assert manager.partition_delete_state(HERE) is P.DELETE_PARTITION_MARKED
        status = manager.status(HERE)
        assert status is not None
        assert (status.missing_before, status.next_offset) == (0, log.high_water_marks()[0])
    assert (effects.first_positions, effects.reads) == ({0: snapshot.next_offsets[0]}, [])


def test_lookups_by_leader_epoch_are_replayed_once_for_all_of_a_metadata_partition(
    log: InProcessMetadataEventLog,
) -> None:
    snapshot = snapshot_of(log)
    put(log, started(3, 151, 200, partition=HERE), copied(3, HERE), deleting(3, HERE), deleted(3, HERE))
    effects = Effects(log)
    with opened(log, snapshot) as manager:
        manager.reconcile_assignment([HERE, NEIGHBOUR])
        assert manager.await_ready([HERE, NEIGHBOUR], TIMEOUT_S)
        # It outlives the segments: no table of the living says it.
        assert manager.highest_offset_for_epoch(HERE, 0) == 200
        assert manager.highest_offset_for_epoch(NEIGHBOUR, 0) == 99
        found = manager.remote_log_segment_metadata(HERE, 0, 120)
        assert found is not None
        assert (found.start_offset, manager.remote_log_segment_metadata(HERE, 0, 10)) == (100, None)
        assert len(manager.list_remote_log_segments(HERE, 0)) == 1
        assert manager.next_segment_with_txn_index(HERE, 0, 120) == found
    assert effects.reads == [(0, 0, log.high_water_marks()[0])]


def test_what_comes_while_the_lookups_are_replayed_is_in_them(log: InProcessMetadataEventLog) -> None:
    snapshot = snapshot_of(log)
    with opened(log, snapshot) as manager:
        manager.reconcile_assignment([HERE])
        assert manager.await_ready([HERE], TIMEOUT_S)

        def copies_another(name: str, detail: Any) -> None:
            if name == "read":
                log.after_effect = no_effect_hook
                [_, (number, offset)] = put(log, started(3, 151, 200, partition=HERE), copied(3, HERE))
                consumed = lambda: manager.liveness().metadata_partitions[number].consumed_offset > offset  # noqa: E731
                await_condition(consumed, "it is delivered", TIMEOUT_S)

        log.after_effect = copies_another
        assert manager.highest_offset_for_epoch(HERE, 0) == 200
        assert len(manager.list_remote_log_segments(HERE)) == 2


def test_a_user_partition_that_is_followed_later_goes_on_from_the_snapshot_too(log: InProcessMetadataEventLog) -> None:
    snapshot = snapshot_of(log)
    with opened(log, snapshot) as manager:
        manager.reconcile_assignment([NEIGHBOUR])
        assert manager.await_ready([NEIGHBOUR], TIMEOUT_S)
        put(log, started(3, 151, 200, partition=HERE), copied(3, HERE))
        end = log.high_water_marks()[0]
        await_condition(
            lambda: manager.liveness().metadata_partitions[0].consumed_offset == end, "it is consumed", TIMEOUT_S
        )
        effects = Effects(log)
        manager.reconcile_assignment([NEIGHBOUR, HERE])
        assert manager.await_ready([HERE], TIMEOUT_S)
        assert [segment.start_offset for segment in manager.list_remote_log_segments(HERE)] == [100, 151]
    assert effects.reads == [(0, snapshot.next_offsets[0], end)]


def test_what_the_snapshot_cannot_tell_for_certain_is_read_from_the_log(log: InProcessMetadataEventLog) -> None:
    # Columns forget finished segments: this looks like an update without its add.
    put(log, deleting(1, HERE))
    with opened(log, snapshot_of(log)) as manager:
        effects = Effects(log)
        manager.reconcile_assignment([NEIGHBOUR, HERE])
        assert manager.await_ready([HERE, NEIGHBOUR], TIMEOUT_S)
        assert manager.names_of(HERE.topic_id) == {"orders", "payments"}
        with manager._store.reading(HERE) as view:
            assert view.history.without_add == {}
        assert [segment.state for segment in manager.list_remote_log_segments(HERE)] == [S.COPY_SEGMENT_FINISHED]
    # Whichever came first, the metadata partition was read once from its beginning.
    assert min([effects.first_positions[0], *(start for _, start, _ in effects.reads)]) == 0


def test_an_update_that_comes_after_the_end_of_its_segment_is_no_obstacle_to_finish(
    log: InProcessMetadataEventLog,
) -> None:
    put(log, *(partition_delete(state, HERE) for state in list(P)[:2]))
    snapshot = snapshot_of(log)
    put(
        log,
        *(
            replace(event, broker_id=OWN_BROKER_ID)
            for event in (deleting(2, HERE), deleted(2, HERE), deleting(1, HERE))
        ),
    )
    with opened(log, snapshot, look_at=absent(log)) as manager:
        manager.reconcile_assignment([HERE])
        assert manager.await_ready([HERE], TIMEOUT_S)
        manager.put_remote_partition_delete_metadata(partition_delete(P.DELETE_PARTITION_FINISHED, HERE))
        assert manager.partition_delete_state(HERE) is P.DELETE_PARTITION_FINISHED


def test_records_in_quarantine_stay_there(log: InProcessMetadataEventLog) -> None:
    offset = log.append(0, b"garbage")
    with opened(log, snapshot_of(log)) as manager:
        manager.reconcile_assignment([HERE])
        assert manager.await_ready([HERE], TIMEOUT_S)
        assert [record.offset for record in manager.quarantined()] == [offset]
        with pytest.raises(QuarantinedRecordsError, match=f"offset {offset}: MALFORMED"):
            manager.update_remote_log_segment_metadata(deleting(2, HERE))


def test_a_log_that_lost_what_comes_next_is_read_from_what_is_left(log: InProcessMetadataEventLog) -> None:
    snapshot = snapshot_of(log)
    put(log, started(3, 151, 200, partition=HERE), copied(3, HERE))
    log.truncate(0, log.high_water_marks()[0] - 1)
    with opened(log, snapshot) as manager:
        manager.reconcile_assignment([HERE])
        assert manager.await_ready([HERE], TIMEOUT_S)
        status = manager.status(HERE)
        assert status is not None
        assert status.missing_before == log.beginning_offsets()[0]
        assert manager.list_remote_log_segments(HERE) == []


def test_a_log_that_lost_its_end_is_read_from_its_beginning(log: InProcessMetadataEventLog) -> None:
    snapshot = snapshot_of(log)
    log.cut_off(0, snapshot.next_offsets[0] - 1)
    # Not for a moment may it look as if it were up to date.
    resumption = Resumption(snapshot, log)
    assert resumption.next_offset(0, 0, log.high_water_marks()[0]) is None
    assert resumption.next_offset(0, snapshot.next_offsets[0] + 1, 1_000) is None
    with opened(log, snapshot) as manager:
        manager.reconcile_assignment([HERE])
        assert manager.await_ready([HERE], TIMEOUT_S)
        # The copy of the second segment was finished by the record that is gone.
        assert [segment.state for segment in manager.list_remote_log_segments(HERE)] == [S.COPY_SEGMENT_STARTED]


def test_a_beginning_that_is_lost_before_the_lookups_are_asked_for_is_told(log: InProcessMetadataEventLog) -> None:
    snapshot = snapshot_of(log)
    with opened(log, snapshot) as manager:
        manager.reconcile_assignment([HERE])
        assert manager.await_ready([HERE], TIMEOUT_S)
        log.truncate(0, 6)
        with pytest.raises(NotReadyError, match="metadata partition 0 is read anew: try again soon"):
            manager.highest_offset_for_epoch(HERE, 0)
        await_condition(
            lambda: (status := manager.status(HERE)) is not None and status.initialized and status.missing_before == 6,
            "it is read anew",
            TIMEOUT_S,
        )
        assert manager.highest_offset_for_epoch(HERE, 0) == 150


def test_a_snapshot_of_another_topic_is_refused(log: InProcessMetadataEventLog) -> None:
    with pytest.raises(SnapshotRefusedError, match=r"with 2 partitions, the log of .* with 3: leave it out"):
        opened(new_log(partitions=3), snapshot_of(log))


def test_a_view_that_was_dropped_meanwhile_is_left_alone(log: InProcessMetadataEventLog) -> None:
    with opened(log, snapshot_of(log)) as manager:
        manager.reconcile_assignment([HERE, THERE])
        assert manager.await_ready([HERE, THERE], TIMEOUT_S)
        with manager._store.reading(HERE) as view:
            before = view.history

        def drops(name: str, detail: Any) -> None:
            if name == "read":
                log.after_effect = no_effect_hook
                manager.reconcile_assignment([THERE])
                await_condition(lambda: HERE not in manager._store.views, "it is dropped", TIMEOUT_S)

        log.after_effect = drops
        LookupReplay(log, manager._store).ensure(HERE)
        assert view.history is before
