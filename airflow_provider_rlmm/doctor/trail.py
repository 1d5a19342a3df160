# SPDX-License-Identifier: Apache-2.0
"""At which offsets the events lie that made the unfinished segments what they are; the state itself keeps no offsets."""

from __future__ import annotations

from typing import Any

from airflow_provider_rlmm.doctor.finding_rows import among
from airflow_provider_rlmm.metadata.serde import SEGMENT_API_KEY, SEGMENT_UPDATE_API_KEY
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState

PRUNE_ROWS = 1_000_000
"""Rows, 60 MB or so, that may come together before those of finished segments are dropped."""

_SUBJECT = ["metadata_partition", "topic_id", "partition", "segment_id"]
_COLUMNS = [*_SUBJECT, "offset", "state", "api_key"]
_STATES = (RemoteLogSegmentState.COPY_SEGMENT_STARTED, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)


class Trail:
    """
    The offsets of COPY_SEGMENT_STARTED and DELETE_SEGMENT_STARTED events.

    :param prune_rows: how many may come together before those of finished segments are dropped.
    """

    def __init__(self, prune_rows: int = PRUNE_ROWS) -> None:
        self._prune_rows = prune_rows
        self._limit = prune_rows
        self._rows = 0
        self._tables: list[Any] = []

    def note(self, applied: Any) -> None:
        """
        Take the events of a chunk.

        :param applied: rows of ``decode`` that were applied, as a table.
        """
        import pyarrow.compute as pc

        of_segments = among(applied, "api_key", (SEGMENT_API_KEY, SEGMENT_UPDATE_API_KEY))
        table = applied.filter(pc.and_(of_segments, among(applied, "state", _STATES))).select(_COLUMNS)
        self._tables.append(table)
        self._rows += table.num_rows

    @property
    def full(self) -> bool:
        """Whether it is time to :meth:`prune`."""
        return self._rows > self._limit

    def prune(self, segments: Any) -> None:
        """
        Forget finished segments.

        :param segments: the state's table after all that was noted.
        """
        kept = self._of(segments)
        self._tables, self._rows = [kept], kept.num_rows
        # Where most segments live, pruning at every chunk would find nothing to drop.
        self._limit = 2 * kept.num_rows + self._prune_rows

    def last_offsets(self, segments: Any) -> list[int | None]:
        """
        Return the offset of the last event of each segment that is in a STARTED state.

        :param segments: rows of the state's table, few.
        """
        found: dict[tuple[Any, ...], int] = {}
        for row in self._of(segments).to_pylist():
            key = (*(row[name] for name in _SUBJECT), row["state"])
            found[key] = max(row["offset"], found.get(key, -1))
        return [found.get((*(row[name] for name in _SUBJECT), row["state"])) for row in segments.to_pylist()]

    def first_seen_before(self, segments: Any, metadata_partition: int, offset: int) -> Any:
        """
        Return the unfinished segments whose first event lies below an offset.

        :param segments: the state's table.
        :param metadata_partition: which one.
        :param offset: exclusive.
        :return: their rows: ``metadata_partition``, ``topic_id``, ``topic``, ``partition``, ``segment_id`` and
            ``segment_size_in_bytes``.
        """
        import pyarrow.compute as pc

        mine = segments.filter(pc.equal(segments.column("metadata_partition"), metadata_partition))
        mine = mine.select([*_SUBJECT, "topic", "segment_size_in_bytes"])
        rows = self._of(mine)
        if not rows.num_rows:
            return mine.slice(0, 0)
        first = rows.filter(pc.and_(pc.equal(rows["api_key"], SEGMENT_API_KEY), pc.less(rows["offset"], offset)))
        return mine.join(first.select(_SUBJECT), keys=_SUBJECT, join_type="left semi")

    def _of(self, segments: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = pa.concat_tables(self._tables) if self._tables else pa.schema([]).empty_table()
        if not rows.num_rows:
            return rows
        return rows.filter(pc.is_in(rows["segment_id"], value_set=segments.column("segment_id").combine_chunks()))
