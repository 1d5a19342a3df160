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
    """A whole segment was copied: log, indexes, and a manifest or contents that agree with its key and with their sizes."""

    ENCRYPTED = "ENCRYPTED"
    """The same, and its objects are encrypted: only brokers can read them."""

    CONFLICT = "CONFLICT"
    """The same, and it shares offsets with another one of its user partition; no leader epoch tells which is the later."""

    UNFINISHED = "UNFINISHED"
    """Objects of a segment, of which one is missing: its copy or its deletion has not come to its end."""

    LOG_ONLY = "LOG_ONLY"
    """A whole log whose manifest is gone, or was never written: every batch of it was read."""

    UNREADABLE = "UNREADABLE"
    """A log whose manifest is gone, and which does not begin as a broker's: compressed, encrypted or damaged."""

    DAMAGED = "DAMAGED"
    """All objects are there, and what proves the segment cannot be read, or they contradict each other or their key."""

    CANNOT_TELL = "CANNOT_TELL"
    """Objects of a segment of which not all could be seen: a listing broke off, or one could not be fetched."""

    DELETED = "DELETED"
    """Objects of a segment that a snapshot, an audit log or another document of this package calls deleted."""

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

    SNAPSHOT = "SNAPSHOT"
    """The newest snapshot of the metadata topic: all fields, as far as its objects do not contradict it."""

    INVENTORY = "INVENTORY"
    """The newest survey of a cluster: all fields but custom metadata and ``txn_idx_empty``, which its objects tell."""

    MANIFEST = "MANIFEST"
    """The manifest of the segment, whose key and sizes agree: all fields but state and custom metadata."""

    INDEXES = "INDEXES"
    """The last batches of its log and its indexes, which bear each other out; ``bounds`` names what they tell a bound of."""

    LOG = "LOG"
    """All batches of its log, whose checksums are right; nothing else tells of it."""

    CONTENTS = "CONTENTS"
    """Any of those, and the contents bear it out: every batch of its log, its indexes, and the fields agree."""

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
    bounds: tuple[str, ...] = ()  # names of fields that may be higher than they stand here


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
    ("bounds", "strings"),
)
"""Name and kind of every column: an Arrow type, ``strings`` (a list), or ``epochs`` (a list of leader epoch and offset)."""
