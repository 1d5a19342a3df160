# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from collections.abc import Callable
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import (
    StorageAccessError,
    StorageRootError,
    StorageUnavailableError,
    UnsafeObjectKeyError,
)
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.remote_storage import DeleteOutcome, RemoteStorageManager
from airflow_provider_rlmm.core.storage.root import Place, RootExpectation, StampOutcome, StampResult
from airflow_provider_rlmm.core.storage.stamps import Stamp
from tests.contracts.layouts import NEW, WITHOUT_COPIES, RelocatedLayout
from tests.contracts.remote_storage import (
    CLUSTER_ID,
    LAYOUT,
    OWN_STAMP,
    RemoteStorageContract,
    RemoteStorageCopyContract,
    RemoteStorageCopyFaultContract,
    RemoteStorageFaultContract,
    StorageRootContract,
    check_root,
    outcomes,
    place,
    segment,
    stamped,
)
from tests.contracts.segment_reads import AivenReadContract, SegmentReadContract, SegmentReadFaultContract


class InMemoryStorage:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.memory = InMemoryRemoteStorageManager(layout, clock=lambda: 1_234)
        self.manager: RemoteStorageManager = self.memory
        self.inodes = itertools.count(1)

    def put(self, key: str, data: bytes) -> None:
        self.memory.put_object(key, data)

        folder = ""
        for name in key.split("/")[:-1]:
            folder += f"{name}/"
            self.memory.folders.setdefault(folder, next(self.inodes))

    def read(self, key: str) -> bytes:
        return self.memory._objects[key][0]

    def keys(self) -> set[str]:
        return set(self.memory.keys)

    def refuse_put(self) -> None:
        self.memory.on_effect = raising_at("put", StorageAccessError("refused by the test"), lambda _: True)

    def rename_folder(self, prefix: str, *, another: bool) -> None:
        self.renamed = dict(self.memory._objects), self.memory.folders[prefix]
        for key in self.keys():
            if key.startswith(prefix):
                del self.memory._objects[key]
        self.memory.folders[prefix] = next(self.inodes) if another else None

    def rename_folder_back(self, prefix: str) -> None:
        objects, self.memory.folders[prefix] = self.renamed
        self.memory._objects.update(objects)

    def rename_folder_during_delete(self, prefix: str) -> None:
        def rename(effect: str, key: str) -> None:
            if effect == "delete":
                self.memory.folders[prefix] = next(self.inodes)

        self.memory.after_effect = rename

    def remove_root(self) -> None:
        self.memory.root_exists = False

    def refuse_delete(self, *keys: str) -> None:
        self.memory.on_effect = raising_at("delete", StorageUnavailableError("refused by the test"), keys.__contains__)

    def fail_listing(self, number: int) -> None:
        counter = itertools.count(1)
        error = StorageUnavailableError("listing failed in the test")
        self.memory.on_effect = raising_at("list", error, lambda _: next(counter) == number)

    def unmount_during_delete(self) -> None:
        def unmount(effect: str, key: str) -> None:
            if effect == "delete":
                self.memory.root_exists = False

        self.memory.after_effect = unmount


class SimulatedCrashError(Exception):
    pass


def raising_at(effect: str, error: Exception, when: Callable[[str], bool]) -> Callable[[str, str], None]:
    def hook(happening: str, key: str) -> None:
        if happening == effect and when(key):
            raise error

    return hook


@pytest.fixture
def storage(layout: Layout) -> InMemoryStorage:
    return InMemoryStorage(layout)


class TestInMemoryContract(
    RemoteStorageContract,
    RemoteStorageCopyContract,
    RemoteStorageCopyFaultContract,
    SegmentReadContract,
    SegmentReadFaultContract,
    StorageRootContract,
    RemoteStorageFaultContract,
):
    pass


class TestInMemoryContractWithoutCopies(RemoteStorageContract, StorageRootContract, RemoteStorageFaultContract):
    @pytest.fixture(params=WITHOUT_COPIES)
    def layout(self, request: pytest.FixtureRequest) -> Layout:
        return WITHOUT_COPIES[request.param]()


class TestInMemoryReadsOfAivenObjects(AivenReadContract, SegmentReadFaultContract):
    pass


class TestInMemoryContractWithAnotherLayout(
    RemoteStorageContract,
    RemoteStorageCopyContract,
    RemoteStorageCopyFaultContract,
    SegmentReadContract,
    SegmentReadFaultContract,
    StorageRootContract,
    RemoteStorageFaultContract,
):
    @pytest.fixture
    def layout(self) -> Layout:
        return RelocatedLayout(NEW)


def test_hooks_see_every_effect_in_order(storage: InMemoryStorage) -> None:
    place(storage, segment(1))
    seen: list[str] = []
    storage.memory.on_effect = lambda effect, key: seen.append(f"before {effect}")
    storage.memory.after_effect = lambda effect, key: seen.append(f"after {effect}")
    assert outcomes(storage, segment(1)) == [DeleteOutcome.GONE]
    listing = ["before list", "after list"]
    assert seen == listing + ["before delete", "after delete"] * 5 + listing
    seen.clear()
    place(storage, segment(1))
    check = check_root(storage)
    seen.clear()
    storage.manager.stamp_root(check)
    assert seen == ["before get", "before put", "after put"]


def test_the_first_of_two_stamps_stays(storage: InMemoryStorage) -> None:
    place(storage, segment(1))
    check = check_root(storage)
    others: list[StampResult] = []

    def another_one_is_faster(effect: str, key: str) -> None:
        if effect == "put":
            storage.memory.on_effect = None
            others.extend(storage.manager.stamp_root(check))

    storage.memory.on_effect = another_one_is_faster
    (second,) = storage.manager.stamp_root(check)
    (first,) = others
    assert (first.outcome, second.outcome) == (StampOutcome.WRITTEN, StampOutcome.ALREADY_THERE)
    assert first.root_id == second.root_id == Stamp.from_json(storage.read(OWN_STAMP)).root_id


def test_a_confirmation_that_another_run_writes_over_is_an_error(storage: InMemoryStorage) -> None:
    stamped(storage, RootExpectation(metadata_topic_id=UUID(int=1)))
    older = storage.read(OWN_STAMP)

    def another_run_writes_what_it_has_read(effect: str, key: str) -> None:
        if effect == "put":
            storage.memory.after_effect = None
            storage.put(OWN_STAMP, older)

    storage.memory.after_effect = another_run_writes_what_it_has_read
    with pytest.raises(StorageRootError, match="written by another run meanwhile"):
        storage.manager.confirm_metadata_topic(CLUSTER_ID, UUID(int=2), "anna", 7)


def test_lost_reply_of_a_delete_is_found_out_by_the_listing(storage: InMemoryStorage) -> None:
    place(storage, segment(1))
    storage.memory.after_effect = raising_at("delete", StorageUnavailableError("reply lost"), lambda _: True)
    deletion = storage.manager.delete_log_segment_data(segment(1))
    assert (deletion.outcome, dict(deletion.reasons)) == (DeleteOutcome.GONE, {})


def test_crash_cuts_a_bulk_delete_in_half(storage: InMemoryStorage) -> None:
    place(storage, segment(1), segment(2))
    counter = itertools.count(1)
    storage.memory.on_effect = raising_at("delete", SimulatedCrashError(), lambda _: next(counter) == 6)
    with pytest.raises(SimulatedCrashError):
        storage.manager.delete_log_segments([segment(1), segment(2)])
    assert storage.keys() == set(LAYOUT.required_keys(segment(2)))
    storage.memory.on_effect = None
    assert outcomes(storage, segment(1), segment(2)) == [DeleteOutcome.NEVER_SEEN, DeleteOutcome.GONE]


def test_object_that_appears_during_the_deletion_is_kept(storage: InMemoryStorage) -> None:
    late = segment(2)
    place(storage, segment(1))
    storage.memory.after_effect = lambda effect, key: place(storage, late) and None if effect == "delete" else None
    report = storage.manager.delete_log_segments([segment(1), late])
    assert [s.outcome for s in report.segments] == [DeleteOutcome.GONE, DeleteOutcome.PRESENT]
    assert all("appeared" in reason for reason in report.segments[1].reasons.values())


def test_times_come_from_the_clock_or_from_the_caller(storage: InMemoryStorage) -> None:
    storage.memory.put_object("a", b"")
    storage.memory.put_object("b", b"", 5)
    assert [(o.key, o.last_modified_ms) for o in storage.manager.list_objects()] == [("a", 1_234), ("b", 5)]


class EscapingLayout(LocalTieredStorageLayout):
    """A layout with a bug: its keys walk out of the prefix."""

    def segment_stem(self, metadata: RemoteLogSegmentMetadata, place: Place | None = None) -> str:
        return f"{self.prefix}../elsewhere/{metadata.start_offset}"


def test_a_deletion_does_not_trust_its_layout() -> None:
    with pytest.raises(UnsafeObjectKeyError, match="leaves the prefix"):
        InMemoryRemoteStorageManager(EscapingLayout()).delete_log_segments([segment(0)])
