# SPDX-License-Identifier: Apache-2.0
"""
The audit log: what every deletion leaves behind, one row per segment before its objects go and one after.

Rows lie in small Parquet files, one for each batch and phase, in a folder per day (UTC) of the batch's beginning. They are
created and never changed; the last task of a run puts those of a run and a day into one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Final, NamedTuple

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId

AUDIT_FOLDER: Final = "audit"
AUDIT_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("time_ms", "int64"),  # when the row was written, ms since the epoch
    ("phase", "string"),  # an AuditPhase
    ("batch", "string"),  # names the batch within its run: both rows of a segment have the same
    ("dag_id", "string"),
    ("run_id", "string"),
    ("artifact", "string"),  # name of the run's folder
    ("triggered_by", "string"),
    ("approved_by", "string"),  # null where no person was asked
    ("plan_id", "string"),
    ("plan_sha256", "string"),
    ("cluster_id", "string"),
    ("metadata_partition", "int32"),
    ("topic", "string"),
    ("topic_id", "binary"),  # 16 bytes
    ("partition", "int32"),
    ("segment_id", "binary"),  # 16 bytes
    ("start_offset", "int64"),  # inclusive; null for a scrub, which knows objects only
    ("end_offset", "int64"),  # inclusive; likewise
    ("segment_bytes", "int64"),  # as its metadata say; likewise
    ("started_offset", "int64"),  # of DELETE_SEGMENT_STARTED; null for a scrub, which writes no event
    ("outcome", "string"),  # GONE, PRESENT, UNKNOWN, NEVER_SEEN; null before
    ("objects", "int64"),  # that went; null before, and where storage was not asked to delete any
    ("bytes", "int64"),  # of these; null before
    ("finished_offset", "int64"),  # of DELETE_SEGMENT_FINISHED; null where it was not acknowledged
    ("why", "string"),  # before: why a scrub deletes it; after: what keeps it; else null
)
"""Name and Arrow type of every column."""

MAX_WHY: Final = 500
"""Characters of a reason."""

SCRUB: Final = "scrub"
"""Stands for the metadata partition in the name of a scrub's batch, which may have several."""

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ARTIFACT = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
_BATCH_FILE = re.compile(
    rf"(?P<artifact>{_ARTIFACT})\.(?P<batch>(?:0|[1-9][0-9]{{0,9}}|{SCRUB})\.[0-9]{{15}}-[0-9a-f]{{8}}\.[0-9]{{6,12}})"
    r"\.(?P<phase>before|after)\.parquet"
)
_READ_FILE = re.compile(rf"{_ARTIFACT}\.read\.[0-9]{{15}}-[0-9a-f]{{8}}\.json")
_RUN_FILE = re.compile(rf"(?P<artifact>{_ARTIFACT})(?:~(?P<part>[1-9][0-9]{{0,5}}))?\.parquet")


LAST_DAY_MS: Final = 253_402_214_400_000
"""The last day that a folder can be of, 9999-12-31, ms since the epoch."""


class AuditPhase(StrEnum):
    """Which of the two rows of a segment it is."""

    BEFORE = "BEFORE"
    AFTER = "AFTER"


@dataclass(frozen=True, slots=True)
class AuditName:
    """
    What the name of a file says.

    :param artifact: the run.
    :param batch: the batch, ``None`` for a file of several.
    :param phase: of its rows, ``None`` for a file of several batches.
    :param part: number of a file of several batches, from 1 on; 0 for a file of one batch.
    """

    artifact: str
    batch: str | None = None
    phase: AuditPhase | None = None
    part: int = 0

    def __str__(self) -> str:
        if self.batch is not None and self.phase is not None:
            return f"{self.artifact}.{self.batch}.{self.phase.value.lower()}.parquet"
        return f"{self.artifact}{f'~{self.part}' if self.part > 1 else ''}.parquet"

    @classmethod
    def of(cls, name: str) -> AuditName | None:
        """
        Read a file's name.

        :param name: any; ``None`` is returned for one that is none of the audit log's.
        """
        if found := _BATCH_FILE.fullmatch(name):
            return cls(found["artifact"], found["batch"], AuditPhase(found["phase"].upper()))
        if found := _RUN_FILE.fullmatch(name):
            return cls(found["artifact"], part=int(found["part"] or 1))
        return None


@dataclass(frozen=True, slots=True)
class DeletionRecord:
    """
    What the audit log says of some segments.

    :param deleted: those that a run began to delete, and found or may have found objects of: its batch ended so, or never.
    :param unread: why some of the audit log says nothing, by file or folder; what is there may name more.
    """

    deleted: frozenset[RemoteLogSegmentId]
    unread: tuple[str, ...] = ()


NO_RECORD: Final = DeletionRecord(frozenset())

DeletionSource = Callable[[Collection[RemoteLogSegmentId], int], DeletionRecord]
"""Segments and the time since which runs may have deleted them, ms since the epoch → what the audit log says of them."""


def nothing_on_record(segments: Collection[RemoteLogSegmentId], since_ms: int) -> DeletionRecord:
    """
    Say that no run deleted anything, where there is no audit log to ask.

    :param segments: the segments.
    :param since_ms: ms since the epoch.
    """
    return NO_RECORD


SegmentKey = tuple[bytes, int, bytes]
"""Topic id, user partition and segment id, as the columns have them."""


def segment_key(segment: RemoteLogSegmentId) -> SegmentKey:
    """Return how the audit log names a segment."""
    tip = segment.topic_id_partition
    return tip.topic_id.bytes, tip.partition, segment.id.bytes


class AuditRow(NamedTuple):
    """The columns of a row that tell whether its batch found objects."""

    artifact: str | None
    batch: str
    phase: str
    topic_id: bytes
    partition: int
    segment_id: bytes
    outcome: str | None
    objects: int | None

    @property
    def found_objects(self) -> bool:
        """Whether its deletion had objects before it, or may have had: storage was asked to delete them."""
        return self.outcome in ("GONE", "PRESENT") or (self.outcome == "UNKNOWN" and self.objects is not None)

    @property
    def key(self) -> SegmentKey:
        """Which segment it is about."""
        return self.topic_id, self.partition, self.segment_id


def deleted_segments(rows: Iterable[AuditRow], unread: Collection[AuditName] = ()) -> set[SegmentKey]:
    """
    Return the segments that a batch found, or may have found: it ended so, or never, as that of a killed run.

    :param rows: of whole batches.
    :param unread: files beside them that could not be read: a batch whose end may be in one of them says nothing.
    """
    found: set[SegmentKey] = set()
    begun: set[tuple[str | None, str, SegmentKey]] = set()
    ended: set[tuple[str | None, str, SegmentKey]] = set()
    for row in rows:
        (ended if row.phase == AuditPhase.AFTER else begun).add((row.artifact, row.batch, row.key))
        if row.found_objects:
            found.add(row.key)
    lost = {(name.artifact, name.batch) for name in unread if name.phase is not AuditPhase.BEFORE}
    for artifact, batch, key in begun - ended:
        if not lost & {(artifact, batch), (artifact, None)}:
            found.add(key)
    return found


def batch_name(source: int | str, began_at_ms: int, token: str, number: int) -> str:
    """
    Name a batch, so that no try of a run and no other run ever gives the same name.

    :param source: the metadata partition, or :data:`SCRUB`.
    :param began_at_ms: when this try began, ms since the epoch.
    :param token: eight hex digits that no other writer draws.
    :param number: of the batch within the try.
    """
    return f"{source}.{began_at_ms:015d}-{token}.{number:06d}"


def read_file_name(artifact: str, time_ms: int, token: str) -> str:
    """
    Name the file that says what was read from a catalogue.

    :param artifact: the run.
    :param time_ms: when it was written, ms since the epoch.
    :param token: eight hex digits that no other writer draws.
    """
    return f"{artifact}.read.{time_ms:015d}-{token}.json"


def is_audit_file(name: str) -> bool:
    """Tell whether a file in the folder of a day is of the audit log: of deletions, or of a read from a catalogue."""
    return AuditName.of(name) is not None or _READ_FILE.fullmatch(name) is not None


def day_of(time_ms: int) -> str:
    """
    Return the folder of a time.

    :param time_ms: ms since the epoch, from 1970 to 9999.
    """
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d")


def is_day(name: str) -> bool:
    """Tell whether a folder is a day's."""
    if not _DAY.fullmatch(name):
        return False
    try:
        date.fromisoformat(name)
    except ValueError:
        return False
    return True
