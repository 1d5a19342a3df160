# SPDX-License-Identifier: Apache-2.0
"""Metadata managers for the time before there is one, and for putting one in the place of another while it is in use."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Never, Self
from uuid import UUID

from airflow_provider_rlmm.errors import NotReadyError
from airflow_provider_rlmm.event_log.event_decoding import QuarantinedRecord
from airflow_provider_rlmm.event_log.protocol import PublishOutcome
from airflow_provider_rlmm.event_log.write_guard import OfferedEvent
from airflow_provider_rlmm.manager.liveness import Liveness
from airflow_provider_rlmm.manager.metadata_store import UserPartitionStatus
from airflow_provider_rlmm.manager.remote_log_metadata_manager import RemoteLogMetadataManager
from airflow_provider_rlmm.metadata.records import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
    kafka_uuid_str,
)
from airflow_provider_rlmm.metadata.states import RemotePartitionDeleteState


class NotReadyRemoteLogMetadataManager:
    """
    A :class:`~airflow_provider_rlmm.manager.remote_log_metadata_manager.RemoteLogMetadataManager` that fails closed.

    Nothing is answered, written or remembered, assignments included: whoever assigns learns that it has to again.

    :param reason: why there is no other one, for the message.
    """

    def __init__(self, reason: str = "the metadata manager is still being set up") -> None:
        self._reason = reason

    def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"the first event of {metadata.remote_log_segment_id} was not written")

    def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"{update.state.name} of {update.remote_log_segment_id} was not written")

    def put_remote_partition_delete_metadata(self, metadata: RemotePartitionDeleteMetadata) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"{metadata.state.name} of {metadata.topic_id_partition} was not written")

    def remote_log_segment_metadata(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"{topic_id_partition} cannot be read")

    def highest_offset_for_epoch(self, topic_id_partition: TopicIdPartition, leader_epoch: int) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"{topic_id_partition} cannot be read")

    def list_remote_log_segments(self, topic_id_partition: TopicIdPartition, leader_epoch: int | None = None) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"{topic_id_partition} cannot be read")

    def remote_log_size(self, topic_id_partition: TopicIdPartition, leader_epoch: int) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"{topic_id_partition} cannot be read")

    def next_segment_with_txn_index(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"{topic_id_partition} cannot be read")

    def on_partition_leadership_changes(
        self, leader_partitions: Collection[TopicIdPartition], follower_partitions: Collection[TopicIdPartition]
    ) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"{len(leader_partitions) + len(follower_partitions)} user partitions were not assigned")

    def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"{len(partitions)} user partitions were not removed")

    def reconcile_assignment(self, partitions: Collection[TopicIdPartition]) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"{len(partitions)} user partitions were not assigned")

    def metadata_partitions_for(self, partitions: Collection[TopicIdPartition]) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"where the events of {len(partitions)} user partitions lie is not known")

    def names_of(self, topic_id: UUID) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"the names of topic id {kafka_uuid_str(topic_id)} are not known")

    def partition_delete_state(self, topic_id_partition: TopicIdPartition) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"{topic_id_partition} cannot be read")

    def publish(self, events: Sequence[OfferedEvent], *, wait: bool = True) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"{len(events)} events were not written")

    def await_readable(self, events: Sequence[OfferedEvent], outcomes: Sequence[PublishOutcome]) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"{len(events)} events cannot be read here")

    def is_ready(self, topic_id_partition: TopicIdPartition) -> bool:
        """
        Return ``False``.

        :param topic_id_partition: any.
        """
        return False

    def await_ready(self, partitions: Collection[TopicIdPartition], timeout_s: float) -> bool:
        """
        Return ``False`` at once: whoever waits here would wait for another manager.

        :param partitions: any.
        :param timeout_s: seconds.
        """
        return False

    def status(self, topic_id_partition: TopicIdPartition) -> None:
        """
        Return ``None``.

        :param topic_id_partition: any.
        """

    def liveness(self) -> Liveness:
        """Return that nothing runs."""
        return Liveness()

    def quarantined(self) -> list[QuarantinedRecord]:
        """Return no record."""
        return []

    def close(self) -> None:
        """Do nothing."""

    def _refuse(self, what: str) -> Never:
        raise NotReadyError(f"{what}: {self._reason}; try again later")


class SwappableRemoteLogMetadataManager:
    """
    A :class:`~airflow_provider_rlmm.manager.remote_log_metadata_manager.RemoteLogMetadataManager` in front of another
    one that can be replaced at any time.

    Each call goes to exactly one of them, the one that is in place when the call begins. At first it is a
    :class:`NotReadyRemoteLogMetadataManager`.
    """

    def __init__(self) -> None:
        self._current: RemoteLogMetadataManager = NotReadyRemoteLogMetadataManager()
        self._calls: dict[int, int] = {}
        self._changed = threading.Condition()

    def swap(self, manager: RemoteLogMetadataManager) -> RemoteLogMetadataManager:
        """
        Put another manager in place: every call that begins from now on goes to it.

        :param manager: the new one.
        :return: the former one, once the last call to it has ended: it may be closed.
        """
        with self._changed:
            former, self._current = self._current, manager
            if former is not manager:
                self._changed.wait_for(lambda: not self._calls.get(id(former)))
        return former

    @contextmanager
    def _in_place(self) -> Iterator[RemoteLogMetadataManager]:
        with self._changed:
            manager = self._current
            self._calls[id(manager)] = self._calls.get(id(manager), 0) + 1
        try:
            yield manager
        finally:
            with self._changed:
                self._calls[id(manager)] -= 1
                if not self._calls[id(manager)]:
                    del self._calls[id(manager)]
                self._changed.notify_all()

    def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> int:
        """Pass on."""
        with self._in_place() as manager:
            return manager.add_remote_log_segment_metadata(metadata)

    def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> int:
        """Pass on."""
        with self._in_place() as manager:
            return manager.update_remote_log_segment_metadata(update)

    def put_remote_partition_delete_metadata(self, metadata: RemotePartitionDeleteMetadata) -> int:
        """Pass on."""
        with self._in_place() as manager:
            return manager.put_remote_partition_delete_metadata(metadata)

    def remote_log_segment_metadata(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Pass on."""
        with self._in_place() as manager:
            return manager.remote_log_segment_metadata(topic_id_partition, leader_epoch, offset)

    def highest_offset_for_epoch(self, topic_id_partition: TopicIdPartition, leader_epoch: int) -> int | None:
        """Pass on."""
        with self._in_place() as manager:
            return manager.highest_offset_for_epoch(topic_id_partition, leader_epoch)

    def list_remote_log_segments(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> list[RemoteLogSegmentMetadata]:
        """Pass on."""
        with self._in_place() as manager:
            return manager.list_remote_log_segments(topic_id_partition, leader_epoch)

    def remote_log_size(self, topic_id_partition: TopicIdPartition, leader_epoch: int) -> int:
        """Pass on."""
        with self._in_place() as manager:
            return manager.remote_log_size(topic_id_partition, leader_epoch)

    def next_segment_with_txn_index(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Pass on."""
        with self._in_place() as manager:
            return manager.next_segment_with_txn_index(topic_id_partition, leader_epoch, offset)

    def on_partition_leadership_changes(
        self, leader_partitions: Collection[TopicIdPartition], follower_partitions: Collection[TopicIdPartition]
    ) -> None:
        """Pass on."""
        with self._in_place() as manager:
            manager.on_partition_leadership_changes(leader_partitions, follower_partitions)

    def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> None:
        """Pass on."""
        with self._in_place() as manager:
            manager.on_stop_partitions(partitions)

    def reconcile_assignment(self, partitions: Collection[TopicIdPartition]) -> None:
        """Pass on."""
        with self._in_place() as manager:
            manager.reconcile_assignment(partitions)

    def metadata_partitions_for(self, partitions: Collection[TopicIdPartition]) -> frozenset[int]:
        """Pass on."""
        with self._in_place() as manager:
            return manager.metadata_partitions_for(partitions)

    def names_of(self, topic_id: UUID) -> frozenset[str]:
        """Pass on."""
        with self._in_place() as manager:
            return manager.names_of(topic_id)

    def partition_delete_state(self, topic_id_partition: TopicIdPartition) -> RemotePartitionDeleteState | None:
        """Pass on."""
        with self._in_place() as manager:
            return manager.partition_delete_state(topic_id_partition)

    def publish(self, events: Sequence[OfferedEvent], *, wait: bool = True) -> list[PublishOutcome]:
        """Pass on."""
        with self._in_place() as manager:
            return manager.publish(events, wait=wait)

    def await_readable(self, events: Sequence[OfferedEvent], outcomes: Sequence[PublishOutcome]) -> None:
        """Pass on."""
        with self._in_place() as manager:
            manager.await_readable(events, outcomes)

    def await_ready(self, partitions: Collection[TopicIdPartition], timeout_s: float) -> bool:
        """Pass on; a swap waits for whoever waits here."""
        with self._in_place() as manager:
            return manager.await_ready(partitions, timeout_s)

    def status(self, topic_id_partition: TopicIdPartition) -> UserPartitionStatus | None:
        """Pass on."""
        with self._in_place() as manager:
            return manager.status(topic_id_partition)

    def liveness(self) -> Liveness:
        """Pass on."""
        with self._in_place() as manager:
            return manager.liveness()

    def quarantined(self) -> list[QuarantinedRecord]:
        """Pass on."""
        with self._in_place() as manager:
            return manager.quarantined()

    def is_ready(self, topic_id_partition: TopicIdPartition) -> bool:
        """Pass on."""
        with self._in_place() as manager:
            return manager.is_ready(topic_id_partition)

    def close(self) -> None:
        """Close the manager in place, once the calls to it have ended; calls that begin later are not ready."""
        self.swap(NotReadyRemoteLogMetadataManager("the metadata manager was closed")).close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
