# SPDX-License-Identifier: Apache-2.0
"""
A metadata topic such as brokers write it, in any size, as one file that both sides of a benchmark read.

The values of one topic name and one kind differ in bytes at fixed places only, so they are made as rows of a matrix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from airflow_provider_rlmm.core.base.clock import DAY_MS
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState

Array = Any

ADD, UPDATE = 0, 1
MARKED_AT = 0.95
"""When the markers were written, in the time of the workload."""
EVENTS_PER_SEGMENT = 10 / 3
"""Two thirds of the segments have been deleted (4 events), the others are live (2 events)."""
IRREGULAR = 0.01
SPAN = 25_000
FIRST_EVENT_MS = 1_750_000_000_000
SPAN_MS = 30 * DAY_MS
"""In which all events but the markers are written."""
CUSTOM_METADATA_BYTES = 44

_DOMAINS = ("payments", "orders", "clickstream", "inventory", "shipping", "fraud", "search", "telemetry")
_STREAMS = ("events", "transactions.v2", "changelog", "audit-log", "enriched", "dlq", "customer-profile-updates")
_MARK = UUID(bytes=b"\xa5" * 16)


@dataclass(frozen=True, slots=True)
class Workload:
    """
    :param values: binary Arrow array, in the order of the topic; ``large_binary`` from 2 GiB on.
    :param metadata_partitions: where each value belongs.
    :param mix: number of values of each kind.
    """

    values: Array
    metadata_partitions: Array
    mix: Counter[str]

    @property
    def said(self) -> str:
        """The mix in words."""
        return ", ".join(f"{count:,} {name}" for name, count in self.mix.items())


def write(path: Path, values: Array) -> None:
    """
    Write values as their number, their lengths (int32, big-endian both) and their bytes.

    :param path: the file.
    :param values: a binary array that begins at offset 0.
    :raises ValueError: for 2 GiB of values or more.
    """
    if values.type != pa.binary():
        raise ValueError("more than 2 GiB of values: make fewer")
    offsets = np.frombuffer(values.buffers()[1], np.int32)[: len(values) + 1]
    with path.open("wb") as file:
        file.write(len(values).to_bytes(4, "big"))
        file.write(np.diff(offsets).astype(">i4").tobytes())
        file.write(values.buffers()[2])


def read(path: Path) -> Array:
    """
    Read what :func:`write` has written.

    :param path: the file.
    """
    data = path.read_bytes()
    count = int.from_bytes(data[:4], "big")
    lengths = np.frombuffer(data, ">i4", count, 4)
    return _binary_array(lengths, np.frombuffer(data, np.uint8, offset=4 + 4 * count))


def topics_of(seed: int = 405) -> dict[str, int]:
    """
    Return the topics of a workload, name → number of user partitions.

    :param seed: of the workload.
    """
    return dict(Counter(tip.topic for tip in _tips(np.random.default_rng(seed))))


def generate(
    size: int,
    *,
    seed: int = 405,
    metadata_partitions: int = 5,
    topic_ids: Mapping[str, UUID] | None = None,
    marked: Collection[str] | None = None,
) -> Workload:
    """
    Make a workload.

    :param size: about how many values.
    :param seed: decides everything.
    :param metadata_partitions: number of partitions of the metadata topic.
    :param topic_ids: ids of topics that exist, by name; the others get some.
    :param marked: topics of which every user partition is marked for deletion, and no other one; ``None`` draws some user
        partitions, which are in all stages of their deletion.
    """
    rng = np.random.default_rng(seed)
    segments = _segments(rng, max(30, round(size / EVENTS_PER_SEGMENT)), topic_ids or {})
    if marked is not None:
        # Nothing is said of them after their markers.
        segments.share[_of_topics(segments, marked)] *= MARKED_AT - 0.05
    events, irregular = _events(rng, segments, marked or ())
    deletions = _partition_deletes(rng, segments) if marked is None else _markers(segments, marked)
    order = np.argsort(np.concatenate([events.time, deletions.time]), kind="stable")
    # Where each event comes to lie.
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    values = _values(rng, segments, events, deletions, place)
    tips = np.concatenate([segments.user_partition[events.segment], deletions.user_partition])[order]
    routes = np.array([_route(tip, metadata_partitions) for tip in segments.tips], np.int32)
    return Workload(values, routes[tips], _mix(segments, events, deletions, irregular))


@dataclass(slots=True)
class _Segments:
    """Columns, one row per segment."""

    tips: list[TopicIdPartition]
    user_partition: Array
    number: Array
    share: Array
    ids: Array
    overlap: Array
    deleted: Array

    @property
    def multi_epoch(self) -> Array:
        return self.number % 3 == 0


@dataclass(slots=True)
class _Events:
    segment: Array
    kind: Array
    state: Array
    time: Array
    unknown: Array


@dataclass(slots=True)
class _PartitionDeletes:
    values: list[bytes]
    user_partition: Array
    time: Array


def _tips(rng: Any, topic_ids: Mapping[str, UUID] = MappingProxyType({})) -> list[TopicIdPartition]:
    names = [f"{domain}.{stream}" for domain in _DOMAINS for stream in _STREAMS]
    drawn = [UUID(bytes=rng.bytes(16)) for _ in names]
    ids = [topic_ids.get(name, other) for name, other in zip(names, drawn, strict=True)]
    sizes = rng.choice((1, 3, 6, 12, 24), len(names))
    return [
        TopicIdPartition(topic_id, name, partition)
        for topic_id, name, partitions in zip(ids, names, sizes, strict=True)
        for partition in range(partitions)
    ]


def _segments(rng: Any, count: int, topic_ids: Mapping[str, UUID]) -> _Segments:
    tips = _tips(rng, topic_ids)
    # Some partitions are busier than others.
    weights = rng.pareto(1.5, len(tips)) + 0.2
    user_partition = np.sort(rng.choice(len(tips), count, p=weights / weights.sum()))
    first = np.searchsorted(user_partition, np.arange(len(tips) + 1))
    per_partition = np.diff(first)[user_partition]
    number = np.arange(count) - first[user_partition]
    share = number / per_partition
    return _Segments(
        tips, user_partition, number, share, np.frombuffer(rng.bytes(16 * count), np.uint8).reshape(-1, 16),
        np.zeros(count, bool), share < 2 / 3,
    )  # fmt: skip


def _events(rng: Any, segments: _Segments, marked: Collection[str]) -> tuple[_Events, int]:
    """
    The events of regular segments, and a few others: copied again by a new leader, repeated, too early, unknown, left.

    What is unknown is of no marked topic: it could not be cleaned.
    """
    copied_at = segments.share
    count = len(copied_at)
    irregular = rng.choice(count, max(5, round(count * IRREGULAR)), replace=False)
    again, repeated, early, unknown, left = np.array_split(irregular, 5)
    unknown = unknown[~_of_topics(segments, marked)[unknown]]
    _copy_again(rng, segments, again)
    again = np.arange(count, count + len(again))
    everyone = np.arange(count)
    finished = np.setdiff1d(everyone, left)
    gone = np.setdiff1d(np.flatnonzero(segments.deleted[:count]), left)
    short = 1e-9
    parts: list[tuple[Array, int, S, Array]] = [
        (everyone, ADD, S.COPY_SEGMENT_STARTED, copied_at),
        (finished, UPDATE, S.COPY_SEGMENT_FINISHED, copied_at[finished] + short),
        (gone, UPDATE, S.DELETE_SEGMENT_STARTED, copied_at[gone] + 1 / 3),
        (gone, UPDATE, S.DELETE_SEGMENT_FINISHED, copied_at[gone] + 1 / 3 + short),
        (again, ADD, S.COPY_SEGMENT_STARTED, segments.share[again]),
        (again, UPDATE, S.COPY_SEGMENT_FINISHED, segments.share[again] + short),
        (repeated, UPDATE, S.COPY_SEGMENT_FINISHED, copied_at[repeated] + 2 * short),
        (early, UPDATE, S.DELETE_SEGMENT_FINISHED, copied_at[early] + 2 * short),
        (unknown, UPDATE, S.COPY_SEGMENT_FINISHED, copied_at[unknown] + 2 * short),
    ]
    rows = [len(part[0]) for part in parts]
    is_unknown = np.zeros(sum(rows), bool)
    is_unknown[len(is_unknown) - rows[-1] :] = True
    return _Events(
        np.concatenate([part[0] for part in parts]),
        np.repeat([part[1] for part in parts], rows),
        np.repeat([int(part[2]) for part in parts], rows),
        np.concatenate([part[3] for part in parts]),
        is_unknown,
    ), len(irregular)


def _copy_again(rng: Any, segments: _Segments, rows: Array) -> None:
    """Append segments that begin within those of ``rows`` and reach beyond their ends."""
    segments.user_partition = np.concatenate([segments.user_partition, segments.user_partition[rows]])
    segments.number = np.concatenate([segments.number, segments.number[rows]])
    segments.share = np.concatenate([segments.share, segments.share[rows] + 1e-8])
    ids = np.frombuffer(rng.bytes(16 * len(rows)), np.uint8).reshape(-1, 16)
    segments.ids = np.concatenate([segments.ids, ids])
    segments.overlap = np.concatenate([segments.overlap, np.ones(len(rows), bool)])
    segments.deleted = np.concatenate([segments.deleted, np.zeros(len(rows), bool)])


def _partition_deletes(rng: Any, segments: _Segments) -> _PartitionDeletes:
    """Two percent of the user partitions are being deleted; every third of these has been."""
    chosen = rng.choice(len(segments.tips), max(3, len(segments.tips) // 50), replace=False)
    values: list[bytes] = []
    user_partition: list[int] = []
    for position, tip in enumerate(chosen.tolist()):
        for state in list(RemotePartitionDeleteState)[: 3 if position % 3 == 0 else 2]:
            values.append(serialize(RemotePartitionDeleteMetadata(segments.tips[tip], state, FIRST_EVENT_MS, -1)))
            user_partition.append(tip)
    return _PartitionDeletes(values, np.array(user_partition), 2.0 + np.arange(len(values)))


def _of_topics(segments: _Segments, topics: Collection[str]) -> Array:
    return np.array([tip.topic in topics for tip in segments.tips])[segments.user_partition]


def _markers(segments: _Segments, topics: Collection[str]) -> _PartitionDeletes:
    chosen = [number for number, tip in enumerate(segments.tips) if tip.topic in topics]
    state = RemotePartitionDeleteState.DELETE_PARTITION_MARKED
    values = [serialize(RemotePartitionDeleteMetadata(segments.tips[n], state, FIRST_EVENT_MS, -1)) for n in chosen]
    return _PartitionDeletes(values, np.array(chosen, np.int64), np.full(len(values), MARKED_AT))


def _route(tip: TopicIdPartition, metadata_partitions: int) -> int:
    from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for

    return metadata_partition_for(tip, metadata_partitions)


def _mix(segments: _Segments, events: _Events, deletions: _PartitionDeletes, irregular: int) -> Counter[str]:
    adds = events.kind == ADD
    return Counter(
        {
            "values": len(events.kind) + len(deletions.values),
            "adds": int(adds.sum()),
            "multi-epoch adds": int((adds & segments.multi_epoch[events.segment]).sum()),
            **{state.name: int((~adds & (events.state == state)).sum()) for state in list(S)[1:]},
            "partition deletes": len(deletions.values),
            "irregular segments": irregular,
            "user partitions": len(segments.tips),
        }
    )


# -- bytes ---------------------------------------------------------------------------------------------------------


def _values(rng: Any, segments: _Segments, events: _Events, deletions: _PartitionDeletes, place: Array) -> Array:
    topics = [tip.topic for tip in segments.tips]
    first_of_topic = {topic: topics.index(topic) for topic in topics}
    topic_of = np.array([first_of_topic[topic] for topic in topics])[segments.user_partition[events.segment]]
    # Kinds of layout: an update, an add of one leader epoch, an add of two.
    layout = np.where(events.kind == UPDATE, 0, 1 + segments.multi_epoch[events.segment])
    group = topic_of * 3 + layout
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    blocks = [
        (rows, _block(rng, segments, events, rows, segments.tips[topic_of[rows[0]]], int(layout[rows[0]])))
        for rows in np.split(order, starts[1:])
    ]
    lengths = np.empty(len(place), np.int64)
    for rows, block in blocks:
        lengths[place[rows]] = block.shape[1]
    deletion_places = place[len(events.kind) :]
    lengths[deletion_places] = [len(value) for value in deletions.values]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    data = np.empty(offsets[-1], np.uint8)
    for rows, block in blocks:
        data[offsets[place[rows]][:, None] + np.arange(block.shape[1])] = block
    for at, value in zip(offsets[deletion_places].tolist(), deletions.values, strict=True):
        data[at : at + len(value)] = np.frombuffer(value, np.uint8)
    return _binary_array(lengths, data)


def _block(rng: Any, segments: _Segments, events: _Events, rows: Array, tip: TopicIdPartition, layout: int) -> Array:
    """The values of one topic and one layout as the rows of a matrix: a template, with its fields written over."""
    which = events.segment[rows]
    # Every fourth topic's storage keeps something about its segments, every tenth topic has transactions.
    kind_of_topic = tip.topic_id.int
    custom = b"\x5a" * CUSTOM_METADATA_BYTES if kind_of_topic % 4 == 0 else None
    template = _template(tip.topic, custom, layout, txn_idx_empty=kind_of_topic % 10 != 0)
    block = np.tile(np.frombuffer(template, np.uint8), (len(rows), 1))
    ids = segments.ids[which].copy()
    unknown = events.unknown[rows]
    ids[unknown, :8] ^= 0xFF
    at = template.index(tip.topic.encode()) + len(tip.topic.encode())
    block[:, at : at + 16] = np.frombuffer(tip.topic_id.bytes, np.uint8)
    partitions = np.array([t.partition for t in segments.tips])[segments.user_partition[which]]
    _put(block, at + 16, partitions, 4)
    block[:, at + 21 : at + 37] = ids
    at += 38
    event_ms = FIRST_EVENT_MS + np.rint(events.time[rows] * SPAN_MS).astype(np.int64)
    if layout == 0:
        _put(block, at, which % 3, 4)
        _put(block, at + 4, event_ms, 8)
        block[:, -2] = events.state[rows]
    else:
        _put_add(rng, block, at, segments, which, event_ms, multi_epoch=layout == 2)
    if custom is not None:
        at = template.index(custom)
        block[:, at : at + 16] = ids
    return block


def _put_add(
    rng: Any, block: Array, at: int, segments: _Segments, which: Array, event_ms: Array, *, multi_epoch: bool
) -> None:
    number, overlap = segments.number[which], segments.overlap[which]
    start = number * SPAN + np.where(overlap, SPAN // 2, 0)
    end = (number + 1) * SPAN - 1 + np.where(overlap, SPAN // 4, 0)
    _put(block, at, start, 8)
    _put(block, at + 8, end, 8)
    _put(block, at + 16, which % 3, 4)
    _put(block, at + 20, event_ms - 60_000, 8)
    _put(block, at + 28, event_ms, 8)
    # The epoch changes in the midst of every third segment.
    epoch = number // 3 + (0 if multi_epoch else 1)
    _put(block, at + 37, epoch, 4)
    _put(block, at + 41, start, 8)
    if multi_epoch:
        _put(block, at + 50, epoch + 1, 4)
        _put(block, at + 54, (start + end) // 2, 8)
    _put(block, at + (63 if multi_epoch else 50), rng.integers(900_000_000, 1 << 30, len(which)), 4)


def _put(block: Array, at: int, numbers: Array, width: int) -> None:
    block[:, at : at + width] = numbers.astype(f">i{width}").view(np.uint8).reshape(-1, width)


def _template(topic: str, custom: bytes | None, layout: int, *, txn_idx_empty: bool) -> bytes:
    segment_id = RemoteLogSegmentId(TopicIdPartition(_MARK, topic, 0), _MARK)
    if layout == 0:
        return serialize(RemoteLogSegmentMetadataUpdate(segment_id, 0, custom, S.COPY_SEGMENT_FINISHED, 0))
    epochs = ((0, 0),) if layout == 1 else ((0, 0), (1, 0))
    return serialize(
        RemoteLogSegmentMetadata(
            segment_id, 0, 0, 0, 0, 0, 0, custom, S.COPY_SEGMENT_STARTED, epochs, txn_idx_empty
        )
    )  # fmt: skip


def _binary_array(lengths: Iterable[int] | Array, data: Array) -> Array:
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    kind, width = (pa.binary(), np.int32) if offsets[-1] < 1 << 31 else (pa.large_binary(), np.int64)
    return pa.Array.from_buffers(
        kind, len(offsets) - 1, [None, pa.py_buffer(offsets.astype(width)), pa.py_buffer(data)]
    )
