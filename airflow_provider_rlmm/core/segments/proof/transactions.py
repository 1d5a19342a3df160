# SPDX-License-Identifier: Apache-2.0
"""
Whether a segment's transaction index has the transactions that were aborted in it, as a broker has followed them.

A consumer that reads committed records only leaves out what this index names: an entry that is missing, or begins too late,
shows it records that were never committed. No checksum protects the index. (Kafka: ``ProducerStateManager``.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider_rlmm.core.segments.indexes.producer_snapshot import ProducerSnapshot
from airflow_provider_rlmm.core.segments.indexes.transaction_index import AbortedTransaction, TransactionIndex
from airflow_provider_rlmm.core.segments.proof.findings import DamageKind, Finding, Report
from airflow_provider_rlmm.core.segments.record_batches.batch_sizes import Data
from airflow_provider_rlmm.core.segments.record_batches.control import ControlRecordType, read_markers
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders
from airflow_provider_rlmm.core.storage.index_type import IndexType

_ENTRY_BYTES: Final = 34


@dataclass(slots=True)
class OpenTransaction:
    """
    A transaction that is not decided.

    :param first_offset: its first offset, ``None`` where it may lie before all that is known.
    :param sure: whether the broker knows of it: below the log start offset it may have forgotten.
    :param at_most: the first of its offsets that was seen, ``None`` where none was.
    """

    first_offset: int | None
    sure: bool
    at_most: int | None = None


@dataclass(frozen=True, slots=True)
class _Aborted:
    """What is known of a transaction that was aborted here; ``None`` is not known."""

    sure: bool
    first_offset: int | None
    at_most: int | None
    last_stable_offset: int | None


class AbortedTransactionsCheck:
    """
    Follows the transactions of a log, and compares them with its transaction index.

    :param log_start_offset: the first offset that the broker remembers for sure.
    :param before: the producers where the segment begins; ``None`` where they are not known.
    """

    def __init__(self, *, log_start_offset: int, before: ProducerSnapshot | None) -> None:
        self._log_start_offset = log_start_offset
        self._all_known = before is not None
        self._ended: set[int] = set()  # producers of which a transaction has ended here: the next one begins here
        self._open: dict[int, OpenTransaction] = {
            state.producer_id: OpenTransaction(state.open_since_offset, True)
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
            begins_here = self._all_known or producer_id in self._ended
            self._open[producer_id] = OpenTransaction(
                offset if remembered and begins_here else None, remembered, offset if remembered else None
            )
        else:
            opened.sure |= remembered

    def _decide(self, producer_id: int, offset: int, *, aborted: bool) -> None:
        opened = self._open.pop(producer_id, None)
        self._ended.add(producer_id)
        if not aborted:
            return
        others = [other.first_offset for other in self._open.values()]
        known = [first for first in others if first is not None]
        self._aborted[producer_id, offset] = _Aborted(
            sure=opened is not None and opened.sure,
            first_offset=None if opened is None else opened.first_offset,
            at_most=None if opened is None else opened.at_most,
            last_stable_offset=min([*known, offset + 1]) if self._all_known and len(known) == len(others) else None,
        )

    @property
    def count(self) -> int:
        """How many end markers of aborted transactions were seen."""
        return len(self._aborted)

    @property
    def all_known(self) -> bool:
        """Whether the producers are known where the segment begins."""
        return self._all_known

    def undecided(self) -> dict[int, OpenTransaction]:
        """Return the producers whose transactions are open behind the last batch."""
        return dict(self._open)

    def compare(self, index: TransactionIndex, size_in_bytes: int, report: Report) -> None:
        """
        Compare with the index.

        :param index: the transaction index; one without entries where there is none.
        :param size_in_bytes: of it.
        :param report: takes it where the index names what was not aborted in this segment, leaves out what was, or tells of
            it something else than the log.
        """
        left = dict(self._aborted)
        for row, entry in enumerate(index.aborted):
            found = left.pop((entry.producer_id, entry.last_offset), None)
            if reason := _why_wrong(entry, found):
                why = f"producer {entry.producer_id} {reason}"
                report(_finding(row * _ENTRY_BYTES, entry.last_offset, why, str(entry)))
        for producer_id, offset in sorted((key for key, found in left.items() if found.sure), key=lambda key: key[1]):
            why = (
                f"it does not name the transaction that producer {producer_id} has aborted at offset {offset}: readers "
                "would be shown its records"
            )
            report(_finding(size_in_bytes, offset, why, ""))


def _finding(position: int, offset: int, why: str, seen: str) -> Finding:
    return Finding(
        kind=DamageKind.INDEX, part=IndexType.TRANSACTION, position=position, offset=offset, seen=seen, why=why
    )


def _why_wrong(entry: AbortedTransaction, found: _Aborted | None) -> str | None:
    if found is None:
        return f"has aborted no transaction at offset {entry.last_offset}"
    if found.first_offset is not None and found.first_offset != entry.first_offset:
        return f"has begun the transaction at offset {found.first_offset}, not {entry.first_offset}"
    if found.at_most is not None and found.at_most < entry.first_offset:
        return f"has written in the transaction at offset {found.at_most}, before {entry.first_offset}"
    if found.last_stable_offset is not None and found.last_stable_offset != entry.last_stable_offset:
        return f"has left the last stable offset {found.last_stable_offset}, not {entry.last_stable_offset}"
    return None
