# SPDX-License-Identifier: Apache-2.0
"""What the topic-based metadata manager promises, with its own thread, on every metadata event log."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import (
    ManagerClosedError,
    NotReadyError,
    PartitionNotAssignedError,
    QuarantinedRecordsError,
    UnsafeEventError,
    WritesNotAllowedError,
)
from airflow_provider_rlmm.core.log.protocol import Acked, MetadataEventLog, ProvenLook
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    OWN_BROKER_ID,
    RemoteLogMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.library.metadata_store import RemotePartitionMetadataStore
from airflow_provider_rlmm.library.readiness import SwappableRemoteLogMetadataManager
from airflow_provider_rlmm.library.topic_based import TopicBasedRemoteLogMetadataManager
from dev.broker import await_condition
from tests.builders import add, deletion, tip, update
from tests.contracts.consuming import TIMEOUT_S, Append

PARTITIONS = 3
GONE, OTHER = tip("gone", topic_id=7), tip("other", topic_id=8)


class Managing:
    """A manager on a fresh log with PARTITIONS metadata partitions; ``append`` writes past the guard."""

    def __init__(self, log: MetadataEventLog, append: Append) -> None:
        self.log = log
        self.append = append
        self.opened: list[TopicBasedRemoteLogMetadataManager] = []

    def open(self, *, allow_writes: bool = True, absent: bool = True) -> TopicBasedRemoteLogMetadataManager:
        publisher = GuardedPublisher(self.log, allow_writes=allow_writes)

        def look_at(topic_id: UUID) -> ProvenLook:
            return ProvenLook(self.log.topic_id, frozenset({topic_id} if absent else ()))

        manager = TopicBasedRemoteLogMetadataManager(
            self.log,
            publisher,
            look_at=look_at,
            consume_wait_s=TIMEOUT_S,
        )
        self.opened.append(manager)
        return manager

    def following(self, *partitions: TopicIdPartition, **kwargs: bool) -> TopicBasedRemoteLogMetadataManager:
        manager = self.open(**kwargs)
        manager.on_partition_leadership_changes(partitions[:1], partitions[1:])
        assert manager.await_ready(partitions, TIMEOUT_S)
        return manager

    def partition_of(self, partition: TopicIdPartition) -> int:
        return metadata_partition_for(partition, PARTITIONS)

    def write(self, *events: RemoteLogMetadata) -> None:
        self.append([(self.partition_of(topic_id_partition_of(e)), serialize(e), None) for e in events])

    def orphaned(self, count: int) -> None:
        """Segments of GONE whose deletion has been started."""
        self.write(*(add(GONE, number) for number in range(count)))
        self.write(deletion(GONE, P.DELETE_PARTITION_MARKED), deletion(GONE, P.DELETE_PARTITION_STARTED))

    def close(self) -> None:
        for manager in self.opened:
            manager.close()


def started(numbers: Sequence[int], state: S = S.DELETE_SEGMENT_STARTED) -> list[RemoteLogSegmentMetadataUpdate]:
    return [update(GONE, number, state, broker_id=OWN_BROKER_ID) for number in numbers]


class TopicBasedManagerContract:
    @pytest.fixture
    def managing(self) -> Iterator[Managing]:
        raise NotImplementedError

    def test_what_was_published_can_be_read_at_once(self, managing):
        managing.orphaned(50)
        manager = managing.following(GONE)

        outcomes = manager.publish(started(range(50)))

        assert outcomes == [Acked(offset) for offset in range(52, 102)]
        states = {segment.state for segment in manager.list_remote_log_segments(GONE)}
        assert states == {S.DELETE_SEGMENT_STARTED}
        manager.publish(started(range(50), S.DELETE_SEGMENT_FINISHED))
        assert manager.list_remote_log_segments(GONE) == []

    def test_single_events_are_published_the_same_way(self, managing):
        managing.write(add(GONE, 0))
        manager = managing.following(GONE)

        assert manager.put_remote_partition_delete_metadata(deletion(GONE, P.DELETE_PARTITION_MARKED)) == 1
        assert manager.put_remote_partition_delete_metadata(deletion(GONE, P.DELETE_PARTITION_STARTED)) == 2
        assert manager.update_remote_log_segment_metadata(*started([0])) == 3
        assert manager.update_remote_log_segment_metadata(*started([0], S.DELETE_SEGMENT_FINISHED)) == 4
        assert manager.put_remote_partition_delete_metadata(deletion(GONE, P.DELETE_PARTITION_FINISHED)) == 5
        assert manager.partition_delete_state(GONE) is P.DELETE_PARTITION_FINISHED

    def test_a_batch_is_waited_for_once_however_large(self, managing, monkeypatch):
        managing.orphaned(100)
        manager = managing.following(GONE)
        waits = []
        await_consumed = RemotePartitionMetadataStore.await_consumed

        def counted(self, offsets, timeout_s):
            waits.append(dict(offsets))
            return await_consumed(self, offsets, timeout_s)

        monkeypatch.setattr(RemotePartitionMetadataStore, "await_consumed", counted)

        manager.publish(started(range(100)))

        assert waits == [{GONE: 102}, {GONE: 202}]

    def test_the_guard_judges_by_the_end_of_the_log(self, managing):
        managing.orphaned(1)
        manager = managing.following(GONE)
        managing.write(*started([0]), *started([0], S.DELETE_SEGMENT_FINISHED))

        with pytest.raises(UnsafeEventError, match="nothing to delete"):
            manager.publish(started([0]))

    @pytest.mark.parametrize(
        ("allowed", "error"),
        [({"allow_writes": False}, WritesNotAllowedError), ({"absent": False}, UnsafeEventError)],
    )
    def test_nothing_goes_round_the_guard(self, managing, allowed, error):
        managing.orphaned(1)
        manager = managing.following(GONE, **allowed)
        before = dict(managing.log.high_water_marks())

        for write in (
            lambda: manager.publish(started([0])),
            lambda: manager.update_remote_log_segment_metadata(*started([0])),
            lambda: manager.put_remote_partition_delete_metadata(deletion(GONE, P.DELETE_PARTITION_STARTED)),
            lambda: manager.add_remote_log_segment_metadata(add(GONE, 1)),
        ):
            with pytest.raises(error):
                write()
        assert managing.log.high_water_marks() == before

    def test_the_first_event_of_a_segment_is_never_ours_to_write(self, managing):
        managing.orphaned(1)
        manager = managing.following(GONE)

        with pytest.raises(UnsafeEventError, match="never written by this package"):
            manager.add_remote_log_segment_metadata(add(GONE, 1))

    def test_one_refused_event_keeps_the_whole_batch_back(self, managing):
        managing.orphaned(2)
        manager = managing.following(GONE)
        before = dict(managing.log.high_water_marks())

        with pytest.raises(UnsafeEventError):
            manager.publish([*started([0]), *started([1], S.DELETE_SEGMENT_FINISHED)])

        assert managing.log.high_water_marks() == before

    def test_what_is_not_followed_is_neither_read_nor_written(self, managing):
        managing.orphaned(1)
        with pytest.raises(PartitionNotAssignedError):
            managing.open().publish(started([0]))
        manager = managing.following(OTHER)

        for call in (
            lambda: manager.publish(started([0])),
            lambda: manager.list_remote_log_segments(GONE),
            lambda: manager.highest_offset_for_epoch(GONE, 0),
        ):
            with pytest.raises(PartitionNotAssignedError, match="gone-0"):
                call()
        assert not manager.is_ready(GONE)
        assert manager.status(GONE) is None

    def test_a_view_with_records_in_quarantine_is_no_ground_to_write_on(self, managing):
        managing.orphaned(1)
        managing.append([(managing.partition_of(GONE), b"garbage", None)])
        manager = managing.following(GONE)

        with pytest.raises(QuarantinedRecordsError, match=r"offset 3: MALFORMED"):
            manager.publish(started([0]))
        assert [record.offset for record in manager.quarantined()] == [3]

    def test_stopping_and_following_again(self, managing):
        managing.orphaned(3)
        manager = managing.following(GONE, OTHER)

        manager.on_stop_partitions([GONE])
        assert not manager.is_ready(GONE)
        manager.on_partition_leadership_changes([], [GONE])
        assert manager.await_ready([GONE], TIMEOUT_S)

        assert len(manager.list_remote_log_segments(GONE)) == 3

    def test_an_assignment_is_reconciled_in_one_step(self, managing):
        managing.orphaned(3)
        manager = managing.open()
        third = tip("third", topic_id=9)

        manager.reconcile_assignment([GONE, OTHER])
        assert manager.await_ready([GONE, OTHER], TIMEOUT_S)
        before = manager.status(GONE)
        manager.reconcile_assignment([GONE, third])
        assert manager.await_ready([GONE, third], TIMEOUT_S)

        assert manager.status(GONE) == before, "what stays goes on"
        with pytest.raises(PartitionNotAssignedError, match="other-0"):
            manager.list_remote_log_segments(OTHER)
        manager.reconcile_assignment([])
        assert not manager.is_ready(GONE)

    def test_where_the_events_of_user_partitions_lie(self, managing):
        manager = managing.open()
        assert manager.metadata_partitions_for([]) == frozenset()
        assert manager.metadata_partitions_for([GONE, OTHER]) == {
            managing.partition_of(GONE),
            managing.partition_of(OTHER),
        }

    def test_two_threads_may_publish(self, managing):
        managing.orphaned(40)
        manager = managing.following(GONE)
        failures = []

        def publish(numbers):
            try:
                for number in numbers:
                    manager.publish(started([number]))
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=publish, args=[range(start, 40, 2)]) for start in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert failures == []
        assert {segment.state for segment in manager.list_remote_log_segments(GONE)} == {S.DELETE_SEGMENT_STARTED}

    def test_liveness_shows_the_thread_and_the_lag(self, managing):
        managing.orphaned(2)
        manager = managing.open()
        assert not manager.liveness().running
        manager.on_partition_leadership_changes([GONE], [])
        assert manager.await_ready([GONE], TIMEOUT_S)

        # It is told at the end of the step that has made it ready.
        await_condition(lambda: manager.liveness().last_poll_ms, "the first poll is told", TIMEOUT_S)
        liveness = manager.liveness()
        assert liveness.running
        assert liveness.metadata_partitions[managing.partition_of(GONE)].consumed_offset == 4
        manager.close()
        assert not manager.liveness().running

    def test_a_closed_manager_says_so(self, managing):
        manager = managing.following(GONE)

        manager.close()
        manager.close()

        for call in (
            lambda: manager.publish(started([0])),
            lambda: manager.on_partition_leadership_changes([GONE], []),
            lambda: manager.on_stop_partitions([GONE]),
            lambda: manager.reconcile_assignment([GONE]),
            lambda: manager.await_ready([GONE], 0),
            lambda: manager.list_remote_log_segments(GONE),
            lambda: manager.list_remote_log_segments(OTHER, 0),
            lambda: manager.remote_log_segment_metadata(GONE, 0, 0),
            lambda: manager.highest_offset_for_epoch(GONE, 0),
            lambda: manager.next_segment_with_txn_index(GONE, 0, 0),
            lambda: manager.remote_log_size(GONE, 0),
            lambda: manager.partition_delete_state(GONE),
        ):
            with pytest.raises(ManagerClosedError, match="was closed"):
                call()
        assert not manager.is_ready(GONE)

    def test_managers_are_swapped_under_calls(self, managing):
        """Every call gets a whole answer, of one manager or the other, or NotReady; none is answered by a closed one."""
        managing.orphaned(3)
        swappable = SwappableRemoteLogMetadataManager()
        done = threading.Event()
        answers, failures = set(), []

        def ask():
            while not done.is_set():
                try:
                    answers.add(len(swappable.list_remote_log_segments(GONE)))
                except NotReadyError:
                    answers.add("not ready")
                except Exception as error:
                    failures.append(error)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(5):
                swappable.swap(managing.following(GONE)).close()
            swappable.close()
        finally:
            done.set()
            for thread in threads:
                thread.join()

        assert failures == []
        assert answers == {"not ready", 3}
        with pytest.raises(NotReadyError, match="closed"):
            swappable.list_remote_log_segments(GONE)
