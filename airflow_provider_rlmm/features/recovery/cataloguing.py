# SPDX-License-Identifier: Apache-2.0
"""
The way from a listing to the rows of a catalogue.

What grows with the storage lies on the local disk: the listing by key, then the rows by user partition and offset. These are
read twice, first to find the segments that share offsets, then to say it and to find holes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from airflow_provider_rlmm.core.base.arrow_arrays import array_of
from airflow_provider_rlmm.core.base.errors import UnsafeObjectKeyError
from airflow_provider_rlmm.core.base.spool import SPOOLED_ROWS, OrderedSpool
from airflow_provider_rlmm.core.plans.catalogue_document import CatalogueAmount
from airflow_provider_rlmm.core.plans.catalogue_rows import CatalogueRow
from airflow_provider_rlmm.core.plans.catalogue_table import ROWS_AS_OBJECTS, catalogue_schema, rows_of, table_of
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.runs.listed_objects import ListedObjects
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.features.recovery.earlier import Earlier
from airflow_provider_rlmm.features.recovery.lineages import Conflicts, Holes
from airflow_provider_rlmm.features.recovery.listing import gathered, in_order
from airflow_provider_rlmm.features.recovery.progress import Progress
from airflow_provider_rlmm.features.recovery.proving import Proofs
from airflow_provider_rlmm.features.recovery.rules import NOTHING_BEFORE, Before, Found, ListedSegment, row_of
from airflow_provider_rlmm.features.recovery.segment_reads import SegmentReads

if TYPE_CHECKING:
    import pyarrow as pa

_ORDER: Final = "order"
_TOGETHER: Final = 20_000
"""Rows that are ordered together: of the keys of a storage partition 10 comes before 2, and a row takes half a kilobyte."""

_LAST: Final = "~"
"""Comes behind every topic id."""

Told = TypeVar("Told")

OnStep = Callable[[str, int, int], None]
"""What is being done, how much of it is done, and of how much."""


class Asked:
    """
    Tells of segments whether they were asked for, and which topics were seen.

    :param topics: names and ids in Kafka's form; none for all.
    """

    def __init__(self, topics: Collection[str]) -> None:
        self._topics = frozenset(topics)
        self._seen = set[str]()
        self.left_out = CatalogueAmount()
        """Objects that were not asked for."""

    def takes(self, found: Found) -> bool:
        """
        Tell whether something is asked for; what is not is counted.

        :param found: a segment, or an object of none.
        """
        if not self._topics:
            return True
        readings = found.readings if isinstance(found, ListedSegment) else ()
        tips = [reading.segment.topic_id_partition for reading in readings]
        named = self._topics & {text for tip in tips for text in (tip.topic, kafka_uuid_str(tip.topic_id))}
        self._seen |= named
        if not named:
            self.left_out += CatalogueAmount(1, len(found.keys), found.bytes)
        return bool(named)

    def not_found(self) -> list[str]:
        """Return what was asked for and not seen, sorted."""
        return sorted(self._topics - self._seen)


class Cataloguing:
    """
    Makes the rows of one catalogue.

    :param listed: everything below the places.
    :param layout: where objects lie.
    :param asked: what is asked for.
    :param reads: reads segments.
    :param earlier: what is known from elsewhere.
    :param proofs: proves whole segments by their contents; ``None`` where that was not asked for.
    :param progress: what interrupted runs have read, and what this one does.
    :param on_step: told how far it is.
    """

    def __init__(
        self,
        listed: ListedObjects,
        layout: Layout,
        asked: Asked,
        reads: SegmentReads,
        earlier: Earlier,
        proofs: Proofs | None,
        progress: Progress,
        on_step: OnStep,
    ) -> None:
        self._progress = progress
        self._earlier = earlier
        self._proofs = proofs
        self._listed = listed
        self._layout = layout
        self._asked = asked
        self._reads = reads
        self._on_step = on_step
        self.objects = CatalogueAmount()
        """Everything that was listed; its rows are segments and objects of none."""

    def rows(self) -> Iterator[CatalogueRow]:
        """
        Yield all rows: by topic id, user partition and offset, objects of no segment last.

        :raises StorageError: if storage does not answer; what was yielded is then no catalogue.
        :raises RoomError: if the local disk has no room.
        """
        spool, conflicts, holes = self._drafts(), Conflicts(), Holes()
        for row in _rows(spool):
            conflicts.add(row)
        whole = lru_cache(maxsize=1024)(self._is_whole)
        for draft in _rows(spool):
            row = conflicts.judged(draft)
            hole = holes.before(row)
            # Where not all of a user partition was seen, what covers the hole may be there.
            if hole is not None and whole(hole.topic_id, hole.topic, hole.partition):
                yield hole
            yield row

    def _drafts(self) -> OrderedSpool:
        """Return the rows as each segment alone tells them, by user partition and offset."""
        import pyarrow as pa

        spool = OrderedSpool(catalogue_schema().append(pa.field(_ORDER, pa.string())), _ORDER, _TOGETHER)
        for told in _parts(self._each()):
            rows = self._earlier.applied([row for row, _ in told])
            if self._proofs is not None:
                rows = list(self._proved(self._proofs, rows, [before for _, before in told]))
            order = array_of([_order_of(row) for row in rows], pa.string())
            spool.append(table_of(rows).append_column(_ORDER, order))
        return spool

    def _proved(self, proofs: Proofs, rows: Sequence[CatalogueRow], known: Sequence[Before]) -> Iterator[CatalogueRow]:
        """Yield rows as their contents prove them, which an interrupted run may have read."""
        told = [self._progress.known_proof(before, row) for row, before in zip(rows, known, strict=True)]
        read = proofs.applied([row for row, proof in zip(rows, told, strict=True) if proof is None])
        for row, before, proof in zip(rows, known, told, strict=True):
            if proof is not None:
                yield proof
                continue
            proved = next(read)
            self._progress.proved(before, row, proved)
            yield proved

    def _each(self) -> Iterator[tuple[CatalogueRow, Before]]:
        """Yield what each segment alone tells, with what was known of it; the rows of objects of none, too."""
        total = self._listed.segments
        for done, (found, said) in enumerate(self._reads.of(self._progress.joined(self._found())), 1):
            self._on_step("reading segments", done, max(total, done))
            before = found.before if isinstance(found, ListedSegment) else NOTHING_BEFORE
            row = before.row or row_of(found, said, self._layout)
            self._progress.read(before, row)
            yield row, before

    def _found(self) -> Iterator[Found]:
        """Yield what was listed and is asked for; all is counted."""
        for found in gathered(in_order(self._listed).tables(), self._layout):
            self.objects += CatalogueAmount(1, len(found.keys), found.bytes)
            if self._asked.takes(found):
                yield found

    def _is_whole(self, topic_id: object, topic: object, partition: object) -> bool:
        """Tell whether all places were listed whole where objects of a user partition can lie."""
        tip = TopicIdPartition(topic_id, topic, partition)  # type: ignore[arg-type] # of a whole segment all are known
        try:
            folders = [self._layout.partition_prefix(tip, place) for place in self._layout.places]
        except UnsafeObjectKeyError:
            return False
        return all(map(self._listed.is_whole, folders))


def _parts(rows: Iterable[Told]) -> Iterator[list[Told]]:
    """Yield rows, as many at a time as may be Python's objects."""
    left = iter(rows)
    while part := list(islice(left, min(ROWS_AS_OBJECTS, SPOOLED_ROWS))):
        yield part


def _rows(spool: OrderedSpool) -> Iterator[CatalogueRow]:
    for table in spool.tables():
        yield from rows_of(table)


def _order_of(row: CatalogueRow) -> str:
    """Return what rows are ordered by: text, as numbers of one length."""
    if row.topic_id is None or row.partition is None:
        return f"{_LAST}{row.keys[0]}"
    return f"{kafka_uuid_str(row.topic_id)}/{row.partition:010}/{row.start_offset or 0:020}/{row.keys[0]}"


def tables_of(rows: Iterable[CatalogueRow], note: Callable[[CatalogueRow], None]) -> Iterator[pa.Table]:
    """
    Yield rows as tables of some ten thousands.

    :param rows: the rows.
    :param note: told of each.
    """
    import pyarrow as pa

    tables, count = list[pa.Table](), 0
    for some in _parts(rows):
        for row in some:
            note(row)
        tables.append(table_of(some))
        count += len(some)
        if count >= SPOOLED_ROWS:
            yield pa.concat_tables(tables).combine_chunks()
            tables, count = [], 0
    if tables:
        yield pa.concat_tables(tables).combine_chunks()
