# SPDX-License-Identifier: Apache-2.0
"""
Proves rows by the contents of their segments: every batch of the log, and what lies beside it (``core.segments.proof``).

A row counts as proved only if everything agrees. Where a second look does not agree either, the segment is damaged; where
storage does not hand it out, it cannot be told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.core.base.ahead import done_ahead
from airflow_provider_rlmm.core.base.errors import (
    ArchivedObjectError,
    DamagedObjectError,
    RecordsTooLargeError,
    RemoteObjectNotFoundError,
    StorageAccessError,
    StorageRootError,
    StorageUnavailableError,
    UnsupportedMessageFormatError,
)
from airflow_provider_rlmm.core.plans.catalogue_rows import CatalogueRow, ProvedBy, RowKind
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.pacing import ByteQuota, FailuresInARow, StoragePatience
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.segment_files import SegmentFiles
from airflow_provider_rlmm.features.recovery.log_batches import PART_BYTES
from airflow_provider_rlmm.features.recovery.rules import by_key_alone

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.segments.proof.proving import SegmentProof

logger = logging.getLogger(__name__)

OnProved = Callable[[int], None]
"""Told how many rows were looked at."""


class Proofs:
    """
    Proves rows.

    :param fetch: reads an object: key, first and last byte, both inclusive, or to its end; asked by several threads.
    :param layout: where objects lie.
    :param quota: bytes that are fetched in a second.
    :param patience: for how long a storage that does not answer is asked again.
    :param may_have_gaps: whether offsets may be missing: topics that were compacted once.
    :param at_once: how many segments are read at once; with 1 everything is done by the thread of the caller.
    :param on_proved: told after each row.
    """

    def __init__(
        self,
        fetch: Callable[[str, int, int | None], bytes],
        layout: Layout,
        quota: ByteQuota,
        patience: StoragePatience,
        *,
        may_have_gaps: bool = False,
        at_once: int = 1,
        on_proved: OnProved = lambda _: None,
    ) -> None:
        self._fetch = fetch
        self._layout = layout
        self._quota = quota
        self._patience = patience
        self._may_have_gaps = may_have_gaps
        self._at_once = at_once
        self._on_proved = on_proved
        self._failures = FailuresInARow()
        self._looked_at = 0

    def applied(self, rows: Sequence[CatalogueRow]) -> Iterator[CatalogueRow]:
        """
        Yield rows in their order; those of whole segments that can be read as their contents prove them.

        :param rows: what is known of each segment without its contents.
        :raises StorageRootError: if the storage root is gone.
        :raises StorageError: if storage hands out nothing many times in a row.
        """
        for row, future in done_ahead(rows, self._proved, self._at_once, "rlmm-proofs"):
            yield self._judged(row, future)

    def _judged(self, row: CatalogueRow, future: Future[CatalogueRow]) -> CatalogueRow:
        try:
            told = future.result()
        except ArchivedObjectError as e:
            return by_key_alone(row, RowKind.CANNOT_TELL, str(e))
        except (StorageUnavailableError, StorageAccessError, StorageRootError) as e:
            self._failures.met(e)
            return by_key_alone(row, RowKind.CANNOT_TELL, str(e))
        if row.kind is RowKind.COPIED:
            self._failures.ended()
            self._looked_at += 1
            self._on_proved(self._looked_at)
        return told

    def _proved(self, row: CatalogueRow) -> CatalogueRow:
        """Return a row as its contents prove it; of what is no whole segment, or encrypted, nothing is read."""
        if row.kind is not RowKind.COPIED:
            return row
        try:
            why = self._compared(row)
            if isinstance(why, str):
                # What was damaged on its way is right the second time.
                logger.info("%s: %s; it is looked at once more", row.keys[0], why)
                why = self._compared(row)
        except RemoteObjectNotFoundError as e:
            return by_key_alone(row, RowKind.CANNOT_TELL, f"an object of it was listed and is gone: {e}")
        except (UnsupportedMessageFormatError, RecordsTooLargeError) as e:
            return by_key_alone(row, RowKind.CANNOT_TELL, f"its contents cannot be proved: {e}")
        return why if isinstance(why, CatalogueRow) else _damaged(row, why)

    def _compared(self, row: CatalogueRow) -> CatalogueRow | str:
        """Return a row as its contents prove it, or what is wrong."""
        from airflow_provider_rlmm.core.segments.proof.fields import SegmentFields, Surroundings
        from airflow_provider_rlmm.core.segments.proof.proving import prove_segment

        known: Any = row  # of a whole segment all is known that is asked for here
        # With gaps the end may lie behind what is known of it; without them the last batch has it.
        end = None if self._may_have_gaps and "end_offset" in row.bounds else row.end_offset
        fields = SegmentFields(
            start_offset=known.start_offset,
            end_offset=end,
            size_in_bytes=row.segment_size_in_bytes,
            max_timestamp_ms=None if "max_timestamp_ms" in row.bounds else row.max_timestamp_ms,
            leader_epochs=None if end is None else row.segment_leader_epochs,
            txn_index_empty=row.txn_idx_empty,
        )
        around = Surroundings(may_have_gaps=self._may_have_gaps)
        try:
            proof = prove_segment(fields, self._source(row), around, chunk_bytes=PART_BYTES)
        except DamagedObjectError as e:
            return str(e)
        if proof.is_right:
            return _with_contents(row, proof)
        more = proof.findings.counts.total() - 1
        return proof.findings.kept[0].why + (f"; and {more} more" if more else "")

    def _source(self, row: CatalogueRow) -> SegmentOfRow:
        """Return the contents of a segment, out of the objects of the row: another place may have others of the same id."""
        metadata = _metadata_of(row)
        below = self._layout.below("")
        [place] = [place for place in self._layout.places if place.name == row.place]
        prefix = self._layout.segment_stem(metadata, place).removesuffix(below.segment_stem(metadata))
        # What is kept of one segment is of no use to another.
        return SegmentOfRow(self._layout.below(prefix).segment_files(self._read), metadata)

    def _read(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        data = self._patience.call(lambda: self._fetch(key, start, end))
        self._quota.take(len(data))
        return data


@dataclass(frozen=True, slots=True)
class SegmentOfRow:
    """
    A :class:`~airflow_provider_rlmm.core.segments.proof.fields.SegmentSource`.

    :param files: reads the files of segments.
    :param metadata: the segment.
    """

    files: SegmentFiles
    metadata: RemoteLogSegmentMetadata

    def log(self, start: int, end: int) -> bytes:
        """See :class:`~airflow_provider_rlmm.core.segments.proof.fields.SegmentSource`."""
        return self.files.log(self.metadata, start, end - 1)

    def index(self, index_type: IndexType) -> bytes | None:
        """See :class:`~airflow_provider_rlmm.core.segments.proof.fields.SegmentSource`."""
        try:
            return self.files.index(self.metadata, index_type)
        except RemoteObjectNotFoundError:
            return None


def _metadata_of(row: CatalogueRow) -> RemoteLogSegmentMetadata:
    """Return what names the objects of a segment, without custom metadata: where they lie the row says."""
    known: Any = row
    segment = RemoteLogSegmentId(TopicIdPartition(known.topic_id, known.topic, known.partition), known.segment_id)
    return RemoteLogSegmentMetadata(
        segment, known.start_offset, known.end_offset, -1, -1, -1, known.segment_size_in_bytes, None,
        RemoteLogSegmentState.COPY_SEGMENT_STARTED, known.segment_leader_epochs, True,
    )  # fmt: skip


def _with_contents(row: CatalogueRow, proof: SegmentProof) -> CatalogueRow:
    """Return a row whose contents are right; what only they tell is taken from them."""
    told = replace(row, proved_by=ProvedBy.CONTENTS)
    if "max_timestamp_ms" in row.bounds:
        bounds = tuple(name for name in row.bounds if name != "max_timestamp_ms")
        told = replace(told, max_timestamp_ms=proof.seen.max_timestamp_ms, bounds=bounds)
    if row.txn_idx_empty is None and not proof.seen.aborted_transactions:
        # The index has what was aborted in the segment, and nothing was.
        told = replace(told, txn_idx_empty=True)
    return told


def _damaged(row: CatalogueRow, why: str) -> CatalogueRow:
    """Return a row of a segment whose contents are not right; what a snapshot says of it stays as it said it."""
    why = f"its contents contradict each other, or what is known of it: {why}"
    if row.proved_by in (ProvedBy.SNAPSHOT, ProvedBy.INVENTORY):
        return replace(row, kind=RowKind.DAMAGED, why=why)
    return by_key_alone(row, RowKind.DAMAGED, why)
