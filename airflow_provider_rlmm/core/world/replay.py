# SPDX-License-Identifier: Apache-2.0
"""
What is known of one metadata partition, however it was replayed, and what the write guard is told of it.

Its replay goes always from its beginning offset, up to a high watermark taken at the start.

When was a foreign marker written? Its own time is its writer's word; the next record of the metadata partition whose
time can be relied on says by when it was there (:class:`_MarkerBounds`).
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import Any, Generic, TypeVar
from uuid import UUID

from airflow_provider_rlmm.core.base.arrow_arrays import at_least, equals, is_among
from airflow_provider_rlmm.core.base.errors import MalformedMetadataError
from airflow_provider_rlmm.core.log.event_decoding import (
    Quarantine,
    QuarantinedRecord,
    counted,
    quarantined_records,
    written_by_brokers,
)
from airflow_provider_rlmm.core.log.follower import LogFollower
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader, ProvenLook
from airflow_provider_rlmm.core.plans.log_refusals import refusal_of_lost, refusals_of_holes
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.era import PLAIN_ERA, Era, LogEra
from airflow_provider_rlmm.core.records.histories import Histories
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.located import LocatedEvent, LocatedRecord, applicable, located_records
from airflow_provider_rlmm.core.records.lost_records import HistoryGap, LostBeginning, LostRecords, lost_beginning
from airflow_provider_rlmm.core.records.records import (
    OWN_BROKER_ID,
    RemoteLogMetadata,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.serde import PARTITION_DELETE_API_KEY
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from airflow_provider_rlmm.core.world.wholeness import Doubt

OBSTACLE_ADVICE = (
    "look at the record; what it may concern is deleted only where storage and log show that nothing is missing"
)
MOST_ROUTED = 4
"""
Good records that must lie where our partitioner puts them, per one that does not, before anything is written. In a compacted
log, where records that lay wrong may be gone, none may lie wrong.
"""


@dataclass
class MetadataPartitionView:
    """What is known of one metadata partition."""

    metadata_partition: int  # which one
    begin: int  # offset of the first record that could be read, inclusive: where it is above 0, records were lost
    end: int  # everything below was read, exclusive
    histories: dict[TopicIdPartition, UserPartitionHistory] = field(
        default_factory=dict
    )  # the user partitions that matter
    # the records that are not good, by offset; of keyed ones what a :class:`Quarantine` keeps
    quarantined: list[QuarantinedRecord] = field(default_factory=list)
    routed_records: int = 0  # number of those that are
    # what it does not hold of what earlier runs have read, ``None`` where nothing is known to be lost
    lost: LostRecords | None = None
    # offsets that hold no record and of which no person has said why, by offset; where the log is compacted none need a
    # reason
    holes: tuple[HistoryGap, ...] = ()
    era: LogEra = PLAIN_ERA  # of the log

    def names(self, topic_ids: Collection[UUID]) -> dict[UUID, frozenset[str]]:
        """
        Return every name under which topic ids were seen here.

        :param topic_ids: the ids; each of them is answered for.
        """
        found: dict[UUID, set[str]] = {topic_id: set() for topic_id in topic_ids}
        for key in self.histories:
            if key.topic_id in found:
                found[key.topic_id].add(key.topic)
        return {topic_id: frozenset(seen) for topic_id, seen in found.items()}

    def doubt_about(self, tip: TopicIdPartition, allowed_quarantine: frozenset[str]) -> Doubt | None:
        """
        Return why more may have been said about a user partition than was read, ``None`` where nothing suggests it.

        A record that cannot be decoded may be about anybody; one that can be concerns its own user partition only.

        :param tip: the user partition.
        :param allowed_quarantine: names of error codes that raise no doubt.
        """
        number = self.metadata_partition
        if (lost := self.lost_beginning) is not None:
            return Doubt(lost.why, number, lost.offset)
        if self.holes:
            return Doubt(self.holes[0].why, number, self.holes[0].end)
        if self.era.era is Era.COMPACTED:
            return Doubt(f"records may be gone from anywhere, as the metadata topic is {self.era}", number, self.begin)
        record = self.first_quarantined(tip, allowed_quarantine)
        return None if record is None else Doubt(f"{record} cannot be applied", number, record.offset)

    @property
    def quarantined_records(self) -> int:
        """How many records are not good."""
        return counted(self.quarantined)

    @property
    def copied_is_known(self) -> bool:
        """Whether no record is missing that may have said that a segment was copied."""
        return not self.holes and self.era.era is not Era.COMPACTED

    def first_quarantined(
        self, tip: TopicIdPartition, allowed_quarantine: frozenset[str], start: int = 0
    ) -> QuarantinedRecord | None:
        """
        Return the first record that may be about a user partition and cannot be applied; of keyed ones, of which not all
        are kept, some such record.

        :param tip: the user partition.
        :param allowed_quarantine: names of error codes that raise no doubt.
        :param start: offset of the first record that counts, inclusive.
        """
        first = bisect_left(self.quarantined, start, key=attrgetter("offset"))
        for record in islice(self.quarantined, first, None):
            if record.code not in allowed_quarantine and record.topic_id_partition in (None, tip):
                return record
        return None

    def obstacles(self) -> list[Refusal]:
        """Return what puts user partitions of this metadata partition in doubt: a person has to look at each of them."""
        number = self.metadata_partition
        what = f"metadata partition {number}"
        found = [
            Refusal(what, str(q), OBSTACLE_ADVICE, RefusalKind.QUARANTINED, number, q.offset) for q in self.quarantined
        ]
        if self.begin > 0:
            why = f"{what} begins at offset {self.begin}: the records before that were deleted"
            found.append(Refusal(what, why, OBSTACLE_ADVICE, RefusalKind.LOST_RECORDS, number, self.begin))
        if self.lost is not None:
            found.append(refusal_of_lost(self.lost))
        return found + refusals_of_holes(self.holes)

    @property
    def lost_beginning(self) -> LostBeginning | None:
        """Which records of it are gone, ``None`` where none are."""
        return lost_beginning(self.metadata_partition, self.begin, self.lost)

    @property
    def is_closed(self) -> bool:
        """Whether nothing is done here: records were lost, and that is not confirmed."""
        return self.lost is not None and self.lost.is_open


View = TypeVar("View", bound=MetadataPartitionView, covariant=True)


@dataclass(frozen=True, slots=True)
class Belief(Generic[View]):
    """
    What a batch of events rests on, as the write guard wants it: the replayed state and one look at the cluster.

    :param replay: the replayed state.
    :param proof: the look; there is one belief for each, so that absence never adds up over several.
    :param shown_whole: user partitions of which a listing right before has shown that the log names all of their segments.
    """

    replay: View
    proof: ProvenLook | None = None
    shown_whole: frozenset[TopicIdPartition] = frozenset()

    def segment(self, segment_id: RemoteLogSegmentId) -> RemoteLogSegmentMetadata | None:
        """See :class:`~airflow_provider_rlmm.core.log.write_guard.ReplayedState`."""
        history = self.replay.histories.get(segment_id.topic_id_partition)
        return history.cache.segment(segment_id) if history else None

    def partition_delete_state(self, topic_id_partition: TopicIdPartition) -> RemotePartitionDeleteState | None:
        """See :class:`~airflow_provider_rlmm.core.log.write_guard.ReplayedState`."""
        history = self.replay.histories.get(topic_id_partition)
        return history.delete_state if history and history.deletion_under_way() else None

    def obstacle_to_finish(self, topic_id_partition: TopicIdPartition) -> str | None:
        """See :class:`~airflow_provider_rlmm.core.log.write_guard.ReplayedState`."""
        history = self.replay.histories.get(topic_id_partition)
        if history is None:
            return "nothing is known about it"
        if topic_id_partition not in self.shown_whole:
            return "no listing has shown that the log names all of its segments"
        return history.obstacle_to_finish()

    def look_at(self, topic_id: UUID) -> ProvenLook | None:
        """See :class:`~airflow_provider_rlmm.core.log.write_guard.ReplayedState`."""
        return self.proof

    def routing_verified(self) -> bool:
        """See :class:`~airflow_provider_rlmm.core.log.write_guard.ReplayedState`."""
        # One stray record says nothing about the rest; after a change of the partition count half of all lie wrong.
        misrouted = sum(q.code == "MISROUTED" for q in self.replay.quarantined)
        if misrouted and self.replay.era.era is Era.COMPACTED:
            return False  # of many records that lie wrong compaction may have left this one
        return self.replay.routed_records > MOST_ROUTED * misrouted


class _MarkerBounds:
    """
    Bounds the observations of one metadata partition, while it is replayed in order.

    Records to rely on are the segment events of brokers, of any topic, and all events of ours. Brokers write no
    partition-delete events, so one that claims a broker's id bounds nothing.
    """

    def __init__(self) -> None:
        self._waiting: dict[TopicIdPartition, UserPartitionHistory] = {}
        self._decoded: Any = None
        self._bounds: tuple[list[int], list[int]] | None = None

    def begin(self, decoded: Any) -> None:
        """Take the next batch, before its events are applied: all of its records, decoded."""
        self._decoded, self._bounds = decoded, None
        if self._waiting and (time_ms := self._time_after(-1)) is not None:
            for history in self._waiting.values():
                history.bound_observations(time_ms)
            self._waiting.clear()

    def note(self, history: UserPartitionHistory, offset: int) -> None:
        """Bound a history's observations by what the batch holds behind an event, or else by a batch to come."""
        if not history.awaits_bound():
            return
        time_ms = self._time_after(offset)
        if time_ms is None:
            self._waiting[history.topic_id_partition] = history
        else:
            history.bound_observations(time_ms)

    def _time_after(self, offset: int) -> int | None:
        """Return the time of the first record behind an offset that can be relied on, ``None`` where the batch has none."""
        if self._decoded is None:
            return None
        if self._bounds is None:
            self._bounds = _bounds_of(self._decoded)
        offsets, times_ms = self._bounds
        index = bisect_right(offsets, offset)
        return times_ms[index] if index < len(offsets) else None


def _bounds_of(decoded: Any) -> tuple[list[int], list[int]]:
    """Return offsets and times (ms) of the records of a batch that can be relied on, by offset."""
    import pyarrow.compute as pc

    ours = equals(decoded.column("broker_id"), OWN_BROKER_ID)
    relied_on = decoded.filter(pc.and_(applicable(decoded), pc.or_(written_by_brokers(decoded), ours)))
    times_ms = pc.max_element_wise(relied_on.column("event_timestamp_ms"), relied_on.column("timestamp_ms"))
    timed = at_least(times_ms, 0)
    return relied_on.column("offset").filter(timed).to_pylist(), times_ms.filter(timed).to_pylist()


class MetadataPartitionReplay(MetadataPartitionView):
    """
    The state of one metadata partition, kept current by :meth:`advance`.

    :param log: the log.
    :param metadata_partition: which partition.
    :param topic_ids: keep histories of these topics only, ``None`` for all; records of others are checked, counted
        and forgotten.
    :param chosen_at: offset up to which ``topic_ids`` names every topic whose deletion is under way, exclusive.
    """

    def __init__(
        self,
        log: MetadataLogReader,
        metadata_partition: int,
        topic_ids: frozenset[UUID] | None = None,
        chosen_at: int = 0,
    ) -> None:
        self._follower = LogFollower.from_beginning(log, [metadata_partition])
        begin = self._follower.positions[metadata_partition]
        self._histories = Histories(grows=True)
        lost = log.losses.get(metadata_partition)
        super().__init__(metadata_partition, begin, begin, self._histories, lost=lost, era=log.era)
        self._log = log
        self._topic_ids = topic_ids
        self._chosen_at = chosen_at
        self._first_unread_deletion: int | None = None
        self._marker_bounds = _MarkerBounds()
        self._quarantine = Quarantine()
        self.records_read = 0
        """Number of records that were read, of any topic."""

    def advance(self, until: int = sys.maxsize) -> None:
        """
        Read on, up to the high watermark as of now, beginning with the last records that were read before.

        :param until: read no further than up to this offset, exclusive.
        :raises EventLogUnavailableError: if the range could not be read whole.
        :raises OffsetOutOfRangeError: if the log has lost records since it was read, at its beginning or at its end.
        :raises LogReplacedError: if it is not the log that was read before.
        """
        try:
            self._follower.advance(self._apply_all, max(0, until - self._follower.positions[self.metadata_partition]))
        finally:
            self.quarantined = self._quarantine.records()
            self.end = self._follower.positions[self.metadata_partition]
            self.holes, self.era = self._follower.open_holes(), self._log.era

    def _apply_all(self, decoded: Any) -> None:
        self.records_read += decoded.num_rows
        for located in self._good_records(decoded):
            if isinstance(located, LocatedEvent):
                self.apply(located.event, located.offset, located.timestamp_ms)
            else:
                self._histories.apply(located)

    def apply(self, event: RemoteLogMetadata, offset: int, timestamp_ms: int) -> None:
        """
        Apply one event.

        :param event: a good event of this metadata partition; snapshot records never get here.
        :param offset: its offset.
        :param timestamp_ms: the record's timestamp, ms since the epoch.
        """
        if isinstance(event, RemoteLogSegmentMetadataSnapshot):
            raise MalformedMetadataError(f"offset {offset}: a snapshot record names no topic partition")
        key = topic_id_partition_of(event)
        history = self._histories.begun(key)
        if isinstance(event, RemotePartitionDeleteMetadata):
            history.apply_partition_event(event, offset, timestamp_ms)
            self._marker_bounds.note(history, offset)
        else:
            history.apply_segment_event(event, offset)

    def _good_records(self, decoded: Any) -> list[LocatedRecord]:
        """Return the wanted records, and put those that are not good into quarantine."""
        import pyarrow.compute as pc

        from airflow_provider_rlmm.core.records.decoding.decode import count_good

        self._marker_bounds.begin(decoded)
        self._quarantine.take(quarantined_records(decoded))
        self.routed_records += count_good(decoded)
        # A keyed record's event counts, whether or not it is allowed to pass.
        wanted = applied = applicable(decoded)
        if self._topic_ids is not None:
            wanted = pc.and_(applied, is_among(decoded.column("topic_id"), [i.bytes for i in self._topic_ids]))
            self._note_unread_deletions(decoded.filter(pc.and_(applied, pc.invert(wanted))))
        return located_records(decoded, wanted)

    def _note_unread_deletions(self, unwanted: Any) -> None:
        """Remember the first marker of each topic that was not chosen: no history of it is kept."""
        import pyarrow.compute as pc

        if self._first_unread_deletion is None:
            late = at_least(unwanted.column("offset"), self._chosen_at)
            deletions = unwanted.filter(pc.and_(late, equals(unwanted.column("api_key"), PARTITION_DELETE_API_KEY)))
            self._first_unread_deletion = pc.min(deletions.column("offset")).as_py()

    def first_unsettled_offset(self) -> int:
        """Return the offset of the first marker that is not settled, the end of the replay where all are (I4)."""
        offsets = [h.unsettled_marker_offset for h in self.histories.values() if h.deletion_under_way()]
        offsets.append(self._first_unread_deletion)
        return min((o for o in offsets if o is not None), default=self.end)
