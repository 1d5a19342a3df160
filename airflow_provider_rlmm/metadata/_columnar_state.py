# SPDX-License-Identifier: Apache-2.0
"""The state of many user partitions after a replay of decoded events, with the tables that jobs and reports read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from airflow_provider_rlmm.errors import InvalidStateTransitionError, MetadataError
from airflow_provider_rlmm.metadata._columnar_decode import ErrorCode, iter_events
from airflow_provider_rlmm.metadata._columnar_tables import SCHEMAS, Contents, contents_of
from airflow_provider_rlmm.metadata.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.metadata.records import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.metadata.states import RemotePartitionDeleteState

_APPLIED_CODES = (ErrorCode.GOOD, ErrorCode.KEYED)
_HARMLESS_CODES = (*_APPLIED_CODES, ErrorCode.MISROUTED)
_AFTER_FINISHED = "an event after DELETE_PARTITION_FINISHED, on every broker that still serves the partition"

_IPC_FORMAT = {b"format": b"airflow-provider-rlmm columnar state", b"version": b"1"}


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """
    What :meth:`ColumnarState.apply` did; each table holds the batch's columns of the rows in question and a ``reason``.

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

    Built by :meth:`empty`, :meth:`apply`, :meth:`merge` and :meth:`from_ipc`.
    """

    def __init__(self, contents: Contents) -> None:
        self._contents = contents

    @classmethod
    def empty(cls) -> ColumnarState:
        """Return the state before the first event."""
        return cls(Contents())

    def apply(self, batch: Any) -> tuple[ColumnarState, ApplyReport]:
        """
        Return the state after the events of a batch, and what became of them.

        :param batch: what ``decode`` returned: events in the order of their offsets; those of one metadata partition must
            come from one batch after the other.
        """
        replay = _Replay(self._contents)
        codes = batch.column("error_code").to_pylist()
        errors = batch.column("error").to_pylist()
        carried = "metadata_partition" in batch.schema.names
        partitions = batch.column("metadata_partition").to_pylist() if carried else [None] * batch.num_rows
        for row, event in enumerate(iter_events(batch)):
            replay.row(row, event, codes[row], errors[row], partitions[row])
        return ColumnarState(replay.contents), ApplyReport(
            replay.applied,
            _rows(batch, replay.quarantined),
            _rows(batch, replay.dropped),
            _rows(batch, replay.would_end_consumer),
        )

    def merge(self, other: ColumnarState) -> ColumnarState:
        """
        Return the state of both, which must have seen disjoint metadata partitions.

        :param other: another state.
        :raises MetadataError: if a user partition is in both.
        """
        mine, others = self._contents, other._contents
        common = mine.metadata_partitions.keys() & others.metadata_partitions.keys()
        if common:
            raise MetadataError(
                f"{min(map(str, common))} is in both states: merge those of disjoint metadata partitions"
            )
        return ColumnarState(
            Contents(
                {**mine.caches, **others.caches},
                {**mine.deletes, **others.deletes},
                {**mine.metadata_partitions, **others.metadata_partitions},
                mine.finished | others.finished,
            )
        )

    @property
    def segments(self) -> Any:
        """One row per segment that is not ``DELETE_SEGMENT_FINISHED``."""
        return self._contents.table("segments")

    @property
    def epoch_offsets(self) -> Any:
        """
        One row per leader epoch and segment.

        ``referenced`` ones serve reads from ``start_offset`` on; the others are being copied or deleted, or superseded.
        """
        return self._contents.table("epoch_offsets")

    @property
    def epoch_highest(self) -> Any:
        """The largest offset that was ever copied, per leader epoch; it outlives its segments."""
        return self._contents.table("epoch_highest")

    @property
    def partition_deletes(self) -> Any:
        """
        The last deletion event of each user partition; ``DELETE_PARTITION_FINISHED`` stays, unlike in Kafka.

        ``was_finished`` outlives a marker that opens the partition again.
        """
        return self._contents.table("partition_deletes")

    def to_ipc(self) -> bytes:
        """Return the state as bytes, for :meth:`from_ipc`."""
        row = {name: [_table_to_ipc(self._contents.table(name))] for name in SCHEMAS}
        schema = pa.schema([pa.field(name, pa.large_binary()) for name in SCHEMAS], metadata=_IPC_FORMAT)
        return _table_to_ipc(pa.table(row, schema=schema))

    @classmethod
    def from_ipc(cls, data: bytes) -> ColumnarState:
        """
        Return the state that :meth:`to_ipc` has written.

        :param data: the bytes.
        :raises MetadataError: if they are something else, or of another version.
        """
        try:
            outer = pa.ipc.open_stream(data).read_all()
            if outer.schema.metadata != _IPC_FORMAT:
                raise MetadataError(f"not a columnar state of version 1: {outer.schema.metadata}")
            tables = {
                name: pa.ipc.open_stream(outer.column(name)[0].as_py()).read_all().cast(schema)
                for name, schema in SCHEMAS.items()
            }
            return cls(contents_of(tables))
        except (pa.ArrowException, ValueError, KeyError, IndexError, TypeError, OSError) as e:
            raise MetadataError(f"not a columnar state: {e}") from e


class _Replay:
    """
    Applies events one by one.

    :param contents: what to begin with; it is not changed.
    """

    def __init__(self, contents: Contents) -> None:
        self.contents = Contents(
            dict(contents.caches), dict(contents.deletes), dict(contents.metadata_partitions), set(contents.finished)
        )
        self.applied = 0
        self.quarantined: list[tuple[int, str]] = []
        self.dropped: list[tuple[int, str]] = []
        self.would_end_consumer: list[tuple[int, str]] = []
        # Caches are shared with the state before until they are changed.
        self._own: set[TopicIdPartition] = set()

    def row(self, row: int, event: Any, code: int, error: str | None, metadata_partition: int | None) -> None:
        """Apply one row of a batch, or note why not."""
        if code != ErrorCode.GOOD:
            self.quarantined.append((row, f"{ErrorCode(code).name}: {error}"))
        if code not in _HARMLESS_CODES:
            self.would_end_consumer.append((row, f"{ErrorCode(code).name}: {error}"))
        if code in _APPLIED_CODES:
            self._event(row, event, metadata_partition)

    def _event(self, row: int, event: Any, metadata_partition: int | None) -> None:
        contents = self.contents
        if isinstance(event, RemotePartitionDeleteMetadata):
            topic_id_partition = event.topic_id_partition
            contents.deletes[topic_id_partition] = event
            if event.state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
                contents.finished.add(topic_id_partition)
                contents.caches.pop(topic_id_partition, None)
                self._own.discard(topic_id_partition)
            self.applied += 1
        else:
            topic_id_partition = event.remote_log_segment_id.topic_id_partition
            if topic_id_partition in contents.finished:
                self.would_end_consumer.append((row, _AFTER_FINISHED))
            self._segment_event(row, event, topic_id_partition)
        contents.metadata_partitions[topic_id_partition] = metadata_partition

    def _segment_event(
        self,
        row: int,
        event: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate,
        topic_id_partition: TopicIdPartition,
    ) -> None:
        cache = self._cache(topic_id_partition)
        try:
            if isinstance(event, RemoteLogSegmentMetadata):
                outcome = cache.add_copy_in_progress_segment(event)
            else:
                outcome = cache.update_remote_log_segment_metadata(event)
        except InvalidStateTransitionError as e:
            if topic_id_partition not in self.contents.finished:
                self.would_end_consumer.append((row, str(e)))
            return
        if outcome.applied:
            self.applied += 1
        else:
            self.dropped.append((row, outcome.value))

    def _cache(self, topic_id_partition: TopicIdPartition) -> RemoteLogMetadataCache:
        caches = self.contents.caches
        if topic_id_partition not in self._own:
            existing = caches.get(topic_id_partition)
            caches[topic_id_partition] = existing.copy() if existing else RemoteLogMetadataCache()
            self._own.add(topic_id_partition)
        return caches[topic_id_partition]


def _rows(batch: Any, found: list[tuple[int, str]]) -> Any:
    rows = pa.array([row for row, _ in found], pa.int64())
    reasons = pa.array([reason for _, reason in found], pa.string())
    return pa.Table.from_batches([batch.take(rows)]).append_column("reason", reasons)


def _table_to_ipc(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data
