# SPDX-License-Identifier: Apache-2.0
"""Copying the closed segments of a broker's log directories for a leader that does not: one disk, one topic."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_rlmm.core.base.errors import (
    ClusterMismatchError,
    CopyRefusedError,
    DamagedObjectError,
    LogDirectoryError,
    StorageRootError,
)
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
from airflow_provider_rlmm.features.copying.copy_hole import hole_ahead
from airflow_provider_rlmm.features.copying.copy_report import CopyReport, expiring_json, hole_json
from airflow_provider_rlmm.features.copying.rules import Candidates, CopyHole, CopyLimits, LocalSegment

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.segments.metrics import RemoteLogMetrics
    from airflow_provider_rlmm.core.storage.root import RootExpectation
    from airflow_provider_rlmm.features.copying.copier import RemoteLogCopier
    from airflow_provider_rlmm.features.copying.log_directory.disk import LogDisk
    from airflow_provider_rlmm.features.copying.log_directory.names import TopicPartition
    from airflow_provider_rlmm.features.copying.segment_copy import CopyContext

logger = logging.getLogger(__name__)

COPY_DOCUMENT: Final = "copy.json"
_SNAPSHOT_PREFIX: Final = ".rlmm-snapshot-"


@dataclass(frozen=True, slots=True)
class PartitionCopy:
    """What became of one user partition of a disk."""

    topic: str  # its name
    partition: int  # of the topic
    report: CopyReport | None = None  # what was copied, ``None`` where nothing was begun
    planned: Candidates | None = None  # what a dry run would copy
    refused: str | None = None  # why nothing of it may be copied
    wrong_root: str | None = None  # in a dry run, why the storage root would be refused; ``None`` where it would not

    @property
    def segments(self) -> int:
        """How many segments were copied, or would be."""
        if self.report is not None:
            return len(self.report.copied)
        return 0 if self.planned is None else len(self.planned.segments)

    @property
    def bytes(self) -> int:
        """The bytes of their logs."""
        if self.report is not None:
            return self.report.copied_bytes
        return 0 if self.planned is None else sum(s.size_in_bytes for s in self.planned.segments)

    @property
    def expiring(self) -> Sequence[LocalSegment]:
        """The segments that were left out, or would be, as the leader is about to delete them."""
        found = self.report or self.planned
        return () if found is None else found.expiring

    @property
    def hole(self) -> CopyHole | None:
        """The offsets that brokers would pass over after this run, ``None`` where there are none."""
        found = self.report or self.planned
        return None if found is None else found.hole

    @property
    def hole_ahead(self) -> str | None:
        """What must not be done before the leader has deleted what is not copied, ``None`` where brokers may go on."""
        return hole_ahead(self.topic, self.partition, self.expiring, self.hole)

    @property
    def needs_person(self) -> bool:
        """Whether somebody has to do something, or to leave something alone; a dry run says it as the copy would."""
        return self.stopped_by is not None if self.report is None else self.report.needs_person

    @property
    def stopped_by(self) -> str | None:
        """Why not all was copied that may be, and what must wait for the leader; ``None`` where nothing is left to do."""
        if self.report is not None:
            return self.report.stopped_by
        if self.planned is None:
            return self.refused
        reasons = (self.wrong_root, self.hole_ahead, self.planned.obstacle)
        return "; ".join(why for why in reasons if why is not None) or None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON types."""
        found: dict[str, Any] = {"partition": self.partition, "refused": self.refused}
        if self.planned is not None:
            found["planned"] = [
                {"start_offset": s.base_offset, "end_offset": s.end_offset, "segment_size_in_bytes": s.size_in_bytes}
                for s in self.planned.segments
            ]
            found["expiring"] = expiring_json(self.expiring)
            found["hole"] = hole_json(self.hole)
            found |= {"stopped_by": self.stopped_by, "needs_person": self.needs_person}
        return {**found, **(self.report.to_json() if self.report else {})}


@dataclass(frozen=True, slots=True)
class TopicCopy:
    """What became of all user partitions of a topic that lie on a disk."""

    topic: str
    dry_run: bool  # whether nothing was changed
    partitions: tuple[PartitionCopy, ...]  # by number

    @property
    def segments(self) -> int:
        """How many segments were copied, or would be."""
        return sum(p.segments for p in self.partitions)

    @property
    def bytes(self) -> int:
        """The bytes of their logs."""
        return sum(p.bytes for p in self.partitions)

    @property
    def expiring(self) -> int:
        """How many segments were left out, or would be, as their leaders are about to delete them."""
        return sum(len(p.expiring) for p in self.partitions)

    def unfinished(self, limits: CopyLimits) -> list[PartitionCopy]:
        """
        Return the partitions of which a later run may copy more, those that ended at ``max_segments`` not among them.

        :param limits: of this run.
        """
        return [
            p
            for p in self.partitions
            if p.report and p.stopped_by and not p.needs_person and len(p.report.copied) != limits.max_segments
        ]

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON types."""
        return {
            "topic": self.topic,
            "dry_run": self.dry_run,
            "segments": self.segments,
            "bytes": self.bytes,
            "expiring": self.expiring,
            "partitions": [p.to_json() for p in self.partitions],
        }


def copy_topic(
    session: CleanerSession,
    uri: str,
    log_dir: Path,
    topic: str,
    *,
    partitions: Collection[int] | None = None,
    snapshot_in: Path | None = None,
    limits: CopyLimits,
    metrics: RemoteLogMetrics,
    dry_run: bool,
) -> TopicCopy:
    """
    Copy the closed segments of a topic from a disk that no broker runs on; what is not copied is said for each partition.

    :param session: of the run.
    :param uri: of the folder of the run; ``copy.json`` is left there.
    :param log_dir: one of the broker's ``log.dirs``; nothing is written there.
    :param topic: name of the topic.
    :param partitions: its user partitions, ``None`` for all that lie there.
    :param snapshot_in: folder for the snapshot that is copied from and removed afterwards, on the same file system where hard
        links are to spare the space; ``None`` for the folder above ``log_dir``.
    :param limits: of the copier.
    :param metrics: what is counted.
    :param dry_run: say what would be copied, change nothing.
    :raises StoppedError: if the kill switch is on.
    :raises WritesNotAllowedError: if writes or copies are not allowed.
    :raises CopyRefusedError: if nothing can be copied into the layout of the storage.
    :raises StorageRootError: if the storage is not the one that brokers copy to now.
    :raises LogDirectoryError: if a broker holds the disk, it has nothing of the topic, or no snapshot can be taken.
    :raises ClusterMismatchError: if the disk is of another cluster.
    :raises RlmmError: if cluster, log or storage cannot be read.
    """
    from airflow_provider_rlmm.core.plans.plan_files import write_document
    from airflow_provider_rlmm.core.storage.copy_target import obstacle_to_copies
    from airflow_provider_rlmm.features.copying.copier import RemoteLogCopier
    from airflow_provider_rlmm.features.copying.segment_copy import CopyContext

    session.require_running(dry_run=dry_run)
    publisher = session.access.get_publisher(session.log)
    if not dry_run:
        publisher.require_copying(f"copy segments of {topic}")
    storage = session.storage.get_storage_manager()
    if (obstacle := obstacle_to_copies(storage.layout)) is not None:
        raise CopyRefusedError(f"topic {topic!r} is not copied: {obstacle}")
    with (
        _snapshot(session, log_dir, topic, partitions, snapshot_in) as (disk, wanted),
        session.access.open_leader(session.cluster_id) as leader,
    ):
        context = CopyContext(
            log=session.log,
            publisher=publisher,
            leader=leader,
            storage=storage,
            limits=limits,
            hold=session.hold,
            should_stop=session.should_stop,
            clock=session.clock,
            metrics=metrics,
        )
        expectation = session.root_expectation(CleanerLimits())
        wrong_root = _wrong_root(session, context, expectation, dry_run=dry_run)
        copier = RemoteLogCopier(context, session.cluster_id, expectation)
        copies = (_copy_partition(copier, disk, p, wrong_root, dry_run=dry_run) for p in wanted)
        found = TopicCopy(topic, dry_run, tuple(copies))
    write_document(uri, COPY_DOCUMENT, json.dumps({"cluster_id": session.cluster_id, **found.to_json()}, indent=2))
    return found


def _wrong_root(
    session: CleanerSession, context: CopyContext, expectation: RootExpectation, *, dry_run: bool
) -> str | None:
    """Refuse a root that is not shown to be the one that brokers copy to now; return in a dry run why it would be refused."""
    from airflow_provider_rlmm.core.world.root_proof import require_brokers_root

    try:
        with session.topic() as replay:
            require_brokers_root(
                replay,
                context.storage,
                cluster_id=session.cluster_id,
                expectation=expectation,
                overrides=context.limits.overrides,
                ledger=session.root_ledger,
            )
    except StorageRootError as e:
        if not dry_run:
            raise
        return f"a real run would be refused: {e}"
    return None


def _copy_partition(
    copier: RemoteLogCopier, disk: LogDisk, partition: TopicPartition, wrong_root: str | None, *, dry_run: bool
) -> PartitionCopy:
    from airflow_provider_rlmm.features.copying.copy_source import DirectorySource
    from airflow_provider_rlmm.features.copying.log_directory.partition import LogDirectory

    topic, number = partition.topic, partition.partition
    try:
        source = DirectorySource(LogDirectory.open(disk, partition))
        if dry_run:
            found = PartitionCopy(topic, number, planned=copier.plan(source), wrong_root=wrong_root)
        else:
            found = PartitionCopy(topic, number, report=copier.copy(source))
    except (CopyRefusedError, LogDirectoryError, DamagedObjectError) as e:
        # The other partitions may be healthy.
        found = PartitionCopy(topic, number, refused=str(e))
    if found.stopped_by is not None:
        logger.warning("%s: %s", partition, found.stopped_by)
    return found


@contextmanager
def _snapshot(
    session: CleanerSession, log_dir: Path, topic: str, partitions: Collection[int] | None, snapshot_in: Path | None
) -> Iterator[tuple[LogDisk, list[TopicPartition]]]:
    """Take a snapshot of what is wanted of a disk, and remove it after the block."""
    from airflow_provider_rlmm.features.copying.log_directory.disk import LogDisk
    from airflow_provider_rlmm.features.copying.log_directory.snapshot import take_snapshot

    disk = LogDisk.open(log_dir)
    if disk.cluster_id != session.cluster_id:
        raise ClusterMismatchError(
            f"{log_dir} is of cluster {disk.cluster_id!r}, and the connection leads to {session.cluster_id!r}: nothing is "
            "copied from one cluster into another"
        )
    there = [p for p in disk.partitions if p.topic == topic]
    wanted = [p for p in there if partitions is None or p.partition in partitions]
    missing = sorted(set(partitions or ()) - {p.partition for p in there})
    if missing or not wanted:
        which = f"partitions {missing} of topic {topic!r}" if missing else f"no partition of topic {topic!r}"
        raise LogDirectoryError(f"{log_dir} has {'not ' if missing else ''}{which}: name another one of the log.dirs")
    parent = log_dir.resolve().parent if snapshot_in is None else snapshot_in
    try:
        folder = Path(mkdtemp(prefix=_SNAPSHOT_PREFIX, dir=parent))
    except OSError as e:
        raise LogDirectoryError(
            f"no snapshot can be made in {parent}: {e.strerror}; name a folder of the same file system that can be written to"
        ) from e
    try:
        yield take_snapshot(log_dir, folder / "snapshot", partitions=wanted), wanted
    finally:
        shutil.rmtree(folder, ignore_errors=True)
