# SPDX-License-Identifier: Apache-2.0
"""
The invariants I1 to I8, judged from outside: from the bytes in the log, the keys in the store and the list of topics.

Nothing here uses the lifecycle layer. The state machines are written down again, so that a mistake there is seen here.

Two cleaners and a leader may write at the same time, and nothing in the topic can fence one of them off. So an event of
ours is judged twice. *When it is published* it must follow from the part of the log that its writer had read, without
any allowance: :func:`judge`. *When it lands*, others may have written in between. Then, and only then, it may be one that
Kafka drops: :func:`check_landing` says which, and why that harms nobody.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from uuid import UUID

from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    SegmentEvent,
    TopicIdPartition,
    topic_id_partition_of,
)

SEGMENT_STEPS = {(None, 0), (0, 1), (0, 2), (1, 2), (2, 3)}
PARTITION_STEPS = {(None, 0), (0, 1), (1, 2), (2, 0)}
MARKED, STARTED, FINISHED = 0, 1, 2
OURS = -1
SKEW_MS = 5 * 60_000

Event = SegmentEvent | RemotePartitionDeleteMetadata


@dataclass(frozen=True, slots=True)
class Sighting:
    """
    Somebody wrote that a partition is deleted.

    :param offset: where in the log.
    :param said_ms: when, as its record says.
    :param ours: whether a process of ours wrote it: it knows what time it is. Others may have any clock.
    :param true_ms: when it was really written.
    """

    offset: int
    said_ms: int
    ours: bool
    true_ms: int


@dataclass(frozen=True, slots=True)
class Record:
    """
    One record of a metadata partition.

    :param offset: where.
    :param event: what brokers read there, ``None`` for a record that says nothing to them.
    :param time_ms: its timestamp.
    :param true_ms: when it was written, by the world's own clock.
    """

    offset: int
    event: Event | None
    time_ms: int
    true_ms: int


@dataclass(frozen=True, slots=True)
class PartitionModel:
    """
    What the log says about one user partition, as Kafka would understand it.

    :param segments: segment id → state, ``DELETE_SEGMENT_FINISHED`` included.
    :param deletion: state of the partition's deletion.
    :param sightings: every marker and repeated start of the deletion under way, after the last foreign segment event.
    :param marker_offset: offset of the marker of the deletion under way.
    :param without_add: segments that were spoken of before they were announced: not all that was said is there.
    """

    segments: Mapping[UUID, int] = field(default_factory=lambda: MappingProxyType({}))
    deletion: int | None = None
    sightings: tuple[Sighting, ...] = ()
    marker_offset: int | None = None
    without_add: frozenset[UUID] = frozenset()

    @property
    def unfinished(self) -> list[UUID]:
        return [segment for segment, state in self.segments.items() if state != 3]

    @property
    def under_way(self) -> bool:
        return self.deletion in (MARKED, STARTED)

    def after(self, record: Record) -> PartitionModel:
        """Return what the log says with one more record."""
        event = record.event
        assert event is not None
        if isinstance(event, RemotePartitionDeleteMetadata):
            said_ms = max(event.event_timestamp_ms, record.time_ms)
            sighting = Sighting(record.offset, said_ms, event.broker_id == OURS, record.true_ms)
            return self._after_deletion(int(event.state), sighting)
        segment = event.remote_log_segment_id.id
        step = self.segments.get(segment), int(event.state)
        segments = {**self.segments, segment: step[1]} if step in SEGMENT_STEPS else self.segments
        without_add = self.without_add
        if step[0] is None and step[1]:
            without_add = without_add - {segment} if step[1] == 3 else without_add | {segment}
        sightings = self.sightings if event.broker_id == OURS else ()
        return replace(self, segments=segments, sightings=sightings, without_add=without_add)

    def _after_deletion(self, target: int, sighting: Sighting) -> PartitionModel:
        if target == FINISHED:
            return replace(self, deletion=FINISHED, sightings=(), marker_offset=None)
        if self.under_way:
            deletion = max(self.deletion or MARKED, target)
            return replace(self, deletion=deletion, sightings=(*self.sightings, sighting))
        if target == MARKED and (self.deletion is None or self.unfinished):
            return replace(self, deletion=MARKED, sightings=(sighting,), marker_offset=sighting.offset)
        return self


class PartitionLog:
    """
    One metadata partition, as it was and is: what its records say from each beginning on.

    Records that were deleted at its beginning are kept here: who had read them before knows them. A log that loses its end
    becomes another :class:`PartitionLog`: who had read the old one is wrong from then on, and may not know it yet.

    :param records: what it begins with.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.records: list[Record] = []
        self._states: dict[int, dict[TopicIdPartition, list[tuple[int, PartitionModel]]]] = {0: {}}
        self.times: list[tuple[int, int]] = []
        """(offset, time) of the records whose writer's clock is believed: ours, and brokers' of segments."""
        for record in records:
            self.append(record)

    def append(self, record: Record) -> None:
        self.records.append(record)
        for begin in self._states:
            self._apply(begin, record)
        event = record.event
        if event is not None:
            of_a_broker = event.broker_id >= 0 and not isinstance(event, RemotePartitionDeleteMetadata)
            if event.broker_id == OURS or of_a_broker:
                self.times.append((record.offset, max(event.event_timestamp_ms, record.time_ms)))

    def _apply(self, begin: int, record: Record) -> None:
        if record.event is None or record.offset < begin:
            return
        states = self._states[begin].setdefault(topic_id_partition_of(record.event), [])
        before = states[-1][1] if states else PartitionModel()
        states.append((record.offset, before.after(record)))

    def states(self, begin: int = 0) -> dict[TopicIdPartition, list[tuple[int, PartitionModel]]]:
        """Return every state that every user partition was ever in, by the offset of the record that led to it."""
        if begin not in self._states:
            self._states[begin] = {}
            for record in self.records:
                self._apply(begin, record)
        return self._states[begin]

    def at(self, tip: TopicIdPartition, end: int | None = None, begin: int = 0) -> PartitionModel:
        """Return what the log says about a partition, from one offset up to another, exclusive."""
        for offset, state in reversed(self.states(begin).get(tip, [])):
            if end is None or offset < end:
                return state
        return PartitionModel()

    def names_of(self, topic_id: UUID, end: int, begin: int = 0) -> set[str]:
        """Return the names that the log gives a topic id."""
        states = self.states(begin)
        return {tip.topic for tip in states if tip.topic_id == topic_id and states[tip][0][0] < end}

    def up_to(self, end: int) -> list[Record]:
        return [record for record in self.records if record.offset < end]

    def cut_off(self, end: int) -> PartitionLog:
        return PartitionLog(record for record in self.records if record.offset < end)


@dataclass
class LogModel:
    """The whole log, as brokers understand it."""

    logs: dict[int, PartitionLog] = field(default_factory=lambda: defaultdict(PartitionLog))
    metadata_partition_of: dict[TopicIdPartition, int] = field(default_factory=dict)
    ends: Counter[int] = field(default_factory=Counter)
    begins: Counter[int] = field(default_factory=Counter)
    written: int = 0
    copied: set[UUID] = field(default_factory=set)
    started_by_us: set[UUID] = field(default_factory=set)
    finished: set[UUID] = field(default_factory=set)
    """Segments of which that was ever said, whatever the log has lost since."""

    def append(self, metadata_partition: int, event: Event | None, timestamp_ms: int, true_ms: int) -> None:
        offset = self.ends[metadata_partition]
        self.ends[metadata_partition] += 1
        self.written += 1
        if event is not None:
            self.metadata_partition_of[topic_id_partition_of(event)] = metadata_partition
            self._note(event)
        self.logs[metadata_partition].append(Record(offset, event, timestamp_ms, true_ms))

    def _note(self, event: Event) -> None:
        if isinstance(event, RemotePartitionDeleteMetadata):
            return
        segment, state = event.remote_log_segment_id.id, int(event.state)
        if state == 1:
            self.copied.add(segment)
        elif state == 2 and event.broker_id == OURS:
            self.started_by_us.add(segment)
        elif state == 3:
            self.finished.add(segment)

    def truncate(self, metadata_partition: int, before_offset: int) -> set[TopicIdPartition]:
        """Delete the oldest records; return the partitions that they are about."""
        begin, self.begins[metadata_partition] = self.begins[metadata_partition], before_offset
        lost = [r for r in self.logs[metadata_partition].records if begin <= r.offset < before_offset]
        return {topic_id_partition_of(r.event) for r in lost if r.event is not None}

    def cut_off(self, metadata_partition: int, end_offset: int) -> set[TopicIdPartition]:
        """Lose the newest records; return the partitions that they are about."""
        before = self.logs[metadata_partition]
        self.logs[metadata_partition] = before.cut_off(end_offset)
        self.ends[metadata_partition] = end_offset
        lost = [r for r in before.records if r.offset >= end_offset]
        return {topic_id_partition_of(r.event) for r in lost if r.event is not None}

    def log_of(self, tip: TopicIdPartition) -> PartitionLog:
        return self.logs[self.metadata_partition_of.get(tip, 0)]

    def at(self, tip: TopicIdPartition) -> PartitionModel:
        """Return what the log says about a partition to those who have read all of it."""
        return self.log_of(tip).at(tip)

    def readable(self, tip: TopicIdPartition) -> PartitionModel:
        """Return what the log says about a partition to those who begin to read it now."""
        return self.log_of(tip).at(tip, begin=self.begins[self.metadata_partition_of.get(tip, 0)])


@dataclass(frozen=True, slots=True)
class View:
    """
    What somebody has read of one metadata partition.

    :param log: which log it was.
    :param begin: where he began.
    :param end: where he ended, exclusive.
    """

    log: PartitionLog
    begin: int
    end: int

    def of(self, tip: TopicIdPartition) -> PartitionModel:
        return self.log.at(tip, self.end, self.begin)

    def names_of(self, topic_id: UUID) -> set[str]:
        return self.log.names_of(topic_id, self.end, self.begin)

    def observed_ms(self, tip: TopicIdPartition, now_ms: int) -> int | None:
        """
        Tell since when a partition's absence stands, for somebody who has read this and knows the time.

        It stands since the first sighting in the log that is not from the future. When somebody else saw it is known
        only once a record with a time to believe came after it, and then it was the later of the two.
        """
        for sighting in self.of(tip).sightings:
            after = [sighting.said_ms] if sighting.ours else self._times_after(sighting.offset)
            if after and sighting.said_ms >= 0 and max(sighting.said_ms, after[0]) <= now_ms + SKEW_MS:
                return max(sighting.said_ms, after[0])
        return None

    def _times_after(self, offset: int) -> list[int]:
        return [ms for o, ms in self.log.times if offset < o < self.end]

    def first_unsettled(self) -> int | None:
        """Return the offset of the first marker of a deletion under way."""
        offsets = [self.of(tip).marker_offset for tip in self.log.states(self.begin)]
        return min((o for o in offsets if o is not None), default=None)

    def is_settled(self, tip: TopicIdPartition, now_ms: int, min_absence_ms: int) -> bool:
        """
        Tell whether destructive work may be done on what was read: observed long enough ago, nobody else at work.

        Long enough is judged twice: by the times that the records give, and by when they were really written.
        """
        seen, observed_ms = self.of(tip), self.observed_ms(tip, now_ms)
        said = observed_ms is not None and now_ms - observed_ms >= min_absence_ms
        true = any(now_ms - sighting.true_ms >= min_absence_ms for sighting in seen.sightings)
        return seen.under_way and said and true


def judge(event: Event, view: View, now_ms: int, min_absence_ms: int) -> None:
    """Judge an event of ours by what its writer had read."""
    tip = topic_id_partition_of(event)
    # Whether a partition has to be marked again was decided at the time that the event names. Its writer may have been
    # paused since, until a sighting that was from the future then is one to believe.
    seen, observed_ms = view.of(tip), view.observed_ms(tip, min(now_ms, event.event_timestamp_ms))
    assert event.broker_id == OURS, f"I6: written as broker {event.broker_id}: {event}"
    assert isinstance(event, RemoteLogSegmentMetadataUpdate | RemotePartitionDeleteMetadata), f"I6: {event}"
    settled = view.is_settled(tip, now_ms, min_absence_ms)
    assert int(event.state) == MARKED or not seen.without_add, f"I3: {event}, though its history is incomplete: {seen}"
    if isinstance(event, RemoteLogSegmentMetadataUpdate):
        step = seen.segments.get(event.remote_log_segment_id.id), int(event.state)
        assert step in {(0, 2), (1, 2), (2, 3)}, f"I6: {step} of {event.remote_log_segment_id}"
        assert seen.deletion == STARTED, f"I6: segment event outside a started deletion: {event}"
        assert settled, f"§7: {event} is not settled: {seen}"
        return
    target = int(event.state)
    if target == MARKED:
        _judge_marker(seen, observed_ms)
    elif target == STARTED:
        assert seen.under_way, f"I6: {seen.deletion} → STARTED"
        if seen.deletion == STARTED:
            # The marker's observation of a deletion of which none stands.
            assert observed_ms is None, "I8: started twice without a reason"
        else:
            assert settled, f"§7: started, not settled: {seen}"
    else:
        assert seen.deletion == STARTED, f"I6: {seen.deletion} → FINISHED"
        assert not seen.unfinished, f"I3: finished with {seen.unfinished} unfinished"
        assert settled, f"I3: finished after a foreign event, or too early: {seen}"


def _judge_marker(seen: PartitionModel, observed_ms: int | None) -> None:
    assert seen.deletion != STARTED, "I6: STARTED → MARKED"
    if seen.deletion == MARKED:
        # Where no observation stands one is made even if the leader has finished the last segment itself: without it
        # the partition could never be finished.
        assert observed_ms is None, "I8: marked twice without a reason"
    else:
        assert seen.unfinished, "I8: a partition without unfinished segments was marked"


def check_landing(event: Event, seen: PartitionModel, now: PartitionModel) -> None:
    """
    Judge an event of ours where it landed.

    Others may have written between its writer's last read and now. Then Kafka may drop it, and only such events are
    tolerated:

    - a segment event about a segment that is finished by now: brokers do not know the segment any more and ignore it;
    - a partition event that no longer follows: no broker reads them, and our own replay ignores it (a second FINISHED
      or a late STARTED of a finished deletion) or opens the partition again, which costs a run and deletes nothing.

    What a broker would choke on (an event after FINISHED on a broker that still serves the partition) cannot come from
    this: FINISHED is written for ids that are absent, min_absence after the last sign of life.
    """
    if isinstance(event, RemotePartitionDeleteMetadata):
        step = now.deletion, int(event.state)
        follows = step in PARTITION_STEPS or step[0] == step[1]
        harmless = True
    else:
        source, target = now.segments.get(event.remote_log_segment_id.id), int(event.state)
        follows = source == target or (source, target) in SEGMENT_STEPS
        harmless = source == 3
    assert follows or (harmless and now is not seen), f"I6: {event} does not follow {now}"
