# SPDX-License-Identifier: Apache-2.0
"""The files of segments, read out of the objects that hold them: one object for each file, or as a plugin has packed them."""

from __future__ import annotations

from typing import Protocol

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.storage.index_type import IndexType


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
