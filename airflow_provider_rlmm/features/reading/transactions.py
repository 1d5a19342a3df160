# SPDX-License-Identifier: Apache-2.0
"""
Which record batches belong to aborted transactions.

The transaction indexes say it, and the end markers in the log say it, too: wherever both are there, they have to agree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from airflow_provider_rlmm.core.segments.indexes.transaction_index import AbortedTransaction
from airflow_provider_rlmm.core.segments.record_batches.control import ControlRecordType, EndTransactionMarker
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders

Array = npt.NDArray[Any]


class AbortedTransactions:
    """
    Aborted transactions, by producer.

    :param transactions: in any order; some may come twice.
    """

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        ordered = sorted({(t.producer_id, t.first_offset, t.last_offset) for t in transactions})
        columns = np.array(ordered, np.int64).reshape(-1, 3)
        self._producer_id, self._first_offset, self._last_offset = columns[:, 0], columns[:, 1], columns[:, 2]

    def contain(self, headers: BatchHeaders) -> Array:
        """Tell of each batch whether it belongs to an aborted transaction; its end marker does, too."""
        count, producer_id, offset = self._first_offset.size, headers.producer_id, headers.base_offset
        if not count:
            return np.zeros(len(headers), bool)
        # The last transaction of the same producer that begins at or before each batch, all looked up in one sorting.
        everything = np.lexsort(
            (
                np.repeat([0, 1], [count, len(headers)]),
                np.concatenate([self._first_offset, offset]),
                np.concatenate([self._producer_id, producer_id]),
            )
        )
        begun = np.maximum.accumulate(np.where(everything < count, everything, -1))
        candidate = np.empty(len(headers), np.int64)
        is_batch = everything >= count
        candidate[everything[is_batch] - count] = begun[is_batch]
        same = (candidate >= 0) & (self._producer_id[candidate] == producer_id) & headers.is_transactional
        inside: Array = same & (offset <= self._last_offset[candidate])
        return inside


class MarkerCheck:
    """Compares, in the order of the log, what was said of batches with the end markers of their transactions."""

    def __init__(self) -> None:
        # what was said of the batches whose end marker is still to come, by producer
        self._open: dict[int, set[bool]] = {}

    def waits_but_for(self, producers: Collection[int]) -> bool:
        """
        Tell whether an end marker is still to come.

        :param producers: whose end markers never come.
        """
        return bool(self._open.keys() - set(producers))

    def copy(self) -> MarkerCheck:
        """Return an independent copy."""
        copied = MarkerCheck()
        copied._open = {producer_id: set(said) for producer_id, said in self._open.items()}
        return copied

    def disagreement(
        self, headers: BatchHeaders, aborted: Array, markers: Sequence[EndTransactionMarker]
    ) -> EndTransactionMarker | None:
        """
        Return an end marker that says otherwise than was said of a batch of its transaction, ``None`` where all agree.

        :param headers: the next batches of the log.
        :param aborted: of each, whether it was said to belong to an aborted transaction.
        :param markers: the end markers among them, by offset.
        """
        data = np.flatnonzero(headers.is_transactional & ~headers.is_control)
        offset = np.array([marker.offset for marker in markers], np.int64)
        producer_id = np.array([marker.producer_id for marker in markers], np.int64)
        is_abort = np.array([marker.control_type is ControlRecordType.ABORT for marker in markers], bool)
        order = np.lexsort((offset, producer_id))
        ends = _next_of_producer(
            producer_id[order], offset[order], headers.producer_id[data], headers.base_offset[data]
        )
        said = aborted[data]
        decided = np.flatnonzero(ends >= 0)
        wrong = decided[is_abort[order[ends[decided]]] != said[decided]]
        if wrong.size:
            return markers[int(order[ends[wrong[0]]])]
        for marker in markers:
            # Of each producer the first one ends what was open before.
            if self._open and self._open.pop(marker.producer_id, set()) - {
                marker.control_type is ControlRecordType.ABORT
            }:
                return marker
        undecided = data[ends < 0]
        for was_aborted in (False, True):
            for producer in np.unique(headers.producer_id[undecided[aborted[undecided] == was_aborted]]).tolist():
                self._open.setdefault(producer, set()).add(was_aborted)
        return None


def _next_of_producer(producer_id: Array, offset: Array, wanted_id: Array, wanted_offset: Array) -> Array:
    """
    Return of each wanted pair the row of the first pair of the same producer that is not below it, -1 where there is none.

    :param producer_id: of the pairs to find, which are sorted by producer and offset.
    :param offset: their offsets.
    :param wanted_id: producers of the wanted pairs.
    :param wanted_offset: their offsets.
    """
    count = producer_id.size
    everything = np.lexsort(
        (
            np.repeat([1, 0], [count, wanted_id.size]),
            np.concatenate([offset, wanted_offset]),
            np.concatenate([producer_id, wanted_id]),
        )
    )
    following = np.minimum.accumulate(np.where(everything < count, everything, count)[::-1])[::-1]
    found = np.empty(wanted_id.size, np.int64)
    is_wanted = everything >= count
    found[everything[is_wanted] - count] = following[is_wanted]
    inside = np.minimum(found, max(count - 1, 0))
    same = (found < count) & (producer_id[inside] == wanted_id if count else False)
    return np.where(same, found, -1)
