# SPDX-License-Identifier: Apache-2.0
"""The reader over objects that Aiven's plugin has packed."""

from __future__ import annotations

import random

import pytest

from airflow_provider_rlmm.core.base.errors import DamagedObjectError, RemoteLogError, SegmentGoneError
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.features.reading.reader import RemoteLogReader
from tests.contracts.aiven_objects import AivenPacking, SegmentContents
from tests.remote_log_world import TIP, RemoteLogWorld, as_rows, random_world

LAYOUT = AivenLayout("kafka/prod-", ["kafka/"])
COMMITTED, UNCOMMITTED = ReadIsolation.READ_COMMITTED, ReadIsolation.READ_UNCOMMITTED


def packed(world: RemoteLogWorld, seed: int) -> InMemoryRemoteStorageManager:
    """Each segment packed otherwise, below the prefix of now or a former one."""
    rng, storage = random.Random(seed), InMemoryRemoteStorageManager(LAYOUT)
    for segment in world.segments:
        chunk_size, compressed = rng.choice((7, 100, 1_000, 2**20)), rng.random() < 0.7
        packing = AivenPacking(chunk_size, compressed, variable=compressed or rng.random() < 0.5)
        stem = LAYOUT.segment_stem(segment.metadata, rng.choice(LAYOUT.places))
        contents = SegmentContents(segment.log, segment.indexes)
        for key, data in packing(stem, segment.metadata, contents).items():
            storage.put_object(key, data)
    return storage


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_all_records_are_read_as_they_were_written(seed: int) -> None:
    world = random_world(seed)
    reader = RemoteLogReader(
        world.known(), packed(world, seed), chunk_bytes=random.Random(seed).choice((1, 60, 1_000, 2**20))
    )
    for isolation in (UNCOMMITTED, COMMITTED):
        read = as_rows(list(reader.read(TIP, None, isolation=isolation)))
        assert read == world.rows(world.start, world.end, committed=isolation is COMMITTED)
    times = sorted({record.timestamp for batch in world.batches for record in batch.records})
    for time_ms in random.Random(seed).choices(times, k=5):
        found = reader.find_offset_by_timestamp(TIP, time_ms, world.start, world.lineage, world.end)
        assert found == world.found(time_ms, world.start)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_a_flipped_byte_is_an_error_or_changes_nothing(seed: int) -> None:
    world, rng = random_world(seed), random.Random(seed)
    storage = packed(world, seed)
    key = rng.choice(sorted(storage.keys))
    data = bytearray(storage._objects[key][0])
    if not data:
        return
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    storage.put_object(key, bytes(data))
    reader = RemoteLogReader(world.known(), storage)
    try:
        read = as_rows(list(reader.read(TIP, None, isolation=COMMITTED)))
    except RemoteLogError as e:
        told = e.location if isinstance(e, DamagedObjectError) else str(e)
        assert key.rpartition("/")[2].partition(".")[0] in told
    else:
        assert read == world.rows(world.start, world.end, committed=True)


def test_a_segment_without_its_manifest_is_gone() -> None:
    world = random_world(3)
    storage = packed(world, 3)
    first = LAYOUT.segment_stem(world.segments[0].metadata).rpartition("/")[2]
    [missing] = [key for key in storage.keys if key.endswith(f"/{first}.rsm-manifest")]
    del storage._objects[missing]
    reader = RemoteLogReader(world.known(), storage, sleep=lambda _: None)
    with pytest.raises(SegmentGoneError, match="rsm-manifest"):
        list(reader.read(TIP, None))
