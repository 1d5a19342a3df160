# SPDX-License-Identifier: Apache-2.0
"""
Which aborted transactions have records in a segment: its own transaction index says it, and those of later segments.

Most segments have no entries, and a broker before 4.0 does not even say so of them. Each segment of a range asks for the next
one that has some; the answer to the first is kept for all others before that one. So a read asks each segment once, however
many there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.segments.indexes.transaction_index import AbortedTransaction
from airflow_provider_rlmm.features.reading.extent import RemoteExtent, SegmentSpan
from airflow_provider_rlmm.features.reading.segment_access import SegmentAccess
from airflow_provider_rlmm.features.reading.transactions import AbortedTransactions


class TransactionSearch:
    """
    Finds aborted transactions for one read, which goes from segment to segment.

    :param access: reads segments.
    :param extent: what is in remote storage.
    :param also: further ones that count as aborted, even against the indexes.
    """

    def __init__(self, access: SegmentAccess, extent: RemoteExtent, also: Sequence[AbortedTransaction] = ()) -> None:
        self._also = also
        self._access = access
        self._extent = extent
        # first offset that was searched from, and the segment that was found: no other one with entries lies between
        self._searched: list[tuple[int, RemoteLogSegmentMetadata | None]] = []

    def forget(self) -> None:
        """Forget where indexes with entries lie: segments have gone, or others have taken their places."""
        self._searched.clear()

    def aborted(self, span: SegmentSpan, *, anew: bool = False) -> AbortedTransactions:
        """
        Return the aborted transactions with records in a range, by the indexes of its segment and of later ones.

        :param span: the segment, and the range.
        :param anew: fetch all these indexes once more.
        """
        if anew:
            self.forget()
        found: list[AbortedTransaction] = list(self._also)
        seen = set()
        start, end = span.offsets.start, span.offsets.end
        metadata: RemoteLogSegmentMetadata | None = span.metadata
        while metadata is not None and metadata.remote_log_segment_id not in seen:
            seen.add(metadata.remote_log_segment_id)
            if not metadata.txn_idx_empty:
                if anew:
                    self._access.forget(metadata)
                transactions, is_complete = self._access.transaction_index(metadata).overlapping(start, end)
                found += transactions
                if is_complete:
                    break
            metadata = self._next_with_entries(metadata.end_offset + 1, anew=anew)
        return AbortedTransactions(found)

    def _next_with_entries(self, offset: int, *, anew: bool) -> RemoteLogSegmentMetadata | None:
        for searched_from, found in self._searched:
            if searched_from <= offset and (found is None or offset <= found.start_offset):
                return found
        found = self._search(offset, anew=anew)
        # What lies behind is not asked for any more.
        self._searched = [(o, f) for o, f in self._searched if f is None or f.start_offset >= offset]
        self._searched.append((offset, found))
        return found

    def _search(self, offset: int, *, anew: bool) -> RemoteLogSegmentMetadata | None:
        passed = set()
        metadata = self._next_with_txn_index(offset)
        while metadata is not None and metadata.remote_log_segment_id not in passed:
            if anew:
                self._access.forget(metadata)
            if self._access.transaction_index(metadata).aborted:
                return metadata
            passed.add(metadata.remote_log_segment_id)
            metadata = self._next_with_txn_index(metadata.end_offset + 1)
        return None

    def _next_with_txn_index(self, offset: int) -> RemoteLogSegmentMetadata | None:
        """Return the next segment that may have aborted transactions (Kafka: ``findNextSegmentWithTxnIndex``)."""
        extent = self._extent
        begin = extent.lineage.epoch_for_offset(offset)
        if begin is None:
            return None
        for leader_epoch, start_offset in extent.lineage.entries:
            if leader_epoch >= begin:
                metadata = extent.segments.next_segment_with_txn_index(
                    extent.topic_id_partition, leader_epoch, max(start_offset, offset)
                )
                if metadata is not None:
                    return metadata
        return None
