# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random

import pytest

from airflow_provider_rlmm.core.log.known_segments import KnownSegments
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.segments.read_range import OffsetRange, ReadIsolation
from airflow_provider_rlmm.features.reading.reader import RemoteLogReader
from tests.examples import examples
from tests.remote_log_world import TIP, RemoteLogWorld, as_rows, random_world

COMMITTED, UNCOMMITTED = ReadIsolation.READ_COMMITTED, ReadIsolation.READ_UNCOMMITTED
SEEDS = range(examples(10))


def reader_of(world: RemoteLogWorld, **settings: int) -> RemoteLogReader:
    return RemoteLogReader(world.known(), world.storage(), **settings)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_all_records_are_read_as_they_were_written(seed: int, gaps: bool) -> None:
    world = random_world(seed, gaps=gaps)
    chunk_bytes = random.Random(seed).choice((1, 60, 1000, 2**20))
    reader = reader_of(world, chunk_bytes=chunk_bytes)
    assert reader.lineage(TIP) == world.lineage
    assert reader.remote_offsets(TIP) == OffsetRange(world.start, world.end)
    for isolation in (UNCOMMITTED, COMMITTED):
        read = as_rows(list(reader.read(TIP, None, isolation=isolation)))
        assert read == world.rows(world.start, world.end, committed=isolation is COMMITTED)


@pytest.mark.slow
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_any_range_of_offsets_is_read_exactly(seed: int, gaps: bool) -> None:
    world = random_world(seed, gaps=gaps)
    reader, rng = reader_of(world, chunk_bytes=random.Random(seed).choice((1, 100, 2**20))), random.Random(seed)
    for _ in range(20):
        start = rng.randint(world.start, world.end)
        end = rng.choice((start, start + 1, rng.randint(start, world.end + 3)))
        isolation = rng.choice((UNCOMMITTED, COMMITTED))
        read = as_rows(list(reader.read(TIP, start, end, isolation=isolation)))
        assert read == world.rows(start, end, committed=isolation is COMMITTED)


class UnlistedSegments(KnownSegments):
    """Nobody may ask for all the segments."""

    def list_remote_log_segments(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> list[RemoteLogSegmentMetadata]:
        raise AssertionError("all segments were listed")


def test_a_range_is_read_without_a_look_at_all_segments() -> None:
    world = random_world(1)
    reader = RemoteLogReader(UnlistedSegments.of(segment.metadata for segment in world.segments), world.storage())
    read = as_rows(list(reader.read(TIP, world.start + 1, world.end, leader_epochs=world.lineage)))
    assert read == world.rows(world.start + 1, world.end, committed=False)


@pytest.mark.slow
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_time_is_found_where_the_first_record_as_new_lies(seed: int, gaps: bool) -> None:
    world = random_world(seed, gaps=gaps)
    reader, rng = reader_of(world), random.Random(seed)
    times = sorted({record.timestamp for batch in world.batches for record in batch.records})
    for time_ms in [-1, 0, times[0] - 1, times[-1], times[-1] + 1, *rng.choices(times, k=10), rng.choice(times) + 1]:
        for start in (world.start, rng.randrange(world.start, world.end)):
            found = reader.find_offset_by_timestamp(TIP, time_ms, start, world.lineage, world.end)
            assert found == world.found(time_ms, start)
