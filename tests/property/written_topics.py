# SPDX-License-Identifier: Apache-2.0
"""A metadata topic as somebody wrote it, record by record; and any values made into one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from airflow_provider_rlmm.core.base.errors import MalformedMetadataError
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    SegmentEvent,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.serde import deserialize
from tests.property.histories import Histories
from tests.property.record_keys import offset_key, segment_key

NOW_MS = 1_800_000_000_000
PARTITION_COUNT = 3


@dataclass(frozen=True, slots=True)
class Record:
    """One record; ``value`` is ``None`` in a tombstone."""

    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int = -1


@dataclass
class WrittenTopic:
    """
    The records of each metadata partition, at offsets from 0 on.

    :param partitions: metadata partition → its records.
    :param beginnings: metadata partition → first offset that is still there.
    """

    partitions: list[list[Record]] = field(default_factory=lambda: [[] for _ in range(PARTITION_COUNT)])
    beginnings: dict[int, int] = field(default_factory=dict)

    @property
    def partition_count(self) -> int:
        return len(self.partitions)

    def begin(self, metadata_partition: int) -> int:
        return self.beginnings.get(metadata_partition, 0)

    def left(self) -> Iterable[tuple[int, int, Record]]:
        """(metadata partition, offset, record) of what is still there."""
        for number, records in enumerate(self.partitions):
            for offset in range(self.begin(number), len(records)):
                yield number, offset, records[offset]

    def log(self) -> InProcessMetadataEventLog:
        log = InProcessMetadataEventLog(self.partition_count, clock=lambda: NOW_MS)
        for number, records in enumerate(self.partitions):
            for record in records:
                log.append(number, record.value, record.key, record.timestamp_ms)
            log.truncate(number, self.begin(number))
        return log


def home_of(value: bytes | None, partition_count: int = PARTITION_COUNT) -> int | None:
    """The metadata partition where a value belongs, ``None`` where it cannot be told."""
    try:
        event = deserialize(value or b"")
    except MalformedMetadataError:
        return None
    if isinstance(event, RemoteLogSegmentMetadataSnapshot):
        return None
    return metadata_partition_for(topic_id_partition_of(event), partition_count)


def spread_out(values: Sequence[bytes | None], random: Random) -> WrittenTopic:
    """Put values where they belong, now and then elsewhere or under a key; sometimes the beginning is lost."""
    topic = WrittenTopic()
    stray, keyed = random.choice([0, 0, 0.02]), random.choice([0, 0.05])
    forgets = Forgets(random, random.choice([0, 0, 0.1]))
    for value in values:
        home = home_of(value)
        if home is None or random.random() < stray:
            home = random.randrange(PARTITION_COUNT)
        key = random.choice([b"", b"key"]) if random.random() < keyed else None
        topic.partitions[home].append(Record(value, key, random.choice([-1, *range(150)])))
        topic.partitions[home] += forgets.after(value)
    lose_beginnings(topic, random)
    return topic


class Forgets:
    """
    Asks the log cleaner to forget segments, finished or not, by a key of either design.

    :param random: decides when, and which ones.
    :param often: share of the events of segments after which one is asked for.
    """

    def __init__(self, random: Random, often: float) -> None:
        self._random = random
        self._often = often
        self._ends: dict[RemoteLogSegmentId, int] = {}
        self._events: list[SegmentEvent] = []

    def after(self, value: bytes | None) -> list[Record]:
        """The records that follow a value."""
        try:
            event = deserialize(value or b"")
        except MalformedMetadataError:
            return []
        if not isinstance(event, SegmentEvent):
            return []
        if isinstance(event, RemoteLogSegmentMetadata):
            self._ends[event.remote_log_segment_id] = event.end_offset
        self._events.append(event)
        if self._random.random() >= self._often:
            return []
        tip, stray = topic_id_partition_of(event), self._random.random() < 0.1
        # A key that strays belongs into another metadata partition, mostly.
        asked = self._random.choice([e for e in self._events if stray or topic_id_partition_of(e) == tip])
        if self._random.random() < 0.5:
            return [Record(None, segment_key(asked))]
        return [Record(None, offset_key(asked, self._ends.get(asked.remote_log_segment_id, 9), 0))]


def lose_beginnings(topic: WrittenTopic, random: Random) -> None:
    for number, records in enumerate(topic.partitions):
        if records and random.random() < 0.2:
            topic.beginnings[number] = random.randrange(len(records) + 1)


def any_events(seed: int) -> WrittenTopic:
    """Event by event: mostly what a leader would write next, sometimes anything."""
    random = Random(seed)
    history = Histories(seed, random.choice([0, 0.02, 0.1, 0.5]))
    return spread_out(history.values(random.choice([5, 40, 150])), random)
