# SPDX-License-Identifier: Apache-2.0
"""What each event of a batch does to its segment's state: which are applied, which are dropped, which throw."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

import numpy as np

from airflow_provider_rlmm.core.base.errors import InvalidStateTransitionError
from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.decoding.layout import Array
from airflow_provider_rlmm.core.records.fold.index import hash_of
from airflow_provider_rlmm.core.records.fold.store import DEAD, Store
from airflow_provider_rlmm.core.records.outcomes import EventFate
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    SegmentEvent,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.serde import SEGMENT_API_KEY
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S

STATES = len(S)
APPLIED, THROWN = EventFate.APPLIED, EventFate.THROWN
DROPPED = (EventFate.DROPPED_INVALID_TRANSITION, EventFate.DROPPED_UNKNOWN_SEGMENT)
_MANY_EVENTS = 8
_SEGMENT_ID = RemoteLogSegmentId(TopicIdPartition(UUID(int=1), "any", 0), UUID(int=1))


def step(event_state: S, before: S, *, is_update: bool = True) -> int:
    """Return the number of a step; a segment that is not known was ``DELETE_SEGMENT_FINISHED`` before."""
    return (int(event_state) + STATES * is_update) * STATES + int(before)


def _event(state: S, is_update: bool) -> SegmentEvent:
    if is_update:
        return RemoteLogSegmentMetadataUpdate(_SEGMENT_ID, 0, None, state, 0)
    return RemoteLogSegmentMetadata(_SEGMENT_ID, 0, 0, 0, 0, 0, 0, None, state, ((0, 0),))


def _tables() -> tuple[Array, Array]:
    """Ask the cache what becomes of each event in each state: the rules are written there only."""
    outcome = np.zeros(2 * STATES * STATES, np.int8)
    following = np.zeros(2 * STATES * STATES, np.int8)
    for is_update in (False, True):
        for state in S:
            for before in S:
                cache = RemoteLogMetadataCache()
                if before is not S.DELETE_SEGMENT_FINISHED:
                    cache.add_copy_in_progress_segment(_SEGMENT)
                    cache.update_remote_log_segment_metadata(_UPDATES[before]) if before else None
                number = step(state, before, is_update=is_update)
                outcome[number], _ = outcome_in(cache, _event(state, is_update))
                after = cache.segment(_SEGMENT_ID)
                following[number] = after.state if after else DEAD
    return outcome, following


def outcome_in(cache: RemoteLogMetadataCache, event: SegmentEvent) -> tuple[EventFate, str]:
    """Apply an event to its user partition's cache; return what became of it, and the message if it threw."""
    try:
        if isinstance(event, RemoteLogSegmentMetadata):
            return cache.add_copy_in_progress_segment(event), ""
        return cache.update_remote_log_segment_metadata(event), ""
    except InvalidStateTransitionError as e:
        return THROWN, str(e)


def thrown_reason(event: SegmentEvent) -> str:
    """Return the message of an event that throws."""
    segment_id = event.remote_log_segment_id
    opening = RemoteLogSegmentMetadata(segment_id, 0, 0, 0, 0, 0, 0, None, S.COPY_SEGMENT_STARTED, ((0, 0),))
    return outcome_in(RemoteLogMetadataCache([opening]), event)[1]


_SEGMENT = RemoteLogSegmentMetadata(_SEGMENT_ID, 0, 0, 0, 0, 0, 0, None, S.COPY_SEGMENT_STARTED, ((0, 0),))
_UPDATES = {state: RemoteLogSegmentMetadataUpdate(_SEGMENT_ID, 0, None, state, 0) for state in S}
OUTCOME, FOLLOWING = _tables()
"""Outcome of each step, and the segment's state after it."""
MORE_ALIVE = np.array(
    [(int(after) != DEAD) - (number % STATES != DEAD) for number, after in enumerate(FOLLOWING)], np.int8
)
"""How many more segments are alive after each step."""


@dataclass(slots=True)
class Steps:
    """Events and what they do; one element per event in their order, or per segment in any order."""

    group: Array  # the number of each event's segment here
    step: Array  # each event's step
    hashes: Array  # the upper bits of the hash of each segment's key, mostly ascending
    high: Array  # first half of each segment's id
    low: Array  # the other half
    user_partition: Array  # row of each segment's user partition
    row: Array  # row of each segment in the store, -1 where it has none
    before: Array  # each segment's state before, dead where it is not known
    after: Array  # the state after
    _outcome: Array = field(init=False)
    _at: dict[int, Array] = field(default_factory=dict)
    _last_at: dict[int, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._outcome = OUTCOME.take(self.step)

    def at(self, step: int) -> Array:
        """Return the events that take a step, by its number."""
        if step not in self._at:
            self._at[step] = np.flatnonzero(self.step == step)
        return self._at[step]

    def outcomes(self) -> dict[int, int]:
        """Return how many events have each outcome."""
        return {outcome: int(np.count_nonzero(self._outcome == outcome)) for outcome in range(THROWN + 1)}

    def with_outcome(self, outcome: int) -> Array:
        """Return the events with an outcome."""
        return np.flatnonzero(self._outcome == outcome)

    def last(self, events: Array) -> Array:
        """Return for each segment the last of some events, which are given in their order; -1 where it has none."""
        last = np.full(self.row.size, -1, dtype=np.int64)
        last[self.group.take(events)] = events
        return last

    def last_at(self, step: int) -> Array:
        """Return for each segment the last event that takes a step, by its number; -1 where it has none."""
        if step not in self._last_at:
            self._last_at[step] = self.last(self.at(step))
        return self._last_at[step]


def steps_of(store: Store, ids: Array, partition: Array, api_key: Array, state: Array) -> Steps:
    """
    Work out what events do to the segments of a store.

    :param ids: the segments' ids, rows of two 64-bit numbers.
    :param partition: rows of their user partitions.
    """
    hashes = hash_of(ids[:, 0], ids[:, 1], partition)
    order, new, hashes, ids, partition = _grouped(hashes, ids, partition)
    first = np.flatnonzero(new)
    hashes, partition = hashes.take(first), partition.take(first)
    high, low = ids[:, 0].take(first), ids[:, 1].take(first)
    row = find_segments(store, hashes, high, low, partition)
    before = np.full(row.size, DEAD, np.int8)
    known = np.flatnonzero(row >= 0)
    before[known] = store.segments["state"].take(row.take(known))
    size = np.diff(first, append=order.size)
    event = (api_key != SEGMENT_API_KEY).view(np.int8) * np.int8(STATES)
    event += state
    event *= np.int8(STATES)
    sorted_steps, after = _run(event.take(order), first, size, before)
    group, steps = np.empty(order.size, np.int64), np.empty(order.size, np.int8)
    group[order] = np.cumsum(new) - 1
    steps[order] = sorted_steps
    return Steps(group, steps, hashes, high, low, partition, row, before, after)


def find_segments(store: Store, hashes: Array, high: Array, low: Array, partition: Array) -> Array:
    """Return the rows of segments in a store by their hashes and whole keys, dead ones included, -1 where there is none."""
    segments = store.segments
    highs, lows, partitions = segments["high"], segments["low"], segments["user_partition"]

    def same(asked: Array, row: Array) -> Array:
        equal: Array = highs.take(row) == high.take(asked)
        equal &= lows.take(row) == low.take(asked)
        equal &= partitions.take(row) == partition.take(asked)
        return equal

    return store.index("segments").find(hashes, same)


def _grouped(hashes: Array, ids: Array, partition: Array) -> tuple[Array, Array, Array, Array, Array]:
    """
    Return the events in such an order that those of a segment follow each other, and where new ones begin.

    The others are the keys in that order: the upper bits of their hashes, ids and user partitions.
    """
    size = hashes.size
    bits = np.uint64(max(int(size).bit_length(), 1))
    # One sort of plain numbers: the hash above, the event's number below.
    keys = hashes >> bits << bits | np.arange(size, dtype=np.uint64)
    keys.sort()
    order = (keys & ((np.uint64(1) << bits) - np.uint64(1))).view(np.int64)
    ordered = _both_halves(ids, order), partition.take(order)
    new = _changes(*ordered)
    upper = keys >> bits
    if (new[1:] & (upper[1:] == upper[:-1])).any():
        # Different segments whose hashes agree: sort by the whole keys.
        order = np.lexsort((np.arange(size), ids[:, 1], ids[:, 0], partition))
        ordered = _both_halves(ids, order), partition.take(order)
        new, keys = _changes(*ordered), hashes.take(order)
    return order, new, keys, *ordered


def _both_halves(ids: Array, index: Array) -> Array:
    """Return some ids; 16 bytes at once are taken as fast as 8."""
    taken: Array = ids.view(np.complex128).ravel().take(index).view(np.uint64).reshape(-1, 2)
    return taken


def _changes(ids: Array, partition: Array) -> Array:
    new = np.ones(partition.size, dtype=bool)
    np.not_equal(partition[1:], partition[:-1], out=new[1:])
    # Two truth values side by side are one number.
    new[1:] |= (ids[1:] != ids[:-1]).view(np.uint16).ravel() != 0
    return new


def _run(event: Array, first: Array, size: Array, before: Array) -> tuple[Array, Array]:
    """Let all segments take their first step, then all that have more their second, and so on."""
    steps = np.empty(event.size, np.int8)
    steps[first] = taken = event.take(first) + before
    after = FOLLOWING.take(taken)
    active = np.flatnonzero(size > 1)
    for nth in range(1, _MANY_EVENTS):
        at = first.take(active) + nth
        taken = event.take(at) + after.take(active)
        steps[at] = taken
        after[active] = FOLLOWING.take(taken)
        active = active.take(np.flatnonzero(size.take(active) > nth + 1))
        if not active.size:
            return steps, after
    following = FOLLOWING.tolist()
    for group in active.tolist():
        state = int(after[group])
        for position in range(int(first[group]) + _MANY_EVENTS, int(first[group] + size[group])):
            number = int(event[position]) + state
            steps[position] = number
            state = following[number]
        after[group] = state
    return steps, after
