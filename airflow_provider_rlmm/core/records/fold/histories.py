# SPDX-License-Identifier: Apache-2.0
"""From columns to one history per user partition: for the few that are about to be deleted."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from copy import deepcopy
from uuid import UUID

import numpy as np

from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.decoding.layout import Array
from airflow_provider_rlmm.core.records.deletion import PartitionDeletion
from airflow_provider_rlmm.core.records.fold.store import DEAD, NO_OFFSET, Store
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState

_FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED


def user_partition(store: Store, row: int) -> TopicIdPartition:
    """Return the user partition in a row of a store."""
    table = store.partitions
    topic_id = UUID(bytes=table["high"][row].tobytes() + table["low"][row].tobytes())
    return TopicIdPartition(topic_id, store.topics[int(table["topic"][row])].as_py(), int(table["partition"][row]))


def histories_of(
    store: Store, metadata_partition: int, topic_ids: Collection[UUID], *, with_segments: bool = True
) -> dict[TopicIdPartition, UserPartitionHistory]:
    """Return the histories of some topics of a metadata partition, by the order in which they were first seen."""
    wanted = _rows_of_topics(store, metadata_partition, topic_ids)
    found = {row: _history(store, row) for row in wanted.tolist()}
    if with_segments:
        _fill_segments(store, wanted, found)
    for (row, high, low), uncertain in store.unresolved.items():
        if row in found:
            found[row].without_add[_uuid(high, low)] = uncertain.offset
    return {history.topic_id_partition: history for history in found.values()}


def _fill_segments(store: Store, wanted: Array, found: dict[int, UserPartitionHistory]) -> None:
    """Give histories their segments that are not finished; ``wanted`` are their rows."""
    mine = np.zeros(store.partitions.size, dtype=bool)
    mine[wanted] = True
    segments = store.segments
    alive = np.flatnonzero((segments["state"] != DEAD) & mine.take(segments["user_partition"]))
    alive = alive.take(np.argsort(segments["added_offset"].take(alive), kind="stable"))
    by_partition: dict[int, list[RemoteLogSegmentMetadata]] = {}
    for row, metadata in zip(
        segments["user_partition"].take(alive).tolist(), _segments(store, alive, found), strict=True
    ):
        by_partition.setdefault(row, []).append(metadata)
    for row, known in by_partition.items():
        found[row].cache = RemoteLogMetadataCache(known)
        found[row].known_segments = {metadata.remote_log_segment_id.id for metadata in known}


def _rows_of_topics(store: Store, metadata_partition: int, topic_ids: Collection[UUID]) -> Array:
    ids = np.frombuffer(b"".join(topic_id.bytes for topic_id in topic_ids), np.uint64).reshape(-1, 2)
    here = np.flatnonzero(store.partitions["metadata_partition"] == metadata_partition)
    # One half is enough to leave out almost all; the rest is compared in full.
    here = here.take(np.flatnonzero(np.isin(store.partitions["high"].take(here), ids[:, 0])))
    wanted = set(topic_ids)
    return np.array([row for row in here.tolist() if user_partition(store, row).topic_id in wanted], np.int64)


def _history(store: Store, row: int) -> UserPartitionHistory:
    table = store.partitions
    deletion = store.deletions.get(row)
    if deletion is None:
        deletion = PartitionDeletion(delete_state=_FINISHED if table["was_finished"][row] else None)
    foreign = int(table["last_foreign_offset"][row])
    return UserPartitionHistory(
        user_partition(store, row),
        last_foreign_offset=None if foreign == NO_OFFSET else foreign,
        delete_state=deletion.delete_state,
        observations=deepcopy(deletion.observations),
        unsettled_marker_offset=deletion.unsettled_marker_offset,
    )


def _segments(store: Store, rows: Array, owners: dict[int, UserPartitionHistory]) -> Iterator[RemoteLogSegmentMetadata]:
    segments, epochs = store.segments, store.tables["epochs"]
    custom = store.tables["custom"]["byte"]
    names = (
        "user_partition", "high", "low", "start_offset", "end_offset", "max_timestamp_ms", "broker_id", "event_timestamp_ms",
        "segment_size_in_bytes", "state", "txn_idx_empty", "epochs_at", "epochs_count", "custom_at", "custom_length",
        "broker_leader_epoch",
    )  # fmt: skip
    columns = (segments[name].take(rows).tolist() for name in names)
    for (
        owner, high, low, start, end, max_ms, broker_id, event_ms, size, state, txn_idx_empty, at, count, custom_at, length,
        leader_epoch,
    ) in zip(*columns, strict=True):  # fmt: skip
        some = slice(at, at + count)
        leader_epochs = zip(epochs["leader_epoch"][some].tolist(), epochs["start_offset"][some].tolist(), strict=True)
        yield RemoteLogSegmentMetadata(
            RemoteLogSegmentId(owners[owner].topic_id_partition, _uuid(high, low)),
            start,
            end,
            max_ms,
            broker_id,
            event_ms,
            size,
            None if length < 0 else custom[custom_at : custom_at + length].tobytes(),
            RemoteLogSegmentState(state),
            tuple(leader_epochs),
            txn_idx_empty,
            leader_epoch,
        )


def _uuid(high: int, low: int) -> UUID:
    """Return an id by its halves as the columns hold them."""
    return UUID(bytes=high.to_bytes(8, sys.byteorder) + low.to_bytes(8, sys.byteorder))
