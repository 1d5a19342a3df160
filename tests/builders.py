# SPDX-License-Identifier: Apache-2.0
"""A small cluster in memory: log, store, topics and a clock that only a test moves."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pyarrow as pa

from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.base.errors import SnapshotRefusedError
from airflow_provider_rlmm.core.log.folded_topic import FoldedTopic
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog, InProcessOffsetStore, PublishEffect
from airflow_provider_rlmm.core.log.in_process_topics import InProcessClusterTopics
from airflow_provider_rlmm.core.log.snapshot import Snapshot, SnapshotStore
from airflow_provider_rlmm.core.log.snapshot_file import decode_snapshot, write_snapshot
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.plans.plan import PlannedSegments
from airflow_provider_rlmm.core.records.era import PLAIN_ERA, LogEra
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    OWN_BROKER_ID,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    SegmentEvent,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.serde import deserialize, serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.root import RootExpectation
from airflow_provider_rlmm.core.storage.stamps import Stamp, stamp_key
from airflow_provider_rlmm.core.world.audit_in_memory import InMemoryAuditLog
from airflow_provider_rlmm.core.world.current_root import PlaceLedger
from airflow_provider_rlmm.core.world.effects import DryRunEffects, RealEffects, describe_event
from airflow_provider_rlmm.core.world.hold import Hold, HoldSource, nothing_held
from airflow_provider_rlmm.core.world.kill_switch import StopSource, never_stopped
from airflow_provider_rlmm.core.world.only import ALL_TOPICS, EVERYTHING, Only
from airflow_provider_rlmm.core.world.replay import MetadataPartitionReplay
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.features.cleanup.cleaner import RemoteLogCleaner
from airflow_provider_rlmm.features.cleanup.marker import (
    DeletedPartitionMarker,
    DryRunMarkerEffects,
    MarkReport,
    RealMarkerEffects,
)
from airflow_provider_rlmm.features.cleanup.planner import CleanupPlanner, Plan
from airflow_provider_rlmm.features.cleanup.reports import MetadataPartitionReport
from tests.roots import KNOWN_FROM_THE_BEGINNING

CLUSTER_ID = "unit-test-cluster-id-1"
BROKER = 1
START_MS = 1_800_000_000_000
NOTHING_HELD = Hold()
DAY_MS = 24 * HOUR_MS
STAMP_KEY = stamp_key(CLUSTER_ID, LocalTieredStorageLayout().places[0].name)

STEPS = {
    S.COPY_SEGMENT_STARTED: [],
    S.COPY_SEGMENT_FINISHED: [S.COPY_SEGMENT_FINISHED],
    S.DELETE_SEGMENT_STARTED: [S.COPY_SEGMENT_FINISHED, S.DELETE_SEGMENT_STARTED],
    S.DELETE_SEGMENT_FINISHED: [S.COPY_SEGMENT_FINISHED, S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED],
}


def tip(topic: str = "gone", partition: int = 0, topic_id: int = 7) -> TopicIdPartition:
    return TopicIdPartition(UUID(int=topic_id), topic, partition)


def add(
    partition: TopicIdPartition, number: int, *, broker_id: int = BROKER, custom_metadata: bytes | None = None
) -> RemoteLogSegmentMetadata:
    """The first event of segment ``number``: ten offsets, 1000 bytes."""
    start = 10 * number
    return RemoteLogSegmentMetadata(
        RemoteLogSegmentId(partition, UUID(int=1000 + number)),
        start,
        start + 9,
        1,
        broker_id,
        START_MS,
        1000,
        custom_metadata,
        S.COPY_SEGMENT_STARTED,
        ((0, start),),
    )


def update(
    partition: TopicIdPartition,
    number: int,
    state: S,
    *,
    broker_id: int = BROKER,
    custom_metadata: bytes | None = None,
) -> RemoteLogSegmentMetadataUpdate:
    segment_id = RemoteLogSegmentId(partition, UUID(int=1000 + number))
    return RemoteLogSegmentMetadataUpdate(segment_id, START_MS, custom_metadata, state, broker_id)


def deletion(partition: TopicIdPartition, state: P, at_ms: int = START_MS) -> RemotePartitionDeleteMetadata:
    return RemotePartitionDeleteMetadata(partition, state, at_ms, OWN_BROKER_ID)


class SnapshotInMemory:
    """A snapshot as its file would hold it."""

    def __init__(self) -> None:
        self.data: bytes | None = None

    def read(self) -> Snapshot:
        if self.data is None:
            raise SnapshotRefusedError("there is none yet")
        return decode_snapshot(pa.py_buffer(self.data))

    def write(self, snapshot: Snapshot) -> None:
        file = io.BytesIO()
        write_snapshot(snapshot, file)
        self.data = file.getvalue()


@dataclass(frozen=True)
class Memory:
    """What runs remember of a log: its era, and nothing that was lost. The plain one lets a guard write whatever is seen."""

    era: LogEra = PLAIN_ERA

    def keep(self) -> None:
        """Nothing is written down."""

    def require_unbroken(self, metadata_partitions: Collection[int]) -> None:
        """Nothing was lost."""


class Cluster:
    """
    One log, one store, some topics; ``alive`` exists and has one remote segment, so that root and routing are verified.
    """

    def __init__(
        self, metadata_partitions: int = 1, *, living_topic: bool = True, layout: Layout | None = None
    ) -> None:
        self.now_ms = START_MS
        self.layout = layout or LocalTieredStorageLayout()
        self.log = InProcessMetadataEventLog(metadata_partitions, clock=self.clock)
        self.storage = InMemoryRemoteStorageManager(self.layout, clock=self.clock)
        self.topics = InProcessClusterTopics(cluster_id=CLUSTER_ID)
        self.offsets = InProcessOffsetStore()
        self.audit = InMemoryAuditLog()
        self.publisher = GuardedPublisher(self.log, allow_writes=True)
        self.alive = tip("alive", 0, 1)
        self.recorded_roots: frozenset[str] = frozenset()
        self.expected_root: str | None = None
        self.snapshots: SnapshotStore | None = None
        self.data_set: str | None = None
        self.ledger: PlaceLedger = KNOWN_FROM_THE_BEGINNING
        self.sleep: Callable[[float], object] = time.sleep
        if living_topic:
            self.topics.create("alive", self.alive.topic_id)
            self.segment(self.alive, 0)

    def clock(self) -> int:
        return self.now_ms

    def metadata_partition_of(self, partition: TopicIdPartition) -> int:
        return metadata_partition_for(partition, self.log.partition_count)

    # --- what others do ------------------------------------------------------------------------------------------------

    def foreign(self, event: SegmentEvent | RemotePartitionDeleteMetadata, key: bytes | None = None) -> int:
        """Append an event past the write guard; returns its offset."""
        metadata_partition = self.metadata_partition_of(topic_id_partition_of(event))
        return self.log.append(metadata_partition, serialize(event), key)

    def segment(
        self, partition: TopicIdPartition, number: int, state: S = S.COPY_SEGMENT_FINISHED, *, objects: bool = True
    ) -> RemoteLogSegmentMetadata:
        """A segment as a broker leaves it, with all its objects or with none."""
        metadata = add(partition, number)
        self.foreign(metadata)
        for step in STEPS[state]:
            self.foreign(update(partition, number, step))
        if objects:
            for key in self.layout.required_keys(metadata):
                self.storage.put_object(key, b"x" * 10)
        return metadata

    def segments(self, partition: TopicIdPartition, count: int) -> list[RemoteLogSegmentMetadata]:
        return [self.segment(partition, number) for number in range(count)]

    # --- what is under test --------------------------------------------------------------------------------------------

    def topic(self) -> TopicReplay:
        """The topic as a task of a run opens it; what it keeps, the next one resumes from."""
        folded = None if self.data_set is None else FoldedTopic(self.data_set, self.clock)
        return TopicReplay(self.log, self.topics, self.clock, self.snapshots, folded=folded)

    def mark(self, **kwargs: Any) -> MarkReport:
        chosen = kwargs.pop("chosen", EVERYTHING)
        dry_run = kwargs.pop("dry_run", False)
        effects = DryRunMarkerEffects(self.log) if dry_run else RealMarkerEffects(self.publisher)
        return DeletedPartitionMarker(self.topic(), effects, clock=self.clock, **kwargs).mark(chosen)

    def mark_and_wait(self) -> None:
        """Mark, and let ``min_absence`` pass."""
        self.mark()
        self.now_ms += DAY_MS

    def plan(self, limits: CleanerLimits | None = None, *, hold: Hold = NOTHING_HELD, **kwargs: Any) -> Plan:
        planner = CleanupPlanner(self.topic(), limits=limits or CleanerLimits(), clock=self.clock, hold=lambda: hold)
        return planner.plan("plan-1", expires_in_ms=HOUR_MS, **kwargs)

    def cleaner(
        self,
        *,
        dry_run: bool = False,
        publisher: GuardedPublisher | None = None,
        hold: HoldSource = nothing_held,
        only: Only = ALL_TOPICS,
        should_stop: StopSource = never_stopped,
        began_ms: int | None = None,
        at_once: int = 1,
        **limits: Any,
    ) -> RemoteLogCleaner:
        real = RealEffects(publisher or self.publisher, self.storage, self.offsets, self.audit, self.sleep)
        return RemoteLogCleaner(
            self.log,
            DryRunEffects(self.log, self.storage, self.clock) if dry_run else real,
            self.offsets,
            self.topics,
            self.storage,
            limits=CleanerLimits(**limits),
            audit=self.audit,
            expected_cluster_id=CLUSTER_ID,
            clock=self.clock,
            hold=hold,
            only=only,
            should_stop=should_stop,
            root=RootExpectation(self.recorded_roots, self.expected_root),
            ledger=self.ledger,
            snapshots=self.snapshots,
            began_ms=began_ms,
            at_once=at_once,
        )

    def clean(
        self,
        metadata_partition: int = 0,
        planned: PlannedSegments | None = None,
        on_interrupted: Callable[[MetadataPartitionReport], object] = lambda report: None,
        **kwargs: Any,
    ) -> MetadataPartitionReport:
        """Clean with everything planned that there is, unless told otherwise."""
        planned = self.everything() if planned is None else planned
        return self.cleaner(**kwargs).clean(metadata_partition, planned, on_interrupted=on_interrupted)

    def everything(self) -> PlannedSegments:
        found: dict[tuple[UUID, int], set[UUID]] = {}
        for number in range(self.log.partition_count):
            for history in self.replay(number).histories.values():
                for metadata in history.unfinished():
                    key = (history.topic_id_partition.topic_id, history.topic_id_partition.partition)
                    found.setdefault(key, set()).add(metadata.remote_log_segment_id.id)
        return {key: frozenset(ids) for key, ids in found.items()}

    # --- what can be seen ----------------------------------------------------------------------------------------------

    def replay(self, metadata_partition: int = 0) -> MetadataPartitionReplay:
        replay = MetadataPartitionReplay(self.log, metadata_partition)
        replay.advance()
        return replay

    def ours(self, metadata_partition: int = 0) -> list[str]:
        """Every event in the log that this package wrote, in words."""
        end = self.log.high_water_marks()[metadata_partition]
        begin = self.log.beginning_offsets()[metadata_partition]
        found = []
        for batch in self.log.read(metadata_partition, begin, end):
            for value, key in zip(batch.column("value").to_pylist(), batch.column("key").to_pylist(), strict=True):
                if value and len(value) > 20 and key is None:
                    event: Any = deserialize(value)
                    if event.broker_id == OWN_BROKER_ID:
                        found.append(describe_event(event))
        return found

    def states(self, metadata_partition: int = 0) -> list[str]:
        """The same, names of states only."""
        return [words.split()[0] for words in self.ours(metadata_partition)]

    def stamp_root(self) -> None:
        """Stamp the root, which has to hold an object of a topic that the log names."""
        ids = frozenset(h.topic_id_partition.topic_id for h in self.replay().histories.values())
        self.storage.stamp_root(self.storage.check_root(ids, CLUSTER_ID))

    def record_root(self) -> None:
        """Remember the root id of the stamp that lies there, as the plan of a run does."""
        self.recorded_roots |= {Stamp.from_json(self.storage._objects[STAMP_KEY][0]).root_id}

    def keys_of(self, partition: TopicIdPartition) -> set[str]:
        prefix = self.layout.partition_prefix(partition)
        return {key for key in self.storage.keys if key.startswith(prefix)}


def on_nth_publish(state: S | P, action: Callable[[], object], nth: int = 1) -> Callable[[str, Any], None]:
    """Return a hook that acts once, at the nth record of this state."""
    seen = iter(range(1, 1_000_000))

    def hook(name: str, detail: Any) -> None:
        if name == "publish" and isinstance(detail, PublishEffect):
            event: Any = deserialize(detail.value)
            if event.state is state and next(seen) == nth:
                action()

    return hook


def once(effect: str, action: Callable[[], object]) -> Callable[[str, Any], None]:
    """Return a hook that acts at the first effect of this name."""
    waiting = [action]

    def hook(name: str, detail: Any) -> None:
        if name == effect and waiting:
            waiting.pop()()

    return hook


def reasons(report: MetadataPartitionReport) -> str:
    """All refusals of a run in one text."""
    refusals: Iterable[Any] = [*report.refusals, *(r for p in report.partitions for r in p.refusals)]
    return "\n".join(f"{r.what}: {r.why}" for r in refusals)
