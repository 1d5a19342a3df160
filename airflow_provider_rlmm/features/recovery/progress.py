# SPDX-License-Identifier: Apache-2.0
"""
Takes up a catalogue where a run was interrupted. The storage is listed anew, as only that tells what is there now.

What was read of a segment counts again only where all of its objects have the sizes and times with which they were listed
then, and where its keys are read as the same segment. A proof counts again only for the very row that was proved.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.file_systems import list_files, remove_file
from airflow_provider_rlmm.core.base.spool import OrderedSpool
from airflow_provider_rlmm.core.plans.catalogue_document import TakenUp
from airflow_provider_rlmm.core.plans.catalogue_rows import CatalogueRow, ProvedBy, RowKind
from airflow_provider_rlmm.core.plans.catalogue_table import ROWS_AS_OBJECTS, rows_of
from airflow_provider_rlmm.features.recovery.progress_parts import (
    Entry,
    entries_schema,
    is_part,
    read_part,
    table_of_entries,
    write_part,
)
from airflow_provider_rlmm.features.recovery.rules import Before, Found, ListedSegment

if TYPE_CHECKING:
    import pyarrow as pa

PART_ROWS: Final = 5_000
"""Rows that are written together, at the most."""

PART_BYTES: Final = 8 * 2**20
"""Bytes of rows that are written together, about, at the most."""

PART_S: Final = 60.0
"""Seconds after which what was read is written, however little it is."""

SETTLED_MS: Final = 60_000
"""
Some stores tell times in seconds: of what was changed right before the listing it could not be told that it was once more.
"""

_MAX_NAMED: Final = 20
# What could not be seen, or was damaged on its way, is read again.
_KEPT: Final = (RowKind.COPIED, RowKind.ENCRYPTED, RowKind.LOG_ONLY, RowKind.UNREADABLE)

logger = logging.getLogger(__name__)


class Progress:
    """
    What this run has read and what interrupted ones had; it is used by one thread.

    :param uri: of the folder of the catalogue.
    :param asked: what is asked for: place, layout and what is read.
    :param begun_at_ms: when this run began, ms since the epoch.
    :param clock: seconds that only grow.
    """

    def __init__(
        self, uri: str, asked: Mapping[str, str], begun_at_ms: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._uri = uri
        self._asked = asked
        self._begun_at_ms = begun_at_ms
        self._clock = clock
        self._written_at = clock()
        self._known = OrderedSpool(entries_schema(), "key", 2 * PART_ROWS)
        self._since_ms = begun_at_ms
        self._read = self._proved = 0
        self._discarded: list[str] = []
        self._entries: list[Entry] = []
        self._tables: list[pa.Table] = []
        self._rows = self._bytes = 0  # that are not written yet, the bytes of packed ones

    def take_up(self) -> int:
        """
        Read what interrupted runs have left, and return how many rows that is.

        :raises CatalogueError: if they were asked for something else.
        :raises RoomError: if the local disk has no room for it.
        """
        for name in filter(is_part, list_files(self._uri)):
            part = read_part(self._uri, name, self._asked)
            if isinstance(part, str):
                logger.warning("what an interrupted run has left in %s/%s is not used: %s", self._uri, name, part)
                self._discarded.append(f"{name}: {part}")
                continue
            self._since_ms = min(self._since_ms, part.begun_at_ms)
            self._known.append(part.rows)
        return self._known.rows

    def joined(self, found: Iterable[Found]) -> Iterator[Found]:
        """
        Yield what was listed; of segments with what is known of them since an interrupted run.

        :param found: by key.
        """
        entries = self._known_entries()
        entry = next(entries, None)
        for listed in found:
            if not isinstance(listed, ListedSegment):
                yield listed
                continue
            key, of_key = listed.keys[0], list[Entry]()
            while entry is not None and entry.key <= key:
                if entry.key == key:
                    of_key.append(entry)
                entry = next(entries, None)
            yield replace(listed, before=_before(listed, of_key, self._begun_at_ms - SETTLED_MS))

    def _known_entries(self) -> Iterator[Entry]:
        if not self._known.rows:
            return
        for table in self._known.tables():
            for at in range(0, table.num_rows, ROWS_AS_OBJECTS):
                few = table.slice(at, ROWS_AS_OBJECTS)
                found = (few.column(name).to_pylist() for name in ("key", "seen", "before_proof"))
                for key, seen, before, row in zip(*found, rows_of(few), strict=True):
                    yield Entry(key, seen, before, row)

    def read(self, before: Before, row: CatalogueRow) -> None:
        """
        Keep what is said of a segment without its contents, unless it was known.

        :param before: what was known of it.
        :param row: what its objects tell.
        """
        if before.row is not None:
            self._read += 1
        elif before.seen is not None and row.kind in _KEPT:
            self._note(Entry(row.keys[0], before.seen, None, row))

    def known_proof(self, before: Before, row: CatalogueRow) -> CatalogueRow | None:
        """
        Return a row as its contents proved it, ``None`` where they are to be read.

        :param before: what was known of the segment.
        :param row: what is to be proved.
        """
        found = before.proofs.get(digest_of(row)) if before.proofs else None
        self._proved += found is not None
        return found

    def proved(self, before: Before, row: CatalogueRow, proved: CatalogueRow) -> None:
        """
        Keep what contents have proved.

        :param before: what was known of the segment.
        :param row: what was to be proved.
        :param proved: the row after that.
        """
        if before.seen is not None and proved.proved_by is ProvedBy.CONTENTS:
            self._note(Entry(row.keys[0], before.seen, digest_of(row), proved))

    def _note(self, entry: Entry) -> None:
        self._entries.append(entry)
        if len(self._entries) >= ROWS_AS_OBJECTS:
            self._pack()
        self._rows += 1
        is_due = self._rows >= PART_ROWS or self._bytes >= PART_BYTES
        if is_due or self._clock() - self._written_at >= PART_S:
            self.write()

    def _pack(self) -> None:
        if self._entries:
            table = table_of_entries(self._entries)
            self._tables.append(table)
            self._bytes += table.nbytes
            self._entries = []

    def write(self) -> None:
        """
        Write what is not written yet.

        :raises OSError: if it cannot be written.
        """
        import pyarrow as pa

        self._pack()
        if self._tables:
            rows = pa.concat_tables(self._tables).combine_chunks()
            write_part(self._uri, rows, self._asked, self._begun_at_ms)
        self._tables, self._rows, self._bytes, self._written_at = [], 0, 0, self._clock()

    def write_if_possible(self) -> None:
        """Write what is not written yet, where something else has ended the run: that it fails, too, is said."""
        try:
            self.write()
        except (OSError, ConfigurationError) as e:
            logger.warning("what was read since %s was written last is lost: %s", self._uri, e)

    def taken_up(self) -> TakenUp | None:
        """Return what was taken up; ``None`` where no run was interrupted."""
        if not self._known.rows and not self._discarded:
            return None
        named, more = self._discarded[:_MAX_NAMED], len(self._discarded) - _MAX_NAMED
        return TakenUp(
            since_ms=self._since_ms,
            segments=self._read,
            proved=self._proved,
            discarded=(*named, f"and {more} more") if more > 0 else tuple(named),
        )

    def remove(self) -> None:
        """Remove what this run and interrupted ones have left, once there is a catalogue. What cannot be removed is said."""
        try:
            for name in filter(is_part, list_files(self._uri)):
                remove_file(f"{self._uri}/{name}")
        except (OSError, ConfigurationError) as e:
            logger.warning("the files progress-*.arrow in %s are of no use any more; remove them: %s", self._uri, e)


def _before(listed: ListedSegment, entries: Iterable[Entry], settled_ms: int) -> Before:
    """Return what is known of a segment whose objects are as they were."""
    seen = seen_of(listed)
    mine = [one for one in entries if one.seen == seen and _is_of(listed, one.row)]
    read = next((one.row for one in mine if one.before_proof is None), None)
    proofs = {one.before_proof: one.row for one in mine if one.before_proof is not None}
    is_settled = max(listed.times.values(), default=settled_ms + 1) <= settled_ms
    return Before(seen if is_settled else None, read if listed.is_whole else None, proofs)


def _is_of(listed: ListedSegment, row: CatalogueRow) -> bool:
    """Tell whether a row is of a segment as its keys are read now."""
    for reading in listed.readings:
        tip = reading.segment.topic_id_partition
        read = tip.topic_id, tip.topic, tip.partition, reading.segment.id, reading.place.name
        if read == (row.topic_id, row.topic, row.partition, row.segment_id, row.place):
            return row.keys == listed.keys
    return False


def seen_of(listed: ListedSegment) -> bytes:
    """
    Return a digest of a segment's objects as they were listed: keys, sizes and times.

    :param listed: the segment.
    """
    objects = sorted((listed.stem + suffix, size, listed.times.get(suffix)) for suffix, size in listed.sizes.items())
    return hashlib.blake2b(repr(objects).encode(), digest_size=16).digest()


def digest_of(row: CatalogueRow) -> bytes:
    """
    Return a digest of all that a row says.

    :param row: the row.
    """
    return hashlib.blake2b(repr(row).encode(), digest_size=16).digest()
