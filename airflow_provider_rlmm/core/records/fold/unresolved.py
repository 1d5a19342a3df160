# SPDX-License-Identifier: Apache-2.0
"""
Segments whose state is not certain: an update came without its add or without the update before it, or an event that a
broker's state machine throws at.

They are few, so they are kept one by one. The rules are those of
:class:`~airflow_provider_rlmm.core.records.history.UserPartitionHistory`, with one difference: where finished segments
are not kept, an update of one is taken for an update without its add.
"""

from __future__ import annotations

import numpy as np

from airflow_provider_rlmm.core.records.decoding.layout import Array
from airflow_provider_rlmm.core.records.fold.segments import ADDED, Part
from airflow_provider_rlmm.core.records.fold.steps import THROWN
from airflow_provider_rlmm.core.records.fold.store import DEAD, Store, Uncertain
from airflow_provider_rlmm.core.records.outcomes import EventFate
from airflow_provider_rlmm.core.records.records import NOT_SAID


def note_unresolved(store: Store, part: Part, api_state: Array) -> None:
    """Note what becomes uncertain, and what becomes certain again. To be called before the segments are settled."""
    steps = part.steps
    unknown, thrown = _never_added(store, part), steps.with_outcome(THROWN)
    skipping = _skipping(part, api_state)
    ends = api_state.take(unknown) == DEAD
    doubtful = np.concatenate([unknown.take(np.flatnonzero(~ends)), thrown, skipping])
    if not doubtful.size and not store.unresolved:
        return
    events = np.concatenate([doubtful, unknown.take(np.flatnonzero(ends)), _adds_of(store, part, doubtful)])
    is_thrown = np.zeros(steps.step.size, dtype=bool)
    is_thrown[thrown] = True
    is_skipping = np.zeros(steps.step.size, dtype=bool)
    is_skipping[skipping] = True
    is_add, known = steps.step == ADDED, store.keep_finished
    for event in np.sort(events).tolist():
        group, offset = int(steps.group[event]), int(part.offset[event])
        key = (int(part.partition[event]), int(steps.high[group]), int(steps.low[group]))
        before = store.unresolved.get(key)
        if is_thrown[event] or is_skipping[event]:
            without_add = before is not None and before.without_add
            # One that skips a step is of a segment that is here.
            finished_known = known or bool(is_skipping[event])
            store.unresolved[key] = Uncertain(offset, without_add, for_good=True, finished_known=finished_known)
        elif before is not None and before.for_good:
            continue
        elif is_add[event]:
            # Its add is there now, and it is not known what the events before it were about.
            if before is not None:
                store.unresolved[key] = before._replace(for_good=True)
        elif int(api_state[event]) == DEAD:
            # It is deleted now: nothing is left to resolve.
            store.unresolved.pop(key, None)
        else:
            store.unresolved[key] = Uncertain(offset, without_add=True, for_good=False, finished_known=known)


def _skipping(part: Part, api_state: Array) -> Array:
    """
    Return the updates that finish a segment whose deletion was not started, where the log cleaner may have taken the one
    that did: :func:`~airflow_provider_rlmm.core.records.history.ends_what_may_be_compacted`.
    """
    dropped = part.steps.with_outcome(EventFate.DROPPED_INVALID_TRANSITION)
    if not part.fields.compared or not dropped.size:
        return np.empty(0, np.int64)
    said = part.fields.compared["end_offset"].take(part.rows.take(dropped)) != NOT_SAID
    return dropped.take(np.flatnonzero(said & (api_state.take(dropped) == DEAD)))


def _never_added(store: Store, part: Part) -> Array:
    """Return the updates of segments that are not known, or not any more where finished ones are not kept."""
    steps = part.steps
    unknown = steps.with_outcome(EventFate.DROPPED_UNKNOWN_SEGMENT)
    if store.keep_finished and unknown.size:
        group = steps.group.take(unknown)
        opened = _first_of(part, steps.at(ADDED)).take(group)
        unknown = unknown.take(np.flatnonzero((steps.row.take(group) < 0) & (opened > unknown)))
    return unknown


def _first_of(part: Part, events: Array) -> Array:
    """Return for each segment the first of some events; where it has none, a number behind all events."""
    first = np.full(part.steps.row.size, part.steps.step.size, np.int64)
    first[part.steps.group.take(events[::-1])] = events[::-1]
    return first


def _adds_of(store: Store, part: Part, doubtful: Array) -> Array:
    """Return the events that open the life of a segment which is uncertain, or becomes so in this part."""
    steps = part.steps
    added = steps.at(ADDED)
    if not added.size:
        return added
    wanted = np.zeros(steps.row.size, dtype=bool)
    wanted[steps.group.take(doubtful)] = True
    if store.unresolved:
        opened = np.zeros(steps.row.size, dtype=bool)
        opened[steps.group.take(added)] = True
        groups = np.flatnonzero(opened)
        groups = groups.take(store.may_be_uncertain(steps.low.take(groups)))
        keys = (column.take(groups) for column in (steps.user_partition, steps.high, steps.low))
        wanted[groups.take(np.flatnonzero(store.are_uncertain(*keys)))] = True
    return added.take(np.flatnonzero(wanted.take(steps.group.take(added))))
