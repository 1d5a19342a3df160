# SPDX-License-Identifier: Apache-2.0
"""
What a store says, as one hash.

Nothing counts of how it came to say that: not the order of rows, not what lies dead, not the batches that its events came in.
So a user partition is named by its place in the order of all, segments by their ids, and what refers to them comes in their
order. What only numbers events is left out, as it depends on how many metadata partitions are in one store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, binary_buffers
from airflow_provider_rlmm.core.records.decoding.layout import Array
from airflow_provider_rlmm.core.records.fold.index import spread
from airflow_provider_rlmm.core.records.fold.living import in_order
from airflow_provider_rlmm.core.records.fold.store import DEAD, NO_OFFSET, TABLES, Store
from airflow_provider_rlmm.core.records.fold.tables import PIECE_ROWS, custom_bytes, rank_of

_FORM = b"airflow-provider-rlmm digest of a columnar state 1"
_OF_PARTITIONS = [column for column in TABLES["partitions"] if column != "topic"]
_OF_A_COPY = ("copying_high", "copying_low", "copying_event_timestamp_ms")
"""What stands there when no copy is begun is left from one that has ended."""
_OF_LIVING = [column for column in TABLES["segments"] if column not in ("user_partition", "epochs_at", "custom_at")]
_OF_FINISHED = ["high", "low", "event_offset", "start_offset", "end_offset"]
"""Nothing asks for more of a segment that is finished."""


def digest_of(store: Store) -> str:
    """Return the SHA-256 of what a store says, in hexadecimal digits."""
    told = hashlib.sha256(_FORM)
    for values in _said(store):
        told.update(values.tobytes())
    return told.hexdigest()


def _said(store: Store) -> Iterator[Array]:
    """Yield numbers by which all can be told that a store says: how many of each kind, then these, column by column."""
    rank = rank_of(store).astype(np.int32)
    yield np.array([store.keep_finished, rank.size, store.live, len(store.unresolved), len(store.deletions)], np.int64)
    yield from _partitions(store, np.argsort(rank))
    yield from _living(store, rank)
    if store.keep_finished:
        yield from _finished(store, rank)
    yield from _unresolved(store, rank)
    yield from _deletions(store, rank)


def _partitions(store: Store, rows: Array) -> Iterator[Array]:
    table = store.partitions
    for some in _pieces(rows):
        ends, text = binary_buffers(store.topics.take(array_of(table["topic"].take(some))))
        yield np.diff(ends)
        yield text[ends[0] : ends[-1]]
        is_copying = table["copying_offset"].take(some) != NO_OFFSET
        for column in _OF_PARTITIONS:
            values = table[column].take(some)
            yield values * is_copying if column in _OF_A_COPY else values


def _living(store: Store, rank: Array) -> Iterator[Array]:
    segments, epochs = store.segments, store.tables["epochs"]
    for some in _pieces(in_order(store, store.alive(), rank, ("added_offset", "start_offset"))):
        yield from _columns(store, rank, some, _OF_LIVING)
        at, _ = spread(segments["epochs_at"].take(some), segments["epochs_count"].take(some))
        for column in TABLES["epochs"]:
            yield epochs[column].take(at)
        yield custom_bytes(store, some)


def _finished(store: Store, rank: Array) -> Iterator[Array]:
    dead = np.flatnonzero(store.segments["state"] == DEAD)
    for some in _pieces(in_order(store, dead, rank, ("event_offset",))):
        yield from _columns(store, rank, some, _OF_FINISHED)


def _columns(store: Store, rank: Array, rows: Array, columns: list[str]) -> Iterator[Array]:
    segments = store.segments
    yield rank.take(segments["user_partition"].take(rows))
    for column in columns:
        yield segments[column].take(rows)


def _pieces(rows: Array) -> Iterator[Array]:
    for at in range(0, rows.size, PIECE_ROWS):
        yield rows[at : at + PIECE_ROWS]


def _unresolved(store: Store, rank: Array) -> Iterator[Array]:
    keys = np.array(list(store.unresolved), np.uint64).reshape(-1, 3)
    said = np.array(list(store.unresolved.values()), np.int64).reshape(-1, 4)
    place = rank.take(keys[:, 0].astype(np.int64))
    rows = np.lexsort((keys[:, 2], keys[:, 1], place))
    yield place.take(rows)
    yield keys[:, 1:].take(rows, axis=0)
    yield said.take(rows, axis=0)


def _deletions(store: Store, rank: Array) -> Iterator[Array]:
    rows = sorted(store.deletions, key=lambda row: int(rank[row]))
    found = [store.deletions[row] for row in rows]
    markers = [deletion.unsettled_marker_offset for deletion in found]
    yield rank.take(np.array(rows, np.int64))
    yield np.array([deletion.delete_state for deletion in found], np.int64)
    yield np.array([NO_OFFSET if offset is None else offset for offset in markers], np.int64)
    yield np.array([len(deletion.observations) for deletion in found], np.int64)
    seen = (observation for deletion in found for observation in deletion.observations)
    yield np.array([(o.offset, o.time_ms, o.bounded) for o in seen], np.int64)
