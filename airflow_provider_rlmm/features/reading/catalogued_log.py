# SPDX-License-Identifier: Apache-2.0
"""
A topic as a catalogue has it: by which lineage each user partition is read, and what stands in the way of a range.

The metadata topic says of every segment what became of it. A catalogue does not, so here each range is looked at whole before
the first record of it is read: what is not there is named, and nothing is read around it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import (
    CatalogueError,
    DamagedObjectError,
    OffsetNotInRemoteLogError,
    RemoteObjectNotFoundError,
    UnsupportedMessageFormatError,
)
from airflow_provider_rlmm.core.base.given import argument
from airflow_provider_rlmm.core.plans.catalogue_rows import RowKind
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint, is_remote_segment_within_leader_epochs
from airflow_provider_rlmm.core.segments.read_range import OffsetRange, ReadIsolation, ReadRange
from airflow_provider_rlmm.features.reading.catalogue_rules import (
    PartitionRows,
    Unreadable,
    contradictions,
    shared_ranges,
)
from airflow_provider_rlmm.features.reading.steps import RemoteLogOfTopic

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.log.known_segments import KnownSegments
    from airflow_provider_rlmm.features.reading.catalogued_storage import CataloguedStorage
    from airflow_provider_rlmm.features.reading.reader import RemoteLogReader

_MAX_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Lineage:
    """A lineage of a user partition, and the segment that keeps it."""

    kept_by: RemoteLogSegmentMetadata  # the segment
    checkpoint: LeaderEpochCheckpoint | None  # ``None`` where it cannot be read
    why: str = ""  # it cannot be read

    def __str__(self) -> str:
        segment = kafka_uuid_str(self.kept_by.remote_log_segment_id.id)
        return f"the one that segment {segment} keeps, up to leader epoch {self.kept_by.segment_leader_epochs[-1][0]}"


class CataloguedLog(RemoteLogOfTopic):
    """
    What a catalogue has of one topic.

    A user partition is read by the lineage with the highest last leader epoch among those that cover the range. Which one
    that is, is known once :meth:`offsets` was asked; before, it is the one with the highest last leader epoch of all.

    :param reader: reads it.
    :param known_segments: knows its segments.
    :param partitions: its user partitions.
    :param rows: user partition → what the catalogue says of it, of all that it names.
    :param cluster_id: the cluster whose segments these are.
    :param storage: has the files of its segments, as the catalogue names them.
    :param named: segments whose lineages are to be read, as a person names them.
    :param unseen: why there may be segments that the catalogue does not name; ``None`` where it names all.
    :param or_doubtful: whether what a person should decide is read by the rule and said; it is refused otherwise.
    """

    def __init__(
        self,
        reader: RemoteLogReader,
        known_segments: KnownSegments,
        partitions: Collection[TopicIdPartition],
        rows: Mapping[int, PartitionRows],
        *,
        cluster_id: str,
        storage: CataloguedStorage,
        named: Collection[UUID] = (),
        unseen: str | None = None,
        or_doubtful: bool = False,
    ) -> None:
        super().__init__(reader, known_segments, partitions)
        self.cluster_id = cluster_id
        self.storage = storage
        self._rows = rows
        self._unseen = unseen
        self._or_doubtful = or_doubtful
        self._lineages_by_name = self._named_segments(named)
        self._all_lineages: dict[TopicIdPartition, list[Lineage]] = {}

    @property
    def named(self) -> Mapping[int, Sequence[tuple[UUID, int, int]]]:
        """User partition → its whole segments that were not erased, with their offsets, inclusive; of the whole topic."""
        return {number: rows.named for number, rows in self._rows.items()}

    def encrypted(self, tip: TopicIdPartition) -> Sequence[Unreadable]:
        """Return the segments of a user partition that only brokers with the key could read."""
        return [one for one in self._rows[tip.partition].unreadable if one.encrypted]

    def lineage(self, tip: TopicIdPartition) -> LeaderEpochCheckpoint | None:
        """See :class:`~airflow_provider_rlmm.features.reading.steps.RemoteLogOfTopic`."""
        if tip not in self._lineages and (lineages := self._candidates(tip)):
            self._lineages[tip] = self._readable(lineages[0])
        return self._lineages.get(tip)

    def offsets(
        self, tip: TopicIdPartition, wanted: ReadRange, isolation: ReadIsolation, *, allow_incomplete: bool = False
    ) -> OffsetRange | None:
        """
        See :class:`~airflow_provider_rlmm.features.reading.steps.RemoteLogOfTopic`; what was decided is said.

        :raises OffsetNotInRemoteLogError: also if a segment of the range cannot be read; it is named.
        :raises CatalogueError: if a person should decide by what is read.
        """
        lineages = self._candidates(tip)
        refused: OffsetNotInRemoteLogError | None = None
        for lineage in lineages:
            if lineage.checkpoint is None and refused is not None:
                continue
            self._lineages[tip] = self._readable(lineage)
            try:
                found = self._resolved(tip, wanted, isolation, allow_incomplete=allow_incomplete)
                left_out = self._require_covered(tip, wanted, found, allow_incomplete=allow_incomplete)
            except OffsetNotInRemoteLogError as e:
                refused = refused or e
                continue
            self._say(tip, lineage, found, refused, left_out)
            return found
        if refused is not None:
            self._lineages[tip] = self._readable(lineages[0])
            raise refused
        left_out = self._require_covered(tip, wanted, None, allow_incomplete=allow_incomplete)
        self._say_left_out(tip, left_out)
        return super().offsets(tip, wanted, isolation, allow_incomplete=allow_incomplete)

    def parts(self, tip: TopicIdPartition, wanted: ReadRange) -> tuple[tuple[OffsetRange, ...], tuple[str, ...]]:
        """
        Return what there is of a range, round holes and round what cannot be read.

        By the lineage with the highest last leader epoch, or the one that a person names: an older one may have other records
        at the same offsets, so it fills no hole.

        :param tip: the user partition.
        :param wanted: the range.
        :return: offsets that can be read, each range without a gap; and what is missing before, between and behind them or
            may be, each a sentence. Gaps between two ranges are told by the ranges alone.
        :raises CatalogueError: if a person should decide by what is read.
        """
        found, lineages = None, self._candidates(tip)
        if lineages:
            self._lineages[tip] = self._readable(lineages[0])
            found = super().offsets(tip, wanted, ReadIsolation.READ_UNCOMMITTED, allow_incomplete=True)
            self._say(tip, lineages[0], found, None, ())
        served, missing = self._served(tip, wanted, found)
        low = None if wanted.start_ms is not None else wanted.start_offset
        missing += _beyond(wanted, self.bounds(tip))
        missing += map(str, self._missing(tip, low, wanted.end_offset))
        if self._unseen is not None and (low is None or wanted.end_offset is None):
            missing.append(self._unseen)
        return served, tuple(f"partition {tip.partition}: {why}" for why in missing)

    def _served(
        self, tip: TopicIdPartition, wanted: ReadRange, found: OffsetRange | None
    ) -> tuple[tuple[OffsetRange, ...], list[str]]:
        """Return what of some offsets can be read; and what is missing before and behind that, each a sentence."""
        bounds, lineage = self.bounds(tip), self.lineage(tip)
        if found is None or bounds is None or lineage is None:
            return (), []
        extent, by_time = self.reader.extent(tip, lineage), wanted.start_ms is not None
        served = tuple(extent.parts(found))
        # The first record of a time may lie in a hole before the first one that is found.
        begin = bounds.start if by_time else found.start
        known = [
            OffsetRange(begin, begin),
            *extent.parts(OffsetRange(begin, found.end)),
            OffsetRange(found.end, found.end),
        ]
        holes = [
            OffsetRange(earlier.end, later.start) for earlier, later in pairwise(known) if earlier.end < later.start
        ]
        return served, [
            f"no segment that can be read holds offsets {hole.start} to {hole.end - 1}"
            + (", which may be of that time or later" if by_time and hole.end <= found.start else "")
            for hole in holes
            if not served or hole.end <= served[0].start or hole.start >= served[-1].end
        ]

    def _resolved(
        self, tip: TopicIdPartition, wanted: ReadRange, isolation: ReadIsolation, *, allow_incomplete: bool
    ) -> OffsetRange | None:
        """Return the offsets that a range means; what it lacks is named where a segment that cannot be read may have it."""
        try:
            return super().offsets(tip, wanted, isolation, allow_incomplete=allow_incomplete)
        except OffsetNotInRemoteLogError:
            self._require_covered(tip, wanted, None, allow_incomplete=allow_incomplete)
            raise

    # --- lineages ---------------------------------------------------------------------------------------------------

    def _named_segments(self, named: Collection[UUID]) -> dict[TopicIdPartition, RemoteLogSegmentMetadata]:
        found: dict[TopicIdPartition, RemoteLogSegmentMetadata] = {}
        left = set(named)
        for tip in self.partitions:
            for metadata in self.segments(tip):
                if (segment_id := metadata.remote_log_segment_id.id) in left:
                    if tip in found:
                        raise CatalogueError(f"two lineages are named for {tip}: name one of them")
                    left.discard(segment_id)
                    found[tip] = metadata
        if left:
            shown = ", ".join(sorted(map(kafka_uuid_str, left)))
            raise CatalogueError(
                f"no segment {shown} of what is read can be read: a lineage is named by a segment that keeps it"
            )
        return found

    def _candidates(self, tip: TopicIdPartition) -> list[Lineage]:
        """Return the lineages of a user partition, the highest last leader epoch first; the named one alone, where one is."""
        if tip not in self._all_lineages:
            named = self._lineages_by_name.get(tip)
            self._all_lineages[tip] = [self._lineage_of(named)] if named else list(self._each_lineage(tip))
        return self._all_lineages[tip]

    def _each_lineage(self, tip: TopicIdPartition) -> Iterator[Lineage]:
        from airflow_provider_rlmm.features.reading.reader import age_of

        left = sorted(self.segments(tip), key=age_of, reverse=True)
        while left:
            yield (lineage := self._lineage_of(left[0]))
            kept_by, checkpoint = lineage.kept_by, lineage.checkpoint or LeaderEpochCheckpoint()
            end = kept_by.end_offset + 1
            left = [m for m in left[1:] if not is_remote_segment_within_leader_epochs(m, end, checkpoint)]

    def _lineage_of(self, metadata: RemoteLogSegmentMetadata) -> Lineage:
        try:
            return Lineage(metadata, self.reader.lineage_of(metadata))
        except (CatalogueError, DamagedObjectError, RemoteObjectNotFoundError, UnsupportedMessageFormatError) as e:
            return Lineage(metadata, None, str(e))

    def _readable(self, lineage: Lineage) -> LeaderEpochCheckpoint:
        if lineage.checkpoint is None:
            raise CatalogueError(
                f"the lineage of {lineage.kept_by.remote_log_segment_id.topic_id_partition} cannot be read, {lineage}: "
                f"{lineage.why}. Name another segment of it that keeps its lineage, by {argument('lineages')}"
            )
        return lineage.checkpoint

    # --- what stands in the way -------------------------------------------------------------------------------------

    def _require_covered(
        self, tip: TopicIdPartition, wanted: ReadRange, found: OffsetRange | None, *, allow_incomplete: bool
    ) -> list[Unreadable]:
        """Refuse a range of which some cannot be read; return what is left out because that is allowed."""
        bounds, by_time = self.bounds(tip), (wanted.start_ms, wanted.end_ms) != (None, None)
        if found is not None and bounds is not None and (found.start < found.end or by_time):
            # A time is looked for in all that lies before, also where no record is that new.
            self._require_no_hole(tip, OffsetRange(bounds.start if by_time else found.start, found.end))
        low = None if wanted.start_offset is None or by_time else wanted.start_offset
        high = found.end if found is not None and wanted.end_ms is not None else wanted.end_offset
        missing = self._missing(tip, low, high)
        unseen = self._unseen if low is None or high is None else None
        if (missing or unseen) and not allow_incomplete:
            shown = "; ".join(map(str, missing[:_MAX_SHOWN])) or unseen
            more = f", and {len(missing) - _MAX_SHOWN} more" if len(missing) > _MAX_SHOWN else ""
            there = "nothing of it can" if bounds is None else f"offsets {bounds.start} to {bounds.end - 1} can"
            raise OffsetNotInRemoteLogError(
                f"some of {tip} that is wanted cannot be read: {shown}{more}. By this lineage {there}: give the first and "
                "the last offset of what you want, or allow an incomplete range"
            )
        return missing

    def _require_no_hole(self, tip: TopicIdPartition, offsets: OffsetRange) -> None:
        lineage = self.lineage(tip)
        hole = self._first_hole(tip, offsets)
        if hole is None or lineage is None:
            return
        shared = (part for metadata in self.segments(tip) for part in shared_ranges(metadata, lineage))
        behind = min((part.start for part in shared if part.start > hole), default=offsets.end)
        reasons = [str(one) for one in self._rows[tip.partition].unreadable if _touches(one, hole, behind)]
        why = f": {'; '.join(reasons[:_MAX_SHOWN])}" if reasons else ""
        raise OffsetNotInRemoteLogError(
            f"no segment that can be read has offsets {hole} to {behind - 1} of {tip}{why}. Nothing is read around a hole: "
            f"read in two, up to offset {hole}, exclusive, and from offset {behind} on"
        )

    def _first_hole(self, tip: TopicIdPartition, offsets: OffsetRange) -> int | None:
        """Return the first offset of a range that no segment serves, ``None`` where all are served."""
        lineage, offset = self.lineage(tip), offsets.start
        if lineage is None:
            return offset
        extent = self.reader.extent(tip, lineage)
        while offset < offsets.end:
            span = extent.span_at(offset)
            if span is None:
                return offset
            offset = span.offsets.end
        return None

    def _missing(self, tip: TopicIdPartition, low: int | None, high: int | None) -> list[Unreadable]:
        """
        Return what cannot be read and has, or may have, offsets of a range that no segment serves.

        :param tip: the user partition.
        :param low: first offset, inclusive; ``None`` for all that lies before the end.
        :param high: last offset, exclusive; ``None`` for all that lies behind the start.
        """
        last = max((metadata.start_offset for metadata in self.segments(tip)), default=-1)
        first, end = low or 0, 2**63 - 1 if high is None else high
        found = []
        for one in self._rows[tip.partition].unreadable:
            if one.start_offset is None:
                needed = low is None or high is None
            elif one.end_offset is not None:
                offsets = OffsetRange(max(one.start_offset, first), min(one.end_offset + 1, end))
                needed = offsets.start < offsets.end and self._first_hole(tip, offsets) is not None
            else:
                # It is not known where it ends: it may go on behind all that can be read.
                served = self._first_hole(tip, OffsetRange(one.start_offset, one.start_offset + 1)) is None
                beyond = high is None and one.start_offset >= last
                needed = first <= one.start_offset < end and (beyond or not served)
            if needed:
                found.append(one)
        return found

    # --- what is said -----------------------------------------------------------------------------------------------

    def _say(
        self,
        tip: TopicIdPartition,
        lineage: Lineage,
        found: OffsetRange | None,
        refused: OffsetNotInRemoteLogError | None,
        left_out: Sequence[Unreadable],
    ) -> None:
        others = [str(other) for other in self._candidates(tip) if other != lineage]
        more = f". There are {len(others)} other lineages: {'; '.join(others[:_MAX_SHOWN])}" if others else ""
        self.said.append(f"partition {tip.partition} is read by its lineage, {lineage}{more}")
        if unfinished := self._rows[tip.partition].unfinished:
            self.said.append(
                f"partition {tip.partition}: of {number_of(unfinished, 'more segment')} a copy or a deletion had not "
                "come to its end; they are not read"
            )
        self._say_left_out(tip, left_out)
        if refused is not None:
            segment = kafka_uuid_str(lineage.kept_by.remote_log_segment_id.id)
            self._doubt(
                f"partition {tip.partition}: a lineage with a higher last leader epoch does not cover the range "
                f"({refused}), so an older one does: its records may have been deleted, or written anew by later leaders. "
                f"To read or restore these, say so by {argument('lineages', segment)}; no archive is made of an older lineage"
            )
        for first, second in self._contradictions(tip, found)[:_MAX_SHOWN]:
            self._doubt(
                f"partition {tip.partition}: segments {kafka_uuid_str(first)} and {kafka_uuid_str(second)} have the same "
                "offsets of the same leader epochs, and nothing tells which of them the cluster counted. If you know it, "
                f"name the id of the other one by {argument('deleted')}"
            )

    def _say_left_out(self, tip: TopicIdPartition, left_out: Sequence[Unreadable]) -> None:
        self.said += [
            f"partition {tip.partition}: left out, as an incomplete range is allowed: {one}" for one in left_out
        ]
        if self._unseen is not None:
            self.said.append(f"partition {tip.partition}: {self._unseen}")

    def _doubt(self, text: str) -> None:
        if not self._or_doubtful:
            raise CatalogueError(text)
        self.problems.append(text)

    def _contradictions(self, tip: TopicIdPartition, found: OffsetRange | None) -> list[tuple[UUID, UUID]]:
        lineage, rows = self.lineage(tip), self._rows[tip.partition].segments
        if found is None or lineage is None:
            return []
        doubtful = [m for m in self.segments(tip) if rows[m.remote_log_segment_id].kind is RowKind.CONFLICT]
        return contradictions(doubtful, lineage, found)


def _touches(one: Unreadable, start: int, end: int) -> bool:
    """Tell whether something that cannot be read may lie in a range, whose end is exclusive."""
    if one.start_offset is None:
        return True
    last = one.start_offset if one.end_offset is None else one.end_offset
    return one.start_offset < end and last >= start


def _beyond(wanted: ReadRange, bounds: OffsetRange | None) -> list[str]:
    """Return which offsets of a range lie before or behind all that can be read, each a sentence."""
    found, start, end = [], wanted.start_offset, wanted.end_offset
    there = "nothing can be read" if bounds is None else f"offsets {bounds.start} to {bounds.end - 1} can be read"
    if start is not None and (bounds is None or not bounds.start <= start <= bounds.end):
        found.append(f"offset {start} is where it is to begin, and {there}")
    if end is not None and (bounds is None or end > bounds.end):
        found.append(f"offset {end - 1} is where it is to end, and {there}")
    return found
