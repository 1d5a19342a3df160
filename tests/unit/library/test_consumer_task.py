# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.base.errors import EventLogAccessError, EventLogUnavailableError, OffsetOutOfRangeError
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog, ReadEffect
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.serde import serialize
from tests.builders import add, tip
from tests.contracts.consuming import A, B, Consuming, ConsumingContract


def failing(name, error, times=1):
    """A hook that fails the first effects of a name."""
    left = [error] * times

    def hook(effect, detail):
        if effect == name and left:
            raise left.pop()

    return hook


class TestConsuming(ConsumingContract):
    @pytest.fixture
    def make(self):
        def make(num_partitions):
            log = InProcessMetadataEventLog(num_partitions)

            def append(records):
                for metadata_partition, value, key in records:
                    log.append(metadata_partition, value, key)

            return Consuming(log, append, log.truncate)

        return make

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
        for _ in range(20):
            consuming.step()

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

        for _ in range(10):
            consuming.step()

        assert consuming.starts(B) == [0, 1]
        assert "OffsetOutOfRangeError" in consuming.task.liveness().last_error

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

    def test_an_offset_lookup_that_fails_is_tried_again_and_loses_no_assignment(self, consuming):
        consuming.segments(A, [0])
        consuming.log.on_effect = failing("high_water_marks", EventLogUnavailableError("no leader"), times=2)
        consuming.store.assign([A])

        for _ in range(2):
            consuming.step()
        assert not consuming.store.is_initialized(A)
        assert consuming.task.liveness().failures_in_a_row == 2
        consuming.settle()

        assert consuming.starts(A) == [0]

    def test_a_failed_lookup_for_a_new_partition_does_not_stop_the_others(self, consuming):
        consuming.follow(A)
        consuming.segments(A, [0])
        consuming.log.on_effect = failing("beginning_offsets", EventLogUnavailableError("no leader"))
        consuming.store.assign([B])

        consuming.step()

        assert consuming.starts(A) == [0]

    @pytest.mark.usefixtures("small_batches")
    def test_records_deleted_before_a_bootstrap_got_there_show_too(self, consuming):
        consuming.segments(B, range(6))
        consuming.follow(A)
        consuming.store.assign([B])
        consuming.log.on_effect = lambda name, detail: consuming.log.truncate(0, 4) if name == "read" else None

        for _ in range(10):
            consuming.step()

        assert consuming.store.status(B).missing_before == 4

    def test_records_deleted_before_they_were_polled_start_the_metadata_partition_over(self, consuming):
        consuming.segments(A, range(2))
        consuming.follow(A)
        consuming.segments(A, range(2, 6))
        consuming.log.truncate(0, 4)

        consuming.step()
        assert not consuming.store.is_initialized(A)
        assert "offset 2 is not in the log" in consuming.task.liveness().last_error
        consuming.settle()

        assert consuming.starts(A) == [4, 5]
        assert consuming.store.status(A).missing_before == 4

    @pytest.mark.parametrize("error", [EventLogUnavailableError("away"), EventLogAccessError("no"), KeyError("a bug")])
    def test_a_failed_poll_is_tried_again_and_seen(self, consuming, error):
        consuming.follow(A)
        consuming.segments(A, [0])
        consuming.log.on_effect = failing("poll", error, times=3)
        consuming.now_ms = 2_000

        for _ in range(3):
            consuming.step()

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

        for _ in range(3):
            consuming.step()

        assert seen == [0, 1, 2, 2, 3]
        assert consuming.starts(A) == [0, 1, 2, 3]

    def test_a_bootstrap_counts_no_bad_record_again(self, consuming):
        consuming.log.append(0, b"garbage")
        consuming.follow(A)

        consuming.follow(B)

        assert consuming.followed[0].quarantined == 1

    def test_a_misrouted_event_is_not_applied(self, make):
        consuming = make(2)
        right = metadata_partition_for(A, 2)
        other = next(p for p in (tip("o", n, 9) for n in range(50)) if metadata_partition_for(p, 2) != right)
        consuming.log.append(1 - right, serialize(add(A, 0)))

        consuming.follow(A, other)

        assert consuming.starts(A) == []
        assert [q.code for q in consuming.task.quarantined()] == ["MISROUTED"]
        assert not consuming.task.routing_verified()

    def test_a_late_error_about_a_metadata_partition_that_is_no_longer_followed_does_no_harm(self, consuming):
        consuming.log.on_effect = failing("poll", OffsetOutOfRangeError("late", 0, 5))

        consuming.step()
        consuming.follow(A)

        assert consuming.starts(A) == []

    def test_records_deleted_behind_a_bootstrap_show_when_it_ends(self, consuming):
        consuming.segments(B, range(6))
        consuming.follow(A)
        consuming.store.assign([B])

        def delete_at_the_end(name, detail):
            if name == "beginning_offsets" and consuming.store.views.get(B):
                consuming.log.truncate(0, 6)

        consuming.log.on_effect = delete_at_the_end
        consuming.settle()

        # They were read; whether all of them were, nobody can tell any more.
        assert consuming.store.status(B).missing_before == 6

    def test_what_cannot_be_seen_stops_nothing(self, consuming, monkeypatch):
        consuming.follow(A)
        consuming.segments(A, [0])

        def broken():
            raise RuntimeError("no watermarks")

        monkeypatch.setattr(consuming.task._handle, "end_offsets", broken)
        consuming.step()

        assert consuming.starts(A) == [0]
        assert "no watermarks" in consuming.task.liveness().last_error

    def test_the_consumer_closes_its_subscription(self, consuming):
        consuming.follow(A)

        consuming.task.close()

        assert consuming.task._handle.assigned() == {}
