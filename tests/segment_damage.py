# SPDX-License-Identifier: Apache-2.0
"""Damage that is planted in the contents of segments, and which of it nothing in the world could tell."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from airflow_provider_rlmm.core.base.errors import DamagedObjectError
from airflow_provider_rlmm.core.segments.indexes.offset_index import OffsetIndex
from airflow_provider_rlmm.core.segments.indexes.producer_snapshot import ProducerSnapshot
from airflow_provider_rlmm.core.segments.indexes.time_index import TimeIndex
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.segments.proof.fields import SegmentFields, Surroundings
from airflow_provider_rlmm.core.segments.proof.proving import SegmentProof, prove_segment
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders
from airflow_provider_rlmm.core.storage.index_type import IndexType
from tests.remote_log_world import RemoteLogWorld, SegmentFiles

Part = IndexType | None
"""Which index; ``None`` for the log."""


@dataclass
class Contents:
    """The bytes of one segment, as a :class:`~airflow_provider_rlmm.core.segments.proof.fields.SegmentSource`."""

    content: bytes
    indexes: dict[IndexType, bytes]
    asked: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def of(cls, segment: SegmentFiles) -> Contents:
        return cls(segment.log, dict(segment.indexes))

    def log(self, start: int, end: int) -> bytes:
        self.asked.append((start, end))
        return self.content[start:end]

    def index(self, index_type: IndexType) -> bytes | None:
        return self.indexes.get(index_type)

    def part(self, part: Part) -> bytes:
        return self.content if part is None else self.indexes.get(part, b"")

    def with_part(self, part: Part, data: bytes) -> Contents:
        if part is None:
            return Contents(data, dict(self.indexes))
        return Contents(self.content, {**self.indexes, part: data})


def surroundings(world: RemoteLogWorld, number: int, *, alone: bool = False) -> Surroundings:
    """What the metadata and the segment before tell of a segment; ``alone`` leaves out the segment before."""
    metadata = world.segments[number].metadata
    lineage = world.lineage.in_range(world.start, metadata.end_offset + 1).entries
    if alone:
        return Surroundings()
    before = ProducerSnapshot(())
    if number:
        data = world.segments[number - 1].indexes[IndexType.PRODUCER_SNAPSHOT]
        before = ProducerSnapshot.parse(data, location="before")
    return Surroundings(lineage=lineage, producers_before=before)


def proof_of(
    world: RemoteLogWorld,
    number: int,
    contents: Contents | None = None,
    *,
    chunk_bytes: int = 1 << 20,
    alone: bool = False,
) -> SegmentProof:
    """Prove a segment of a world, with its own contents unless others are given."""
    segment = world.segments[number]
    around = surroundings(world, number, alone=alone)
    return prove_segment(
        SegmentFields.of(segment.metadata), contents or Contents.of(segment), around, chunk_bytes=chunk_bytes
    )


def flipped(data: bytes, bit: int) -> bytes:
    """Return some bytes with one bit changed."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def headers_of(log: bytes) -> BatchHeaders:
    """The headers of all batches of a log."""
    return BatchHeaders.find(log, location="", position=0)[0]


def cannot_be_told(segment: SegmentFiles, part: Part, changed: bytes) -> bool:
    """
    Whether a flipped bit leaves what a broker may have written of exactly this log: nothing covers it.

    Three places are such, each of them harmless: docs/contents.md says why.
    """
    if part is IndexType.OFFSET:
        return _is_true_offset_index(segment, changed)
    if part is IndexType.TIMESTAMP:
        return _is_true_time_index(segment, changed)
    return part is IndexType.LEADER_EPOCH and _begins_elsewhere(segment, changed)


def _is_true_offset_index(segment: SegmentFiles, changed: bytes) -> bool:
    """An entry names the last offset of another batch between its position and the next entry's."""
    start = segment.metadata.start_offset
    before = OffsetIndex.parse(segment.indexes[IndexType.OFFSET], base_offset=start, location="")
    try:
        after = OffsetIndex.parse(changed, base_offset=start, location="")
    except DamagedObjectError:
        return False
    if before.position.tolist() != after.position.tolist():
        return False
    headers = headers_of(segment.log)
    batches = list(zip(headers.position.tolist(), headers.last_offset.tolist(), strict=True))
    positions = [*after.position.tolist(), len(segment.log)]
    return all(
        any(at <= place < positions[row + 1] and last == start + offset for place, last in batches)
        for row, (at, offset) in enumerate(zip(positions[:-1], after.relative_offset.tolist(), strict=True))
    )


def _is_true_time_index(segment: SegmentFiles, changed: bytes) -> bool:
    """An entry names another offset of the same batch."""
    start = segment.metadata.start_offset
    before = TimeIndex.parse(segment.indexes[IndexType.TIMESTAMP], base_offset=start, location="")
    try:
        after = TimeIndex.parse(changed, base_offset=start, location="")
    except DamagedObjectError:
        return False
    if before.timestamp_ms.tolist() != after.timestamp_ms.tolist():
        return False
    headers = headers_of(segment.log)
    ranges = list(zip(headers.base_offset.tolist(), headers.last_offset.tolist(), strict=True))

    def batch(offset: int) -> int | None:
        return next((row for row, (first, last) in enumerate(ranges) if first <= start + offset <= last), None)

    return [batch(o) for o in before.relative_offset.tolist()] == [batch(o) for o in after.relative_offset.tolist()]


def _begins_elsewhere(segment: SegmentFiles, changed: bytes) -> bool:
    """The log of the checkpoint begins at another offset, still not behind the segment's first one."""
    before = LeaderEpochCheckpoint.parse(segment.indexes[IndexType.LEADER_EPOCH], location="").entries
    try:
        after = LeaderEpochCheckpoint.parse(changed, location="").entries
    except DamagedObjectError:
        return False
    return (
        after[1:] == before[1:]
        and after[0][0] == before[0][0]
        and after[0][1] <= segment.metadata.segment_leader_epochs[0][1]
    )


class Planter:
    """
    Plants damage in one segment of a world, of kinds that can always be told.

    :param rng: decides.
    :param world: the world.
    :param number: of the segment.
    """

    def __init__(self, rng: random.Random, world: RemoteLogWorld, number: int) -> None:
        self._rng = rng
        self._segment = segment = world.segments[number]
        self._others = [other for other in world.segments if other is not segment]
        self._ends = [*headers_of(segment.log).position.tolist(), len(segment.log)]
        self._row = rng.randrange(len(self._ends) - 1)

    def plant(self) -> tuple[str, Contents]:
        """Return the name of some damage, and the contents with it."""
        kinds = [
            self.flipped_log,
            self.cut_log,
            self.longer_log,
            self.doubled_batch,
            self.lost_batch,
            self.another_epoch,
        ]
        kinds += [self.missing_index, self.cut_index, self.flipped_snapshot]
        if len(self._ends) > 2:
            kinds.append(self.swapped_batches)
        if self._others:
            kinds += [self.swapped_log, self.swapped_index]
        while True:
            kind = self._rng.choice(kinds)
            found = kind()
            # Of another segment, or in another order, it may be the same.
            if (found.content, found.indexes) != (self._segment.log, self._segment.indexes):
                return kind.__name__, found

    def flipped_log(self) -> Contents:
        return self._with(None, flipped(self._segment.log, self._rng.randrange(len(self._segment.log) * 8)))

    def cut_log(self) -> Contents:
        return self._with(None, self._segment.log[: self._rng.randrange(len(self._segment.log))])

    def longer_log(self) -> Contents:
        return self._with(None, self._segment.log + self._rng.choice((b"\0", self._batch)))

    def lost_batch(self) -> Contents:
        return self._with(None, self._before + self._behind)

    def doubled_batch(self) -> Contents:
        return self._with(None, self._before + self._batch + self._batch + self._behind)

    def swapped_batches(self) -> Contents:
        log, row = self._segment.log, self._rng.randrange(len(self._ends) - 2)
        first, second, behind = self._ends[row : row + 3]
        return self._with(None, log[:first] + log[second:behind] + log[first:second] + log[behind:])

    def another_epoch(self) -> Contents:
        epoch = int.from_bytes(self._batch[12:16]) + self._rng.choice((1, 2, 1000))
        changed = self._batch[:12] + epoch.to_bytes(4) + self._batch[16:]
        return self._with(None, self._before + changed + self._behind)

    def missing_index(self) -> Contents:
        part = self._rng.choice([part for part in self._segment.indexes if part is not IndexType.TRANSACTION])
        return Contents(self._segment.log, {t: d for t, d in self._segment.indexes.items() if t is not part})

    def cut_index(self) -> Contents:
        part = self._rng.choice([part for part, data in self._segment.indexes.items() if data])
        data = self._segment.indexes[part]
        # Of whole entries of an offset index nothing says how many there were: docs/contents.md.
        sizes = [size for size in range(len(data)) if size % 8 or part is not IndexType.OFFSET]
        return self._with(part, data[: self._rng.choice(sizes)])

    def flipped_snapshot(self) -> Contents:
        data = self._segment.indexes[IndexType.PRODUCER_SNAPSHOT]
        return self._with(IndexType.PRODUCER_SNAPSHOT, flipped(data, self._rng.randrange(len(data) * 8)))

    def swapped_log(self) -> Contents:
        return self._with(None, self._rng.choice(self._others).log)

    def swapped_index(self) -> Contents:
        part = self._rng.choice([IndexType.TIMESTAMP, IndexType.LEADER_EPOCH])
        return self._with(part, self._rng.choice(self._others).indexes[part])

    @property
    def _batch(self) -> bytes:
        return self._segment.log[self._ends[self._row] : self._ends[self._row + 1]]

    @property
    def _before(self) -> bytes:
        return self._segment.log[: self._ends[self._row]]

    @property
    def _behind(self) -> bytes:
        return self._segment.log[self._ends[self._row + 1] :]

    def _with(self, part: Part, data: bytes) -> Contents:
        return Contents.of(self._segment).with_part(part, data)
