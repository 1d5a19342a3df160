# SPDX-License-Identifier: Apache-2.0
"""What a reader does while segments go, storages fail and settings bind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    DamagedObjectError,
    OffsetNotInRemoteLogError,
    RecordsTooLargeError,
    RemoteObjectNotFoundError,
    SegmentGoneError,
    StorageUnavailableError,
)
from airflow_provider_rlmm.core.log.known_segments import KnownSegments
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.segments.metrics import RemoteLogMetric
from airflow_provider_rlmm.core.segments.read_range import OffsetRange, ReadIsolation
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.features.reading.index_cache import RemoteIndexCache
from airflow_provider_rlmm.features.reading.reader import RemoteLogReader
from tests.kafka_log import offset_index, producer_snapshot
from tests.remote_log_world import TIP, RemoteLogWorld, SegmentFiles, as_rows, random_world

COMMITTED = ReadIsolation.READ_COMMITTED


class ChangingSegments(KnownSegments):
    """Says something else when it is asked to look again."""

    def __init__(self, segments: list[RemoteLogSegmentMetadata], later: list[RemoteLogSegmentMetadata]) -> None:
        super().__init__(KnownSegments.of(segments)._caches)
        self._later = KnownSegments.of(later)._caches
        self.asked = 0

    def advance(self) -> None:
        self.asked += 1
        self._caches.clear()
        self._caches.update(self._later)


@pytest.fixture
def world() -> RemoteLogWorld:
    found = next(w for w in (random_world(f"losses {n}") for n in range(100)) if len(w.segments) > 4)
    assert found.open_since is None or found.open_since > found.segments[0].metadata.end_offset
    return found


def metadatas(world: RemoteLogWorld) -> list[RemoteLogSegmentMetadata]:
    return [segment.metadata for segment in world.segments]


def rows_of(reading: Iterator[Any]) -> list[dict[str, object]]:
    return as_rows(list(reading))


def take_away(world: RemoteLogWorld, storage: InMemoryRemoteStorageManager, segment: SegmentFiles) -> None:
    for key in list(storage.keys):
        if key.startswith(world.layout.segment_stem(segment.metadata)):
            del storage._objects[key]


def deleted(metadata: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata:
    return replace(metadata, state=RemoteLogSegmentState.DELETE_SEGMENT_STARTED)


def test_a_segment_that_goes_while_it_is_read_ends_the_read_in_words(world: RemoteLogWorld) -> None:
    storage, known = world.storage(), metadatas(world)
    segments = ChangingSegments(known, [*map(deleted, known[:2]), *known[2:]])
    reading = RemoteLogReader(segments, storage, chunk_bytes=50).read(TIP, world.start)
    next(reading)
    for segment in world.segments[:2]:
        take_away(world, storage, segment)
    with pytest.raises(SegmentGoneError, match=f"the remote log begins at {known[2].start_offset} now"):
        list(reading)


def test_a_read_from_the_beginning_follows_a_beginning_that_moves(
    world: RemoteLogWorld, caplog: pytest.LogCaptureFixture
) -> None:
    storage, known = world.storage(), metadatas(world)
    segments = ChangingSegments(known, [*map(deleted, known[:2]), *known[2:]])
    reading = RemoteLogReader(segments, storage, chunk_bytes=50).read(TIP, None)
    first = next(reading).to_pylist()
    for segment in world.segments[:2]:
        take_away(world, storage, segment)
    read = [*first, *rows_of(reading)]
    behind = world.rows(known[2].start_offset, world.end)
    assert read[-len(behind) :] == behind
    assert read[: -len(behind)] == world.rows(world.start, world.end)[: len(read) - len(behind)]
    assert f"the remote log begins at {known[2].start_offset} now" in caplog.text


def test_a_segment_that_another_one_replaced_is_read_there(world: RemoteLogWorld) -> None:
    storage, known = world.storage(), metadatas(world)
    first = world.segments[0]
    segment_id = RemoteLogSegmentId(TIP, UUID(int=77))
    copied_again = replace(first, metadata=replace(first.metadata, remote_log_segment_id=segment_id))
    storage.put_object(world.layout.object_key(copied_again.metadata, None), first.log)
    for index_type, data in first.indexes.items():
        storage.put_object(world.layout.object_key(copied_again.metadata, index_type), data)
    segments = ChangingSegments(known, [copied_again.metadata, *known[1:]])
    reading = RemoteLogReader(segments, storage, chunk_bytes=50).read(TIP, world.start)
    begun = next(reading).to_pylist()
    take_away(world, storage, first)
    assert [*begun, *rows_of(reading)] == world.rows(world.start, world.end)


def test_objects_that_are_missing_though_the_metadata_names_them_are_an_error(world: RemoteLogWorld) -> None:
    storage, pauses = world.storage(), list[float]()
    take_away(world, storage, world.segments[1])
    reader = RemoteLogReader(world.known(), storage, sleep=pauses.append)
    with pytest.raises(SegmentGoneError, match="though the metadata says that it is there") as refused:
        rows_of(reader.read(TIP, None))
    assert isinstance(refused.value.__cause__, RemoteObjectNotFoundError)
    # A manager that follows the topic may only be late.
    assert sum(pauses) > 1
    second = world.segments[1].metadata
    with pytest.raises(SegmentGoneError, match="though the metadata says that it is there"):
        reader.find_offset_by_timestamp(TIP, 0, second.start_offset, world.lineage, world.end)


def test_a_search_goes_on_behind_a_segment_that_went_meanwhile(world: RemoteLogWorld) -> None:
    storage, known = world.storage(), metadatas(world)
    take_away(world, storage, world.segments[0])
    segments = ChangingSegments(known, [deleted(known[0]), *known[1:]])
    reader = RemoteLogReader(segments, storage)
    found = reader.find_offset_by_timestamp(TIP, 0, world.start, world.lineage, world.end)
    assert found == world.found(0, known[1].start_offset)


def test_a_hole_in_the_remote_log_is_an_error_that_names_the_offset(world: RemoteLogWorld) -> None:
    known = metadatas(world)
    reader = RemoteLogReader(KnownSegments.of([known[0], *known[2:]]), world.storage())
    offset = known[1].start_offset
    with pytest.raises(OffsetNotInRemoteLogError, match=f"offset {offset} of .*orders-0 is not in the remote log"):
        rows_of(reader.read(TIP, None))
    with pytest.raises(OffsetNotInRemoteLogError, match=f"offset {offset} "):
        reader.spans(TIP, OffsetRange(world.start, world.end))


def test_offsets_that_are_not_remote_are_an_error(world: RemoteLogWorld) -> None:
    reader = RemoteLogReader(world.known(), world.storage())
    for offset in (world.start - 1, world.end + 1):
        with pytest.raises(OffsetNotInRemoteLogError, match=f"which has {world.start} to {world.end - 1}"):
            next(reader.read(TIP, offset))
    assert rows_of(reader.read(TIP, world.end)) == []


def test_nothing_remote_is_an_error_in_every_question(world: RemoteLogWorld) -> None:
    unfinished = [replace(m, state=RemoteLogSegmentState.COPY_SEGMENT_STARTED) for m in metadatas(world)[:1]]
    reader = RemoteLogReader(KnownSegments.of(unfinished), world.storage())
    for ask in (
        lambda: reader.lineage(TIP),
        lambda: reader.remote_offsets(TIP),
        lambda: reader.remote_offsets(TIP, leader_epochs=world.lineage),
        lambda: next(reader.read(TIP, None)),
    ):
        with pytest.raises(OffsetNotInRemoteLogError, match=r"no remote log segment of .*orders-0 can be read"):
            ask()


def test_the_segments_of_a_range_follow_each_other(world: RemoteLogWorld) -> None:
    reader, known = RemoteLogReader(world.known(), world.storage()), metadatas(world)
    wanted = OffsetRange(known[1].start_offset + 1, known[3].start_offset + 1)
    spans = reader.spans(TIP, wanted)
    assert [(s.metadata, s.offsets.start, s.offsets.end) for s in spans] == [
        (known[1], wanted.start, known[2].start_offset),
        (known[2], known[2].start_offset, known[3].start_offset),
        (known[3], known[3].start_offset, wanted.end),
    ]


def test_a_part_of_a_segment_that_a_later_leader_wrote_anew_is_not_read(world: RemoteLogWorld) -> None:
    """An unclean leader begins in the middle of the last segment that was copied."""
    last = world.segments[-1].metadata
    anew = (last.start_offset + last.end_offset) // 2
    epoch = world.lineage.entries[-1][0] + 1
    before = world.lineage.truncate_from_end(anew)
    lineage = LeaderEpochCheckpoint((*before.entries, (epoch, anew)))
    reader = RemoteLogReader(world.known(), world.storage(), chunk_bytes=60)
    assert reader.remote_offsets(TIP, leader_epochs=lineage) == OffsetRange(world.start, anew)
    assert rows_of(reader.read(TIP, None, leader_epochs=lineage)) == world.rows(world.start, anew)
    # What its snapshot says of open transactions is of a history that is void.
    stable = reader.remote_offsets(TIP, leader_epochs=lineage, isolation=COMMITTED)
    assert stable.end <= last.start_offset


def test_a_time_is_looked_for_in_what_a_later_leader_has_left_of_a_segment_and_no_further(
    world: RemoteLogWorld,
) -> None:
    """Wherever that one begins, in the middle of a batch too."""
    last, reader = world.segments[-1].metadata, RemoteLogReader(world.known(), world.storage())
    epoch = world.lineage.entries[-1][0] + 1
    records = [record for batch in world.batches for record in batch.as_read() if record.offset >= last.start_offset]
    for anew in range(last.start_offset + 1, last.end_offset + 1):
        lineage = LeaderEpochCheckpoint((*world.lineage.truncate_from_end(anew).entries, (epoch, anew)))
        for time_ms in sorted({record.timestamp for record in records}):
            expected = world.found(time_ms, last.start_offset)
            found = reader.find_offset_by_timestamp(TIP, time_ms, last.start_offset, lineage, anew + 1_000)
            assert found == (expected if expected and expected[0] < anew else None), (anew, time_ms)


@pytest.mark.parametrize("whole_range", [True, False])
def test_committed_records_need_the_segment_that_tells_which_transactions_are_open(
    world: RemoteLogWorld, whole_range: bool
) -> None:
    """The last segment has a void end, so that the one before it tells; and that one is missing."""
    last = world.segments[-1].metadata
    anew = (last.start_offset + last.end_offset) // 2 + 1
    before, epoch = world.lineage.truncate_from_end(anew), world.lineage.entries[-1][0] + 1
    lineage = LeaderEpochCheckpoint((*before.entries, (epoch, anew)))
    known = KnownSegments.of([*metadatas(world)[:-2], last])
    reading = RemoteLogReader(known, world.storage()).read(
        TIP, last.start_offset, anew if whole_range else None, isolation=COMMITTED, leader_epochs=lineage
    )
    with pytest.raises(OffsetNotInRemoteLogError, match=f"offset {last.start_offset - 1} of"):
        next(reading)


def test_the_lineage_is_the_newest_segments(world: RemoteLogWorld) -> None:
    known = metadatas(world)
    reader = RemoteLogReader(KnownSegments.of(known[:-1]), world.storage())
    assert reader.lineage(TIP) == world.lineage.truncate_from_end(known[-1].start_offset)


def test_a_checkpoint_of_another_segment_is_an_error(world: RemoteLogWorld) -> None:
    storage, last = world.storage(), world.segments[-1].metadata
    key = world.layout.object_key(last, IndexType.LEADER_EPOCH)
    storage.put_object(key, LeaderEpochCheckpoint(((99, 0),)).to_text().encode())
    with pytest.raises(DamagedObjectError, match="of another segment") as refused:
        RemoteLogReader(world.known(), storage).lineage(TIP)
    assert refused.value.location == key


def test_committed_records_end_at_the_first_transaction_that_is_open_at_the_end(world: RemoteLogWorld) -> None:
    storage, last = world.storage(), world.segments[-1].metadata
    since = last.start_offset + 1
    key = world.layout.object_key(last, IndexType.PRODUCER_SNAPSHOT)
    storage.put_object(key, producer_snapshot([(1, -1), (2, since + 3), (3, since)]))
    reader = RemoteLogReader(world.known(), storage)
    assert reader.remote_offsets(TIP, isolation=COMMITTED) == OffsetRange(world.start, since)
    read = rows_of(reader.read(TIP, None, isolation=COMMITTED))
    assert read == [row for row in world.rows(world.start, world.end, committed=True) if row["offset"] < since]  # type: ignore[operator]


def test_what_lies_on_the_leaders_disk_is_the_leaders_to_search(world: RemoteLogWorld) -> None:
    reader, second = RemoteLogReader(world.known(), world.storage()), metadatas(world)[1]
    for local, found in ((second.start_offset + 1, world.found(0, second.start_offset)), (second.start_offset, None)):
        answer = reader.find_offset_by_timestamp(TIP, 0, second.start_offset, world.lineage, world.end, local)
        assert answer == found


def test_a_store_that_comes_back_is_asked_again(world: RemoteLogWorld) -> None:
    storage, pauses = world.storage(), list[float]()
    failing, calls = list[str](), count()

    def fail(effect: str, key: str) -> None:
        # What is fetched ahead asks in another thread.
        if next(calls) % 3 < 2:
            failing.append(key)
            raise StorageUnavailableError(f"cannot read {key}: down")

    storage.on_effect = fail
    reader = RemoteLogReader(world.known(), storage, sleep=pauses.append)
    assert rows_of(reader.read(TIP, None, isolation=COMMITTED)) == world.rows(world.start, world.end, committed=True)
    assert len(pauses) == len(failing) > 0


def test_a_store_that_stays_away_is_an_error_when_the_time_is_up(world: RemoteLogWorld) -> None:
    storage, now = world.storage(), [0.0]

    def fail(effect: str, key: str) -> None:
        raise StorageUnavailableError(f"cannot read {key}: down")

    def sleep(seconds: float) -> None:
        now[0] += seconds

    storage.on_effect = fail
    reader = RemoteLogReader(world.known(), storage, timeout_s=20, clock=lambda: now[0], sleep=sleep)
    with pytest.raises(StorageUnavailableError, match="down"):
        next(reader.read(TIP, None))
    assert 10 < now[0] <= 20


def test_what_was_fetched_is_counted(world: RemoteLogWorld) -> None:
    reader = RemoteLogReader(world.known(), world.storage())
    rows_of(reader.read(TIP, None))
    counted = reader.metrics.values()
    assert counted[RemoteLogMetric.FETCH_BYTES] == sum(len(segment.log) for segment in world.segments)
    assert counted[RemoteLogMetric.FETCH_REQUESTS] == len(world.segments)
    assert counted[RemoteLogMetric.FETCH_ERRORS] == 0


def test_a_quota_binds(world: RemoteLogWorld) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    reader = RemoteLogReader(world.known(), world.storage(), bytes_per_second=100, clock=lambda: now[0], sleep=sleep)
    assert rows_of(reader.read(TIP, None)) == world.rows(world.start, world.end)
    fetched = reader.metrics.values()[RemoteLogMetric.FETCH_BYTES]
    assert fetched / 100 - 10 < now[0] <= fetched / 100


def test_a_batch_that_is_too_large_for_the_settings_is_an_error(world: RemoteLogWorld) -> None:
    reader = RemoteLogReader(world.known(), world.storage(), chunk_bytes=1, max_decompressed_bytes=20)
    with pytest.raises(RecordsTooLargeError, match="max_decompressed_bytes"):
        rows_of(reader.read(TIP, None))


def test_settings_that_cannot_be_are_refused(world: RemoteLogWorld) -> None:
    wrong: list[dict[str, Any]] = [
        {"chunk_bytes": 0}, {"max_decompressed_bytes": 0}, {"timeout_s": -1}, {"bytes_per_second": 0},
    ]  # fmt: skip
    for settings in wrong:
        with pytest.raises(ConfigurationError, match=next(iter(settings))):
            RemoteLogReader(world.known(), world.storage(), **settings)


@pytest.mark.slow
def test_indexes_that_disagree_with_the_log_are_left_out(world: RemoteLogWorld) -> None:
    """The first segment has another's index, whose entries name offsets and bytes that it has, too."""
    storage, first = world.storage(), world.segments[0]
    entries = [(first.metadata.start_offset + 2 * n, 37 * n) for n in range(1, len(first.log) // 37)]
    entries = [entry for entry in entries if entry[0] <= first.metadata.end_offset]
    index = offset_index(first.metadata.start_offset, entries)
    storage.put_object(world.layout.object_key(first.metadata, IndexType.OFFSET), index)
    reader = RemoteLogReader(world.known(), storage, index_cache=RemoteIndexCache(storage), chunk_bytes=80)
    for start in range(world.start, world.segments[0].metadata.end_offset + 1):
        assert rows_of(reader.read(TIP, start, start + 4)) == world.rows(start, start + 4)
