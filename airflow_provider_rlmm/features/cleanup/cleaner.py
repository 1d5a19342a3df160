# SPDX-License-Identifier: Apache-2.0
"""
The RemoteLogCleaner of KIP-405, one metadata partition at a time.

Follow a marked user partition through :meth:`RemoteLogCleaner.clean`: replay, prove the root, decide what is eligible, go
through the batches (:mod:`~airflow_provider_rlmm.features.cleanup.batches`), commit. Every step may be the last one of a
run: the next run reads from the topic where it stands and goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial

from airflow_provider_rlmm.core.base.clock import Clock, monotonic_clock, system_clock
from airflow_provider_rlmm.core.base.errors import EventLogError, RlmmError
from airflow_provider_rlmm.core.log.log_tail import require_tail
from airflow_provider_rlmm.core.log.protocol import ClusterTopics, MetadataLogReader, OffsetStore
from airflow_provider_rlmm.core.log.snapshot import SnapshotStore
from airflow_provider_rlmm.core.plans.guards import CleanerLimits, check_cluster
from airflow_provider_rlmm.core.plans.log_refusals import refusal_of_lost
from airflow_provider_rlmm.core.plans.plan import PlannedSegments
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.read_tail import ReadTail
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.core.storage.root import UNKNOWN_ROOT, RootExpectation
from airflow_provider_rlmm.core.world.absence import refusal_of
from airflow_provider_rlmm.core.world.audit_log import AuditLog
from airflow_provider_rlmm.core.world.cluster_look import look
from airflow_provider_rlmm.core.world.current_root import NOTHING_RECORDED, PlaceLedger
from airflow_provider_rlmm.core.world.earlier_deletions import EarlierDeletions
from airflow_provider_rlmm.core.world.effects import Effects
from airflow_provider_rlmm.core.world.freshness import Sample
from airflow_provider_rlmm.core.world.gate import Gate
from airflow_provider_rlmm.core.world.hold import HoldSource, nothing_held
from airflow_provider_rlmm.core.world.kill_switch import STOPPED_ADVICE, StopSource, never_stopped
from airflow_provider_rlmm.core.world.only import ALL_TOPICS, Only
from airflow_provider_rlmm.core.world.replay import MetadataPartitionReplay
from airflow_provider_rlmm.core.world.root_proof import ProvenRoot, prove_root
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.features.archiving.archive_guard import NO_ARCHIVE, ArchiveGuard
from airflow_provider_rlmm.features.cleanup.batches import BatchCleaner
from airflow_provider_rlmm.features.cleanup.eligibility import NEXT_RUN, CleaningContext, find_eligible
from airflow_provider_rlmm.features.cleanup.partition_work import UserPartitionWork
from airflow_provider_rlmm.features.cleanup.questions import CLEANER
from airflow_provider_rlmm.features.cleanup.reports import MetadataPartitionReport, UserPartitionReport

__all__ = ["RemoteLogCleaner"]

logger = logging.getLogger(__name__)

LOST_END_ADVICE = (
    "find out how (an unclean leader election, a restored broker); what was finished since may look unfinished, and what was "
    "copied since stands in no record: compare storage and metadata"
)


def _forget(_: object) -> None:
    """Keep no report and no root: where they are not asked for, the error that ends a run says enough."""


@dataclass(frozen=True, slots=True)
class RemoteLogCleaner:
    """
    Deletes the remote segments of deleted topics.

    :param log: the metadata event log.
    :param effects: everything that changes the world: a dry run's only say it. Each :meth:`clean` counts in its own copy.
    :param offsets: knows which markers earlier runs have settled; read only.
    :param topics: the cluster's topics.
    :param storage: remote storage.
    :param limits: limits of destructive work.
    :param audit: knows what earlier runs have deleted; read only.
    :param expected_cluster_id: refuse any other cluster.
    :param clock: time.
    :param hold: what is never touched, asked before every batch.
    :param only: the topics that the plan is for; others are left as they are, and not reported.
    :param should_stop: why no batch may be begun, asked before every one; a dry run goes on and says it.
    :param archive: what may be deleted because it is archived; by default nothing needs to be.
    :param root: what is known about the storage root.
    :param ledger: since when it is known; without one ``root`` must name every place.
    :param samples: the newest copies of living topics that the plan has recorded; ``None`` reads the whole topic for them.
    :param on_root: gets what was proven of the root, once it is stamped and before it is remembered: it may refuse it.
    :param snapshots: where an earlier task may have left a snapshot of the topic.
    :param on_progress: told of all user partitions before the first batch and after each; it raises nothing.
    :param began_ms: when the run began to delete, ms since the epoch, for the limit ``max_minutes``; ``None``: it has all
        the time.
    :param at_once: how many cleaners of the run delete at the same time: each has its share of ``objects_per_second``.
    """

    log: MetadataLogReader
    effects: Effects
    offsets: OffsetStore
    topics: ClusterTopics
    storage: RemoteStorageManager
    _: KW_ONLY
    limits: CleanerLimits
    audit: AuditLog
    expected_cluster_id: str | None = None
    clock: Clock = system_clock
    hold: HoldSource = nothing_held
    only: Only = ALL_TOPICS
    should_stop: StopSource = never_stopped
    archive: ArchiveGuard = NO_ARCHIVE
    root: RootExpectation = UNKNOWN_ROOT
    ledger: PlaceLedger = NOTHING_RECORDED
    samples: Sequence[Sample] | None = None
    on_root: Callable[[ProvenRoot], object] = _forget
    snapshots: SnapshotStore | None = None
    on_progress: Callable[[Sequence[UserPartitionWork]], object] = _forget
    began_ms: int | None = None
    at_once: int = 1

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
        :raises AuditError: if what is about to be deleted cannot be written down.
        """
        # A proven clock may refuse to go on; a report must not be lost by that.
        began = monotonic_clock()
        cluster_id = self.topics.cluster_id()
        check_cluster(cluster_id, self.expected_cluster_id, self.limits.overrides)
        lost = self.log.losses.get(metadata_partition)
        if lost is not None and lost.is_open:
            logger.error("%s: nothing is done there. What to do: %s", lost.why, lost.what_to_do)
            refused, took_ms = (refusal_of_lost(lost),), monotonic_clock() - began
            return MetadataPartitionReport(metadata_partition, self.effects.is_dry, (), refused, {}, (), None, took_ms)
        if tail is not None:
            require_tail(self.log, metadata_partition, tail)
        effects = replace(self.effects)  # nothing is counted yet: what this call does is one report
        topic, replay = self._replayed(metadata_partition)
        lost_end = self._lost_end(replay)
        refusals = [*lost_end]
        histories = self._work(replay)
        logger.info("metadata partition %d: %d user partitions to clean", metadata_partition, len(histories))

        def report(
            partitions: Iterable[UserPartitionReport] = (),
            committed: int | None = None,
            out_of_time: str | None = None,
        ) -> MetadataPartitionReport:
            return MetadataPartitionReport(
                metadata_partition=metadata_partition,
                dry_run=effects.is_dry,
                partitions=tuple(partitions),
                refusals=tuple(refusals),
                events=dict(effects.events),
                would_write=tuple(effects.would_write),
                committed_offset=committed,
                duration_ms=monotonic_clock() - began,
                out_of_time=out_of_time,
            )

        gate = self._gate(effects)
        if histories and (why := gate.why_stopped()) is not None:
            # The root is not even stamped: the person who set the switch may be moving it.
            return report(_stopped(history, metadata_partition, why) for history in histories)
        if histories and (why := gate.why_over()) is not None:
            # Storage is not even asked: that takes its time for each user partition.
            return report(self._left(histories, replay, gate, why), out_of_time=why)
        works: list[UserPartitionWork] = []
        out_of_time: str | None = None
        if histories:
            context = self._context(topic, replay, effects, gate, cluster_id)
            works = _prepared(histories, context, planned)
            try:
                batches = BatchCleaner(works, context, refusals.append, partial(self.on_progress, works))
                batches.clean()
                out_of_time = batches.out_of_time
            except RlmmError as e:
                on_interrupted(report(work.report(interrupted_by=e) for work in works))
                raise
        # Where earlier runs have left off is the evidence of the loss: it stays until a person has confirmed that.
        knows_loss = lost is not None or not lost_end
        committed = effects.commit(metadata_partition, replay.first_unsettled_offset()) if knows_loss else None
        return report((work.report() for work in works), committed, out_of_time)

    def _work(self, replay: MetadataPartitionReplay) -> list[UserPartitionHistory]:
        """Return the user partitions whose deletion is under way, of the topics that the plan is for."""
        under_way = [h for h in replay.histories.values() if h.deletion_under_way()]
        names = replay.names({h.topic_id_partition.topic_id for h in under_way})
        return [h for h in under_way if self.only.chooses(h.topic_id_partition, names[h.topic_id_partition.topic_id])]

    def _left(
        self, histories: Sequence[UserPartitionHistory], replay: MetadataPartitionReplay, gate: Gate, why: str
    ) -> list[UserPartitionReport]:
        """Leave to the next run what this one has no time for; what waits or is held is not left for want of time."""
        seen = look(self.topics, self.log, replay.names({h.topic_id_partition.topic_id for h in histories}))
        hold, now_ms = gate.hold(), self.clock()

        def left(history: UserPartitionHistory) -> UserPartitionReport:
            tip = history.topic_id_partition
            refusal = (
                hold.refusal_of(tip, seen.names[tip.topic_id])
                or refusal_of(history, seen.observations[tip.topic_id], now_ms, self.limits)
                or Refusal(str(tip), why, NEXT_RUN, RefusalKind.NEXT_RUN, replay.metadata_partition, topic=tip.topic)
            )
            return UserPartitionReport.refused(tip, len(history.unfinished()), refusal)

        return list(map(left, histories))

    def _lost_end(self, replay: MetadataPartitionReplay) -> tuple[Refusal, ...]:
        """Say that the log ends before the offset at which earlier runs have left off (KIP-405: the committed offset)."""
        number = replay.metadata_partition
        try:
            left_off = self.offsets.committed().get(number)
        except EventLogError as e:
            logger.warning("metadata partition %d: where earlier runs have left off is not known: %s", number, e)
            return ()
        if left_off is None:
            return ()
        logger.info("metadata partition %d: earlier runs have settled what lies below offset %d", number, left_off)
        # Another run may have gone on since this one read: the end is asked for again, after what was committed.
        if left_off <= replay.end or left_off <= self.log.high_water_marks()[number]:
            return ()
        why = f"earlier runs have read it up to offset {left_off}, and it ends at {replay.end}: it has lost its last records"
        what = f"metadata partition {number}"
        return (Refusal(what, why, LOST_END_ADVICE, RefusalKind.LOST_RECORDS, number, replay.end),)

    def _replayed(self, metadata_partition: int) -> tuple[TopicReplay, MetadataPartitionReplay]:
        """
        Return the topic, read on in one metadata partition, and the replay of the deletions that are under way there.

        The topic may come from a snapshot and only names them. What is done goes by the replay: all of it is read from the
        log itself, from its beginning.
        """
        topic = TopicReplay(self.log, self.topics, self.clock, self.snapshots, layout=self.storage.layout)
        topic.advance({metadata_partition})
        wanted = topic.under_way(metadata_partition) | topic.unresolved(metadata_partition)
        replay = MetadataPartitionReplay(self.log, metadata_partition, wanted, topic.end(metadata_partition))
        replay.advance()
        return topic, replay

    def _gate(self, effects: Effects) -> Gate:
        return Gate(
            CLEANER,
            is_dry=effects.is_dry,
            clock=self.clock,
            stop_source=self.should_stop,
            hold_source=self.hold,
            limits=self.limits,
            began_ms=self.began_ms,
            at_once=self.at_once,
        )

    def _context(
        self, topic: TopicReplay, replay: MetadataPartitionReplay, effects: Effects, gate: Gate, cluster_id: str
    ) -> CleaningContext:
        """Prove the storage root before anything is done there, and leave the stamp that says so."""
        root = prove_root(
            topic,
            self.storage,
            cluster_id=cluster_id,
            expectation=self.root,
            overrides=self.limits.overrides,
            samples=self.samples,
            ledger=self.ledger,
            dry_run=effects.is_dry,
        )
        root = replace(root, check=effects.stamp_root(root.check))
        self.on_root(root)
        effects.remember_root(root.check)
        return CleaningContext(
            self.log,
            self.topics,
            replay,
            effects,
            self.storage,
            self.limits,
            root,
            self.clock,
            gate,
            self.archive,
            EarlierDeletions(self.audit.deletions, replay.histories.values),
        )


def _stopped(history: UserPartitionHistory, metadata_partition: int, why: str) -> UserPartitionReport:
    tip = history.topic_id_partition
    refusal = Refusal(str(tip), why, STOPPED_ADVICE, RefusalKind.STOPPED, metadata_partition, topic=tip.topic)
    return UserPartitionReport.refused(tip, len(history.unfinished()), refusal)


def _prepared(
    histories: Sequence[UserPartitionHistory], context: CleaningContext, planned: PlannedSegments
) -> list[UserPartitionWork]:
    """Decide about every user partition; then return the work on each of them."""
    eligible = find_eligible(histories, context, planned)
    works = [UserPartitionWork(h, eligible[h.topic_id_partition], context.replay.metadata_partition) for h in histories]
    for work in works:
        if (refused := work.eligibility.refused) is not None:
            logger.warning("%s refused: %s", work.tip, refused.why)
    return works
