# SPDX-License-Identifier: Apache-2.0
"""Reads and searches the remote log of user partitions without a broker (Kafka: ``RemoteLogManager``)."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    RemoteObjectNotFoundError,
    SegmentGoneError,
)
from airflow_provider_rlmm.core.log.known_segments import AdvancingSegments, RemoteLogSegments
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint, last_shared_offset
from airflow_provider_rlmm.core.segments.metrics import RemoteLogMetrics
from airflow_provider_rlmm.core.segments.pacing import ByteQuota, StoragePatience
from airflow_provider_rlmm.core.segments.read_range import OffsetRange, ReadIsolation
from airflow_provider_rlmm.core.storage.remote_storage import SegmentStorage
from airflow_provider_rlmm.features.reading.committed_reading import RecordReading, last_stable_offset
from airflow_provider_rlmm.features.reading.extent import RemoteExtent, SegmentSpan, nothing_remote
from airflow_provider_rlmm.features.reading.fetching import SegmentFetcher
from airflow_provider_rlmm.features.reading.index_cache import RemoteIndexCache
from airflow_provider_rlmm.features.reading.segment_access import SegmentAccess
from airflow_provider_rlmm.features.reading.segment_reading import ChunkSizes
from airflow_provider_rlmm.features.reading.timestamp_search import FoundOffset, find_in_segment
from airflow_provider_rlmm.features.reading.undecided import Decided, ScannedRange, scan

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RemoteLogReader"]

logger = logging.getLogger(__name__)

DEFAULT_CHUNK_BYTES: Final = 8 * 2**20
"""Bytes of a log that are fetched at once."""
DEFAULT_MAX_DECOMPRESSED_BYTES: Final = 256 * 2**20
"""Most bytes that the batches of a chunk may decompress to."""
DEFAULT_TIMEOUT_S: Final = 60.0
"""For how long a storage that does not answer is asked again."""

_FIRST_CHUNK_BYTES: Final = 2**20
_NEWS_PAUSES_S: Final = (0.0, 0.1, 0.3, 1.0, 3.0)
"""Waits for the metadata to say what became of a segment whose objects are gone: its deletion was written before that."""


class RemoteLogReader:
    """
    Reads the remote log of user partitions, as a consumer would through a broker.

    One reader may be used by several threads.

    :param segments: knows the remote log segments.
    :param storage: has their objects.
    :param index_cache: keeps their indexes; ``None`` for one of the reader's own.
    :param metrics: counts; ``None`` for one of the reader's own.
    :param chunk_bytes: bytes of a log that are fetched at once, and as many ahead; a larger record batch is fetched whole.
    :param max_decompressed_bytes: most bytes that a record batch may have, compressed or not; as much is yielded at once.
    :param timeout_s: for how long a storage that does not answer is asked again, in seconds.
    :param bytes_per_second: most bytes of logs that are fetched per second, ``None`` for no limit.
    :param to_the_end: whether each log has to hold the last offset that its metadata name: where these are no broker's word.
    :param clock: seconds, monotonic.
    :param sleep: waits for seconds.
    :param jitter: returns a number from 0 to 1, exclusive.
    :raises ConfigurationError: if a number is not above 0; ``timeout_s`` may be 0.
    """

    def __init__(
        self,
        segments: RemoteLogSegments,
        storage: SegmentStorage,
        *,
        index_cache: RemoteIndexCache | None = None,
        metrics: RemoteLogMetrics | None = None,
        chunk_bytes: int = DEFAULT_CHUNK_BYTES,
        max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        bytes_per_second: int | None = None,
        to_the_end: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        for name, value in (("chunk_bytes", chunk_bytes), ("max_decompressed_bytes", max_decompressed_bytes)):
            if value <= 0:
                raise ConfigurationError(f"{name} is {value}: it has to be above 0")
        if timeout_s < 0:
            raise ConfigurationError(f"timeout_s is {timeout_s}: it has to be 0 or more")
        self.metrics = metrics or RemoteLogMetrics()
        quota = ByteQuota(bytes_per_second, clock=clock, sleep=sleep)
        chunk_bytes = min(chunk_bytes, quota.bytes_per_second or chunk_bytes)
        most_bytes = max(chunk_bytes, max_decompressed_bytes)
        sizes = ChunkSizes(min(_FIRST_CHUNK_BYTES, chunk_bytes), chunk_bytes, most_bytes, to_the_end)
        patience = StoragePatience(timeout_s, clock=clock, sleep=sleep, jitter=jitter)
        fetcher = SegmentFetcher(storage, patience, quota, self.metrics)
        self._segments = segments
        self._max_decompressed_bytes = max_decompressed_bytes
        self._access = SegmentAccess(fetcher, index_cache or RemoteIndexCache(storage), patience, sizes)
        self._sleep = sleep

    def fetch_remote_log_segment_metadata(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """
        Return the segment that serves reads of an offset, ``None`` where there is none.

        :param topic_id_partition: the user partition.
        :param leader_epoch: the leader epoch that the offset was written in.
        :param offset: the offset.
        """
        return self._segments.remote_log_segment_metadata(topic_id_partition, leader_epoch, offset)

    def lineage(self, topic_id_partition: TopicIdPartition) -> LeaderEpochCheckpoint:
        """
        Return the lineage as the newest remote segment keeps it: what holds where no leader can be asked.

        :param topic_id_partition: the user partition.
        :raises OffsetNotInRemoteLogError: if no segment is there.
        :raises DamagedObjectError: if its checkpoint cannot be read, or is of another lineage than the segment.
        :raises StorageError: if it is missing, or the storage refuses, or does not answer in time.
        """
        copied = [
            metadata
            for metadata in self._segments.list_remote_log_segments(topic_id_partition)
            if metadata.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        ]
        if not copied:
            raise nothing_remote(topic_id_partition)
        return self.lineage_of(max(copied, key=age_of))

    def lineage_of(self, metadata: RemoteLogSegmentMetadata) -> LeaderEpochCheckpoint:
        """
        Return the lineage of a log up to the end of a segment, as the segment keeps it.

        :param metadata: the segment.
        :raises DamagedObjectError: if its checkpoint cannot be read, or is of another lineage than the segment.
        :raises StorageError: if it is missing, or the storage refuses, or does not answer in time.
        """
        return self._access.lineage(metadata)

    def extent(self, topic_id_partition: TopicIdPartition, leader_epochs: LeaderEpochCheckpoint) -> RemoteExtent:
        """
        Return which offsets of a lineage are in remote storage.

        :param topic_id_partition: the user partition.
        :param leader_epochs: the lineage.
        """
        return RemoteExtent(self._segments, topic_id_partition, leader_epochs)

    def remote_offsets(
        self,
        topic_id_partition: TopicIdPartition,
        *,
        isolation: ReadIsolation = ReadIsolation.READ_UNCOMMITTED,
        leader_epochs: LeaderEpochCheckpoint | None = None,
    ) -> OffsetRange:
        """
        Return the offsets that can be read.

        :param topic_id_partition: the user partition.
        :param isolation: with ``READ_COMMITTED`` they end at the first transaction that is open where the remote log ends.
        :param leader_epochs: the lineage of the log; ``None`` takes that of the newest remote segment.
        :raises OffsetNotInRemoteLogError: if there are none.
        :raises DamagedObjectError: if the checkpoint or the producer snapshot of the last segment cannot be read.
        :raises StorageError: if one is missing, or the storage refuses, or does not answer in time.
        """
        extent = self._extent(topic_id_partition, leader_epochs)
        offsets = extent.require_offsets()
        if isolation is ReadIsolation.READ_UNCOMMITTED:
            return offsets
        return OffsetRange(offsets.start, max(offsets.start, last_stable_offset(self._access, extent, offsets.end)))

    def spans(
        self,
        topic_id_partition: TopicIdPartition,
        offsets: OffsetRange,
        *,
        leader_epochs: LeaderEpochCheckpoint | None = None,
    ) -> list[SegmentSpan]:
        """
        Return the segments that serve a range, in order, each with the offsets that are read from it.

        :param topic_id_partition: the user partition.
        :param offsets: the range.
        :param leader_epochs: the lineage of the log; ``None`` takes that of the newest remote segment.
        :raises OffsetNotInRemoteLogError: if one in the range is missing.
        """
        return list(self._extent(topic_id_partition, leader_epochs).spans(offsets))

    def find_offset_by_timestamp(
        self,
        topic_id_partition: TopicIdPartition,
        timestamp_ms: int,
        starting_offset: int,
        leader_epochs: LeaderEpochCheckpoint,
        log_end_offset: int,
        local_log_start_offset: int | None = None,
    ) -> FoundOffset | None:
        """
        Return the first record that is as new as a time, ``None`` where the remote log has none.

        Kafka's own search ends at the first segment that is new enough, even if only its records below the starting offset
        are; this one goes on. Kafka's passes over a segment of which a later leader has written a part anew; this one
        searches what is left of it, which :meth:`read` serves.

        :param topic_id_partition: the user partition.
        :param timestamp_ms: the time, ms since the epoch.
        :param starting_offset: first offset that may be the answer, inclusive: the log start offset.
        :param leader_epochs: the lineage of the log; :meth:`lineage` has it where no leader can be asked.
        :param log_end_offset: end of the log, exclusive.
        :param local_log_start_offset: where the leader's own disk begins, inclusive: what lies there is the leader's to
            search, and the answer is ``None`` as soon as the search gets there. ``None`` searches all that is remote.
        :raises SegmentGoneError: if objects of a segment are missing that the metadata says are there.
        :raises DamagedObjectError: if an object cannot be what a broker has written.
        :raises StorageError: if the storage refuses, or does not answer in time.
        """
        missing: RemoteLogSegmentMetadata | None = None
        while True:
            for metadata, offsets in self._candidates(
                topic_id_partition, timestamp_ms, starting_offset, leader_epochs, log_end_offset
            ):
                if local_log_start_offset is not None and metadata.start_offset >= local_log_start_offset:
                    return None
                try:
                    found = find_in_segment(
                        self._access,
                        metadata,
                        leader_epochs,
                        timestamp_ms,
                        offsets,
                        self._max_decompressed_bytes,
                    )
                except RemoteObjectNotFoundError as e:
                    if missing == metadata or not self._is_deleted(metadata):
                        raise _gone(metadata, e) from e
                    missing = metadata
                    break
                if found is not None:
                    return found
            else:
                return None

    def read(
        self,
        topic_id_partition: TopicIdPartition,
        start_offset: int | None,
        end_offset: int | None = None,
        *,
        isolation: ReadIsolation = ReadIsolation.READ_UNCOMMITTED,
        leader_epochs: LeaderEpochCheckpoint | None = None,
        decided: Decided | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """
        Yield the records of a range of offsets, in their order: ``offset``, ``timestamp``, ``key``, ``value``, ``headers``.

        :param topic_id_partition: the user partition.
        :param start_offset: first offset, inclusive. ``None`` begins where the remote log does, also where retention moves
            that beginning meanwhile.
        :param end_offset: last offset, exclusive; ``None`` ends where the remote log does. What lies beyond the end of the
            remote log is not read either way.
        :param isolation: which records of transactions are read.
        :param leader_epochs: the lineage of the log; ``None`` takes that of the newest remote segment.
        :param decided: with ``READ_COMMITTED``: what was decided of the transactions without an end marker that :meth:`scan`
            has found; what lies behind them is read, too. ``None`` ends before the first of them.
        :raises OffsetNotInRemoteLogError: if the first offset is not in the remote log, or one in the range is missing.
        :raises SegmentGoneError: if a segment was deleted before its records could be read.
        :raises DamagedObjectError: if an object cannot be what a broker has written.
        :raises UnsupportedMessageFormatError: if record batches are older than message format v2.
        :raises RecordsTooLargeError: if a record batch is larger than the settings allow.
        :raises StorageError: if the storage refuses, or does not answer in time.
        """
        extent = self._extent(topic_id_partition, leader_epochs)
        committed = isolation is ReadIsolation.READ_COMMITTED
        offset, end = self._ends(extent, start_offset, end_offset, committed=committed and decided is None)
        reading = RecordReading(
            self._access, extent, self._max_decompressed_bytes, committed=committed, decided=decided
        )
        while offset < end:
            span = extent.span_at(offset)
            if span is None:
                offset = self._offset_after_loss(extent, offset, follow=start_offset is None)
                reading.forget()
                continue
            span = span.up_to(end)
            following = extent.span_at(span.offsets.end) if span.offsets.end < end else None
            try:
                for next_offset, batch in reading.records(span, None if following is None else following.up_to(end)):
                    yield batch
                    offset = next_offset
                offset = span.offsets.end
            except RemoteObjectNotFoundError as e:
                if not self._is_deleted(span.metadata):
                    raise _gone(span.metadata, e) from e
                reading.forget()
        reading.require_decided(end)

    def scan(
        self, topic_id_partition: TopicIdPartition, offsets: OffsetRange, leader_epochs: LeaderEpochCheckpoint
    ) -> ScannedRange:
        """
        Return how many records a range has, and which transactions are open at its end.

        :param topic_id_partition: the user partition.
        :param offsets: the range, all of which is in remote storage.
        :param leader_epochs: the lineage of the log.
        :raises OffsetNotInRemoteLogError: if an offset of it is missing.
        :raises DamagedObjectError: if an object cannot be what a broker has written, or two contradict each other.
        :raises StorageError: if the storage refuses, or does not answer in time.
        """
        return scan(self._access, self.extent(topic_id_partition, leader_epochs), offsets)

    def _ends(
        self, extent: RemoteExtent, start_offset: int | None, end_offset: int | None, *, committed: bool
    ) -> tuple[int, int]:
        """Return the first offset to read, inclusive, and the last one, exclusive."""
        last: int | None = None
        if start_offset is not None and end_offset is not None and extent.serves(start_offset, end_offset - 1):
            offset, end = start_offset, end_offset
        else:
            there = extent.require_offsets()
            offset = there.start if start_offset is None else start_offset
            if not there.start <= offset <= there.end:
                raise extent.hole_at(offset)
            last = there.end
            end = last if end_offset is None else min(end_offset, last)
        if committed:
            end = min(end, last_stable_offset(self._access, extent, extent.end() if last is None else last))
        return offset, end

    def _extent(
        self, topic_id_partition: TopicIdPartition, leader_epochs: LeaderEpochCheckpoint | None
    ) -> RemoteExtent:
        lineage = self.lineage(topic_id_partition) if leader_epochs is None else leader_epochs
        return self.extent(topic_id_partition, lineage)

    def _candidates(
        self,
        topic_id_partition: TopicIdPartition,
        timestamp_ms: int,
        starting_offset: int,
        leader_epochs: LeaderEpochCheckpoint,
        log_end_offset: int,
    ) -> Iterator[tuple[RemoteLogSegmentMetadata, OffsetRange]]:
        """
        Yield the segments that may hold a record as new as a time, by leader epoch and start offset, and which of their
        offsets are of the lineage: a later leader may have written the end of one anew.
        """
        begin = leader_epochs.epoch_for_offset(starting_offset)
        if begin is None:
            return
        for leader_epoch, epoch_start in leader_epochs.entries:
            if leader_epoch < begin:
                continue
            for metadata in self._segments.list_remote_log_segments(topic_id_partition, leader_epoch):
                if (
                    metadata.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
                    and metadata.max_timestamp_ms >= timestamp_ms
                    and metadata.end_offset >= starting_offset
                ):
                    of_segment = dict(metadata.segment_leader_epochs).get(leader_epoch, epoch_start)
                    start = max(of_segment, epoch_start, starting_offset)
                    end = min(last_shared_offset(metadata, leader_epoch, leader_epochs) + 1, log_end_offset)
                    if start < end:
                        yield metadata, OffsetRange(start, end)

    def _is_deleted(self, metadata: RemoteLogSegmentMetadata) -> bool:
        """Tell whether the metadata says by now that a segment, whose objects are not all there, is deleted."""
        self._access.forget(metadata)
        segment_id = metadata.remote_log_segment_id
        for pause_s in _NEWS_PAUSES_S:
            self._sleep(pause_s)
            if isinstance(self._segments, AdvancingSegments):
                self._segments.advance()
            known = self._segments.list_remote_log_segments(segment_id.topic_id_partition)
            if not any(
                m.remote_log_segment_id == segment_id and m.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
                for m in known
            ):
                return True
        return False

    def _offset_after_loss(self, extent: RemoteExtent, offset: int, *, follow: bool) -> int:
        """Return where a read goes on whose segment was deleted, or is missing."""
        if isinstance(self._segments, AdvancingSegments):
            self._segments.advance()
        if extent.span_at(offset) is not None:
            # Another one has taken its place.
            return offset
        there = extent.offsets()
        if there is not None and there.start < offset:
            raise extent.hole_at(offset)
        if there is None or not follow:
            rest = "nothing is left" if there is None else f"the remote log begins at {there.start} now"
            raise SegmentGoneError(
                f"records of {extent.topic_id_partition} from offset {offset} on were deleted while they were read: {rest}"
            )
        logger.warning(
            "records of %s from offset %d to %d were deleted while they were read: the remote log begins at %d now",
            extent.topic_id_partition,
            offset,
            there.start - 1,
            there.start,
        )
        return there.start


def age_of(metadata: RemoteLogSegmentMetadata) -> tuple[int, int, int]:
    """
    Return by what the newest segment of a user partition is told: the latest leader's word counts, also where an earlier one
    had got further.

    :param metadata: of a segment.
    """
    return metadata.segment_leader_epochs[-1][0], metadata.end_offset, metadata.event_timestamp_ms


def _gone(metadata: RemoteLogSegmentMetadata, error: RemoteObjectNotFoundError) -> SegmentGoneError:
    return SegmentGoneError(
        f"segment {metadata.remote_log_segment_id} (offsets {metadata.start_offset} to {metadata.end_offset}) cannot be "
        f"read, though the metadata says that it is there: {error}. It was deleted since the metadata was read, or its "
        "objects are missing: read the metadata again, then look for them"
    )
