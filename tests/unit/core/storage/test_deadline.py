# SPDX-License-Identifier: Apache-2.0
"""Calls that hang end in an error that names them; nothing piles up behind them."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from obstore.store import LocalStore

from airflow_provider_rlmm.core.base.errors import StorageUnavailableError
from airflow_provider_rlmm.core.storage.deadline import Deadline, PanicError
from airflow_provider_rlmm.core.storage.deletion import Lookup
from airflow_provider_rlmm.core.storage.local_files import LocalFiles, LocalWriter
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.core.storage.remote_storage import DeleteOutcome, StoredObject
from tests.contracts.remote_storage import CLUSTER_ID, LAYOUT, TIP, TOPIC_ID, local_files, segment

SOON_S = 0.05
HANGS = "no answer within"


def test_a_call_returns_what_the_function_returns_and_raises_what_it_raises() -> None:
    deadline = Deadline()
    assert deadline.call("add", lambda: 1 + 1) == 2
    with pytest.raises(KeyError, match="it"):
        deadline.call("look it up", lambda: {}["it"])


def test_a_panic_becomes_an_error_that_handlers_see() -> None:
    class PanicException(BaseException):
        pass

    def panic() -> None:
        raise PanicException("Expected config prefix to start with aws_")

    with pytest.raises(PanicError, match="Expected config prefix"):
        Deadline().call("open it", panic)


def test_a_crash_of_the_process_goes_through() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Deadline().call("stop", stop)


def test_while_a_call_hangs_no_other_one_is_made() -> None:
    deadline, release = Deadline(SOON_S), threading.Event()
    made: list[str] = []
    left_behind: list[threading.Thread] = []

    def hang() -> None:
        left_behind.append(threading.current_thread())
        release.wait()

    with pytest.raises(StorageUnavailableError, match=rf"cannot list a/: {HANGS} 0.05 s") as caught:
        deadline.call("list a/", hang)
    assert caught.value.retriable
    assert left_behind[0].daemon, "it must not keep the process from ending"
    with pytest.raises(StorageUnavailableError, match=r"cannot read b: an earlier call \(list a/\) still hangs"):
        deadline.call("read b", lambda: made.append("read b"))
    assert made == []
    release.set()
    left_behind[0].join()
    deadline.call("read b", lambda: made.append("read b"))
    assert made == ["read b"]


def test_threads_are_used_again_and_end_with_their_deadline() -> None:
    deadline = Deadline()
    threads = {deadline.call("look", threading.current_thread) for _ in range(10)}
    assert len(threads) == 1
    both = threading.Barrier(2)

    def meet() -> threading.Thread:
        both.wait()
        return threading.current_thread()

    with ThreadPoolExecutor(2) as pool:
        threads |= set(pool.map(deadline.call, ["meet"] * 2, [meet] * 2))
    assert len(threads) == 2, "calls of two threads do not wait for each other"
    del deadline
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_a_forked_process_makes_its_calls_too() -> None:
    deadline = Deadline()
    assert deadline.call("look", lambda: "here") == "here"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that a process with threads forks, as Airflow's do
        child = os.fork()
    if child == 0:
        os._exit(0 if deadline.call("look", lambda: "here") == "here" else 1)
    assert os.waitpid(child, 0)[1] == 0


class TakenByAnother(list[Any]):
    """Idle threads, of which another call took the last one right after it was seen."""

    def __len__(self) -> int:
        return 1


def test_an_idle_thread_that_another_call_takes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    deadline = Deadline()
    monkeypatch.setattr(deadline, "_idle", TakenByAnother())
    assert deadline.call("count", lambda: 1) == 1


def test_what_moves_much_has_more_time() -> None:
    assert Deadline(SOON_S).call("copy", lambda: time.sleep(2 * SOON_S) or "copied", extra_s=30) == "copied"


class HangingStore(LocalStore):
    """A local folder of which some calls never return, as on a mount whose server is gone."""

    hanging: frozenset[str] = frozenset()
    hangs = threading.Event()
    release = threading.Event()

    def maybe_hang(self, name: str) -> None:
        if name in self.hanging:
            self.hang()

    def hang(self) -> None:
        self.hangs.set()
        self.release.wait()

    def wait(self, done: threading.Event, seconds: float) -> bool:
        """Be as patient as need be, unless a call hangs."""
        while not done.wait(0.001):
            if self.hangs.is_set():
                return False
        return True

    def list(self, *args: Any, **options: Any) -> Any:
        self.maybe_hang("list")
        return super().list(*args, **options)

    def list_with_delimiter(self, *args: Any, **options: Any) -> Any:
        self.maybe_hang("list_with_delimiter")
        return super().list_with_delimiter(*args, **options)

    def put(self, *args: Any, **options: Any) -> Any:
        self.maybe_hang("put")
        return super().put(*args, **options)

    def get(self, *args: Any, **options: Any) -> Any:
        self.maybe_hang("get")
        return super().get(*args, **options)


class HangingFiles(LocalFiles):
    """The files of that folder."""

    def __init__(self, root: Path, store: HangingStore) -> None:
        super().__init__(root)
        self._store = store

    def find(self, lookup: Lookup) -> list[StoredObject]:
        self._store.maybe_hang("find")
        return super().find(lookup)

    def delete(self, keys: Sequence[str]) -> Mapping[str, str]:
        self._store.maybe_hang("delete")
        return super().delete(keys)

    def create(self, key: str) -> LocalWriter:
        self._store.maybe_hang("create")
        return super().create(key)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[HangingStore]:
    root = tmp_path / "root"
    root.mkdir()
    store = HangingStore(root)
    store.hangs, store.release = threading.Event(), threading.Event()
    for key in LAYOUT.required_keys(segment(1)):
        store.put(key, b"0123456789")
    yield store
    store.release.set()


@pytest.fixture
def manager(store: HangingStore) -> ObjectStoreRemoteStorageManager:
    manager = ObjectStoreRemoteStorageManager(store, LAYOUT, deadline=Deadline(wait=store.wait))
    assert store.prefix is not None
    manager._calls._files = HangingFiles(store.prefix, store)
    return manager


LOG = LAYOUT.object_key(segment(1), None)
CALLS: list[tuple[str, str, Callable[[Any, Path], object]]] = [
    ("list", "list kafka-tiered-storage/orders-0-", lambda m, _: m.list_log_segments(TIP)),
    ("list", "list the storage root", lambda m, _: m.list_objects()),
    ("list", "list kafka-tiered-storage/orders-0-", lambda m, _: m.delete_log_segments([segment(1)])),
    (
        "find",
        "look for the objects of 1 segment in kafka-tiered-storage/orders-0-",
        lambda m, _: m.missing_keys([LOG]),
    ),
    ("get", f"read {LOG}", lambda m, _: m.fetch_log_segment(segment(1), 0)),
    ("get", f"read {LOG}", lambda m, _: m.fetch_log_segment(segment(1), 2, 3)),
    ("get", "read airflow-provider-rlmm/cluster-a/", lambda m, _: m.check_root(frozenset({TOPIC_ID}), CLUSTER_ID)),
    ("list_with_delimiter", "list kafka-tiered-storage/", lambda m, _: m.check_root(frozenset(), CLUSTER_ID)),
    ("create", "write kafka-tiered-storage/", lambda m, t: m.copy_log_segment_data(segment(2), local_files(t))),
]


@pytest.mark.parametrize(("hanging", "says", "call"), CALLS, ids=[f"{name}: {says}" for name, says, _ in CALLS])
def test_every_call_ends(
    store: HangingStore,
    manager: ObjectStoreRemoteStorageManager,
    tmp_path: Path,
    hanging: str,
    says: str,
    call: Callable[[Any, Path], object],
) -> None:
    store.hanging = frozenset({hanging})
    with pytest.raises(StorageUnavailableError, match=f"cannot {says}.*: {HANGS}"):
        call(manager, tmp_path)


def test_a_deletion_that_hangs_is_of_unknown_outcome(
    store: HangingStore, manager: ObjectStoreRemoteStorageManager
) -> None:
    segments = [segment(number) for number in range(1, 301)]
    for key in {key for s in segments for key in LAYOUT.required_keys(s)}:
        store.put(key, b"x")
    store.hanging = frozenset({"delete"})
    report = manager.delete_log_segments(segments)
    assert {s.outcome for s in report.segments} == {DeleteOutcome.UNKNOWN}
    assert sum(len(s.sent) for s in report.segments) == 5 * 300
    assert "an earlier call (delete 250 objects" in next(iter(report.segments[0].reasons.values()))


def test_a_stamp_that_cannot_be_written_in_time_is_said(
    store: HangingStore, manager: ObjectStoreRemoteStorageManager
) -> None:
    check = manager.check_root(frozenset({TOPIC_ID}), CLUSTER_ID)
    store.hanging = frozenset({"put"})
    with pytest.raises(StorageUnavailableError, match=r"look at .*: an earlier call \(write airflow-provider-rlmm"):
        manager.stamp_root(check)


def test_a_file_system_that_does_not_answer_at_all(
    manager: ObjectStoreRemoteStorageManager, store: HangingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.lstat

    def hang(path: Path) -> os.stat_result:
        store.hang()
        return real(path)

    monkeypatch.setattr(Path, "lstat", hang)
    with pytest.raises(StorageUnavailableError, match=f"cannot look at kafka-tiered-storage/.*: {HANGS}"):
        manager.list_log_segments(TIP)


@pytest.mark.slow
def test_a_real_call_that_blocks_in_the_kernel_ends(store: HangingStore, tmp_path: Path) -> None:
    """Opening a named pipe blocks until somebody writes into it, as reading does on a mount whose server is gone."""
    manager = ObjectStoreRemoteStorageManager(store, LAYOUT, deadline=Deadline(1.0))
    pipe = tmp_path / "root" / LOG
    pipe.unlink()
    os.mkfifo(pipe)
    with pytest.raises(StorageUnavailableError, match=f"cannot read {LOG}: {HANGS}"):
        manager.fetch_log_segment(segment(1), 0)
    os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
