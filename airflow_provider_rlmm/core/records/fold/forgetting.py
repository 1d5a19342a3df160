# SPDX-License-Identifier: Apache-2.0
"""
Segments that the log cleaner was asked to forget, and of which this log does not say that they are finished.

The rule is that of :meth:`airflow_provider_rlmm.core.records.history.UserPartitionHistory.forget`. Nearly all that is to be
forgotten is finished, and not here any more: few segments are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import numpy as np

from airflow_provider_rlmm.core.records.decoding.decode import forgotten_keys
from airflow_provider_rlmm.core.records.decoding.layout import Array
from airflow_provider_rlmm.core.records.fold.store import Store, Uncertain
from airflow_provider_rlmm.core.records.keys import RecordKey, SegmentKey
from airflow_provider_rlmm.core.records.records import NOT_SAID

_PartitionKey = tuple[UUID, int]


def note_forgotten(store: Store, batch: Any) -> None:
    """
    Note what becomes uncertain by the records of a batch that have no value. To be called when its events are applied.

    :param store: the store, which is changed.
    :param batch: what ``decode`` returned.
    """
    found = forgotten_keys(batch)
    if not found:
        return
    offsets = batch.column("offset") if "offset" in batch.schema.names else None
    forgotten = [(key, store.next_event if offsets is None else offsets[row].as_py()) for row, key in found]
    for row, offset in _concerned(store, forgotten):
        segments = store.segments
        at = int(segments["user_partition"][row]), int(segments["high"][row]), int(segments["low"][row])
        before = store.unresolved.get(at)
        for_good = before is not None and before.for_good
        # It is not finished, whether or not the finished ones are kept.
        store.unresolved[at] = Uncertain(offset, without_add=True, for_good=for_good, finished_known=True)


def _concerned(store: Store, forgotten: list[tuple[RecordKey, int]]) -> Iterator[tuple[int, int]]:
    """Yield rows of segments that are not finished, and the offset by which each is to be forgotten."""
    by_id = {(key.topic_id, key.partition, key.segment_id): at for key, at in forgotten if isinstance(key, SegmentKey)}
    by_end: dict[tuple[UUID, int, int], list[tuple[int, int]]] = {}
    for key, at in forgotten:
        if not isinstance(key, SegmentKey):
            by_end.setdefault((key.topic_id, key.partition, key.end_offset), []).append((key.leader_epoch, at))
    segments, partitions = store.segments, _partitions_of(store, forgotten)
    for row in _candidates(store, partitions, by_id, by_end).tolist():
        tip = partitions[int(segments["user_partition"][row])]
        segment_id = UUID(bytes=segments["high"][row].tobytes() + segments["low"][row].tobytes())
        epoch = int(segments["broker_leader_epoch"][row])
        named = [
            at for said, at in by_end.get((*tip, int(segments["end_offset"][row])), ()) if epoch in (said, NOT_SAID)
        ]
        if (found := by_id.get((*tip, segment_id))) is not None:
            named.append(found)
        if named:
            yield row, max(named)


def _partitions_of(store: Store, forgotten: list[tuple[RecordKey, int]]) -> dict[int, _PartitionKey]:
    """Return the user partitions that are concerned, by row: one per name that their topic id was seen with."""
    table, wanted = store.partitions, {(key.topic_id, key.partition) for key, _ in forgotten}
    high, low = np.array([np.frombuffer(topic_id.bytes, np.uint64) for topic_id, _ in wanted]).T
    found = {}
    for row in np.flatnonzero(np.isin(table["high"], high) & np.isin(table["low"], low)).tolist():
        tip = UUID(bytes=table["high"][row].tobytes() + table["low"][row].tobytes()), int(table["partition"][row])
        if tip in wanted:
            found[row] = tip
    return found


def _candidates(
    store: Store,
    partitions: dict[int, _PartitionKey],
    by_id: dict[tuple[UUID, int, UUID], int],
    by_end: dict[tuple[UUID, int, int], list[tuple[int, int]]],
) -> Array:
    """Return the rows of the segments that may be concerned: of all of a user partition there are many, of these few."""
    segments, alive = store.segments, store.alive()
    alive = alive.take(np.flatnonzero(np.isin(segments["user_partition"].take(alive), list(partitions))))
    low = [np.frombuffer(segment_id.bytes, np.uint64)[1] for _, _, segment_id in by_id]
    ends = [end_offset for _, _, end_offset in by_end]
    may_be = np.isin(segments["low"].take(alive), np.array(low, np.uint64))
    may_be |= np.isin(segments["end_offset"].take(alive), np.array(ends, np.int64))
    return alive.take(np.flatnonzero(may_be))
