# SPDX-License-Identifier: Apache-2.0
"""Which rows of a catalogue are segments that can be read, which of them serves an offset, and which contradict. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeVar
from uuid import UUID

from airflow_provider_rlmm.core.plans.catalogue_rows import CatalogueRow, RowKind
from airflow_provider_rlmm.core.records.cache import LeaderEpochState, RemoteLogMetadataCache, end_of_epoch
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    kafka_uuid_str,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.segments.read_range import OffsetRange

T = TypeVar("T")

_UNKNOWN_BROKER: Final = -1
_ANY_TIME: Final = 2**63 - 1
"""Stands for an unknown largest timestamp: a search for a time looks into the segment."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """
    What a catalogue knows of, and cannot be read.

    :param what: it is: the id of a segment, or what its keys begin with.
    :param start_offset: its first offset, ``None`` where it is not known.
    :param end_offset: its last offset, inclusive; likewise.
    :param why: the reason.
    :param encrypted: whether that is that only brokers with the key could read it.
    """

    what: str
    start_offset: int | None
    end_offset: int | None
    why: str
    encrypted: bool = False

    def __str__(self) -> str:
        last = "an unknown offset" if self.end_offset is None else self.end_offset
        offsets = "" if self.start_offset is None else f" (offsets {self.start_offset} to {last})"
        return f"segment {self.what}{offsets}: {self.why}"


@dataclass(slots=True)
class PartitionRows:
    """What a catalogue says of one user partition."""

    segments: dict[RemoteLogSegmentId, CatalogueRow] = field(default_factory=dict)  # those that can be read
    unreadable: list[Unreadable] = field(default_factory=list)  # what a range that needs it is refused for
    named: list[tuple[UUID, int, int]] = field(default_factory=list)  # whole segments, first and last offset, inclusive
    unfinished: int = 0  # segments whose copy or deletion has not come to its end

    def metadata(self) -> list[RemoteLogSegmentMetadata]:
        """Return the segments that can be read, as the metadata topic would have had them."""
        return [metadata_of(segment_id, row) for segment_id, row in self.segments.items()]


def by_partition(
    rows: Iterable[CatalogueRow], topic: str, topic_id: UUID, erased: Collection[UUID], places: Sequence[str]
) -> dict[int, PartitionRows]:
    """
    Sort the rows of a topic id.

    :param rows: all of them.
    :param topic: its name.
    :param topic_id: its id.
    :param erased: ids of segments that are not read.
    :param places: names of the places of the layout, in the order in which segments are looked for there.
    :return: user partition → what there is of it; what is of an unknown partition is in all of them.
    """
    found: dict[int, PartitionRows] = {}
    anywhere: list[Unreadable] = []
    for row in rows:
        if row.kind in (RowKind.HOLE, RowKind.FOREIGN):
            continue
        if row.partition is None:
            anywhere.append(_unreadable(row, row.why or row.kind.value))
            continue
        partition = found.setdefault(row.partition, PartitionRows())
        if row.kind.is_whole and row.segment_id not in erased:
            partition.named.append((_known(row.segment_id), _known(row.start_offset), _known(row.end_offset)))
        if row.kind is RowKind.UNFINISHED:
            partition.unfinished += 1
        elif why := _why_not(row, erased, places):
            partition.unreadable.append(_unreadable(row, why))
        else:
            segment_id = RemoteLogSegmentId(TopicIdPartition(topic_id, topic, row.partition), _known(row.segment_id))
            other = partition.segments.get(segment_id)
            # Of copies at two places the reader takes the one at the first of them.
            if other is None or places.index(_known(row.place)) < places.index(_known(other.place)):
                partition.segments[segment_id] = row
    for partition in found.values():
        partition.unreadable += anywhere
    return found


def _why_not(row: CatalogueRow, erased: Collection[UUID], places: Sequence[str]) -> str | None:
    """Return why a segment cannot be read, ``None`` where it can."""
    if row.segment_id in erased:
        return "it is in the list of what was erased"
    if _is_encrypted(row):
        return "it is encrypted: only brokers can read it"
    if not row.kind.is_whole:
        return row.why or row.kind.value
    if row.topic is None or row.end_offset is None or row.start_offset is None or row.segment_size_in_bytes is None:
        return "the catalogue does not say all that reading needs"
    if not row.segment_leader_epochs:
        return "its leader epochs are unknown"
    if row.place not in places:
        return f"it lies at the place {row.place}, and the settings name no such prefix"
    return None


def _unreadable(row: CatalogueRow, why: str) -> Unreadable:
    what = kafka_uuid_str(row.segment_id) if row.segment_id else (row.keys[0] if row.keys else "of unknown id")
    return Unreadable(what, row.start_offset, row.end_offset, why, _is_encrypted(row))


def _is_encrypted(row: CatalogueRow) -> bool:
    return row.kind is RowKind.ENCRYPTED or bool(row.encrypted)


def metadata_of(segment_id: RemoteLogSegmentId, row: CatalogueRow) -> RemoteLogSegmentMetadata:
    """
    Return the metadata of a segment as the metadata topic would have had it, had its copy been the last event.

    :param segment_id: the segment.
    :param row: what a catalogue says of it; a field that is unknown is what makes a reader look for itself.
    """
    # Of what can be read these are known.
    return RemoteLogSegmentMetadata(
        segment_id,
        _known(row.start_offset),
        _known(row.end_offset),
        _ANY_TIME if row.max_timestamp_ms is None else row.max_timestamp_ms,
        _UNKNOWN_BROKER if row.broker_id is None else row.broker_id,
        row.event_timestamp_ms or 0,
        _known(row.segment_size_in_bytes),
        None,
        RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        row.segment_leader_epochs or (),
        bool(row.txn_idx_empty),
    )


def _known(value: T | None) -> T:
    """Return a field that every row has that can be read."""
    if value is None:
        raise ValueError("a row of a catalogue that can be read lacks a field")
    return value


def cache_of(segments: Collection[RemoteLogSegmentMetadata]) -> RemoteLogMetadataCache:
    """
    Return what a broker's cache would answer, where it is not known in which order the segments were announced.

    In each leader epoch the segment that reaches furthest serves; of two with the same end in it the one that begins first,
    and of two of the same offsets the one whose copy began later. So no offset that some segment has is missing.

    :param segments: of one user partition.
    """
    parts: dict[int, list[tuple[int, int, int, RemoteLogSegmentId]]] = {}
    for metadata in segments:
        for epoch, start in metadata.segment_leader_epochs:
            end = end_of_epoch(metadata, epoch)
            parts.setdefault(epoch, []).append(
                (end, -start, metadata.event_timestamp_ms, metadata.remote_log_segment_id)
            )
    states = {}
    for epoch, of_epoch in parts.items():
        states[epoch] = state = LeaderEpochState()
        # Each one takes the places of those before it that begin behind it.
        for end, start, _, segment_id in sorted(of_epoch, key=lambda part: part[:3]):
            state.reference(-start, segment_id, end)
    return RemoteLogMetadataCache(segments, states)


def shared_ranges(metadata: RemoteLogSegmentMetadata, lineage: LeaderEpochCheckpoint) -> Iterator[OffsetRange]:
    """
    Yield the offsets of a segment that were written in the leader epochs of a lineage.

    :param metadata: the segment.
    :param lineage: the lineage.
    """
    entries = [*lineage.entries, (-1, 2**63 - 1)]
    known = {epoch: (start, end) for (epoch, start), (_, end) in pairwise(entries)}
    for epoch, begin in metadata.segment_leader_epochs:
        if epoch in known:
            start, end = max(begin, known[epoch][0]), min(end_of_epoch(metadata, epoch) + 1, known[epoch][1])
            if start < end:
                yield OffsetRange(start, end)


def contradictions(
    segments: Collection[RemoteLogSegmentMetadata], lineage: LeaderEpochCheckpoint, wanted: OffsetRange
) -> list[tuple[UUID, UUID]]:
    """
    Return pairs of segments that have the same offsets of the same leader epochs in a range.

    :param segments: those that a catalogue calls in conflict.
    :param lineage: by which is read.
    :param wanted: the range.
    """
    parts = sorted(
        (max(part.start, wanted.start), min(part.end, wanted.end), metadata.remote_log_segment_id.id)
        for metadata in segments
        for part in shared_ranges(metadata, lineage)
    )
    parts = [part for part in parts if part[0] < part[1]]
    return [(a, b) for (_, end, a), (start, _, b) in pairwise(parts) if start < end]
