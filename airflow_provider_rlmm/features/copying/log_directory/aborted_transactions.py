# SPDX-License-Identifier: Apache-2.0
"""
Whether a segment's transaction index has the transactions that were aborted in it, as a broker has followed them.

A consumer that reads committed records only leaves out what this index names: an entry that is missing, or begins too late,
shows it records that were never committed. No checksum protects the index. (Kafka: ``ProducerStateManager``.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider_rlmm.core.base.errors import DamagedObjectError
from airflow_provider_rlmm.core.segments.indexes.producer_snapshot import ProducerSnapshot
from airflow_provider_rlmm.core.segments.indexes.transaction_index import AbortedTransaction, TransactionIndex
from airflow_provider_rlmm.core.segments.record_batches.batch_sizes import Data
from airflow_provider_rlmm.core.segments.record_batches.control import ControlRecordType, read_markers
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders
from airflow_provider_rlmm.features.copying.log_directory.partition import LogSegment
from airflow_provider_rlmm.features.copying.log_directory.regular_files import read_index

_ENTRY_BYTES: Final = 34


@dataclass(slots=True)
class _Open:
    """
    A transaction that is not decided.

    :param first_offset: its first offset, ``None`` where it lies before all that is known.
    :param sure: whether the broker knows of it: below the log start offset it may have forgotten.
    """

    first_offset: int | None
    sure: bool


@dataclass(frozen=True, slots=True)
class _Aborted:
    """What is known of a transaction that was aborted here; ``None`` is not known."""

    sure: bool
    first_offset: int | None
    last_stable_offset: int | None


class AbortedTransactionsCheck:
    """
    Follows the transactions of a log, and compares them with its transaction index.

    :param segment: the segment.
    :param log_start_offset: the first offset that the broker remembers for sure.
    :param before: the producers where the segment begins; ``None`` where nobody knows them.
    """

    def __init__(self, segment: LogSegment, *, log_start_offset: int, before: ProducerSnapshot | None) -> None:
        self._segment = segment
        self._log_start_offset = log_start_offset
        self._all_known = before is not None
        self._open = {
            state.producer_id: _Open(state.open_since_offset, True)
            for state in (before.producers if before is not None else ())
            if state.open_since_offset is not None
        }
        self._aborted: dict[tuple[int, int], _Aborted] = {}

    def take(self, data: Data, headers: BatchHeaders) -> None:
        """
        Follow the transactions of some batches, in the order of the log.

        :param data: what the batches were found in.
        :param headers: the batches.
        """
        batches = headers[headers.is_transactional]
        markers = {marker.offset: marker.control_type for marker in read_markers(data, batches[batches.is_control])}
        columns = (batches.base_offset, batches.producer_id, batches.is_control)
        for offset, producer_id, is_control in zip(*(column.tolist() for column in columns), strict=True):
            if not is_control:
                self._write(producer_id, offset)
            elif offset in markers:
                self._decide(producer_id, offset, aborted=markers[offset] is ControlRecordType.ABORT)

    def _write(self, producer_id: int, offset: int) -> None:
        remembered = offset >= self._log_start_offset
        if (opened := self._open.get(producer_id)) is None:
            self._open[producer_id] = _Open(offset if remembered and self._all_known else None, remembered)
        else:
            opened.sure |= remembered

    def _decide(self, producer_id: int, offset: int, *, aborted: bool) -> None:
        opened = self._open.pop(producer_id, None)
        if not aborted:
            return
        others = [other.first_offset for other in self._open.values()]
        known = [first for first in others if first is not None]
        self._aborted[producer_id, offset] = _Aborted(
            sure=opened is not None and opened.sure,
            first_offset=None if opened is None else opened.first_offset,
            last_stable_offset=min([*known, offset + 1]) if self._all_known and len(known) == len(others) else None,
        )

    def finish(self) -> None:
        """
        Compare.

        :raises DamagedObjectError: if the index names what was not aborted in this segment, leaves out what was, or tells
            of it something else than the log.
        """
        file = self._segment.transaction_index
        location = str(self._segment.log.path.with_suffix(".txnindex"))
        data = b"" if file is None else read_index(file.path)
        index = TransactionIndex.parse(data, base_offset=self._segment.base_offset, location=location)
        for row, entry in enumerate(index.aborted):
            found = self._aborted.pop((entry.producer_id, entry.last_offset), None)
            if reason := _why_wrong(entry, found):
                position = row * _ENTRY_BYTES
                raise DamagedObjectError(
                    f"{location} is damaged at byte {position}: producer {entry.producer_id} {reason}",
                    location,
                    position,
                )
        lost = [key for key, found in self._aborted.items() if found.sure]
        if lost:
            producer_id, offset = min(lost, key=lambda key: key[1])
            raise DamagedObjectError(
                f"{location} does not name the transaction that producer {producer_id} has aborted at offset {offset}:"
                " readers would be shown its records. Copy the segment from another replica's disk",
                location,
                len(data),
            )


def _why_wrong(entry: AbortedTransaction, found: _Aborted | None) -> str | None:
    if found is None:
        return f"has aborted no transaction at offset {entry.last_offset}"
    if found.first_offset is not None and found.first_offset != entry.first_offset:
        return f"has begun the transaction at offset {found.first_offset}, not {entry.first_offset}"
    if found.last_stable_offset is not None and found.last_stable_offset != entry.last_stable_offset:
        return f"has left the last stable offset {found.last_stable_offset}, not {entry.last_stable_offset}"
    return None
