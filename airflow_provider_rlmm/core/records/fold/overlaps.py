# SPDX-License-Identifier: Apache-2.0
"""
Which user partitions have copied segments that finished ones lay over.

A broker lists the segments of a leader epoch by the offsets at which the epoch begins in them. Where two have the same one,
the later copy may take the place of the earlier, which no leader finds from then on, even when the later one is gone
(``RemoteLogLeaderEpochState``). Of a finished segment the epochs are no longer known: it may have taken the place of each
that it lay over.
"""

from __future__ import annotations

import numpy as np

from airflow_provider_rlmm.core.records.decoding.layout import Array
from airflow_provider_rlmm.core.records.fold.store import DEAD, Store
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S

_LOOKED_AT_ONCE = 1 << 18


def finished_over(store: Store, rows: Array, first: Array) -> Array:
    """
    Return of each user partition whether a copied segment of it shares an offset with one that was finished after that was
    added.

    :param store: the store; where it forgets finished segments, these count for nothing.
    :param rows: its segments that are not finished, user partition by user partition, each by start offset.
    :param first: where each user partition begins among them.
    """
    found = np.zeros(first.size, bool)
    number = np.repeat(np.arange(first.size), np.diff(first, append=rows.size))
    copied = np.flatnonzero(store.segments["state"].take(rows) == S.COPY_SEGMENT_FINISHED)
    _note_finished(store, rows.take(copied), number.take(copied), found)
    return found


def _note_finished(store: Store, rows: Array, number: Array, found: Array) -> None:
    """Note the user partitions in which a finished segment lay over one of these; both are by partition and start offset."""
    if not rows.size:
        return
    segments = store.segments
    begins = np.flatnonzero(np.diff(number, prepend=-1))
    start, end, added = (segments[name].take(rows) for name in ("start_offset", "end_offset", "added_offset"))
    least_start, least_added = np.minimum.reduceat(start, begins), np.minimum.reduceat(added, begins)
    most_end = np.maximum.reduceat(end, begins)
    group_of = np.full(store.partitions.size, -1, np.int32)
    group_of[segments["user_partition"].take(rows.take(begins))] = np.arange(begins.size)
    for at in range(0, segments.size, _LOOKED_AT_ONCE):
        some = slice(at, min(at + _LOOKED_AT_ONCE, segments.size))
        group = group_of.take(segments["user_partition"][some])
        maybe = np.flatnonzero((segments["state"][some] == DEAD) & (group >= 0))
        group = group.take(maybe)
        begin, finish, gone = (
            segments[name][some].take(maybe) for name in ("start_offset", "end_offset", "event_offset")
        )
        # Retention takes the oldest first: almost all that is finished lies below all that is there.
        over = (begin <= most_end.take(group)) & (finish >= least_start.take(group)) & (gone > least_added.take(group))
        for index in np.flatnonzero(over).tolist():
            mine = slice(int(begins[group[index]]), _end_of(begins, int(group[index]), rows.size))
            if found[number[mine.start]]:
                continue
            shares = (start[mine] <= finish[index]) & (end[mine] >= begin[index]) & (added[mine] < gone[index])
            found[number[mine.start]] = bool(shares.any())


def _end_of(begins: Array, group: int, size: int) -> int:
    return int(begins[group + 1]) if group + 1 < begins.size else size
