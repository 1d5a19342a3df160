# SPDX-License-Identifier: Apache-2.0
"""The metadata topic as a scrub reads it: what is not finished, and all that is said of the segments that were listed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.core.base.clock import Clock
from airflow_provider_rlmm.core.base.errors import EventLogUnavailableError
from airflow_provider_rlmm.core.log.protocol import ClusterTopics, MetadataLogReader
from airflow_provider_rlmm.core.log.topic_state import TopicState
from airflow_provider_rlmm.core.records.era import Era
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.world.named_prefixes import NamedPrefixes
from airflow_provider_rlmm.features.scrub.rules import LogView

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.core.records.columnar import ApplyReport


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
        segment_ids: pa.Array,
        layout: Layout | None = None,
        known_prefixes: Collection[str] = (),
    ) -> None:
        from airflow_provider_rlmm.core.records.columnar import ColumnarState

        self.state = TopicState(log, topics, clock=clock)
        self.clock = clock
        self.losses = log.losses
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`."""
        self.records = 0
        self._listed = segment_ids
        self.prefixes = None if layout is None else NamedPrefixes(layout, set(known_prefixes))
        """The key prefixes that records name."""
        # Of finished segments only the listed ones are remembered: there may be many more.
        self._of_listed = ColumnarState.empty(keep_finished=True)
        self._mentioned: list[Any] = []

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
        import pyarrow.compute as pc

        self.records += decoded.num_rows
        if self.prefixes is not None:
            self.prefixes.note(decoded)
        mine = decoded.filter(pc.is_in(decoded.column("segment_id"), value_set=self._listed))
        if mine.num_rows:
            self._mentioned.append(pc.unique(mine.column("segment_id")))
            self._of_listed, _report = self._of_listed.apply(mine)

    def forgotten_prefixes(self) -> list[str]:
        """
        Return the key prefixes that only finished segments name, and that the connection does not. Of the others each segment
        is told as what nobody can find.
        """
        unfinished = self.state.state.segments["custom_metadata"]
        return [] if self.prefixes is None else self.prefixes.foreign(unfinished)

    def names(self) -> frozenset[tuple[bytes, str]]:
        """Return every topic id that the log names, with every name."""
        columns = (self.state.state.user_partitions[name].to_pylist() for name in ("topic_id", "topic"))
        return frozenset(zip(*columns, strict=True))

    def view(self, before: Mapping[int, int], copying_since_ms: int) -> LogView:
        """
        Return what the log says.

        :param before: W1: metadata partition → offset, exclusive.
        :param copying_since_ms: a copy that began before that should have ended, ms since the epoch.
        """
        return replace(self.view_of_listed(before, copying_since_ms), segments=self.state.state.segments)

    def view_of_listed(self, before: Mapping[int, int], copying_since_ms: int) -> LogView:
        """
        Return what the log says of the listed segments: enough to tell what an object is.

        :param before: see :meth:`view`.
        :param copying_since_ms: see :meth:`view`.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        mentioned = [pc.unique(found).cast(pa.binary()) for found in self._mentioned]
        return LogView(
            segments=self._of_listed.segments,
            finished=self._of_listed.finished_segments,
            user_partitions=self.state.state.user_partitions,
            mentioned=pa.chunked_array(mentioned, pa.binary()).combine_chunks(),
            before=before,
            doubtful=frozenset(self.doubtful),
            closed=frozenset(number for number, lost in self.losses.items() if lost.is_open),
            copying_since_ms=copying_since_ms,
        )

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
