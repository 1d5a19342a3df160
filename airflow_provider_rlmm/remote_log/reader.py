# SPDX-License-Identifier: Apache-2.0
"""Reads and searches the remote log of user partitions without a broker (Kafka: ``RemoteLogManager``)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from airflow_provider_rlmm.metadata.records import RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.policy.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.policy.read_range import ReadIsolation
from airflow_provider_rlmm.remote_log.segments import RemoteLogSegments
from airflow_provider_rlmm.storage.remote_storage import RemoteStorageManager

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_CHUNK_BYTES: Final = 8 * 2**20
"""Bytes of a log that are fetched at once."""
DEFAULT_MAX_DECOMPRESSED_BYTES: Final = 256 * 2**20
"""Most bytes that the batches of a chunk may decompress to."""
DEFAULT_TIMEOUT_S: Final = 60.0
"""For how long a storage that does not answer is asked again."""


class FoundOffset(NamedTuple):
    """
    The answer of a search by time.

    :param offset: the first offset whose record is as new as was asked for.
    :param timestamp_ms: its record's timestamp, ms since the epoch.
    :param leader_epoch: the leader epoch that it was written in.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int


class RemoteLogReader:
    """
    Reads the remote log of user partitions, as a consumer would through a broker.

    One reader may be used by several threads.

    :param segments: knows the remote log segments.
    :param storage: has their objects.
    :param chunk_bytes: bytes of a log that are fetched at once; a larger record batch is fetched whole.
    :param max_decompressed_bytes: most bytes that the batches of a chunk may decompress to.
    :param timeout_s: for how long a storage that does not answer is asked again, in seconds.
    :param bytes_per_second: most bytes that are fetched per second, ``None`` for no limit.
    :param clock: seconds, monotonic.
    :param sleep: waits for seconds.
    :param jitter: returns a number from 0 to 1, exclusive.
    """

    def __init__(
        self,
        segments: RemoteLogSegments,
        storage: RemoteStorageManager,
        *,
        chunk_bytes: int = DEFAULT_CHUNK_BYTES,
        max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        bytes_per_second: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._segments = segments
        self._storage = storage

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
        """
        raise NotImplementedError

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

        :param topic_id_partition: the user partition.
        :param timestamp_ms: the time, ms since the epoch.
        :param starting_offset: first offset that may be the answer, inclusive: the log start offset.
        :param leader_epochs: the lineage of the log; :meth:`lineage` has it where no leader can be asked.
        :param log_end_offset: end of the log, exclusive.
        :param local_log_start_offset: where the leader's own disk begins, inclusive: what lies there is the leader's to
            search, and the answer is ``None`` as soon as the search gets there. ``None`` searches all that is remote.
        """
        raise NotImplementedError

    def read(
        self,
        topic_id_partition: TopicIdPartition,
        start_offset: int | None,
        end_offset: int | None = None,
        *,
        isolation: ReadIsolation = ReadIsolation.READ_UNCOMMITTED,
        leader_epochs: LeaderEpochCheckpoint | None = None,
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
        :raises OffsetNotInRemoteLogError: if the first offset is not in the remote log, or one in the range is missing.
        :raises SegmentGoneError: if a segment was deleted before its records could be read.
        :raises DamagedObjectError: if an object cannot be what a broker has written.
        :raises UnsupportedMessageFormatError: if record batches are older than message format v2.
        :raises StorageError: if the storage refuses, or does not answer in time.
        """
        raise NotImplementedError
