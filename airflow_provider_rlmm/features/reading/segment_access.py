# SPDX-License-Identifier: Apache-2.0
"""What can be asked of one remote log segment: its batches, its indexes, and what lies beside them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.segments.indexes.offset_index import OffsetIndex
from airflow_provider_rlmm.core.segments.indexes.producer_snapshot import ProducerSnapshot
from airflow_provider_rlmm.core.segments.indexes.time_index import TimeIndex
from airflow_provider_rlmm.core.segments.indexes.transaction_index import TransactionIndex
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint, lineage_of_segment
from airflow_provider_rlmm.core.segments.pacing import StoragePatience
from airflow_provider_rlmm.core.segments.read_range import OffsetRange
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.features.reading.fetching import SegmentFetcher
from airflow_provider_rlmm.features.reading.index_cache import RemoteIndexCache
from airflow_provider_rlmm.features.reading.read_ahead import ReadAhead
from airflow_provider_rlmm.features.reading.segment_reading import (
    ChunkSizes,
    IndexDisagreesError,
    SegmentPart,
    SegmentReading,
)

logger = logging.getLogger(__name__)


class SegmentAccess:
    """
    Access to segments of any user partition, for any number of threads.

    Every method raises :class:`~airflow_provider_rlmm.core.base.errors.StorageError` if an object is missing, or the
    storage refuses, or does not answer in time; and :class:`~airflow_provider_rlmm.core.base.errors.DamagedObjectError`
    if one cannot be what a broker has written.

    :param fetcher: fetches logs, and what is not kept.
    :param cache: keeps indexes.
    :param patience: asks a storage again, for the cache.
    :param sizes: how much is fetched at once.
    """

    def __init__(
        self, fetcher: SegmentFetcher, cache: RemoteIndexCache, patience: StoragePatience, sizes: ChunkSizes
    ) -> None:
        self._fetcher = fetcher
        self._cache = cache
        self._patience = patience
        self._sizes = sizes

    def location(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> str:
        """Return the key of an index, for messages."""
        return self._fetcher.location(metadata, index_type)

    def offset_index(self, metadata: RemoteLogSegmentMetadata) -> OffsetIndex:
        """Return where in the segment offsets lie."""
        return self._patience.call(lambda: self._cache.offset_index(metadata))

    def time_index(self, metadata: RemoteLogSegmentMetadata) -> TimeIndex:
        """Return at which offsets the timestamps of the segment rise."""
        return self._patience.call(lambda: self._cache.time_index(metadata))

    def transaction_index(self, metadata: RemoteLogSegmentMetadata) -> TransactionIndex:
        """Return the aborted transactions that end in the segment."""
        return self._patience.call(lambda: self._cache.transaction_index(metadata))

    def producer_snapshot(self, metadata: RemoteLogSegmentMetadata) -> ProducerSnapshot:
        """Return who had written when the segment ended, and whose transactions were open."""
        data = self._fetcher.index(metadata, IndexType.PRODUCER_SNAPSHOT)
        return ProducerSnapshot.parse(data, location=self.location(metadata, IndexType.PRODUCER_SNAPSHOT))

    def lineage(self, metadata: RemoteLogSegmentMetadata) -> LeaderEpochCheckpoint:
        """Return the lineage of the log from its beginning to the end of the segment."""
        location = self.location(metadata, IndexType.LEADER_EPOCH)
        data = self._fetcher.index(metadata, IndexType.LEADER_EPOCH)
        return lineage_of_segment(metadata, data, location=location)

    def parts(
        self,
        metadata: RemoteLogSegmentMetadata,
        lineage: LeaderEpochCheckpoint,
        offsets: OffsetRange,
        ahead: ReadAhead | None = None,
        at_the_end: Callable[[], object] = lambda: None,
    ) -> Iterator[SegmentPart]:
        """
        Yield the batches of a range, and perhaps some before and after.

        Where the offset index does not fit the log it is fetched again, and then done without: the log is read from its
        beginning.

        :param metadata: the segment.
        :param lineage: the leader epochs of the log.
        :param offsets: the range, in leader epochs that segment and lineage share.
        :param ahead: fetches ahead for a read that goes on from segment to segment; ``None`` where nothing is.
        :param at_the_end: called once no more is likely to be fetched: :meth:`begin` may fetch ahead what follows.
        """
        if ahead is not None:
            ahead.await_part(metadata)
        sizes = self._sizes if ahead is None or not ahead.has_begun else self._sizes_behind()
        start = offsets.start
        for trusted in (True, True, False):
            index = self.offset_index(metadata) if trusted else _index_without_entries(metadata)
            reading = SegmentReading(self._fetcher, metadata, lineage, sizes, ahead, at_the_end)
            try:
                for part in reading.parts(index, start, offsets.end):
                    yield part
                    start = max(start, int(part.headers.last_offset[-1]) + 1)
            except IndexDisagreesError as e:
                logger.warning("%s; the index is fetched once more, and left out if it stays so", e)
                self.forget(metadata)
            else:
                return

    def begin(
        self,
        metadata: RemoteLogSegmentMetadata,
        lineage: LeaderEpochCheckpoint,
        offsets: OffsetRange,
        ahead: ReadAhead,
    ) -> None:
        """
        Begin to fetch the offset index of a segment, and the first part of a range of it.

        :param metadata: the segment, which is read next.
        :param lineage: the leader epochs of the log.
        :param offsets: the range.
        :param ahead: fetches ahead; :meth:`parts` raises what goes wrong.
        """
        reading = SegmentReading(self._fetcher, metadata, lineage, self._sizes_behind())
        ahead.begin(metadata, lambda: reading.first_part(self.offset_index(metadata), offsets.start, offsets.end))

    def _sizes_behind(self) -> ChunkSizes:
        """How much is fetched at once of a segment that is not the first of its read: there all of it is wanted."""
        return replace(self._sizes, first_bytes=self._sizes.chunk_bytes)

    def forget(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Forget the indexes of a segment: it is gone, or they do not fit its log."""
        self._cache.remove(metadata.remote_log_segment_id)


def _index_without_entries(metadata: RemoteLogSegmentMetadata) -> OffsetIndex:
    return OffsetIndex.parse(b"", base_offset=metadata.start_offset, location="")
