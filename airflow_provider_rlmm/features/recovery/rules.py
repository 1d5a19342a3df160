# SPDX-License-Identifier: Apache-2.0
"""
What the objects of one segment prove of it. Pure: nothing is read here, and nothing is guessed.

A manifest counts only if all of the segment's objects were listed, their keys are those that the plugin builds of what the
manifest says, and their sizes are the ones that it names. Indexes count only where the log bears them out. Otherwise not one
field is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from airflow_provider_rlmm.core.base.errors import UnsafeObjectKeyError
from airflow_provider_rlmm.core.plans.catalogue_rows import CatalogueRow, ProvedBy, RowKind
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.storage.aiven_record import INDEXES, LOG, RecordedSegment
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.root import Place


@dataclass(frozen=True, slots=True)
class KeyReading:
    """What the keys of a segment can mean."""

    place: Place  # at which place it lies
    segment: RemoteLogSegmentId  # which segment it is
    start_offset: int | None  # first offset; ``None`` where keys name none


@dataclass(frozen=True, slots=True)
class Before:
    """What an interrupted run knew of a segment whose objects have not changed since."""

    seen: bytes | None = (
        None  # digest of its objects as they were listed now; ``None`` where nothing is to be kept of it
    )
    row: CatalogueRow | None = None  # what they told without its contents; ``None`` where that is to be read
    # Digest of a row → that row as its contents proved it.
    proofs: Mapping[bytes, CatalogueRow] = field(default_factory=dict)


NOTHING_BEFORE: Final = Before()


@dataclass(frozen=True, slots=True)
class ListedSegment:
    """The objects of one segment as they were listed."""

    stem: str  # what their keys have in common
    # One, or several where a prefix that is no folder reads as the beginning of a topic's name, too.
    readings: tuple[KeyReading, ...]
    sizes: Mapping[str, int]  # suffix → bytes
    is_whole: bool  # whether all that lies beside them was listed
    times: Mapping[str, int] = field(default_factory=dict)  # suffix → when it was changed last, ms since the epoch
    before: Before = NOTHING_BEFORE

    @property
    def bytes(self) -> int:
        """Sizes of its objects, summed."""
        return sum(self.sizes.values())

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of all its objects, sorted."""
        return tuple(sorted(self.stem + suffix for suffix in self.sizes))

    def missing(self, layout: Layout) -> list[str]:
        """
        Return the suffixes of the objects that it lacks.

        :param layout: its layout.
        """
        return [suffix for suffix, required in layout.suffixes.items() if required and suffix not in self.sizes]

    def is_complete(self, layout: Layout) -> bool:
        """
        Tell whether it has all of its objects: only then anything more is proved of it.

        :param layout: its layout.
        """
        return self.is_whole and not self.missing(layout)


@dataclass(frozen=True, slots=True)
class OtherObject:
    """An object of no segment."""

    key: str
    bytes: int

    @property
    def keys(self) -> tuple[str, ...]:
        """Its key."""
        return (self.key,)


Found = ListedSegment | OtherObject
"""What objects are gathered to."""


@dataclass(frozen=True, slots=True)
class Unread:
    """Why nothing is said of a segment."""

    why: str  # the reason, naming the object
    damaged: bool  # whether it was read and cannot be what the plugin wrote; otherwise it cannot be told


@dataclass(frozen=True, slots=True)
class IndexedSegment:
    """A segment as the last batches of its log and its indexes tell it."""

    end_offset: (
        int  # inclusive; it may reach further, as the offsets of records that were compacted away are in no batch
    )
    segment_leader_epochs: tuple[tuple[int, int], ...]  # (leader epoch, its start offset within the segment), by epoch
    segment_size_in_bytes: int
    max_timestamp_ms: int  # largest record timestamp that was seen, ms since the epoch; -1 where there is none
    is_max_timestamp: bool  # whether it is the largest of the segment
    txn_idx_empty: bool | None  # whether it has no aborted transactions; ``None`` where nothing says so


@dataclass(frozen=True, slots=True)
class LoggedSegment:
    """A segment whose manifest is gone, as all batches of its log tell it."""

    end_offset: int  # inclusive; it may reach further
    segment_leader_epochs: tuple[tuple[int, int], ...]  # (leader epoch, first offset that was written in it), by epoch
    segment_size_in_bytes: int
    max_timestamp_ms: int  # largest record timestamp, ms since the epoch; -1 where there is none


@dataclass(frozen=True, slots=True)
class PackedLog:
    """A log that does not begin as a broker's: only its manifest could say how to read it, and that is gone."""

    why: str


Said = RecordedSegment | IndexedSegment | LoggedSegment | PackedLog | Unread | None
"""What is said of a segment, or why nothing is; ``None`` where nothing was asked."""


def row_of(listed: Found, said: Said, layout: Layout) -> CatalogueRow:
    """
    Tell what a segment is, or an object of none.

    :param listed: its objects.
    :param said: what is said of it.
    :param layout: where objects lie.
    """
    if isinstance(listed, OtherObject):
        return CatalogueRow(
            kind=RowKind.FOREIGN,
            proved_by=ProvedBy.LISTING,
            stored_bytes=listed.bytes,
            keys=listed.keys,
            why="the layout does not build its key",
        )
    if not listed.is_whole:
        return _by_key(
            listed, RowKind.CANNOT_TELL, "the listing of its folder broke off: further objects may lie there"
        )
    if isinstance(said, LoggedSegment):
        return _by_log(listed, said)
    if (told := _told_apart(listed, said, layout)) is not None:
        return _by_key(listed, *told)
    if isinstance(said, IndexedSegment):
        return _by_indexes(listed, said, layout)
    assert isinstance(said, RecordedSegment)  # noqa: S101 # the others were told apart
    return _by_recorded(listed, said, layout)


def _told_apart(listed: ListedSegment, said: Said, layout: Layout) -> tuple[RowKind, str] | None:
    """Return what a segment is that is not whole, and why; ``None`` for one of which all is there and was read."""
    if isinstance(said, PackedLog):
        return RowKind.UNREADABLE, said.why
    if isinstance(said, Unread) and said.damaged:
        return RowKind.DAMAGED, said.why
    if missing := listed.missing(layout):
        return RowKind.UNFINISHED, f"it lacks {', '.join(missing)}"
    if said is None:
        return RowKind.CANNOT_TELL, "nothing of it was read"
    return (RowKind.CANNOT_TELL, said.why) if isinstance(said, Unread) else None


def _by_recorded(listed: ListedSegment, said: RecordedSegment, layout: Layout) -> CatalogueRow:
    place = _place_of(listed, said.as_begun(), layout)
    if place is None:
        named = said.remote_log_segment_id
        why = f"its manifest is of segment {named}, start offset {said.start_offset}, whose key is another one"
        return _by_key(listed, RowKind.DAMAGED, why)
    for suffix, size in ((LOG, said.log_bytes), (INDEXES, said.index_bytes)):
        if listed.sizes[suffix] != size:
            why = f"its {suffix} has {listed.sizes[suffix]} bytes, and its manifest names {size}"
            return _by_key(listed, RowKind.DAMAGED, why)
    return _by_manifest(listed, said, place)


def _place_of(listed: ListedSegment, begun: RemoteLogSegmentMetadata, layout: Layout) -> Place | None:
    """Return the place at which a segment lies, ``None`` where what is said of it makes other keys."""
    try:
        return next((r.place for r in listed.readings if layout.segment_stem(begun, r.place) == listed.stem), None)
    except UnsafeObjectKeyError:
        # A topic that Kafka would not allow: the plugin has built no key of it.
        return None


def _by_key(listed: ListedSegment, kind: RowKind, why: str | None) -> CatalogueRow:
    """Return a row with what all readings of the keys agree on, and nothing else."""
    return CatalogueRow(
        kind=kind,
        proved_by=ProvedBy.KEY,
        topic_id=_agreed({r.segment.topic_id_partition.topic_id for r in listed.readings}),
        topic=_agreed({r.segment.topic_id_partition.topic for r in listed.readings}),
        partition=_agreed({r.segment.topic_id_partition.partition for r in listed.readings}),
        segment_id=_agreed({r.segment.id for r in listed.readings}),
        start_offset=_agreed({r.start_offset for r in listed.readings}),
        place=_agreed({r.place.name for r in listed.readings}),
        stored_bytes=listed.bytes,
        keys=listed.keys,
        why=why,
    )


def by_key_alone(row: CatalogueRow, kind: RowKind, why: str) -> CatalogueRow:
    """
    Return a row with what its key says, and nothing else.

    :param row: of a segment.
    :param kind: what it is.
    :param why: why nothing else is taken.
    """
    return CatalogueRow(
        kind=kind,
        proved_by=ProvedBy.KEY,
        topic_id=row.topic_id,
        topic=row.topic,
        partition=row.partition,
        segment_id=row.segment_id,
        start_offset=row.start_offset,
        place=row.place,
        stored_bytes=row.stored_bytes,
        keys=row.keys,
        why=why,
    )


def _agreed(values: set[Any]) -> Any:
    return values.copy().pop() if len(values) == 1 else None


def _by_manifest(listed: ListedSegment, said: RecordedSegment, place: Place) -> CatalogueRow:
    segment = said.remote_log_segment_id
    tip = segment.topic_id_partition
    return CatalogueRow(
        kind=RowKind.ENCRYPTED if said.encrypted else RowKind.COPIED,
        proved_by=ProvedBy.MANIFEST,
        topic_id=tip.topic_id,
        topic=tip.topic,
        partition=tip.partition,
        segment_id=segment.id,
        start_offset=said.start_offset,
        end_offset=said.end_offset,
        segment_leader_epochs=said.segment_leader_epochs,
        segment_size_in_bytes=said.segment_size_in_bytes,
        max_timestamp_ms=said.max_timestamp_ms,
        event_timestamp_ms=said.event_timestamp_ms,
        broker_id=said.broker_id,
        txn_idx_empty=said.txn_idx_empty,
        compressed=said.compressed,
        encrypted=said.encrypted,
        place=place.name,
        stored_bytes=listed.bytes,
        keys=listed.keys,
        why="its objects are encrypted: only brokers can read them" if said.encrypted else None,
    )


def _by_log(listed: ListedSegment, said: LoggedSegment) -> CatalogueRow:
    row = _by_key(listed, RowKind.LOG_ONLY, "its manifest is gone, or its copy never ended; its log is whole")
    return replace(
        row,
        proved_by=ProvedBy.LOG,
        end_offset=said.end_offset,
        segment_leader_epochs=said.segment_leader_epochs,
        segment_size_in_bytes=said.segment_size_in_bytes,
        max_timestamp_ms=said.max_timestamp_ms,
        compressed=False,
        encrypted=False,
        bounds=("end_offset",),
    )


def _by_indexes(listed: ListedSegment, said: IndexedSegment, layout: Layout) -> CatalogueRow:
    (reading,) = listed.readings
    start = reading.start_offset or 0
    begun = RemoteLogSegmentMetadata(
        reading.segment, start, said.end_offset, said.max_timestamp_ms, -1, -1, said.segment_size_in_bytes, None,
        RemoteLogSegmentState.COPY_SEGMENT_STARTED, said.segment_leader_epochs, bool(said.txn_idx_empty),
    )  # fmt: skip
    if _place_of(listed, begun, layout) is None:
        why = f"its records reach to offset {said.end_offset}, and its key names another end"
        return _by_key(listed, RowKind.DAMAGED, why)
    # Where the key has the end offset it was just compared.
    names_end = _place_of(listed, replace(begun, end_offset=said.end_offset + 1), layout) is None
    bounds = {"end_offset": not names_end, "max_timestamp_ms": not said.is_max_timestamp}
    return replace(
        _by_key(listed, RowKind.COPIED, None),
        proved_by=ProvedBy.INDEXES,
        start_offset=start,
        end_offset=said.end_offset,
        segment_leader_epochs=said.segment_leader_epochs,
        segment_size_in_bytes=said.segment_size_in_bytes,
        max_timestamp_ms=said.max_timestamp_ms,
        txn_idx_empty=said.txn_idx_empty,
        compressed=False,
        encrypted=False,
        bounds=tuple(name for name, is_bound in bounds.items() if is_bound),
    )
