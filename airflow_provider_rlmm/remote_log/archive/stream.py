# SPDX-License-Identifier: Apache-2.0
"""The records of a set of segments, gaps between them passed over and named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from airflow_provider_rlmm.errors import OffsetNotInRemoteLogError
from airflow_provider_rlmm.metadata.records import RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.policy.read_range import ReadIsolation
from airflow_provider_rlmm.remote_log.reader import RemoteLogReader
from airflow_provider_rlmm.remote_log.segments import KnownSegments
from airflow_provider_rlmm.storage.remote_storage import RemoteStorageManager

if TYPE_CHECKING:
    import pyarrow as pa


class RecordStream:
    """
    Reads all records of some segments of a user partition, as often as it is asked to.

    :param tip: the user partition.
    :param segments: its segments that can be read, in the state COPY_SEGMENT_FINISHED.
    :param storage: has their files.
    """

    def __init__(
        self, tip: TopicIdPartition, segments: Sequence[RemoteLogSegmentMetadata], storage: RemoteStorageManager
    ) -> None:
        self._tip = tip
        self._starts = sorted({metadata.start_offset for metadata in segments})
        self._reader = RemoteLogReader(KnownSegments.of(segments), storage)
        self.gaps: tuple[tuple[int, int], ...] = ()
        """Offsets that no segment of the lineage holds, first and last of each gap, as of the last reading to the end."""

    def read(self, isolation: ReadIsolation) -> Iterator[pa.RecordBatch]:
        """
        Yield all records, by offset.

        :param isolation: which records of transactions; ``read_committed`` ends at the first transaction that is open.
        :raises RemoteLogError: if they cannot be read.
        """
        gaps: list[tuple[int, int]] = []
        lineage = self._reader.lineage(self._tip) if self._starts else None
        start = next_offset = self._starts[0] if self._starts else None
        while start is not None and next_offset is not None:
            try:
                for batch in self._reader.read(self._tip, start, isolation=isolation, leader_epochs=lineage):
                    if batch.num_rows:
                        next_offset = batch.column("offset")[-1].as_py() + 1
                        yield batch
            except OffsetNotInRemoteLogError:
                # What follows the gap is read all the same, and the gap is named.
                pass
            begun = start
            start = next((s for s in self._starts if s > begun and s >= next_offset), None)
            if start is not None and start > next_offset:
                gaps.append((next_offset, start - 1))
        if isolation is ReadIsolation.READ_UNCOMMITTED:
            self.gaps = tuple(gaps)
