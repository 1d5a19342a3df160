# SPDX-License-Identifier: Apache-2.0
"""Archives the files of one segment: fetched from remote storage in pieces, checked, written, read back and compared."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_rlmm.core.base.errors import (
    ArchiveError,
    DamagedObjectError,
    EncryptedSegmentError,
    RemoteObjectNotFoundError,
)
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.runs.connection_fields import AS_IS
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.core.storage.root import Place
from airflow_provider_rlmm.features.archiving.archive.files import CHUNK_BYTES, keep
from airflow_provider_rlmm.features.archiving.archive.places import LOG, object_file, segment_file
from airflow_provider_rlmm.features.archiving.archive_manifest import ArchivedFile, ArchivedSegment

_OPTIONAL: Final = IndexType.TRANSACTION
"""Brokers write it only where the segment has aborted transactions."""


@dataclass(frozen=True, slots=True)
class SegmentToArchive:
    """
    A segment, and what the log says of it besides.

    :param metadata: as the log says them.
    :param was_copied: whether its copy was ever finished.
    :param to_the_end: whether its log has to hold the last offset that its metadata name: where these are no broker's word.
    """

    metadata: RemoteLogSegmentMetadata
    was_copied: bool
    to_the_end: bool = False

    @property
    def must_be_whole(self) -> bool:
        """Whether all its files must be there: its copy was finished, and no deletion of it has begun."""
        return self.was_copied and self.metadata.state == RemoteLogSegmentState.COPY_SEGMENT_FINISHED


class SegmentArchiver:
    """
    :param storage: remote storage.
    :param folder_uri: of the user partition in the archive.
    :param encrypted_as_is: whether the objects of encrypted segments are archived as they are; otherwise these are an error.
    :param chunk_bytes: how much of a log is held in memory.
    """

    def __init__(
        self,
        storage: RemoteStorageManager,
        folder_uri: str,
        *,
        encrypted_as_is: bool = False,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self._storage = storage
        self._encrypted_as_is = encrypted_as_is
        self._folder_uri = folder_uri
        self._chunk_bytes = chunk_bytes

    def archive(self, segment: SegmentToArchive) -> ArchivedSegment:
        """
        Archive the files of a segment.

        :raises ArchiveError: if something of it is missing that must be there, or the archive holds other bytes of it.
        :raises DamagedObjectError: if its log cannot be what a broker has written.
        :raises EncryptedSegmentError: if it is encrypted, and such segments are not archived.
        :raises StorageError: if storage fails.
        :raises OSError: if the archive cannot be written or read.
        """
        try:
            return self._archive(segment)
        except EncryptedSegmentError as e:
            if self._encrypted_as_is:
                return self._archive_as_is(segment)
            raise EncryptedSegmentError(
                f"{e}; with archive_encrypted = {AS_IS} in the connection its objects are archived as they are"
            ) from None

    def _archive_as_is(self, segment: SegmentToArchive) -> ArchivedSegment:
        """Archive the objects of an encrypted segment, each under what its key ends with."""
        metadata, layout = segment.metadata, self._storage.layout
        places = layout.places_of(metadata)
        place = next((p for p in places if self._lies_at(metadata, p)), places[0])
        stem = layout.segment_stem(metadata, place)
        files: dict[str, ArchivedFile] = {}
        missing: list[str] = []
        for key in layout.required_keys(metadata, place):
            suffix = key.removeprefix(stem)
            try:
                files[suffix] = keep(self._folder_uri, object_file(metadata, suffix), self._object(key))
            except RemoteObjectNotFoundError:
                missing.append(suffix)
        if missing and segment.must_be_whole:
            raise self._lacking(metadata, missing)
        return ArchivedSegment(
            _text_of(metadata), whole=False, transactional=False, files=files, missing=tuple(missing),
            keys={suffix: stem + suffix for suffix in files},
        )  # fmt: skip

    def _lies_at(self, metadata: RemoteLogSegmentMetadata, place: Place) -> bool:
        keys = self._storage.layout.required_keys(metadata, place)
        return self._storage.missing_keys(keys) != frozenset(keys)

    def _object(self, key: str) -> Iterator[bytes]:
        """Yield an object in pieces: what is there, to its end."""
        position = 0
        while True:
            piece = self._storage.fetch_object(key, position, position + self._chunk_bytes - 1)
            yield piece
            if len(piece) < self._chunk_bytes:
                return
            position += len(piece)

    def _archive(self, segment: SegmentToArchive) -> ArchivedSegment:
        files: dict[str, ArchivedFile] = {}
        missing: list[str] = []
        for index_type in IndexType:
            try:
                index = self._storage.fetch_index(segment.metadata, index_type)
            except RemoteObjectNotFoundError:
                if index_type is not _OPTIONAL:
                    missing.append(index_type.value)
                continue
            files[index_type.value] = keep(self._folder_uri, segment_file(segment.metadata, index_type.value), [index])
        complete = segment.was_copied and not missing
        location = f"log of segment {segment.metadata.remote_log_segment_id}"
        check = _LogCheck(segment.metadata, location, to_the_end=segment.to_the_end)
        try:
            pieces = self._checked_log(segment.metadata, check) if complete else self._log(segment.metadata)
            files[LOG] = keep(self._folder_uri, segment_file(segment.metadata, LOG), pieces)
        except RemoteObjectNotFoundError:
            missing.append(LOG)
        if missing and segment.must_be_whole:
            raise self._lacking(segment.metadata, missing)
        return ArchivedSegment(
            _text_of(segment.metadata), complete and not missing, check.transactional, files, tuple(missing)
        )

    def _lacking(self, metadata: RemoteLogSegmentMetadata, missing: Sequence[str]) -> ArchiveError:
        return ArchiveError(
            f"segment {metadata.remote_log_segment_id} lacks {', '.join(missing)} in storage, though its copy was finished "
            "and no deletion of it has begun: it cannot be archived; check storage URI, layout and mount, or put its topic "
            "on hold"
        )

    def _checked_log(self, metadata: RemoteLogSegmentMetadata, check: _LogCheck) -> Iterator[bytes]:
        for piece in self._log(metadata):
            check.feed(piece)
            yield piece
        check.end()

    def _log(self, metadata: RemoteLogSegmentMetadata) -> Iterator[bytes]:
        """Yield the log in pieces; the last one is asked for a byte more than there ought to be."""
        position, size = 0, metadata.segment_size_in_bytes
        while position <= size:
            end = min(position + self._chunk_bytes - 1, size)
            piece = self._storage.fetch_log_segment(metadata, position, end)
            yield piece
            if len(piece) < end - position + 1:
                return
            position += len(piece)


def _text_of(metadata: RemoteLogSegmentMetadata) -> str:
    return base64.b64encode(serialize(metadata)).decode()


class _LogCheck:
    """
    Checks a log while it streams by: nothing is archived as whole that a broker could not have served.

    It takes the log in pieces, in order.

    :param metadata: its segment.
    :param location: what to call the log in messages.
    :param to_the_end: whether it has to hold the last offset of the segment.
    """

    def __init__(self, metadata: RemoteLogSegmentMetadata, location: str, *, to_the_end: bool) -> None:
        self._metadata = metadata
        self._to_the_end = to_the_end
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
        if self._to_the_end and self._next_offset <= self._metadata.end_offset:
            last = self._metadata.end_offset
            raise self._damaged(f"it ends in offset {self._next_offset - 1}, its metadata say {last}", self._position)

    def _check_offsets(self, first: int, last: int) -> None:
        if first < self._next_offset or last > self._metadata.end_offset:
            start, end = self._metadata.start_offset, self._metadata.end_offset
            raise self._damaged(
                f"it holds offsets {first} to {last}, its metadata say {start} to {end}", self._position
            )
        self._next_offset = last + 1

    def _damaged(self, why: str, position: int) -> DamagedObjectError:
        return DamagedObjectError(f"{self._location}, at byte {position}: {why}", self._location, position)
