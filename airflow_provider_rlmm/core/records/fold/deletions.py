# SPDX-License-Identifier: Apache-2.0
"""
What deletion events, and events of others, say about whole user partitions.

Deletion events are few and depend on each other, so each is applied by itself, by
:class:`~airflow_provider_rlmm.core.records.deletion.PartitionDeletion`. What lies between them is looked up in columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from airflow_provider_rlmm.core.records.decoding.layout import Array
from airflow_provider_rlmm.core.records.deletion import PartitionDeletion
from airflow_provider_rlmm.core.records.fold.segments import Part
from airflow_provider_rlmm.core.records.fold.steps import MORE_ALIVE
from airflow_provider_rlmm.core.records.fold.store import Store
from airflow_provider_rlmm.core.records.records import OWN_BROKER_ID
from airflow_provider_rlmm.core.records.states import COPYING, RemotePartitionDeleteState

_FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
_MARKED = RemotePartitionDeleteState.DELETE_PARTITION_MARKED


@dataclass(slots=True)
class PartEvents:
    """All events of a part, one element each, in their order."""

    partition: Array  # rows of the user partitions
    metadata_partition: Array  # where the events lie
    offset: Array  # and at which offsets there
    is_deletion: Array  # whether they are partition-delete events
    state: Array  # the states that they set
    broker_id: Array  # who wrote them
    event_timestamp_ms: Array  # when, as they say
    observed_ms: Array  # the later of that and of the time of their records
    _bounds: dict[int, tuple[Array, Array]] = field(default_factory=dict)

    def part(self, some: slice) -> PartEvents:
        """Return some of the events."""
        return PartEvents(
            self.partition[some], self.metadata_partition[some], self.offset[some], self.is_deletion[some], self.state[some],
            self.broker_id[some], self.event_timestamp_ms[some], self.observed_ms[some],
        )  # fmt: skip

    def foreign(self) -> Array:
        """Return the segment events that marker and cleaner did not write; a copier's are among them, with any id."""
        copying = np.logical_or.reduce([self.state == state for state in COPYING])
        return np.flatnonzero(~self.is_deletion & ((self.broker_id != OWN_BROKER_ID) | copying))

    def time_after(self, event: int, metadata_partition: int) -> int | None:
        """
        Return the time of the first record of a metadata partition behind an event that can be relied on.

        These are the segment events of brokers, of any topic, and all events of ours. Brokers write no partition-delete
        events, so one that claims a broker's id says nothing.

        :param event: number of the event, -1 for the beginning.
        :param metadata_partition: which one.
        """
        if metadata_partition not in self._bounds:
            relied_on = (self.broker_id == OWN_BROKER_ID) | (~self.is_deletion & (self.broker_id >= 0))
            relied_on &= (self.metadata_partition == metadata_partition) & (self.observed_ms >= 0)
            at = np.flatnonzero(relied_on)
            self._bounds[metadata_partition] = at, self.observed_ms.take(at)
        at, times_ms = self._bounds[metadata_partition]
        found = int(np.searchsorted(at, event, side="right"))
        return int(times_ms[found]) if found < at.size else None


class UnfinishedAt:
    """
    Tells whether a user partition has unfinished segments right before an event of the part.

    To be made before the part's segments are settled; ``numbers`` tell which events of the part are those of segments.
    """

    def __init__(self, store: Store, part: Part, numbers: Array) -> None:
        owners = store.segments["user_partition"].take(store.alive())
        self._before = np.bincount(owners, minlength=store.partitions.size)
        order = np.argsort(part.partition, kind="stable")
        self._partition, self._numbers = part.partition.take(order), numbers.take(order)
        self._more = np.concatenate([[0], np.cumsum(MORE_ALIVE.take(part.steps.step.take(order)), dtype=np.int64)])

    def __call__(self, partition: int, event: int) -> bool:
        """Tell whether the user partition in a row has any before an event, by its number in the part."""
        first, behind = np.searchsorted(self._partition, (partition, partition + 1)).tolist()
        until = first + int(np.searchsorted(self._numbers[first:behind], event))
        return int(self._before[partition] + self._more[until] - self._more[first]) > 0


def opens_again(store: Store, events: PartEvents) -> bool:
    """Tell, before a part is applied, whether it may hold a marker for a user partition whose deletion is finished."""
    deletions = np.flatnonzero(events.is_deletion)
    if not (events.state.take(deletions) == _MARKED).any():
        return False
    return bool(
        (events.state.take(deletions) == _FINISHED).any()
        or store.partitions["was_finished"].take(events.partition.take(deletions)).any()
    )


def apply_deletions(store: Store, events: PartEvents, unfinished_at: Callable[[int, int], bool]) -> tuple[Array, Array]:
    """
    Change what a store says of whole user partitions.

    :param store: the store.
    :param events: all events of the part.
    :param unfinished_at: tells whether a user partition, by its row, has unfinished segments right before an event, by its
        number; asked only where :func:`opens_again` holds.
    :return: the numbers of the deletion events, and for each the state of the one before it, :data:`NO_DELETION` where it
        is the first one.
    """
    foreign = events.foreign()
    store.partitions.write("last_foreign_offset", events.partition.take(foreign), events.offset.take(foreign))
    _bound_what_waits(store, events)
    deletions = np.flatnonzero(events.is_deletion)
    if not deletions.size and not store.deletions:
        return deletions, deletions
    before = _states_before(store, events, deletions)
    foreign = _of_deletions(store, events, deletions, foreign)
    # What comes first is applied first: a marker observes, a foreign event makes that void.
    for event in np.sort(np.concatenate([deletions, foreign])).tolist():
        row = int(events.partition[event])
        if events.is_deletion[event]:
            _apply(store, events, event, row, partial(unfinished_at, row, event))
        elif row in store.deletions:
            store.deletions[row].forget_observations()
    _note_last(store, events, deletions)
    return deletions, before


def _states_before(store: Store, events: PartEvents, deletions: Array) -> Array:
    partition, state = events.partition.take(deletions), events.state.take(deletions)
    order = np.argsort(partition, kind="stable")
    partition, state = partition.take(order), state.take(order)
    said = store.partitions["delete_state"].take(partition)
    repeated = np.flatnonzero(partition[1:] == partition[:-1])
    said[repeated + 1] = state.take(repeated)
    before = np.empty_like(said)
    before[order] = said
    return before


def _bound_what_waits(store: Store, events: PartEvents) -> None:
    for row, deletion in store.deletions.items():
        if deletion.awaits_bound():
            time_ms = events.time_after(-1, int(store.partitions["metadata_partition"][row]))
            if time_ms is not None:
                deletion.bound_observations(time_ms)


def _of_deletions(store: Store, events: PartEvents, deletions: Array, foreign: Array) -> Array:
    """Return the last foreign event before each deletion event of its user partition, and the last one of all."""
    concerned = np.zeros(store.partitions.size, dtype=bool)
    concerned[np.fromiter(store.deletions, np.int64, len(store.deletions))] = True
    concerned[events.partition.take(deletions)] = True
    foreign = foreign.take(np.flatnonzero(concerned.take(events.partition.take(foreign))))
    both = np.sort(np.concatenate([foreign, deletions]))
    order = both.take(np.lexsort((both, events.partition.take(both))))
    partition, is_deletion = events.partition.take(order), events.is_deletion.take(order)
    last = np.ones(order.size, dtype=bool)
    last[:-1] = (partition[1:] != partition[:-1]) | is_deletion[1:]
    kept: Array = order.take(np.flatnonzero(last & ~is_deletion))
    return kept


def _apply(store: Store, events: PartEvents, event: int, row: int, has_unfinished: Callable[[], bool]) -> None:
    deletion = store.deletions.get(row)
    if deletion is None:
        was_finished = bool(store.partitions["was_finished"][row])
        deletion = PartitionDeletion(delete_state=_FINISHED if was_finished else None)
    state = RemotePartitionDeleteState(int(events.state[event]))
    ours = int(events.broker_id[event]) == OWN_BROKER_ID
    deletion.apply_deletion(
        state, int(events.offset[event]), int(events.observed_ms[event]), ours=ours, has_unfinished=has_unfinished
    )
    if deletion.awaits_bound():
        time_ms = events.time_after(event, int(events.metadata_partition[event]))
        if time_ms is not None:
            deletion.bound_observations(time_ms)
    if deletion.deletion_under_way():
        store.deletions[row] = deletion
    else:
        store.deletions.pop(row, None)
    if state is _FINISHED:
        store.partitions.write("was_finished", np.array([row]), True)


def _note_last(store: Store, events: PartEvents, deletions: Array) -> None:
    partition = events.partition.take(deletions)
    store.partitions.write("delete_state", partition, events.state.take(deletions))
    store.partitions.write("delete_offset", partition, events.offset.take(deletions))
    store.partitions.write("delete_event_timestamp_ms", partition, events.event_timestamp_ms.take(deletions))
    store.partitions.write("delete_broker_id", partition, events.broker_id.take(deletions))
