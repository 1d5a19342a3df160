# SPDX-License-Identifier: Apache-2.0
"""Keeps the indexes of remote log segments in memory (Kafka: ``RemoteIndexCache``, which keeps them on the broker's disk)."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, TypeVar, cast

from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    DamagedObjectError,
    RemoteObjectNotFoundError,
)
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.segments.indexes.offset_index import OffsetIndex
from airflow_provider_rlmm.core.segments.indexes.time_index import TimeIndex
from airflow_provider_rlmm.core.segments.indexes.transaction_index import TransactionIndex
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.remote_storage import SegmentStorage

__all__ = ["RemoteIndexCache"]

logger = logging.getLogger(__name__)

DEFAULT_SIZE_IN_BYTES: Final = 64 * 2**20
"""Room for the indexes of some thousand segments."""

_OVERHEAD_BYTES: Final = 1_000
_TRANSACTION_BYTES: Final = 250

_Key = tuple[RemoteLogSegmentId, IndexType]
Index = TypeVar("Index", OffsetIndex, TimeIndex, TransactionIndex)


def location_of(layout: Layout, metadata: RemoteLogSegmentMetadata, index_type: IndexType | None) -> str:
    """
    Return the key of an object, for messages.

    :param layout: where the objects of a segment lie.
    :param metadata: the segment.
    :param index_type: which index, ``None`` for the log.
    """
    try:
        return layout.object_key(metadata, index_type)
    except ConfigurationError:
        what = "the log" if index_type is None else f"the {index_type.value} index"
        return f"{layout.segment_stem(metadata)} ({what})"


class RemoteIndexCache:
    """
    The indexes that were used last, of segments of any user partition. It may be shared, also by threads.

    An index is checked when it is loaded. One that is damaged is fetched once more, in case it was damaged on its way.

    :param storage: has the indexes.
    :param size_in_bytes: how much memory they may take together; the least recently used ones go first.
    :raises ConfigurationError: if the size is negative.
    """

    def __init__(self, storage: SegmentStorage, *, size_in_bytes: int = DEFAULT_SIZE_IN_BYTES) -> None:
        if size_in_bytes < 0:
            raise ConfigurationError(f"an index cache of {size_in_bytes} bytes: the size is 0 or more")
        self._storage = storage
        self._limit = size_in_bytes
        self._entries: OrderedDict[_Key, tuple[Any, int]] = OrderedDict()
        self._loading: dict[_Key, Lock] = {}
        self._size = 0
        self._lock = Lock()

    @property
    def size_in_bytes(self) -> int:
        """How much memory the indexes take now."""
        return self._size

    def offset_index(self, metadata: RemoteLogSegmentMetadata) -> OffsetIndex:
        """
        Return where in the segment offsets lie.

        :param metadata: the segment.
        :raises DamagedObjectError: if the index cannot be what a broker has written about this segment.
        :raises RemoteObjectNotFoundError: if it is missing.
        :raises StorageError: if the storage does not answer, or refuses.
        """
        return self._get(metadata, IndexType.OFFSET, _offset_index)

    def time_index(self, metadata: RemoteLogSegmentMetadata) -> TimeIndex:
        """
        Return at which offsets the timestamps of the segment rise; errors as :meth:`offset_index`.

        :param metadata: the segment.
        """
        return self._get(metadata, IndexType.TIMESTAMP, _time_index)

    def transaction_index(self, metadata: RemoteLogSegmentMetadata) -> TransactionIndex:
        """
        Return the aborted transactions that end in the segment; errors as :meth:`offset_index`.

        Where the object is missing there are none, as for Kafka: brokers before 4.0 do not say whether a segment has any.

        :param metadata: the segment.
        """
        return self._get(metadata, IndexType.TRANSACTION, _transaction_index)

    def remove(self, segment_id: RemoteLogSegmentId) -> None:
        """
        Forget the indexes of a segment: it is gone, or what they say does not fit its log.

        :param segment_id: its id.
        """
        with self._lock:
            for index_type in IndexType:
                self._drop((segment_id, index_type))

    def _get(
        self,
        metadata: RemoteLogSegmentMetadata,
        index_type: IndexType,
        parse: Callable[[bytes, RemoteLogSegmentMetadata, str], Index],
    ) -> Index:
        key = (metadata.remote_log_segment_id, index_type)
        with self._lock:
            if (found := self._known(key)) is not None:
                return cast("Index", found)
            loading = self._loading.setdefault(key, Lock())
        # Other threads that want it meanwhile wait for this one.
        with loading:
            with self._lock:
                if (found := self._known(key)) is not None:
                    return cast("Index", found)
            try:
                index, size = self._load(metadata, index_type, parse)
                with self._lock:
                    self._keep(key, index, size)
            finally:
                with self._lock:
                    self._loading.pop(key, None)
        return index

    def _known(self, key: _Key) -> Any:
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def _keep(self, key: _Key, index: Any, size: int) -> None:
        self._drop(key)
        self._entries[key] = index, size
        self._size += size
        while self._size > self._limit:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: _Key) -> None:
        _, size = self._entries.pop(key, (None, 0))
        self._size -= size

    def _load(
        self,
        metadata: RemoteLogSegmentMetadata,
        index_type: IndexType,
        parse: Callable[[bytes, RemoteLogSegmentMetadata, str], Index],
    ) -> tuple[Index, int]:
        location = location_of(self._storage.layout, metadata, index_type)
        try:
            index = parse(self._fetch(metadata, index_type), metadata, location)
        except DamagedObjectError as e:
            logger.warning("%s; it is fetched once more", e)
            index = parse(self._fetch(metadata, index_type), metadata, location)
        return index, _size_of(index)

    def _fetch(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        try:
            return self._storage.fetch_index(metadata, index_type)
        except RemoteObjectNotFoundError:
            if index_type is not IndexType.TRANSACTION:
                raise
            return b""


def _offset_index(data: bytes, metadata: RemoteLogSegmentMetadata, location: str) -> OffsetIndex:
    index = OffsetIndex.parse(data, base_offset=metadata.start_offset, location=location)
    if len(index):
        _require_within(metadata, int(index.relative_offset[-1]), len(data), location)
        if index.position[-1] >= metadata.segment_size_in_bytes:
            raise DamagedObjectError(
                f"{location} is damaged: it names byte {index.position[-1]} of a segment of "
                f"{metadata.segment_size_in_bytes} bytes",
                location,
                len(data),
            )
    return index


def _time_index(data: bytes, metadata: RemoteLogSegmentMetadata, location: str) -> TimeIndex:
    index = TimeIndex.parse(data, base_offset=metadata.start_offset, location=location)
    if len(index):
        _require_within(metadata, int(index.relative_offset[-1]), len(data), location)
    return index


def _transaction_index(data: bytes, metadata: RemoteLogSegmentMetadata, location: str) -> TransactionIndex:
    index = TransactionIndex.parse(data, base_offset=metadata.start_offset, location=location)
    if index.aborted:
        _require_within(metadata, index.aborted[-1].last_offset - metadata.start_offset, len(data), location)
    return index


def _require_within(metadata: RemoteLogSegmentMetadata, relative_offset: int, position: int, location: str) -> None:
    offset = metadata.start_offset + relative_offset
    if offset > metadata.end_offset:
        raise DamagedObjectError(
            f"{location} is damaged: it names offset {offset}, and its segment ends at {metadata.end_offset}",
            location,
            position,
        )


def _size_of(index: OffsetIndex | TimeIndex | TransactionIndex) -> int:
    """Return the memory that an index takes, roughly."""
    if isinstance(index, TransactionIndex):
        return _OVERHEAD_BYTES + _TRANSACTION_BYTES * len(index.aborted)
    columns = index.position if isinstance(index, OffsetIndex) else index.timestamp_ms
    return int(_OVERHEAD_BYTES + columns.nbytes + index.relative_offset.nbytes)
