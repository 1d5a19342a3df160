# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError, DamagedObjectError, RemoteObjectNotFoundError
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.features.reading.index_cache import RemoteIndexCache
from tests.kafka_log import offset_index, time_index, transaction_index
from tests.remote_log_world import RemoteLogWorld, random_world


class Gets:
    """Counts what is fetched, and may damage it on its way."""

    def __init__(self, world: RemoteLogWorld) -> None:
        self.storage = world.storage()
        self.storage.on_effect = self._note
        self.keys: list[str] = []

    def _note(self, effect: str, key: str) -> None:
        if effect == "get":
            self.keys.append(key)


@pytest.fixture
def world() -> RemoteLogWorld:
    return random_world("cache", batches=60)


def segment_of(world: RemoteLogWorld) -> RemoteLogSegmentMetadata:
    return world.segments[0].metadata


def put(
    storage: InMemoryRemoteStorageManager, metadata: RemoteLogSegmentMetadata, kind: IndexType, data: bytes
) -> None:
    storage.put_object(storage.layout.object_key(metadata, kind), data)


def test_an_index_is_fetched_once(world: RemoteLogWorld) -> None:
    gets = Gets(world)
    cache = RemoteIndexCache(gets.storage)
    first = cache.offset_index(segment_of(world))
    assert cache.offset_index(segment_of(world)) is first
    assert len(gets.keys) == 1
    cache.time_index(segment_of(world))
    assert len(gets.keys) == 2


def test_the_least_recently_used_index_goes_first(world: RemoteLogWorld) -> None:
    gets = Gets(world)
    one, two, three = (segment.metadata for segment in world.segments[:3])
    sizes = RemoteIndexCache(gets.storage)
    for metadata in (one, two, three):
        sizes.offset_index(metadata)
    cache = RemoteIndexCache(gets.storage, size_in_bytes=sizes.size_in_bytes - 1)
    for metadata in (one, two, one, three):
        cache.offset_index(metadata)
    gets.keys.clear()
    cache.offset_index(one)
    cache.offset_index(three)
    assert gets.keys == []
    cache.offset_index(two)
    assert len(gets.keys) == 1
    assert cache.size_in_bytes < sizes.size_in_bytes


def test_a_cache_without_room_still_answers(world: RemoteLogWorld) -> None:
    gets = Gets(world)
    cache = RemoteIndexCache(gets.storage, size_in_bytes=0)
    for _ in range(2):
        assert len(cache.offset_index(segment_of(world))) >= 0
    assert len(gets.keys) == 2
    assert cache.size_in_bytes == 0
    with pytest.raises(ConfigurationError, match="-1 bytes"):
        RemoteIndexCache(gets.storage, size_in_bytes=-1)


def test_an_index_that_was_damaged_on_its_way_is_fetched_once_more(world: RemoteLogWorld) -> None:
    storage, metadata = world.storage(), segment_of(world)
    key = storage.layout.object_key(metadata, IndexType.OFFSET)
    good = offset_index(metadata.start_offset, [(metadata.start_offset, 5)])
    answers = [good[:-1], good]

    def next_answer(effect: str, name: str) -> None:
        if (effect, name) == ("get", key) and answers:
            storage.put_object(key, answers.pop(0))

    storage.on_effect = next_answer
    assert RemoteIndexCache(storage).offset_index(metadata).position.tolist() == [5]
    assert answers == []


@pytest.mark.parametrize("kind", [IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.TRANSACTION])
def test_an_index_that_cannot_be_of_its_segment_is_an_error(world: RemoteLogWorld, kind: IndexType) -> None:
    storage, metadata = world.storage(), segment_of(world)
    start, behind = metadata.start_offset, metadata.end_offset + 1
    beyond = {
        IndexType.OFFSET: offset_index(start, [(behind, 5)]),
        IndexType.TIMESTAMP: time_index(start, [(7, behind)]),
        IndexType.TRANSACTION: transaction_index([(1, start, behind, behind)]),
    }
    put(storage, metadata, kind, beyond[kind])
    cache = RemoteIndexCache(storage)
    ask = {
        IndexType.OFFSET: cache.offset_index,
        IndexType.TIMESTAMP: cache.time_index,
        IndexType.TRANSACTION: cache.transaction_index,
    }
    with pytest.raises(DamagedObjectError, match=f"names offset {behind}") as refused:
        ask[kind](metadata)
    assert refused.value.location == storage.layout.object_key(metadata, kind)


def test_an_offset_index_that_names_a_byte_behind_its_segment_is_an_error(world: RemoteLogWorld) -> None:
    storage, metadata = world.storage(), segment_of(world)
    size = metadata.segment_size_in_bytes
    put(storage, metadata, IndexType.OFFSET, offset_index(metadata.start_offset, [(metadata.start_offset, size)]))
    with pytest.raises(DamagedObjectError, match=f"names byte {size} of a segment of {size} bytes"):
        RemoteIndexCache(storage).offset_index(metadata)


def test_only_a_transaction_index_may_be_missing(world: RemoteLogWorld) -> None:
    storage = InMemoryRemoteStorageManager(world.layout)
    cache = RemoteIndexCache(storage)
    assert cache.transaction_index(segment_of(world)).aborted == ()
    with pytest.raises(RemoteObjectNotFoundError):
        cache.offset_index(segment_of(world))
    with pytest.raises(RemoteObjectNotFoundError):
        cache.time_index(segment_of(world))


def test_nothing_is_left_of_a_segment_that_is_removed(world: RemoteLogWorld) -> None:
    gets = Gets(world)
    cache, metadata = RemoteIndexCache(gets.storage), segment_of(world)
    for ask in (cache.offset_index, cache.time_index, cache.transaction_index):
        ask(metadata)
    assert cache.size_in_bytes > 0
    cache.remove(metadata.remote_log_segment_id)
    cache.remove(metadata.remote_log_segment_id)
    assert cache.size_in_bytes == 0
    gets.keys.clear()
    cache.offset_index(metadata)
    assert len(gets.keys) == 1


def test_threads_that_want_one_index_fetch_it_once(world: RemoteLogWorld) -> None:
    gets = Gets(world)
    begun, go_on = threading.Event(), threading.Event()

    def wait(effect: str, key: str) -> None:
        gets.keys.append(key)
        begun.set()
        assert go_on.wait(30)

    gets.storage.on_effect = wait
    cache = RemoteIndexCache(gets.storage)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(cache.offset_index, segment_of(world)) for _ in range(8)]
        assert begun.wait(30)
        go_on.set()
        found = {id(future.result(30)) for future in asked}
    assert len(found) == len(gets.keys) == 1


def test_a_failure_is_not_kept(world: RemoteLogWorld) -> None:
    storage, metadata = InMemoryRemoteStorageManager(world.layout), segment_of(world)
    cache = RemoteIndexCache(storage)
    with pytest.raises(RemoteObjectNotFoundError):
        cache.offset_index(metadata)
    put(storage, metadata, IndexType.OFFSET, b"")
    assert len(cache.offset_index(metadata)) == 0
