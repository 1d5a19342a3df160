# SPDX-License-Identifier: Apache-2.0
"""Publishing on the strength of the local view: caught up before, guarded, read back where in doubt, awaited after."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import (
    EventLogError,
    NotReadyError,
    PartitionNotAssignedError,
    QuarantinedRecordsError,
    ReadAfterWriteError,
)
from airflow_provider_rlmm.core.log.protocol import Acked, MetadataLogReader, ProvenLook, PublishOutcome, Unknown
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher, OfferedEvent
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from airflow_provider_rlmm.library.consumer_task import ConsumerTask
from airflow_provider_rlmm.library.metadata_store import RemotePartitionMetadataStore
from airflow_provider_rlmm.library.resumption import LookupReplay

_BACKOFF_S = 0.5

_logger = logging.getLogger(__name__)

LookAt = Callable[[UUID], ProvenLook | None]
"""Looks at the cluster for a topic id (``core.world.absence`` says what it takes to be absent)."""


def no_look(topic_id: UUID) -> None:
    """Look at nothing, so that every topic counts as living and nothing may be written about it."""


@dataclass(slots=True)
class _GuardedView:
    """A :class:`~airflow_provider_rlmm.core.log.write_guard.ReplayedState` for one batch of events."""

    store: RemotePartitionMetadataStore
    task: ConsumerTask  # knows whether the partitioner is verified
    ask: LookAt  # asked once per topic id
    in_doubt: Collection[TopicIdPartition]  # user partitions about which an event may still land
    looks: dict[UUID, ProvenLook | None] = field(default_factory=dict)

    def segment(self, segment_id: RemoteLogSegmentId) -> RemoteLogSegmentMetadata | None:
        """See :class:`~airflow_provider_rlmm.core.log.write_guard.ReplayedState`."""
        with self.store.reading(segment_id.topic_id_partition) as view:
            return view.history.cache.segment(segment_id)

    def partition_delete_state(self, topic_id_partition: TopicIdPartition) -> RemotePartitionDeleteState | None:
        """See :class:`~airflow_provider_rlmm.core.log.write_guard.ReplayedState`."""
        with self.store.reading(topic_id_partition) as view:
            return view.history.delete_state if view.history.deletion_under_way() else None

    def obstacle_to_finish(self, topic_id_partition: TopicIdPartition) -> str | None:
        """See :class:`~airflow_provider_rlmm.core.log.write_guard.ReplayedState`."""
        if topic_id_partition in self.in_doubt:
            return "an event about it was published with an unknown outcome and may still land"
        with self.store.reading(topic_id_partition) as view:
            return view.history.obstacle_to_finish()

    def look_at(self, topic_id: UUID) -> ProvenLook | None:
        """See :class:`~airflow_provider_rlmm.core.log.write_guard.ReplayedState`."""
        if topic_id not in self.looks:
            self.looks[topic_id] = self.ask(topic_id)
        return self.looks[topic_id]

    def routing_verified(self) -> bool:
        """See :class:`~airflow_provider_rlmm.core.log.write_guard.ReplayedState`."""
        return self.task.routing_verified()


def _find_records(
    log: MetadataLogReader, records: Collection[tuple[int, bytes]], starts: Mapping[int, int]
) -> dict[tuple[int, bytes], list[int]]:
    """
    Look for records, by metadata partition and value, from the first offsets on at which they can be; return where they lie.

    What is found lies below the high watermark and is durable. What is not may still land: a broker can hold it, or a
    connection.
    """
    ends = log.high_water_marks()
    found: dict[tuple[int, bytes], list[int]] = {}
    for number in {number for number, _ in records}:
        wanted = {value for at, value in records if at == number}
        for batch in log.read(number, starts[number], ends[number]):
            rows = zip(batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True)
            for offset, value in rows:
                if value in wanted:
                    found.setdefault((number, value), []).append(offset)
    return found


@dataclass(slots=True)
class _Doubt:
    """A record that was sent and not found."""

    start: int  # first offset at which it can be
    copies: int = 0  # how often it was sent without being found
    accounted: set[int] = field(default_factory=set)  # where copies lie that are known to have been sent besides


@dataclass(slots=True)
class Publication:
    """The publishing half of the manager."""

    log: MetadataLogReader
    publisher: GuardedPublisher  # the write guard around the same log
    store: RemotePartitionMetadataStore
    lookups: LookupReplay  # replays what was resumed, where a snapshot does not say enough
    look_at: LookAt  # looks at the cluster for a topic that is to be written about
    consume_wait_s: float  # to wait for the local view, before and after a batch, and to look for lost records
    closed: threading.Event  # set when no call waits any more
    _publishing: threading.Lock = field(default_factory=threading.Lock)
    _in_doubt: dict[TopicIdPartition, dict[tuple[int, bytes], _Doubt]] = field(default_factory=dict)

    def publish(self, events: Sequence[OfferedEvent], task: ConsumerTask | None, *, wait: bool) -> list[PublishOutcome]:
        """
        Publish a batch; see :meth:`~airflow_provider_rlmm.library.topic_based.TopicBasedRemoteLogMetadataManager.publish`.

        :param task: what consumes; ``None`` where nothing was ever assigned.
        """
        if not events:
            return []
        self.publisher.require_writes(f"write {number_of(len(events), 'event')}")
        if task is None:
            raise PartitionNotAssignedError("nothing was written: no user partition was ever assigned")
        partitions = {topic_id_partition_of(event): self._metadata_partition(event) for event in events}
        with self._publishing:
            starts = self._catch_up(partitions)
            self._require_whole_history(task, partitions)
            self._look_again(partitions)
            view = _GuardedView(self.store, task, self.look_at, self._in_doubt)
            outcomes = self._resolve(events, self.publisher.publish(events, view), starts)
        if wait:
            self.await_readable(events, outcomes)
        return outcomes

    def _metadata_partition(self, event: OfferedEvent) -> int:
        return metadata_partition_for(topic_id_partition_of(event), self.log.partition_count)

    def _catch_up(self, partitions: dict[TopicIdPartition, int]) -> dict[int, int]:
        """Bring the local view to the high watermark, which is also where the batch cannot be before."""
        ends = dict(self.log.high_water_marks())
        needed = {partition: ends[number] for partition, number in partitions.items()}
        if not self.store.await_consumed(needed, self.consume_wait_s):
            raise NotReadyError(
                f"nothing was written: the local view did not reach the end of the metadata topic within "
                f"{self.consume_wait_s:g} s; see liveness()"
            )
        for partition in partitions:
            with self.store.reading(partition):
                pass
        return ends

    def _require_whole_history(self, task: ConsumerTask, partitions: dict[TopicIdPartition, int]) -> None:
        numbers = set(partitions.values())
        for record in task.quarantined():
            if record.metadata_partition in numbers:
                raise QuarantinedRecordsError(f"nothing was written: {record}; look at the record first")
        for partition in partitions:
            self.lookups.settle(partition)
            with self.store.reading(partition) as view:
                if view.missing_before:
                    raise QuarantinedRecordsError(
                        f"nothing was written about {partition}: its history is incomplete, metadata partition "
                        f"{view.metadata_partition} lacks the records before offset {view.missing_before}"
                    )

    def _resolve(
        self, events: Sequence[OfferedEvent], outcomes: list[PublishOutcome], starts: dict[int, int]
    ) -> list[PublishOutcome]:
        """Read back what is unknown, and keep the books of what is in doubt."""
        unknown = [i for i, outcome in enumerate(outcomes) if isinstance(outcome, Unknown)]
        records = {i: self._record(events[i]) for i in unknown}
        found = self._find({record: starts[record[0]] for record in records.values()}) if unknown else {}
        resolved = list(outcomes)
        for i, record in records.items():
            resolved[i] = Acked(found[record][0]) if record in found else self._not_found(outcomes[i], record, starts)
        for event, outcome in zip(events, resolved, strict=True):
            partition = topic_id_partition_of(event)
            if isinstance(outcome, Acked) and partition in self._in_doubt:
                # The same record sent again: finding this copy says nothing about the one before.
                doubt = self._in_doubt[partition].get(self._record(event))
                if doubt is not None:
                    doubt.accounted.add(outcome.offset)
            elif isinstance(outcome, Unknown):
                record = self._record(event)
                doubts = self._in_doubt.setdefault(partition, {})
                doubts.setdefault(record, _Doubt(starts[record[0]])).copies += 1
        return resolved

    def _record(self, event: OfferedEvent) -> tuple[int, bytes]:
        return self._metadata_partition(event), serialize(event)

    def _not_found(self, outcome: PublishOutcome, record: tuple[int, bytes], starts: dict[int, int]) -> Unknown:
        reason = outcome.reason if isinstance(outcome, Unknown) else ""
        return Unknown(
            f"{reason}; it is not in metadata partition {record[0]} from offset {starts[record[0]]} on and may still land: "
            "build nothing on it; publishing it again is safe, the state machine allows repeats"
        )

    def _look_again(self, partitions: Collection[TopicIdPartition]) -> None:
        """See whether events of earlier batches have landed since."""
        for partition in self._in_doubt.keys() & set(partitions):
            doubts = self._in_doubt[partition]
            for record, offsets in self._find({record: doubt.start for record, doubt in doubts.items()}).items():
                if len(set(offsets) - doubts[record].accounted) >= doubts[record].copies:
                    del doubts[record]
            if not doubts:
                del self._in_doubt[partition]

    def _find(self, records: dict[tuple[int, bytes], int]) -> dict[tuple[int, bytes], list[int]]:
        """Look for records, and try again while the brokers are away: mostly they were when the outcome became unknown."""
        starts = {number: min(s for (at, _), s in records.items() if at == number) for number, _ in records}
        deadline = time.monotonic() + self.consume_wait_s
        while True:
            try:
                return _find_records(self.log, records, starts)
            except EventLogError as error:
                # An exception would take the outcomes of the batch away from the caller.
                if not error.retriable or time.monotonic() > deadline or self.closed.is_set():
                    _logger.warning("Events of unknown outcome could not be looked for: %s", error)
                    return {}
            self.closed.wait(_BACKOFF_S)

    def await_readable(self, events: Sequence[OfferedEvent], outcomes: Sequence[PublishOutcome]) -> None:
        """Wait until everything that is acked was consumed; there is one outcome per event."""
        needed: dict[TopicIdPartition, int] = {}
        for event, outcome in zip(events, outcomes, strict=True):
            if isinstance(outcome, Acked):
                partition = topic_id_partition_of(event)
                needed[partition] = max(needed.get(partition, 0), outcome.offset + 1)
        written = (
            f"{number_of(len(events), 'event was', 'events were')} published: those that are acked are written, do "
            "not publish them again"
        )
        try:
            consumed = self.store.await_consumed(needed, self.consume_wait_s)
        except PartitionNotAssignedError as error:
            raise ReadAfterWriteError(f"{written}; they cannot be read here: {error}", outcomes) from error
        if not consumed:
            raise ReadAfterWriteError(
                f"{written}; they did not come back within {self.consume_wait_s:g} s, see liveness()", outcomes
            )
