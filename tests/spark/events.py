# SPDX-License-Identifier: Apache-2.0
"""Bytes of metadata records, and random histories of a metadata topic, made without the package under test."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tests.spark.plain_evaluation import COPIED, COPYING, DELETED, DELETING, Event, Record, home_of


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@dataclass(frozen=True)
class Segment:
    topic_id: bytes
    topic: str
    partition: int
    segment_id: bytes
    start_offset: int = 0
    end_offset: int = 9
    max_timestamp_ms: int = 0
    size: int = 100

    def metadata_partition(self, num_partitions: int) -> int:
        return home_of(Event(self.topic_id, self.topic, self.partition, self.segment_id, 0, COPYING), num_partitions)

    def _topic_id_partition(self) -> bytes:
        name = self.topic.encode()
        return uvarint(len(name) + 1) + name + self.topic_id + struct.pack(">i", self.partition) + b"\0"

    def add(self, event_ms: int, state: int = COPYING, custom: bytes | None = None) -> bytes:
        return b"".join(
            (
                b"\1\0\0",
                self._topic_id_partition(),
                self.segment_id,
                b"\0",
                struct.pack(">qqiqq", self.start_offset, self.end_offset, 1, self.max_timestamp_ms, event_ms),
                uvarint(2),
                struct.pack(">iq", 0, self.start_offset),
                b"\0",
                struct.pack(">i", self.size),
                b"\0" if custom is None else uvarint(len(custom) + 1) + custom,
                struct.pack(">b", state),
                b"\0",
            )
        )

    def update(self, event_ms: int, state: int, custom: bytes | None = None) -> bytes:
        return b"".join(
            (
                b"\1\1\0",
                self._topic_id_partition(),
                self.segment_id,
                b"\0",
                struct.pack(">iq", 1, event_ms),
                b"\0" if custom is None else uvarint(len(custom) + 1) + custom,
                struct.pack(">b", state),
                b"\0",
            )
        )

    def partition_delete(self, event_ms: int, state: int) -> bytes:
        return b"\1\2\0" + self._topic_id_partition() + struct.pack(">iqb", -1, event_ms, state) + b"\0"


UNUSABLE: tuple[bytes | None, ...] = (None, b"", b"\1", b"\0\0\0", b"\1\7\0", b"garbage", b"\1\0\1" + bytes(80))


class Topic:
    """A metadata topic that is being written, record by record."""

    def __init__(self, num_partitions: int) -> None:
        self.num_partitions = num_partitions
        self.records: list[Record] = []
        self._next = [0] * num_partitions

    def put(self, metadata_partition: int, value: bytes | None) -> None:
        self.records.append((metadata_partition, self._next[metadata_partition], value))
        self._next[metadata_partition] += 1

    def put_home(self, segment: Segment, *values: bytes) -> None:
        for value in values:
            self.put(segment.metadata_partition(self.num_partitions), value)


def random_topic(
    seed: int, topic_ids: list[tuple[bytes, str]], now_ms: int, min_age_ms: int, segments: int, num_partitions: int
) -> Topic:
    """
    Return a topic whose segments went through valid, repeated, invalid, reordered and missing events.

    Event times, record times and sizes lie on both sides of every limit that a test is likely to set.
    """
    rng = random.Random(seed)
    topic = Topic(num_partitions)
    running: list[tuple[Segment, Iterator[bytes]]] = []
    for number in range(segments):
        topic_id, name = rng.choice(topic_ids)
        start = rng.randrange(40) * 10
        segment = Segment(
            topic_id,
            name,
            rng.randrange(3),
            rng.randbytes(16),
            start,
            start + rng.choice((0, 9, 9, 25)),
            now_ms - rng.choice((0, 1_000, 5_000, 50_000)),
            rng.choice((0, 10, 100, 1_000)),
        )
        running.append((segment, _life(rng, segment, now_ms, min_age_ms)))
        if number % 97 == 0:
            topic.put(rng.randrange(num_partitions), rng.choice(UNUSABLE))
    while running:
        index = rng.randrange(len(running))
        segment, life = running[index]
        value = next(life, None)
        if value is None:
            running[index] = running[-1]
            running.pop()
        else:
            home = segment.metadata_partition(num_partitions)
            misrouted = rng.random() < 0.005
            topic.put((home + 1) % num_partitions if misrouted else home, value)
    return topic


def _life(rng: random.Random, segment: Segment, now_ms: int, min_age_ms: int) -> Iterator[bytes]:
    def event(state: int) -> bytes:
        event_ms = now_ms - min_age_ms + rng.choice((-2_000, -1, 0, 1, min_age_ms - 500, min_age_ms - 1))
        custom = rng.choice((None, b"", b"custom"))
        return segment.add(event_ms, custom=custom) if state == COPYING else segment.update(event_ms, state, custom)

    if rng.random() < 0.7:
        regular = [COPYING, *([COPIED] if rng.random() < 0.9 else []), DELETING, DELETED]
        length = rng.choice((1, 2, 2, 2, 3, 4))
        for state in regular[:length]:
            yield from [event(state)] * rng.choice((1, 1, 1, 2))
    else:
        for _ in range(rng.randrange(1, 9)):
            yield rng.choice(
                (
                    *(event(state) for state in (COPYING, COPYING, COPIED, DELETING, DELETED)),
                    *(
                        [segment.add(now_ms, state=COPIED), segment.update(now_ms, COPYING)]
                        if rng.random() < 0.1
                        else []
                    ),
                    segment.partition_delete(now_ms, rng.randrange(3)),
                )
            )
