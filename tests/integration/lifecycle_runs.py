# SPDX-License-Identifier: Apache-2.0
"""Runs of marker, planner and cleaner against a broker, and what must hold after each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from confluent_kafka import Producer

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.core.log.kafka.offsets import KafkaOffsetStore
from airflow_provider_rlmm.core.log.protocol import MetadataEventLog
from airflow_provider_rlmm.core.log.snapshot import SnapshotStore
from airflow_provider_rlmm.core.log.snapshot_file import SnapshotFile
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import RemoteLogMetadata, kafka_uuid_str, topic_id_partition_of
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.core.world.audit_log import AuditFiles
from airflow_provider_rlmm.core.world.effects import RealEffects
from airflow_provider_rlmm.core.world.run_identity import RunIdentity
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.features.cleanup.cleaner import RemoteLogCleaner
from airflow_provider_rlmm.features.cleanup.marker import DeletedPartitionMarker, MarkReport, RealMarkerEffects
from airflow_provider_rlmm.features.cleanup.planner import CleanupPlanner, Plan
from airflow_provider_rlmm.features.cleanup.reports import MetadataPartitionReport, UserPartitionReport
from dev import formatter, tiering
from dev.broker import METADATA_TOPIC, LocalKafka
from tests.roots import naming
from tests.scrub import scrub, unfinished_segments

RUN = RunIdentity("test", "test", "test", "nobody")
GROUP_ID = "test-cleaner"
NO_WAIT = CleanerLimits(
    min_absence_ms=0, batch_segments=3, max_missing_segments=1000, overrides=frozenset({"short_min_absence"})
)
"""Missing segments do not stop a run here: that only what was seen is finished must not hang on their number."""

Planned = Mapping[tuple[UUID, int], frozenset[UUID]]


@dataclass(frozen=True)
class Runs:
    """
    Marker, planner and cleaner as one principal runs them; every one opens its own clients and storage, as tasks do.

    :param kafka: the broker, for its storage root.
    :param properties: how the principal connects; ``None`` for the broker's plain listener.
    :param expected_cluster_id: ``None`` for the broker's own.
    """

    kafka: LocalKafka
    properties: Mapping[str, str] | None = None
    expected_cluster_id: str | None = None

    @property
    def config(self) -> KafkaClientConfig:
        return KafkaClientConfig(self.properties or {"bootstrap.servers": self.kafka.bootstrap_servers})

    @property
    def snapshots(self) -> SnapshotStore:
        return SnapshotFile(str(self.kafka.remote_dir.parent / "topic.snapshot"))

    @property
    def work(self) -> str:
        """What runs remember of the cluster, whoever runs them."""
        return str(self.kafka.remote_dir.parent / "work")

    def open_topic(self, log: MetadataEventLog) -> TopicReplay:
        return TopicReplay(log, KafkaClusterTopics(self.config), system_clock, self.snapshots)

    def mark(self) -> MarkReport:
        with KafkaMetadataEventLog(self.config) as log:
            publisher = GuardedPublisher(log, allow_writes=True)
            topic = self.open_topic(log)
            report = DeletedPartitionMarker(topic, RealMarkerEffects(publisher), clock=system_clock).mark()
            topic.keep()
        return report

    def plan(self) -> Plan:
        with KafkaMetadataEventLog(self.config) as log:
            topic = self.open_topic(log)
            plan = CleanupPlanner(topic, limits=NO_WAIT, clock=system_clock).plan("test", expires_in_ms=60_000)
            topic.keep()
        return plan

    def open_storage(self) -> RemoteStorageManager:
        return ObjectStoreRemoteStorageManager(self.kafka.remote_dir.as_uri(), LocalTieredStorageLayout())

    def clean(
        self, metadata_partition: int, planned: Planned, storage: RemoteStorageManager | None = None
    ) -> MetadataPartitionReport:
        storage = storage or self.open_storage()
        with KafkaMetadataEventLog(self.config) as log:
            offsets = KafkaOffsetStore(self.config, GROUP_ID)
            audit = AuditFiles(self.work, self.kafka.cluster_id, RUN, metadata_partition, system_clock)
            cleaner = RemoteLogCleaner(
                log,
                RealEffects(GuardedPublisher(log, allow_writes=True), storage, offsets, audit),
                offsets,
                KafkaClusterTopics(self.config),
                storage,
                limits=NO_WAIT,
                audit=audit,
                expected_cluster_id=self.expected_cluster_id or self.kafka.cluster_id,
                root=naming(storage, self.kafka.cluster_id),
                snapshots=self.snapshots,
            )
            return cleaner.clean(metadata_partition, planned)

    def clean_all(self) -> list[UserPartitionReport]:
        """Plan and clean every metadata partition."""
        plan = self.plan()
        planned = planned_of(plan)
        reports = [self.clean(partition, planned) for partition in sorted(plan.summary.by_metadata_partition)]
        return [partition for report in reports for partition in report.partitions]


def planned_of(plan: Plan) -> Planned:
    segments: dict[tuple[UUID, int], set[UUID]] = {}
    for row in plan.rows.to_pylist():
        key = UUID(bytes=row["topic_id"]), row["partition"]
        segments.setdefault(key, set()).add(UUID(bytes=row["segment_id"]))
    return {key: frozenset(ids) for key, ids in segments.items()}


def everything_planned(kafka: LocalKafka) -> Planned:
    """A plan gone wrong: every segment of the cluster, those of living topics included."""
    segments: dict[tuple[UUID, int], set[UUID]] = {}
    for metadata in unfinished_segments(kafka):
        tip = metadata.remote_log_segment_id.topic_id_partition
        segments.setdefault((tip.topic_id, tip.partition), set()).add(metadata.remote_log_segment_id.id)
    return {key: frozenset(ids) for key, ids in segments.items()}


def write_event(kafka: LocalKafka, event: RemoteLogMetadata) -> int:
    """Write an event past the write guard, as another program could; return its metadata partition."""
    partition = metadata_partition_for(topic_id_partition_of(event), kafka.metadata_partitions)
    producer = Producer(kafka.client_config(acks="all"))
    producer.produce(METADATA_TOPIC, serialize(event), partition=partition)
    assert producer.flush(30) == 0
    return partition


def objects_of(kafka: LocalKafka, topic_id: UUID) -> set[str]:
    return {path for path in tiering.remote_listing(kafka) if kafka_uuid_str(topic_id) in path}


def our_events(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if "brokerId=-1" in line]


def check_health(kafka: LocalKafka, live_topics: Sequence[str]) -> list[str]:
    """Tiering works for the living topics, storage and metadata fit both ways, Kafka reads the whole metadata topic."""
    for topic in live_topics:
        tiering.tiering_alive(kafka, topic)
    assert scrub(kafka) == []
    return formatter.formatter_lines(kafka)


@contextmanager
def nothing_is_touched(kafka: LocalKafka) -> Iterator[None]:
    """No event at all is written and no object deleted within the block, during which the broker has nothing to copy."""
    with KafkaMetadataEventLog(Runs(kafka).config) as log:
        before, objects = log.high_water_marks(), set(tiering.remote_listing(kafka))
        yield
        assert log.high_water_marks() == before
        assert set(tiering.remote_listing(kafka)) == objects
