# SPDX-License-Identifier: Apache-2.0
"""Metadata managers for the time before there is one, and for putting one in the place of another while it is in use."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, Never, ParamSpec, Self, TypeVar
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import NotReadyError
from airflow_provider_rlmm.core.log.event_decoding import QuarantinedRecord
from airflow_provider_rlmm.core.log.protocol import PublishOutcome
from airflow_provider_rlmm.core.log.write_guard import OfferedEvent
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
    kafka_uuid_str,
)
from airflow_provider_rlmm.library.metadata_store import Liveness
from airflow_provider_rlmm.library.remote_log_metadata_manager import RemoteLogMetadataManager as _Manager

__all__ = ["NotReadyRemoteLogMetadataManager", "SwappableRemoteLogMetadataManager"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _unreadable(
    method: Callable[Concatenate[_Manager, _P], object],
) -> Callable[Concatenate[NotReadyRemoteLogMetadataManager, _P], Never]:
    """Return a method like the given one, which reads of a user partition, that raises ``NotReadyError``."""
    parameters = inspect.signature(method)

    @wraps(method)
    def refuse(self: NotReadyRemoteLogMetadataManager, /, *args: _P.args, **kwargs: _P.kwargs) -> Never:
        asked = parameters.bind(self, *args, **kwargs).arguments
        self._refuse(f"{asked['topic_id_partition']} cannot be read")

    return refuse


def _passed_on(
    method: Callable[Concatenate[_Manager, _P], _R],
) -> Callable[Concatenate[SwappableRemoteLogMetadataManager, _P], _R]:
    """Return a method like the given one that calls the manager in place."""

    @wraps(method)
    def pass_on(self: SwappableRemoteLogMetadataManager, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self._in_place() as manager:
            answer: _R = getattr(manager, method.__name__)(*args, **kwargs)
            return answer

    return pass_on


class NotReadyRemoteLogMetadataManager:
    """
    A :class:`~airflow_provider_rlmm.library.remote_log_metadata_manager.RemoteLogMetadataManager` that fails closed.

    Nothing is answered, written or remembered, assignments included: the assigner learns that it has to again.

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

    remote_log_segment_metadata = _unreadable(_Manager.remote_log_segment_metadata)
    highest_offset_for_epoch = _unreadable(_Manager.highest_offset_for_epoch)
    list_remote_log_segments = _unreadable(_Manager.list_remote_log_segments)
    remote_log_size = _unreadable(_Manager.remote_log_size)
    next_segment_with_txn_index = _unreadable(_Manager.next_segment_with_txn_index)
    partition_delete_state = _unreadable(_Manager.partition_delete_state)

    def on_partition_leadership_changes(
        self, leader_partitions: Collection[TopicIdPartition], follower_partitions: Collection[TopicIdPartition]
    ) -> Never:
        """Raise ``NotReadyError``."""
        led_or_followed = len(leader_partitions) + len(follower_partitions)
        self._refuse(f"{number_of(led_or_followed, 'user partition was', 'user partitions were')} not assigned")

    def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"{number_of(len(partitions), 'user partition was', 'user partitions were')} not removed")

    def reconcile_assignment(self, partitions: Collection[TopicIdPartition]) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"{number_of(len(partitions), 'user partition was', 'user partitions were')} not assigned")

    def metadata_partitions_for(self, partitions: Collection[TopicIdPartition]) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"where the events of {number_of(len(partitions), 'user partition')} lie is not known")

    def names_of(self, topic_id: UUID) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"the names of topic id {kafka_uuid_str(topic_id)} are not known")

    def publish(self, events: Sequence[OfferedEvent], *, wait: bool = True) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"{number_of(len(events), 'event was', 'events were')} not written")

    def await_readable(self, events: Sequence[OfferedEvent], outcomes: Sequence[PublishOutcome]) -> Never:
        """Raise ``NotReadyError``."""
        self._refuse(f"{number_of(len(events), 'event')} cannot be read here")

    def is_ready(self, topic_id_partition: TopicIdPartition) -> bool:
        """Return ``False``."""
        return False

    def await_ready(self, partitions: Collection[TopicIdPartition], timeout_s: float) -> bool:
        """Return ``False`` at once: a call that waits here would wait for another manager."""
        return False

    def status(self, topic_id_partition: TopicIdPartition) -> None:
        """Return ``None``."""

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
    A :class:`~airflow_provider_rlmm.library.remote_log_metadata_manager.RemoteLogMetadataManager` in front of another
    one that can be replaced at any time.

    Each call goes to exactly one of them, the one that is in place when the call begins. At first it is a
    :class:`NotReadyRemoteLogMetadataManager`.
    """

    def __init__(self) -> None:
        self._current: _Manager = NotReadyRemoteLogMetadataManager()
        self._calls: dict[int, int] = {}
        self._changed = threading.Condition()

    def swap(self, manager: _Manager) -> _Manager:
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
    def _in_place(self) -> Iterator[_Manager]:
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

    add_remote_log_segment_metadata = _passed_on(_Manager.add_remote_log_segment_metadata)
    update_remote_log_segment_metadata = _passed_on(_Manager.update_remote_log_segment_metadata)
    put_remote_partition_delete_metadata = _passed_on(_Manager.put_remote_partition_delete_metadata)
    remote_log_segment_metadata = _passed_on(_Manager.remote_log_segment_metadata)
    highest_offset_for_epoch = _passed_on(_Manager.highest_offset_for_epoch)
    list_remote_log_segments = _passed_on(_Manager.list_remote_log_segments)
    remote_log_size = _passed_on(_Manager.remote_log_size)
    next_segment_with_txn_index = _passed_on(_Manager.next_segment_with_txn_index)
    partition_delete_state = _passed_on(_Manager.partition_delete_state)
    on_partition_leadership_changes = _passed_on(_Manager.on_partition_leadership_changes)
    on_stop_partitions = _passed_on(_Manager.on_stop_partitions)
    reconcile_assignment = _passed_on(_Manager.reconcile_assignment)
    metadata_partitions_for = _passed_on(_Manager.metadata_partitions_for)
    names_of = _passed_on(_Manager.names_of)
    publish = _passed_on(_Manager.publish)
    await_readable = _passed_on(_Manager.await_readable)
    is_ready = _passed_on(_Manager.is_ready)
    await_ready = _passed_on(_Manager.await_ready)
    status = _passed_on(_Manager.status)
    liveness = _passed_on(_Manager.liveness)
    quarantined = _passed_on(_Manager.quarantined)

    def close(self) -> None:
        """Close the manager in place, once the calls to it have ended; calls that begin later are not ready."""
        self.swap(NotReadyRemoteLogMetadataManager("the metadata manager was closed")).close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
