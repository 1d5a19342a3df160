# SPDX-License-Identifier: Apache-2.0
"""
Resuming from a snapshot of the whole topic: consumption goes on at the offset after the last record that is in it.

A snapshot knows segments, deletions and what is not certain. It does not know lookups by leader epoch: these depend on the
order of all copies, deleted ones included. So a user partition that was resumed is replayed from its first event when
they are asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import NotReadyError, OffsetOutOfRangeError, SnapshotRefusedError
from airflow_provider_rlmm.core.log.event_decoding import QuarantinedRecord, counted, events_of
from airflow_provider_rlmm.core.log.one_look import look
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.log.snapshot import Snapshot
from airflow_provider_rlmm.core.records.histories import Histories
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.outcomes import ErrorCode
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.library.metadata_store import (
    MAX_QUARANTINED_SHOWN,
    Quarantine,
    RemotePartitionMetadataStore,
    UserPartitionView,
)


@dataclass(frozen=True, slots=True)
class ResumedHistory:
    """What a snapshot says of a user partition."""

    history: UserPartitionHistory  # its history, without lookups by leader epoch
    first_offset: int  # where its first event lies


class Resumption:
    """
    What the user partitions that are followed take over from a snapshot.

    :param snapshot: a checked one of this log, as :class:`~airflow_provider_rlmm.core.log.topic_state.TopicState` gives it;
        its state is not advanced any more.
    :param log: the log that is read on.
    :raises SnapshotRefusedError: if it is of another topic.
    """

    def __init__(self, snapshot: Snapshot, log: MetadataLogReader) -> None:
        seen = snapshot.identity
        if (seen.topic_id, seen.partition_count) != (log.topic_id, log.partition_count):
            raise SnapshotRefusedError(
                f"the snapshot is of topic id {kafka_uuid_str(seen.topic_id)} with "
                f"{number_of(seen.partition_count, 'partition')}, the "
                f"log of {kafka_uuid_str(log.topic_id)} with {log.partition_count}: leave it out"
            )
        self._snapshot = snapshot
        self._next_offsets = dict(snapshot.next_offsets)

    def next_offset(self, metadata_partition: int, begin: int, end: int) -> int | None:
        """Return where to read on, ``None`` where that is not between the first offset and the high watermark as of now."""
        offset = self._next_offsets.get(metadata_partition)
        return offset if offset is not None and begin <= offset <= end else None

    def forget(self, metadata_partition: int) -> None:
        """Take nothing of a metadata partition over any more: its log has lost records."""
        self._next_offsets.pop(metadata_partition, None)

    def history_of(self, tip: TopicIdPartition, metadata_partition: int, begin: int) -> ResumedHistory | None:
        """
        Return the history of a user partition, ``None`` where the log has to be asked.

        :param tip: the user partition.
        :param metadata_partition: where its events lie.
        :param begin: the first offset there as of now: where its first event is gone, its lookups could not be replayed.
        """
        first_offset = self._first_offsets.get(tip, self._next_offsets[metadata_partition])
        if first_offset < begin or tip in self._in_doubt:
            return None
        known = self._snapshot.state.histories(metadata_partition, [tip.topic_id])
        return ResumedHistory(known.get(tip) or UserPartitionHistory(tip), first_offset)

    def missing_before(self, metadata_partition: int) -> int:
        """Return below which offset of a metadata partition records were gone before they were read; 0 where none were."""
        gaps = self._snapshot.gaps
        return max((gap.end for gap in gaps if gap.metadata_partition == metadata_partition), default=0)

    def quarantine(self, metadata_partition: int) -> Quarantine:
        """Return the records of a metadata partition that cannot be applied."""
        records = self._quarantined.get(metadata_partition, [])
        return Quarantine(
            records[:MAX_QUARANTINED_SHOWN],
            total=counted(records),
            routed=self._snapshot.routed.get(metadata_partition, 0),
            misrouted=sum(record.code == ErrorCode.MISROUTED.name for record in records),
            judged=self._next_offsets[metadata_partition],
        )

    def names_of(self, topic_id: UUID) -> frozenset[str]:
        """Return every name under which the snapshot knows a topic id."""
        return frozenset(tip.topic for tip in self._first_offsets if tip.topic_id == topic_id)

    @cached_property
    def _first_offsets(self) -> Mapping[TopicIdPartition, int]:
        return {_tip(row): row["first_offset"] for row in self._snapshot.state.user_partitions.to_pylist()}

    @cached_property
    def _in_doubt(self) -> frozenset[TopicIdPartition]:
        """User partitions with an event of a segment that may have been finished, or may never have been added."""
        return frozenset(_tip(row) for row in self._snapshot.state.unresolved.to_pylist() if row["maybe_finished"])

    @cached_property
    def _quarantined(self) -> Mapping[int, list[QuarantinedRecord]]:
        found: dict[int, list[QuarantinedRecord]] = {}
        for record in self._snapshot.quarantined:
            found.setdefault(record.metadata_partition, []).append(record)
        return found


def _tip(row: Mapping[str, Any]) -> TopicIdPartition:
    return TopicIdPartition(UUID(bytes=row["topic_id"]), row["topic"], row["partition"])


class LookupReplay:
    """Gives user partitions that were resumed their lookups by leader epoch, and the segments that were finished before."""

    def __init__(self, log: MetadataLogReader, store: RemotePartitionMetadataStore) -> None:
        self._log = log
        self._store = store
        self._replaying = threading.Lock()

    def ensure(self, tip: TopicIdPartition) -> None:
        """
        Replay a user partition if it was resumed, and all others of its metadata partition with it.

        :raises PartitionNotAssignedError: if it is not followed.
        :raises NotReadyError: if it is not initialised, or its beginning is gone by now and it is read anew.
        :raises EventLogUnavailableError: if the log cannot be read.
        """
        with self._store.reading(tip) as view:
            if view.lookups_from is None:
                return
            number = view.metadata_partition
        with self._replaying:
            try:
                self._replay(number)
            except OffsetOutOfRangeError as error:
                with self._store.changed:
                    self._store.to_be_read_anew.add(number)
                raise NotReadyError(
                    f"{tip}: {error}; metadata partition {number} is read anew: try again soon"
                ) from error

    def settle(self, tip: TopicIdPartition) -> None:
        """
        Replay a user partition where that can tell more about an update that seems to lack its add.

        A snapshot keeps no finished segments, so an update that comes after the end of its segment looks like one.

        :raises EventLogError: as for :meth:`ensure`.
        """
        with self._store.reading(tip) as view:
            certain = not view.history.without_add
        if not certain:
            self.ensure(tip)

    def _replay(self, number: int) -> None:
        with self._store.changed:
            mine = {p: v for p, v in self._store.views.items() if v.metadata_partition == number}
            starts = {p: v.lookups_from for p, v in mine.items() if v.lookups_from is not None}
            views = {p: mine[p] for p in starts}
            end = min((view.next_offset for view in views.values()), default=0)
        start = min(starts.values(), default=0)
        histories = Histories(map(UserPartitionHistory, views), grows=False)
        while views:
            self._read(number, start, end, histories)
            start, end = end, self._install(views, histories, end)

    def _read(self, number: int, start: int, end: int, histories: Histories) -> None:
        topic_ids = frozenset(tip.topic_id for tip in histories)
        for decoded in look(self._log, number, start, end):
            for located in events_of(decoded, topic_ids).records:
                histories.apply(located)

    def _install(
        self,
        views: dict[TopicIdPartition, UserPartitionView],
        histories: Mapping[TopicIdPartition, UserPartitionHistory],
        end: int,
    ) -> int:
        """Put what was replayed up to an offset in place where no event came since; return up to where to go on."""
        with self._store.changed:
            for tip, view in list(views.items()):
                if self._store.views.get(tip) is not view:
                    del views[tip]
                elif view.last_record < end:
                    view.history, view.lookups_from = histories[tip], None
                    del views[tip]
            return min((view.next_offset for view in views.values()), default=end)
