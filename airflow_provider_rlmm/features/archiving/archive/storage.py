# SPDX-License-Identifier: Apache-2.0
"""The archived files of segments, as a reader fetches them from remote storage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import ArchiveError, RemoteObjectNotFoundError
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.features.archiving.archive.files import reading
from airflow_provider_rlmm.features.archiving.archive.places import LOG, segment_file
from airflow_provider_rlmm.features.archiving.archive_manifest import ArchivedFile, ArchivedSegment


class ArchiveLayout:
    """
    Says where the archived files of a segment lie, for messages.

    :param folder_uri: of the user partition in the archive.
    """

    def __init__(self, folder_uri: str) -> None:
        self._folder_uri = folder_uri

    def object_key(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType | None) -> str:
        """
        Return the URI of a file.

        :param metadata: the segment.
        :param index_type: which index, ``None`` for the log.
        """
        return f"{self._folder_uri}/{segment_file(metadata, LOG if index_type is None else index_type.value)}"


class ArchivedSegmentStorage:
    """
    Serves the files of archived segments.

    :param folder_uri: of the user partition in the archive.
    :param segments: its segments.
    """

    def __init__(self, folder_uri: str, segments: Iterable[ArchivedSegment]) -> None:
        self._folder_uri = folder_uri
        self.layout = ArchiveLayout(folder_uri)
        self._segments = {s.as_metadata().remote_log_segment_id.id: s for s in segments}

    def whole_segments(self) -> list[RemoteLogSegmentMetadata]:
        """Return the segments that can be read, as their finished copies were, in the order in which these were made."""
        whole = (segment.as_metadata() for segment in self._segments.values() if segment.whole)
        found = [replace(metadata, state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED) for metadata in whole]
        # Of copies up to the same offset the later one counts, as it does for a broker.
        return sorted(found, key=lambda m: (m.end_offset, m.event_timestamp_ms))

    def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int | None = None
    ) -> bytes:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        return self._read(metadata, LOG, start_position, end_position)

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        return self._read(metadata, index_type.value, 0, None)

    def _read(self, metadata: RemoteLogSegmentMetadata, kind: str, start: int, end: int | None) -> bytes:
        file = self._file(metadata.remote_log_segment_id.id, kind)
        try:
            with reading(f"{self._folder_uri}/{file.name}") as opened:
                opened.seek(start)
                return opened.read(file.bytes - start if end is None else end + 1 - start)
        except OSError as e:
            raise ArchiveError(f"{self._folder_uri}/{file.name} cannot be read: {e}") from e

    def _file(self, segment_id: UUID, kind: str) -> ArchivedFile:
        found = self._segments[segment_id].files.get(kind)
        if found is None:
            raise RemoteObjectNotFoundError(f"the archive {self._folder_uri} has no {kind} of segment {segment_id}")
        return found
