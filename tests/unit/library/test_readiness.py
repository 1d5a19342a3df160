# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import inspect
import threading

import pytest

from airflow_provider_rlmm.core.base.errors import NotReadyError
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.library.readiness import NotReadyRemoteLogMetadataManager, SwappableRemoteLogMetadataManager
from airflow_provider_rlmm.library.remote_log_metadata_manager import RemoteLogMetadataManager
from airflow_provider_rlmm.library.topic_based import TopicBasedRemoteLogMetadataManager
from dev.broker import await_condition
from tests.builders import add, deletion, tip, update
from tests.contracts.consuming import TIMEOUT_S

A = tip("a", topic_id=1)
CALLS = {
    "add_remote_log_segment_metadata": (add(A, 0),),
    "update_remote_log_segment_metadata": (update(A, 0, S.COPY_SEGMENT_FINISHED),),
    "put_remote_partition_delete_metadata": (deletion(A, P.DELETE_PARTITION_MARKED),),
    "remote_log_segment_metadata": (A, 0, 5),
    "highest_offset_for_epoch": (A, 0),
    "list_remote_log_segments": (A, 0),
    "remote_log_size": (A, 0),
    "next_segment_with_txn_index": (A, 0, 5),
    "on_partition_leadership_changes": ([A], []),
    "on_stop_partitions": ([A],),
    "reconcile_assignment": ([A],),
    "metadata_partitions_for": ([A],),
    "names_of": (A.topic_id,),
    "partition_delete_state": (A,),
    "publish": ([],),
    "await_readable": ([], []),
}
ANSWERED = {"is_ready": (A,), "await_ready": ([A], 0.0), "status": (A,), "liveness": (), "quarantined": ()}
"""What can be asked before there is a manager."""


class Recording:
    """A manager that answers every call with its name, and remembers the arguments."""

    def __init__(self):
        self.calls = {}
        self.closed = False

    def __getattr__(self, name):
        def call(*arguments, **options):
            self.calls[name] = arguments
            return name

        return call

    def close(self):
        self.closed = True


@pytest.mark.parametrize("manager", [NotReadyRemoteLogMetadataManager(), SwappableRemoteLogMetadataManager()])
@pytest.mark.parametrize("name", CALLS)
def test_before_there_is_a_manager_every_call_is_refused(manager, name):
    with pytest.raises(NotReadyError, match="still being set up; try again later"):
        getattr(manager, name)(*CALLS[name])

    assert NotReadyError.retriable
    assert not manager.is_ready(A)


def methods_of(kind):
    found = inspect.getmembers(kind, inspect.isfunction)
    return {
        name: list(inspect.signature(method).parameters.values()) for name, method in found if not name.startswith("_")
    }


@pytest.mark.parametrize("kind", [NotReadyRemoteLogMetadataManager, SwappableRemoteLogMetadataManager])
def test_whatever_a_manager_can_do_can_be_asked_of_the_facade(kind):
    expected = methods_of(TopicBasedRemoteLogMetadataManager)
    assert expected == methods_of(RemoteLogMetadataManager)
    found = methods_of(kind)
    assert {name: found[name] for name in expected} == expected
    assert expected.keys() == CALLS.keys() | ANSWERED.keys() | {"close"}


@pytest.mark.parametrize("manager", [NotReadyRemoteLogMetadataManager(), SwappableRemoteLogMetadataManager()])
def test_before_there_is_a_manager_nothing_is_ready_and_nothing_runs(manager):
    assert not manager.await_ready([A], 0.0)
    assert manager.status(A) is None
    assert not manager.liveness().running
    assert manager.quarantined() == []


@pytest.mark.parametrize("name", CALLS | ANSWERED)
def test_calls_are_passed_on_with_their_arguments(name):
    swappable, manager = SwappableRemoteLogMetadataManager(), Recording()
    swappable.swap(manager)
    arguments = (CALLS | ANSWERED)[name]

    answer = getattr(swappable, name)(*arguments)

    assert manager.calls == {name: arguments}
    assert answer == name


def test_a_swap_returns_the_former_manager():
    swappable, first, second = SwappableRemoteLogMetadataManager(), Recording(), Recording()

    assert isinstance(swappable.swap(first), NotReadyRemoteLogMetadataManager)
    assert swappable.swap(second) is first
    assert swappable.is_ready(A) == "is_ready"
    assert second.calls == {"is_ready": (A,)}


def test_closing_closes_the_manager_in_place_and_fails_closed():
    first = Recording()
    with SwappableRemoteLogMetadataManager() as swappable:
        swappable.swap(first)

    assert first.closed
    with pytest.raises(NotReadyError, match="was closed"):
        swappable.remote_log_size(A, 0)


def test_a_swap_waits_for_the_calls_to_the_former_manager_and_holds_no_new_one_up():
    entered, leave, swapped = threading.Event(), threading.Event(), threading.Event()

    class Slow(Recording):
        def remote_log_size(self, *arguments):
            entered.set()
            assert leave.wait(TIMEOUT_S)
            return 1

    swappable, slow, fast = SwappableRemoteLogMetadataManager(), Slow(), Recording()
    swappable.swap(slow)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(swappable.remote_log_size(A, 0)))
    asking.start()
    assert entered.wait(TIMEOUT_S)
    swapping = threading.Thread(target=lambda: (swappable.swap(fast), swapped.set()))
    swapping.start()

    # New calls go to the new manager while the old one is still at work.
    await_condition(lambda: swappable._current is fast, "the new one is in place", TIMEOUT_S)
    assert swappable.remote_log_size(A, 0) == "remote_log_size"
    assert not swapped.is_set()
    leave.set()
    swapping.join()
    asking.join()

    assert answers == [1]
    assert swapped.is_set()
