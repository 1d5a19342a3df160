# SPDX-License-Identifier: Apache-2.0
"""The records of a set of segments, gaps between them passed over and named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.log.known_segments import KnownSegments
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.segments.read_range import OffsetRange, ReadIsolation
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.features.reading.extent import RemoteExtent
from airflow_provider_rlmm.features.reading.reader import RemoteLogReader

if TYPE_CHECKING:
    import pyarrow as pa


class RecordStream:
    """
    Reads all records of some segments of a user partition, as often as it is asked to.

    :param tip: the user partition.
    :param segments: its segments that can be read, in the state COPY_SEGMENT_FINISHED.
    :param storage: has their files.
    :raises RemoteLogError: if the lineage of the newest segment cannot be read.
    """

    def __init__(
        self, tip: TopicIdPartition, segments: Sequence[RemoteLogSegmentMetadata], storage: RemoteStorageManager
    ) -> None:
        self._tip = tip
        known = KnownSegments.of(segments)
        self.reader = RemoteLogReader(known, storage)
        """Reads them."""
        self.lineage = self.reader.lineage(tip) if segments else LeaderEpochCheckpoint()
        """Of the newest segment: by it they are read."""
        self.ranges: list[OffsetRange] = []
        """What can be read without a gap, by offset."""
        if segments:
            extent = RemoteExtent(known, tip, self.lineage)
            there = extent.offsets()
            self.ranges = [] if there is None else extent.parts(there)

    @property
    def first_offset(self) -> int | None:
        """The first offset that the segments hold, ``None`` where there are none."""
        return self.ranges[0].start if self.ranges else None

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """Offsets between the first and the last that no segment of the lineage holds: first and last of each gap."""
        pairs = zip(self.ranges, self.ranges[1:], strict=False)
        return tuple((before.end, after.start - 1) for before, after in pairs)

    def read(self, isolation: ReadIsolation) -> Iterator[pa.RecordBatch]:
        """
        Yield all records, by offset.

        :param isolation: which records of transactions; ``read_committed`` ends at the first transaction that is open.
        :raises RemoteLogError: if they cannot be read.
        """
        for offsets in self.ranges:
            yield from self.reader.read(
                self._tip, offsets.start, offsets.end, isolation=isolation, leader_epochs=self.lineage
            )
