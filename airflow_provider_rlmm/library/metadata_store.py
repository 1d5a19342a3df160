# SPDX-License-Identifier: Apache-2.0
"""
The local view: what was consumed of each assigned user partition (Kafka: ``RemotePartitionMetadataStore``), and what can be
seen of consuming: when it last worked, how far it is, what failed, what could not be applied.

Any thread assigns, reads and waits; one thread, that of the consumer task, creates, feeds and drops the views.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import NotReadyError, PartitionNotAssignedError
from airflow_provider_rlmm.core.log.event_decoding import QuarantinedRecord, counted
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.located import LocatedForgetting, LocatedRecord
from airflow_provider_rlmm.core.records.records import TopicIdPartition, topic_id_partition_of

MAX_QUARANTINED_SHOWN = 1_000
"""Records in quarantine that are kept per metadata partition; all are counted."""


@dataclass(frozen=True, slots=True)
class MetadataPartitionLiveness:
    """One metadata partition that is followed."""

    consumed_offset: int  # everything below it was delivered to the user partitions that are up to date
    end_offset: int  # end of the metadata partition, as last heard from the brokers
    bootstrapping: int  # number of user partitions that still catch up with ``consumed_offset``
    quarantined: int  # number of records that cannot be applied

    @property
    def lag(self) -> int:
        """Offsets that are known to exist and were not consumed."""
        return max(0, self.end_offset - self.consumed_offset)


@dataclass(frozen=True, slots=True)
class Liveness:
    """What the consumer saw last."""

    running: bool = False  # whether the thread that consumes is alive
    last_poll_ms: int | None = None  # when a poll last succeeded, ms since the epoch; ``None`` where none has
    # the metadata partitions that are followed
    metadata_partitions: Mapping[int, MetadataPartitionLiveness] = field(default_factory=dict)
    last_error: str | None = None  # the last failure, in words; it stays after things work again
    last_error_ms: int | None = None  # when that was, ms since the epoch
    failures_in_a_row: int = 0  # steps that have failed since the last one that did not


@dataclass(slots=True)
class Quarantine:
    """The records of one metadata partition that cannot be applied."""

    records: list[QuarantinedRecord] = field(default_factory=list)  # the first of them
    total: int = 0  # number of all
    # number of good records, each of which proves our partitioner; some are counted again after a failure
    routed: int = 0
    misrouted: int = 0  # number of records that lie where our partitioner would not put them
    judged: int = 0  # records below this offset were counted

    def take(self, records: Sequence[QuarantinedRecord], routed: int, end: int) -> None:
        """Count what a batch up to ``end`` holds; after a failure it may begin with records that were counted before."""
        if end <= self.judged:
            return
        new = [record for record in records if record.offset >= self.judged]
        self.records += new[: max(0, MAX_QUARANTINED_SHOWN - len(self.records))]
        self.total += counted(new)
        self.routed += routed
        self.misrouted += sum(record.code == "MISROUTED" for record in new)
        self.judged = end


@dataclass(slots=True)
class UserPartitionView:
    """One user partition as far as it was consumed."""

    history: UserPartitionHistory  # its segments and the state of its deletion
    metadata_partition: int  # where its events lie
    next_offset: int  # everything below it was delivered, once; nothing at or above it was
    assignment: int  # number of the assignment that ``target_offset`` belongs to
    target_offset: int  # end of the metadata partition as of that assignment: there it is initialised
    # events below this offset were deleted from the log before they could be read; 0 where none were
    missing_before: int
    live: bool = False  # fed by the subscription; otherwise by its bootstrap
    # where its replay has to begin before lookups by leader epoch are answered; ``None`` where they are
    lookups_from: int | None = None
    last_record: int = -1  # offset of the last record that was delivered, -1 where none was

    @property
    def caught_up(self) -> bool:
        """Whether it was consumed up to the end offset taken at its assignment."""
        return self.next_offset >= self.target_offset

    def apply(self, located: LocatedRecord) -> None:
        """Apply a record that is about this user partition, or may be, unless it was delivered before."""
        if located.offset < self.next_offset:
            return
        located.apply_to(self.history)
        self.last_record = located.offset
        self.next_offset = located.offset + 1


@dataclass(frozen=True, slots=True)
class UserPartitionStatus:
    """How far the local view of a user partition is."""

    metadata_partition: int  # where its events lie
    initialized: bool  # whether it may be read
    next_offset: int  # everything below it was consumed
    target_offset: int  # where it is, or was, initialised
    missing_before: int  # its history is incomplete where this is above 0: events below it were deleted from the log


@dataclass(slots=True)
class RemotePartitionMetadataStore:
    """
    Assignments and views, guarded by one lock; a holder of ``changed`` may look at everything.

    :param changed: notified after each change of a view or an assignment.
    :param assignments: user partition → number of its assignment; what is not in it is not followed.
    :param views: what the consumer task has made of the assignments.
    :param names: topic id → every name under which the events that were delivered know it.
    :param to_be_read_anew: metadata partitions whose views do not hold any more.
    """

    changed: threading.Condition = field(default_factory=threading.Condition)
    assignments: dict[TopicIdPartition, int] = field(default_factory=dict)
    views: dict[TopicIdPartition, UserPartitionView] = field(default_factory=dict)
    names: dict[UUID, set[str]] = field(default_factory=dict)
    to_be_read_anew: set[int] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=count)

    def assign(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Follow user partitions; those that are followed already stay as they are."""
        with self.changed:
            for partition in partitions:
                if partition not in self.assignments:
                    self.assignments[partition] = next(self._numbers)
            self.changed.notify_all()

    def unassign(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Follow user partitions no longer, as far as they are followed; they cannot be read from now on."""
        with self.changed:
            for partition in partitions:
                self.assignments.pop(partition, None)
            self.changed.notify_all()

    def reassign(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Follow these user partitions and no others; those that are followed already stay as they are."""
        wanted = set(partitions)
        with self.changed:
            self.unassign([partition for partition in self.assignments if partition not in wanted])
            self.assign(wanted)

    def is_initialized(self, partition: TopicIdPartition) -> bool:
        """Tell whether a user partition may be read."""
        with self.changed:
            return self._ready_view(partition) is not None

    def status(self, partition: TopicIdPartition) -> UserPartitionStatus | None:
        """Return how far a user partition is, ``None`` where the consumer task has not begun with it."""
        with self.changed:
            view = self.views.get(partition)
            if view is None or partition not in self.assignments:
                return None
            ready = self._ready_view(partition) is not None
            return UserPartitionStatus(
                view.metadata_partition, ready, view.next_offset, view.target_offset, view.missing_before
            )

    @contextmanager
    def reading(self, partition: TopicIdPartition) -> Iterator[UserPartitionView]:
        """
        Hold an initialised view still.

        :raises PartitionNotAssignedError: if it is not followed.
        :raises NotReadyError: if it is not initialised.
        """
        with self.changed:
            view = self._ready_view(partition)
            if view is None:
                raise self._not_ready(partition)
            yield view

    def await_consumed(self, offsets: Mapping[TopicIdPartition, int], timeout_s: float) -> bool:
        """
        Wait, once for all, until user partitions were consumed up to offsets.

        :param offsets: user partition → offset in its metadata partition, exclusive.
        :param timeout_s: seconds.
        :return: whether they were.
        :raises PartitionNotAssignedError: if one of them is not followed, or no longer.
        """
        waiting = dict(offsets)

        def consumed() -> bool:
            for partition, offset in list(waiting.items()):
                if partition not in self.assignments:
                    raise self._not_ready(partition)
                view = self.views.get(partition)
                if view is None or view.next_offset < offset:
                    return False
                del waiting[partition]
            return True

        with self.changed:
            return self.changed.wait_for(consumed, timeout_s)

    def await_initialized(self, partitions: Collection[TopicIdPartition], timeout_s: float) -> bool:
        """Wait until user partitions may be read; return whether they all may be."""
        with self.changed:
            return self.changed.wait_for(lambda: all(self._ready_view(p) is not None for p in partitions), timeout_s)

    def deliver(self, records: Sequence[LocatedRecord], to: Mapping[TopicIdPartition, UserPartitionView]) -> None:
        """Deliver records of a metadata partition, by offset, to the views that they are about; others are ignored."""
        with self.changed:
            by_topic_id: defaultdict[tuple[UUID, int], list[UserPartitionView]] = defaultdict(list)
            # Few batches have such records: no other one pays for them.
            if any(isinstance(located, LocatedForgetting) for located in records):
                for partition, view in to.items():
                    by_topic_id[partition.topic_id, partition.partition].append(view)
            for located in records:
                if isinstance(located, LocatedForgetting):
                    for view in by_topic_id.get((located.key.topic_id, located.key.partition), ()):
                        view.apply(located)
                    continue
                partition = topic_id_partition_of(located.event)
                self.names.setdefault(partition.topic_id, set()).add(partition.topic)
                if (mine := to.get(partition)) is not None:
                    mine.apply(located)

    def _ready_view(self, partition: TopicIdPartition) -> UserPartitionView | None:
        view = self.views.get(partition)
        if view is None or view.assignment != self.assignments.get(partition) or not view.caught_up:
            return None
        return view

    def _not_ready(self, partition: TopicIdPartition) -> PartitionNotAssignedError | NotReadyError:
        if partition not in self.assignments:
            return PartitionNotAssignedError(
                f"{partition} is not followed: assign it with on_partition_leadership_changes first"
            )
        view = self.views.get(partition)
        if view is None or view.assignment != self.assignments[partition]:
            return NotReadyError(f"{partition} was assigned and is not read yet: try again soon")
        return NotReadyError(
            f"{partition} is read up to offset {view.next_offset} of metadata partition {view.metadata_partition} and "
            f"may be used from offset {view.target_offset} on: try again soon"
        )
