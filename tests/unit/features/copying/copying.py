# SPDX-License-Identifier: Apache-2.0
"""A living user partition whose leader does not copy, a log directory of a replica of it, and what a copier works with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import DamagedObjectError
from airflow_provider_rlmm.core.log.answers import CopyConfigs, LeaderOffsets, LeaderRecord
from airflow_provider_rlmm.core.log.in_process import METADATA_TOPIC_ID, InProcessMetadataEventLog
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    COPIER_BROKER_ID,
    RemoteLogMetadata,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.serde import deserialize, serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.root import RootExpectation
from airflow_provider_rlmm.core.storage.segment_files import LogSegmentData
from airflow_provider_rlmm.features.copying.copier import RemoteLogCopier
from airflow_provider_rlmm.features.copying.copy_context import CopyContext
from airflow_provider_rlmm.features.copying.copy_preview import preview
from airflow_provider_rlmm.features.copying.copy_report import CopyReport
from airflow_provider_rlmm.features.copying.copy_situation import DirectoryFacts
from airflow_provider_rlmm.features.copying.copy_source import ReadyCopy
from airflow_provider_rlmm.features.copying.copy_writer import CopyWriter
from airflow_provider_rlmm.features.copying.rules import Candidates, CopyLimits, LocalSegment, remote_end
from tests.unit.features.copying.in_process_leader import InProcessLeader

CLUSTER_ID = "unit-test-cluster-id-1"
ROOT = "memory://kafka-tiered-storage"
LIVING = TopicIdPartition(UUID(int=70), "living", 0)
NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
SEGMENT_OFFSETS = 10
SEGMENT_BYTES = 1000
BROKER = 1
MAY_COPY = CopyConfigs(True, True, frozenset({"delete"}), -1, -1)


class CrashError(BaseException):
    """The process is gone; nothing after this effect happens."""


def record(offset: int, leader_epoch: int) -> LeaderRecord:
    return LeaderRecord(offset, leader_epoch, NOW_MS, None, b"%d" % offset)


@dataclass
class FakeSource:
    """A log directory of some closed segments of ten offsets each, and an active one of five."""

    path: Path
    tip: TopicIdPartition = LIVING
    leader_epochs: LeaderEpochCheckpoint = field(default_factory=lambda: LeaderEpochCheckpoint(((0, 0), (3, 15))))
    bases: list[int] = field(default_factory=lambda: [0, 10, 20, 30])
    active_base: int = 40
    log_start_offset: int = 0
    committed_end: int | None = 45
    timestamps_ms: dict[int, int] = field(default_factory=dict)
    damaged: set[int] = field(default_factory=set)
    control: set[int] = field(default_factory=set)
    changed: bool = False
    diverged_from: int | None = None
    before: Callable[[str], object] = lambda _: None
    expected: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("log", "index", "timeindex", "snapshot"):
            (self.path / name).write_bytes(name.encode())

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        return self.tip

    def segment(self, base: int) -> LocalSegment:
        ends = [*self.bases[1:], self.active_base]
        end = ends[self.bases.index(base)]
        epochs = self.leader_epochs.in_range(base, end).entries
        return LocalSegment(base, end - 1, SEGMENT_BYTES, self.timestamps_ms.get(base, NOW_MS), epochs, True)

    def facts(self) -> DirectoryFacts:
        segments = [self.segment(base) for base in self.bases]
        kept = tuple(s for s in segments if s.end_offset >= self.log_start_offset)
        return DirectoryFacts(
            self.tip, self.leader_epochs, kept, self.log_start_offset, self.active_base, self.committed_end
        )

    def verify(self, segment: LocalSegment) -> ReadyCopy:
        self.before("verify")
        if segment.base_offset in self.damaged:
            raise DamagedObjectError(f"{segment} is damaged", f"{segment.base_offset}.log", 0)
        text = self.leader_epochs.in_range(-1, segment.end_offset + 1).to_text().encode()
        files = [self.path / name for name in ("log", "index", "timeindex", "snapshot")]
        return ReadyCopy(segment, LogSegmentData(*files, text), self.check_unchanged)

    def expect(self, segment: LocalSegment) -> None:
        self.expected.append(segment.base_offset)

    def check_unchanged(self) -> None:
        if self.changed:
            raise DamagedObjectError("the file has changed", "log", 0)

    def record(self, offset: int) -> LeaderRecord:
        epoch = self.leader_epochs.epoch_for_offset(offset)
        assert epoch is not None
        found = record(offset, epoch)
        diverged = self.diverged_from is not None and offset >= self.diverged_from
        return replace(found, value=b"nobody else's") if diverged else found

    def last_records(self, start_offset: int, end_offset: int) -> tuple[LeaderRecord, ...]:
        end = min(end_offset, self.active_base + 5)
        last: dict[int | None, int] = {}
        for offset in range(start_offset, end):
            if offset not in self.control:
                last[self.leader_epochs.epoch_for_offset(offset)] = offset
        return tuple(self.record(offset) for offset in last.values())


class CopyWorld:
    """
    Log, store, leader and directory of one living user partition; time that only a test moves.

    :param path: folder for the files of the directory.
    :param source: the directory, by default one of four closed segments.
    """

    def __init__(self, path: Path, source: FakeSource | None = None) -> None:
        self.now_ms = NOW_MS
        self.log = InProcessMetadataEventLog(3, clock=lambda: self.now_ms)
        self.layout = LocalTieredStorageLayout()
        self.storage = InMemoryRemoteStorageManager(self.layout, clock=lambda: self.now_ms)
        self.publisher = GuardedPublisher(self.log, allow_writes=True, allow_copy=True)
        self.leader = InProcessLeader(METADATA_TOPIC_ID)
        self.source = source or FakeSource(path)
        self.root = RootExpectation(expected_root=ROOT)
        self.limits = CopyLimits()
        self.options: dict[str, Any] = {}
        self.leads()
        self.home = metadata_partition_for(LIVING, 3)
        # Somebody else's topic has records in the same metadata partition: they prove the partitioner.
        other = next(
            tip
            for tip in (TopicIdPartition(UUID(int=900 + n), "other", 0) for n in range(99))
            if metadata_partition_for(tip, 3) == self.home
        )
        self.foreign_copy(0, other, segment_id=UUID(int=5))

    def leads(
        self,
        configs: CopyConfigs = MAY_COPY,
        *,
        log_start: int = 0,
        stable: int = 45,
        high: int = 45,
        tip: TopicIdPartition = LIVING,
    ) -> None:
        """Let the leader answer so from now on, with the directory's own records."""
        self.leader.lead(tip, configs, LeaderOffsets(log_start, stable, high))
        true = replace(self.source, diverged_from=None, before=lambda _: None)
        offsets = range(self.source.active_base + 5)
        known = [o for o in offsets if o not in true.control and true.leader_epochs.epoch_for_offset(o) is not None]
        self.leader.records[tip] = {offset: true.record(offset) for offset in known}

    @property
    def context(self) -> CopyContext:
        clocks = {"clock": lambda: self.now_ms, "monotonic": lambda: self.now_ms}
        parts = (self.log, self.leader, self.storage, CLUSTER_ID, self.root, self.limits)
        return CopyContext(*parts, **{**clocks, **self.options})

    def copy(self) -> CopyReport:
        """One run of the copier."""
        return RemoteLogCopier(self.context, CopyWriter(self.publisher, self.storage)).copy(self.source)

    def preview(self) -> Candidates:
        """What a dry run says."""
        return preview(self.context, self.source)

    # --- what others write --------------------------------------------------------------------------------------------

    def foreign(self, event: Any) -> None:
        home = metadata_partition_for(topic_id_partition_of(event), 3)
        self.log.append(home, serialize(event))

    def foreign_started(
        self, start: int, tip: TopicIdPartition = LIVING, *, segment_id: UUID | None = None, end: int | None = None
    ) -> RemoteLogSegmentId:
        """A leader announces a segment of ten offsets."""
        segment = RemoteLogSegmentId(tip, segment_id or UUID(int=5000 + start))
        last = start + 9 if end is None else end
        epochs = self.source.leader_epochs.in_range(start, last + 1).entries
        self.foreign(
            RemoteLogSegmentMetadata(
                segment, start, last, NOW_MS, BROKER, self.now_ms, SEGMENT_BYTES, None, S.COPY_SEGMENT_STARTED, epochs
            )
        )
        return segment

    def foreign_update(self, segment: RemoteLogSegmentId, state: S, broker_id: int = BROKER) -> None:
        self.foreign(RemoteLogSegmentMetadataUpdate(segment, self.now_ms, None, state, broker_id))

    def foreign_copy(
        self, start: int, tip: TopicIdPartition = LIVING, *, segment_id: UUID | None = None, end: int | None = None
    ) -> RemoteLogSegmentId:
        """A leader copies a segment, objects included."""
        segment = self.foreign_started(start, tip, segment_id=segment_id, end=end)
        self.foreign_update(segment, S.COPY_SEGMENT_FINISHED)
        for key in self.layout.required_keys(self.all_segments(tip)[segment]):
            self.storage.put_object(key, b"the broker's")
        return segment

    # --- what can be seen ---------------------------------------------------------------------------------------------

    def events(self, tip: TopicIdPartition = LIVING) -> list[RemoteLogMetadata]:
        """All events about a user partition, in order."""
        home = metadata_partition_for(tip, 3)
        found: list[RemoteLogMetadata] = []
        for batch in self.log.read(home, 0, self.log.high_water_marks()[home]):
            for value in batch.column("value").to_pylist():
                event = deserialize(value)
                if topic_id_partition_of(event) == tip:  # type: ignore[arg-type]  # no snapshot records here
                    found.append(event)
        return found

    def history(self, events: Iterable[RemoteLogMetadata] | None = None) -> UserPartitionHistory:
        """What brokers know after some events, by default all."""
        history = UserPartitionHistory(LIVING)
        for offset, event in enumerate(self.events() if events is None else events):
            if isinstance(event, RemotePartitionDeleteMetadata):
                history.apply_partition_event(event, offset, self.now_ms)
            else:
                history.apply_segment_event(event, offset)  # type: ignore[arg-type]
        return history

    def all_segments(self, tip: TopicIdPartition = LIVING) -> dict[RemoteLogSegmentId, RemoteLogSegmentMetadata]:
        """Every segment that was ever announced, as it was."""
        return {
            event.remote_log_segment_id: event
            for event in self.events(tip)
            if isinstance(event, RemoteLogSegmentMetadata)
        }

    def states(self) -> list[tuple[int, S]]:
        """(start offset, state) of all segments that are not deleted, in the order of their announcements."""
        return [(m.start_offset, m.state) for m in self.history().cache.in_order_of_arrival()]

    def said(self) -> list[tuple[int, str]]:
        """(start offset, state) of each event of a copier, in order."""
        starts = {segment.id: metadata.start_offset for segment, metadata in self.all_segments().items()}
        return [
            (starts[event.remote_log_segment_id.id], event.state.name)  # type: ignore[union-attr]
            for event in self.events()
            if event.broker_id == COPIER_BROKER_ID  # type: ignore[union-attr]
        ]

    def remote_end(self, events: Iterable[RemoteLogMetadata] | None = None) -> int:
        """The first offset that brokers cannot read from remote storage."""
        answer = self.leader.ask(LIVING.topic, 0)
        assert answer is not None
        start = 0 if answer.offsets is None else answer.offsets.log_start_offset
        return remote_end(self.history(events).cache, self.source.leader_epochs.entries, start)

    def check(self) -> None:
        """What must hold of the log, whatever happened: nothing that brokers drop, no hole, and objects where they count."""
        events = self.events()
        for count in range(1, len(events) + 1):
            cache = self.history(events[:count]).cache
            finished = [m for m in cache.in_order_of_arrival() if m.state is S.COPY_SEGMENT_FINISHED]
            highest = max([m.end_offset + 1 for m in finished], default=0)
            hole = self.remote_end(events[:count]) < highest
            assert not hole, f"a hole below {highest} after {events[count - 1]}"
        for metadata in self.history().cache.in_order_of_arrival():
            if metadata.state is S.COPY_SEGMENT_FINISHED:
                missing = set(self.layout.required_keys(metadata)) - self.storage.keys
                assert not missing, f"{metadata.remote_log_segment_id} is finished and lacks {missing}"

    def objects_of_nobody(self) -> set[str]:
        """Keys below the user partition of segments that are not known, or deleted."""
        known = self.history().cache.in_order_of_arrival()
        of_segments = {key for m in known for key in self.layout.required_keys(m)}
        prefix = self.layout.partition_prefix(LIVING)
        return {key for key in self.storage.keys if key.startswith(prefix)} - of_segments
