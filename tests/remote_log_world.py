# SPDX-License-Identifier: Apache-2.0
"""Random remote logs of one user partition, as a broker would have copied them, and what a consumer would read of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from uuid import UUID

from airflow_provider_rlmm.core.log.known_segments import KnownSegments
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.segments.record_batches.headers import Codec
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from tests.kafka_log import (
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Batch,
    Record,
    control_batch,
    offset_index,
    producer_snapshot,
    time_index,
    transaction_index,
)

TIP = TopicIdPartition(UUID(int=7), "orders", 0)
BEGIN_MS = 1_700_000_000_000


@dataclass
class SegmentFiles:
    """One segment, with all that is copied of it."""

    metadata: RemoteLogSegmentMetadata
    log: bytes
    indexes: dict[IndexType, bytes]


@dataclass
class RemoteLogWorld:
    """A log, cut into remote segments."""

    batches: list[Batch]
    segments: list[SegmentFiles]
    lineage: LeaderEpochCheckpoint
    aborted: list[tuple[int, int, int, int]]  # producer, first, last, last stable offset
    open_since: int | None  # first offset of the first transaction that is open at the end
    layout: LocalTieredStorageLayout = field(default_factory=LocalTieredStorageLayout)

    @property
    def start(self) -> int:
        return self.segments[0].metadata.start_offset

    @property
    def end(self) -> int:
        return self.segments[-1].metadata.end_offset + 1

    def storage(self) -> InMemoryRemoteStorageManager:
        """Return a storage that holds all segments."""
        storage = InMemoryRemoteStorageManager(self.layout)
        for segment in self.segments:
            storage.put_object(self.layout.object_key(segment.metadata, None), segment.log)
            for index_type, data in segment.indexes.items():
                storage.put_object(self.layout.object_key(segment.metadata, index_type), data)
        return storage

    def known(self) -> KnownSegments:
        """Return what the metadata topic says of them."""
        return KnownSegments.of(segment.metadata for segment in self.segments)

    def rows(self, start: int, end: int, *, committed: bool = False) -> list[dict[str, object]]:
        """Return the rows that a consumer reads of a range."""
        if committed and self.open_since is not None:
            end = min(end, self.open_since)
        return [
            record.as_row()
            for batch in self.batches
            if not batch.attributes & CONTROL and not (committed and self._is_aborted(batch))
            for record in batch.as_read()
            if start <= record.offset < end
        ]

    def found(self, timestamp_ms: int, starting_offset: int) -> tuple[int, int, int] | None:
        """Return offset, timestamp and leader epoch of the first record as new as a time, markers among them."""
        for batch in self.batches:
            for record in batch.as_read():
                if record.timestamp >= timestamp_ms and record.offset >= starting_offset:
                    return record.offset, record.timestamp, batch.leader_epoch
        return None

    def _is_aborted(self, batch: Batch) -> bool:
        first = batch.records[0].offset
        return any(
            producer_id == batch.producer_id and begin <= first <= last
            for producer_id, begin, last, _ in self.aborted
            if batch.attributes & TRANSACTIONAL
        )


class _Writer:
    """Writes a log batch by batch."""

    def __init__(self, rng: random.Random, start: int, *, gaps: bool, distinct_times: bool) -> None:
        self.rng = rng
        self.distinct_times = distinct_times
        self.offset = start
        self.gaps = gaps
        self.batches: list[Batch] = []
        self.epochs = [(rng.randrange(3), start)]
        self.open: dict[int, int] = {}
        self.aborted: list[tuple[int, int, int, int]] = []
        self.opened_at: list[dict[int, int]] = []  # open transactions behind each batch
        self.written: dict[int, int] = {}  # producer → its last offset
        self.written_at: list[dict[int, int]] = []  # the same behind each batch
        self.time_ms = BEGIN_MS

    def write(self, count: int) -> None:
        for _ in range(count):
            self._step()
            self.opened_at.append(dict(self.open))
            self.written_at.append(dict(self.written))

    def _step(self) -> None:
        rng = self.rng
        if rng.random() < 0.1:
            epoch = (self.epochs[-1][0] + rng.randint(1, 2), self.offset)
            self.epochs = [*(e for e in self.epochs if e[1] < self.offset), epoch]
        elif self.gaps and rng.random() < 0.2:
            self.offset += rng.randint(1, 5)
        if self.open and rng.random() < 0.4:
            self._end(rng.choice(sorted(self.open)), commit=rng.random() < 0.5)
        else:
            self._data()

    def _end(self, producer_id: int, *, commit: bool) -> None:
        first = self.open.pop(producer_id)
        self.batches.append(control_batch(self.offset, producer_id, commit=commit, leader_epoch=self.epochs[-1][0]))
        if not commit:
            stable = min(self.open.values(), default=self.offset + 1)
            self.aborted.append((producer_id, first, self.offset, stable))
        self.offset += 1

    def _data(self) -> None:
        rng = self.rng
        kind = rng.choice(("plain", "idempotent", "transactional"))
        producer_id = -1 if kind == "plain" else rng.randint(1, 3) + 10 * (kind == "transactional")
        appended = rng.random() < 0.2
        records = tuple(self._record(self.offset + i) for i in range(rng.choice((1, 1, 2, 5))))
        if kind == "transactional":
            self.open.setdefault(producer_id, self.offset)
        highest = max(record.timestamp for record in records)
        self.batches.append(
            Batch(
                records,
                codec=rng.choice(list(Codec)),
                attributes=TRANSACTIONAL * (kind == "transactional") | LOG_APPEND_TIME * appended,
                leader_epoch=self.epochs[-1][0],
                producer_id=producer_id,
                max_timestamp=highest if appended else None,
                xerial=rng.random() < 0.5,
            )
        )
        self.offset += len(records)
        if producer_id >= 0:
            self.written[producer_id] = self.offset - 1

    def _record(self, offset: int) -> Record:
        rng = self.rng
        self.time_ms += rng.randint(-20, 30) * (1000 if self.distinct_times else 1)
        some = (None, b"", b"k", rng.randbytes(rng.choice((3, 40))))
        headers = tuple((f"h{i}", rng.choice(some)) for i in range(rng.choice((0, 0, 0, 2))))
        time_ms = self.time_ms + offset % 1000 if self.distinct_times else self.time_ms
        return Record(offset, time_ms, rng.choice(some), rng.choice(some), headers)


def random_world(
    seed: int | str, *, batches: int = 60, start: int | None = None, gaps: bool = False, distinct_times: bool = False
) -> RemoteLogWorld:
    """
    Return a log with whatever a broker may hold.

    :param seed: decides everything.
    :param batches: how many.
    :param start: first offset; by chance if not given.
    :param gaps: whether offsets are missing, as where a topic was compacted before.
    :param distinct_times: whether no two records have the same timestamp.
    """
    rng = random.Random(f"world {seed}")
    writer = _Writer(
        rng, rng.choice((0, 17, 2**40)) if start is None else start, gaps=gaps, distinct_times=distinct_times
    )
    writer.write(batches)
    cuts = sorted({0, *rng.sample(range(1, batches), min(batches - 1, rng.randint(0, 6))), batches})
    segments = []
    for first, behind in pairwise(cuts):
        end = _first_offset(writer.batches[behind]) - 1 if behind < batches else writer.offset - 1
        segments.append(_segment(writer, first, behind, end, len(segments)))
    epochs = LeaderEpochCheckpoint(tuple(epoch for epoch in writer.epochs if epoch[1] < writer.offset))
    opened = min(writer.open.values(), default=None)
    return RemoteLogWorld(writer.batches, segments, epochs, writer.aborted, opened)


def _segment(writer: _Writer, first: int, behind: int, end: int, number: int) -> SegmentFiles:
    rng, batches = writer.rng, writer.batches[first:behind]
    start = _first_offset(batches[0])
    every = rng.choice((1, 100, 300))
    log = bytearray()
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    newest, since = (-1, start), 0
    for batch in batches:
        data, last = batch.to_bytes(), batch.records[-1].offset
        if since > every:
            offsets.append((last, len(log)))
            if newest[0] > (times[-1][0] if times else -1):
                times.append(newest)
            since = 0
        highest = max(record.timestamp for record in batch.as_read())
        newest = max(newest, (highest, last), key=lambda pair: pair[0])
        log += data
        since += len(data)
    if newest[0] > (times[-1][0] if times else -1):
        times.append(newest)
    written = writer.written_at[behind - 1]
    aborted = [entry for entry in writer.aborted if start <= entry[2] <= end]
    checkpoint = LeaderEpochCheckpoint(tuple(e for e in writer.epochs if e[1] <= end))
    metadata = RemoteLogSegmentMetadata(
        RemoteLogSegmentId(TIP, UUID(int=1000 + number)),
        start,
        end,
        newest[0],
        0,
        number,
        len(log),
        None,
        RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        checkpoint.in_range(start, end + 1).entries,
        not aborted and rng.random() < 0.8,
    )
    indexes = {
        IndexType.OFFSET: offset_index(start, offsets),
        IndexType.TIMESTAMP: time_index(start, times),
        IndexType.PRODUCER_SNAPSHOT: producer_snapshot(
            [(producer, writer.opened_at[behind - 1].get(producer, -1)) for producer in sorted(written)],
            last_offsets=written,
        ),
        IndexType.LEADER_EPOCH: checkpoint.to_text().encode(),
    }
    if aborted:
        indexes[IndexType.TRANSACTION] = transaction_index(aborted)
    return SegmentFiles(metadata, bytes(log), indexes)


def _first_offset(batch: Batch) -> int:
    return batch.records[0].offset


def as_rows(batches: Sequence[object]) -> list[dict[str, object]]:
    """Return the rows of Arrow batches."""
    return [row for batch in batches for row in batch.to_pylist()]  # type: ignore[attr-defined]
