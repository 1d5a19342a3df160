# SPDX-License-Identifier: Apache-2.0
"""Marker, planner and cleaner on a real broker without Airflow, and what tests ask of the topic afterwards."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.core.log.kafka.offsets import KafkaOffsetStore
from airflow_provider_rlmm.core.log.snapshot_file import SnapshotFile
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.records import RemoteLogMetadata
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.core.world.audit_log import AuditFiles
from airflow_provider_rlmm.core.world.effects import RealEffects
from airflow_provider_rlmm.core.world.replay import MetadataPartitionReplay
from airflow_provider_rlmm.core.world.run_identity import RunIdentity
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.features.cleanup.cleaner import RemoteLogCleaner
from airflow_provider_rlmm.features.cleanup.marker import (
    DeletedPartitionMarker,
    DryRunMarkerEffects,
    MarkReport,
    RealMarkerEffects,
)
from airflow_provider_rlmm.features.cleanup.planner import CleanupPlanner, Plan
from airflow_provider_rlmm.features.cleanup.reports import MetadataPartitionReport, Totals
from dev.broker import LocalKafka
from tests.roots import naming

HOUR_MS = 3_600_000
RUN = RunIdentity("test", "test", "test", "nobody")
GROUP_ID = "cleaner-without-airflow"


class Cleaning:
    """
    One operator's tools on one cluster.

    :param bootstrap_servers: of the broker.
    :param storage_root: what the broker knows as ``rsm.config.dir``.
    :param cluster_id: the expected cluster.
    :param min_absence_ms: how far apart the two observations of absence must be, ms.
    :param batch_segments: segments per batch.
    :param storage: the remote storage; the broker's folder by default.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        storage_root: Path,
        cluster_id: str,
        *,
        min_absence_ms: int = 0,
        batch_segments: int = 7,
        storage: RemoteStorageManager | None = None,
    ) -> None:
        config = KafkaClientConfig({"bootstrap.servers": bootstrap_servers})
        self.log = KafkaMetadataEventLog(config)
        self.offsets = KafkaOffsetStore(config, GROUP_ID)
        self._topics = KafkaClusterTopics(config)
        self._storage = storage or ObjectStoreRemoteStorageManager(storage_root.as_uri(), LocalTieredStorageLayout())
        # What all cleaners of a test remember, killed ones among them.
        self._work = str(storage_root.parent / "work")
        self._snapshots = SnapshotFile(str(storage_root.parent / "topic.snapshot"))
        self._publisher = GuardedPublisher(self.log, allow_writes=True)
        self._cluster_id = cluster_id
        self._limits = CleanerLimits(
            min_absence_ms=min_absence_ms,
            batch_segments=batch_segments,
            overrides=frozenset({"short_min_absence"}),
        )

    @classmethod
    def of(cls, kafka: LocalKafka, storage: RemoteStorageManager | None = None, **limits: int) -> Self:
        return cls(kafka.bootstrap_servers, kafka.remote_dir, kafka.cluster_id, storage=storage, **limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.log.close()
        self.offsets.close()

    def mark(self, *, dry_run: bool = False) -> MarkReport:
        topic = self._topic()
        effects = DryRunMarkerEffects(topic.log) if dry_run else RealMarkerEffects(self._publisher)
        report = DeletedPartitionMarker(topic, effects, clock=system_clock).mark()
        topic.keep()
        return report

    def _topic(self) -> TopicReplay:
        return TopicReplay(self.log, self._topics, system_clock, self._snapshots)

    def plan(self) -> Plan:
        topic = self._topic()
        plan = CleanupPlanner(topic, limits=self._limits, clock=system_clock).plan("plan", expires_in_ms=HOUR_MS)
        topic.keep()
        return plan

    def clean(self, plan: Plan | None = None, *, first: int = 0) -> dict[str, Any]:
        """
        Clean what the plan names; returns the totals, with the refusals' reasons, the planner's included.

        :param first: the metadata partition to begin with.
        """
        plan = plan or self.plan()
        partitions = sorted(plan.summary.by_metadata_partition, key=lambda number: (number < first, number))
        reports = [self._clean(partition, plan) for partition in partitions]
        refusals = [*plan.summary.refusals, *(r for report in reports for r in _refusals_of(report))]
        return {
            **asdict(Totals.of(reports)),
            "reasons": [r.why for r in refusals],
            "events": sum((Counter(report.events) for report in reports), Counter()),
        }

    def _clean(self, metadata_partition: int, plan: Plan) -> MetadataPartitionReport:
        planned: defaultdict[tuple[UUID, int], set[UUID]] = defaultdict(set)
        for row in plan.rows.to_pylist():
            planned[UUID(bytes=row["topic_id"]), row["partition"]].add(UUID(bytes=row["segment_id"]))
        audit = AuditFiles(self._work, self._cluster_id, RUN, metadata_partition, system_clock)
        cleaner = RemoteLogCleaner(
            self.log,
            RealEffects(self._publisher, self._storage, self.offsets, audit),
            self.offsets,
            self._topics,
            self._storage,
            limits=self._limits,
            audit=audit,
            expected_cluster_id=self._cluster_id,
            root=naming(self._storage, self._cluster_id),
            snapshots=self._snapshots,
        )
        return cleaner.clean(metadata_partition, {key: frozenset(ids) for key, ids in planned.items()})

    def events(self) -> Iterator[RemoteLogMetadata]:
        """Every event of the topic, in the order of each metadata partition."""
        ends = self.log.high_water_marks()
        for metadata_partition in range(self.log.partition_count):
            for batch in self.log.read(metadata_partition, 0, ends[metadata_partition]):
                yield from (deserialize(value) for value in batch.column("value").to_pylist())

    def _histories(self, topic_id: UUID) -> Iterator[UserPartitionHistory]:
        for metadata_partition in range(self.log.partition_count):
            replay = MetadataPartitionReplay(self.log, metadata_partition, frozenset({topic_id}))
            replay.advance()
            yield from replay.histories.values()

    def segment_states(self, topic_id: UUID) -> Counter[str]:
        """States of a topic's segments that are not finished."""
        return Counter(m.state.name for history in self._histories(topic_id) for m in history.unfinished())

    def deletions(self, topic_id: UUID) -> list[RemotePartitionDeleteState | None]:
        """How far the deletion of each of a topic's user partitions is."""
        return [history.delete_state for history in self._histories(topic_id)]


def _refusals_of(report: MetadataPartitionReport) -> Sequence[Any]:
    return [*report.refusals, *(r for partition in report.partitions for r in partition.refusals)]
