# SPDX-License-Identifier: Apache-2.0
"""
The RemoteLogCleaner of KIP-405, one metadata partition at a time.

Follow a marked user partition through :meth:`RemoteLogCleaner.clean`: replay, settle, start, and for each batch of its
segments look at the cluster again, publish DELETE_SEGMENT_STARTED, wait for all acks, delete the objects, publish
DELETE_SEGMENT_FINISHED for those confirmed gone; then replay, look once more, finish, commit. Every step may be the last
one of a run: the next run reads from the topic where it stands and goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from airflow_provider_rlmm.clock import Clock, monotonic_clock, system_clock
from airflow_provider_rlmm.errors import RlmmError
from airflow_provider_rlmm.event_log.log_tail import require_tail
from airflow_provider_rlmm.event_log.protocol import ClusterTopics, MetadataEventLog, OffsetStore
from airflow_provider_rlmm.event_log.write_guard import GuardedPublisher
from airflow_provider_rlmm.lifecycle.effects import DryRunEffects, Effects, RealEffects
from airflow_provider_rlmm.lifecycle.partition_cleaner import CleaningContext, UserPartitionCleaner
from airflow_provider_rlmm.lifecycle.replay import MetadataPartitionReplay, scan_topic_ids
from airflow_provider_rlmm.lifecycle.reports import MetadataPartitionReport, UserPartitionReport
from airflow_provider_rlmm.lifecycle.root_proof import ProvenRoot, prove_root
from airflow_provider_rlmm.lifecycle.view import WorkState
from airflow_provider_rlmm.metadata.history import UserPartitionHistory
from airflow_provider_rlmm.metadata.read_tail import ReadTail
from airflow_provider_rlmm.policy.freshness import Sample
from airflow_provider_rlmm.policy.guards import CleanerLimits, check_cluster
from airflow_provider_rlmm.policy.hold import HoldSource, nothing_held
from airflow_provider_rlmm.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.storage.root import UNKNOWN_ROOT, RootExpectation

logger = logging.getLogger(__name__)

PlannedSegments = Mapping[tuple[UUID, int], frozenset[UUID]]
"""(topic id, user partition) → segment ids that the plan allows to delete."""


def _forget(report: MetadataPartitionReport) -> None:
    """Leave it at the error that is raised."""


def _forget_root(root: ProvenRoot) -> None:
    """Record nothing of it."""


class RemoteLogCleaner:
    """
    Deletes the remote segments of deleted topics.

    :param log: the metadata event log.
    :param publisher: the write guard around the same log.
    :param offsets: remembers which markers are settled.
    :param topics: the cluster's topics.
    :param storage: remote storage.
    :param limits: limits of destructive work.
    :param expected_cluster_id: refuse any other cluster.
    :param clock: time.
    :param dry_run: say what would be written and deleted, do nothing.
    :param hold: what is never touched, asked before every batch.
    :param root: what is known about the storage root.
    :param samples: the newest copies of living topics that the plan has recorded; ``None`` reads the whole topic for them.
    :param on_root: gets what was proven of the root, once it is stamped.
    """

    def __init__(
        self,
        log: MetadataEventLog,
        publisher: GuardedPublisher,
        offsets: OffsetStore,
        topics: ClusterTopics,
        storage: RemoteStorageManager,
        *,
        limits: CleanerLimits,
        expected_cluster_id: str | None = None,
        clock: Clock = system_clock,
        dry_run: bool = False,
        hold: HoldSource = nothing_held,
        root: RootExpectation = UNKNOWN_ROOT,
        samples: Sequence[Sample] | None = None,
        on_root: Callable[[ProvenRoot], object] = _forget_root,
    ) -> None:
        self._log = log
        self._publisher = publisher
        self._offsets = offsets
        self._topics = topics
        self._storage = storage
        self._limits = limits
        self._expected_cluster_id = expected_cluster_id
        self._clock = clock
        self._dry_run = dry_run
        self._hold = hold
        self._root = root
        self._samples = samples
        self._on_root = on_root

    def clean(
        self,
        metadata_partition: int,
        planned: PlannedSegments,
        tail: ReadTail | None = None,
        on_interrupted: Callable[[MetadataPartitionReport], object] = _forget,
    ) -> MetadataPartitionReport:
        """
        Clean every settled user partition of one metadata partition, as far as the plan allows.

        :param metadata_partition: which metadata partition.
        :param planned: segments that may be deleted; a partition without any is only finished.
        :param tail: the last records of the metadata partition that the plan was made from; they must be there.
        :param on_interrupted: where an error ends the run after the first user partition was begun, gets the report of what
            was done before the error is raised.
        :raises ClusterMismatchError: if this is another cluster than expected.
        :raises StorageRootError: if the storage root does not exist, or too many expected objects are missing there.
        :raises LogReplacedError: if the log is not the one that the plan was made from.
        :raises EventLogError: if the log or the cluster cannot be read.
        """
        # A proven clock may refuse to go on; a report must not be lost by that.
        began = monotonic_clock()
        cluster_id = self._topics.cluster_id()
        check_cluster(cluster_id, self._expected_cluster_id, self._limits.overrides)
        if tail is not None:
            require_tail(self._log, metadata_partition, tail)
        effects = self._effects()
        ids = scan_topic_ids(self._log, metadata_partition)
        replay = MetadataPartitionReplay(self._log, metadata_partition, ids.marked)
        replay.advance()
        work = [h for h in replay.histories.values() if h.deletion_under_way()]
        logger.info("metadata partition %d: %d user partitions to clean", metadata_partition, len(work))

        def report(
            partitions: Iterable[UserPartitionReport] = (), committed: int | None = None
        ) -> MetadataPartitionReport:
            return MetadataPartitionReport(
                metadata_partition=metadata_partition,
                dry_run=self._dry_run,
                partitions=tuple(partitions),
                refusals=(),
                events=dict(effects.events),
                would_write=tuple(effects.would_write),
                committed_offset=committed,
                duration_ms=monotonic_clock() - began,
            )

        cleaners: list[UserPartitionCleaner] = []
        if work:
            cleaners = _prepared(work, self._context(replay, effects, ids.all, cluster_id), planned)
        try:
            for cleaner in cleaners:
                cleaner.clean()
        except RlmmError as e:
            on_interrupted(report(cleaner.report(interrupted_by=e) for cleaner in cleaners))
            raise
        committed = effects.commit(metadata_partition, replay.first_unsettled_offset())
        return report((cleaner.report() for cleaner in cleaners), committed)

    def _effects(self) -> Effects:
        if self._dry_run:
            return DryRunEffects(self._log, self._storage, self._clock)
        return RealEffects(self._publisher, self._storage, self._offsets)

    def _context(
        self, replay: MetadataPartitionReplay, effects: Effects, named: frozenset[UUID], cluster_id: str
    ) -> CleaningContext:
        """Prove the storage root before anything is done there, and leave the stamp that says so."""
        root = prove_root(
            self._log,
            self._topics,
            self._storage,
            cluster_id=cluster_id,
            named=named,
            expectation=self._root,
            overrides=self._limits.overrides,
            samples=self._samples,
        )
        root = replace(root, check=effects.stamp_root(root.check))
        self._on_root(root)
        state = WorkState(replay, allowed_quarantine=self._limits.allowed_quarantine)
        return CleaningContext(
            self._log, self._topics, state, effects, self._storage, self._limits, root, self._clock, self._hold
        )


def _prepared(
    work: Sequence[UserPartitionHistory], context: CleaningContext, planned: PlannedSegments
) -> list[UserPartitionCleaner]:
    """Prepare all user partitions before the first is touched: a wrong storage root must leave no trace."""
    cleaners = []
    for history in work:
        key = (history.topic_id_partition.topic_id, history.topic_id_partition.partition)
        cleaners.append(UserPartitionCleaner(history, context, planned.get(key, frozenset())))
        cleaners[-1].prepare()
    return cleaners
