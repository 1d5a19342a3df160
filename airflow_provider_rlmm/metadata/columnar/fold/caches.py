# SPDX-License-Identifier: Apache-2.0
"""User partitions out of a store as scalar caches, and back: what columns cannot settle, the cache does."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

import numpy as np

from airflow_provider_rlmm.metadata.cache import LeaderEpochState, RemoteLogMetadataCache, end_of_epoch
from airflow_provider_rlmm.metadata.columnar.decoding.layout import Array
from airflow_provider_rlmm.metadata.columnar.fold.index import hash_of
from airflow_provider_rlmm.metadata.columnar.fold.runs import spread
from airflow_provider_rlmm.metadata.columnar.fold.steps import find_segments
from airflow_provider_rlmm.metadata.columnar.fold.store import (
    DEAD,
    NONE,
    REFERENCED,
    TABLES,
    UNLISTED,
    UNREFERENCED,
    Store,
)
from airflow_provider_rlmm.metadata.records import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState

_PLAIN = (
    "start_offset", "end_offset", "max_timestamp_ms", "broker_id", "event_timestamp_ms", "segment_size_in_bytes",
)  # fmt: skip


def uuid_of(high: int, low: int) -> UUID:
    """
    Return the id whose bytes are those of two native 64-bit numbers.

    :param high: the first eight bytes.
    :param low: the others.
    """
    return UUID(bytes=np.array([high, low], np.uint64).tobytes())


def halves_of(value: UUID) -> tuple[int, int]:
    """
    Return the two numbers of :func:`uuid_of`.

    :param value: an id.
    """
    high, low = np.frombuffer(value.bytes, np.uint64).tolist()
    return high, low


def topic_id_partition_at(store: Store, row: int) -> TopicIdPartition:
    """
    Return a user partition.

    :param store: the store.
    :param row: its row.
    """
    table = store.partitions
    topic = store.topics[int(table["topic"][row])].as_py()
    topic_id = uuid_of(int(table["high"][row]), int(table["low"][row]))
    return TopicIdPartition(topic_id, topic, int(table["partition"][row]))


def caches_of(store: Store, partitions: list[int], rows: Array) -> dict[int, RemoteLogMetadataCache]:
    """
    Return independent caches of some user partitions.

    :param store: the store.
    :param partitions: rows of the user partitions.
    :param rows: rows of all their segments, dead ones excluded.
    """
    names = {row: topic_id_partition_at(store, row) for row in partitions}
    epochs, epoch_rows = _leader_epochs(store, partitions)
    rows = rows.take(np.argsort(store.segments["order"].take(rows)))
    segments: dict[int, list[RemoteLogSegmentMetadata]] = {row: [] for row in partitions}
    unreferenced: list[tuple[int, int, int, RemoteLogSegmentId]] = []
    for partition, metadata, entries in _segments(store, names, rows):
        segments[partition].append(metadata)
        for epoch_row, start_offset, status, order in entries:
            if status == REFERENCED:
                epoch_rows[epoch_row].referenced[start_offset] = metadata.remote_log_segment_id
            elif status == UNREFERENCED:
                # What one event superseded went by descending offset.
                unreferenced.append((order, -start_offset, epoch_row, metadata.remote_log_segment_id))
    for (epoch_row, high, low), order in store.stale.items():
        if epoch_row in epoch_rows:
            name = names[int(store.epochs["key"][epoch_row]) >> 32]
            unreferenced.append((order, 0, epoch_row, RemoteLogSegmentId(name, uuid_of(high, low))))
    for _, _, epoch_row, segment_id in sorted(unreferenced, key=lambda entry: entry[:3]):
        epoch_rows[epoch_row].unreferenced[segment_id] = None
    return {
        # The copies build the index of what was filled in above.
        row: RemoteLogMetadataCache(segments[row], {epoch: state.copy() for epoch, state in epochs[row].items()})
        for row in partitions
    }


def _leader_epochs(
    store: Store, partitions: list[int]
) -> tuple[dict[int, dict[int, LeaderEpochState]], dict[int, LeaderEpochState]]:
    """Return the states of leader epochs by user partition and epoch, and by row; their segments are not in there yet."""
    by_partition: dict[int, dict[int, LeaderEpochState]] = {row: {} for row in partitions}
    by_row: dict[int, LeaderEpochState] = {}
    for epoch_row in _epochs_of(store, partitions).tolist():
        key, highest = int(store.epochs["key"][epoch_row]), int(store.epochs["highest_offset"][epoch_row])
        copied = bool(store.epochs["copied"][epoch_row])
        state = LeaderEpochState(highest_offset=highest if copied else None)
        by_partition[key >> 32][leader_epoch_of(key)] = by_row[epoch_row] = state
    return by_partition, by_row


def leader_epoch_of(key: int) -> int:
    """
    Return the leader epoch in a key of the table ``epochs``.

    :param key: the key.
    """
    return ((key & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def _segments(
    store: Store, names: dict[int, TopicIdPartition], rows: Array
) -> Iterator[tuple[int, RemoteLogSegmentMetadata, list[tuple[int, int, int, int]]]]:
    """Yield user partition, metadata and entries (epoch's row, start offset, status, order) of each segment."""
    segments = {column: store.segments[column].take(rows) for column in TABLES["segments"]}
    at, _ = spread(segments["entries_at"], segments["entries_count"])
    entries = [store.entries[column].take(at).tolist() for column in ("epoch", "start_offset", "status", "order")]
    epochs = (store.epochs["key"].take(store.entries["epoch"].take(at)) & 0xFFFFFFFF).astype(np.uint32)
    leader_epochs = epochs.view(np.int32).tolist()
    heap = store.tables["custom"]["byte"]
    columns = {column: values.tolist() for column, values in segments.items()}
    first = 0
    for i in range(rows.size):
        behind = first + columns["entries_count"][i]
        custom_at, length = columns["custom_at"][i], columns["custom_length"][i]
        partition = columns["user_partition"][i]
        metadata = RemoteLogSegmentMetadata(
            RemoteLogSegmentId(names[partition], uuid_of(columns["high"][i], columns["low"][i])),
            **{name: columns[name][i] for name in _PLAIN},
            custom_metadata=None if length < 0 else heap[custom_at : custom_at + length].tobytes(),
            state=RemoteLogSegmentState(columns["state"][i]),
            segment_leader_epochs=tuple(zip(leader_epochs[first:behind], entries[1][first:behind], strict=True)),
            txn_idx_empty=columns["txn_idx_empty"][i],
        )
        yield partition, metadata, list(zip(*(column[first:behind] for column in entries), strict=True))
        first = behind


def epoch_rows_of(store: Store, partition: int, leader_epochs: Iterable[int]) -> dict[int, int]:
    """
    Return the rows of leader epochs; unknown ones are added.

    :param store: the store.
    :param partition: row of the user partition.
    :param leader_epochs: the leader epochs.
    """
    epochs = np.array(sorted(leader_epochs), np.int64)
    rows = store.epoch_rows(partition << 32 | (epochs & 0xFFFFFFFF))
    return dict(zip(epochs.tolist(), rows.tolist(), strict=True))


def write_back(store: Store, partition: int, cache: RemoteLogMetadataCache) -> None:
    """
    Let the columns of a user partition, which has no segments any more, say what a cache says.

    :param store: the store.
    :param partition: row of the user partition.
    :param cache: its cache.
    """
    segments = cache.in_order_of_arrival()
    leader_epochs = {epoch for segment in segments for epoch, _ in segment.segment_leader_epochs}
    epoch_rows = epoch_rows_of(store, partition, leader_epochs | cache.leader_epochs.keys())
    first_order = store.next_order
    statuses: dict[tuple[int, RemoteLogSegmentId], tuple[int, int]] = {}
    by_id = {segment.remote_log_segment_id: segment for segment in segments}
    for leader_epoch, state in cache.leader_epochs.items():
        _write_epoch(store, epoch_rows[leader_epoch], leader_epoch, state, by_id)
        for segment_id in state.referenced.values():
            statuses[leader_epoch, segment_id] = (REFERENCED, 0)
        for nth, segment_id in enumerate(state.unreferenced):
            statuses[leader_epoch, segment_id] = (UNREFERENCED, first_order + nth)
    rows: list[dict[str, Any]] = []
    entries: list[tuple[int, int, int, int]] = []
    for nth, segment in enumerate(segments):
        rows.append({**_row(store, partition, segment), "order": first_order + nth, "entries_at": len(entries)})
        for epoch, start_offset in segment.segment_leader_epochs:
            status, order = statuses.pop((epoch, segment.remote_log_segment_id), (UNLISTED, 0))
            entries.append((epoch_rows[epoch], start_offset, status, order))
    stale = {(epoch_rows[e], *halves_of(key.id)): order for (e, key), (_, order) in statuses.items()}
    store.stale = {**store.stale, **stale} if stale else store.stale
    store.next_order += 1 + max([len(rows), *(len(state.unreferenced) for state in cache.leader_epochs.values())])
    if rows:
        _put(store, rows, entries)


def _write_epoch(
    store: Store,
    row: int,
    leader_epoch: int,
    state: LeaderEpochState,
    segments: dict[RemoteLogSegmentId, RemoteLogSegmentMetadata],
) -> None:
    ends = [end_of_epoch(segments[key], leader_epoch) for _, key in sorted(state.referenced.items())]
    highest = state.highest_offset
    ordered = all(a < b for a, b in itertools.pairwise(ends)) and (
        not ends or (highest is not None and ends[-1] <= highest)
    )
    at = np.array([row])
    store.epochs.write("highest_offset", at, NONE if highest is None else highest)
    store.epochs.write("copied", at, highest is not None)
    store.epochs.write("largest_start", at, max(state.referenced, default=NONE))
    store.epochs.write("ordered", at, ordered)


def _row(store: Store, partition: int, segment: RemoteLogSegmentMetadata) -> dict[str, Any]:
    high, low = halves_of(segment.remote_log_segment_id.id)
    custom = segment.custom_metadata
    heap = store.tables["custom"]
    custom_at = heap.size
    if custom:
        heap.append(len(custom), {"byte": np.frombuffer(custom, np.uint8)})
    return {
        "high": high,
        "low": low,
        "user_partition": partition,
        **{name: getattr(segment, name) for name in _PLAIN},
        "state": int(segment.state),
        "txn_idx_empty": segment.txn_idx_empty,
        "entries_count": len(segment.segment_leader_epochs),
        "custom_at": custom_at,
        "custom_length": -1 if custom is None else len(custom),
    }


def _put(store: Store, rows: list[dict[str, Any]], entries: list[tuple[int, int, int, int]]) -> None:
    """Write segments; those whose key the store still has, dead, come to life where they were."""
    columns = {name: np.array([row[name] for row in rows], dtype) for name, dtype in TABLES["segments"].items()}
    names = ("epoch", "start_offset", "status", "order")
    of_entries = {name: [entry[i] for entry in entries] for i, name in enumerate(names)}
    columns["entries_at"] += np.int32(store.entries.size)
    at = np.arange(store.entries.size, store.entries.size + len(entries))
    store.entries.append(len(entries), {**of_entries, "segment": 0})
    key = columns["high"], columns["low"], columns["user_partition"]
    found = find_segments(store, hash_of(*key), *key)
    known, unknown = np.flatnonzero(found >= 0), np.flatnonzero(found < 0)
    for name, values in columns.items():
        store.segments.write(name, found.take(known), values.take(known))
    added = store.append("segments", unknown.size, {name: values.take(unknown) for name, values in columns.items()})
    found[unknown] = added
    store.entries.write("segment", at, np.repeat(found, columns["entries_count"]))
    store.live += len(rows)


def clear(store: Store, partitions: Array, rows: Array) -> None:
    """
    Forget the segments and the leader epochs of user partitions.

    :param store: the store.
    :param partitions: rows of the user partitions.
    :param rows: rows of all their segments, dead ones excluded.
    """
    store.segments.write("state", rows, DEAD)
    store.live -= rows.size
    at, _ = spread(store.segments["entries_at"].take(rows), store.segments["entries_count"].take(rows))
    store.entries.write("status", at, UNLISTED)
    store.dead_entries += at.size
    epochs = _epochs_of(store, partitions.tolist())
    store.epochs.write("highest_offset", epochs, NONE)
    store.epochs.write("copied", epochs, False)
    store.epochs.write("largest_start", epochs, NONE)
    store.epochs.write("ordered", epochs, True)
    if store.stale:
        gone = set(epochs.tolist())
        store.stale = {key: order for key, order in store.stale.items() if key[0] not in gone}


def rows_of(store: Store, partitions: Array) -> Array:
    """
    Return the rows of the segments of some user partitions, dead ones excluded.

    :param store: the store.
    :param partitions: rows of the user partitions.
    """
    wanted = np.zeros(store.partitions.size, dtype=bool)
    wanted[partitions] = True
    mine = np.flatnonzero(wanted.take(store.segments["user_partition"]))
    return mine.take(np.flatnonzero(store.segments["state"].take(mine) != DEAD))


def _epochs_of(store: Store, partitions: list[int]) -> Array:
    wanted = np.zeros(store.partitions.size, dtype=bool)
    wanted[partitions] = True
    return np.flatnonzero(wanted.take(store.epochs["key"] >> 32))
