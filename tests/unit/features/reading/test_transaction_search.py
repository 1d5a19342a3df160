# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
import uuid
from collections import Counter
from dataclasses import replace

import pytest

from airflow_provider_rlmm.core.log.known_segments import KnownSegments
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.indexes.transaction_index import TransactionIndex
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.segments.metrics import RemoteLogMetrics
from airflow_provider_rlmm.core.segments.pacing import ByteQuota, StoragePatience
from airflow_provider_rlmm.core.segments.read_range import OffsetRange, ReadIsolation
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.features.reading.extent import RemoteExtent, SegmentSpan
from airflow_provider_rlmm.features.reading.fetching import SegmentFetcher
from airflow_provider_rlmm.features.reading.index_cache import RemoteIndexCache
from airflow_provider_rlmm.features.reading.reader import RemoteLogReader
from airflow_provider_rlmm.features.reading.segment_access import SegmentAccess
from airflow_provider_rlmm.features.reading.segment_reading import ChunkSizes
from airflow_provider_rlmm.features.reading.transaction_search import TransactionSearch
from tests.examples import examples
from tests.kafka_log import transaction_index
from tests.remote_log_world import TIP, as_rows, random_world

COMMITTED = ReadIsolation.READ_COMMITTED
LENGTH = 10
"""Offsets of each segment of a long log."""


class CountedSegments(KnownSegments):
    """Counts who is asked for as the next segment with a transaction index, from which offset; lists nothing."""

    asked: Counter[int]

    def next_segment_with_txn_index(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """See :class:`RemoteLogSegments`."""
        self.asked[offset] += 1
        return super().next_segment_with_txn_index(topic_id_partition, leader_epoch, offset)

    def list_remote_log_segments(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> list[RemoteLogSegmentMetadata]:
        """See :class:`RemoteLogSegments`."""
        raise AssertionError("all segments were listed")


class CountedCache(RemoteIndexCache):
    """Counts which transaction indexes are asked for."""

    def __init__(self, storage: InMemoryRemoteStorageManager) -> None:
        super().__init__(storage)
        self.asked: Counter[int] = Counter()

    def transaction_index(self, metadata: RemoteLogSegmentMetadata) -> TransactionIndex:
        """See :class:`RemoteIndexCache`."""
        self.asked[metadata.start_offset] += 1
        return super().transaction_index(metadata)


def access_of(storage: InMemoryRemoteStorageManager, cache: RemoteIndexCache) -> SegmentAccess:
    patience = StoragePatience(0)
    fetcher = SegmentFetcher(storage, patience, ByteQuota(None), RemoteLogMetrics())
    return SegmentAccess(fetcher, cache, patience, ChunkSizes(1, 1, 1))


def long_log(
    count: int, *, flagged: bool, aborted_in: frozenset[int] = frozenset()
) -> tuple[CountedSegments, CountedCache]:
    """
    Return a log of many segments, each of ten offsets.

    :param count: of segments.
    :param flagged: whether the metadata say of those without aborted transactions that they have none.
    :param aborted_in: the segments in which a transaction ends that began in the one before.
    """
    layout = LocalTieredStorageLayout()
    storage = InMemoryRemoteStorageManager(layout)
    segments = []
    for number in range(count):
        start, ends = number * LENGTH, number in aborted_in
        metadata = RemoteLogSegmentMetadata(
            RemoteLogSegmentId(TIP, uuid.UUID(int=number + 1)), start, start + LENGTH - 1, 0, 0, 0, 100, None,
            RemoteLogSegmentState.COPY_SEGMENT_FINISHED, ((0, start),), flagged and not ends,
        )  # fmt: skip
        segments.append(metadata)
        if ends:
            entry = (5, start - 1, start + 1, start - 1)
            storage.put_object(layout.object_key(metadata, IndexType.TRANSACTION), transaction_index([entry]))
    known = CountedSegments.of(segments)
    assert isinstance(known, CountedSegments)
    known.asked = Counter()
    return known, CountedCache(storage)


@pytest.mark.parametrize("aborted_in", [frozenset(), frozenset({7, 8, 150})])
@pytest.mark.parametrize("flagged", [False, True])
def test_each_segment_is_asked_once_however_many_there_are(flagged: bool, aborted_in: frozenset[int]) -> None:
    count = 200
    known, cache = long_log(count, flagged=flagged, aborted_in=aborted_in)
    extent = RemoteExtent(known, TIP, LeaderEpochCheckpoint(((0, 0),)))
    search = TransactionSearch(access_of(cache._storage, cache), extent)  # type: ignore[arg-type]
    affected = set()
    for number in range(count):
        span = extent.span_at(number * LENGTH)
        assert span is not None
        if search.aborted(span)._producer_id.size:
            affected.add(number)
    assert affected == {n for number in aborted_in for n in (number - 1, number)}
    assert sum(known.asked.values()) <= (2 if flagged else count) + 3 * len(aborted_in)
    assert sum(cache.asked.values()) <= 3 * count
    assert len(cache.asked) == (len(aborted_in) if flagged else count)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(20)))
def test_what_is_kept_of_the_segments_ahead_changes_no_answer(seed: int) -> None:
    world, rng = random_world(f"search {seed}", batches=120), random.Random(seed)
    storage = world.storage()
    extent = RemoteExtent(world.known(), TIP, world.lineage)
    access = access_of(storage, RemoteIndexCache(storage))
    search, offset = TransactionSearch(access, extent), world.start
    while offset < world.end:
        whole = extent.span_at(offset)
        assert whole is not None
        end = rng.choice((whole.offsets.end, rng.randint(offset + 1, whole.offsets.end)))
        span = SegmentSpan(whole.metadata, OffsetRange(offset, end))
        assert entries(search, span) == entries(TransactionSearch(access, extent), span)
        offset = end


def entries(search: TransactionSearch, span: SegmentSpan) -> list[tuple[int, int, int]]:
    found = search.aborted(span)
    columns = (found._producer_id, found._first_offset, found._last_offset)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_range_of_committed_records_is_read_without_a_look_at_all_segments() -> None:
    world = random_world("committed range", batches=120)
    segments = CountedSegments.of(segment.metadata for segment in world.segments)
    assert isinstance(segments, CountedSegments)
    segments.asked = Counter()
    reader = RemoteLogReader(segments, world.storage())
    read = reader.read(TIP, world.start + 1, world.end, isolation=COMMITTED, leader_epochs=world.lineage)
    assert as_rows(list(read)) == world.rows(world.start + 1, world.end, committed=True)


def test_the_transactions_of_a_segment_that_took_anothers_place_are_looked_up_anew() -> None:
    known, cache = long_log(3, flagged=True)
    extent = RemoteExtent(known, TIP, LeaderEpochCheckpoint(((0, 0),)))
    search = TransactionSearch(access_of(cache._storage, cache), extent)  # type: ignore[arg-type]
    first = extent.span_at(0)
    assert first is not None
    assert entries(search, first) == []
    aborting, _ = long_log(3, flagged=True, aborted_in=frozenset({1}))
    known._caches.update(aborting._caches)
    search.forget()
    replaced = aborting._cache(TIP).remote_log_segment_metadata(0, LENGTH)
    assert replaced is not None
    key = LocalTieredStorageLayout().object_key(replaced, IndexType.TRANSACTION)
    cache._storage.put_object(key, transaction_index([(5, LENGTH - 1, LENGTH + 1, LENGTH - 1)]))  # type: ignore[attr-defined]
    assert entries(search, first) == [(5, LENGTH - 1, LENGTH + 1)]


@pytest.mark.parametrize("seed", range(examples(10)))
def test_the_end_is_told_as_by_a_look_at_all_segments(seed: int) -> None:
    world, rng = random_world(f"end {seed}", batches=120), random.Random(seed)
    metadatas = [segment.metadata for segment in world.segments]
    epoch = world.lineage.entries[-1][0] + 1
    for _ in range(10):
        anew = rng.randint(world.start + 1, world.end)
        unclean = LeaderEpochCheckpoint((*world.lineage.truncate_from_end(anew).entries, (epoch, anew)))
        gone = rng.randint(0, len(metadatas) - 1)
        kept = [
            replace(m, state=RemoteLogSegmentState.DELETE_SEGMENT_STARTED) if number >= len(metadatas) - gone else m
            for number, m in enumerate(metadatas)
        ]
        for lineage in (world.lineage, unclean):
            extent = RemoteExtent(KnownSegments.of(kept), TIP, lineage)
            assert extent.end() == extent.require_offsets().end
