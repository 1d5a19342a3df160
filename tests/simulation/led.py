# SPDX-License-Identifier: Apache-2.0
"""A living user partition whose leader does not copy it, the log directories of its replicas, and what its leader answers."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.core.base.errors import DamagedObjectError, EventLogAccessError
from airflow_provider_rlmm.core.log.answers import CopyConfigs, LeaderAnswer, LeaderOffsets, LeaderRecord
from airflow_provider_rlmm.core.log.in_process import METADATA_TOPIC_ID
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.storage.segment_files import LogSegmentData
from airflow_provider_rlmm.features.copying.copy_situation import DirectoryFacts
from airflow_provider_rlmm.features.copying.copy_source import ReadyCopy
from airflow_provider_rlmm.features.copying.rules import LocalSegment
from tests.simulation.mistakes import ANOTHER_METADATA_TOPIC, CLUSTER, HOUR_MS

if TYPE_CHECKING:
    from tests.simulation.copying_world import CopyingWorld

SEGMENT_OFFSETS = 10
ACTIVE_RECORDS = 5
NOT_COPIED = CopyConfigs(True, True, frozenset({"delete"}), -1, -1)
LINEAGES = [((0, 0),), ((0, 0), (3, 15)), ((0, 0), (1, 10), (4, 23)), ((2, 0), (3, 12), (5, 14))]


@dataclass
class Led:
    """
    The leader's own log: closed segments of ten offsets, and an active one.

    :param tip: the user partition.
    :param epochs: its lineage.
    :param segments: its closed segments, ascending, those below the log start included.
    :param control: offsets of control records: nobody is served these.
    :param configs: of the topic.
    :param log_start: first offset, inclusive.
    :param stable: end for ``read_committed``, exclusive.
    """

    tip: TopicIdPartition
    epochs: LeaderEpochCheckpoint
    segments: tuple[LocalSegment, ...]
    control: frozenset[int] = frozenset()
    configs: CopyConfigs = NOT_COPIED
    log_start: int = 0
    stable: int = 0

    @property
    def active_base(self) -> int:
        return self.segments[-1].end_offset + 1

    @property
    def high_watermark(self) -> int:
        return self.active_base + ACTIVE_RECORDS

    @property
    def offsets(self) -> LeaderOffsets:
        return LeaderOffsets(self.log_start, max(self.stable, self.log_start), self.high_watermark)

    def record(self, offset: int) -> LeaderRecord | None:
        """Return the record at an offset, ``None`` for a control record."""
        epoch = self.epochs.epoch_for_offset(offset)
        if offset in self.control or epoch is None:
            return None
        return LeaderRecord(offset, epoch, 0, None, b"%d" % offset)

    def expired_end(self, now_ms: int) -> int:
        """Return where the first segment begins that has not expired by ``retention.ms``."""
        for segment in self.segments:
            kept = self.configs.retention_ms < 0 or segment.max_timestamp_ms >= now_ms - self.configs.retention_ms
            if segment.end_offset >= self.log_start and kept:
                return max(self.log_start, segment.base_offset)
        return self.active_base


def draw_led(draw: random.Random, tip: TopicIdPartition, now_ms: int) -> Led:
    """Return a user partition of two to four closed segments."""
    epochs = LeaderEpochCheckpoint(draw.choice(LINEAGES))
    bases = range(0, SEGMENT_OFFSETS * draw.randint(2, 4), SEGMENT_OFFSETS)
    written_ms = now_ms - draw.choice([0, 0, 4 * HOUR_MS + 1, 4 * HOUR_MS + 1])
    segments = tuple(
        LocalSegment(
            base,
            base + SEGMENT_OFFSETS - 1,
            1000,
            written_ms + (base // SEGMENT_OFFSETS) * 6 * HOUR_MS,
            epochs.in_range(base, base + SEGMENT_OFFSETS).entries,
            True,
        )
        for base in bases
    )
    retention_ms = draw.choice([-1, -1, -1, 5 * HOUR_MS, 5 * HOUR_MS, 20 * HOUR_MS])
    led = Led(tip, epochs, segments, configs=replace(NOT_COPIED, retention_ms=retention_ms))
    led.control = frozenset(draw.choice([[], [], [9], [19, 20], [s.end_offset for s in segments]]))
    led.log_start = draw.choice([0, 0, 0, 5])
    led.stable = led.high_watermark - draw.choice([0, 0, 0, 3, 8])
    return led


@dataclass
class Replica:
    """
    The log directory of a replica: a :class:`~airflow_provider_rlmm.features.copying.copy_source.CopySource`.

    :param topic_id_partition: whose it is, as its ``partition.metadata`` says.
    :param led: the leader's log, which it should be a copy of.
    :param segments: its closed segments, ascending.
    :param end: end of its log, exclusive.
    :param active_base: base offset of its active segment.
    :param log_start: its own log start offset.
    :param damaged: base offset of a segment that does not pass its verification.
    :param diverged_from: the first offset at which it has records of its own.
    :param before: called when a file is read; it may raise.
    """

    topic_id_partition: TopicIdPartition
    led: Led
    segments: tuple[LocalSegment, ...]
    end: int
    active_base: int
    log_start: int = 0
    damaged: int | None = None
    diverged_from: int | None = None
    before: Callable[[], object] = field(default=lambda: None)

    @property
    def leader_epochs(self) -> LeaderEpochCheckpoint:
        return self.led.epochs.truncate_from_start(self.log_start).truncate_from_end(self.end)

    def facts(self) -> DirectoryFacts:
        epochs = self.leader_epochs
        kept = tuple(
            replace(s, leader_epochs=epochs.in_range(s.base_offset, s.end_offset + 1).entries)
            for s in self.segments
            if s.end_offset >= self.log_start
        )
        return DirectoryFacts(self.topic_id_partition, epochs, kept, self.log_start, self.active_base, None)

    def verify(self, segment: LocalSegment) -> ReadyCopy:
        self.before()
        if segment.base_offset == self.damaged:
            raise DamagedObjectError(f"{segment} is damaged", f"{segment.base_offset}.log", 0)
        text = self.leader_epochs.in_range(-1, segment.end_offset + 1).to_text().encode()
        files: list[Any] = [b"log", b"index", b"time index", b"snapshot"]
        return ReadyCopy(segment, LogSegmentData(*files, text), lambda: None)

    def expect(self, segment: LocalSegment) -> None:
        """In one thread nothing is begun ahead."""

    def last_records(self, start_offset: int, end_offset: int) -> tuple[LeaderRecord, ...]:
        last: dict[int, LeaderRecord] = {}
        for offset in range(max(start_offset, self.log_start), min(end_offset, self.end)):
            if (record := self.led.record(offset)) is not None:
                diverged = self.diverged_from is not None and offset >= self.diverged_from
                assert record.leader_epoch is not None
                last[record.leader_epoch] = replace(record, value=b"nobody else's") if diverged else record
        return tuple(last.values())

    def is_the_leaders(self, end_offset: int) -> bool:
        """Tell whether it is the leader's log up to an offset, inclusive."""
        return self.diverged_from is None or end_offset < self.diverged_from


SHORT = ("empty", "empty", "emptied", "behind", "truncated")
"""What a log directory is that holds some of the closed segments only, or none."""


def draw_replica(draw: random.Random, led: Led, *, short: bool = False) -> Replica:
    """
    Return a log directory, whole and equal to the leader's as often as not.

    :param draw: decides.
    :param led: the leader's log.
    :param short: whether it is to hold less than the leader does.
    """
    replica = whole_replica(led)
    what = draw.choice(SHORT if short else ["whole"] * 5 + ["gap", "damaged", "diverged", *SHORT])
    some = draw.choice(led.segments)
    if what == "behind":
        replica.segments = tuple(s for s in led.segments if s.base_offset < some.base_offset)
        replica.end, replica.active_base = some.base_offset + draw.choice([0, 3]), some.base_offset
    elif what == "gap":
        replica.segments = tuple(s for s in led.segments if s is not some)
    elif what == "damaged":
        replica.damaged = some.base_offset
    elif what == "diverged":
        replica.diverged_from = some.base_offset + draw.randrange(SEGMENT_OFFSETS)
    elif what == "truncated":
        replica.log_start = some.base_offset + draw.choice([0, 5])
    elif what == "empty":
        replica.segments, replica.end, replica.active_base = (), 0, 0
    elif what == "emptied":
        replica.segments = ()
    return replica


def whole_replica(led: Led) -> Replica:
    """Return a log directory that lacks nothing."""
    return Replica(led.tip, led, led.segments, led.high_watermark, led.active_base)


class ScriptedLeader:
    """
    A :class:`~airflow_provider_rlmm.core.log.living_leader.LivingLeader`: the brokers, as one run of a copier meets them.

    :param world: where they lead.
    """

    def __init__(self, world: CopyingWorld) -> None:
        self._world = world
        self._before, self._after = world._hooks(self)

    def ask(self, topic: str, partition: int) -> LeaderAnswer | None:
        self._before("ask", topic)
        answer = self._answer(topic)
        self._after("ask", answer)
        return answer

    def _answer(self, topic: str) -> LeaderAnswer | None:
        world = self._world
        self._require_allowed(topic)
        led = world.led_of(topic)
        if led is None:
            return None
        answer = LeaderAnswer(led.tip, METADATA_TOPIC_ID, False, led.configs, led.offsets)
        if CLUSTER in world.kinds and world.adversary.random() < 0.05:
            world.happened["another cluster's leader"] += 1
            answer = replace(answer, metadata_topic_id=ANOTHER_METADATA_TOPIC)
        return answer

    def _require_allowed(self, topic: str) -> None:
        if topic in self._world.denied:
            self._world.happened["denied at the leader"] += 1
            raise EventLogAccessError(f"nobody may describe {topic}")

    def record_at(self, topic_id_partition: TopicIdPartition, offset: int) -> LeaderRecord | None:
        self._before("record_at", offset)
        led = self._world.led_of(topic_id_partition.topic)
        served = led is not None and led.tip == topic_id_partition and led.log_start <= offset < led.high_watermark
        record = led.record(offset) if led is not None and served else None
        self._after("record_at", record)
        return record
