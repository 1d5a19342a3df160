# SPDX-License-Identifier: Apache-2.0
"""Whatever happens to the bytes of logs and indexes: a typed error that names object and position, or the right records."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from airflow_provider_rlmm.errors import (
    DamagedObjectError,
    RecordsTooLargeError,
    UnsupportedMessageFormatError,
)
from airflow_provider_rlmm.policy.read_range import ReadIsolation
from airflow_provider_rlmm.remote_log.reader import RemoteLogReader
from airflow_provider_rlmm.storage.remote_storage import IndexType
from tests.remote_log_world import TIP, RemoteLogWorld, as_rows, random_world

SEEDS = range(16)
TRIES = 12
TYPED = (DamagedObjectError, UnsupportedMessageFormatError, RecordsTooLargeError)
READ_INDEXES = (IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.TRANSACTION)


def damaged(rng: random.Random, data: bytes) -> bytes:
    kind = rng.choice(("flip", "flip", "flip", "cut", "longer", "zeros", "swap"))
    at = rng.randrange(len(data)) if data else 0
    if kind == "flip" and data:
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if kind == "cut":
        return data[:at]
    if kind == "longer":
        return data + rng.randbytes(rng.choice((1, 8, 34)))
    if kind == "zeros":
        end = min(len(data), at + rng.randint(1, 16))
        return data[:at] + bytes(end - at) + data[end:]
    other = rng.randrange(len(data) or 1)
    return data[other:] + data[:other]


def tries(
    seed: int, index_types: tuple[IndexType | None, ...], *, gaps: bool
) -> Iterator[tuple[RemoteLogWorld, RemoteLogReader]]:
    world, rng = random_world(f"damaged {seed}", batches=40, gaps=gaps, distinct_times=True), random.Random(seed)
    for _ in range(TRIES):
        storage = world.storage()
        segment = rng.choice(world.segments)
        index_type = rng.choice([t for t in index_types if t is None or t in segment.indexes])
        data = segment.log if index_type is None else segment.indexes[index_type]
        storage.put_object(world.layout.object_key(segment.metadata, index_type), damaged(rng, data))
        yield world, RemoteLogReader(world.known(), storage, chunk_bytes=rng.choice((50, 2**20)))


def read_or_error(world: RemoteLogWorld, reader: RemoteLogReader, start: int, end: int, *, committed: bool) -> None:
    isolation = ReadIsolation.READ_COMMITTED if committed else ReadIsolation.READ_UNCOMMITTED
    try:
        read = as_rows(list(reader.read(TIP, start, end, isolation=isolation, leader_epochs=world.lineage)))
    except TYPED as e:
        refused = e
    else:
        assert read == world.rows(start, end, committed=committed)
        return
    assert "orders-0" in str(refused)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_log_never_yields_a_wrong_record(seed: int) -> None:
    rng = random.Random(seed)
    for world, reader in tries(seed, (None,), gaps=False):
        read_or_error(world, reader, world.start, world.end, committed=rng.random() < 0.5)
        for _ in range(3):
            start = rng.randrange(world.start, world.end)
            read_or_error(world, reader, start, rng.randint(start, world.end), committed=rng.random() < 0.5)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_index_never_yields_a_wrong_record(seed: int) -> None:
    rng = random.Random(seed)
    for world, reader in tries(seed, READ_INDEXES, gaps=seed % 2 == 0):
        read_or_error(world, reader, world.start, world.end, committed=rng.random() < 0.5)
        for _ in range(3):
            start = rng.randrange(world.start, world.end)
            read_or_error(world, reader, start, rng.randint(start, world.end), committed=rng.random() < 0.5)


@pytest.mark.parametrize("seed", SEEDS)
def test_damage_never_leads_a_search_by_time_astray(seed: int) -> None:
    rng = random.Random(seed)
    for world, reader in tries(seed, (None, IndexType.OFFSET, IndexType.TIMESTAMP), gaps=False):
        times = sorted({record.timestamp for batch in world.batches for record in batch.records})
        for _ in range(6):
            time_ms, start = rng.choice(times), rng.choice((world.start, rng.randrange(world.start, world.end)))
            try:
                found = reader.find_offset_by_timestamp(TIP, time_ms, start, world.lineage, world.end)
            except TYPED as e:
                refused = e
            else:
                assert found == world.found(time_ms, start)
                continue
            assert "orders-0" in str(refused)
