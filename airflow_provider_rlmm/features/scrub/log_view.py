# SPDX-License-Identifier: Apache-2.0
"""What the log says, as a scrub asks it: of all segments, and of those that some objects belong to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, numpy_of
from airflow_provider_rlmm.core.base.arrow_ids import IdSet, RowsOfIds, folded
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from airflow_provider_rlmm.core.records.fold.living import LivingSegments

    Array = NDArray[Any]

SEGMENT_KEYS = ["topic_id", "partition", "segment_id"]
"""Columns that name a segment."""

_OF_ALL: Final = ("topic", "metadata_partition", "event_offset")
_OF_UNFINISHED: Final = ("event_timestamp_ms", "state")
_FINISHED: Final = int(RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)


@dataclass(frozen=True, slots=True)
class LogView:
    """
    What the log says up to W2, or later.

    :param segments: the segments that are not finished, where a columnar state has them.
    :param finished: the finished ones of those that were listed, table ``finished_segments``.
    :param names: ``topic_id`` and ``topic``, each pair once: every topic id that the log names, with every name.
    :param mentioned: ids of the listed segments that any record is about, of use or not.
    :param before: W1: metadata partition → offset, exclusive.
    :param doubtful: metadata partitions with a lost beginning or end, or with records that cannot be applied.
    :param closed: those of which nothing is believed: they lost what earlier runs had read, and that is not confirmed.
    :param copying_since_ms: a copy that began before that should have ended, ms since the epoch.
    """

    segments: LivingSegments
    finished: pa.Table
    names: pa.Table
    mentioned: IdSet
    before: Mapping[int, int]
    doubtful: Collection[int]
    copying_since_ms: int
    closed: Collection[int] = frozenset()


class LogIndex:
    """
    A view of which a part is asked for at a time: 12 bytes of memory for each of its segments.

    :param view: the whole view.
    """

    def __init__(self, view: LogView) -> None:
        self._view = view
        every = slice(None)
        self._unfinished = RowsOfIds(view.segments.numbers("high", every) ^ view.segments.numbers("low", every))
        self._finished = RowsOfIds(folded(view.finished.column("segment_id")))

    def rows_of(self, listed: pa.Table) -> Array:
        """
        Return of each object the number of its segment among those that are not finished, -1 where it is none of them.

        :param listed: with :data:`SEGMENT_KEYS`, null where an object is of no segment.
        """
        return _matching(listed, self._unfinished, lambda rows: self._view.segments.table(rows, SEGMENT_KEYS))

    def said_of(self, listed: pa.Table, segments: Array) -> pa.Table:
        """
        Return what the log says of the segment of each object; all is null where it does not name it.

        :param listed: as of :meth:`rows_of`.
        :param segments: what it returned.
        :return: ``topic``, ``metadata_partition``, ``event_offset`` and ``state``, and where it is not finished
            ``event_timestamp_ms``; a row for each object.
        """
        import numpy as np
        import pyarrow as pa

        finished = _matching(listed, self._finished, lambda rows: self._view.finished.take(array_of(rows)))
        known, dead = np.flatnonzero(segments >= 0), np.flatnonzero((finished >= 0) & (segments < 0))
        alive = self._view.segments.table(segments.take(known), (*_OF_ALL, *_OF_UNFINISHED))
        ended = self._view.finished.select(_OF_ALL).take(array_of(finished.take(dead)))
        state, time = (alive.schema.field(name).type for name in ("state", "event_timestamp_ms"))
        ended = ended.append_column("state", array_of(np.full(dead.size, _FINISHED), state))
        ended = ended.append_column("event_timestamp_ms", pa.nulls(dead.size, time))
        where = np.full(listed.num_rows, -1, np.int64)
        where[np.concatenate([known, dead])] = np.arange(known.size + dead.size)
        said = pa.concat_tables([alive.select(ended.schema.names), ended.cast(alive.select(ended.schema.names).schema)])
        return said.take(array_of(where, nulls=where < 0))


def _matching(listed: pa.Table, index: RowsOfIds, keys_at: Callable[[Array], pa.Table]) -> Array:
    """Return of each object the row of its segment, -1 where there is none: ids are compared whole."""
    import numpy as np
    import pyarrow.compute as pc

    ids = listed.column("segment_id")
    at = np.flatnonzero(numpy_of(pc.is_valid(ids)))
    which, rows = index.candidates(ids)
    mine, theirs = listed.select(SEGMENT_KEYS).take(array_of(at.take(which))), keys_at(rows)
    same = np.ones(rows.size, bool)
    for name in SEGMENT_KEYS:
        same &= numpy_of(pc.equal(mine.column(name), theirs.column(name)))
    found = np.full(listed.num_rows, -1, np.int64)
    found[at.take(which[same])] = rows[same]
    return found
