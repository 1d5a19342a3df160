# SPDX-License-Identifier: Apache-2.0
"""
Segments that the log cleaner was asked to forget, and of which this log does not say that they are finished.

The rule is that of :meth:`airflow_provider_rlmm.core.records.history.UserPartitionHistory.forget`. A record that asks for it
is judged where it lies among the events of its batch: a segment that was finished before it is rightly forgotten, and one
that is copied after it under the same key is another one. Nearly all that is to be forgotten is finished, and no event of
these segments follows: few of them are looked at one by one, and few batches have to be applied in several parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

import numpy as np

from airflow_provider_rlmm.core.records.decoding.decode import forgotten_keys
from airflow_provider_rlmm.core.records.decoding.layout import Array
from airflow_provider_rlmm.core.records.fold.events import Events
from airflow_provider_rlmm.core.records.fold.index import hash_of
from airflow_provider_rlmm.core.records.fold.steps import find_segments
from airflow_provider_rlmm.core.records.fold.store import DEAD, Store, Uncertain
from airflow_provider_rlmm.core.records.fold.store import SegmentKey as Place
from airflow_provider_rlmm.core.records.keys import RecordKey, SegmentKey
from airflow_provider_rlmm.core.records.records import NOT_SAID
from airflow_provider_rlmm.core.records.serde import SEGMENT_API_KEY

_PartitionKey = tuple[UUID, int]
_Name = tuple[UUID, int, UUID | int]
"""Topic id and partition, and the id of the segment or its end offset."""


class _Asked(NamedTuple):
    """A record that asks the log cleaner to forget what was said by its key."""

    before: int  # how many events of the batch lie before it
    offset: int
    key: RecordKey


class Forgetting:
    """
    What the records of a batch that have no value make uncertain, noted in turn with its events.

    :param store: the store, which is changed; it knows the user partitions of the events, which are not applied yet.
    :param events: the events of the batch.
    :param ids: the ids of their segments, rows of two 64-bit numbers.
    :param partition: the rows of their user partitions.
    """

    def __init__(self, store: Store, events: Events, ids: Array, partition: Array) -> None:
        self._store = store
        self._asked = _asked(events, store.next_event)
        self._noted = 0
        self._concerned: dict[_Name, set[Place]] = {}
        if self._asked:
            self._find_concerned(events, ids, partition)

    def breaks(self, ids: Array) -> set[int]:
        """
        Return before which events something has to be noted: some that follow are about a segment that may be concerned.

        :param ids: the ids of the events' segments.
        """
        halves = np.array([low for places in self._concerned.values() for _, _, low in places], np.uint64)
        events = np.flatnonzero(np.isin(ids[:, 1], halves)) if halves.size else halves
        last = dict(zip(ids[:, 1].take(events).tolist(), events.tolist(), strict=True)) if events.size else {}
        return {
            asked.before
            for asked in self._asked
            if any(last.get(low, -1) >= asked.before for _, _, low in self._concerned[_name(asked.key)])
        }

    def note(self, until: int) -> None:
        """
        Note what becomes uncertain by the records before an event. To be called when all events before it are applied.

        :param until: the number of the event in the batch.
        """
        first = self._noted
        while self._noted < len(self._asked) and self._asked[self._noted].before <= until:
            self._noted += 1
        some = self._asked[first : self._noted]
        alive = self._alive({place for asked in some for place in self._concerned[_name(asked.key)]}) if some else {}
        for asked in some if alive else ():
            for place in self._concerned[_name(asked.key)] & alive.keys():
                if self._may_be_of(asked.key, alive[place]):
                    before = self._store.unresolved.get(place)
                    for_good = before is not None and before.for_good
                    # It is not finished, whether or not the finished ones are kept.
                    self._store.unresolved[place] = Uncertain(
                        asked.offset, without_add=True, for_good=for_good, finished_known=True
                    )

    def _find_concerned(self, events: Events, ids: Array, partition: Array) -> None:
        """Find the segments that may be concerned by each name: those here that are not finished, and those to be opened."""
        partitions, rows = _partitions_of(self._store, self._asked), defaultdict[_PartitionKey, list[int]](list)
        for row, tip in partitions.items():
            rows[tip].append(row)
        self._concerned = {_name(asked.key): set() for asked in self._asked}
        for (topic_id, number, said), places in self._concerned.items():
            if isinstance(said, UUID):
                high, low = np.frombuffer(said.bytes, np.uint64).tolist()
                places.update((row, high, low) for row in rows[topic_id, number])
        ends = np.array([said for _, _, said in self._concerned if not isinstance(said, UUID)], np.int64)
        if ends.size:
            for row, place, end_offset in (
                *_here(self._store, list(partitions), ends),
                *_opened(events, ids, partition, list(partitions), ends),
            ):
                if (name := (*partitions[row], end_offset)) in self._concerned:
                    self._concerned[name].add((row, *place))

    def _alive(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return which of some segments are not finished now, with their rows."""
        found = list(places)
        if not found:
            return {}
        partition = np.array([place[0] for place in found], np.int64)
        high, low = (np.array([place[half] for place in found], np.uint64) for half in (1, 2))
        rows = find_segments(self._store, hash_of(high, low, partition), high, low, partition)
        states = self._store.segments["state"]
        return {place: row for place, row in zip(found, rows.tolist(), strict=True) if row >= 0 and states[row] != DEAD}

    def _may_be_of(self, key: RecordKey, row: int) -> bool:
        """Tell whether records of a segment of a user partition that a key names may have this key, too."""
        if isinstance(key, SegmentKey):
            return True
        segments = self._store.segments
        same_epoch = int(segments["broker_leader_epoch"][row]) in (key.leader_epoch, NOT_SAID)
        return same_epoch and int(segments["end_offset"][row]) == key.end_offset


def _asked(events: Events, next_event: int) -> list[_Asked]:
    found = forgotten_keys(events.batch)
    if not found:
        return []
    before = np.searchsorted(events.rows, [row for row, _ in found]).tolist()
    said = events.batch.column("offset") if "offset" in events.batch.schema.names else None
    # As with the events: where no offsets are given, the events are numbered.
    if said is None or said.null_count:
        return [_Asked(at, next_event + at, key) for at, (_, key) in zip(before, found, strict=True)]
    return [_Asked(at, said[row].as_py(), key) for at, (row, key) in zip(before, found, strict=True)]


def _name(key: RecordKey) -> _Name:
    return key.topic_id, key.partition, key.segment_id if isinstance(key, SegmentKey) else key.end_offset


def _partitions_of(store: Store, asked: list[_Asked]) -> dict[int, _PartitionKey]:
    """Return the user partitions that are concerned, by row: one per name that their topic id was seen with."""
    table, wanted = store.partitions, {(key.topic_id, key.partition) for _, _, key in asked}
    high, low = np.array([np.frombuffer(topic_id.bytes, np.uint64) for topic_id, _ in wanted]).T
    found = {}
    for row in np.flatnonzero(np.isin(table["high"], high) & np.isin(table["low"], low)).tolist():
        tip = UUID(bytes=table["high"][row].tobytes() + table["low"][row].tobytes()), int(table["partition"][row])
        if tip in wanted:
            found[row] = tip
    return found


def _here(store: Store, partitions: list[int], ends: Array) -> Iterator[tuple[int, tuple[int, int], int]]:
    """Yield of the segments of user partitions that are not finished those with some end offsets: their row, id and end."""
    segments, alive = store.segments, store.alive()
    alive = alive.take(np.flatnonzero(np.isin(segments["user_partition"].take(alive), partitions)))
    alive = alive.take(np.flatnonzero(np.isin(segments["end_offset"].take(alive), ends)))
    columns = (segments[name].take(alive).tolist() for name in ("user_partition", "high", "low", "end_offset"))
    for row, high, low, end_offset in zip(*columns, strict=True):
        yield row, (high, low), end_offset


def _opened(
    events: Events, ids: Array, partition: Array, partitions: list[int], ends: Array
) -> Iterator[tuple[int, tuple[int, int], int]]:
    """Yield the same of the segments that the events announce."""
    ends_at = events.column("end_offset")
    adds = np.flatnonzero((events.api_key == SEGMENT_API_KEY) & np.isin(partition, partitions) & np.isin(ends_at, ends))
    columns = (values.take(adds).tolist() for values in (partition, ids[:, 0], ids[:, 1], ends_at))
    for row, high, low, end_offset in zip(*columns, strict=True):
        yield row, (high, low), end_offset
