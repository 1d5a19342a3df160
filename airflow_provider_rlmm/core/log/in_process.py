# SPDX-License-Identifier: Apache-2.0
"""
Public fakes: the metadata event log, in plain Python lists, and the store of committed offsets.

Every effect passes two hooks, ``on_effect(name, detail)`` before it and ``after_effect(name, detail)`` after it. Both
may raise what the test wants; an exception leaves the fake as it was at that moment, so a batch can be cut in the
middle. What they return steers the effect, ``None`` lets it happen:

- ``publish``, :class:`PublishEffect`, once per record: ``Failed`` or ``Unknown`` from ``on_effect`` becomes the outcome
  of a record that is not written; ``Unknown`` from ``after_effect`` becomes the outcome of a record that is.
- ``read``, :class:`ReadEffect`, once per call, when the first batch is asked for and after the last: an offset from
  ``on_effect`` ends the read there, with an ``EventLogUnavailableError``.
- ``poll``, the positions by metadata partition, once per call: an offset from ``on_effect`` ends the poll there, in every
  partition; raise from it to make the poll fail.
- ``beginning_offsets``, ``high_water_marks``, and of :mod:`~airflow_provider_rlmm.core.log.in_process_topics`
  ``cluster_id``, ``list_topics``, all with ``None``, and ``describe_topics`` with the names: a return value means nothing.

Both hooks are plain attributes: set them once the test's history is in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.base.arrow_arrays import array_of
from airflow_provider_rlmm.core.base.clock import Clock, system_clock
from airflow_provider_rlmm.core.base.errors import (
    EventLogUnavailableError,
    MetadataPartitionOutOfRangeError,
    OffsetOutOfRangeError,
)
from airflow_provider_rlmm.core.log.event_decoding import BATCH_ROWS, event_batch, require_range, subscription_batch
from airflow_provider_rlmm.core.log.protocol import (
    Acked,
    EventStream,
    Failed,
    PublishOutcome,
    SubscriptionHandle,
    Unknown,
)
from airflow_provider_rlmm.core.records.era import LogEra, era_of_policy
from airflow_provider_rlmm.core.records.lost_records import NOTHING_EXPLAINED, NOTHING_LOST, LostRecords

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["InProcessMetadataEventLog", "InProcessOffsetStore"]

METADATA_TOPIC = "__remote_log_metadata"
METADATA_TOPIC_ID = UUID("52656d6f-7465-4c6f-674d-657461646174")
"""Id of the metadata topic, unless a test gives a log or the topics of a cluster another one."""

EffectHook = Callable[[str, Any], "Failed | Unknown | int | None"]
"""Takes the name and the detail of an effect; the module's table says what it may return."""


def no_effect_hook(name: str, detail: Any) -> None:
    """Let every effect happen."""


@dataclass(frozen=True, slots=True)
class PublishEffect:
    """One record of a batch."""

    metadata_partition: int  # where it goes
    index: int  # its position in the batch, from 0
    value: bytes  # its value


@dataclass(frozen=True, slots=True)
class ReadEffect:
    """One call of ``read``."""

    metadata_partition: int  # which partition
    start: int  # first offset, inclusive, not below the beginning
    end: int  # last offset, exclusive


@dataclass(slots=True)
class _Partition:
    """Records by position; the record at position 0 has the offset ``beginning``. Some of them may have been removed."""

    beginning: int = 0
    timestamps_ms: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    removed: set[int] = field(default_factory=set)

    @property
    def end(self) -> int:
        return self.beginning + len(self.values)

    def batch(self, start: int, end: int) -> pa.RecordBatch:
        rows = slice(start - self.beginning, end - self.beginning)
        batch = event_batch(range(start, end), self.timestamps_ms[rows], self.keys[rows], self.values[rows])
        if not self.removed:
            return batch
        import pyarrow as pa

        return batch.filter(array_of([offset not in self.removed for offset in range(start, end)], pa.bool_()))


class InProcessMetadataEventLog:
    """
    A :class:`~airflow_provider_rlmm.core.log.protocol.MetadataEventLog` in memory: deterministic, never blocking.

    :param num_partitions: number of metadata partitions.
    :param topic_id: id of the topic.
    :param clock: gives the timestamps of published records.
    :param on_effect: called before each effect; see the module's docstring.
    :param after_effect: called after each effect.

    ``policy`` holds the names in its ``cleanup.policy``, an attribute that may be set at any time; nothing is ever compacted
    by itself.
    """

    def __init__(
        self,
        num_partitions: int,
        *,
        topic_id: UUID = METADATA_TOPIC_ID,
        clock: Clock = system_clock,
        on_effect: EffectHook = no_effect_hook,
        after_effect: EffectHook = no_effect_hook,
    ) -> None:
        if num_partitions < 1:
            raise ValueError(f"num_partitions must be at least 1, not {num_partitions}")
        self._partitions = [_Partition() for _ in range(num_partitions)]
        self.partition_count = num_partitions
        self.topic_id = topic_id
        self.losses: Mapping[int, LostRecords] = NOTHING_LOST
        self.explained_gaps = NOTHING_EXPLAINED
        self.policy = frozenset({"delete"})
        self._clock = clock
        self.on_effect = on_effect
        self.after_effect = after_effect

    @property
    def era(self) -> LogEra:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`; asked each time."""
        return era_of_policy(self.cleanup_policy())

    def cleanup_policy(self) -> frozenset[str]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataTopic`."""
        return self.policy

    def publish(self, records: Sequence[tuple[int, bytes]]) -> list[PublishOutcome]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataEventLog`."""
        for metadata_partition, _ in records:
            self._partition(metadata_partition)
        return [self._publish_one(PublishEffect(p, i, value)) for i, (p, value) in enumerate(records)]

    def _publish_one(self, effect: PublishEffect) -> PublishOutcome:
        refused = self.on_effect("publish", effect)
        if isinstance(refused, Failed | Unknown):
            return refused
        offset = self.append(effect.metadata_partition, effect.value)
        doubted = self.after_effect("publish", effect)
        return doubted if isinstance(doubted, Unknown) else Acked(offset)

    def read(self, metadata_partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataEventLog`."""
        partition = self._partition(metadata_partition)
        require_range(metadata_partition, (start, end), (partition.beginning, partition.end))
        return self._read(partition, ReadEffect(metadata_partition, start, end))

    def read_many(self, ranges: Mapping[int, tuple[int, int]]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`; one partition after the other."""
        # All ranges are checked before the first is read.
        reads = {number: self.read(number, start, end) for number, (start, end) in ranges.items()}
        return ((number, batch) for number, batches in reads.items() for batch in batches)

    def _read(self, partition: _Partition, effect: ReadEffect) -> Iterator[pa.RecordBatch]:
        cut = self.on_effect("read", effect)
        end = min(cut, effect.end) if isinstance(cut, int) else effect.end
        for start in range(effect.start, end, BATCH_ROWS):
            stop = min(start + BATCH_ROWS, end)
            require_range(effect.metadata_partition, (start, stop), (partition.beginning, partition.end))
            if (batch := partition.batch(start, stop)).num_rows:
                yield batch
        if end < effect.end:
            raise EventLogUnavailableError(
                f"metadata partition {effect.metadata_partition}: cut short at offset {end}, before {effect.end}"
            )
        self.after_effect("read", effect)

    def subscribe(self, assignment: Mapping[int, int]) -> tuple[EventStream, SubscriptionHandle]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataEventLog`."""
        subscription = _Subscription(self)
        for metadata_partition, start in assignment.items():
            subscription.add(metadata_partition, start)
        return subscription, subscription

    def beginning_offsets(self) -> Mapping[int, int]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataEventLog`."""
        self.on_effect("beginning_offsets", None)
        offsets = {number: partition.beginning for number, partition in enumerate(self._partitions)}
        self.after_effect("beginning_offsets", None)
        return offsets

    def high_water_marks(self) -> Mapping[int, int]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataEventLog`."""
        self.on_effect("high_water_marks", None)
        offsets = {number: partition.end for number, partition in enumerate(self._partitions)}
        self.after_effect("high_water_marks", None)
        return offsets

    def append(
        self, metadata_partition: int, value: bytes | None, key: bytes | None = None, timestamp_ms: int | None = None
    ) -> int:
        """
        Append a record as a foreign writer would: anything goes, no hook is called.

        :param metadata_partition: where.
        :param value: ``None`` is a tombstone.
        :param key: ``None`` in every record of Kafka 4.3.
        :param timestamp_ms: ms since the epoch, by default now.
        :return: the record's offset.
        """
        partition = self._partition(metadata_partition)
        partition.timestamps_ms.append(self._clock() if timestamp_ms is None else timestamp_ms)
        partition.keys.append(key)
        partition.values.append(value)
        return partition.end - 1

    def truncate(self, metadata_partition: int, before_offset: int) -> None:
        """
        Drop the oldest records, as DeleteRecords does.

        :param metadata_partition: where.
        :param before_offset: becomes the beginning offset; no effect where the beginning is already above it.
        """
        partition = self._partition(metadata_partition)
        if before_offset > partition.end:
            raise ValueError(f"offset {before_offset} is above the high watermark {partition.end}")
        dropped = max(0, before_offset - partition.beginning)
        del partition.timestamps_ms[:dropped], partition.keys[:dropped], partition.values[:dropped]
        partition.beginning += dropped

    def remove(self, metadata_partition: int, offsets: Iterable[int]) -> None:
        """
        Let offsets hold no record, as compaction does, and the marker of a transaction.

        :param metadata_partition: where.
        :param offsets: of records that are there.
        """
        self._partition(metadata_partition).removed.update(offsets)

    def cut_off(self, metadata_partition: int, end_offset: int) -> None:
        """
        Drop the newest records, as an election of a replica that lacks them does.

        :param metadata_partition: where.
        :param end_offset: becomes the high watermark.
        """
        partition = self._partition(metadata_partition)
        kept = max(0, end_offset - partition.beginning)
        partition.removed = {offset for offset in partition.removed if offset < end_offset}
        del partition.timestamps_ms[kept:], partition.keys[kept:], partition.values[kept:]

    def _partition(self, metadata_partition: int) -> _Partition:
        # A negative index would silently be another partition.
        if not 0 <= metadata_partition < len(self._partitions):
            raise MetadataPartitionOutOfRangeError(
                f"no metadata partition {metadata_partition}: the log has {len(self._partitions)}"
            )
        return self._partitions[metadata_partition]


class _Subscription:
    """Stream and handle in one: nothing moves between two calls."""

    def __init__(self, log: InProcessMetadataEventLog) -> None:
        self._log = log
        self._positions: dict[int, int] = {}

    def add(self, metadata_partition: int, start: int) -> None:
        self._log._partition(metadata_partition)
        if metadata_partition in self._positions:
            raise ValueError(f"metadata partition {metadata_partition} is assigned already")
        self._positions[metadata_partition] = start

    def remove(self, metadata_partition: int) -> None:
        self._positions.pop(metadata_partition, None)

    def assigned(self) -> Mapping[int, int]:
        return dict(self._positions)

    def end_offsets(self) -> Mapping[int, int]:
        return {number: self._log._partition(number).end for number in self._positions}

    def poll(self, timeout_s: float) -> list[pa.RecordBatch]:
        cut = self._log.on_effect("poll", self.assigned())
        for number, position in self._positions.items():
            partition = self._log._partition(number)
            if not partition.beginning <= position <= partition.end:
                del self._positions[number]
                raise OffsetOutOfRangeError(
                    f"metadata partition {number}: offset {position} is not in the log, which holds offsets "
                    f"{partition.beginning} to {partition.end} (exclusive): read it from its beginning",
                    number,
                    position,
                )
        batches = []
        for number, position in self._positions.items():
            partition = self._log._partition(number)
            end = min(position + BATCH_ROWS, partition.end, cut if isinstance(cut, int) else partition.end)
            if position < end:
                if (batch := partition.batch(position, end)).num_rows:
                    batches.append(subscription_batch(number, batch))
                self._positions[number] = end
        self._log.after_effect("poll", self.assigned())
        return batches

    def close(self) -> None:
        self._positions.clear()


class InProcessOffsetStore:
    """
    An :class:`~airflow_provider_rlmm.core.log.protocol.OffsetStore` in memory.

    :param on_effect: called before each effect (``committed``, ``None``; ``commit``, the offsets); raise from it to
        make the effect fail.
    :param after_effect: called after each effect; raise from it for a crash whose commit has happened.
    """

    def __init__(self, *, on_effect: EffectHook = no_effect_hook, after_effect: EffectHook = no_effect_hook) -> None:
        self._offsets: dict[int, int] = {}
        self.on_effect = on_effect
        self.after_effect = after_effect

    def committed(self) -> Mapping[int, int]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.OffsetStore`."""
        self.on_effect("committed", None)
        offsets = dict(self._offsets)
        self.after_effect("committed", None)
        return offsets

    def commit(self, offsets: Mapping[int, int]) -> None:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.OffsetStore`."""
        self.on_effect("commit", offsets)
        self._offsets.update(offsets)
        self.after_effect("commit", offsets)

    def lose(self) -> None:
        """Forget everything, as Kafka does with the offsets of a group that has had no members for long enough."""
        self._offsets.clear()
