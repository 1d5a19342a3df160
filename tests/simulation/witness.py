# SPDX-License-Identifier: Apache-2.0
"""What one process of ours has read and seen so far, and what it may therefore do: checked at each of its effects."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.manager.in_process import PublishEffect
from airflow_provider_rlmm.metadata.records import (
    RemoteLogSegmentId,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.metadata.serde import deserialize
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState as S
from tests.simulation.content import STAMP_KEY
from tests.simulation.model import FINISHED, Event, PartitionModel, is_settled, judge

if TYPE_CHECKING:
    from tests.simulation.world import World

BATCH_SEGMENTS = 2
MIN_ABSENCE_MS = 24 * 3_600_000
LOOKING = {"list_topics", "describe_topics", "read", "cluster_id", "beginning_offsets"}


@dataclass
class Process:
    """
    One run of the DAG, as seen from outside.

    :param world: where it runs.
    :param dry_run: it must change nothing.
    :param crash_at: number of its effect at which it crashes, ``None`` for never.
    :param crash_in_changes: count only effects that change something.
    :param worker_ahead_ms: how far its worker's own clock is ahead.
    :param read_until: metadata partition → high watermark that it last asked for.
    :param looked_at: topic ids that the cluster showed at its last look.
    :param in_doubt: partitions about which a record of the present task may or may not land.
    """

    world: World
    dry_run: bool = False
    crash_at: int | None = None
    crash_in_changes: bool = False
    worker_ahead_ms: int = 0
    effects: int = 0
    changes: int = 0
    read_until: Counter[int] = field(default_factory=Counter)
    looked_at: frozenset[UUID] = frozenset()
    in_doubt: set[TopicIdPartition] = field(default_factory=set)
    _judged: dict[bytes, PartitionModel] = field(default_factory=dict)
    _read_since_publish: bool = False
    _looked_since_publish: bool = False
    _touched_since_look: set[RemoteLogSegmentId] = field(default_factory=set)
    _only_looked_since_read: bool = False

    def before(self, name: str, detail: Any) -> None:
        """Judge an effect that is about to happen."""
        if name in ("publish", "delete", "put", "commit"):
            assert not self.dry_run, f"a dry run does {name} {detail}"
        if name == "publish":
            self._before_publish(detail)
        elif name == "delete":
            self._before_delete(detail)
        elif name == "put":
            assert detail == STAMP_KEY, f"put {detail}"
            assert not self.world.hidden, "I2: a strange storage root was stamped as verified"
        elif name == "commit":
            for metadata_partition, offset in detail.items():
                unsettled = self.world.model.first_unsettled(metadata_partition)
                assert unsettled is None or offset <= unsettled, f"I4: committed {offset}, unsettled {unsettled}"

    def after(self, name: str, detail: Any) -> None:
        """Take note of an effect that has happened."""
        if name == "high_water_marks":
            self.read_until = Counter(self.world.model.ends)
            self._read_since_publish = True
            self._only_looked_since_read = True
            return
        if name == "describe_topics":
            # A listing only supplies names: what was asked for and answered with an id was seen.
            self.looked_at = frozenset(i for name, i in self.world.topics.topics.items() if name in detail)
            self._touched_since_look.clear()
            self._looked_since_publish = True
        if name not in LOOKING:
            self._only_looked_since_read = False

    def seen(self, tip: TopicIdPartition) -> PartitionModel:
        """Return what the process can know of a partition."""
        metadata_partition = self.world.model.metadata_partition_of.get(tip, 0)
        return self.world.model.at(tip, self.read_until[metadata_partition])

    def observed_ms(self, tip: TopicIdPartition) -> int | None:
        """Return since when a partition's absence stands by what the process can know."""
        end = self.read_until[self.world.model.metadata_partition_of.get(tip, 0)]
        return self.world.model.observed_ms(tip, end, self.world.now_ms)

    def judged(self, value: bytes) -> PartitionModel:
        """Return what the process knew when it published a record."""
        return self._judged[value]

    def _require_absent(self, tip: TopicIdPartition, what: object) -> None:
        assert tip.topic_id not in self.world.living_ids(), f"I7: {what} is of the living {tip}"
        assert tip.topic_id not in self.looked_at, f"I7: {what}, though its last look showed {tip}"

    def _before_publish(self, effect: PublishEffect) -> None:
        event: Event = deserialize(effect.value)  # type: ignore[assignment]  # judge() refuses what is no event of ours
        tip = topic_id_partition_of(event)
        if effect.index == 0:
            assert self._read_since_publish, f"I6: {event} without having read back the batch before it"
            fresh_look = self._looked_since_publish
            assert fresh_look or event.state is S.DELETE_SEGMENT_FINISHED, f"I7: {event} without a new look"
            self._read_since_publish = self._looked_since_publish = False
        seen = self._judged[effect.value] = self.seen(tip)
        self._require_absent(tip, event)
        judge(event, seen, self.observed_ms(tip), self.world.now_ms, MIN_ABSENCE_MS)
        if isinstance(event, RemotePartitionDeleteMetadata):
            if int(event.state) == FINISHED:
                assert self._only_looked_since_read, "I3: finished on an old replay"
                assert tip not in self.in_doubt, "I3: finished while a record of this run may still land"
            return
        segment = event.remote_log_segment_id
        if segment in self.world.lost:
            assert seen.segments[segment.id] != S.COPY_SEGMENT_FINISHED, f"I2: {segment} was never seen in storage"
        if event.state is S.DELETE_SEGMENT_FINISHED:
            left = self.world.objects_of_segment(segment)
            assert not left, f"I2: {segment} finished while {left} are there"

    def _before_delete(self, key: str) -> None:
        segment = self.world.segment_of(key)
        assert segment is not None, f"deleted a key of no known segment: {key}"
        tip = segment.topic_id_partition
        self._require_absent(tip, f"deleting {key}")
        seen = self.seen(tip)
        state = seen.segments.get(segment.id)
        assert state == S.DELETE_SEGMENT_STARTED, f"I1: {key} deleted, its last state read is {state}"
        settled = is_settled(seen, self.observed_ms(tip), self.world.now_ms, MIN_ABSENCE_MS)
        assert settled, f"§7: {key} deleted, not settled: {seen}"
        self._touched_since_look.add(segment)
        assert len(self._touched_since_look) <= BATCH_SEGMENTS, "I7: more than a batch deleted after one look"
