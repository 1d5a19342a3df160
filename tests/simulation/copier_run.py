# SPDX-License-Identifier: Apache-2.0
"""
What one run of a copier has read, asked and begun, and what it may therefore do: judged at each of its effects.

The judge shares no code with the copier. It knows the whole log, who wrote what, the leader's own log, and what time it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.log.answers import LeaderAnswer
from airflow_provider_rlmm.core.log.in_process import METADATA_TOPIC_ID, PublishEffect, ReadEffect
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.features.copying.rules import CopyLimits
from tests.simulation.clerk import CrashError, Trail
from tests.simulation.led import Replica
from tests.simulation.mistakes import HOUR_MS
from tests.simulation.model import SKEW_MS, Event, PartitionLog, PartitionModel, View

if TYPE_CHECKING:
    from tests.simulation.copying_world import CopyingWorld

COPIER = -2
COPYING, COPIED, DELETING, DELETED = 0, 1, 2, 3
LONGEST_SLEEP_MS = 20 * HOUR_MS
"""Who is silent for ``min_absence`` and then goes on is not promised anything; who sleeps for longer than this dies."""


@dataclass
class CopierRun:
    """
    One run of the copier on one log directory, as seen from outside.

    :param world: where it runs.
    :param replica: the log directory.
    :param limits: limits of the run.
    :param crash_at: number of its effect at which it crashes, ``None`` for never.
    :param crash_in_changes: count only effects that change something.
    :param clocks_ahead_ms: how far its worker's clock is ahead.
    :param announced: the segments that it has announced → when, as it says: its lease begins then.
    :param told: why it ended, in its own words.
    :param ended: what stopped it, empty where nothing did.
    """

    world: CopyingWorld
    replica: Replica
    limits: CopyLimits = field(default_factory=CopyLimits)
    crash_at: int | None = None
    crash_in_changes: bool = False
    clocks_ahead_ms: Sequence[int] = (0,)
    effects: int = 0
    changes: int = 0
    tasks: int = 0
    announced: dict[UUID, int] = field(default_factory=dict)
    in_doubt: set[TopicIdPartition] = field(default_factory=set)
    told: list[str] = field(default_factory=list)
    ended: str = ""
    trail: Trail = field(default_factory=Trail)
    _last_ms: int | None = None
    _log: PartitionLog = field(default_factory=PartitionLog)
    _end: int = 0
    _asked_for: int = -1
    _answer: LeaderAnswer | None = None
    _answered: bool = False
    _changed: bool = False
    _samples: bool = False
    _before_this: str = ""
    _judged: dict[bytes, View] = field(default_factory=dict)

    @property
    def tip(self) -> TopicIdPartition:
        return self.replica.topic_id_partition

    @property
    def clock_ahead_ms(self) -> int:
        return self.clocks_ahead_ms[self.tasks % len(self.clocks_ahead_ms)]

    def begin_task(self) -> None:
        self.trail = Trail()

    def judged(self, value: bytes) -> View:
        """Return what the run had read when it published a record."""
        return self._judged[value]

    # --- what it does ------------------------------------------------------------------------------------------------

    def before(self, name: str, detail: Any) -> None:
        """Judge an effect that is about to happen."""
        now_ms = self.world.now_ms
        slept_ms = 0 if self._last_ms is None else now_ms - self._last_ms
        self.world.happened["slept through its lease"] += slept_ms >= self.limits.lease_ms
        if slept_ms > LONGEST_SLEEP_MS:
            raise CrashError("asleep for too long")
        if name == "publish":
            self._before_publish(detail)
        elif name == "delete":
            self._before_delete(detail)
        elif name == "commit":
            raise AssertionError("a copier commits offsets")

    def after(self, name: str, detail: Any) -> None:
        """Take note of an effect that has happened."""
        self._last_ms = self.world.now_ms
        if name == "beginning_offsets":
            # Right after the high watermarks: a look at other metadata partitions, where its own is empty.
            self._samples = self._before_this == "high_water_marks"
        elif name == "ask":
            self._samples = False
        self._before_this = name
        if self._samples:
            return
        if name == "high_water_marks":
            self._asked_for, self._changed = self.world.model.ends[self._home], False
        elif name == "read":
            self._note_read(detail)
        elif name == "ask":
            self._answer, self._answered = detail, self._end == self._asked_for
        elif name == "put":
            self._judge_put(detail)
        if name in ("put", "delete", "publish"):
            self._changed, self._answered = True, self._answered and name == "delete"

    def _note_read(self, effect: ReadEffect) -> None:
        if effect.metadata_partition == self._home:
            self._end = max(self._end, effect.end)
            self._log = self.world.model.logs[self._home]

    @property
    def _home(self) -> int:
        return self.world.home_of(self.tip)

    # --- what it may do -----------------------------------------------------------------------------------------------

    def _before_publish(self, effect: PublishEffect) -> None:
        event: Event = deserialize(effect.value)  # type: ignore[assignment]  # the isinstance below refuses the rest
        assert isinstance(event, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate), f"C1: {event}"
        assert event.broker_id == COPIER, f"C1: written as broker {event.broker_id}: {event}"
        assert topic_id_partition_of(event) == self.tip, f"C1: {event} is not about {self.tip}"
        assert effect.metadata_partition == self._home, f"C1: {event} lands in {effect.metadata_partition}"
        assert self._end == self._asked_for, f"C2: {event} without having read up to the high watermark"
        rolls_back = int(event.state) == DELETED  # it says what this run has done, and rests on what it saw before
        assert rolls_back or not self._changed, f"C2: {event} without a new read"
        assert self._answered, f"C2: {event}, and the leader was not asked after the log was read"
        answer = self._answer
        assert answer is not None, f"C2: {event}, though the cluster has no such topic"
        assert answer.metadata_topic_id == METADATA_TOPIC_ID, f"C2: {event}, and another cluster's leader was asked"
        view = View(self._log, 0, self._end)
        seen = view.of(self.tip)
        bad = [offset for offset in self.world.undecodable[self._home] if offset < self._end]
        assert not bad, f"C3: {event}, though nobody can read {bad}"
        assert not seen.without_add, f"C3: {event}, though {seen.without_add} were never announced"
        assert seen.deletion is None, f"C3: {event}, though it was declared deleted: {seen}"
        self._judged[effect.value] = view
        step = seen.segments.get(event.remote_log_segment_id.id), int(event.state)
        assert step in {(None, COPYING), (COPYING, COPIED), (COPYING, DELETING), (DELETING, DELETED)}, f"C3: {step}"
        if isinstance(event, RemoteLogSegmentMetadata):
            self._judge_announcement(event, seen, answer)
            self.world.note_announcement(event)
            self.announced[event.remote_log_segment_id.id] = event.event_timestamp_ms
            return
        metadata = self._ours(event.remote_log_segment_id)
        self._judge_never_copied(event.remote_log_segment_id, event)
        if event.state == COPIED:
            self._judge_finished(metadata, seen, answer)
        else:
            self._judge_roll_back(event)

    def _ours(self, segment_id: RemoteLogSegmentId) -> RemoteLogSegmentMetadata:
        metadata = self.world.metadata_of[segment_id.id]
        writers = {event.broker_id for event in self._events_of(segment_id)}
        assert metadata.broker_id == COPIER, f"C4: {segment_id} is somebody else's"
        assert writers <= {COPIER}, f"C4: {segment_id} is somebody else's: {writers}"
        return metadata

    def _events_of(self, segment_id: RemoteLogSegmentId) -> list[Any]:
        """Return the events about a segment that the run has read."""
        events = (record.event for record in self._log.up_to(self._end))
        return [e for e in events if getattr(e, "remote_log_segment_id", None) == segment_id]

    def _judge_never_copied(self, segment_id: RemoteLogSegmentId, what: object) -> None:
        states = [int(event.state) for event in self._events_of(segment_id)]
        # A FINISHED behind the deletion's start was no copy for anybody.
        copied = COPIED in states and DELETING not in states[: states.index(COPIED)]
        assert not copied, f"C5: {what}, though {segment_id} was copied: {states}"

    def _judge_announcement(self, event: RemoteLogSegmentMetadata, seen: PartitionModel, answer: LeaderAnswer) -> None:
        assert event.remote_log_segment_id.id not in self.world.metadata_of, f"C1: {event} is announced again"
        assert not self.trail.stopped, f"I16: {event} though the switch is on"
        others = [s for s, state in seen.segments.items() if state == COPYING]
        assert not others, f"C6: {event} beside {others}"
        self._judge_copy(event, seen, answer)

    def _judge_copy(self, metadata: RemoteLogSegmentMetadata, seen: PartitionModel, answer: LeaderAnswer) -> None:
        """What must hold before a segment is announced, and again before its copy is finished."""
        configs, offsets, led = answer.configs, answer.offsets, self.replica.led
        assert answer.topic_id_partition == self.tip, f"C2: {metadata}, though the cluster has {answer}"
        allowed = configs.remote_storage_enable and configs.remote_log_copy_disable
        assert allowed, f"C2: {metadata} though its configs forbid it: {configs}"
        assert configs.cleanup_policy == {"delete"}, f"C2: {metadata} though its configs forbid it: {configs}"
        assert offsets is not None, f"C2: {metadata} without a leader"
        assert metadata.end_offset < offsets.last_stable_offset, f"C7: {metadata} beyond the committed end"
        assert metadata.end_offset >= offsets.log_start_offset, f"C7: {metadata} below the log start"
        truth = next((s for s in led.segments if s.end_offset == metadata.end_offset), None)
        assert truth is not None, f"C7: {metadata} is no segment of the leader's log"
        assert truth.base_offset == metadata.start_offset, f"C7: {metadata} is not {truth}"
        assert self.replica.is_the_leaders(metadata.end_offset), f"C7: {metadata} holds records of a diverged replica"
        assert self.replica.damaged != metadata.start_offset, f"C7: {metadata} is damaged"
        mine = metadata.remote_log_segment_id.id
        finished = [self.world.metadata_of[s] for s, state in seen.segments.items() if state == COPIED and s != mine]
        first = max(offsets.log_start_offset, metadata.segment_leader_epochs[0][1])
        soon = self.world.now_ms + self.limits.retention_margin_ms + SKEW_MS
        hole = uncovered(finished, max(offsets.log_start_offset, led.expired_end(soon)), first)
        assert not hole, f"C8: {metadata} behind a hole at {hole}"
        double = not uncovered(finished, first, metadata.end_offset + 1)
        assert not double, f"C9: {metadata} is in remote storage already: {finished}"

    def _judge_finished(self, metadata: RemoteLogSegmentMetadata, seen: PartitionModel, answer: LeaderAnswer) -> None:
        segment_id = metadata.remote_log_segment_id
        assert segment_id.id in self.announced, f"C6: {segment_id} was announced by another run"
        foreign = [s for s, state in seen.segments.items() if state == COPYING and not self.world.is_copiers(s)]
        assert not foreign, f"C6: {segment_id} finished beside {foreign}"
        self._judge_copy(metadata, seen, answer)
        self._judge_lease(segment_id, self._last_ms)
        # Somebody who took it for abandoned may have begun to take it back since it was looked at.
        if self.world.model.at(self.tip).segments.get(segment_id.id) == COPYING:
            missing = set(self.world.layout.required_keys(metadata)) - self.world.keys
            assert not missing, f"C10: {segment_id} is finished and lacks {missing}"

    def _judge_lease(self, segment_id: RemoteLogSegmentId, looked_ms: int | None) -> None:
        assert looked_ms is not None
        age_ms = looked_ms - self.announced[segment_id.id]
        assert age_ms < self.limits.lease_ms // 2 + SKEW_MS, f"C11: {segment_id} goes on though its lease is lost"

    def _judge_roll_back(self, event: RemoteLogSegmentMetadataUpdate) -> None:
        segment_id = event.remote_log_segment_id
        if event.state == DELETED:
            left = self.world.objects_of_segment(segment_id)
            assert not left, f"C10: {segment_id} is said to be deleted, and {left} are there"
        elif segment_id.id not in self.announced:
            self._judge_abandoned(segment_id)

    def _judge_abandoned(self, segment_id: RemoteLogSegmentId) -> None:
        age_ms = self.world.now_ms - self.world.announced_ms[segment_id.id]
        assert age_ms >= self.limits.lease_ms - 2 * SKEW_MS, f"C11: {segment_id} is taken back from a run that may live"

    def _judge_put(self, key: str) -> None:
        segment_id = self.world.segment_of(key)
        assert segment_id is not None, f"C4: {key} is put, which is of no segment"
        assert segment_id.id in self.announced, f"C4: {key} is put, which is of no segment of this run"
        state = View(self._log, 0, self._end).of(self.tip).segments.get(segment_id.id)
        assert state == COPYING, f"C6: {key} is put in state {state}"
        assert not self.trail.stopped, f"I16: {key} is put though the switch is on"
        self._judge_lease(segment_id, self.world.now_ms)

    def _before_delete(self, key: str) -> None:
        segment_id = self.world.segment_of(key)
        assert segment_id is not None, f"C4: {key} goes, which is of no segment"
        assert self.world.is_copiers(segment_id.id), f"C4: {key} goes, which is somebody else's"
        state = View(self._log, 0, self._end).of(self.tip).segments.get(segment_id.id)
        assert state in (DELETING, DELETED), f"C5: {key} goes in state {state}"
        self._judge_never_copied(segment_id, f"{key} goes")


def uncovered(copies: Sequence[RemoteLogSegmentMetadata], start: int, end: int) -> list[int]:
    """Return the offsets from a start (inclusive) to an end (exclusive) that no copy holds."""
    return [
        offset
        for offset in range(start, end)
        if not any(m.segment_leader_epochs[0][1] <= offset <= m.end_offset for m in copies)
    ]
