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

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from uuid import UUID

from airflow_provider_rlmm.metadata.records import (
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
    """

    offset: int
    said_ms: int
    ours: bool


@dataclass(frozen=True, slots=True)
class PartitionModel:
    """
    What the log says about one user partition, as Kafka would understand it.

    :param segments: segment id → state, ``DELETE_SEGMENT_FINISHED`` included.
    :param deletion: state of the partition's deletion.
    :param sightings: every marker and repeated start of the deletion under way, after the last foreign segment event.
    :param marker_offset: offset of the marker of the deletion under way.
    """

    segments: Mapping[UUID, int] = field(default_factory=lambda: MappingProxyType({}))
    deletion: int | None = None
    sightings: tuple[Sighting, ...] = ()
    marker_offset: int | None = None

    @property
    def unfinished(self) -> list[UUID]:
        return [segment for segment, state in self.segments.items() if state != 3]

    @property
    def under_way(self) -> bool:
        return self.deletion in (MARKED, STARTED)

    def after(self, event: Event, offset: int, timestamp_ms: int) -> PartitionModel:
        """Return what the log says with one more record."""
        if isinstance(event, RemotePartitionDeleteMetadata):
            said_ms = max(event.event_timestamp_ms, timestamp_ms)
            return self._after_deletion(int(event.state), Sighting(offset, said_ms, event.broker_id == OURS))
        segment = event.remote_log_segment_id.id
        step = self.segments.get(segment), int(event.state)
        segments = {**self.segments, segment: step[1]} if step in SEGMENT_STEPS else self.segments
        return replace(self, segments=segments, sightings=self.sightings if event.broker_id == OURS else ())

    def _after_deletion(self, target: int, sighting: Sighting) -> PartitionModel:
        if target == FINISHED:
            return replace(self, deletion=FINISHED, sightings=(), marker_offset=None)
        if self.under_way:
            deletion = max(self.deletion or MARKED, target)
            return replace(self, deletion=deletion, sightings=(*self.sightings, sighting))
        if target == MARKED and (self.deletion is None or self.unfinished):
            return replace(self, deletion=MARKED, sightings=(sighting,), marker_offset=sighting.offset)
        return self


@dataclass
class LogModel:
    """Every state that every user partition was ever in, by the offset of the record that led to it."""

    states: dict[TopicIdPartition, list[tuple[int, PartitionModel]]] = field(default_factory=dict)
    metadata_partition_of: dict[TopicIdPartition, int] = field(default_factory=dict)
    ends: Counter[int] = field(default_factory=Counter)
    times: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Metadata partition → (offset, time) of the records whose writer's clock is believed: ours, and brokers' of segments."""

    def append(self, metadata_partition: int, event: Event, timestamp_ms: int) -> None:
        tip = topic_id_partition_of(event)
        offset = self.ends[metadata_partition]
        self.ends[metadata_partition] += 1
        self.metadata_partition_of[tip] = metadata_partition
        self.states.setdefault(tip, []).append((offset, self.at(tip).after(event, offset, timestamp_ms)))
        of_a_broker = event.broker_id >= 0 and not isinstance(event, RemotePartitionDeleteMetadata)
        if event.broker_id == OURS or of_a_broker:
            time_ms = max(event.event_timestamp_ms, timestamp_ms)
            self.times.setdefault(metadata_partition, []).append((offset, time_ms))

    def at(self, tip: TopicIdPartition, end: int | None = None) -> PartitionModel:
        """Return what the log says about a partition, up to an offset, exclusive."""
        for offset, state in reversed(self.states.get(tip, [])):
            if end is None or offset < end:
                return state
        return PartitionModel()

    def observed_ms(self, tip: TopicIdPartition, end: int, now_ms: int) -> int | None:
        """
        Tell since when a partition's absence stands, for somebody who has read up to an offset and knows the time.

        It stands since the first sighting in the log that is not from the future. When somebody else saw it is known
        only once a record with a time to believe came after it, and then it was the later of the two.
        """
        times = self.times.get(self.metadata_partition_of.get(tip, 0), [])
        for sighting in self.at(tip, end).sightings:
            after = [sighting.said_ms] if sighting.ours else [ms for o, ms in times if sighting.offset < o < end]
            if after and sighting.said_ms >= 0 and max(sighting.said_ms, after[0]) <= now_ms + SKEW_MS:
                return max(sighting.said_ms, after[0])
        return None

    def first_unsettled(self, metadata_partition: int) -> int | None:
        offsets = [
            self.at(tip).marker_offset for tip, p in self.metadata_partition_of.items() if p == metadata_partition
        ]
        return min((o for o in offsets if o is not None), default=None)


def is_settled(seen: PartitionModel, observed_ms: int | None, now_ms: int, min_absence_ms: int) -> bool:
    """Tell whether destructive work may be done on what was read: observed long enough ago, nobody else at work."""
    return seen.under_way and observed_ms is not None and now_ms - observed_ms >= min_absence_ms


def judge(event: Event, seen: PartitionModel, observed_ms: int | None, now_ms: int, min_absence_ms: int) -> None:
    """Judge an event of ours by what its writer had read; ``observed_ms`` is since when absence stands by that."""
    assert event.broker_id == OURS, f"I6: written as broker {event.broker_id}: {event}"
    assert isinstance(event, RemoteLogSegmentMetadataUpdate | RemotePartitionDeleteMetadata), f"I6: {event}"
    settled = is_settled(seen, observed_ms, now_ms, min_absence_ms)
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
