# SPDX-License-Identifier: Apache-2.0
"""The bytes of a segment out of remote storage: paced, counted, and asked for again where the storage does not answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from airflow_provider_rlmm.core.base.errors import RemoteObjectNotFoundError
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.segments.pacing import ByteQuota, StoragePatience
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager


@dataclass(slots=True)
class Fetched:
    """What was asked of the storage so far, by all threads together."""

    requests: int = 0  # reads of logs and of what lies beside them
    bytes: int = 0  # as they lay on the broker's disk
    _lock: Lock = field(default_factory=Lock)

    def add(self, size: int) -> None:
        """
        Count a request.

        :param size: bytes that it has brought.
        """
        with self._lock:
            self.requests += 1
            self.bytes += size


@dataclass(frozen=True, slots=True)
class PacedStorage:
    """
    A storage that is only read.

    :param manager: the storage.
    :param patience: asks again.
    :param quota: bytes per second.
    :param fetched: counts.
    """

    manager: RemoteStorageManager
    patience: StoragePatience
    quota: ByteQuota
    fetched: Fetched

    def ask(self, read: Callable[[], bytes]) -> bytes:
        """
        Return what a read returns in the end.

        :param read: asks the storage once.
        :raises RlmmError: what the read raises, or that the storage does not answer in time.
        """
        data = self.patience.call(read)
        self.fetched.add(len(data))
        # Afterwards, as it is not known before how large an index is: the next one waits.
        self.quota.take(len(data))
        return data


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """
    A :class:`~airflow_provider_rlmm.core.segments.proof.fields.SegmentSource`.

    :param storage: has the objects.
    :param metadata: the segment.
    """

    storage: PacedStorage
    metadata: RemoteLogSegmentMetadata

    def log(self, start: int, end: int) -> bytes:
        """See :class:`~airflow_provider_rlmm.core.segments.proof.fields.SegmentSource`; a missing log is raised."""
        return self.storage.ask(lambda: self.storage.manager.fetch_log_segment(self.metadata, start, end - 1))

    def index(self, index_type: IndexType) -> bytes | None:
        """See :class:`~airflow_provider_rlmm.core.segments.proof.fields.SegmentSource`."""
        try:
            return self.storage.ask(lambda: self.storage.manager.fetch_index(self.metadata, index_type))
        except RemoteObjectNotFoundError:
            return None
