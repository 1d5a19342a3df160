# SPDX-License-Identifier: Apache-2.0
"""The state of many user partitions after a replay of decoded events, with the tables that jobs and reports read."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from airflow_provider_rlmm.metadata.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.metadata.columnar.fold.apply import apply_batch
from airflow_provider_rlmm.metadata.columnar.fold.batch import partition_of
from airflow_provider_rlmm.metadata.columnar.fold.caches import caches_of, halves_of, rows_of
from airflow_provider_rlmm.metadata.columnar.fold.ipc import from_ipc, to_ipc
from airflow_provider_rlmm.metadata.columnar.fold.merge import merged
from airflow_provider_rlmm.metadata.columnar.fold.store import NO_DELETION, Store, Undo
from airflow_provider_rlmm.metadata.columnar.fold.tables import table_of
from airflow_provider_rlmm.metadata.records import RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.metadata.states import RemotePartitionDeleteState

_REMEMBERED_CACHES = 64


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """
    What :meth:`ColumnarState.apply` did; each table holds the batch's columns of the rows in question, what became of
    them as ``fate`` (:class:`~airflow_provider_rlmm.metadata.outcomes.EventFate`) and a ``reason`` in words.

    :param applied: number of events that were applied.
    :param quarantined: rows whose ``error_code`` is not ``GOOD``; of these only ``KEYED`` ones are applied, as a broker
        applies them.
    :param dropped: events that Kafka drops too: an invalid transition, or an update of a segment that is not known.
    :param would_end_consumer: what ends a broker's consumer, for good and after each restart: refused values,
        snapshots, steps that throw, and segment events after ``DELETE_PARTITION_FINISHED``, whatever marker came in
        between. The latter are applied here none the less: a cleaner must see what appeared since. Each row once.
    """

    applied: int
    quarantined: Any
    dropped: Any
    would_end_consumer: Any


class ColumnarState:
    """
    An immutable state: what brokers' caches would hold, had each of them seen all events.

    Built by :meth:`empty`, :meth:`apply`, :meth:`merge` and :meth:`from_ipc`. The latest state of a line of them owns
    the columns; an older one knows the way back to its own and makes itself a copy when it is asked for something.
    """

    def __init__(self, store: Store) -> None:
        self._store: Store | None = store
        self._later: tuple[ColumnarState, Undo] | None = None
        self._lock = threading.RLock()
        self._caches: dict[TopicIdPartition, RemoteLogMetadataCache] = {}

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return ColumnarState.from_ipc, (self.to_ipc(),)

    @classmethod
    def empty(cls) -> ColumnarState:
        """Return the state before the first event."""
        return cls(Store())

    def apply(self, batch: Any) -> tuple[ColumnarState, ApplyReport]:
        """
        Return the state after the events of a batch, and what became of them.

        :param batch: what ``decode`` returned: events in the order of their offsets; those of one metadata partition must
            come from one batch after the other.
        """
        with self._lock:
            store = self._own()
            undo = store.begin()
            try:
                findings = apply_batch(store, batch)
            except BaseException:
                store.revert(undo)
                raise
            store.commit()
            after = self._lead_to(store, undo)
            if store.is_wasteful():
                # The way back leads through the rows as they are: whoever keeps this state keeps them, too.
                after = ColumnarState(store.rebuilt())
        return after, ApplyReport(
            findings.applied,
            findings.quarantined.table(batch),
            findings.dropped.table(batch),
            findings.would_end_consumer.table(batch),
        )

    def _lead_to(self, store: Store, undo: Undo) -> ColumnarState:
        """Hand the columns over to a later state; from then on this one knows the way back only."""
        later = ColumnarState(store)
        later._lock = self._lock
        self._store, self._later = None, (later, undo)
        return later

    def _own(self) -> Store:
        """Return the columns; a state that others were made from copies those of the latest and goes back."""
        if self._store is not None:
            return self._store
        way: list[Undo] = []
        state = self
        while state._store is None and state._later is not None:
            state, undo = state._later
            way.append(undo)
        if state._store is None:
            raise AssertionError("a state has columns, or a later state")
        store = state._store.copy()
        for undo in reversed(way):
            store.revert(undo)
        self._store, self._later = store, None
        return store

    def merge(self, other: ColumnarState) -> ColumnarState:
        """
        Return the state of both, which must have seen disjoint metadata partitions.

        :param other: another state.
        :raises MetadataError: if a user partition is in both.
        """
        with self._lock:
            mine = self._own().rebuilt()
        with other._lock:
            theirs = other._own().rebuilt()
        return ColumnarState(merged(mine, theirs))

    def _table(self, name: str) -> Any:
        with self._lock:
            return table_of(self._own(), name)

    @property
    def segments(self) -> Any:
        """One row per segment that is not ``DELETE_SEGMENT_FINISHED``."""
        return self._table("segments")

    @property
    def epoch_offsets(self) -> Any:
        """
        One row per leader epoch and segment.

        ``referenced`` ones serve reads from ``start_offset`` on; the others are being copied or deleted, or superseded.
        """
        return self._table("epoch_offsets")

    @property
    def epoch_highest(self) -> Any:
        """The largest offset that was ever copied, per leader epoch; it outlives its segments."""
        return self._table("epoch_highest")

    @property
    def partition_deletes(self) -> Any:
        """
        The last deletion event of each user partition; ``DELETE_PARTITION_FINISHED`` stays, unlike in Kafka.

        ``was_finished`` outlives a marker that opens the partition again.
        """
        return self._table("partition_deletes")

    @property
    def user_partitions(self) -> Any:
        """All user partitions that an event was about, those without segments among them."""
        return self._table("user_partitions")

    @property
    def nbytes(self) -> int:
        """Bytes in use by the columns and their indexes; room to grow that was never touched does not count."""
        with self._lock:
            return self._own().nbytes

    def cache(self, topic_id_partition: TopicIdPartition) -> RemoteLogMetadataCache:
        """
        Return an independent cache of one user partition, empty if it is not known.

        :param topic_id_partition: the user partition.
        """
        return self._cache(topic_id_partition).copy()

    def _cache(self, topic_id_partition: TopicIdPartition) -> RemoteLogMetadataCache:
        with self._lock:
            cache = self._caches.get(topic_id_partition)
            if cache is None:
                store, row = self._own(), self._row(topic_id_partition)
                cache = RemoteLogMetadataCache()
                if row >= 0:
                    cache = caches_of(store, [row], rows_of(store, np.array([row])))[row]
                if len(self._caches) >= _REMEMBERED_CACHES:
                    del self._caches[next(iter(self._caches))]
                self._caches[topic_id_partition] = cache
            return cache

    def _row(self, topic_id_partition: TopicIdPartition) -> int:
        return partition_of(
            self._own(), *halves_of(topic_id_partition.topic_id), topic_id_partition.partition, topic_id_partition.topic
        )

    def remote_log_segment_metadata(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """
        Return the segment that serves reads of an offset, ``None`` where there is none.

        :param topic_id_partition: the user partition.
        :param leader_epoch: the leader epoch that the offset was written in.
        :param offset: the offset.
        """
        return self._cache(topic_id_partition).remote_log_segment_metadata(leader_epoch, offset)

    def highest_offset_for_epoch(self, topic_id_partition: TopicIdPartition, leader_epoch: int) -> int | None:
        """
        Return the largest offset of an epoch that was ever copied, inclusive; it outlives its segment.

        :param topic_id_partition: the user partition.
        :param leader_epoch: the leader epoch.
        """
        return self._cache(topic_id_partition).highest_offset_for_epoch(leader_epoch)

    def list_remote_log_segments(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> list[RemoteLogSegmentMetadata]:
        """
        Return the segments in any state but ``DELETE_SEGMENT_FINISHED``, by start offset.

        :param topic_id_partition: the user partition.
        :param leader_epoch: only those of this leader epoch.
        :raises MetadataError: where Kafka cannot list the epoch either, see
            :meth:`~airflow_provider_rlmm.metadata.cache.RemoteLogMetadataCache.list_remote_log_segments`.
        """
        return self._cache(topic_id_partition).list_remote_log_segments(leader_epoch)

    def partition_delete_state(self, topic_id_partition: TopicIdPartition) -> RemotePartitionDeleteState | None:
        """
        Return the state of a user partition's deletion, ``None`` where no event of it is known.

        :param topic_id_partition: the user partition.
        """
        with self._lock:
            row = self._row(topic_id_partition)
            state = int(self._own().partitions["delete_state"][row]) if row >= 0 else NO_DELETION
        return None if state == NO_DELETION else RemotePartitionDeleteState(state)

    def to_ipc(self) -> bytes:
        """Return the state as bytes, for :meth:`from_ipc`."""
        with self._lock:
            return to_ipc(self._own())

    @classmethod
    def from_ipc(cls, data: bytes) -> ColumnarState:
        """
        Return the state that :meth:`to_ipc` has written; its columns lie in the given bytes until they change.

        :param data: the bytes.
        :raises MetadataError: if they are something else, or of another version.
        """
        return cls(from_ipc(data))
