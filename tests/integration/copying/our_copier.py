# SPDX-License-Identifier: Apache-2.0
"""The copier on a real broker, as one task runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_provider_rlmm.core.log.answers import LeaderAnswer, LeaderRecord
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.core.log.kafka.leader import KafkaLeader
from airflow_provider_rlmm.core.log.protocol import PublishOutcome
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.core.storage.root import RootExpectation
from airflow_provider_rlmm.features.copying.copier import RemoteLogCopier
from airflow_provider_rlmm.features.copying.copy_context import CopyContext
from airflow_provider_rlmm.features.copying.copy_report import CopyReport
from airflow_provider_rlmm.features.copying.copy_source import DirectorySource
from airflow_provider_rlmm.features.copying.copy_writer import CopyWriter
from airflow_provider_rlmm.features.copying.log_directory.disk import LogDisk
from airflow_provider_rlmm.features.copying.log_directory.names import TopicPartition
from airflow_provider_rlmm.features.copying.log_directory.partition import LogDirectory
from airflow_provider_rlmm.features.copying.rules import CopyLimits
from dev.broker import LocalKafka
from dev.roots import expected_root_of

Notice = Callable[[str], object]
"""Told before and after each of the copier's steps that reach the world."""


def _nothing(step: str) -> None: ...


@dataclass(frozen=True)
class OurCopier:
    """
    What a copier needs to know of a cluster, and how it is told what happens.

    :param bootstrap_servers: of the cluster.
    :param cluster_id: its id.
    :param remote_dir: the brokers' remote storage (``rsm.config.dir``).
    :param limits: of the run.
    :param notice: told of each step.
    """

    bootstrap_servers: str
    cluster_id: str
    remote_dir: Path
    limits: CopyLimits = CopyLimits()  # noqa: RUF009  # frozen
    notice: Notice = _nothing

    @classmethod
    def of(cls, kafka: LocalKafka, **options: Any) -> OurCopier:
        """Return a copier of a broker's cluster."""
        return cls(kafka.bootstrap_servers, kafka.cluster_id, kafka.remote_dir, **options)

    def copy(self, disk: Path, tip: TopicIdPartition) -> CopyReport:
        """Copy what may be copied of a user partition from a stopped broker's disk, or a snapshot of one."""
        source = DirectorySource(LogDirectory.open(LogDisk.open(disk), TopicPartition(tip.topic, tip.partition)))
        with self._open() as copier:
            return copier.copy(source)

    @contextmanager
    def _open(self) -> Iterator[RemoteLogCopier]:
        config = KafkaClientConfig({"bootstrap.servers": self.bootstrap_servers})
        layout = LocalTieredStorageLayout()
        with _NoticedLog(config, self.notice) as log, KafkaLeader(config, self.cluster_id) as leader:
            storage = ObjectStoreRemoteStorageManager(self.remote_dir.as_uri(), layout)
            context = CopyContext(
                log,
                _NoticedLeader(leader, self.notice),
                storage,
                self.cluster_id,
                RootExpectation(expected_root=expected_root_of(self.remote_dir)),
                self.limits,
                should_stop=self._before_chunk,
            )
            writer = CopyWriter(GuardedPublisher(log, allow_writes=True, allow_copy=True), storage)
            yield RemoteLogCopier(context, writer)

    def _before_chunk(self) -> None:
        """Stand in the place of the kill switch, which is asked before each segment and each chunk."""
        self.notice("chunk")


class _NoticedLog(KafkaMetadataEventLog):
    def __init__(self, config: KafkaClientConfig, notice: Notice) -> None:
        super().__init__(config)
        self._notice = notice

    def publish(self, records: Sequence[tuple[int, bytes]]) -> list[PublishOutcome]:
        self._notice("before an event")
        outcomes = super().publish(records)
        self._notice("after an event")
        return outcomes


@dataclass(frozen=True)
class _NoticedLeader:
    leader: KafkaLeader
    notice: Notice

    def ask(self, topic: str, partition: int) -> LeaderAnswer | None:
        self.notice("question")
        return self.leader.ask(topic, partition)

    def record_at(self, topic_id_partition: TopicIdPartition, offset: int) -> LeaderRecord | None:
        return self.leader.record_at(topic_id_partition, offset)
