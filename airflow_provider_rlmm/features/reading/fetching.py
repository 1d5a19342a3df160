# SPDX-License-Identifier: Apache-2.0
"""Fetches the objects of remote log segments: counted, within the quota, and again where the storage does not answer."""

from __future__ import annotations

from airflow_provider_rlmm.core.base.errors import DamagedObjectError, StorageError
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.segments.metrics import RemoteLogMetric, RemoteLogMetrics
from airflow_provider_rlmm.core.segments.pacing import ByteQuota, StoragePatience
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.remote_storage import SegmentStorage
from airflow_provider_rlmm.features.reading.index_cache import location_of


class SegmentFetcher:
    """
    Fetches logs, and what is not kept in a cache.

    :param storage: has the objects.
    :param patience: asks again.
    :param quota: bytes per second, of logs.
    :param metrics: counts.
    """

    def __init__(
        self, storage: SegmentStorage, patience: StoragePatience, quota: ByteQuota, metrics: RemoteLogMetrics
    ) -> None:
        self._storage = storage
        self._patience = patience
        self._quota = quota
        self._metrics = metrics

    def location(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType | None = None) -> str:
        """
        Return the key of an object, for messages.

        :param metadata: the segment.
        :param index_type: which index, ``None`` for the log.
        """
        return location_of(self._storage.layout, metadata, index_type)

    def log(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        """
        Return bytes of a log.

        :param metadata: the segment.
        :param start: first position, inclusive.
        :param end: last position, exclusive; not beyond the size that the metadata tell.
        :raises DamagedObjectError: if the object is shorter than that.
        :raises StorageError: if it is missing, or the storage refuses, or does not answer in time.
        """
        self._quota.take(end - start)
        data = self._patience.call(lambda: self._ask(metadata, start, end))
        if len(data) != end - start:
            raise DamagedObjectError(
                f"{self.location(metadata)} was cut: it ends at byte {start + len(data)}, and the metadata say that it has "
                f"{metadata.segment_size_in_bytes}",
                self.location(metadata),
                start + len(data),
            )
        return data

    def index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """
        Return an index, or what lies beside a log like one.

        :raises StorageError: if it is missing, or the storage refuses, or does not answer in time.
        """
        return self._patience.call(lambda: self._storage.fetch_index(metadata, index_type))

    def _ask(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        self._metrics.mark(RemoteLogMetric.FETCH_REQUESTS)
        try:
            data = self._storage.fetch_log_segment(metadata, start, end - 1)
        except StorageError:
            self._metrics.mark(RemoteLogMetric.FETCH_ERRORS)
            raise
        self._metrics.mark(RemoteLogMetric.FETCH_BYTES, len(data))
        return data
