# SPDX-License-Identifier: Apache-2.0
"""The state of many user partitions after a replay of decoded events, with the tables that jobs and reports read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pyarrow as pa

from airflow_provider_rlmm.core.base.errors import MetadataError
from airflow_provider_rlmm.core.records.deletion import PartitionDeletion
from airflow_provider_rlmm.core.records.fold.apply import apply_batch
from airflow_provider_rlmm.core.records.fold.digest import digest_of
from airflow_provider_rlmm.core.records.fold.histories import histories_of, user_partition
from airflow_provider_rlmm.core.records.fold.ipc import from_ipc, write_ipc
from airflow_provider_rlmm.core.records.fold.living import LivingSegments
from airflow_provider_rlmm.core.records.fold.merging import merged_store
from airflow_provider_rlmm.core.records.fold.selected import SelectedSegments
from airflow_provider_rlmm.core.records.fold.store import Store
from airflow_provider_rlmm.core.records.fold.tables import table_of
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.records import TopicIdPartition


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """
    What :meth:`ColumnarState.apply` did; each table holds the batch's columns of the rows in question, what became of
    them as ``fate`` (:class:`~airflow_provider_rlmm.core.records.outcomes.EventFate`) and a ``reason`` in words.

    :param applied: number of events that were applied.
    :param quarantined: rows that are not believed, by their ``error_code``; of these only ``KEYED`` ones are applied, as a
        broker applies them.
    :param dropped: events that Kafka drops too: an invalid transition, or an update of a segment that is not known.
    :param would_end_consumer: what ends a broker's consumer, for good and after each restart: refused values,
        snapshots, steps that throw, and segment events after ``DELETE_PARTITION_FINISHED``, with a marker in
        between or without. The latter are applied here none the less: a cleaner must see what appeared since. Each row once.
    :param deletions: the partition-delete events, all applied; ``state_before`` is the state of the last one before it in its
        user partition, null where there was none. No broker checks their order.
    :param misnamed: updates, applied or not, that say another end offset or another leader epoch of their segment than what
        opened its life: by their keys they are another segment's.
    """

    applied: int
    quarantined: Any
    dropped: Any
    would_end_consumer: Any
    deletions: Any
    misnamed: Any


class ColumnarState:
    """
    What the metadata topic says of many user partitions: their segments that are not finished, how far their deletions are,
    what is not certain.

    The same as one :class:`~airflow_provider_rlmm.core.records.history.UserPartitionHistory` per user partition holds;
    unlike a broker's cache it keeps what is unfinished below ``DELETE_PARTITION_FINISHED``. A state that was advanced by
    :meth:`apply` is spent: only the state that came of it answers.
    """

    def __init__(self, store: Store) -> None:
        self._store: Store | None = store

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return ColumnarState.from_ipc, (self.to_ipc(),)

    @classmethod
    def empty(cls, *, keep_finished: bool = False) -> ColumnarState:
        """
        Return the state before the first event.

        :param keep_finished: remember every finished segment, in :attr:`finished_segments`. Otherwise an update that comes
            after its segment was finished looks like an update without its add (``maybe_finished`` in :attr:`unresolved`).
        """
        return cls(Store(keep_finished=keep_finished))

    def apply(self, batch: Any) -> tuple[ColumnarState, ApplyReport]:
        """
        Return the state after the events of a batch, and what became of them; this state is spent.

        :param batch: what ``decode`` returned: events in the order of their offsets; those of one metadata partition must
            come from one batch after the other.
        :raises MetadataError: if this state was advanced before.
        """
        store = self._spent()
        outcome = apply_batch(store, batch)
        after = ColumnarState(store.rebuilt(keep_finished=store.keep_finished) if store.is_wasteful() else store)
        rows = (outcome.quarantined, outcome.dropped, outcome.would_end_consumer, outcome.deletions, outcome.misnamed)
        return after, ApplyReport(outcome.applied, *(found.table(batch) for found in rows))

    @classmethod
    def merged(cls, states: Iterable[ColumnarState]) -> ColumnarState:
        """
        Return the state of several metadata partitions, by one state of each; these are spent.

        :param states: the states; beside what is merged so far one at a time is in memory, if an iterator loads them.
        :return: of none, the state before the first event that keeps finished segments.
        :raises MetadataError: if two of them know the same user partition, only some keep finished segments, or one was
            advanced before.
        """
        return cls(merged_store(state._spent() for state in states))

    def _spent(self) -> Store:
        store, self._store = self._own(), None
        return store

    def _own(self) -> Store:
        if self._store is None:
            raise MetadataError("this state was advanced: ask the one that apply returned")
        return self._store

    @property
    def segments(self) -> Any:
        """One row per segment that is not ``DELETE_SEGMENT_FINISHED``."""
        return table_of(self._own(), "segments")

    def unfinished(self) -> SelectedSegments:
        """Return the segments that are not finished where they lie, in no order: for who wants few of them, or to count."""
        store = self._own()
        return SelectedSegments(store, store.alive())

    def living(self) -> LivingSegments:
        """Return the segments that are not finished where they lie: to take a few at a time needs no table of all."""
        return LivingSegments(self._own())

    @property
    def finished_segments(self) -> Any:
        """One row per segment that is ``DELETE_SEGMENT_FINISHED``, where they are kept."""
        return table_of(self._own(), "finished_segments")

    @property
    def unresolved(self) -> Any:
        """
        One row per segment whose state is not certain: an update came without its add, or an event made no sense.

        ``offset`` is where the last such event lies; ``without_add`` tells the former from the latter.
        """
        return table_of(self._own(), "unresolved")

    @property
    def partition_deletes(self) -> Any:
        """
        The last deletion event of each user partition and its ``offset``; ``DELETE_PARTITION_FINISHED`` stays, unlike in
        Kafka.

        ``was_finished`` outlives a marker that opens the partition again.
        """
        return table_of(self._own(), "partition_deletes")

    @property
    def user_partitions(self) -> Any:
        """
        All user partitions that an event was about, those without segments among them.

        ``copying_offset`` and its neighbours are the first event that began a copy since one was last finished, null where
        nothing is begun.
        """
        return table_of(self._own(), "user_partitions")

    def histories(
        self, metadata_partition: int, topic_ids: Collection[UUID], *, with_segments: bool = True
    ) -> dict[TopicIdPartition, UserPartitionHistory]:
        """
        Return what is known of the user partitions of some topics, one by one.

        The segments are those that are not finished, and they know no leader epochs' lookups. An update that came after its
        segment was finished may be among those without add (``maybe_finished`` in :attr:`unresolved`).

        :param metadata_partition: where their events lie.
        :param topic_ids: which topics.
        :param with_segments: ``False`` leaves their segments out: for those who count these in :attr:`segments`.
        """
        return histories_of(self._own(), metadata_partition, topic_ids, with_segments=with_segments)

    def digest(self) -> str:
        """
        Return the SHA-256 of what the state says, in hexadecimal digits.

        It depends neither on the batches that the events came in, nor on whether the state was written, read or merged in
        between. What a state says that keeps finished segments is not what another one says.
        """
        return digest_of(self._own())

    def deletions_under_way(self) -> Mapping[TopicIdPartition, PartitionDeletion]:
        """Return how far the deletions are that began and are not finished."""
        store = self._own()
        return {user_partition(store, row): deepcopy(deletion) for row, deletion in store.deletions.items()}

    @property
    def nbytes(self) -> int:
        """Bytes in use by the columns and their indexes; room to grow that was never touched does not count."""
        return self._own().nbytes

    def to_ipc(self, *, forget_finished: bool = False) -> bytes:
        """
        Return the state as bytes, for :meth:`from_ipc`.

        :param forget_finished: leave out finished segments, where they were kept: who goes on from here keeps none.
        """
        sink = pa.BufferOutputStream()
        self.write_ipc(sink, forget_finished=forget_finished)
        data: bytes = sink.getvalue().to_pybytes()
        return data

    def write_ipc(self, sink: Any, *, forget_finished: bool = False) -> None:
        """
        Write the bytes of :meth:`to_ipc`, with little more memory than the state takes.

        :param sink: where to: an Arrow stream, or a file of Python.
        :param forget_finished: as for :meth:`to_ipc`.
        """
        store = self._own()
        write_ipc(store, sink, keep_finished=store.keep_finished and not forget_finished)

    @classmethod
    def from_ipc(cls, source: Any) -> ColumnarState:
        """
        Return the state that :meth:`to_ipc` has written.

        :param source: its bytes, which the columns lie in until they change; or a file, which is read a column at a time.
        :raises MetadataError: if it is something else, or of another version.
        """
        return cls(from_ipc(source))
