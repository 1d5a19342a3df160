# SPDX-License-Identifier: Apache-2.0
"""What the steps of a run share while they work: the verified cluster, its log, a proven clock, the hold."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from airflow_provider_rlmm.core.base.clock import Clock
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.work_folder import (
    SNAPSHOT_SUFFIX,
    SNAPSHOTS_FOLDER,
    cluster_folder,
    generations_folder,
)
from airflow_provider_rlmm.core.log.floored_log import NOTHING_CONFIRMED, Confirmation
from airflow_provider_rlmm.core.log.topic_state import ProgressListener, ignore_progress
from airflow_provider_rlmm.core.plans.guards import CleanerLimits, ScrubLimits
from airflow_provider_rlmm.core.plans.plan_files import orphaned_partitions, read_plan
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
from airflow_provider_rlmm.core.runs.floors import floored
from airflow_provider_rlmm.core.runs.metadata_topic import StorageStamps
from airflow_provider_rlmm.core.runs.storage_access import StorageAccess
from airflow_provider_rlmm.core.world.hold import Hold, HoldSource
from airflow_provider_rlmm.core.world.kill_switch import StopSource, cannot_be_told, require_not_stopped
from airflow_provider_rlmm.core.world.only import ALL_TOPICS, Only
from airflow_provider_rlmm.core.world.proven_time import bound_of_run
from airflow_provider_rlmm.core.world.run_identity import RunIdentity

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.log.kept_snapshots import KeptSnapshots
    from airflow_provider_rlmm.core.log.protocol import ClusterTopics, MetadataLogReader
    from airflow_provider_rlmm.core.plans.deletion_plan import DeletionPlan
    from airflow_provider_rlmm.core.plans.plan import PlanSummary
    from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId
    from airflow_provider_rlmm.core.storage.layout import Layout
    from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
    from airflow_provider_rlmm.core.storage.root import RootExpectation
    from airflow_provider_rlmm.core.world.audit import DeletionRecord
    from airflow_provider_rlmm.core.world.audit_log import AuditLog
    from airflow_provider_rlmm.core.world.root_ledger import WorkFolderLedger
    from airflow_provider_rlmm.core.world.root_proof import ProvenRoot
    from airflow_provider_rlmm.core.world.topic_view import TopicReplay

Limits = TypeVar("Limits", CleanerLimits, ScrubLimits)

HOLD_AGE_S = 5.0
"""For how long a hold that was read counts, seconds: it may begin while a task works."""

STOP_AGE_S = 5.0
"""For how long the kill switch counts as it was read, seconds."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CleanerSession:
    """
    :param access: what opens all this.
    :param storage: what opens the storage.
    :param work_uri: the folder of plans, reports and what runs remember.
    :param cluster_id: the verified cluster.
    :param log: its metadata event log, which knows what earlier runs of the work folder have read of it.
    :param topics: its topics.
    :param clock: proven time; its text says how it was proven.
    :param hold: what is never touched, as of now.
    :param should_stop: why nothing may be begun, as of now.
    :param on_progress: told how far the reading of the metadata topic is.
    :param run_hold: the entries of the hold that are given for this run; the settings may name others.
    :param only: the topics that this run is for.
    :param rest: waits for seconds, where the limits want a rest between batches.
    """

    access: RemoteLogAccess
    storage: StorageAccess
    work_uri: str
    cluster_id: str
    log: MetadataLogReader
    topics: ClusterTopics
    clock: Clock
    hold: HoldSource
    should_stop: StopSource
    on_progress: ProgressListener = ignore_progress
    run_hold: tuple[str, ...] = ()
    only: Only = ALL_TOPICS
    rest: Callable[[float], object] = time.sleep

    @property
    def snapshots(self) -> KeptSnapshots:
        """
        Where tasks leave each other what they have read of the metadata topic: one file per cluster and topic, and earlier
        ones of it.
        """
        from airflow_provider_rlmm.core.log.kept_snapshots import KeptSnapshots
        from airflow_provider_rlmm.core.log.snapshot_file import SnapshotFile

        current = SnapshotFile(f"{self.cluster_uri}/topic-{self.log.topic_id}{SNAPSHOT_SUFFIX}")
        settings = self.access.get_connection_settings()
        second = settings.snapshots_uri and (
            f"{settings.snapshots_uri.rstrip('/')}/{cluster_folder(self.cluster_id)}/{SNAPSHOTS_FOLDER}"
        )
        folder = f"{self.cluster_uri}/{SNAPSHOTS_FOLDER}"
        return KeptSnapshots(current, folder, self.log.topic_id, settings.keep_snapshots, second)

    def require_running(self, *, dry_run: bool) -> str:
        """
        Refuse to begin what changes anything while the kill switch is on.

        :param dry_run: whether nothing will be changed: then it is only said.
        :return: whether it is on, in one sentence.
        :raises StoppedError: if it is on or cannot be read, and the run is for real.
        """
        if (why := self.should_stop()) is None:
            return f"off: {self.access.stop_switch} would stop a run"
        if not dry_run:
            require_not_stopped(why)
        logger.warning("%s. A real run would end here", why)
        return f"{why}. A real run would end here"

    @property
    def _layout(self) -> Layout | None:
        """Where objects of segments lie, ``None`` where no storage is set."""
        from airflow_provider_rlmm.core.storage.layouts import layout_named

        settings = self.access.get_connection_settings()
        return None if settings.storage_uri is None else layout_named(settings.layout, settings.layout_options)

    @contextmanager
    def topic(self, *, or_folded: bool = False) -> Iterator[TopicReplay]:
        """
        Return the metadata topic, resumed from the latest snapshot; at the end of the block it leaves another one.

        :param or_folded: whether it may begin with what the Spark job has folded, where that knows more: for those who read
            from the log itself what they write by, or write nothing.
        """
        from airflow_provider_rlmm.core.world.topic_view import TopicReplay

        folded = None
        if or_folded:
            from airflow_provider_rlmm.core.log.folded_topic import FoldedTopic

            folded = FoldedTopic(f"{self.work_uri}/{generations_folder(self.cluster_id)}", self.clock)
        topic = TopicReplay(
            self.log,
            self.topics,
            self.clock,
            self.snapshots,
            on_progress=self.on_progress,
            layout=self._layout,
            folded=folded,
        )
        try:
            yield topic
        finally:
            # What was read is worth keeping even where an error came of it.
            topic.keep()

    def work_of(self, uri: str | None) -> frozenset[tuple[UUID, int]] | None:
        """
        Return the partitions that a plan names as orphaned.

        :param uri: the folder of a plan, ``None`` for none.
        :return: topic id and partition, ``None`` where no plan was given.
        :raises PlanError: if it cannot be read, has expired or is of another cluster.
        """
        return None if uri is None else orphaned_partitions(uri, self.check_plan(uri))

    def check_plan(self, uri: str) -> PlanSummary:
        """
        Return the summary of a plan that may be applied here, now.

        :param uri: the folder of the plan.
        :raises PlanError: if it cannot be read, has expired or is of another cluster.
        """
        summary = read_plan(uri)
        summary.check_valid(self.cluster_id, self.clock())
        return summary

    def paced(self, limits: Limits) -> Limits:
        """Return limits with the rate and the time of day that the settings name, where the run names none."""
        settings = self.access.get_connection_settings()
        rate, window = settings.objects_per_second, settings.deletion_window
        return replace(
            limits,
            objects_per_second=rate if limits.objects_per_second is None else limits.objects_per_second,
            deletion_window=window if limits.deletion_window is None else limits.deletion_window,
        )

    @property
    def cluster_uri(self) -> str:
        """The folder of what runs remember of the cluster: snapshots, and the storage roots on which they have worked."""
        return f"{self.work_uri}/{cluster_folder(self.cluster_id)}"

    def audit_log(self, run: RunIdentity, source: int | str) -> AuditLog:
        """
        Return where a task writes down what it deletes.

        :param run: who deletes, and by which plan.
        :param source: the metadata partition, or :data:`~airflow_provider_rlmm.core.world.audit.SCRUB`.
        """
        from airflow_provider_rlmm.core.world.audit_log import AuditFiles

        return AuditFiles(self.cluster_uri, self.cluster_id, run, source, self.clock)

    def earlier_deletions(self, segments: Collection[RemoteLogSegmentId], since_ms: int) -> DeletionRecord:
        """
        Tell what runs of this work folder have written down about the deletion of some segments.

        :param segments: the segments.
        :param since_ms: none of them was deleted before this time, ms since the epoch.
        """
        from airflow_provider_rlmm.core.world.audit_files import deletion_record

        return deletion_record(self.cluster_uri, self.cluster_id, segments, since_ms)

    def root_expectation(self, limits: CleanerLimits) -> RootExpectation:
        """
        Return what is known about the storage root before it is looked at.

        :param limits: with the overrides in force.
        :raises PlanError: if what earlier runs have recorded cannot be read.
        """
        from airflow_provider_rlmm.core.world.root_ledger import recorded_roots

        known = self.storage.root_expectation(limits.overrides, recorded_roots(self.cluster_uri, self.cluster_id))
        return replace(known, metadata_topic_id=self.log.topic_id)

    def require_known_places(self, topic: TopicReplay) -> None:
        """
        Refuse settings that do not name every place at which living topics have copies; no storage is asked.

        :param topic: the metadata topic; it is advanced.
        :raises StorageRootError: naming the key prefix, its topics and what to set.
        :raises EventLogError: if the topic or the cluster cannot be read.
        """
        from airflow_provider_rlmm.core.storage.layouts import layout_named
        from airflow_provider_rlmm.core.world.known_places import require_known_places

        settings = self.access.get_connection_settings()
        if settings.storage_uri is None:
            return
        topic.advance()
        require_known_places(
            topic, (), layout_named(settings.layout, settings.layout_options), nothing="nothing is marked"
        )

    def hold_with(self, plan: DeletionPlan) -> HoldSource:
        """
        Return what is never touched while a plan is applied: what is held then, and what was when it was made.

        :param plan: the plan.
        """
        return lambda: Hold.of(self.hold().entries, plan.hold)

    @property
    def root_ledger(self) -> WorkFolderLedger:
        """Remembers since when the places of the storage lie where they do."""
        from airflow_provider_rlmm.core.world.root_ledger import WorkFolderLedger

        return WorkFolderLedger(self.cluster_uri, self.cluster_id, self.clock)

    def prove_root(
        self,
        topic: TopicReplay,
        limits: CleanerLimits,
        storage: RemoteStorageManager | None = None,
        *,
        dry_run: bool = False,
    ) -> ProvenRoot:
        """
        Prove the storage root of the connection, from the whole metadata topic.

        :param topic: the metadata topic.
        :param limits: with the overrides in force.
        :param storage: what will be listed afterwards and must stay the same root; ``None`` where nothing is.
        :param dry_run: only say where nothing shows that this is the root that brokers write to now.
        :raises StorageRootError: if it is not this cluster's, or not up to date.
        :raises EventLogAccessError: if only hidden topics could tell whether it is.
        """
        from airflow_provider_rlmm.core.world.root_proof import prove_root

        return prove_root(
            topic,
            storage or self.storage.get_storage_manager(),
            cluster_id=self.cluster_id,
            expectation=self.root_expectation(limits),
            overrides=limits.overrides,
            ledger=self.root_ledger,
            dry_run=dry_run,
        )


@contextmanager
def cleaner_session(
    access: RemoteLogAccess,
    limits: CleanerLimits,
    *,
    work_uri: str,
    dry_run: bool,
    must_know_floors: bool = False,
    hold: Iterable[str] = (),
    only: Only = ALL_TOPICS,
    began: datetime | None = None,
    confirmation: Confirmation = NOTHING_CONFIRMED,
    on_progress: ProgressListener = ignore_progress,
) -> Iterator[CleanerSession]:
    """
    Open what a step of a run needs; errors of the cluster name where the login comes from.

    :param access: what opens the cluster and its storage.
    :param limits: with the overrides in force.
    :param work_uri: the folder of plans, reports and what runs remember.
    :param dry_run: whether nothing will be written or deleted.
    :param must_know_floors: whether it ends all the same where what earlier runs have read of the metadata topic is not
        known: what is kept for good, such as an archive, must hold all that the log had named.
    :param hold: topics that this run must not touch, besides those that the settings name.
    :param only: topics that this run is for.
    :param began: when the run began, by the clock of what started it, ``None`` where that is this worker's clock.
    :param confirmation: what a person has confirmed to be lost of the metadata topic.
    :param on_progress: told how far the reading of the metadata topic is.
    :raises FloorError: if what earlier runs have read of the metadata topic is not known, or cannot be remembered, and the
        run is for real, or must know it.
    :raises LogBehindError: if the metadata topic ends below what was read of it, and is growing.
    :raises LostRecordsError: if the confirmation names what is not lost.
    :raises MetadataTopicReplacedError: if the metadata topic is another one than runs of the work folder, or below the
        storage, have worked with, the run is for real and that is not confirmed.
    :raises StorageError: if the stamps of the storage cannot be read, and the run is for real.
    :raises ClusterMismatchError: if the settings do not lead to one cluster, the expected one.
    :raises ClockSkewError: if clocks contradict each other.
    :raises UnprovenClockError: if nothing proves the time, and writes are allowed.
    """
    cluster_id = access.check_cluster(limits.overrides)
    with access.naming_connection(), access.get_event_log() as log:
        bounds = [bound_of_run(began)] if began else []
        clock = access.get_proven_clock(log, dry_run=dry_run, overrides=limits.overrides, bounds=bounds)
        of_run = Hold.of(hold).entries
        storage, topics, held = access.get_storage(), access.get_cluster_topics(), _fresh_hold(access, of_run)
        stop, folder = _fresh_stop(access), f"{work_uri}/{cluster_folder(cluster_id)}"
        stamps = StorageStamps(storage, cluster_id, stop)
        only_said = dry_run and not must_know_floors
        with floored(log, folder, dry_run=only_said, confirmation=confirmation, clock=clock, stamps=stamps) as known:
            yield CleanerSession(
                access, storage, work_uri, cluster_id, known, topics, clock, held, stop, on_progress, of_run, only
            )


def _fresh_hold(access: RemoteLogAccess, entries: tuple[str, ...]) -> HoldSource:
    """Return a source that reads the settings again when what it knows is old."""
    read: list[tuple[float, Hold]] = []

    def hold() -> Hold:
        if not read or time.monotonic() - read[0][0] > HOLD_AGE_S:
            read[:] = [(time.monotonic(), Hold.of(access.read_connection_settings().hold, entries))]
        return read[0][1]

    return hold


def _fresh_stop(access: RemoteLogAccess) -> StopSource:
    """Return a source that reads the kill switch again when what it knows is old."""
    read: list[tuple[float, str | None]] = []

    def stop() -> str | None:
        if not read or time.monotonic() - read[0][0] > STOP_AGE_S:
            read[:] = [(time.monotonic(), _why_stopped(access))]
        return read[0][1]

    return stop


def _why_stopped(access: RemoteLogAccess) -> str | None:
    try:
        return access.read_stop()
    except ConfigurationError as e:
        return cannot_be_told(access.stop_switch, str(e))
    except Exception as e:
        # A secrets backend or a store may raise anything: its words stay in the log, where Airflow masks secrets.
        logger.exception("the kill switch cannot be read")
        return cannot_be_told(access.stop_switch, f"{type(e).__name__}, see the log")
