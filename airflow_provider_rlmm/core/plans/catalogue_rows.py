# SPDX-License-Identifier: Apache-2.0
"""A row of a catalogue: what is known of a segment, of a hole between segments, or of an object of no segment."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

RECOVER_AGAIN: Final = "recover again"
"""What helps where a catalogue is not, or no more, what lies in storage."""


class RowKind(StrEnum):
    """What a row is. Every object that was listed is in exactly one row, or in the count of what was not asked for."""

    COPIED = "COPIED"
    """A whole segment was copied: log, indexes, and a manifest that agrees with its key and with their sizes."""

    ENCRYPTED = "ENCRYPTED"
    """The same, and its objects are encrypted: only brokers can read them."""

    CONFLICT = "CONFLICT"
    """The same, and it shares offsets with another one of its user partition; no leader epoch tells which is the later."""

    UNFINISHED = "UNFINISHED"
    """Objects of a segment, of which one is missing: its copy or its deletion has not come to its end."""

    DAMAGED = "DAMAGED"
    """All objects are there, and the manifest cannot be read, or contradicts its key or their sizes."""

    CANNOT_TELL = "CANNOT_TELL"
    """Objects of a segment of which not all could be seen: a listing broke off, or the manifest could not be fetched."""

    HOLE = "HOLE"
    """Offsets between two segments of a user partition that no whole segment covers; it has no objects."""

    FOREIGN = "FOREIGN"
    """One object that is of no segment: the layout would not have built its key."""

    @property
    def is_whole(self) -> bool:
        """Whether such a row is a whole segment, with all that its manifest says."""
        return self in (RowKind.COPIED, RowKind.ENCRYPTED, RowKind.CONFLICT)

    @property
    def needs_person(self) -> bool:
        """Whether a person has to look at such a row before anything is built on the catalogue."""
        return self in (RowKind.CONFLICT, RowKind.DAMAGED, RowKind.CANNOT_TELL, RowKind.HOLE)


class ProvedBy(StrEnum):
    """What the fields of a row were taken from; a field that it does not tell is null."""

    MANIFEST = "MANIFEST"
    """The manifest of the segment, whose key and sizes agree: all fields but state and custom metadata."""

    KEY = "KEY"
    """The key alone: topic, ids, user partition and start offset."""

    NEIGHBOURS = "NEIGHBOURS"
    """The manifests of the segments before and behind a hole."""

    LISTING = "LISTING"
    """The listing alone: that there is such an object, and how large it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueRow:
    """
    A row, field by field as the columns of the table.

    What is ``None`` is not known. The fields of a segment are those of
    :class:`~airflow_provider_rlmm.core.records.records.RemoteLogSegmentMetadata`.
    """

    kind: RowKind
    proved_by: ProvedBy
    topic_id: UUID | None = None
    topic: str | None = None
    partition: int | None = None
    segment_id: UUID | None = None
    start_offset: int | None = None  # inclusive; of a hole its first offset
    end_offset: int | None = None  # inclusive; of a hole its last offset
    segment_leader_epochs: tuple[tuple[int, int], ...] | None = None  # (leader epoch, its start offset), by epoch
    segment_size_in_bytes: int | None = None  # of the log as it lay on the broker's disk
    max_timestamp_ms: int | None = None  # largest record timestamp, ms since the epoch
    event_timestamp_ms: int | None = None  # when its copy began, ms since the epoch
    broker_id: int | None = None  # the broker that copied it
    txn_idx_empty: bool | None = None
    state: str | None = None  # no object tells it
    custom_metadata: bytes | None = None  # no object tells it
    compressed: bool | None = None
    encrypted: bool | None = None
    place: str | None = None  # name of the place below the storage root
    stored_bytes: int = 0  # sizes of all its objects, summed
    keys: tuple[str, ...] = ()  # of its objects, below the storage root
    partners: tuple[str, ...] = ()  # stems of the segments that it is in conflict with, or of those beside a hole
    why: str | None = None  # why it is not simply copied


MAX_PARTNERS: Final = 10
"""Partners that a row names; where there are more its reason says how many."""

CATALOGUE_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("kind", "string"),  # a RowKind
    ("proved_by", "string"),  # a ProvedBy
    ("topic_id", "binary"),  # 16 bytes
    ("topic", "string"),
    ("partition", "int32"),
    ("segment_id", "binary"),  # 16 bytes
    ("start_offset", "int64"),
    ("end_offset", "int64"),
    ("segment_leader_epochs", "epochs"),
    ("segment_size_in_bytes", "int64"),
    ("max_timestamp_ms", "int64"),
    ("event_timestamp_ms", "int64"),
    ("broker_id", "int32"),
    ("txn_idx_empty", "bool"),
    ("state", "string"),
    ("custom_metadata", "binary"),
    ("compressed", "bool"),
    ("encrypted", "bool"),
    ("place", "string"),
    ("stored_bytes", "int64"),
    ("keys", "strings"),
    ("partners", "strings"),
    ("why", "string"),
)
"""Name and kind of every column: an Arrow type, ``strings`` (a list), or ``epochs`` (a list of leader epoch and offset)."""
