# SPDX-License-Identifier: Apache-2.0
"""The metadata of remote log segments, kept in the topic ``__remote_log_metadata``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Self
from uuid import UUID

from airflow_provider_rlmm.core.base.clock import Clock, system_clock
from airflow_provider_rlmm.core.base.errors import (
    ManagerClosedError,
    PartitionNotAssignedError,
    PublishFailedError,
    PublishOutcomeUnknownError,
)
from airflow_provider_rlmm.core.log.event_decoding import QuarantinedRecord
from airflow_provider_rlmm.core.log.protocol import Acked, MetadataLogReader, PublishOutcome, Unknown
from airflow_provider_rlmm.core.log.snapshot import Snapshot
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher, OfferedEvent
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from airflow_provider_rlmm.library.consumer_task import ConsumerTask
from airflow_provider_rlmm.library.metadata_store import (
    Liveness,
    RemotePartitionMetadataStore,
    UserPartitionStatus,
    UserPartitionView,
)
from airflow_provider_rlmm.library.publication import LookAt, Publication, no_look
from airflow_provider_rlmm.library.resumption import LookupReplay, Resumption

__all__ = ["TopicBasedRemoteLogMetadataManager"]

CONSUME_WAIT_S = 120.0
"""As Kafka's ``remote.log.metadata.consume.wait.ms``."""

_POLL_S = 0.1
# A poll of a log in memory returns at once.
_IDLE_S = 0.002
_BACKOFF_S = 0.5


class TopicBasedRemoteLogMetadataManager:
    """
    A :class:`~airflow_provider_rlmm.library.remote_log_metadata_manager.RemoteLogMetadataManager` on the metadata topic
    (Kafka: ``TopicBasedRemoteLogMetadataManager``). Any thread may call it.

    One thread of its own consumes, from the first assignment on; :meth:`liveness` shows how it does. What is written
    passes the write guard, judged by a local view that is brought up to the high watermark first.

    Every read raises ``PartitionNotAssignedError`` for a user partition that is not followed, and ``NotReadyError`` for one
    that is not initialised yet. After :meth:`close`, each read, change or wait raises ``ManagerClosedError``.

    :param log: the metadata event log.
    :param publisher: the write guard around the same log.
    :param look_at: looks at the cluster for a topic that is to be written about; by default nothing may be.
    :param clock: gives the times of :meth:`liveness`.
    :param consume_wait_s: seconds that a publish waits until the local view is where it must be, before and after.
    :param snapshot: what is known of the topic already, as ``TopicState`` gives it: consumption goes on right behind it. The
        first lookup by leader epoch in a metadata partition reads there what the snapshot does not hold.
    :raises SnapshotRefusedError: if it is of another topic.
    """

    def __init__(
        self,
        log: MetadataLogReader,
        publisher: GuardedPublisher,
        *,
        look_at: LookAt = no_look,
        clock: Clock = system_clock,
        consume_wait_s: float = CONSUME_WAIT_S,
        snapshot: Snapshot | None = None,
    ) -> None:
        self._store = store = RemotePartitionMetadataStore()
        self._lookups = LookupReplay(log, store)
        self._closed = threading.Event()
        self._log = log
        self._clock = clock
        self._wake = threading.Event()
        self._publication = Publication(log, publisher, store, self._lookups, look_at, consume_wait_s, self._closed)
        self._resumption = Resumption(snapshot, log) if snapshot is not None else None
        self._task: ConsumerTask | None = None
        self._thread: threading.Thread | None = None
        self._life = threading.Lock()

    # --- assignment ----------------------------------------------------------------------------------------------------

    def on_partition_leadership_changes(
        self, leader_partitions: Collection[TopicIdPartition], follower_partitions: Collection[TopicIdPartition]
    ) -> None:
        """
        Follow user partitions; leaders and followers are treated alike, as in Kafka.

        :param leader_partitions: which.
        :param follower_partitions: and which.
        """
        self._follow(partial(self._store.assign, [*leader_partitions, *follower_partitions]))

    def reconcile_assignment(self, partitions: Collection[TopicIdPartition]) -> None:
        """
        Follow these user partitions and no others, in one step (Kafka: ``ConsumerTask`` adds and removes under one lock).

        Those that are followed already go on; the others cannot be read from now on.

        :param partitions: all that are to be followed.
        """
        self._follow(partial(self._store.reassign, list(partitions)))

    def _require_open(self) -> None:
        if self._closed.is_set():
            raise ManagerClosedError("the metadata manager was closed: open another one")

    def _follow(self, change: Callable[[], None]) -> None:
        with self._life:
            self._require_open()
            change()
            if self._task is None:
                self._task = ConsumerTask(self._log, self._store, clock=self._clock, resumption=self._resumption)
                self._thread = threading.Thread(target=self._run, args=[self._task], name="rlmm-consumer", daemon=True)
                self._thread.start()
        self._wake.set()

    def metadata_partitions_for(self, partitions: Collection[TopicIdPartition]) -> frozenset[int]:
        """
        Return the metadata partitions where the events of user partitions lie (Kafka: ``RemoteLogMetadataTopicPartitioner``).

        :param partitions: any; they need not be followed.
        """
        return frozenset(metadata_partition_for(partition, self._log.partition_count) for partition in partitions)

    def names_of(self, topic_id: UUID) -> frozenset[str]:
        """
        Return every name under which a topic id was seen: a question about the id to the cluster has to ask for all of them.

        :param topic_id: an id of which a user partition is followed.
        """
        with self._store.changed:
            seen = {tip.topic for tip in self._store.assignments if tip.topic_id == topic_id}
            seen |= self._store.names.get(topic_id, set())
        return frozenset(seen).union(self._resumption.names_of(topic_id) if self._resumption else ())

    def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> None:
        """
        Follow user partitions no longer; from now on they cannot be read.

        :param partitions: which; no effect for those that are not followed.
        """
        self._require_open()
        self._store.unassign(partitions)
        self._wake.set()

    def is_ready(self, topic_id_partition: TopicIdPartition) -> bool:
        """
        Tell whether a user partition may be read: it was consumed up to the end offset taken at its assignment.

        :param topic_id_partition: any.
        """
        return self._store.is_initialized(topic_id_partition)

    def status(self, topic_id_partition: TopicIdPartition) -> UserPartitionStatus | None:
        """
        Return how far a user partition is and whether its history is whole, ``None`` where nothing was read yet.

        :param topic_id_partition: any.
        """
        return self._store.status(topic_id_partition)

    def await_ready(self, partitions: Collection[TopicIdPartition], timeout_s: float) -> bool:
        """
        Wait until user partitions may be read.

        :param partitions: which.
        :param timeout_s: seconds.
        :return: whether they all may be.
        """
        self._require_open()
        return self._store.await_initialized(partitions, timeout_s)

    # --- reads ---------------------------------------------------------------------------------------------------------

    def remote_log_segment_metadata(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """
        Return the segment that serves reads of an offset, ``None`` where there is none.

        :param topic_id_partition: the user partition.
        :param leader_epoch: the leader epoch that the offset was written in.
        :param offset: the offset.
        """
        with self._reading_epochs(topic_id_partition) as view:
            return view.history.cache.remote_log_segment_metadata(leader_epoch, offset)

    def highest_offset_for_epoch(self, topic_id_partition: TopicIdPartition, leader_epoch: int) -> int | None:
        """
        Return the largest offset of an epoch that was ever copied, inclusive.

        :param topic_id_partition: the user partition.
        :param leader_epoch: the leader epoch.
        """
        with self._reading_epochs(topic_id_partition) as view:
            return view.history.cache.highest_offset_for_epoch(leader_epoch)

    def list_remote_log_segments(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> list[RemoteLogSegmentMetadata]:
        """
        Return the segments in any state but ``DELETE_SEGMENT_FINISHED``, by start offset.

        :param topic_id_partition: the user partition.
        :param leader_epoch: only those of this leader epoch, in the order in which Kafka lists it: see
            :meth:`~airflow_provider_rlmm.core.records.cache.RemoteLogMetadataCache.list_remote_log_segments`.
        """
        by_epoch = self._reading if leader_epoch is None else self._reading_epochs
        with by_epoch(topic_id_partition) as view:
            return view.history.cache.list_remote_log_segments(leader_epoch)

    def remote_log_size(self, topic_id_partition: TopicIdPartition, leader_epoch: int) -> int:
        """
        Return the bytes of the segments of an epoch, in any state; a segment of two epochs counts whole for both.

        :param topic_id_partition: the user partition.
        :param leader_epoch: the leader epoch.
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
        """
        with self._reading_epochs(topic_id_partition) as view:
            return view.history.cache.next_segment_with_txn_index(leader_epoch, offset)

    def partition_delete_state(self, topic_id_partition: TopicIdPartition) -> RemotePartitionDeleteState | None:
        """
        Return how far the deletion of a user partition is, ``None`` where it was never marked.

        :param topic_id_partition: the user partition.
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

    # --- writes --------------------------------------------------------------------------------------------------------

    def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> int:
        """
        Offer the first event of a segment to the write guard, which leaves it to the copiers: always refused.

        :param metadata: the segment.
        :raises WriteRefusedError: with the reason.
        """
        return self._publish_one(metadata)

    def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> int:
        """
        Publish a step of a segment's deletion and wait until it can be read here.

        :param update: the event.
        :return: its offset in the metadata partition.
        :raises WriteRefusedError: if the write guard refuses it.
        :raises PublishFailedError: if it was certainly not written.
        :raises PublishOutcomeUnknownError: if it may or may not have been.
        :raises ReadAfterWriteError: if it was written and did not come back in time.
        """
        return self._publish_one(update)

    def put_remote_partition_delete_metadata(self, metadata: RemotePartitionDeleteMetadata) -> int:
        """
        Publish a step of a user partition's deletion, as :meth:`update_remote_log_segment_metadata` does with a segment's.

        :param metadata: the event.
        :return: its offset in the metadata partition.
        :raises RlmmError: as there.
        """
        return self._publish_one(metadata)

    def publish(self, events: Sequence[OfferedEvent], *, wait: bool = True) -> list[PublishOutcome]:
        """
        Publish a batch through the write guard, in order per metadata partition; if one is refused nothing is written.

        Records of unknown outcome are looked for in the log; what is found is ``Acked``. An ``Unknown`` that remains may
        still land: until it is found, the manager writes no DELETE_PARTITION_FINISHED for its user partition.

        :param events: at most one per segment and per user partition; their user partitions are followed and ready.
        :param wait: whether to wait, once for the batch, until everything that is acked can be read here.
        :return: one outcome per event, in the same order.
        :raises PartitionNotAssignedError: if a user partition is not followed.
        :raises NotReadyError: if the local view did not catch up with the high watermark in time: nothing was written.
        :raises QuarantinedRecordsError: if the local view is not the whole history: nothing was written.
        :raises WriteRefusedError: if the write guard refuses an event: nothing was written.
        :raises EventLogUnavailableError: if the brokers do not answer before the batch is sent: nothing was written.
        :raises ReadAfterWriteError: if the local view did not catch up with the batch in time: what is acked is written.
        """
        self._require_open()
        return self._publication.publish(events, self._task, wait=wait)

    def await_readable(self, events: Sequence[OfferedEvent], outcomes: Sequence[PublishOutcome]) -> None:
        """
        Wait, once, until everything that is acked can be read here: for batches published with ``wait=False``.

        :param events: the events, of one batch or of several.
        :param outcomes: the outcome of each.
        :raises ReadAfterWriteError: if the local view did not catch up with them in time.
        """
        self._publication.await_readable(events, outcomes)

    def _publish_one(self, event: OfferedEvent) -> int:
        (outcome,) = self.publish([event])
        what = f"{event.state.name} of {topic_id_partition_of(event)}"
        if isinstance(outcome, Unknown):
            raise PublishOutcomeUnknownError(f"{what}: {outcome.reason}")
        if not isinstance(outcome, Acked):
            raise PublishFailedError(f"{what} was not written: {outcome.reason}")
        return outcome.offset

    # --- life ----------------------------------------------------------------------------------------------------------

    def liveness(self) -> Liveness:
        """Return whether and how far the metadata topic is consumed, and what failed last."""
        if self._task is None or self._thread is None:
            return Liveness()
        return replace(self._task.liveness(), running=self._thread.is_alive())

    def quarantined(self) -> list[QuarantinedRecord]:
        """Return the records that cannot be applied, the first of each metadata partition that is followed."""
        return self._task.quarantined() if self._task is not None else []

    def _run(self, task: ConsumerTask) -> None:
        while not self._closed.is_set():
            self._wake.clear()
            if not task.step(_POLL_S):
                self._wake.wait(_BACKOFF_S if task.liveness().failures_in_a_row else _IDLE_S)
        task.close()

    def close(self) -> None:
        """Stop consuming; calls that wait are told. The log stays open."""
        with self._life:
            self._closed.set()
            self._wake.set()
            if self._thread is not None:
                self._thread.join()
        self._store.unassign(list(self._store.assignments))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
