# SPDX-License-Identifier: Apache-2.0
"""What the tasks of the cleaner share while they work: the verified cluster, its log, a proven clock, the hold."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from airflow.sdk import Context

from airflow_provider_rlmm.clock import Clock
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.hooks.storage import RemoteStorageHook
from airflow_provider_rlmm.lifecycle.plan_files import orphaned_partitions, read_plan
from airflow_provider_rlmm.policy.guards import CleanerLimits
from airflow_provider_rlmm.policy.hold import Hold, HoldSource
from airflow_provider_rlmm.policy.proven_time import bound_of_run
from airflow_provider_rlmm.settings import artifact_uri, plan_uri

if TYPE_CHECKING:
    from airflow_provider_rlmm.event_log.protocol import ClusterTopics
    from airflow_provider_rlmm.event_log.snapshot import SnapshotStore
    from airflow_provider_rlmm.kafka.event_log import KafkaMetadataLogReader
    from airflow_provider_rlmm.lifecycle.root_proof import ProvenRoot
    from airflow_provider_rlmm.lifecycle.topic_view import TopicReplay
    from airflow_provider_rlmm.storage.remote_storage import RemoteStorageManager
    from airflow_provider_rlmm.storage.root import RootExpectation

HOLD_AGE_S = 5.0
"""For how long a hold that was read counts, seconds: it may begin while a task works."""


@dataclass(frozen=True, slots=True)
class CleanerSession:
    """
    :param hook: of the connection.
    :param storage: hook of its storage.
    :param cluster_id: the verified cluster.
    :param log: its metadata event log.
    :param topics: its topics.
    :param clock: proven time; its text says how it was proven.
    :param hold: what is never touched, as of now.
    """

    hook: RemoteLogMetadataHook
    storage: RemoteStorageHook
    cluster_id: str
    log: KafkaMetadataLogReader
    topics: ClusterTopics
    clock: Clock
    hold: HoldSource

    @property
    def snapshots(self) -> SnapshotStore:
        """Where tasks leave each other what they have read of the metadata topic: one file per cluster and topic."""
        from airflow_provider_rlmm.event_log.snapshot_file import SnapshotFile

        return SnapshotFile(f"{self.cluster_uri}/topic-{self.log.topic_id}.snapshot")

    @contextmanager
    def topic(self) -> Iterator[TopicReplay]:
        """Return the metadata topic, resumed from the latest snapshot; at the end of the block it leaves another one."""
        from airflow_provider_rlmm.lifecycle.topic_view import TopicReplay

        topic = TopicReplay(self.log, self.topics, self.clock, self.snapshots)
        try:
            yield topic
        finally:
            # What was read is worth keeping whatever came of it.
            topic.keep()

    def work_of(self, source_plan: str | None) -> frozenset[tuple[UUID, int]] | None:
        """
        Return the partitions that a plan names as orphaned.

        :param source_plan: name or URI of a plan, ``None`` for none.
        :return: topic id and partition, ``None`` where no plan was given.
        :raises PlanError: if it cannot be read, has expired or is of another cluster.
        """
        if source_plan is None:
            return None
        uri = plan_uri(source_plan)
        summary = read_plan(uri)
        summary.check_valid(self.cluster_id, self.clock())
        return orphaned_partitions(uri, summary)

    @property
    def cluster_uri(self) -> str:
        """The folder of what runs remember of the cluster: snapshots, and the storage roots on which they have worked."""
        return artifact_uri(f"cluster-{self.cluster_id.lstrip('._-')}")

    def root_expectation(self, limits: CleanerLimits) -> RootExpectation:
        """
        Return what is known about the storage root before it is looked at.

        :param limits: with the overrides in force.
        :raises PlanError: if what earlier runs have recorded cannot be read.
        """
        from airflow_provider_rlmm.lifecycle.root_proof import recorded_roots

        return self.storage.root_expectation(limits.overrides, recorded_roots(self.cluster_uri, self.cluster_id))

    def prove_root(
        self, topic: TopicReplay, limits: CleanerLimits, storage: RemoteStorageManager | None = None
    ) -> ProvenRoot:
        """
        Prove the storage root of the connection, from the whole metadata topic.

        :param topic: the metadata topic.
        :param limits: with the overrides in force.
        :param storage: what will be listed afterwards and must stay the same root; ``None`` where nothing is.
        :raises StorageRootError: if it is not this cluster's, or not up to date.
        :raises EventLogAccessError: if only hidden topics could tell whether it is.
        """
        from airflow_provider_rlmm.lifecycle.root_proof import prove_root

        return prove_root(
            topic,
            storage or self.storage.get_storage_manager(),
            cluster_id=self.cluster_id,
            expectation=self.root_expectation(limits),
            overrides=limits.overrides,
        )


@contextmanager
def cleaner_session(
    context: Context, rlmm_conn_id: str, limits: CleanerLimits, *, dry_run: bool, hold: Iterable[str] = ()
) -> Iterator[CleanerSession]:
    """
    Open what a task of the cleaner needs; errors of the cluster name the Kafka connection.

    :param context: of the running task.
    :param rlmm_conn_id: connection of type ``rlmm``.
    :param limits: with the overrides in force.
    :param dry_run: whether nothing will be written or deleted.
    :param hold: topics that this run must not touch, besides those that the connection names.
    :raises ClusterMismatchError: if the connection does not lead to one cluster, the expected one.
    :raises ClockSkewError: if clocks contradict each other.
    :raises UnprovenClockError: if nothing proves the time, and writes are allowed.
    """
    hook = RemoteLogMetadataHook(rlmm_conn_id)
    cluster_id = hook.check_cluster(limits.overrides)
    began = getattr(context["dag_run"], "start_date", None)
    with hook.naming_connection(), hook.get_event_log() as log:
        bounds = [bound_of_run(began)] if began else []
        clock = hook.get_proven_clock(log, dry_run=dry_run, overrides=limits.overrides, bounds=bounds)
        storage, topics = RemoteStorageHook.beside(hook), hook.get_cluster_topics()
        yield CleanerSession(hook, storage, cluster_id, log, topics, clock, _fresh_hold(hook, tuple(hold)))


def _fresh_hold(hook: RemoteLogMetadataHook, entries: tuple[str, ...]) -> HoldSource:
    """Return a source that reads the connection again when what it knows is old."""
    read: list[tuple[float, Hold]] = []

    def hold() -> Hold:
        if not read or time.monotonic() - read[0][0] > HOLD_AGE_S:
            read[:] = [(time.monotonic(), Hold.of(hook.read_connection_settings().hold, entries))]
        return read[0][1]

    return hold
