# SPDX-License-Identifier: Apache-2.0
"""
Transactions whose end marker is in no segment: who wrote them, where they begin, and how many records they have.

Kafka's leaders copy only what lies below the last stable offset, so such a transaction has mostly ended, in a segment that
was not copied. How it ended cannot be told from what was copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import DamagedObjectError
from airflow_provider_rlmm.core.segments.indexes.transaction_index import AbortedTransaction
from airflow_provider_rlmm.core.segments.record_batches.control import read_markers
from airflow_provider_rlmm.core.storage.index_type import IndexType

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.segments.read_range import OffsetRange
    from airflow_provider_rlmm.features.reading.extent import RemoteExtent, SegmentSpan
    from airflow_provider_rlmm.features.reading.segment_access import SegmentAccess
    from airflow_provider_rlmm.features.reading.segment_reading import SegmentPart

_NO_END: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """
    A transaction without an end marker.

    :param producer_id: whose it is.
    :param first_offset: of its first record in the range.
    :param records: how many it has in the range.
    """

    producer_id: int
    first_offset: int
    records: int

    def __str__(self) -> str:
        return f"producer {self.producer_id} from offset {self.first_offset} on, {number_of(self.records, 'record')}"


@dataclass(frozen=True, slots=True)
class Decided:
    """
    What a person has decided of the transactions without an end marker.

    :param transactions: all that there are in the range.
    :param keep: whether their records are read; they count as aborted otherwise.
    """

    transactions: tuple[OpenTransaction, ...]
    keep: bool = False

    @property
    def producers(self) -> frozenset[int]:
        """Whose end markers are not waited for."""
        return frozenset(found.producer_id for found in self.transactions)

    @property
    def aborted(self) -> list[AbortedTransaction]:
        """Those that count as aborted."""
        if self.keep:
            return []
        return [AbortedTransaction(t.producer_id, t.first_offset, _NO_END, t.first_offset) for t in self.transactions]


@dataclass(frozen=True, slots=True)
class ScannedRange:
    """
    What lies in a range of offsets.

    :param records: of transactions that were aborted, too; without end markers.
    :param undecided: transactions that are open at its end, by first offset.
    """

    records: int
    undecided: tuple[OpenTransaction, ...]


def scan(access: SegmentAccess, extent: RemoteExtent, offsets: OffsetRange) -> ScannedRange:
    """
    Look at the headers of all batches of a range, and at its end markers.

    :param access: reads segments.
    :param extent: what is in remote storage.
    :param offsets: the range.
    :raises DamagedObjectError: if log and producer snapshot contradict each other at the end of the range.
    :raises RlmmError: if some of it cannot be read.
    """
    records, last = 0, None
    opened: dict[int, OpenTransaction] = {}
    for last in extent.spans(offsets):
        for part in access.parts(last.metadata, extent.lineage, last.offsets):
            records += _take(part, last.offsets, opened)
    # A range may end within transactions whose ends are remote all the same.
    while opened and last is not None and (behind := extent.span_at(last.offsets.end)) is not None:
        last = behind
        for part in access.parts(last.metadata, extent.lineage, last.offsets):
            _close(part, last.offsets, opened)
            if not opened:
                break
    if last is not None and last.is_whole:
        _require_agreement(access, last, offsets, opened)
    return ScannedRange(records, tuple(sorted(opened.values(), key=lambda found: found.first_offset)))


def _close(part: SegmentPart, offsets: OffsetRange, opened: dict[int, OpenTransaction]) -> None:
    """Take the end markers of a part behind the range into account: the first one of a producer ends what it had begun."""
    headers = part.headers
    wanted = headers.is_control & (headers.last_offset >= offsets.start) & (headers.base_offset < offsets.end)
    for marker in read_markers(part.data, headers[wanted]):
        opened.pop(marker.producer_id, None)


def _take(part: SegmentPart, offsets: OffsetRange, opened: dict[int, OpenTransaction]) -> int:
    """Take the batches of a part into account; return how many records of the range it has."""
    headers = part.headers
    headers = headers[(headers.last_offset >= offsets.start) & (headers.base_offset < offsets.end)]
    ends = {marker.producer_id: marker.offset for marker in read_markers(part.data, headers[headers.is_control])}
    for producer_id in ends:
        opened.pop(producer_id, None)
    data = headers[~headers.is_control]
    first, last = np.maximum(data.base_offset, offsets.start), np.minimum(data.last_offset, offsets.end - 1)
    # The first batch may begin before the range, and the last one end behind it.
    counts = np.minimum(data.record_count, last - first + 1)
    for producer_id in np.unique(data.producer_id[data.is_transactional]).tolist():
        is_open = data.is_transactional & (data.producer_id == producer_id)
        is_open &= data.base_offset > ends.get(producer_id, -1)
        if is_open.any():
            known = opened.get(producer_id) or OpenTransaction(producer_id, int(first[is_open][0]), 0)
            count = known.records + int(counts[is_open].sum())
            opened[producer_id] = OpenTransaction(producer_id, known.first_offset, count)
    return int(counts.sum())


def _require_agreement(
    access: SegmentAccess, span: SegmentSpan, offsets: OffsetRange, opened: dict[int, OpenTransaction]
) -> None:
    """Compare what the log says of open transactions with the leader's own word at the end of the segment."""
    said = {
        p.producer_id: p.open_since_offset
        for p in access.producer_snapshot(span.metadata).producers
        if p.open_since_offset is not None
    }
    # Of a transaction that had begun before the range the log has no first offset here, and may have no record; one that
    # began behind it has no record in it.
    begun_here = {producer_id: first for producer_id, first in said.items() if offsets.start <= first < offsets.end}
    found = {
        t.producer_id: t.first_offset for t in opened.values() if said.get(t.producer_id, _NO_END) >= offsets.start
    }
    if found != begun_here:
        location = access.location(span.metadata, IndexType.PRODUCER_SNAPSHOT)
        raise DamagedObjectError(
            f"the producer snapshot {location} says that these transactions are open, by producer and first offset: "
            f"{begun_here}, and the log says {found}: one of them is damaged",
            location,
            0,
        )
