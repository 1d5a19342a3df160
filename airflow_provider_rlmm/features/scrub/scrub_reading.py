# SPDX-License-Identifier: Apache-2.0
"""The metadata topic as a scrub reads it: what is not finished, and all that is said of the segments that were listed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_rlmm.core.base.arrow_arrays import array_of
from airflow_provider_rlmm.core.base.arrow_groups import groups_of
from airflow_provider_rlmm.core.base.arrow_ids import IdSet
from airflow_provider_rlmm.core.base.clock import Clock
from airflow_provider_rlmm.core.base.errors import EventLogUnavailableError, MetadataError
from airflow_provider_rlmm.core.log.protocol import ClusterTopics, MetadataLogReader
from airflow_provider_rlmm.core.log.topic_state import TopicState
from airflow_provider_rlmm.core.records.era import Era
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.world.named_prefixes import NamedPrefixes
from airflow_provider_rlmm.features.scrub.log_view import LogView

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.core.records.columnar import ApplyReport, ColumnarState
    from airflow_provider_rlmm.core.records.fold.living import LivingSegments

_CHUNK_ROWS: Final = 20_000
"""Records that are decoded at once: fewer than elsewhere, as what was listed is in memory, too."""


class ScrubReading:
    """
    One read of the log from its beginning, which may be read on.

    :param log: the log.
    :param topics: the cluster.
    :param clock: time.
    :param segment_ids: ids of the segments that were listed.
    :param layout: knows the key prefixes of the connection; ``None`` looks for no others.
    :param known_prefixes: key prefixes that records named which the log may have lost.
    :raises ClusterMismatchError: if log and topics are of different clusters.
    :raises EventLogError: if the log cannot be read.
    """

    def __init__(
        self,
        log: MetadataLogReader,
        topics: ClusterTopics,
        clock: Clock,
        segment_ids: IdSet,
        layout: Layout | None = None,
        known_prefixes: Collection[str] = (),
    ) -> None:
        from airflow_provider_rlmm.core.records.columnar import ColumnarState

        self.state = TopicState(log, topics, clock=clock, chunk_rows=_CHUNK_ROWS)
        self.clock = clock
        self.losses = log.losses
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`."""
        self.records = 0
        self._listed = segment_ids
        self.prefixes = None if layout is None else NamedPrefixes(layout, set(known_prefixes))
        """The key prefixes that records name."""
        # Of finished segments only the listed ones are remembered: there may be many more.
        self._of_listed: ColumnarState | None = ColumnarState.empty(keep_finished=True)
        self._mentioned = IdSet()

    def read(self, ends: Mapping[int, int]) -> None:
        """
        Read on.

        :param ends: metadata partition → offset, exclusive, up to which at least.
        :raises EventLogUnavailableError: if it cannot be read that far.
        :raises EventLogError: if it cannot be read, or is not the log that was read before.
        """
        self.state.advance(on_applied=self._note)
        for number, end in ends.items():
            if self.state.next_offsets[number] < end:
                raise EventLogUnavailableError(
                    f"metadata partition {number} was to be read up to offset {end} and ends at "
                    f"{self.state.next_offsets[number]}: it is still catching up or has lost records; scrub again"
                )

    def _note(self, decoded: Any, _: ApplyReport) -> None:
        self.records += decoded.num_rows
        if self.prefixes is not None:
            self.prefixes.note(decoded)
        # Those few that are taken for one of them cost some bytes, and nothing is said of them.
        mine = decoded.filter(array_of(self._listed.holds(decoded.column("segment_id"))))
        if mine.num_rows:
            self._mentioned.add(mine.column("segment_id"))
            self._of_listed, _report = self._kept.apply(mine)

    def forgotten_prefixes(self) -> list[str]:
        """
        Return the key prefixes that only finished segments name, and that the connection does not. Of the others each segment
        is told as what cannot be found.
        """
        unfinished = self.state.state.living().table(slice(None), ["custom_metadata"]).column("custom_metadata")
        return [] if self.prefixes is None else self.prefixes.foreign(unfinished)

    def names(self) -> frozenset[tuple[bytes, str]]:
        """Return every topic id that the log names, with every name."""
        columns = (self.state.state.user_partitions[name].to_pylist() for name in ("topic_id", "topic"))
        return frozenset(zip(*columns, strict=True))

    def last_view(self, before: Mapping[int, int], copying_since_ms: int) -> LogView:
        """
        Return what the log says of all segments. Nothing is read on after that: what was kept of the listed ones is let go.

        :param before: W1: metadata partition → offset, exclusive.
        :param copying_since_ms: a copy that began before that should have ended, ms since the epoch.
        """
        # Let go first: what follows takes memory, too.
        finished, self._of_listed = self._kept.finished_segments, None
        return self._view(self.state.state.living(), finished, before, copying_since_ms)

    def view_of_listed(self, before: Mapping[int, int], copying_since_ms: int) -> LogView:
        """
        Return what the log says of the listed segments: enough to tell what an object is.

        :param before: as of :meth:`last_view`.
        :param copying_since_ms: likewise.
        """
        return self._view(self._kept.living(), self._kept.finished_segments, before, copying_since_ms)

    def _view(
        self, segments: LivingSegments, finished: pa.Table, before: Mapping[int, int], copying_since_ms: int
    ) -> LogView:
        names = ["topic_id", "topic"]
        return LogView(
            segments=segments,
            finished=finished,
            names=groups_of(self.state.state.user_partitions.select(names), names).keys(names),
            mentioned=self._mentioned,
            before=before,
            doubtful=frozenset(self.doubtful),
            closed=frozenset(number for number, lost in self.losses.items() if lost.is_open),
            copying_since_ms=copying_since_ms,
        )

    @property
    def _kept(self) -> ColumnarState:
        """What is known of the listed segments."""
        if self._of_listed is None:
            raise MetadataError("nothing is read on after the last view")
        return self._of_listed

    @property
    def doubtful(self) -> dict[int, str]:
        """Metadata partition → why what it does not say proves nothing."""
        found = {number: lost.why for number, lost in self.losses.items()}
        for gap in self.state.gaps:
            found.setdefault(gap.metadata_partition, str(gap))
        if (era := self.state.era).era is Era.COMPACTED:
            found |= dict.fromkeys(self.state.next_offsets.keys() - found.keys(), f"the metadata topic is {era}")
        for hole in self.state.holes:
            found.setdefault(hole.metadata_partition, hole.why)
        for record in self.state.quarantined:
            found.setdefault(record.metadata_partition, str(record))
        return found
