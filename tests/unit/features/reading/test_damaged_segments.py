# SPDX-License-Identifier: Apache-2.0
"""Whatever happens to the bytes of logs and indexes: a typed error that names object and position, or the right records."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import (
    DamagedObjectError,
    RecordsTooLargeError,
    UnsupportedMessageFormatError,
)
from airflow_provider_rlmm.core.log.known_segments import KnownSegments
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.features.reading.reader import RemoteLogReader
from tests.examples import examples
from tests.kafka_log import (
    TRANSACTIONAL,
    Batch,
    Record,
    control_batch,
    log_of,
    producer_snapshot,
    time_index,
    transaction_index,
)
from tests.remote_log_world import TIP, RemoteLogWorld, SegmentFiles, as_rows, random_world

SEEDS = range(examples(16))
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


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_log_never_yields_a_wrong_record(seed: int) -> None:
    rng = random.Random(seed)
    for world, reader in tries(seed, (None,), gaps=False):
        read_or_error(world, reader, world.start, world.end, committed=rng.random() < 0.5)
        for _ in range(3):
            start = rng.randrange(world.start, world.end)
            read_or_error(world, reader, start, rng.randint(start, world.end), committed=rng.random() < 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_index_never_yields_a_wrong_record(seed: int) -> None:
    rng = random.Random(seed)
    for world, reader in tries(seed, READ_INDEXES, gaps=seed % 2 == 0):
        read_or_error(world, reader, world.start, world.end, committed=rng.random() < 0.5)
        for _ in range(3):
            start = rng.randrange(world.start, world.end)
            read_or_error(world, reader, start, rng.randint(start, world.end), committed=rng.random() < 0.5)


@pytest.mark.slow
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


def with_first_offset(world: RemoteLogWorld, row: int, offset: int) -> RemoteLogReader:
    """A reader that gets one batch at a time, one of which says that it begins elsewhere."""
    segment, at = world.segments[0], len(b"".join(batch.to_bytes() for batch in world.batches[:row]))
    log = segment.log[:at] + struct.pack(">q", offset) + segment.log[at + 8 :]
    storage = world.storage()
    storage.put_object(world.layout.object_key(segment.metadata, None), log)
    return RemoteLogReader(world.known(), storage, chunk_bytes=1)


@pytest.fixture
def one_segment() -> RemoteLogWorld:
    return next(w for w in (random_world(f"one {n}", batches=8, start=100) for n in range(99)) if len(w.segments) == 1)


def test_a_first_offset_behind_the_segment_is_noticed_without_a_checksum(one_segment: RemoteLogWorld) -> None:
    reader = with_first_offset(one_segment, 7, one_segment.batches[7].records[0].offset + 1)
    with pytest.raises(DamagedObjectError, match=f"above {one_segment.end - 1}, where the segment ends"):
        as_rows(list(reader.read(TIP, None)))


def test_a_first_offset_that_was_read_before_is_noticed_without_a_checksum(one_segment: RemoteLogWorld) -> None:
    before = one_segment.batches[3].records[0].offset - 1
    with pytest.raises(DamagedObjectError, match=f"not above {before}, where what is before ends"):
        as_rows(list(with_first_offset(one_segment, 3, before).read(TIP, None)))


def test_a_last_batch_that_is_cut_is_noticed(one_segment: RemoteLogWorld) -> None:
    """Though the metadata say the same size, and the batches before it are whole."""
    segment, size = one_segment.segments[0], len(one_segment.batches[-1].to_bytes()) - 1
    log = segment.log[: len(segment.log) - size - 1]
    storage = one_segment.storage()
    storage.put_object(one_segment.layout.object_key(segment.metadata, None), log + segment.log[len(log) : -1])
    metadata = replace(segment.metadata, segment_size_in_bytes=len(segment.log) - 1)
    reader = RemoteLogReader(KnownSegments.of([metadata]), storage)
    with pytest.raises(DamagedObjectError, match=f"damaged at byte {len(log)}: its last batch is cut"):
        as_rows(list(reader.read(TIP, None)))


def test_a_log_that_is_shorter_than_the_metadata_say_is_noticed(one_segment: RemoteLogWorld) -> None:
    segment, storage = one_segment.segments[0], one_segment.storage()
    whole = len(segment.log) - len(one_segment.batches[-1].to_bytes())
    storage.put_object(one_segment.layout.object_key(segment.metadata, None), segment.log[:whole])
    reader = RemoteLogReader(one_segment.known(), storage)
    with pytest.raises(DamagedObjectError, match=f"was cut: it ends at byte {whole}") as refused:
        as_rows(list(reader.read(TIP, None)))
    assert refused.value.position == whole


def segment_with(batches: list[Batch], **indexes: bytes) -> RemoteLogWorld:
    """A log of one segment, with these indexes."""
    log, end = log_of(batches), batches[-1].records[-1].offset
    metadata = RemoteLogSegmentMetadata(
        RemoteLogSegmentId(TIP, UUID(int=5)), 0, end, max(r.timestamp for b in batches for r in b.records), 0, 0, len(log),
        None, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, ((0, 0),),
    )  # fmt: skip
    lineage = LeaderEpochCheckpoint(((0, 0),))
    files = {
        IndexType.OFFSET: b"",
        IndexType.TIMESTAMP: b"",
        IndexType.PRODUCER_SNAPSHOT: producer_snapshot([]),
        IndexType.LEADER_EPOCH: lineage.to_text().encode(),
        **{IndexType(name): data for name, data in indexes.items()},
    }
    return RemoteLogWorld(batches, [SegmentFiles(metadata, log, files)], lineage, [], None)


@pytest.mark.parametrize("wrong", [[], [(12, 0, 3, 4)], [(11, 1, 3, 4)]])
def test_a_transaction_whose_end_marker_lies_behind_the_range_is_not_taken_for_committed(
    wrong: list[tuple[int, int, int, int]],
) -> None:
    batches = [
        Batch((Record(0),), attributes=TRANSACTIONAL, producer_id=11),
        Batch((Record(1),), attributes=TRANSACTIONAL, producer_id=11),
        Batch((Record(2),)),
        control_batch(3, 11, commit=False),
    ]
    world = segment_with(batches, transaction=transaction_index(wrong))
    reader = RemoteLogReader(world.known(), world.storage())
    with pytest.raises(DamagedObjectError, match="producer 11 that ends at offset 3 ended in ABORT"):
        list(reader.read(TIP, 0, 2, isolation=ReadIsolation.READ_COMMITTED))
    right = segment_with(batches, transaction=transaction_index([(11, 0, 3, 4)]))
    reader = RemoteLogReader(right.known(), right.storage())
    assert as_rows(list(reader.read(TIP, 0, isolation=ReadIsolation.READ_COMMITTED))) == [Record(2).as_row()]


def test_a_time_index_that_leads_behind_the_record_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    batches = [Batch((Record(offset, timestamp=100 * offset),)) for offset in range(10)]
    # The second entry is that of offset 2, and says 6.
    world = segment_with(batches, timestamp=time_index(0, [(0, 0), (200, 6), (900, 9)]))
    reader = RemoteLogReader(world.known(), world.storage())
    assert reader.find_offset_by_timestamp(TIP, 300, 0, world.lineage, 10) == (3, 300, 0)
    assert "does not fit its log at offset 6" in caplog.text
