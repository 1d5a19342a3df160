# SPDX-License-Identifier: Apache-2.0
"""
A small cluster in memory: a log, a store, topics, a virtual clock, and an adversary between the cleaner and all of them.

The adversary sees every effect before and after it happens. It checks the invariants there, and it may let the effect
fail or the process crash. One seed makes one world; the same seed makes the same world again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.errors import StorageUnavailableError
from airflow_provider_rlmm.lifecycle.cleaner import RemoteLogCleaner
from airflow_provider_rlmm.lifecycle.marker import DeletedPartitionMarker
from airflow_provider_rlmm.lifecycle.planner import CleanupPlanner
from airflow_provider_rlmm.lifecycle.reports import MetadataPartitionReport
from airflow_provider_rlmm.manager.event_log import Failed, Unknown
from airflow_provider_rlmm.manager.in_process import InProcessClusterTopics, InProcessMetadataEventLog, PublishEffect
from airflow_provider_rlmm.manager.offsets import InProcessOffsetStore
from airflow_provider_rlmm.manager.write_guard import GuardedPublisher
from airflow_provider_rlmm.metadata.partitioner import metadata_partition_for
from airflow_provider_rlmm.metadata.records import (
    RemoteLogMetadata,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.metadata.serde import deserialize, serialize
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.policy.guards import CleanerLimits
from airflow_provider_rlmm.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.storage.layouts import LocalTieredStorageLayout
from tests.simulation.model import LogModel

METADATA_PARTITIONS = 2
CLUSTER_ID = "simulated-cluster-id-1"
MIN_ABSENCE_MS = 60_000
BROKER = 1


class CrashError(Exception):
    """The process is gone; nothing after this effect happens."""


class World:
    """
    :param seed: decides the world's content and the adversary's choices.
    :param crash_at: number of the effect at which the process crashes, ``None`` for never.
    :param fault_rate: probability of a fault at an effect that can fail, 0 to 1.
    """

    def __init__(self, seed: int, *, crash_at: int | None = None, fault_rate: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.adversary = random.Random(seed + 1_000_003)
        self.now_ms = 1_800_000_000_000
        self.crash_at = crash_at
        self.fault_rate = fault_rate
        self.effects: Counter[str] = Counter()
        self.effect_count = 0
        self.model = LogModel()
        self.ends: Counter[int] = Counter()
        self.layout = LocalTieredStorageLayout()
        self.log = InProcessMetadataEventLog(METADATA_PARTITIONS, clock=self.clock)
        self.storage = InMemoryRemoteStorageManager(self.layout)
        self.topics = InProcessClusterTopics(cluster_id=CLUSTER_ID)
        self.offsets = InProcessOffsetStore()
        self.segment_of_stem: dict[str, RemoteLogSegmentId] = {}
        self.gone: list[TopicIdPartition] = []
        self.alive: list[TopicIdPartition] = []
        self._populate()
        self.alive_objects = self._objects_of(self.alive)
        for part in (self.log, self.storage, self.topics, self.offsets):
            part.on_effect = self._hook(part, "before")
            part.after_effect = self._hook(part, "after")

    def clock(self) -> int:
        return self.now_ms

    # --- content -------------------------------------------------------------------------------------------------

    def _populate(self) -> None:
        name = "gone"
        # In some worlds nothing else is left that could prove whose storage root this is.
        lonely = self.random.random() < 0.25
        if not lonely:
            self._populate_living(name)
        topic_id = self._uuid()
        for partition in range(self.random.randint(1, 2)):
            tip = TopicIdPartition(topic_id, name, partition)
            self.gone.append(tip)
            states = [S(self.random.randint(0, 3)) for _ in range(self.random.randint(1, 4))]
            for state in [S.COPY_SEGMENT_FINISHED, *states] if lonely else states:
                self._segment(tip, state)

    def _populate_living(self, gone: str) -> None:
        alive = TopicIdPartition(self.topics.create("alive", self._uuid()), "alive", 0)
        self.alive.append(alive)
        for _ in range(self.random.randint(1, 3)):
            self._segment(alive, S.COPY_SEGMENT_FINISHED)
        if self.random.random() < 0.3:  # re-created under the same name
            twin = TopicIdPartition(self.topics.create(gone, self._uuid()), gone, 0)
            self.alive.append(twin)
            self._segment(twin, S.COPY_SEGMENT_FINISHED)

    def _uuid(self) -> UUID:
        return UUID(int=self.random.getrandbits(128))

    def _segment(self, tip: TopicIdPartition, state: S) -> None:
        """Write the history of one segment as a broker would, and put the objects that its state allows."""
        partition_segments = [s for s in self.segment_of_stem.values() if s.topic_id_partition == tip]
        start = 10 * len(partition_segments)
        segment_id = RemoteLogSegmentId(tip, self._uuid())
        metadata = RemoteLogSegmentMetadata(
            segment_id,
            start,
            start + 9,
            1,
            BROKER,
            self.now_ms,
            1000,
            None,
            S.COPY_SEGMENT_STARTED,
            ((0, start),),
            True,
        )
        self.foreign(metadata)
        path = {0: [], 1: [1], 2: self.random.choice([[2], [1, 2]]), 3: [1, 2, 3]}[int(state)]
        for step in path:
            self.foreign(RemoteLogSegmentMetadataUpdate(segment_id, self.now_ms, None, S(step), BROKER))
        keys: tuple[str, ...] = tuple(self.layout.segment_keys(metadata).required)
        self.segment_of_stem[self.layout.segment_stem(metadata)] = segment_id
        if state == S.DELETE_SEGMENT_FINISHED:
            keys = ()
        elif state != S.COPY_SEGMENT_FINISHED:
            keys = tuple(k for k in keys if self.random.random() < 0.6)
        for key in keys:
            self.storage.put_object(key, b"x" * 10)

    def foreign(self, event: RemoteLogMetadata) -> None:
        """Append an event that somebody else wrote."""
        assert not isinstance(event, bytes)
        tip = topic_id_partition_of(event)  # type: ignore[arg-type]  # snapshots are never written here
        metadata_partition = metadata_partition_for(tip, METADATA_PARTITIONS)
        value = serialize(event)
        self._apply(metadata_partition, self.log.append(metadata_partition, value), value)

    def _apply(self, metadata_partition: int, offset: int, value: bytes) -> None:
        self.ends[metadata_partition] = offset + 1
        self.model.apply(metadata_partition, offset, value)

    def late_copy(self, tip: TopicIdPartition) -> None:
        """A zombie leader finishes copying a segment of the deleted topic."""
        self._segment(tip, S.COPY_SEGMENT_FINISHED)

    def _objects_of(self, tips: list[TopicIdPartition]) -> set[str]:
        prefixes = tuple(self.layout.partition_prefix(tip) for tip in tips)
        return {key for key in self.storage.keys if key.startswith(prefixes)}

    # --- the adversary -------------------------------------------------------------------------------------------

    def _hook(self, part: object, when: str) -> Callable[[str, Any], Any]:
        def hook(name: str, detail: Any) -> Any:
            self.effects[f"{when} {name}"] += 1
            if when == "before":
                self._check_before(name, detail)
            elif name == "publish":
                self._note_published(detail)
            self._count_and_crash(f"{when} {name}")
            return self._fault(part, when, name)

        return hook

    def _count_and_crash(self, what: str) -> None:
        self.effect_count += 1
        if self.crash_at == self.effect_count:
            raise CrashError(what)

    def _fault(self, part: object, when: str, name: str) -> Any:
        if self.adversary.random() >= self.fault_rate:
            return None
        if part is self.log and name == "publish":
            if when == "after":
                return Unknown("reply lost")
            return self.adversary.choice([Failed("refused", retriable=True), Unknown("timed out")])
        if part is self.storage and name == "delete":
            raise StorageUnavailableError("delete refused" if when == "before" else "reply lost")
        return None

    def _check_before(self, name: str, detail: Any) -> None:
        if name == "publish":
            assert isinstance(detail, PublishEffect)
            event = deserialize(detail.value)
            tip = topic_id_partition_of(event)  # type: ignore[arg-type]
            assert tip.topic_id not in self.topics.topics.values(), f"I7: event about the living {tip}"
            assert event.broker_id == -1
            if isinstance(event, RemoteLogSegmentMetadataUpdate) and event.state == S.DELETE_SEGMENT_FINISHED:
                left = [k for k in self._keys() if self._segment_of(k) == event.remote_log_segment_id]
                assert not left, f"I2: finished while {left} are there"
        elif name == "delete":
            segment_id = self._segment_of(detail)
            assert segment_id is not None, f"deleted a key of no known segment: {detail}"
            tip = segment_id.topic_id_partition
            assert tip.topic_id not in self.topics.topics.values(), f"I7: object of the living {tip} deleted"
            assert self.model.partitions[tip].segments[segment_id.id] == 2, f"I1: {detail} deleted before STARTED"
        elif name == "commit":
            for metadata_partition, offset in detail.items():
                tips = {
                    t
                    for t in self.model.partitions
                    if metadata_partition_for(t, METADATA_PARTITIONS) == metadata_partition
                }
                unsettled = self.model.first_unsettled(tips)
                assert unsettled is None or offset <= unsettled, f"I4: committed {offset}, unsettled {unsettled}"

    def _keys(self) -> list[str]:
        return list(self.storage.keys)

    def _segment_of(self, key: str) -> RemoteLogSegmentId | None:
        return self.segment_of_stem.get(key.rsplit(".", 1)[0])

    def _note_published(self, effect: PublishEffect) -> None:
        self._apply(effect.metadata_partition, self.ends[effect.metadata_partition], effect.value)

    # --- what is under test ----------------------------------------------------------------------------------------

    def run_once(self) -> list[MetadataPartitionReport]:
        """Mark, wait, plan, clean: what one run of the DAG does."""
        publisher = GuardedPublisher(self.log, allow_writes=True)
        limits = CleanerLimits(
            min_absence_ms=MIN_ABSENCE_MS, batch_segments=2, overrides=frozenset({"short_min_absence"})
        )
        DeletedPartitionMarker(self.log, publisher, self.topics, clock=self.clock).mark()
        self.now_ms += MIN_ABSENCE_MS
        plan = CleanupPlanner(self.log, self.topics, limits=limits, clock=self.clock).plan("sim", expires_in_ms=1)
        cleaner = RemoteLogCleaner(
            self.log,
            publisher,
            self.offsets,
            self.topics,
            self.storage,
            limits=limits,
            expected_cluster_id=CLUSTER_ID,
            clock=self.clock,
        )
        reports = []
        for metadata_partition in sorted(plan.summary.by_metadata_partition):
            planned: dict[tuple[UUID, int], set[UUID]] = {}
            for row in plan.rows.to_pylist():
                planned.setdefault((UUID(bytes=row["topic_id"]), row["partition"]), set()).add(
                    UUID(bytes=row["segment_id"])
                )
            reports.append(cleaner.clean(metadata_partition, {k: frozenset(v) for k, v in planned.items()}))
        return reports

    def calm(self) -> None:
        """From now on nothing fails and nothing crashes."""
        self.crash_at = None
        self.fault_rate = 0.0

    def converge(self) -> None:
        """Run without faults until a run writes nothing, and check the end state (I5)."""
        self.calm()
        for _ in range(5):
            written = self.ends.total()
            self.run_once()
            if self.ends.total() == written:
                break
        else:
            raise AssertionError("I5: five runs without faults, and the last one still had something to write")
        assert not self._objects_of(self.gone), "I5: objects of the deleted topic are left"
        assert self._objects_of(self.alive) == self.alive_objects, "objects of a living topic are gone"
        for tip in self.gone:
            partition = self.model.partitions[tip]
            assert not partition.unfinished(), f"I5: {tip} has unfinished segments"
            ever_unfinished = any(s for s in partition.segments)
            assert partition.deletion in ((2, None) if ever_unfinished else (None,)), (
                f"I5: {tip} is in {partition.deletion}"
            )
        for tip in self.alive:
            assert self.model.partitions[tip].deletion is None, f"I7: {tip} was marked"
