# SPDX-License-Identifier: Apache-2.0
"""
The files of segments, read out of the objects that hold them, or made into them: one object for each file, or as a plugin
packs them.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.storage.index_type import IndexType

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.storage.uploads import ObjectContent


@dataclass(frozen=True, slots=True)
class LogSegmentData:
    """The local files of one segment to be copied (Kafka: ``LogSegmentData``)."""

    log_segment: Path  # the ``.log`` file
    offset_index: Path  # the ``.index`` file
    time_index: Path  # the ``.timeindex`` file
    producer_snapshot_index: Path  # the ``.snapshot`` file
    leader_epoch_index: bytes  # content of the leader epoch checkpoint as of the copy
    # The ``.txnindex`` file, ``None`` where the segment has no aborted transactions.
    transaction_index: Path | None = None

    @property
    def indexes(self) -> Mapping[IndexType, Path | bytes]:
        """What the segment has beside its log."""
        found: dict[IndexType, Path | bytes] = {
            IndexType.OFFSET: self.offset_index,
            IndexType.TIMESTAMP: self.time_index,
            IndexType.PRODUCER_SNAPSHOT: self.producer_snapshot_index,
            IndexType.LEADER_EPOCH: self.leader_epoch_index,
        }
        return found if self.transaction_index is None else {IndexType.TRANSACTION: self.transaction_index, **found}

    @property
    def files(self) -> tuple[Path, ...]:
        """All of them that are files."""
        return tuple(content for content in (self.log_segment, *self.indexes.values()) if isinstance(content, Path))


class ReadObject(Protocol):
    """Reads bytes of an object."""

    def __call__(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """
        Return bytes of an object; a range beyond its end yields what there is of it.

        :param key: key of the object.
        :param start: first byte, inclusive.
        :param end: last byte, inclusive; ``None`` means to the end.
        :raises RemoteObjectNotFoundError: if there is no such object.
        """


class SegmentFiles(Protocol):
    """What a layout reads the files of segments with; it is used by many threads."""

    def log(self, metadata: RemoteLogSegmentMetadata, start: int, end: int | None) -> bytes:
        """
        Return bytes of the log, as it lay on the broker's disk.

        :param metadata: the segment.
        :param start: first byte, inclusive.
        :param end: last byte, inclusive; ``None`` means to the end.
        :raises RemoteObjectNotFoundError: if an object that is needed is missing.
        :raises DamagedObjectError: if an object cannot be what the plugin has written.
        :raises UnsupportedMessageFormatError: if it is encrypted, or packed in a way that is not known here.
        """

    def index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """
        Return an index, as it lay on the broker's disk.

        :param metadata: the segment.
        :param index_type: which index.
        :raises RemoteObjectNotFoundError: if an object that is needed is missing, or the segment has no such index.
        :raises DamagedObjectError: as :meth:`log`.
        :raises UnsupportedMessageFormatError: as :meth:`log`.
        """


class SegmentPacker(Protocol):
    """What a layout makes the objects of a copy with."""

    def objects(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> Generator[tuple[str, ObjectContent], None, bytes | None]:
        """
        Yield key and content of each object of a segment, in the order in which they are written: the next is asked for when
        one is written to its end.

        :param metadata: the segment.
        :param data: its local files.
        :return: custom metadata of the copy, ``None`` where the layout has none.
        :raises LogDirectoryError: if a file cannot be read, or is written to meanwhile.
        """

    def most_custom_metadata_bytes(self, metadata: RemoteLogSegmentMetadata) -> int:
        """
        Return how large that custom metadata can be, bytes; 0 where the layout has none.

        :param metadata: the segment.
        """
