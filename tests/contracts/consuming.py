# SPDX-License-Identifier: Apache-2.0
"""The rules of consuming, step by step; they hold on every metadata event log."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from airflow_provider_rlmm.core.base.errors import NotReadyError, PartitionNotAssignedError
from airflow_provider_rlmm.core.log import in_process
from airflow_provider_rlmm.core.log.kafka import event_log as kafka_event_log
from airflow_provider_rlmm.core.log.kafka import subscription as kafka_subscription
from airflow_provider_rlmm.core.log.protocol import MetadataEventLog
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import RemoteLogMetadata, TopicIdPartition, topic_id_partition_of
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.library.consumer_task import ConsumerTask
from airflow_provider_rlmm.library.metadata_store import MetadataPartitionLiveness, RemotePartitionMetadataStore
from dev.broker import await_condition
from tests.builders import add, deletion, tip, update

A, B, C = tip("a", topic_id=1), tip("b", topic_id=2), tip("c", topic_id=3)
TIMEOUT_S = 30.0
MANY = 500

Append = Callable[[Sequence[tuple[int, bytes | None, bytes | None]]], object]
"""Appends (metadata partition, value, key) as a foreign writer does, and returns when they are readable."""


class Consuming:
    """
    A consumer task that tests step, on a log that they write to past the guard.

    ``truncate(metadata_partition, before_offset)`` deletes records.
    """

    def __init__(self, log: MetadataEventLog, append: Append, truncate: Callable[[int, int], object]) -> None:
        self.now_ms = 1_000
        self.log = log
        self.append = append
        self.truncate = truncate
        self.store = RemotePartitionMetadataStore()
        self.task = ConsumerTask(log, self.store, clock=lambda: self.now_ms)
        self.polled: list[dict[int, int]] = []
        """Positions before each step that began with any."""

    def write(self, *events: RemoteLogMetadata) -> None:
        count = self.log.partition_count
        self.append([(metadata_partition_for(topic_id_partition_of(e), count), serialize(e), None) for e in events])

    def segments(self, partition: TopicIdPartition, numbers: Sequence[int]) -> None:
        self.write(*(add(partition, number) for number in numbers))

    def step(self) -> bool:
        if positions := {number: seen.consumed_offset for number, seen in self.followed.items()}:
            self.polled.append(positions)
        return self.task.step(0.1)

    def step_until(self, condition: Callable[[], bool], what: str) -> None:
        await_condition(lambda: self.step() is None or condition(), what, TIMEOUT_S, interval=0)

    def settle(self) -> None:
        """Step until everything that was written is consumed by everybody who should."""
        ends = self.log.high_water_marks()

        def settled() -> bool:
            at_end = all(s.consumed_offset >= ends[n] and not s.bootstrapping for n, s in self.followed.items())
            return at_end and all(map(self.store.is_initialized, self.store.assignments))

        self.step()
        self.step_until(settled, f"everything is consumed up to {ends}")

    def follow(self, *partitions: TopicIdPartition) -> None:
        self.store.assign(partitions)
        self.settle()

    def starts(self, partition: TopicIdPartition) -> list[int]:
        """Numbers of the segments of a user partition."""
        with self.store.reading(partition) as view:
            return [segment.start_offset // 10 for segment in view.history.unfinished()]

    @property
    def followed(self) -> dict[int, MetadataPartitionLiveness]:
        return dict(self.task.liveness().metadata_partitions)


class ConsumingContract:
    @pytest.fixture
    def make(self) -> Callable[[int], Consuming]:
        """Return what makes a consumer of a fresh log with so many metadata partitions."""
        raise NotImplementedError

    @pytest.fixture
    def consuming(self, make):
        return make(1)

    @pytest.fixture
    def delivered(self, monkeypatch):
        """Every (user partition, offset) whose event was applied, in order."""
        seen = []
        apply = UserPartitionHistory.apply_segment_event

        def watched(self, event, offset):
            seen.append((self.topic_id_partition, offset))
            apply(self, event, offset)

        monkeypatch.setattr(UserPartitionHistory, "apply_segment_event", watched)
        return seen

    @pytest.fixture
    def small_batches(self, monkeypatch):
        for module in (in_process, kafka_event_log, kafka_subscription):
            monkeypatch.setattr(module, "BATCH_ROWS", 2)

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

    def test_only_the_metadata_partitions_that_are_needed_are_read(self, make):
        consuming = make(5)
        needed = {metadata_partition_for(partition, 5) for partition in (A, B)}
        consuming.segments(C, [0])

        consuming.follow(A, B)
        assert set(consuming.followed) == needed != set(range(5))
        consuming.store.unassign([A])
        consuming.settle()

        assert set(consuming.followed) == {metadata_partition_for(B, 5)}
        assert set().union(*consuming.polled) == needed
        consuming.store.unassign([B])
        consuming.step()
        assert consuming.followed == {}

    def test_nothing_is_read_without_an_assignment(self, consuming):
        consuming.segments(A, [0])

        assert not consuming.step()
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

    @pytest.mark.slow
    @pytest.mark.usefixtures("small_batches")
    def test_a_new_partition_is_read_from_the_beginning_while_the_others_go_on(self, consuming, delivered):
        consuming.segments(A, range(3))
        consuming.segments(B, range(MANY))
        consuming.follow(A)

        consuming.store.assign([B])
        consuming.step()
        consuming.segments(A, [3])
        consuming.step_until(lambda: consuming.starts(A) == [0, 1, 2, 3], "the old one has what was written meanwhile")

        assert not consuming.store.is_initialized(B)
        assert consuming.followed[0].bootstrapping == 1
        consuming.settle()
        assert consuming.starts(B) == list(range(MANY))
        positions = [position for polled in consuming.polled for position in polled.values()]
        assert positions == sorted(positions)
        assert len(set(delivered)) == len(delivered) == MANY + 4

    @pytest.mark.slow
    @pytest.mark.usefixtures("small_batches")
    def test_events_that_come_during_a_bootstrap_are_delivered_once_and_in_order(self, consuming, delivered):
        consuming.segments(B, range(MANY))
        consuming.follow(A)
        consuming.store.assign([B])
        for number in range(MANY, MANY + 3):
            consuming.step()
            consuming.segments(B, [number])
        assert not consuming.store.status(B).initialized

        consuming.settle()

        assert delivered == [(B, offset) for offset in range(MANY + 3)]
        assert consuming.starts(B) == list(range(MANY + 3))

    @pytest.mark.usefixtures("small_batches")
    def test_an_assignment_during_a_bootstrap_is_not_lost(self, consuming, delivered):
        consuming.segments(B, range(20))
        consuming.segments(C, range(20))
        consuming.follow(A)
        consuming.store.assign([B])
        consuming.step()

        consuming.store.assign([C])
        consuming.settle()

        assert consuming.starts(B) == consuming.starts(C) == list(range(20))
        assert len(set(delivered)) == len(delivered) == 40

    @pytest.mark.slow
    @pytest.mark.usefixtures("small_batches")
    def test_a_partition_removed_during_its_bootstrap_is_forgotten(self, consuming, delivered):
        consuming.segments(B, range(MANY))
        consuming.follow(A)
        consuming.store.assign([B])
        consuming.step()
        begun = len(delivered)

        consuming.store.unassign([B])
        consuming.settle()

        assert set(consuming.store.views) == {A}
        assert consuming.followed[0].bootstrapping == 0
        assert len(delivered) == begun < MANY

    def test_removed_and_added_between_two_steps_nothing_is_delivered_twice(self, consuming, delivered):
        consuming.segments(A, range(2))
        consuming.follow(A, B)

        consuming.store.unassign([A])
        consuming.store.assign([A])
        with pytest.raises(NotReadyError):
            consuming.starts(A)
        consuming.segments(A, [2])
        consuming.settle()

        assert consuming.starts(A) == [0, 1, 2]
        assert delivered == [(A, 0), (A, 1), (A, 2)]

    @pytest.mark.parametrize("others", [[], [B]])
    def test_removed_and_added_again_later_it_is_built_anew_from_each_event_once(self, consuming, delivered, others):
        consuming.segments(A, range(3))
        consuming.follow(A, *others)
        consuming.store.unassign([A])
        consuming.settle()
        consuming.write(update(A, 0, S.COPY_SEGMENT_FINISHED))
        delivered.clear()

        consuming.follow(A)

        assert delivered == [(A, offset) for offset in range(4)]
        assert consuming.starts(A) == [0, 1, 2]

    @pytest.mark.usefixtures("small_batches")
    def test_initialised_means_caught_up_with_the_end_at_assignment(self, consuming):
        consuming.segments(A, range(4))
        consuming.store.assign([A])
        with pytest.raises(NotReadyError, match="not read yet"):
            consuming.starts(A)
        consuming.step_until(lambda: consuming.followed[0].consumed_offset > 0, "something is consumed")
        consuming.segments(A, range(4, 8))
        with pytest.raises(NotReadyError, match=r"up to offset [12] .* from offset 4 on"):
            consuming.starts(A)

        consuming.step_until(lambda: consuming.store.is_initialized(A), "it is ready")

        # What was written after the assignment is not waited for.
        assert consuming.starts(A) in ([0, 1, 2, 3], [0, 1, 2, 3, 4])
        assert NotReadyError.retriable

    def test_an_empty_metadata_partition_is_ready_at_once(self, consuming):
        consuming.store.assign([A])
        consuming.step()

        assert consuming.starts(A) == []

    def test_a_beginning_above_zero_shows_as_incomplete_history(self, consuming):
        consuming.segments(A, range(4))
        consuming.truncate(0, 3)

        consuming.follow(A)

        assert consuming.store.status(A).missing_before == 3
        assert consuming.starts(A) == [3]

    def test_bad_records_are_quarantined_and_stop_nothing(self, consuming):
        consuming.segments(A, [0])
        consuming.append([(0, b"garbage", None), (0, None, None), (0, serialize(add(A, 1)), b"key")])
        consuming.segments(A, [2])

        consuming.follow(A)

        # Brokers look at no key, so a keyed event counts.
        assert consuming.starts(A) == [0, 1, 2]
        found = consuming.task.quarantined()
        assert [(q.metadata_partition, q.offset, q.code) for q in found] == [
            (0, 1, "MALFORMED"),
            (0, 2, "TOMBSTONE"),
            (0, 3, "KEYED"),
        ]
        assert all(q.reason for q in found)
        assert consuming.followed[0].quarantined == 3

    def test_the_state_of_a_partitions_deletion_is_kept(self, consuming):
        consuming.write(deletion(A, P.DELETE_PARTITION_MARKED), deletion(A, P.DELETE_PARTITION_STARTED))
        consuming.follow(A)

        with consuming.store.reading(A) as view:
            assert view.history.delete_state is P.DELETE_PARTITION_STARTED

    def test_liveness_shows_the_last_poll_and_the_lag(self, consuming):
        consuming.segments(A, [0, 1])
        consuming.follow(A)
        consuming.now_ms = 2_000
        consuming.step()

        liveness = consuming.task.liveness()

        assert (liveness.last_poll_ms, liveness.failures_in_a_row, liveness.last_error) == (2_000, 0, None)
        assert liveness.metadata_partitions == {0: MetadataPartitionLiveness(2, 2, 0, 0)}
        assert liveness.metadata_partitions[0].lag == 0
