# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import SegmentGoneError, StorageUnavailableError
from airflow_provider_rlmm.core.segments.metrics import RemoteLogMetric
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.features.reading.read_ahead import LogPart, ReadAhead
from airflow_provider_rlmm.features.reading.reader import RemoteLogReader
from tests.remote_log_world import TIP, RemoteLogWorld, as_rows, random_world

PATIENCE_S = 30.0


@pytest.fixture
def world() -> RemoteLogWorld:
    return next(w for w in (random_world(f"ahead {n}") for n in range(100)) if len(w.segments) > 4)


class Asked:
    """Notes which objects a storage is asked for."""

    def __init__(self, world: RemoteLogWorld) -> None:
        self.storage: InMemoryRemoteStorageManager = world.storage()
        self.storage.on_effect = self._note
        self.keys: list[str] = []
        self._logs = [world.layout.object_key(segment.metadata, None) for segment in world.segments]
        self._seen = [Event() for _ in self._logs]

    def _note(self, effect: str, key: str) -> None:
        self.keys.append(key)
        if key in self._logs:
            self._seen[self._logs.index(key)].set()

    def await_log(self, number: int) -> bool:
        """Wait until the log of a segment was asked for."""
        return self._seen[number].wait(PATIENCE_S)

    def logs(self) -> set[int]:
        """Return the segments whose logs were asked for."""
        return {self._logs.index(key) for key in self.keys if key in self._logs}


def note(reading: Iterator[Any], read: list[dict[str, object]]) -> None:
    """Read to the end, and keep what came before whatever ends it."""
    for batch in reading:
        read += as_rows([batch])


def test_the_next_segment_is_fetched_while_the_one_before_it_is_read(world: RemoteLogWorld) -> None:
    asked = Asked(world)
    reading = RemoteLogReader(world.known(), asked.storage).read(TIP, None)
    next(reading)
    assert asked.logs() == {0}, "many reads want a few records only"
    next(reading)
    assert asked.await_log(2)
    assert asked.logs() == {0, 1, 2}, "one segment is fetched ahead and no more"
    next(reading)
    assert asked.await_log(3)


def test_nothing_behind_the_range_is_fetched(world: RemoteLogWorld) -> None:
    asked, end = Asked(world), world.segments[2].metadata.start_offset
    rows = as_rows(list(RemoteLogReader(world.known(), asked.storage).read(TIP, None, end)))
    assert rows == world.rows(world.start, end)
    assert asked.logs() == {0, 1}


def test_each_byte_is_fetched_once_however_small_the_parts_are(world: RemoteLogWorld) -> None:
    for chunk_bytes in (1, 50, 1000):
        reader = RemoteLogReader(world.known(), world.storage(), chunk_bytes=chunk_bytes)
        assert as_rows(list(reader.read(TIP, None))) == world.rows(world.start, world.end)
        fetched = reader.metrics.values()[RemoteLogMetric.FETCH_BYTES]
        assert fetched == sum(len(segment.log) for segment in world.segments)


def unavailable(effect: str, key: str) -> None:
    raise StorageUnavailableError(f"cannot read {key}: down")


@pytest.mark.parametrize("index_type", [None, IndexType.OFFSET], ids=["its log", "its offset index"])
def test_what_goes_wrong_ahead_is_an_error_of_its_own_segment(
    world: RemoteLogWorld, index_type: IndexType | None
) -> None:
    storage, third = world.storage(), world.segments[2].metadata
    lost = world.layout.object_key(third, index_type)

    def fail(effect: str, key: str) -> None:
        if key == lost:
            unavailable(effect, key)

    storage.on_effect = fail
    reading, read = RemoteLogReader(world.known(), storage, timeout_s=0).read(TIP, None), list[dict[str, object]]()
    with pytest.raises(StorageUnavailableError, match=lost):
        note(reading, read)
    assert read == world.rows(world.start, third.start_offset)


def test_a_segment_that_is_missing_ahead_is_told_once_all_before_it_is_read(world: RemoteLogWorld) -> None:
    storage, third = world.storage(), world.segments[2].metadata
    del storage._objects[world.layout.object_key(third, None)]
    reading, read = RemoteLogReader(world.known(), storage, sleep=lambda _: None).read(TIP, None), list[Any]()
    with pytest.raises(
        SegmentGoneError, match=rf"\(offsets {third.start_offset} to {third.end_offset}\) cannot be read"
    ):
        note(reading, read)
    assert read == world.rows(world.start, third.start_offset)


def returning(part: LogPart) -> Callable[[], LogPart]:
    return lambda: part


def test_only_the_part_that_is_wanted_is_taken(world: RemoteLogWorld) -> None:
    first, second = (segment.metadata for segment in world.segments[:2])
    part, ahead = LogPart(10, b"abc"), ReadAhead()
    assert ahead.take(first, 0) is None
    ahead.begin(first, returning(part))
    assert ahead.take(first, 10) == part
    assert ahead.take(first, 10) is None
    for metadata, start in ((second, 10), (first, 11)):
        ahead.begin(first, returning(part))
        assert ahead.take(metadata, start) is None
        assert ahead.take(first, 10) is None, "what nobody wants is let go"


def test_an_error_is_raised_once_and_only_to_whom_it_concerns(world: RemoteLogWorld) -> None:
    first, second = (segment.metadata for segment in world.segments[:2])

    def fail() -> LogPart:
        raise StorageUnavailableError("down")

    ahead = ReadAhead()
    ahead.begin(first, fail)
    ahead.await_part(second)
    assert ahead.take(first, 0) is None
    ahead.begin(first, fail)
    with pytest.raises(StorageUnavailableError, match="down"):
        ahead.take(first, 0)
    assert ahead.take(first, 0) is None
