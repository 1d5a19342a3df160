# SPDX-License-Identifier: Apache-2.0
"""All that is compared of one segment: batches with each other, with the metadata, and with what lies beside the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import DamagedObjectError
from airflow_provider_rlmm.core.segments.indexes.offset_index import OffsetIndex
from airflow_provider_rlmm.core.segments.indexes.producer_snapshot import ProducerSnapshot
from airflow_provider_rlmm.core.segments.indexes.time_index import TimeIndex
from airflow_provider_rlmm.core.segments.indexes.transaction_index import TransactionIndex
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.segments.proof.batches_check import BatchesCheck
from airflow_provider_rlmm.core.segments.proof.fields import Epochs, SeenFields, SegmentFields, Surroundings
from airflow_provider_rlmm.core.segments.proof.findings import DamageKind, Finding, Report
from airflow_provider_rlmm.core.segments.proof.lineage import compare_checkpoint
from airflow_provider_rlmm.core.segments.proof.offset_entries import OffsetEntries
from airflow_provider_rlmm.core.segments.proof.producers import ProducersCheck
from airflow_provider_rlmm.core.segments.proof.time_entries import TimeEntries
from airflow_provider_rlmm.core.segments.proof.transactions import AbortedTransactionsCheck
from airflow_provider_rlmm.core.segments.record_batches.batch_sizes import Data
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders
from airflow_provider_rlmm.core.storage.index_type import IndexType

Array = npt.NDArray[Any]
Index = TypeVar("Index")

_NONE: Final = np.empty(0, np.int64)


class SegmentChecks:
    """
    Compares the parts of a segment while its log is read.

    :param fields: what its metadata say.
    :param around: what is known of the log around it.
    :param indexes: what lies beside the log; what is not among them is not compared. Without aborted transactions a segment
        has no transaction index: an empty one stands for it.
    :param report: takes what is wrong.
    """

    def __init__(
        self, fields: SegmentFields, around: Surroundings, indexes: Mapping[IndexType, bytes], report: Report
    ) -> None:
        self._fields = fields
        self._report = report
        self._indexes = indexes
        self._base = {"base_offset": fields.start_offset}
        self._checkpoint = self._parsed(IndexType.LEADER_EPOCH, LeaderEpochCheckpoint.parse)
        self._snapshot = self._parsed(IndexType.PRODUCER_SNAPSHOT, ProducerSnapshot.parse)
        self._transaction_index = self._parsed(IndexType.TRANSACTION, TransactionIndex.parse, **self._base)
        offsets = self._parsed(IndexType.OFFSET, OffsetIndex.parse, **self._base)
        times = self._parsed(IndexType.TIMESTAMP, TimeIndex.parse, **self._base)
        self.positions: Array = _NONE if offsets is None else offsets.position
        """Where batches begin, as the offset index says."""
        self._later: list[Finding] = []  # what counts only if the log is whole
        self._offset_entries = None if offsets is None else OffsetEntries(offsets, self._later.append)
        self._time_entries = None if times is None else TimeEntries(times, self._later.append)
        self._lineage = self._known_lineage(around)
        self._batches = BatchesCheck(
            fields.start_offset,
            fields.end_offset,
            self._lineage,
            may_have_gaps=around.may_have_gaps,
            report=report,
        )
        before = ProducerSnapshot(()) if fields.start_offset == 0 else around.producers_before
        self._transactions = AbortedTransactionsCheck(log_start_offset=self._log_start_offset(), before=before)
        self._producers = ProducersCheck(fields.start_offset)
        self._log_is_whole = True

    def _known_lineage(self, around: Surroundings) -> Epochs:
        known = around.lineage or self._fields.leader_epochs
        if known is None and self._checkpoint is not None:
            return self._checkpoint.entries
        return known or ()

    def _log_start_offset(self) -> int:
        """Below it a broker may have forgotten who wrote."""
        entries = self._lineage if self._checkpoint is None else self._checkpoint.entries
        return entries[0][1] if entries else 0

    def _parsed(self, index_type: IndexType, parse: Callable[..., Index], **more: int) -> Index | None:
        if (data := self._indexes.get(index_type)) is None:
            return None
        try:
            return parse(data, location=f"the {index_type.value} index", **more)
        except DamagedObjectError as e:
            kind = DamageKind.CHECKSUM if index_type is IndexType.PRODUCER_SNAPSHOT else DamageKind.INDEX
            self._report(Finding(kind=kind, part=index_type, position=e.position, why=str(e)))
            return None

    def take(self, data: Data, headers: BatchHeaders) -> None:
        """
        Compare some batches, whose checksums are right, in the order of the log.

        :param data: what they were found in.
        :param headers: at least one batch.
        """
        highest = self._batches.take(headers)
        if not self._log_is_whole:
            return
        if self._offset_entries is not None:
            position = headers.position + headers.data_position
            self._offset_entries.take(position, headers.base_offset, headers.last_offset)
        if self._time_entries is not None:
            self._time_entries.take(headers.last_offset, headers.max_timestamp_ms, highest)
        self._producers.take(headers)
        try:
            self._transactions.take(data, headers)
        except DamagedObjectError as e:
            self._report(Finding(kind=DamageKind.BATCH, position=e.position, why=str(e)))
            self._log_is_whole = False

    def lose(self) -> None:
        """Note that some of the log could not be read, or is damaged: nothing is compared with it any more."""
        self._log_is_whole = False
        self._batches.skip()

    def finish(self) -> SeenFields:
        """
        Compare what can be told at the end only.

        :return: what the log says.
        """
        seen = self._seen()
        self._batches.finish()
        if self._log_is_whole:
            if self._offset_entries is not None:
                self._offset_entries.finish()
            if self._time_entries is not None:
                self._time_entries.finish(seen.max_timestamp_ms)
            self._compare_transactions(seen)
            self._compare_metadata(seen)
            for finding in self._later:
                self._report(finding)
        self._compare_lineage(seen)
        return seen

    def _seen(self) -> SeenFields:
        batches = self._batches
        return SeenFields(
            size_in_bytes=batches.end_position,
            batches=batches.batches,
            first_offset=batches.first_offset,
            last_offset=batches.last_offset,
            max_timestamp_ms=batches.highest_ms,
            leader_epochs=tuple(batches.seen_epochs),
            aborted_transactions=self._transactions.count,
        )

    def _compare_transactions(self, seen: SeenFields) -> None:
        if (index := self._transaction_index) is not None:
            self._transactions.compare(index, len(self._indexes[IndexType.TRANSACTION]), self._later.append)
            if self._fields.txn_index_empty and index.aborted:
                self._metadata("txn_idx_empty", "true", f"{number_of(len(index.aborted), 'entry', 'entries')}")
        end = self._fields.end_offset if self._fields.end_offset is not None else seen.last_offset
        if self._snapshot is not None and end is not None:
            self._producers.compare(self._snapshot, end + 1, self._transactions, self._later.append)

    def _compare_metadata(self, seen: SeenFields) -> None:
        known = self._fields.max_timestamp_ms
        # Where no record has a timestamp it is the time of the file.
        if known is not None and seen.max_timestamp_ms >= 0 and known != seen.max_timestamp_ms:
            self._metadata("max_timestamp_ms", str(known), str(seen.max_timestamp_ms))

    def _metadata(self, name: str, said: str, seen: str) -> None:
        why = f"the metadata say {name} {said}, and the segment has {seen}"
        self._later.append(Finding(kind=DamageKind.METADATA, expected=said, seen=seen, why=why))

    def _compare_lineage(self, seen: SeenFields) -> None:
        own, checkpoint = self._fields.leader_epochs, self._checkpoint
        end = self._fields.end_offset if self._fields.end_offset is not None else seen.last_offset
        if own and checkpoint is not None and end is not None:
            compare_checkpoint(checkpoint, self._lineage, own, end, self._report)
