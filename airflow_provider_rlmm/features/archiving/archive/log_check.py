# SPDX-License-Identifier: Apache-2.0
"""Checks the log of a segment while it streams by: nothing is archived as whole that a broker could not have served."""

from __future__ import annotations

from airflow_provider_rlmm.core.base.errors import DamagedObjectError
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders


class LogCheck:
    """
    Takes a log in pieces, in order.

    :param metadata: its segment.
    :param location: what to call the log in messages.
    """

    def __init__(self, metadata: RemoteLogSegmentMetadata, location: str) -> None:
        self._metadata = metadata
        self._location = location
        self._rest = b""
        self._position = 0
        self._next_offset = metadata.start_offset
        self.transactional = False
        """Whether a batch was seen that belongs to a transaction."""

    def feed(self, piece: bytes) -> None:
        """
        Check the batches that are complete by now.

        :param piece: what follows the piece before.
        :raises DamagedObjectError: naming the position, if a checksum differs, or offsets are not the segment's.
        :raises UnsupportedMessageFormatError: if a batch is older than message format v2.
        """
        data = self._rest + piece if self._rest else piece
        headers, consumed = BatchHeaders.find(data, location=self._location, position=self._position)
        headers.verify_checksums(data)
        if len(headers):
            self._check_offsets(int(headers.base_offset[0]), int(headers.last_offset[-1]))
            self.transactional |= bool(headers.is_transactional.any())
        self._rest = data[consumed:]
        self._position += consumed

    def end(self) -> None:
        """
        Check what can be known at the end only.

        :raises DamagedObjectError: if the log is shorter or longer than its metadata say, or ends in the middle of a batch.
        """
        size, expected = self._position + len(self._rest), self._metadata.segment_size_in_bytes
        if size != expected:
            raise self._damaged(f"it has {size} bytes, its metadata say {expected}", min(size, expected))
        if self._rest:
            raise self._damaged("it ends in the middle of a batch", self._position)

    def _check_offsets(self, first: int, last: int) -> None:
        if first < self._next_offset or last > self._metadata.end_offset:
            start, end = self._metadata.start_offset, self._metadata.end_offset
            raise self._damaged(
                f"it holds offsets {first} to {last}, its metadata say {start} to {end}", self._position
            )
        self._next_offset = last + 1

    def _damaged(self, why: str, position: int) -> DamagedObjectError:
        return DamagedObjectError(f"{self._location}, at byte {position}: {why}", self._location, position)
