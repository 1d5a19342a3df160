# SPDX-License-Identifier: Apache-2.0
"""What can be read of the local view: segments by leader epoch and offset, lists, sizes, deletions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_rlmm.errors import ManagerClosedError, PartitionNotAssignedError
from airflow_provider_rlmm.manager.metadata_store import RemotePartitionMetadataStore, UserPartitionView
from airflow_provider_rlmm.manager.resumption import LookupReplay
from airflow_provider_rlmm.metadata.records import RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.metadata.states import RemotePartitionDeleteState


class LocalReads:
    """
    The reading half of the manager.

    :param store: the local view.
    :param lookups: gives user partitions that were resumed their lookups by leader epoch.
    """

    def __init__(self, store: RemotePartitionMetadataStore, lookups: LookupReplay) -> None:
        self._store = store
        self._lookups = lookups
        self._closed = threading.Event()

    def _require_open(self) -> None:
        if self._closed.is_set():
            raise ManagerClosedError("the metadata manager was closed: open another one")

    def remote_log_segment_metadata(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """
        Return the segment that serves reads of an offset, ``None`` where there is none.

        :param topic_id_partition: the user partition.
        :param leader_epoch: the leader epoch that the offset was written in.
        :param offset: the offset.
        :raises PartitionNotAssignedError: if the user partition is not followed.
        :raises NotReadyError: if it is not initialised yet.
        :raises ManagerClosedError: after :meth:`close`.
        """
        with self._reading_epochs(topic_id_partition) as view:
            return view.history.cache.remote_log_segment_metadata(leader_epoch, offset)

    def highest_offset_for_epoch(self, topic_id_partition: TopicIdPartition, leader_epoch: int) -> int | None:
        """
        Return the largest offset of an epoch that was ever copied, inclusive.

        :param topic_id_partition: the user partition.
        :param leader_epoch: the leader epoch.
        :raises PartitionNotAssignedError: if the user partition is not followed.
        :raises NotReadyError: if it is not initialised yet.
        :raises ManagerClosedError: after :meth:`close`.
        """
        with self._reading_epochs(topic_id_partition) as view:
            return view.history.cache.highest_offset_for_epoch(leader_epoch)

    def list_remote_log_segments(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> list[RemoteLogSegmentMetadata]:
        """
        Return the segments in any state but ``DELETE_SEGMENT_FINISHED``, by start offset.

        :param topic_id_partition: the user partition.
        :param leader_epoch: only those of this leader epoch.
        :raises PartitionNotAssignedError: if the user partition is not followed.
        :raises NotReadyError: if it is not initialised yet.
        :raises ManagerClosedError: after :meth:`close`.
        """
        by_epoch = self._reading if leader_epoch is None else self._reading_epochs
        with by_epoch(topic_id_partition) as view:
            return view.history.cache.list_remote_log_segments(leader_epoch)

    def remote_log_size(self, topic_id_partition: TopicIdPartition, leader_epoch: int) -> int:
        """
        Return the bytes of the segments of an epoch, in whatever state; a segment of two epochs counts whole for both.

        :param topic_id_partition: the user partition.
        :param leader_epoch: the leader epoch.
        :raises PartitionNotAssignedError: if the user partition is not followed.
        :raises NotReadyError: if it is not initialised yet.
        :raises ManagerClosedError: after :meth:`close`.
        """
        segments = self.list_remote_log_segments(topic_id_partition, leader_epoch)
        return sum(segment.segment_size_in_bytes for segment in segments)

    def next_segment_with_txn_index(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """
        Return the first segment from an offset on, without a gap, that has aborted transactions.

        :param topic_id_partition: the user partition.
        :param leader_epoch: the leader epoch that the offset was written in.
        :param offset: the offset.
        :raises PartitionNotAssignedError: if the user partition is not followed.
        :raises NotReadyError: if it is not initialised yet.
        :raises ManagerClosedError: after :meth:`close`.
        """
        with self._reading_epochs(topic_id_partition) as view:
            return view.history.cache.next_segment_with_txn_index(leader_epoch, offset)

    def partition_delete_state(self, topic_id_partition: TopicIdPartition) -> RemotePartitionDeleteState | None:
        """
        Return how far the deletion of a user partition is, ``None`` where it was never marked.

        :param topic_id_partition: the user partition.
        :raises PartitionNotAssignedError: if it is not followed.
        :raises NotReadyError: if it is not initialised yet.
        :raises ManagerClosedError: after :meth:`close`.
        """
        with self._reading(topic_id_partition) as view:
            return view.history.delete_state

    @contextmanager
    def _reading(self, topic_id_partition: TopicIdPartition) -> Iterator[UserPartitionView]:
        try:
            with self._store.reading(topic_id_partition) as view:
                self._require_open()
                yield view
        except PartitionNotAssignedError:
            # Closing ends all assignments.
            self._require_open()
            raise

    @contextmanager
    def _reading_epochs(self, topic_id_partition: TopicIdPartition) -> Iterator[UserPartitionView]:
        """Hold a view still that answers lookups by leader epoch; the first time after a restart it is replayed for them."""
        with self._reading(topic_id_partition):
            pass
        self._lookups.ensure(topic_id_partition)
        with self._reading(topic_id_partition) as view:
            yield view
