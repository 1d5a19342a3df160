# SPDX-License-Identifier: Apache-2.0
"""Folders that are listed some at a time: in their order, never far ahead, and without a thread that is left."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from airflow_provider_rlmm.core.base.errors import StorageUnavailableError
from airflow_provider_rlmm.core.storage.listings_ahead import ListingsAhead
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.core.storage.remote_storage import Folder, StoredObject
from tests.contracts.remote_storage import LAYOUT, segment
from tests.contracts.s3_server import BUCKET, running_s3_server

FOLDERS = [f"folder-{n}/" for n in range(20)]


class Store:
    """Folders of objects; ``barrier`` is waited at by each listing, ``broken`` ends after its first objects."""

    def __init__(self, objects: int = 3) -> None:
        self.objects = objects
        self.barrier: threading.Barrier | None = None
        self.broken = ""
        self.begun: list[str] = []
        self.fetched = 0

    def list(self, prefix: str) -> Iterator[StoredObject]:
        self.begun.append(prefix)
        if self.barrier is not None:
            self.barrier.wait(30)
        for number in range(self.objects):
            if prefix == self.broken and number == 2:
                raise StorageUnavailableError("refused by the test")
            self.fetched += 1
            yield StoredObject(f"{prefix}{number:06d}", 1, 0)


def keys(found: Iterator[StoredObject]) -> list[str]:
    return [stored.key for stored in found]


def listing_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "rlmm listing"]


def test_folders_come_in_their_order_and_whole() -> None:
    store = Store()
    ahead = ListingsAhead(store.list, FOLDERS, 4)
    with ahead.running():
        for folder in FOLDERS:
            assert keys(ahead.objects(folder)) == [f"{folder}{number:06d}" for number in range(3)]
    assert sorted(store.begun) == sorted(FOLDERS)
    assert listing_threads() == []


def test_some_are_listed_at_once() -> None:
    store = Store()
    # None of them goes on before all of them have begun.
    store.barrier = threading.Barrier(4)
    ahead = ListingsAhead(store.list, FOLDERS, 4)
    with ahead.running():
        for folder in FOLDERS:
            assert len(keys(ahead.objects(folder))) == 3


def test_no_more_is_fetched_than_a_few_pages_of_the_next_folders() -> None:
    store = Store(objects=100_000)
    ahead = ListingsAhead(store.list, FOLDERS, 4)
    with ahead.running():
        listing = ahead.objects(FOLDERS[0])
        assert [next(listing).key for _ in range(10)][-1] == "folder-0/000009"
        # Two pages wait, and one is in the hands of each thread.
        assert set(store.begun) <= set(FOLDERS[:4])
        assert store.fetched <= 4 * 4_000
    assert listing_threads() == []


def test_a_listing_that_breaks_off_tells_what_it_has_seen_and_why() -> None:
    store = Store()
    store.broken = FOLDERS[2]
    ahead = ListingsAhead(store.list, FOLDERS, 4)
    with ahead.running():
        for folder in FOLDERS[:2]:
            assert len(keys(ahead.objects(folder))) == 3
        with pytest.raises(StorageUnavailableError, match="refused by the test"):
            keys(ahead.objects(FOLDERS[2]))
        assert len(keys(ahead.objects(FOLDERS[3]))) == 3


def test_a_folder_that_was_not_named_is_listed_all_the_same() -> None:
    store = Store()
    ahead = ListingsAhead(store.list, FOLDERS[:2], 4)
    with ahead.running():
        assert len(keys(ahead.objects("another/"))) == 3
        assert len(keys(ahead.objects(FOLDERS[0]))) == 3


@pytest.mark.slow
def test_a_walk_side_by_side_meets_what_one_by_one_meets() -> None:
    with running_s3_server() as server:
        for number in range(60):
            one = segment(number, topic=f"topic-{number % 12}", partition=number % 3)
            server.objects |= dict.fromkeys(LAYOUT.required_keys(one), b"x")
        manager = ObjectStoreRemoteStorageManager(f"s3://{BUCKET}", LAYOUT, options=server.options)
        assert manager._calls.listings_at_once > 1
        found = list(manager.walk(()))
        manager._calls.listings_at_once = 1
        assert found == list(manager.walk(()))
        assert {one.key for one in found if not isinstance(one, Folder)} == set(server.objects)
        # Whoever ends a walk early leaves no thread behind.
        manager._calls.listings_at_once = 8
        walk = manager.walk(())
        next(walk)
        next(walk)
        walk.close()  # type: ignore[attr-defined]
    assert listing_threads() == []
