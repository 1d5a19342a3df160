# SPDX-License-Identifier: Apache-2.0
"""Follows what is said about the deletion of whole user partitions, for those who wait for it and replay nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.arrow_arrays import equals
from airflow_provider_rlmm.core.base.errors import OffsetOutOfRangeError
from airflow_provider_rlmm.core.log.event_decoding import decode_records
from airflow_provider_rlmm.core.log.follower import Chunk, LogFollower, Lost
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.records.located import applicable
from airflow_provider_rlmm.core.records.records import RemotePartitionDeleteMetadata
from airflow_provider_rlmm.core.records.serde import PARTITION_DELETE_API_KEY

if TYPE_CHECKING:
    import pyarrow as pa

MAX_RECORDS = 100_000
"""Most records that one look reads: what it holds in memory, and for how long it keeps its thread."""


@dataclass(frozen=True, slots=True)
class DeletionEvent:
    """A partition-delete event and where it was read."""

    metadata_partition: int  # where its record lies
    offset: int  # of its record
    event: RemotePartitionDeleteMetadata  # the event, of any writer


class DeletionFollower:
    """
    Reads on from given offsets, and keeps of all records the partition-delete events only.

    It waits for news and proves nothing: where the log has lost what was to be read, it goes on at the end.

    :param log: the log.
    :param offsets: metadata partition → first offset that was not read yet, inclusive; no other is read.
    """

    def __init__(self, log: MetadataLogReader, offsets: Mapping[int, int]) -> None:
        self._log = log
        self._follower = LogFollower(log, offsets, lost=Lost.SKIPPED)
        self.is_behind = True
        """Whether the last look ended before the high watermarks: there is more to read at once."""

    @property
    def offsets(self) -> dict[int, int]:
        """Metadata partition → offset at which the next look goes on, inclusive."""
        return self._follower.positions

    def advance(self) -> list[DeletionEvent]:
        """
        Return the partition-delete events that were appended since, :data:`MAX_RECORDS` records at most being read.

        Records that cannot be applied are left out: marker, planner and doctor tell of them.

        :raises EventLogError: if the log cannot be read; the next call goes on where this one stopped.
        """
        ends = self._follower.ends(most=MAX_RECORDS)
        self.is_behind = sum(ends.values()) - sum(self.offsets.values()) == MAX_RECORDS
        found: list[DeletionEvent] = []
        try:
            for number, batch in self._follower.read_on(ends):
                found += _deletion_events(batch, number, self._log.partition_count)
        except OffsetOutOfRangeError:
            # What is gone was skipped.
            return []
        # Only what was read whole counts: a read that breaks off is repeated, or what it has found would be lost with it.
        self._follower.take(Chunk(ends))
        return found


def _deletion_events(batch: pa.RecordBatch, metadata_partition: int, num_partitions: int) -> list[DeletionEvent]:
    import pyarrow.compute as pc

    from airflow_provider_rlmm.core.records import columnar

    decoded = decode_records(batch, metadata_partition, num_partitions)
    wanted = decoded.filter(pc.and_(applicable(decoded), equals(decoded.column("api_key"), PARTITION_DELETE_API_KEY)))
    events = zip(wanted.column("offset").to_pylist(), columnar.iter_events(wanted), strict=True)
    return [
        DeletionEvent(metadata_partition, offset, event)
        for offset, event in events
        # Nothing else gets past the filter above; the type checker does not know.
        if isinstance(event, RemotePartitionDeleteMetadata)
    ]
