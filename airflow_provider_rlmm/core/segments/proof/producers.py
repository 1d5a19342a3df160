# SPDX-License-Identifier: Apache-2.0
"""
A producer snapshot beside its log: what it says of who has written is what the log says (Kafka: ``ProducerStateManager``).

Its own checksum tells damage; this tells a snapshot that is another segment's. Brokers forget producers that have not written
for a time, so one that is missing says nothing, unless its transaction is open.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from airflow_provider_rlmm.core.segments.indexes.producer_snapshot import ProducerSnapshot, ProducerState
from airflow_provider_rlmm.core.segments.proof.findings import DamageKind, Finding, Report
from airflow_provider_rlmm.core.segments.proof.transactions import AbortedTransactionsCheck, OpenTransaction
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders
from airflow_provider_rlmm.core.storage.index_type import IndexType

_NO_RECORD: Final = -1


class ProducersCheck:
    """
    Follows the producers of a segment.

    :param start_offset: first offset of the segment, inclusive.
    """

    def __init__(self, start_offset: int) -> None:
        self._start_offset = start_offset
        self._last_offset: dict[int, int] = {}  # of its last batch of records
        self._epoch: dict[int, int] = {}  # of its last batch, end markers among them

    def take(self, headers: BatchHeaders) -> None:
        """
        Follow the producers of some batches, in the order of the log.

        :param headers: the batches.
        """
        named = headers[headers.producer_id >= 0]
        records = named[~named.is_control]
        self._last_offset |= _last_of_each(records, "last_offset")
        self._epoch |= _last_of_each(named, "producer_epoch")

    def compare(
        self, snapshot: ProducerSnapshot, next_offset: int, transactions: AbortedTransactionsCheck, report: Report
    ) -> None:
        """
        Compare with the snapshot.

        :param snapshot: the producers as of the end of the segment.
        :param next_offset: the first offset behind the segment.
        :param transactions: what was open behind the last batch.
        :param report: takes what is wrong.
        """
        undecided, named = transactions.undecided(), set[int]()
        for state in snapshot.producers:
            named.add(state.producer_id)
            why = self._why_wrong(state, next_offset) or _why_wrong_open(state, undecided, transactions, self._epoch)
            if why:
                report(_finding(f"producer {state.producer_id}: {why}: it is another segment's", str(state)))
        for producer_id in sorted(key for key, opened in undecided.items() if opened.sure and key not in named):
            report(
                _finding(f"it does not name producer {producer_id}, whose transaction is open: it is another segment's")
            )

    def _why_wrong(self, state: ProducerState, next_offset: int) -> str | None:
        known = max(state.last_offset, state.open_since_offset or 0)
        if known >= next_offset:
            return f"it is known at offset {known}, and the snapshot is to tell of what lies below {next_offset}"
        epoch, last_offset = self._epoch.get(state.producer_id), self._last_offset.get(state.producer_id)
        if epoch is None:
            if state.last_offset >= self._start_offset:
                return f"it has written nothing in this segment, and is said to have written offset {state.last_offset}"
        elif state.producer_epoch != epoch:
            return f"its epoch is {epoch}, not {state.producer_epoch}"
        # An end marker of a newer epoch takes the place of what was written last.
        elif last_offset is not None and state.last_offset not in (last_offset, _NO_RECORD):
            return f"it has written offset {last_offset} last, not {state.last_offset}"
        return None


def _why_wrong_open(
    state: ProducerState,
    undecided: dict[int, OpenTransaction],
    transactions: AbortedTransactionsCheck,
    seen: dict[int, int],
) -> str | None:
    since, opened = state.open_since_offset, undecided.get(state.producer_id)
    if opened is None:
        if since is not None and (transactions.all_known or state.producer_id in seen):
            return f"it has no open transaction, and is said to have one since offset {since}"
    elif (since is None and opened.sure) or (opened.first_offset is not None and since != opened.first_offset):
        return f"its transaction is open since offset {opened.first_offset}, not {since}"
    return None


def _last_of_each(headers: BatchHeaders, column: str) -> dict[int, int]:
    """Return producer id → what its last batch has in a column."""
    ids, back = np.unique(headers.producer_id[::-1], return_index=True)
    values = getattr(headers, column)[::-1][back]
    return dict(zip(ids.tolist(), values.tolist(), strict=True))


def _finding(why: str, seen: str = "") -> Finding:
    return Finding(kind=DamageKind.INDEX, part=IndexType.PRODUCER_SNAPSHOT, position=0, seen=seen, why=why)
