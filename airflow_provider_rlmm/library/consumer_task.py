# SPDX-License-Identifier: Apache-2.0
"""
Consuming ``__remote_log_metadata`` step by step, without a thread of its own (Kafka: ``ConsumerTask``).

One position per metadata partition, that of the subscription, feeds all its *live* user partitions. A user partition that
is assigned while its metadata partition is followed already is bootstrapped beside it: a bounded read from the beginning
up to the subscription's position feeds the new ones only, and is repeated from there while the subscription moves on.
Between two polls the read's end and the position are the same offset; at that moment the new ones become live.

So no other view is disturbed (the subscription is never rewound, unlike Kafka's consumer), and each event of a user partition
is delivered once: by the read if its offset is below that moment's position, by the subscription if it is not. Each view
also skips what lies below its own next offset, which makes it harmless to read anything again after a failure.

Another assignment for the same metadata partition waits for its own read until the one under way has ended; it is neither
lost nor does it start the other one again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_rlmm.core.base.clock import Clock
from airflow_provider_rlmm.core.base.errors import OffsetOutOfRangeError, RlmmError
from airflow_provider_rlmm.core.log.event_decoding import QuarantinedRecord, decode_batch
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.library.metadata_store import (
    Liveness,
    MetadataPartitionLiveness,
    Quarantine,
    RemotePartitionMetadataStore,
    UserPartitionView,
)
from airflow_provider_rlmm.library.resumption import Resumption

if TYPE_CHECKING:
    import pyarrow as pa

_logger = logging.getLogger(__name__)

T = TypeVar("T")

# Readers wait while events are applied, so the lock is let go now and then.
_RECORDS_PER_LOCK = 1_000


@dataclass(slots=True)
class _Bootstrap:
    """New user partitions of one metadata partition on their way to its subscription."""

    views: dict[TopicIdPartition, UserPartitionView]
    start: int  # where it began
    next_offset: int  # they have everything below it
    end: int = 0  # where the read under way ends, exclusive
    reading: Iterator[pa.RecordBatch] | None = None


@dataclass(slots=True)
class _Followed:
    """A metadata partition that is followed."""

    consumed: int  # everything below it was delivered to the live views
    bootstrap: _Bootstrap | None = None
    # the user partitions of the next one
    waiting: dict[TopicIdPartition, UserPartitionView] = field(default_factory=dict)
    known_end: int = 0  # its largest end offset that was asked for
    quarantine: Quarantine = field(default_factory=Quarantine)  # its records that cannot be applied


class ConsumerTask:
    """
    Feeds a store's views from a log, one :meth:`step` at a time; all methods that change anything belong to one thread.

    :param log: the metadata event log.
    :param store: assignments and views.
    :param clock: tells when polls and failures happened.
    :param resumption: what was read before; without it everything is read from its beginning.
    """

    def __init__(
        self,
        log: MetadataLogReader,
        store: RemotePartitionMetadataStore,
        *,
        clock: Clock,
        resumption: Resumption | None = None,
    ) -> None:
        self._log = log
        self._store = store
        self._clock = clock
        self._resumption = resumption
        self._stream, self._handle = log.subscribe({})
        self._followed: dict[int, _Followed] = {}
        self._failures: list[str] = []
        self._last_poll_ms: int | None = None
        self._liveness = Liveness()

    def step(self, timeout_s: float) -> bool:
        """
        Take over changed assignments, deliver what a poll returns, and bring each bootstrap forward by one batch.

        The parts are independent: one that fails is tried again by the next step and does not keep the others from it.

        :param timeout_s: seconds that the poll may wait; it does not where there is other work.
        :return: whether anything was done.
        """
        self._failures = []
        changed = self._attempt(self._assign)
        busy = changed or any(followed.bootstrap or followed.waiting for followed in self._followed.values())
        polled = self._attempt(partial(self._poll, 0.0 if busy else timeout_s))
        if polled is not None:
            self._last_poll_ms = self._clock()
        moved = [self._attempt(partial(self._bootstrap, number)) for number in list(self._followed)]
        ends = self._attempt(self._handle.end_offsets) or {}
        with self._store.changed:
            self._liveness = self._observe(ends)
            self._store.changed.notify_all()
        return bool(changed or polled or any(moved))

    def _attempt(self, part: Callable[[], T]) -> T | None:
        """Run one part; a failure of any kind is kept to be seen and ``None`` is returned."""
        try:
            return part()
        except Exception as error:
            if not self._liveness.failures_in_a_row:
                # A failure that this package has no word for is a defect: its origin is worth knowing.
                trace = None if isinstance(error, RlmmError) else error
                _logger.warning("Consuming the metadata topic failed, and is tried again: %s", error, exc_info=trace)
            self._failures.append(f"{type(error).__name__}: {error}")
            return None

    def liveness(self) -> Liveness:
        """Return what the last step saw; any thread may ask."""
        with self._store.changed:
            return self._liveness

    def close(self) -> None:
        """Stop following."""
        self._stream.close()

    # --- assignments ---------------------------------------------------------------------------------------------------

    def _assign(self) -> bool:
        with self._store.changed:
            wanted = dict(self._store.assignments)
            anew, self._store.to_be_read_anew = self._store.to_be_read_anew, set()
        for number in anew:
            self._start_over(number)
        dropped = self._drop_unassigned(wanted)
        views = self._store.views
        new = [p for p, number in wanted.items() if p not in views or views[p].assignment != number]
        if new:
            self._take_over(new, wanted)
        return dropped or bool(new)

    def _drop_unassigned(self, wanted: dict[TopicIdPartition, int]) -> bool:
        gone = [partition for partition in self._store.views if partition not in wanted]
        self._drop_views(gone)
        needed = {view.metadata_partition for view in self._store.views.values()}
        for number in self._followed.keys() - needed:
            self._unfollow(number)
        return bool(gone)

    def _drop_views(self, partitions: Iterable[TopicIdPartition]) -> None:
        with self._store.changed:
            for partition in partitions:
                followed = self._followed.get(self._store.views.pop(partition).metadata_partition)
                if followed is not None:
                    followed.waiting.pop(partition, None)
                    if followed.bootstrap is not None:
                        followed.bootstrap.views.pop(partition, None)

    def _unfollow(self, number: int) -> None:
        self._handle.remove(number)
        with self._store.changed:
            followed = self._followed.pop(number)
        self._end_reading(followed.bootstrap)

    def _take_over(self, new: list[TopicIdPartition], wanted: dict[TopicIdPartition, int]) -> None:
        beginnings, ends = self._log.beginning_offsets(), self._log.high_water_marks()
        for partition in new:
            number = metadata_partition_for(partition, self._log.partition_count)
            begin, end = beginnings[number], ends[number]
            fresh = self._fresh_view(partition, wanted[partition], number, begin, end)
            if number not in self._followed:
                self._handle.add(number, fresh.next_offset)
            with self._store.changed:
                followed = self._followed.setdefault(number, self._begin_at(number, fresh))
                followed.known_end = max(followed.known_end, end)
                view = self._store.views.get(partition)
                if view is not None:
                    # Removed and added again between two steps: nothing was missed, only the target is a new one.
                    view.assignment, view.target_offset = wanted[partition], end
                    continue
                fresh.live = followed.consumed <= fresh.next_offset
                self._store.views[partition] = fresh
                if not fresh.live:
                    followed.waiting[partition] = fresh

    def _fresh_view(
        self, partition: TopicIdPartition, assignment: int, number: int, begin: int, end: int
    ) -> UserPartitionView:
        """Return the view of a user partition before anything is delivered to it, from a snapshot where one fits."""
        at = self._resumption.next_offset(number, begin, end) if self._resumption else None
        resumed = self._resumption.history_of(partition, number, begin) if self._resumption and at is not None else None
        if self._resumption is None or at is None or resumed is None:
            return UserPartitionView(
                UserPartitionHistory(partition), number, begin, assignment, end, missing_before=begin
            )
        missing_before, lookups_from = self._resumption.missing_before(number), resumed.first_offset
        return UserPartitionView(
            resumed.history, number, at, assignment, end, missing_before=missing_before, lookups_from=lookups_from
        )

    def _begin_at(self, number: int, view: UserPartitionView) -> _Followed:
        resumed = self._resumption if view.lookups_from is not None else None
        return _Followed(view.next_offset, quarantine=resumed.quarantine(number) if resumed else Quarantine())

    # --- the subscription ----------------------------------------------------------------------------------------------

    def _poll(self, timeout_s: float) -> bool:
        try:
            batches = self._stream.poll(timeout_s)
        except OffsetOutOfRangeError as error:
            self._start_over(error.metadata_partition)
            raise
        try:
            for batch in batches:
                number = batch.column("metadata_partition")[0].as_py()
                self._deliver(number, batch, self._live_views(number))
        except BaseException:
            self._rewind()
            raise
        moved = False
        for number, position in self._handle.assigned().items():
            followed = self._followed[number]
            if position > followed.consumed:
                moved = True
                followed.consumed = position
                self._advance(self._live_views(number), position)
        return moved

    def _live_views(self, number: int) -> dict[TopicIdPartition, UserPartitionView]:
        return {p: v for p, v in self._store.views.items() if v.live and v.metadata_partition == number}

    def _rewind(self) -> None:
        """Read again what was polled and not delivered; the views skip what they have."""
        for number, position in self._handle.assigned().items():
            if position != self._followed[number].consumed:
                self._handle.remove(number)
                self._handle.add(number, self._followed[number].consumed)

    def _start_over(self, number: int) -> None:
        """Forget a metadata partition whose records went missing: the next step reads what is left from its beginning."""
        if self._resumption is not None:
            self._resumption.forget(number)
        self._drop_views([p for p, v in self._store.views.items() if v.metadata_partition == number])
        if number in self._followed:
            self._unfollow(number)

    # --- bootstraps ----------------------------------------------------------------------------------------------------

    def _bootstrap(self, number: int) -> bool:
        followed = self._followed.get(number)
        if followed is None:
            return False
        if followed.bootstrap is None and followed.waiting:
            start = min(view.next_offset for view in followed.waiting.values())
            followed.bootstrap, followed.waiting = _Bootstrap(followed.waiting, start, start), {}
        if followed.bootstrap is None:
            return False
        if not followed.bootstrap.views:
            self._end_reading(followed.bootstrap)
            followed.bootstrap = None
            return True
        try:
            self._bring_forward(number, followed, followed.bootstrap)
        except OffsetOutOfRangeError as error:
            if error.offset == followed.bootstrap.end:
                # The subscription's position lies above the high watermark: the log has lost its end.
                self._start_over(number)
            else:
                # The beginning moved since it was asked for: the next step reads what is left.
                self._end_reading(followed.bootstrap)
            raise
        except BaseException:
            self._end_reading(followed.bootstrap)
            raise
        return True

    def _bring_forward(self, number: int, followed: _Followed, bootstrap: _Bootstrap) -> None:
        if bootstrap.reading is None and bootstrap.next_offset < followed.consumed:
            bootstrap.end = followed.consumed
            begin = min(self._log.beginning_offsets()[number], bootstrap.end)
            bootstrap.next_offset = max(bootstrap.next_offset, begin)
            bootstrap.reading = self._log.read(number, bootstrap.next_offset, bootstrap.end)
        if bootstrap.reading is not None:
            batch = next(bootstrap.reading, None)
            if batch is not None:
                self._deliver(number, batch, bootstrap.views)
                bootstrap.next_offset = batch.column("offset")[-1].as_py() + 1
            else:
                bootstrap.next_offset, bootstrap.reading = bootstrap.end, None
            self._advance(bootstrap.views, bootstrap.next_offset)
        if bootstrap.next_offset >= followed.consumed:
            self._check_nothing_was_deleted(number, bootstrap)
            with self._store.changed:
                for view in bootstrap.views.values():
                    view.live = True
            self._end_reading(bootstrap)
            followed.bootstrap = None

    def _check_nothing_was_deleted(self, number: int, bootstrap: _Bootstrap) -> None:
        """Notice that the beginning moved beyond where the bootstrap began."""
        begin = self._log.beginning_offsets()[number]
        if begin > bootstrap.start:
            with self._store.changed:
                for view in bootstrap.views.values():
                    view.missing_before = max(view.missing_before, begin)

    def _end_reading(self, bootstrap: _Bootstrap | None) -> None:
        close = getattr(bootstrap.reading, "close", None) if bootstrap is not None else None
        if bootstrap is not None and close is not None:
            close()
            bootstrap.reading = None

    # --- both ----------------------------------------------------------------------------------------------------------

    def _deliver(self, number: int, batch: pa.RecordBatch, views: dict[TopicIdPartition, UserPartitionView]) -> None:
        topic_ids = frozenset(partition.topic_id for partition in views)
        decoded = decode_batch(batch, number, self._log.partition_count, topic_ids)
        for start in range(0, len(decoded.records), _RECORDS_PER_LOCK):
            self._store.deliver(decoded.records[start : start + _RECORDS_PER_LOCK], views)
        end = batch.column("offset")[-1].as_py() + 1
        with self._store.changed:
            quarantine = self._followed[number].quarantine
            quarantine.take(decoded.quarantined, decoded.routed, end)

    def _advance(self, views: dict[TopicIdPartition, UserPartitionView], position: int) -> None:
        with self._store.changed:
            for view in views.values():
                view.next_offset = max(view.next_offset, position)

    # --- what can be seen ----------------------------------------------------------------------------------------------

    def _observe(self, ends: Mapping[int, int]) -> Liveness:
        partitions = {
            number: MetadataPartitionLiveness(
                followed.consumed,
                max(ends.get(number, 0), followed.known_end),
                len(followed.waiting) + (len(followed.bootstrap.views) if followed.bootstrap else 0),
                followed.quarantine.total,
            )
            for number, followed in self._followed.items()
        }
        seen = replace(self._liveness, last_poll_ms=self._last_poll_ms, metadata_partitions=partitions)
        if not self._failures:
            return replace(seen, failures_in_a_row=0)
        return replace(
            seen,
            last_error="; ".join(self._failures),
            last_error_ms=self._clock(),
            failures_in_a_row=seen.failures_in_a_row + 1,
        )

    def quarantined(self) -> list[QuarantinedRecord]:
        """Return the records that cannot be applied, the first of each metadata partition that is followed."""
        with self._store.changed:
            return [record for followed in self._followed.values() for record in followed.quarantine.records]

    def routing_verified(self) -> bool:
        """Tell whether records were observed and every one of them lies where our partitioner puts it."""
        with self._store.changed:
            found = [followed.quarantine for followed in self._followed.values()]
        return any(q.routed for q in found) and not any(q.misrouted for q in found)
