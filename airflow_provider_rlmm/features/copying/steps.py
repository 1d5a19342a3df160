# SPDX-License-Identifier: Apache-2.0
"""Copying the closed segments of a broker's log directories for a leader that does not: one disk, one topic."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.core.base.errors import (
    ClusterMismatchError,
    ConfigurationError,
    CopyRefusedError,
    DamagedObjectError,
    LogDirectoryError,
    StorageRootError,
)
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
from airflow_provider_rlmm.features.copying.rules import CopyLimits
from airflow_provider_rlmm.features.copying.topic_copy import PartitionCopy, TopicCopy

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.segments.metrics import RemoteLogMetrics
    from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
    from airflow_provider_rlmm.core.world.topic_view import TopicReplay
    from airflow_provider_rlmm.features.copying.copy_context import CopyContext
    from airflow_provider_rlmm.features.copying.copy_effects import CopyEffects
    from airflow_provider_rlmm.features.copying.log_directory.disk import LogDisk
    from airflow_provider_rlmm.features.copying.log_directory.names import TopicPartition

logger = logging.getLogger(__name__)

COPY_DOCUMENT: Final = "copy.json"
_SNAPSHOT_PREFIX: Final = ".rlmm-snapshot-"


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
    from airflow_provider_rlmm.features.copying.announcing import limit_of_brokers
    from airflow_provider_rlmm.features.copying.copy_context import CopyContext

    session.require_running(dry_run=dry_run)
    storage = session.storage.get_storage_manager()
    effects = _effects(session, storage, topic, dry_run=dry_run)
    with (
        _learned_to_copy(session, storage, topic) as replay,
        _snapshot(session, log_dir, topic, partitions, snapshot_in) as (disk, wanted),
        session.access.open_leader(session.cluster_id) as leader,
    ):
        context = CopyContext(
            log=session.log,
            leader=leader,
            storage=storage,
            cluster_id=session.cluster_id,
            root=session.root_expectation(CleanerLimits()),
            limits=limits,
            hold=session.hold,
            should_stop=session.should_stop,
            clock=session.clock,
            metrics=metrics,
            custom_metadata=limit_of_brokers(session.access.get_cluster_topics()),
        )
        wrong_root = _wrong_root(session, replay, storage, context, effects)
        copies = (_copy_partition(effects, context, disk, p, wrong_root) for p in wanted)
        found = TopicCopy(topic, effects.is_dry, tuple(copies))
    write_document(uri, COPY_DOCUMENT, json.dumps({"cluster_id": session.cluster_id, **found.to_json()}, indent=2))
    return found


def _effects(session: CleanerSession, storage: RemoteStorageManager, topic: str, *, dry_run: bool) -> CopyEffects:
    """Make what copies: the only place where anything does that is not a dry run's."""
    from airflow_provider_rlmm.features.copying.copy_effects import DryRunCopyEffects, RealCopyEffects
    from airflow_provider_rlmm.features.copying.copy_writer import CopyWriter

    if dry_run:
        # It, too, is refused by settings that do not say to which cluster may be written.
        session.access.get_connection_settings().check_writable()
        return DryRunCopyEffects()
    writer = CopyWriter(session.access.get_publisher(session.log, open_ahead=True), storage)
    writer.require_copying(f"copy segments of {topic}")
    return RealCopyEffects(writer)


@contextmanager
def _learned_to_copy(session: CleanerSession, storage: RemoteStorageManager, topic: str) -> Iterator[TopicReplay]:
    """Let the storage learn what copies look like; yield what the metadata topic says, read as far as that was needed."""
    from airflow_provider_rlmm.core.world.root_proof import newest_copies

    with session.topic() as replay:
        try:
            storage.learn_to_copy(newest_copies(replay))
        except ConfigurationError as e:
            raise CopyRefusedError(f"topic {topic!r} is not copied: {e}") from e
        yield replay


def _wrong_root(
    session: CleanerSession,
    replay: TopicReplay,
    storage: RemoteStorageManager,
    context: CopyContext,
    effects: CopyEffects,
) -> str | None:
    """Refuse a root that is not shown to be the one that brokers copy to now; return in a dry run why it would be refused."""
    from airflow_provider_rlmm.core.world.root_proof import require_brokers_root

    try:
        require_brokers_root(
            replay,
            storage,
            cluster_id=context.cluster_id,
            expectation=context.root,
            overrides=context.limits.overrides,
            ledger=session.root_ledger,
        )
    except StorageRootError as e:
        return effects.refuse_root(e)
    return None


def _copy_partition(
    effects: CopyEffects, context: CopyContext, disk: LogDisk, partition: TopicPartition, wrong_root: str | None
) -> PartitionCopy:
    from airflow_provider_rlmm.features.copying.copy_source import DirectorySource
    from airflow_provider_rlmm.features.copying.log_directory.partition import LogDirectory

    try:
        source = DirectorySource(LogDirectory.open(disk, partition))
        found = replace(effects.copy(context, source), wrong_root=wrong_root)
    except (CopyRefusedError, LogDirectoryError, DamagedObjectError) as e:
        # The other partitions may be healthy.
        found = PartitionCopy(partition.topic, partition.partition, refused=str(e))
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
        marked = disk.marked(topic, missing or None)
        lacks = f"partition {', '.join(map(str, missing))} of topic {topic!r}" if missing else f"topic {topic!r}"
        raise LogDirectoryError(
            f"{log_dir} has no directory of {lacks}"
            + (f", only such a one: {'; '.join(marked)}" if marked else ": name another one of the log.dirs")
        )
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
