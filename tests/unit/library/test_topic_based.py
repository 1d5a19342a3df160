# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from airflow_provider_rlmm.core.base.errors import (
    EventLogAccessError,
    EventLogUnavailableError,
    NotReadyError,
    PublishFailedError,
    PublishOutcomeUnknownError,
    QuarantinedRecordsError,
    ReadAfterWriteError,
    UnsafeEventError,
)
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog, no_effect_hook
from airflow_provider_rlmm.core.log.protocol import Acked, Failed, Unknown
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from dev.broker import await_condition
from tests.builders import add, deletion, update
from tests.contracts.consuming import TIMEOUT_S
from tests.contracts.topic_based import GONE, PARTITIONS, Managing, TopicBasedManagerContract, started

LOST = Unknown("the connection broke")


def on(name, answer, value=None):
    """A hook that answers to one kind of effect, or to the publishing of one value."""

    def hook(effect, detail):
        if effect == name and (value is None or detail.value == value):
            return answer() if callable(answer) else answer
        return None

    return hook


def fail():
    raise EventLogUnavailableError("away")


@pytest.fixture
def managing():
    log = InProcessMetadataEventLog(PARTITIONS)

    def append(records):
        for metadata_partition, value, key in records:
            log.append(metadata_partition, value, key)

    managing = Managing(log, append)
    yield managing
    managing.close()


class TestContract(TopicBasedManagerContract):
    @pytest.fixture
    def managing(self, managing):
        return managing


class TestReads:
    @pytest.fixture
    def manager(self, managing):
        for number in range(4):
            segment = replace(add(GONE, number), txn_idx_empty=number != 2)
            managing.write(segment, update(GONE, number, S.COPY_SEGMENT_FINISHED))
        return managing.following(GONE)

    def test_the_segment_of_an_offset(self, manager):
        assert manager.remote_log_segment_metadata(GONE, 0, 15).start_offset == 10
        assert manager.remote_log_segment_metadata(GONE, 0, 40) is None
        assert manager.remote_log_segment_metadata(GONE, 1, 15) is None

    def test_the_highest_offset_of_an_epoch(self, manager):
        assert manager.highest_offset_for_epoch(GONE, 0) == 39
        assert manager.highest_offset_for_epoch(GONE, 1) is None

    def test_segments_and_their_size_by_epoch(self, manager):
        assert len(manager.list_remote_log_segments(GONE, 0)) == len(manager.list_remote_log_segments(GONE)) == 4
        assert manager.list_remote_log_segments(GONE, 1) == []
        assert manager.remote_log_size(GONE, 0) == 4_000
        assert manager.remote_log_size(GONE, 1) == 0

    def test_the_next_segment_with_aborted_transactions(self, manager):
        assert manager.next_segment_with_txn_index(GONE, 0, 5).start_offset == 20
        assert manager.next_segment_with_txn_index(GONE, 0, 25).start_offset == 20
        assert manager.next_segment_with_txn_index(GONE, 0, 30) is None
        assert manager.next_segment_with_txn_index(GONE, 1, 5) is None


class TestOutcomes:
    def test_an_event_that_was_written_after_all_is_acked(self, managing):
        managing.orphaned(3)
        manager = managing.following(GONE)
        first, lost, last = started(range(3))
        managing.log.after_effect = on("publish", LOST, serialize(lost))

        assert manager.publish([first, lost, last]) == [Acked(5), Acked(6), Acked(7)]
        assert manager.list_remote_log_segments(GONE)[1].state is S.DELETE_SEGMENT_STARTED

    def test_the_log_is_read_back_once_the_brokers_answer(self, managing, monkeypatch):
        monkeypatch.setattr("airflow_provider_rlmm.library.publication._BACKOFF_S", 0.001)
        managing.orphaned(1)
        manager = managing.following(GONE)
        away = iter([fail, fail])
        managing.log.after_effect = on("publish", LOST)
        managing.log.on_effect = on("read", lambda: next(away, lambda: None)())

        assert manager.publish(started([0])) == [Acked(3)]

    def test_an_event_that_is_not_there_may_still_land(self, managing):
        managing.orphaned(1)
        manager = managing.following(GONE)
        managing.log.on_effect = on("publish", LOST)

        (outcome,) = manager.publish(started([0]))

        assert isinstance(outcome, Unknown)
        assert "the connection broke" in outcome.reason
        assert f"metadata partition {managing.partition_of(GONE)} from offset 3 on and may still land" in outcome.reason
        with pytest.raises(PublishOutcomeUnknownError, match=r"DELETE_SEGMENT_STARTED .*gone-0.* publishing it again"):
            manager.update_remote_log_segment_metadata(*started([0]))

    def test_no_partition_is_finished_while_an_event_about_it_may_still_land(self, managing):
        managing.orphaned(1)
        manager = managing.following(GONE)
        (lost,) = started([0])
        managing.log.on_effect = on("publish", LOST)
        manager.publish([lost])
        managing.log.on_effect = no_effect_hook
        # The same step again with another timestamp: another record.
        manager.publish([replace(lost, event_timestamp_ms=1)])
        manager.publish(started([0], S.DELETE_SEGMENT_FINISHED))
        finished = deletion(GONE, P.DELETE_PARTITION_FINISHED)

        with pytest.raises(UnsafeEventError, match="may still land"):
            manager.put_remote_partition_delete_metadata(finished)
        managing.write(lost)
        manager.put_remote_partition_delete_metadata(finished)

        assert manager.partition_delete_state(GONE) is P.DELETE_PARTITION_FINISHED

    def test_finding_the_second_copy_of_an_event_says_nothing_about_the_first(self, managing):
        managing.orphaned(1)
        manager = managing.following(GONE)
        (lost,) = started([0])
        managing.log.on_effect = on("publish", LOST)
        manager.publish([lost])
        managing.log.on_effect = no_effect_hook
        assert manager.publish([lost]) == [Acked(3)]
        manager.publish(started([0], S.DELETE_SEGMENT_FINISHED))
        finished = deletion(GONE, P.DELETE_PARTITION_FINISHED)

        with pytest.raises(UnsafeEventError, match="may still land"):
            manager.put_remote_partition_delete_metadata(finished)
        managing.write(lost)
        manager.put_remote_partition_delete_metadata(finished)

    def test_an_event_that_was_lost_twice_may_still_land_after_one_copy(self, managing):
        managing.orphaned(1)
        manager = managing.following(GONE)
        (lost,) = started([0])
        managing.log.on_effect = on("publish", LOST)
        manager.publish([lost])
        manager.publish([lost])
        managing.log.on_effect = no_effect_hook
        managing.write(lost)
        manager.publish(started([0], S.DELETE_SEGMENT_FINISHED))
        finished = deletion(GONE, P.DELETE_PARTITION_FINISHED)

        with pytest.raises(UnsafeEventError, match="may still land"):
            manager.put_remote_partition_delete_metadata(finished)
        managing.write(lost)
        manager.put_remote_partition_delete_metadata(finished)

    @pytest.mark.parametrize("name", ["read", "high_water_marks"])
    def test_a_look_back_that_is_forbidden_leaves_the_outcomes_to_the_caller(self, managing, name):
        managing.orphaned(1)
        manager = managing.following(GONE)

        def forbid(effect, detail):
            if effect == "publish":
                managing.log.on_effect = on(name, forbidden)
                return LOST
            return None

        def forbidden():
            raise EventLogAccessError("no")

        managing.log.on_effect = forbid

        (outcome,) = manager.publish(started([0]))

        assert isinstance(outcome, Unknown)

    def test_an_event_that_the_log_refuses_is_an_error_of_its_own(self, managing):
        managing.orphaned(1)
        manager = managing.following(GONE)
        managing.log.on_effect = on("publish", Failed("too large"))

        with pytest.raises(PublishFailedError, match="too large"):
            manager.update_remote_log_segment_metadata(*started([0]))

    def test_nothing_is_published_on_a_view_that_lags(self, managing):
        managing.orphaned(1)
        manager = managing.following(GONE)
        manager._publication.consume_wait_s = 0.01
        managing.log.on_effect = on("poll", fail)
        managing.write(add(GONE, 1))
        before = dict(managing.log.high_water_marks())

        with pytest.raises(NotReadyError, match="nothing was written"):
            manager.publish(started([0]))

        assert managing.log.high_water_marks() == before

    def test_a_batch_that_does_not_come_back_in_time_is_not_lost_on_the_caller(self, managing):
        managing.orphaned(1)
        manager = managing.following(GONE)
        manager._publication.consume_wait_s = 0.01
        managing.log.on_effect = on("poll", fail)

        with pytest.raises(ReadAfterWriteError, match="do not publish them again") as raised:
            manager.publish(started([0]))

        assert raised.value.outcomes == (Acked(3),)

    def test_a_publish_need_not_wait(self, managing):
        managing.orphaned(1)
        manager = managing.following(GONE)
        managing.log.on_effect = on("poll", fail)

        assert manager.publish(started([0]), wait=False) == [Acked(3)]

    def test_incomplete_history_is_no_ground_to_write_on(self, managing):
        managing.orphaned(2)
        managing.log.truncate(managing.partition_of(GONE), 1)
        manager = managing.following(GONE)
        assert manager.status(GONE).missing_before == 1

        with pytest.raises(QuarantinedRecordsError, match="lacks the records before offset 1"):
            manager.publish(started([1]))

    def test_an_empty_batch_does_nothing(self, managing):
        assert managing.open().publish([]) == []


class TestLife:
    def test_failures_do_not_stop_the_thread(self, managing, monkeypatch):
        monkeypatch.setattr("airflow_provider_rlmm.library.topic_based._BACKOFF_S", 0.001)
        manager = managing.following(GONE)
        failures = iter([EventLogUnavailableError("away"), RuntimeError("a bug"), None])

        def hook(name, detail):
            if name == "poll" and (error := next(failures, None)):
                raise error

        managing.log.on_effect = hook
        managing.write(add(GONE, 0))

        await_condition(lambda: len(manager.list_remote_log_segments(GONE)) == 1, "the event is there", TIMEOUT_S)
        await_condition(lambda: not manager.liveness().failures_in_a_row, "all is well again", TIMEOUT_S)
        assert manager.liveness().running
        assert "a bug" in manager.liveness().last_error

    def test_whoever_waits_is_told_when_the_manager_is_closed(self, managing):
        managing.orphaned(1)
        manager = managing.following(GONE)
        managing.log.on_effect = on("poll", fail)
        errors = []

        def publish():
            try:
                manager.publish(started([0]))
            except ReadAfterWriteError as error:
                errors.append(error)

        thread = threading.Thread(target=publish)
        thread.start()
        number = managing.partition_of(GONE)
        await_condition(lambda: managing.log.high_water_marks()[number] == 4, "the event is written", TIMEOUT_S)
        manager.close()
        thread.join()

        assert [error.outcomes for error in errors] == [(Acked(3),)]
