# SPDX-License-Identifier: Apache-2.0
"""
Large metadata topics, made with numpy out of a few templates.

Their bytes come from ``tests.spark.events``, which knows nothing of the package under test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np

from airflow_provider_rlmm.core.world.cluster_state import ListedTopic
from tests.spark.events import UNUSABLE, Segment
from tests.spark.plain_evaluation import COPIED, DELETED, DELETING

Array = Any

NOW, MIN_AGE = 1_800_000_000_000, 259_200_000
SPAN = 1_000
"""Offsets of a segment."""

_MARK = bytes(range(100, 116))
_STATES = (None, COPIED, DELETING, DELETED)


@dataclass(frozen=True)
class LargeTopic:
    """
    :ivar records: per metadata partition its (key, value), in the order of their offsets.
    :ivar listed: the topics that the cluster shows.
    """

    records: list[list[tuple[bytes | None, bytes | None]]]
    listed: tuple[ListedTopic, ...]

    @property
    def size(self) -> int:
        return sum(map(len, self.records))

    def with_offsets(self) -> Iterator[tuple[int, int, bytes | None]]:
        for metadata_partition, values in enumerate(self.records):
            for offset, (_, value) in enumerate(values):
                yield metadata_partition, offset, value

    def until(self, share: float) -> LargeTopic:
        """The topic when it was smaller."""
        return LargeTopic([values[: int(len(values) * share)] for values in self.records], self.listed)


def mixed_topic(records: int, num_partitions: int) -> LargeTopic:
    """Many topics, listed and deleted ones, with records that cannot be applied, that have keys and that lie elsewhere."""
    rng = np.random.default_rng(1)
    segments = int(records / 2.26)
    each = max(segments // 200, 1)
    listed = tuple(
        ListedTopic(
            UUID(int=1_000 + n),
            f"topic-{n}",
            (-1, 5_000_000)[n % 2],
            (-1, each * 400, each * 700)[n % 3],
            dict.fromkeys(range(5), n % 4 * each // 20 * SPAN),
        )
        for n in range(30)
    )
    dead = [(UUID(int=2_000 + n).bytes, f"deleted-{n}") for n in range(10)]
    names = [*((topic.topic_id.bytes, topic.name) for topic in listed), *dead]
    made = _Maker(rng, num_partitions)
    for number, (topic_id, name) in enumerate(names):
        share = segments * (number + 1) // len(names) - segments * number // len(names)
        for partition in range(5):
            # A copy under way ends the walk; where all are abandoned it goes on.
            made.add(topic_id, name, partition, share // 5, abandoned=partition % 2 == 0)
    made.spoil()
    return LargeTopic(made.records(), listed)


def skewed_topic(segments: int, num_partitions: int) -> LargeTopic:
    """One user partition that has almost all segments, beside some small ones."""
    rng = np.random.default_rng(2)
    large = ListedTopic(UUID(int=3_000), "large", -1, segments * 400, {0: segments * SPAN // 10})
    small = ListedTopic(UUID(int=3_001), "small", 5_000_000, -1, {})
    made = _Maker(rng, num_partitions)
    made.add(large.topic_id.bytes, large.name, 0, segments, abandoned=True)
    for partition in range(20):
        made.add(small.topic_id.bytes, small.name, partition, max(segments // 2_000, 3))
    return LargeTopic(made.records(), (large, small))


class _Maker:
    """Collects values, each with its metadata partition and a place between 0 and 1."""

    def __init__(self, rng: Any, num_partitions: int) -> None:
        self._rng, self._partitions = rng, num_partitions
        self._values: list[list[tuple[bytes | None, bytes | None]]] = [[] for _ in range(num_partitions)]
        self._places: list[list[Array]] = [[] for _ in range(num_partitions)]

    def add(self, topic_id: bytes, topic: str, partition: int, segments: int, *, abandoned: bool = False) -> None:
        """Add the events of the segments of a user partition, in any order but each segment's own."""
        rng, numbers = self._rng, self._rng.permutation(segments)
        template = Segment(topic_id, topic, partition, _MARK)
        home = template.metadata_partition(self._partitions)
        ids = np.frombuffer(rng.bytes(16 * segments), np.uint8).reshape(-1, 16)
        old = np.where(rng.random(segments) < 0.5, 2 * MIN_AGE, 1_000)
        begun = rng.random(segments)
        last_step = rng.choice(4, segments, p=(0.15, 0.55, 0.1, 0.2))
        if abandoned:
            old[last_step == 0] = 2 * MIN_AGE
        for step, state in enumerate(_STATES):
            some = np.flatnonzero(last_step >= step)
            event_ms = NOW - old[some] + step
            value = template.add(0) if state is None else template.update(0, state)
            block = np.tile(np.frombuffer(value, np.uint8), (some.size, 1))
            at = value.index(_MARK)
            block[:, at : at + 16] = ids[some]
            at += 17
            if state is None:
                start = numbers[some] * SPAN
                for place, column, width in (
                    (at, start, 8),
                    (at + 8, start + SPAN - 1, 8),
                    (at + 20, NOW - rng.integers(0, 10_000_000, some.size), 8),
                    (at + 28, event_ms, 8),
                    (at + 41, start, 8),
                    (at + 50, rng.integers(500, 1_500, some.size), 4),
                ):
                    block[:, place : place + width] = column.astype(f">i{width}").view(np.uint8).reshape(-1, width)
            else:
                block[:, at + 4 : at + 12] = event_ms.astype(">i8").view(np.uint8).reshape(-1, 8)
            self._take(home, block, begun[some] + step * 0.01)

    def _take(self, home: int, block: Array, places: Array) -> None:
        data, width = block.tobytes(), block.shape[1]
        self._values[home] += [(None, data[n : n + width]) for n in range(0, len(data), width)]
        self._places[home].append(places)

    def spoil(self) -> None:
        """Give some records keys, put some into the wrong metadata partition, and add some that nobody can apply."""
        rng = self._rng
        for home, values in enumerate(self._values):
            places = np.concatenate(self._places[home]) if values else np.empty(0)
            for n in rng.choice(len(values), len(values) // 200, replace=False).tolist():
                values[n] = (b"a key", values[n][1])
            # Only into every other metadata partition: beside what cannot be applied nothing is exact.
            if home % 2:
                moved = rng.choice(len(values), len(values) // 500, replace=False).tolist()
                other = (home + 1) % self._partitions
                self._values[other] += [values[n] for n in moved]
                self._places[other].append(places[moved])
                kept = np.delete(np.arange(len(values)), moved)
                self._values[home] = [values[n] for n in kept.tolist()]
                self._places[home] = [places[kept]]
            else:
                bad = [UNUSABLE[n % len(UNUSABLE)] for n in range(len(values) // 1_000 + 1)]
                self._values[home] = [*values, *((None, value) for value in bad)]
                self._places[home] = [places, rng.random(len(bad))]

    def records(self) -> list[list[tuple[bytes | None, bytes | None]]]:
        found = []
        for values, places in zip(self._values, self._places, strict=True):
            order = np.argsort(np.concatenate(places), kind="stable").tolist() if values else []
            found.append([values[n] for n in order])
        return found
