# SPDX-License-Identifier: Apache-2.0
"""What is read without a broker is what stock clients read through one, record by record and time by time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from airflow_provider_rlmm.core.base.errors import OffsetNotInRemoteLogError, SegmentGoneError, StorageUnavailableError
from airflow_provider_rlmm.core.log.known_segments import KnownSegments
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.segments.read_range import OffsetRange, ReadIsolation
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.features.reading.index_cache import RemoteIndexCache
from airflow_provider_rlmm.features.reading.reader import RemoteLogReader
from dev import tiering
from dev.broker import LocalKafka, await_condition
from dev.s3 import BUCKET, MotoServer, store_options
from dev.s3_proxy import S3Proxy
from tests.integration.copying.writing import read_records
from tests.integration.kafka_topics import delete_records
from tests.integration.reading.world import (
    COPIED,
    RecordWriter,
    as_row,
    await_copied,
    make_remote_log,
    offsets_for_times,
    segments_of,
    storage_of,
)

COMMITTED, UNCOMMITTED = ReadIsolation.READ_COMMITTED, ReadIsolation.READ_UNCOMMITTED
STARTS = 10_000
TIMES = 1_000


@dataclass
class RemoteLog:
    """A remote log, and what a stock consumer reads of it."""

    kafka: LocalKafka
    tip: TopicIdPartition
    known: KnownSegments
    rows: dict[ReadIsolation, list[dict[str, object]]]

    def reader(self, **settings: int) -> RemoteLogReader:
        return RemoteLogReader(self.known, storage_of(self.kafka), **settings)  # type: ignore[arg-type]

    def expected(self, offsets: OffsetRange, isolation: ReadIsolation) -> list[dict[str, object]]:
        return [row for row in self.rows[isolation] if offsets.start <= row["offset"] < offsets.end]  # type: ignore[operator]


def look(kafka: LocalKafka, tip: TopicIdPartition) -> RemoteLog:
    with segments_of(kafka, tip) as segments:
        known = KnownSegments.of(segments.list_remote_log_segments(tip))
    rows = {
        i: [as_row(r) for r in read_records(kafka.bootstrap_servers, tip.topic, isolation=i)] for i in ReadIsolation
    }
    return RemoteLog(kafka, tip, known, rows)


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalKafka]:
    with LocalKafka() as kafka:
        yield kafka


@pytest.fixture(scope="module")
def remote_log(broker: LocalKafka) -> RemoteLog:
    return look(broker, make_remote_log(broker, "read"))


def rows_of(batches: Iterator[object]) -> list[dict[str, object]]:
    return [row for batch in batches for row in batch.to_pylist()]  # type: ignore[attr-defined]


@pytest.mark.parametrize("isolation", ReadIsolation)
def test_every_record_is_a_stock_consumers(remote_log: RemoteLog, isolation: ReadIsolation) -> None:
    reader = remote_log.reader(chunk_bytes=10_000)
    everything = reader.remote_offsets(remote_log.tip)
    offsets = reader.remote_offsets(remote_log.tip, isolation=isolation)
    read = rows_of(reader.read(remote_log.tip, None, isolation=isolation))
    assert read == remote_log.expected(offsets, isolation)
    assert len(read) > 700
    # A transaction is open where the remote log ends, though the consumer sees it committed.
    assert (offsets.end < everything.end) is (isolation is COMMITTED)
    assert len(reader.lineage(remote_log.tip).entries) == 3


@pytest.mark.rare
@pytest.mark.parametrize("isolation", ReadIsolation)
def test_reading_begins_at_any_offset(remote_log: RemoteLog, isolation: ReadIsolation) -> None:
    reader, rng = remote_log.reader(), random.Random(f"starts {isolation}")
    there = reader.remote_offsets(remote_log.tip, isolation=isolation)
    lineage = reader.lineage(remote_log.tip)
    for _ in range(STARTS // 2):
        start = rng.randrange(there.start, there.end)
        wanted = OffsetRange(start, min(start + rng.choice((1, 5, 30)), there.end))
        read = reader.read(remote_log.tip, wanted.start, wanted.end, isolation=isolation, leader_epochs=lineage)
        assert rows_of(read) == remote_log.expected(wanted, isolation)


def times_of(remote_log: RemoteLog, end: int) -> list[int]:
    rng = random.Random("times")
    known = [int(row["timestamp"]) for row in remote_log.rows[UNCOMMITTED] if row["offset"] < end]  # type: ignore[operator,call-overload]
    low, high = min(known), max(known)
    edges = [0, low - 1, low, high, high + 1, high + 10**9]
    return [
        *edges,
        *rng.choices(known, k=TIMES // 2),
        *(rng.randint(low, high) for _ in range(TIMES // 2 - len(edges))),
    ]


def require_the_brokers_times(remote_log: RemoteLog) -> None:
    reader, tip = remote_log.reader(), remote_log.tip
    there, lineage = reader.remote_offsets(tip), reader.lineage(tip)
    times = times_of(remote_log, there.end)
    assert len(times) == TIMES
    found = 0
    for time_ms, answer in zip(times, offsets_for_times(remote_log.kafka, tip.topic, times), strict=True):
        ours = reader.find_offset_by_timestamp(tip, time_ms, there.start, lineage, there.end)
        # What lies behind the remote log only the leader knows.
        beyond = answer[0] < 0 or answer[0] >= there.end
        assert ours == (None if beyond else answer)
        found += not beyond
    assert found > TIMES // 2


def test_a_time_is_found_where_the_broker_finds_it(remote_log: RemoteLog) -> None:
    require_the_brokers_times(remote_log)


@pytest.mark.rare
def test_a_log_whose_broker_stamps_its_records_is_read_and_searched(broker: LocalKafka) -> None:
    topic_id = tiering.create_tiered_topic(
        broker, "stamped", 1, **COPIED, **{"message.timestamp.type": "LogAppendTime"}
    )
    writer = RecordWriter(broker, "stamped")
    for codec in ("none", "zstd"):
        writer.write(200, codec)
    tip = TopicIdPartition(topic_id, "stamped", 0)
    await_copied(broker, tip)
    remote_log = look(broker, tip)
    reader = remote_log.reader()
    there = reader.remote_offsets(tip)
    assert rows_of(reader.read(tip, there.start, there.end)) == remote_log.expected(there, UNCOMMITTED)
    require_the_brokers_times(remote_log)


@pytest.mark.rare
def test_a_log_start_offset_that_was_moved_is_where_reading_begins(broker: LocalKafka) -> None:
    topic_id = tiering.create_tiered_topic(broker, "moved", 1, **COPIED)
    # Where the newest record of a segment lies before the beginning, the broker does not search the ones behind it.
    writer = RecordWriter(broker, "moved", steps_ms=(0, 5, 40))
    writer.write(150, "none")
    tip = TopicIdPartition(topic_id, "moved", 0)
    await_copied(broker, tip)
    with segments_of(broker, tip) as segments:
        second = segments.list_remote_log_segments(tip)[1]
    moved_to = (second.start_offset + second.end_offset) // 2
    delete_records(broker, "moved", 0, moved_to)
    # What is copied from now on says so.
    writer.write(100, "none")
    await_copied(broker, tip)
    remote_log = look(broker, tip)
    reader = remote_log.reader()
    there = reader.remote_offsets(tip)
    assert there.start == moved_to
    assert rows_of(reader.read(tip, None)) == remote_log.expected(there, UNCOMMITTED)
    with pytest.raises(OffsetNotInRemoteLogError, match=f"has {moved_to} to"):
        next(reader.read(tip, moved_to - 1))
    require_the_brokers_times(remote_log)


@pytest.fixture
def shrinking(broker: LocalKafka) -> TopicIdPartition:
    """A remote log that its broker is going to delete from its beginning."""
    topic = f"shrinking-{uuid4().hex}"
    topic_id = tiering.create_tiered_topic(broker, topic, 1, **COPIED)
    RecordWriter(broker, topic).write(200, "none")
    tip = TopicIdPartition(topic_id, topic, 0)
    await_copied(broker, tip)
    return tip


def delete_below(kafka: LocalKafka, tip: TopicIdPartition, offset: int) -> None:
    """Move the log start offset, and wait until the broker has deleted the objects of what lies below."""
    with segments_of(kafka, tip) as segments:
        below = [m for m in segments.list_remote_log_segments(tip) if m.end_offset < offset]
    layout = LocalTieredStorageLayout()
    logs = [kafka.remote_dir / layout.object_key(metadata, None) for metadata in below]
    assert logs
    assert all(log.exists() for log in logs)
    delete_records(kafka, tip.topic, tip.partition, offset)
    await_condition(lambda: not any(log.exists() for log in logs), "the broker deletes what lies below", 60.0)


def test_a_segment_that_is_deleted_while_it_is_read_is_an_error_that_says_so(
    broker: LocalKafka, shrinking: TopicIdPartition
) -> None:
    with segments_of(broker, shrinking) as segments:
        third = segments.list_remote_log_segments(shrinking)[3]
        reader = RemoteLogReader(segments, storage_of(broker), chunk_bytes=2_000)
        reading = reader.read(shrinking, 0)
        assert next(reading).column("offset")[0].as_py() == 0
        delete_below(broker, shrinking, third.start_offset)
        with pytest.raises(SegmentGoneError, match=f"the remote log begins at {third.start_offset} now"):
            list(reading)


def test_reading_from_the_beginning_goes_on_where_the_beginning_was_moved_to(
    broker: LocalKafka, shrinking: TopicIdPartition
) -> None:
    with segments_of(broker, shrinking) as segments:
        remote = segments.list_remote_log_segments(shrinking)
        begin, end = remote[3].start_offset, remote[-1].end_offset + 1
        rows = [as_row(record) for record in read_records(broker.bootstrap_servers, shrinking.topic)]
        reader = RemoteLogReader(segments, storage_of(broker), chunk_bytes=2_000)
        reading = reader.read(shrinking, None)
        first = next(reading).to_pylist()
        delete_below(broker, shrinking, begin)
        assert rows_of(reading) == [row for row in rows if begin <= row["offset"] < end]  # type: ignore[operator]
    assert first == rows[: len(first)]


def test_a_damaged_index_in_the_cache_is_fetched_anew(remote_log: RemoteLog) -> None:
    tip, storage, layout = remote_log.tip, storage_of(remote_log.kafka), LocalTieredStorageLayout()
    metadata = remote_log.known.list_remote_log_segments(tip)[2]
    cache = RemoteIndexCache(storage)
    path = remote_log.kafka.remote_dir / layout.object_key(metadata, IndexType.OFFSET)
    good = path.read_bytes()
    # The last entry leads to another byte: nothing in the index itself tells.
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    try:
        damaged = cache.offset_index(metadata)
    finally:
        path.write_bytes(good)
    reader = RemoteLogReader(remote_log.known, storage, index_cache=cache)
    wanted = OffsetRange(metadata.end_offset, metadata.end_offset + 1)
    assert rows_of(reader.read(tip, wanted.start, wanted.end)) == remote_log.expected(wanted, UNCOMMITTED)
    assert cache.offset_index(metadata) is not damaged


@pytest.fixture
def bucket(remote_log: RemoteLog, tmp_path: Path) -> Iterator[tuple[ObjectStoreRemoteStorageManager, S3Proxy]]:
    """The remote log's objects on an S3 server, which can be cut off."""
    with MotoServer(tmp_path) as server, S3Proxy(server.port) as proxy:
        root = remote_log.kafka.remote_dir
        for path in root.rglob(f"{remote_log.tip.topic}-*/*"):
            server.client.put_object(Bucket=BUCKET, Key=str(path.relative_to(root)), Body=path.read_bytes())
        options = store_options(proxy.endpoint)
        yield ObjectStoreRemoteStorageManager(f"s3://{BUCKET}", LocalTieredStorageLayout(), options=options), proxy


def test_s3_that_comes_back_in_time_is_not_noticed(
    remote_log: RemoteLog, bucket: tuple[ObjectStoreRemoteStorageManager, S3Proxy]
) -> None:
    storage, proxy = bucket
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        proxy.down = False

    reader = RemoteLogReader(remote_log.known, storage, chunk_bytes=5_000, sleep=sleep)
    there = reader.remote_offsets(remote_log.tip)
    reading = reader.read(remote_log.tip, there.start, there.end)
    first = next(reading).to_pylist()
    proxy.down = True
    assert [*first, *rows_of(reading)] == remote_log.expected(there, UNCOMMITTED)
    assert len(pauses) == 1
    assert proxy.refused > 0


def test_s3_that_stays_down_is_an_error_when_the_time_is_up(
    remote_log: RemoteLog, bucket: tuple[ObjectStoreRemoteStorageManager, S3Proxy]
) -> None:
    storage, proxy = bucket
    reader = RemoteLogReader(remote_log.known, storage, chunk_bytes=5_000, timeout_s=2.0)
    reading = reader.read(remote_log.tip, None)
    next(reading)
    proxy.down = True
    with pytest.raises(StorageUnavailableError, match="asked"):
        list(reading)
