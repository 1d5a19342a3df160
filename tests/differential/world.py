# SPDX-License-Identifier: Apache-2.0
"""Random values of a metadata topic: few partitions, segments, epochs and offsets, so that events collide."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import MalformedMetadataError
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.serde import deserialize, serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState

EVENTS_PER_ROUND = 2500
MAX_OFFSET = 2**63 - 1
EDGES = (0, 1, 2**31 - 1, 2**31, MAX_OFFSET - 1, MAX_OFFSET)
"""Offsets that code could take for "none", or overflow at."""
BEYOND = (-(2**63), -(2**63) + 1, -1)
"""Nothing checks where leader epochs begin, and Java's arithmetic wraps around."""
PROBES = 12

Probe = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Batch:
    """
    Some values of the topic in a row, and what to ask then.

    :param values: ``None`` is a tombstone.
    :param keys: of the records; brokers look at none.
    :param probes: leader epochs and offsets.
    """

    values: list[bytes | None]
    keys: list[bytes | None]
    probes: list[Probe]


class World:
    """
    A topic in the making.

    :param seed: decides everything.
    :param crowded: one user partition with few segments and fewer offsets, many of them at an edge. After many events
        there every epoch has ended at the largest offset and tells nothing more: make it short.
    """

    def __init__(self, seed: str, *, crowded: bool = False) -> None:
        self._rng = rng = random.Random(seed)
        names = ["orders", "a", "päd.agoge_ü-✓", "x" * 249]
        ids = [UUID(int=rng.getrandbits(128)) for _ in range(3)]
        # An id under two names, a name under two ids, a name with partitions: each is a partition of its own.
        every = [TopicIdPartition(topic_id, name, p) for topic_id in ids for name in names for p in (0, 1, 2**31 - 1)]
        self._partitions = rng.sample(every, rng.randint(1, 4))
        self._ids = [UUID(int=rng.getrandbits(128)) for _ in range(rng.choice((2, 5, 20)))]
        self._epochs = rng.choice(((0,), (0, 1), (3, 4, 5, 9), (-1, 0, 2**31 - 1, -(2**31))))
        self._offset_range = rng.choice((4, 30, 300))
        # How often an offset lies at an edge, a range was copied before, and epochs begin anywhere.
        self._at_edge, self._copied_again = rng.choice((0.01, 0.3, 0.8)), rng.choice((0, 0.4))
        self._anywhere = rng.choice((0.1, 0.1, 0.6))
        self._edges: Sequence[int] = EDGES
        self._ranges: list[tuple[int, int, tuple[tuple[int, int], ...]]] = []
        self._sent: list[bytes] = []
        self._states: dict[RemoteLogSegmentId, S] = {}
        weights: dict[Callable[[], bytes | None], float] = {
            self._step: 60,
            self._any_update: 12,
            self._add: 20,
            self._repeat: 4,
            self._malformed: rng.choice((0, 1, 4)),
            self._partition_delete: rng.choice((0, 1, 5)),
            self._odd_encoding: 2,
            self._wrong_first_event: 1,
            self._snapshot: 0.5,
            self._tombstone: 0.5,
        }
        if crowded:
            self._partitions, self._ids = self._partitions[:1], self._ids[: rng.randint(2, 4)]
            self._edges = [MAX_OFFSET, *rng.sample((*EDGES, 9, 10, 19), rng.randint(1, 3))]
            self._at_edge, self._anywhere, self._epochs = 1, 0.5, (0, 1, 2)
            weights = {self._step: 90, self._any_update: 5, self._add: 5}
        self._kinds: list[Callable[[], bytes | None]] = list(weights)
        self._weights = list(weights.values())

    def batch(self, size: int) -> Batch:
        """
        Go on with the topic.

        :param size: number of values.
        """
        rng = self._rng
        values: list[bytes | None] = []
        for make in rng.choices(self._kinds, self._weights, k=size):
            value = make()
            values.append(value)
            if value is not None:
                self._sent.append(value)
        keys = [rng.randbytes(rng.randint(0, 4)) if rng.random() < 0.02 else None for _ in values]
        return Batch(values, keys, [(rng.choice((*self._epochs, 7)), self._probed_offset()) for _ in range(PROBES)])

    def _probed_offset(self) -> int:
        return self._rng.choice(EDGES) if self._rng.random() < 0.2 else self._offset()

    def _offset(self) -> int:
        if self._rng.random() < self._at_edge:
            return self._rng.choice(self._edges)
        return self._rng.randrange(self._offset_range)

    def _segment_id(self) -> RemoteLogSegmentId:
        return RemoteLogSegmentId(self._rng.choice(self._partitions), self._rng.choice(self._ids))

    def _custom_metadata(self) -> bytes | None:
        return self._rng.choice((None, None, b"", b"m", self._rng.randbytes(130)))

    def _segment(self, segment_id: RemoteLogSegmentId, state: S = S.COPY_SEGMENT_STARTED) -> RemoteLogSegmentMetadata:
        rng = self._rng
        again = self._ranges and rng.random() < self._copied_again
        start, end, epochs = rng.choice(self._ranges[-20:]) if again else self._range()
        self._ranges.append((start, end, epochs))
        return RemoteLogSegmentMetadata(
            segment_id, start, end, self._int64(), self._int32(), self._int64(), self._int32(), self._custom_metadata(),
            state, epochs, rng.random() < 0.5,
        )  # fmt: skip

    def _range(self) -> tuple[int, int, tuple[tuple[int, int], ...]]:
        rng = self._rng
        start, end = sorted((self._offset(), self._offset()))
        epochs = sorted(rng.sample(self._epochs, rng.randint(1, min(3, len(self._epochs)))))
        # Mostly as a log has them, epoch after epoch; Kafka's classes check none of it.
        starts = [start, *sorted(rng.randint(start, end) for _ in epochs[1:])]
        if rng.random() < self._anywhere:
            starts = [rng.choice((self._offset(), self._offset(), self._offset() - 1, *BEYOND)) for _ in epochs]
        return start, end, tuple(zip(epochs, starts, strict=True))

    def _int64(self) -> int:
        return self._rng.choice((-1, 0, 1_750_000_000_000, -(2**63), MAX_OFFSET))

    def _int32(self) -> int:
        return self._rng.choice((-1, 0, 1, 2**31 - 1, -(2**31)))

    def _update(self, segment_id: RemoteLogSegmentId, state: S) -> bytes:
        self._states[segment_id] = state
        return serialize(
            RemoteLogSegmentMetadataUpdate(segment_id, self._int64(), self._custom_metadata(), state, self._int32())
        )

    # -- kinds of values -------------------------------------------------------------------------------------------

    def _add(self) -> bytes:
        segment_id = self._segment_id()
        self._states.setdefault(segment_id, S.COPY_SEGMENT_STARTED)
        return serialize(self._segment(segment_id))

    def _step(self) -> bytes:
        """The next thing in the life of a segment, as far as the states are followed here."""
        segment_id = self._segment_id()
        state = self._states.get(segment_id, S.DELETE_SEGMENT_FINISHED)
        if state is S.DELETE_SEGMENT_FINISHED:
            self._states[segment_id] = S.COPY_SEGMENT_STARTED
            return serialize(self._segment(segment_id))
        if state is S.COPY_SEGMENT_STARTED and self._rng.random() < 0.8:
            return self._update(segment_id, S.COPY_SEGMENT_FINISHED)
        if state is S.DELETE_SEGMENT_STARTED:
            return self._update(segment_id, S.DELETE_SEGMENT_FINISHED)
        return self._update(segment_id, S.DELETE_SEGMENT_STARTED)

    def _any_update(self) -> bytes:
        segment_id = self._segment_id()
        if self._rng.random() < 0.1:
            segment_id = replace(segment_id, id=UUID(int=self._rng.getrandbits(128)))
        return self._update(segment_id, self._rng.choice(list(S)))

    def _repeat(self) -> bytes:
        return self._rng.choice(self._sent[-300:]) if self._sent else self._add()

    def _partition_delete(self) -> bytes:
        state = self._rng.choice(list(RemotePartitionDeleteState))
        return serialize(
            RemotePartitionDeleteMetadata(self._rng.choice(self._partitions), state, self._int64(), self._int32())
        )

    def _wrong_first_event(self) -> bytes:
        return serialize(self._segment(self._segment_id(), self._rng.choice(list(S)[1:])))

    def _snapshot(self) -> bytes:
        segment = self._segment(self._segment_id(), self._rng.choice(list(S)))
        return serialize(
            RemoteLogSegmentMetadataSnapshot(
                segment.remote_log_segment_id.id, segment.start_offset, segment.end_offset, segment.max_timestamp_ms,
                segment.broker_id, segment.event_timestamp_ms, segment.segment_size_in_bytes, segment.custom_metadata,
                segment.state, segment.segment_leader_epochs, segment.txn_idx_empty,
            )
        )  # fmt: skip

    def _tombstone(self) -> None:
        return None

    def _odd_encoding(self) -> bytes:
        """What Kafka reads although it would not write it so."""
        rng = self._rng
        kind = rng.randrange(3)
        if kind == 0:
            # An unknown tagged field behind the last one.
            return self._update(self._segment_id(), rng.choice(list(S)))[:-1] + b"\x01\x09\x02ab"
        segment = self._segment(self._segment_id())
        value = serialize(segment)
        if kind == 1:
            # The api key in two bytes.
            return value[:1] + b"\x80\x00" + value[2:]
        # A leader epoch named twice: the last one counts.
        (first, _), (last, start) = segment.segment_leader_epochs[0], segment.segment_leader_epochs[-1]
        return value.replace(struct.pack(">iq", last, start), struct.pack(">iq", first, start), 1)

    def _malformed(self) -> bytes:
        """Bytes that are no longer what they were, among them some that are good by chance."""
        rng = self._rng
        value = bytearray(self._repeat())
        kind = rng.randrange(6)
        if kind == 0:
            value = value[: rng.randrange(len(value) + 1)]
        elif kind == 1:
            value += rng.randbytes(rng.randint(1, 3))
        elif kind == 2:
            value[:3] = bytes(rng.choice((0, 1, 2, 3, 4, 127, 128, 255)) for _ in range(3))
        elif kind == 3:
            value = bytearray(rng.randbytes(rng.randrange(60)))
        elif value:
            for _ in range(rng.randint(1, 3)):
                value[rng.randrange(len(value))] = rng.randrange(256)
        return bytes(value) if is_comparable(bytes(value)) else self._repeat()


def is_comparable(value: bytes) -> bool:
    """A topic that is not UTF-8 is refused here, while Java makes another name of it; that difference is meant."""
    try:
        deserialize(value)
    except MalformedMetadataError as e:
        return "not UTF-8" not in str(e)
    return True
