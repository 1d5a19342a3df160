# SPDX-License-Identifier: Apache-2.0
"""Reads segments batch by batch as ``isolation.level`` asks for, and turns them into columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from airflow_provider_rlmm.core.base.errors import DamagedObjectError
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.segments.read_range import OffsetRange
from airflow_provider_rlmm.core.segments.record_batches.control import EndTransactionMarker, read_markers
from airflow_provider_rlmm.core.segments.record_batches.records import to_arrow_batches
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.features.reading.extent import RemoteExtent, SegmentSpan
from airflow_provider_rlmm.features.reading.read_ahead import ReadAhead
from airflow_provider_rlmm.features.reading.segment_access import SegmentAccess
from airflow_provider_rlmm.features.reading.segment_reading import SegmentPart
from airflow_provider_rlmm.features.reading.transaction_search import TransactionSearch
from airflow_provider_rlmm.features.reading.transactions import AbortedTransactions, MarkerCheck
from airflow_provider_rlmm.features.reading.undecided import Decided

if TYPE_CHECKING:
    import pyarrow as pa


def last_stable_offset(access: SegmentAccess, extent: RemoteExtent, end: int) -> int:
    """
    Return up to where all transactions are decided, exclusive: the first one that is open where the remote log ends.

    :param access: reads segments.
    :param extent: what is in remote storage.
    :param end: of all of it, exclusive.
    :raises OffsetNotInRemoteLogError: if the segment is missing that would tell.
    """
    while (span := extent.span_at(end - 1)) is not None:
        if span.is_whole:
            opened = access.producer_snapshot(span.metadata).first_open_offset
            return end if opened is None else min(end, opened)
        # Its snapshot tells of offsets that other leaders wrote anew; that of the segment before it does not.
        end = span.metadata.start_offset
    if end > extent.require_offsets().start:
        raise extent.hole_at(end - 1)
    return end


class RecordReading:
    """
    One read of a range, over the segments that serve it.

    :param access: reads segments.
    :param extent: what is in remote storage.
    :param max_decompressed_bytes: most bytes of what is yielded at once.
    :param committed: whether records of aborted transactions are left out.
    :param decided: what was decided of transactions without an end marker; ``None`` where none is in the range.
    """

    def __init__(
        self,
        access: SegmentAccess,
        extent: RemoteExtent,
        max_decompressed_bytes: int,
        *,
        committed: bool,
        decided: Decided | None = None,
    ) -> None:
        decided = decided or Decided(())
        self._never_end = decided.producers
        self._access = access
        self._extent = extent
        self._max_decompressed_bytes = max_decompressed_bytes
        self._committed = committed
        self._markers = MarkerCheck()
        self._search = TransactionSearch(access, extent, decided.aborted)
        self._ahead = ReadAhead()

    def forget(self) -> None:
        """Forget what was found of the segments ahead: some have gone, or others have taken their places."""
        self._search.forget()

    def records(self, span: SegmentSpan, following: SegmentSpan | None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """
        Yield records of a segment, each with the offset at which the read goes on behind them.

        :param span: the segment, and which of its offsets.
        :param following: the next one, which is fetched ahead; ``None`` where the read ends before.
        """
        metadata, offsets = span.metadata, span.offsets

        def begin_following() -> None:
            if following is not None:
                self._access.begin(following.metadata, self._extent.lineage, following.offsets, self._ahead)

        aborted = self._search.aborted(span) if self._committed else None
        for part in self._access.parts(metadata, self._extent.lineage, offsets, self._ahead, begin_following):
            headers = part.headers
            wanted = (headers.last_offset >= offsets.start) & (headers.base_offset < offsets.end)
            wanted_part = SegmentPart(part.data, headers[wanted])
            if aborted is not None:
                aborted = self._checked(wanted_part, aborted, span)
            for batch in self._to_arrow(wanted_part, aborted, offsets):
                yield int(batch.column("offset")[-1].as_py()) + 1, batch

    def _to_arrow(
        self, part: SegmentPart, aborted: AbortedTransactions | None, offsets: OffsetRange
    ) -> Iterator[pa.RecordBatch]:
        headers = part.headers
        headers = headers[~headers.is_control]
        if aborted is not None:
            headers = headers[~aborted.contain(headers)]
        for batch in to_arrow_batches(part.data, headers, max_decompressed_bytes=self._max_decompressed_bytes):
            clipped = _clipped(batch, offsets)
            if clipped.num_rows:
                yield clipped

    def _checked(self, part: SegmentPart, aborted: AbortedTransactions, span: SegmentSpan) -> AbortedTransactions:
        """Return the aborted transactions of a segment, as the end markers in a part of its log bear them out."""
        headers = part.headers
        markers = read_markers(part.data, headers[headers.is_control])
        before = self._markers.copy()
        if self._markers.disagreement(headers, aborted.contain(headers), markers) is None:
            return aborted
        # What is kept may be damaged; what is fetched anew is not, unless the object is.
        self._markers = before
        aborted = self._search.aborted(span, anew=True)
        marker = self._markers.disagreement(headers, aborted.contain(headers), markers)
        if marker is not None:
            raise self._damaged(span.metadata, marker)
        return aborted

    def require_decided(self, offset: int) -> None:
        """
        Read on behind the range, for no more than the end markers of the transactions that records of it belong to.

        :param offset: the end of the range.
        :raises DamagedObjectError: if an end marker says otherwise than was said of a record, or is not there.
        """
        while self._markers.waits_but_for(self._never_end):
            span = self._extent.span_at(offset)
            if span is None:
                raise self._extent.hole_at(offset)
            for part in self._access.parts(span.metadata, self._extent.lineage, span.offsets):
                headers = part.headers[part.headers.is_control & (part.headers.base_offset >= offset)]
                nothing = np.zeros(len(headers), bool)
                marker = self._markers.disagreement(headers, nothing, read_markers(part.data, headers))
                if marker is not None:
                    self._access.forget(span.metadata)
                    raise self._damaged(span.metadata, marker)
                if not self._markers.waits_but_for(self._never_end):
                    return
            offset = span.offsets.end

    def _damaged(self, metadata: RemoteLogSegmentMetadata, marker: EndTransactionMarker) -> DamagedObjectError:
        location = self._access.location(metadata, IndexType.TRANSACTION)
        return DamagedObjectError(
            f"the transaction index {location}, or one of a segment near it, is damaged: the transaction of producer "
            f"{marker.producer_id} that ends at offset {marker.offset} ended in {marker.control_type.name}, says its end "
            "marker, and the indexes say otherwise",
            location,
            0,
        )


def _clipped(batch: Any, offsets: OffsetRange) -> Any:
    """Return the records of a range."""
    offset = batch.column("offset").to_numpy()
    first, last = np.searchsorted(offset, [offsets.start, offsets.end])
    return batch if last - first == offset.size else batch.slice(int(first), int(last - first))
