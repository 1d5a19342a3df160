# SPDX-License-Identifier: Apache-2.0
"""Random records of a metadata topic of several partitions, each where it belongs, but for a few."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import MalformedMetadataError
from airflow_provider_rlmm.core.records.columnar import ColumnarState, decode
from airflow_provider_rlmm.core.records.keys import OffsetKey, SegmentKey
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadataSnapshot, topic_id_partition_of
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from tests.property.histories import PARTITIONS, Histories

MISROUTED = 0.03


@dataclass(frozen=True)
class Routed:
    """A record, and where it lies."""

    metadata_partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def routed(history: Histories, size: int, partitions: int, *, keyed: bool) -> list[Routed]:
    """Return records of a topic of so many metadata partitions, in the order in which they were written."""
    found, ends = [], Counter()
    for value in history.values(size):
        key = _key(history.random) if keyed else None
        place = _place(history.random, key, value, partitions)
        ends[place] += history.random.choice([1, 1, 1, 5])  # some offsets hold no record
        timestamp_ms = history.random.choice([-1, *range(150)])
        found.append(Routed(place, ends[place], timestamp_ms, key, value))
    return found


def _key(random: random.Random) -> bytes | None:
    """Return a key that hardly ever names what the value names, and some segment where there is no value."""
    tip, number = random.choice(PARTITIONS), random.randint(1, 20)
    segment_id = UUID(int=number << (64 if number % 2 else 0))
    keys = (
        SegmentKey(tip.topic_id, tip.partition, segment_id, random.choice(list(RemoteLogSegmentState))),
        OffsetKey(tip.topic_id, tip.topic, tip.partition, random.randrange(60), 0, is_update=True),
    )
    return random.choice([None, None, None, b"key", *map(bytes, keys)])


def _place(random: random.Random, key: bytes | None, value: bytes | None, partitions: int) -> int:
    event = None
    if random.random() >= MISROUTED and value:
        try:
            event = deserialize(value)
        except MalformedMetadataError:
            event = None
    if event is None or isinstance(event, RemoteLogSegmentMetadataSnapshot):
        return random.randrange(partitions)
    return metadata_partition_for(topic_id_partition_of(event), partitions)


def batches(random: random.Random, records: list[Routed], partitions: int, largest: int):
    """Yield the records as decoded batches of random sizes."""
    at = 0
    while at < len(records):
        some = records[at : at + random.randint(1, largest)]
        yield decode(
            [record.value for record in some],
            keys=[record.key for record in some],
            metadata_partition=[record.metadata_partition for record in some],
            offset=[record.offset for record in some],
            timestamp_ms=[record.timestamp_ms for record in some],
            num_partitions=partitions,
        )
        at += len(some)


def folded(batches, *, keep_finished: bool) -> ColumnarState:
    """Return the state after some batches."""
    state = ColumnarState.empty(keep_finished=keep_finished)
    for batch in batches:
        state, _ = state.apply(batch)
    return state
