# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_rlmm.errors import (
    EventLogAccessError,
    EventLogUnavailableError,
    NotReadyError,
    PartitionNotAssignedError,
)
from airflow_provider_rlmm.manager import in_process
from airflow_provider_rlmm.manager.consumer_task import ConsumerTask
from airflow_provider_rlmm.manager.in_process import InProcessMetadataEventLog, ReadEffect
from airflow_provider_rlmm.manager.metadata_store import RemotePartitionMetadataStore
from airflow_provider_rlmm.metadata.history import UserPartitionHistory
from airflow_provider_rlmm.metadata.partitioner import metadata_partition_for
from airflow_provider_rlmm.metadata.records import topic_id_partition_of
from airflow_provider_rlmm.metadata.serde import serialize
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.metadata.states import RemotePartitionDeleteState as P
from tests.unit.lifecycle.builders import add, deletion, tip, update

A, B, C = tip("a", topic_id=1), tip("b", topic_id=2), tip("c", topic_id=3)


class Consuming:
    """A consumer task on a log in memory, and every event that it delivers."""

    def __init__(self, num_partitions: int = 1) -> None:
        self.now_ms = 1_000
        self.log = InProcessMetadataEventLog(num_partitions)
        self.store = RemotePartitionMetadataStore()
        self.task = ConsumerTask(self.log, self.store, clock=lambda: self.now_ms)

    def write(self, *events):
        """Append events as brokers do; returns the offset of the last one."""
        for event in events:
            number = metadata_partition_for(topic_id_partition_of(event), self.log.partition_count)
            offset = self.log.append(number, serialize(event))
        return offset

    def segments(self, partition, numbers):
        self.write(*(add(partition, number) for number in numbers))

    def step(self, times=1):
        for _ in range(times):
            self.task.step(0)

    def drain(self):
        while self.task.step(0):
            pass

    def follow(self, *partitions):
        self.store.assign(partitions)
        self.drain()

    def starts(self, partition):
        with self.store.reading(partition) as view:
            return [segment.start_offset // 10 for segment in view.history.unfinished()]

    @property
    def followed(self):
        return dict(self.task.liveness().metadata_partitions)


@pytest.fixture
def consuming():
    return Consuming()


@pytest.fixture
def delivered(monkeypatch):
    """Every (user partition, offset) whose event was applied, in order."""
    seen = []
    apply = UserPartitionHistory.apply_segment_event

    def watched(self, event, offset):
        seen.append((self.topic_id_partition, offset))
        apply(self, event, offset)

    monkeypatch.setattr(UserPartitionHistory, "apply_segment_event", watched)
    return seen


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(in_process, "BATCH_ROWS", 2)


def failing(name, error, times=1):
    """A hook that fails the first effects of a name."""
    left = [error] * times

    def hook(effect, detail):
        if effect == name and left:
            raise left.pop()

    return hook


class TestAssignment:
    def test_an_assigned_partition_is_read_from_the_beginning_and_then_on(self, consuming):
        consuming.segments(A, [0, 1])
        consuming.follow(A)
        assert consuming.starts(A) == [0, 1]

        consuming.segments(A, [2])
        consuming.step()

        assert consuming.starts(A) == [0, 1, 2]

    def test_events_of_unassigned_partitions_are_ignored(self, consuming, delivered):
        consuming.segments(A, [0])
        consuming.segments(B, [0])
        consuming.segments(tip("a", partition=1, topic_id=1), [0])

        consuming.follow(A)

        assert delivered == [(A, 0)]
        with pytest.raises(PartitionNotAssignedError, match="b-0"):
            consuming.starts(B)

    def test_only_the_metadata_partitions_that_are_needed_are_read(self):
        consuming = Consuming(num_partitions=5)
        needed = {metadata_partition_for(partition, 5) for partition in (A, B)}
        polled = []
        consuming.log.on_effect = lambda name, detail: polled.append(set(detail)) if name == "poll" else None

        consuming.follow(A, B)
        assert set(consuming.followed) == needed != set(range(5))
        consuming.store.unassign([A])
        consuming.step()

        assert set(consuming.followed) == {metadata_partition_for(B, 5)}
        assert set().union(*polled) == needed
        assert polled[-1] == {metadata_partition_for(B, 5)}

    def test_nothing_is_read_without_an_assignment(self, consuming):
        consuming.segments(A, [0])

        assert not consuming.task.step(0)
        assert consuming.followed == {}

    def test_assigning_twice_changes_nothing(self, consuming, delivered):
        consuming.segments(A, [0])
        consuming.follow(A)

        consuming.follow(A)

        assert delivered == [(A, 0)]

    def test_a_removed_partition_cannot_be_read_from_that_moment_on(self, consuming):
        consuming.segments(A, [0])
        consuming.follow(A)

        consuming.store.unassign([A])

        with pytest.raises(PartitionNotAssignedError):
            consuming.starts(A)
        consuming.step()
        assert consuming.followed == {}
        assert consuming.store.views == {}


class TestBootstrap:
    @pytest.mark.usefixtures("small_batches")
    def test_a_new_partition_is_read_from_the_beginning_while_the_others_go_on(self, consuming, delivered):
        consuming.segments(A, range(3))
        consuming.segments(B, range(6))
        consuming.follow(A)
        polled = []
        consuming.log.on_effect = lambda name, detail: polled.append(detail[0]) if name == "poll" else None

        consuming.store.assign([B])
        consuming.step()
        consuming.segments(A, [3])
        consuming.step()

        # The new one has begun and is not there yet; the old one has what was written meanwhile.
        assert not consuming.store.is_initialized(B)
        assert consuming.starts(A) == [0, 1, 2, 3]
        assert consuming.followed[0].bootstrapping == 1
        consuming.drain()
        assert consuming.starts(B) == list(range(6))
        assert polled == sorted(polled)
        assert polled[0] == 9
        assert len(set(delivered)) == len(delivered) == 10

    @pytest.mark.usefixtures("small_batches")
    def test_events_that_come_during_a_bootstrap_are_delivered_once_and_in_order(self, consuming, delivered):
        consuming.segments(B, range(7))
        consuming.follow(A)
        consuming.store.assign([B])
        for number in range(7, 10):
            consuming.step()
            consuming.segments(B, [number])
        assert not consuming.store.status(B).initialized

        consuming.drain()

        assert delivered == [(B, offset) for offset in range(10)]
        assert consuming.starts(B) == list(range(10))

    @pytest.mark.usefixtures("small_batches")
    def test_an_assignment_during_a_bootstrap_is_not_lost(self, consuming, delivered):
        consuming.segments(B, range(4))
        consuming.segments(C, range(4))
        consuming.follow(A)
        consuming.store.assign([B])
        consuming.step()

        consuming.store.assign([C])
        consuming.drain()

        assert consuming.starts(B) == consuming.starts(C) == list(range(4))
        assert len(delivered) == 8

    @pytest.mark.usefixtures("small_batches")
    def test_a_partition_removed_during_its_bootstrap_is_forgotten(self, consuming):
        consuming.segments(B, range(6))
        consuming.follow(A)
        consuming.store.assign([B])
        consuming.step()

        consuming.store.unassign([B])
        consuming.drain()

        assert set(consuming.store.views) == {A}
        assert consuming.followed[0].bootstrapping == 0

    @pytest.mark.usefixtures("small_batches")
    def test_a_bootstrap_that_fails_goes_on_where_it_was(self, consuming, delivered):
        consuming.segments(B, range(6))
        consuming.follow(A)
        cuts = [3]
        reads = []

        def cut(name, detail):
            if isinstance(detail, ReadEffect):
                reads.append(detail.start)
                return cuts.pop() if cuts else None
            return None

        consuming.log.on_effect = cut
        consuming.store.assign([B])
        consuming.step(20)

        assert reads == [0, 3]
        assert delivered == [(B, offset) for offset in range(6)]
        assert "cut short at offset 3" in consuming.task.liveness().last_error

    @pytest.mark.usefixtures("small_batches")
    def test_a_log_that_lost_its_end_is_read_again_from_its_beginning(self, consuming):
        consuming.segments(B, range(4))
        consuming.follow(A)
        partition = consuming.log._partitions[0]
        for column in (partition.values, partition.keys, partition.timestamps_ms):
            del column[2:]
        consuming.store.assign([B])

        consuming.step(10)

        assert consuming.starts(B) == [0, 1]
        assert "OffsetOutOfRangeError" in consuming.task.liveness().last_error


class TestRemovingAndAddingAgain:
    def test_removed_and_added_between_two_steps_nothing_is_delivered_twice(self, consuming, delivered):
        consuming.segments(A, range(2))
        consuming.follow(A, B)

        consuming.store.unassign([A])
        consuming.store.assign([A])
        with pytest.raises(NotReadyError):
            consuming.starts(A)
        consuming.segments(A, [2])
        consuming.drain()

        assert consuming.starts(A) == [0, 1, 2]
        assert delivered == [(A, 0), (A, 1), (A, 2)]

    @pytest.mark.parametrize("others", [[], [B]])
    def test_removed_and_added_again_later_it_is_built_anew_from_each_event_once(self, consuming, delivered, others):
        consuming.segments(A, range(3))
        consuming.follow(A, *others)
        consuming.store.unassign([A])
        consuming.drain()
        consuming.write(update(A, 0, S.COPY_SEGMENT_FINISHED))
        delivered.clear()

        consuming.follow(A)

        assert delivered == [(A, offset) for offset in range(4)]
        assert consuming.starts(A) == [0, 1, 2]

    def test_readiness_waits_for_the_end_as_of_the_new_assignment(self, consuming):
        consuming.segments(A, [0])
        consuming.follow(A)
        consuming.store.unassign([A])
        consuming.segments(A, [1])
        consuming.store.assign([A])
        consuming.log.on_effect = failing("poll", EventLogUnavailableError("away"))

        consuming.step()
        assert not consuming.store.is_initialized(A)
        consuming.step()

        assert consuming.starts(A) == [0, 1]


class TestReadiness:
    @pytest.mark.usefixtures("small_batches")
    def test_initialised_means_caught_up_with_the_end_at_assignment(self, consuming):
        consuming.segments(A, range(4))
        consuming.store.assign([A])
        with pytest.raises(NotReadyError, match="not read yet"):
            consuming.starts(A)
        consuming.step()
        consuming.segments(A, range(4, 8))
        with pytest.raises(NotReadyError, match=r"up to offset 2 .* from offset 4 on"):
            consuming.starts(A)

        consuming.step()

        # What was written after the assignment is not waited for.
        assert consuming.starts(A) == [0, 1, 2, 3]
        assert NotReadyError.retriable

    def test_an_empty_metadata_partition_is_ready_at_once(self, consuming):
        consuming.store.assign([A])
        consuming.step()

        assert consuming.starts(A) == []

    def test_an_offset_lookup_that_fails_is_tried_again_and_loses_no_assignment(self, consuming):
        consuming.segments(A, [0])
        consuming.log.on_effect = failing("high_water_marks", EventLogUnavailableError("no leader"), times=2)
        consuming.store.assign([A])

        consuming.step(2)
        assert not consuming.store.is_initialized(A)
        assert consuming.task.liveness().failures_in_a_row == 2
        consuming.drain()

        assert consuming.starts(A) == [0]

    def test_a_failed_lookup_for_a_new_partition_does_not_stop_the_others(self, consuming):
        consuming.follow(A)
        consuming.segments(A, [0])
        consuming.log.on_effect = failing("beginning_offsets", EventLogUnavailableError("no leader"))
        consuming.store.assign([B])

        consuming.step()

        assert consuming.starts(A) == [0]

    def test_a_beginning_above_zero_shows_as_incomplete_history(self, consuming):
        consuming.segments(A, range(4))
        consuming.log.truncate(0, 3)

        consuming.follow(A)

        assert consuming.store.status(A).missing_before == 3
        assert consuming.starts(A) == [3]

    @pytest.mark.usefixtures("small_batches")
    def test_records_deleted_before_a_bootstrap_got_there_show_too(self, consuming):
        consuming.segments(B, range(6))
        consuming.follow(A)
        consuming.store.assign([B])
        consuming.log.on_effect = lambda name, detail: consuming.log.truncate(0, 4) if name == "read" else None

        consuming.step(10)

        assert consuming.store.status(B).missing_before == 4

    def test_records_deleted_before_they_were_polled_start_the_metadata_partition_over(self, consuming):
        consuming.segments(A, range(2))
        consuming.follow(A)
        consuming.segments(A, range(2, 6))
        consuming.log.truncate(0, 4)

        consuming.step()
        assert not consuming.store.is_initialized(A)
        assert "offset 2 is not in the log" in consuming.task.liveness().last_error
        consuming.drain()

        assert consuming.starts(A) == [4, 5]
        assert consuming.store.status(A).missing_before == 4


class TestFailures:
    @pytest.mark.parametrize("error", [EventLogUnavailableError("away"), EventLogAccessError("no"), KeyError("a bug")])
    def test_a_failed_poll_is_tried_again_and_seen(self, consuming, error):
        consuming.follow(A)
        consuming.segments(A, [0])
        consuming.log.on_effect = failing("poll", error, times=3)
        consuming.now_ms = 2_000

        consuming.step(3)

        liveness = consuming.task.liveness()
        assert liveness.last_poll_ms == 1_000
        assert liveness.failures_in_a_row == 3
        assert type(error).__name__ in liveness.last_error
        assert liveness.last_error_ms == 2_000
        assert liveness.metadata_partitions[0].lag == 1
        consuming.step()
        assert consuming.starts(A) == [0]
        liveness = consuming.task.liveness()
        assert (liveness.last_poll_ms, liveness.failures_in_a_row) == (2_000, 0)
        assert type(error).__name__ in liveness.last_error
        assert liveness.metadata_partitions[0].lag == 0

    def test_a_failure_in_the_middle_of_a_batch_loses_nothing_and_repeats_nothing(self, consuming, monkeypatch):
        consuming.segments(A, range(4))
        seen = []
        apply = UserPartitionHistory.apply_segment_event

        def fragile(self, event, offset):
            seen.append(offset)
            if seen == [0, 1, 2]:
                raise RuntimeError("a bug")
            apply(self, event, offset)

        monkeypatch.setattr(UserPartitionHistory, "apply_segment_event", fragile)
        consuming.store.assign([A])

        consuming.step(3)

        assert seen == [0, 1, 2, 2, 3]
        assert consuming.starts(A) == [0, 1, 2, 3]

    def test_bad_records_are_quarantined_and_stop_nothing(self, consuming):
        consuming.segments(A, [0])
        consuming.log.append(0, b"garbage")
        consuming.log.append(0, None)
        consuming.log.append(0, serialize(add(A, 1)), b"key")
        consuming.segments(A, [2])

        consuming.follow(A)

        # Brokers look at no key, so a keyed event counts.
        assert consuming.starts(A) == [0, 1, 2]
        assert [(q.metadata_partition, q.offset, q.code) for q in consuming.task.quarantined()] == [
            (0, 1, "MALFORMED"),
            (0, 2, "TOMBSTONE"),
            (0, 3, "KEYED"),
        ]
        assert all(q.reason for q in consuming.task.quarantined())
        assert consuming.followed[0].quarantined == 3

    def test_a_bootstrap_counts_no_bad_record_again(self, consuming):
        consuming.log.append(0, b"garbage")
        consuming.follow(A)

        consuming.follow(B)

        assert consuming.followed[0].quarantined == 1

    def test_a_misrouted_event_is_not_applied(self):
        consuming = Consuming(num_partitions=2)
        right = metadata_partition_for(A, 2)
        other = next(p for p in (tip("o", n, 9) for n in range(50)) if metadata_partition_for(p, 2) != right)
        consuming.log.append(1 - right, serialize(add(A, 0)))

        consuming.follow(A, other)

        assert consuming.starts(A) == []
        assert [q.code for q in consuming.task.quarantined()] == ["MISROUTED"]
        assert not consuming.task.routing_verified()


def test_the_state_of_a_partitions_deletion_is_kept(consuming):
    consuming.write(deletion(A, P.DELETE_PARTITION_MARKED), deletion(A, P.DELETE_PARTITION_STARTED))
    consuming.follow(A)

    with consuming.store.reading(A) as view:
        assert view.history.delete_state is P.DELETE_PARTITION_STARTED


def test_the_consumer_closes_its_subscription(consuming):
    consuming.follow(A)

    consuming.task.close()

    assert consuming.task._handle.assigned() == {}
