# SPDX-License-Identifier: Apache-2.0
"""
Archives what a plan would delete: every planned segment, user partition by user partition, read back and compared.

A topic of which anything does not compare is refused as a whole, and the others go on. What concerns the archive itself, such
as a full disk, ends the step: nothing is deleted then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import Clock
from airflow_provider_rlmm.core.base.errors import (
    ArchiveError,
    RemoteLogError,
    StorageError,
    StorageRootError,
)
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.log.log_tail import require_tail
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.plans.plan import PlannedSegments, PlanSummary
from airflow_provider_rlmm.core.plans.plan_archive import ArchivedUserPartition, PlanArchive, not_archived
from airflow_provider_rlmm.core.plans.refusals import Refusal
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.core.world.kill_switch import StopSource, never_stopped, require_not_stopped
from airflow_provider_rlmm.core.world.replay import MetadataPartitionReplay
from airflow_provider_rlmm.core.world.wholeness import incomplete_history
from airflow_provider_rlmm.features.archiving.archive.manifests import write_manifest
from airflow_provider_rlmm.features.archiving.archive.places import folder_of
from airflow_provider_rlmm.features.archiving.archive.segments import SegmentToArchive
from airflow_provider_rlmm.features.archiving.archive.writing import ArchiveOrigin, archive_user_partition
from airflow_provider_rlmm.features.archiving.archive_documents import NamedByLog, leave_document
from airflow_provider_rlmm.features.archiving.archive_run import NamedSegment

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Work:
    """What a try has archived so far."""

    name: str
    summary: PlanSummary
    began_ms: int
    archived: list[ArchivedUserPartition] = field(default_factory=list)
    refused: dict[str, Refusal] = field(default_factory=dict)
    begun: dict[UUID, tuple[TopicIdPartition, int]] = field(default_factory=dict)

    @contextmanager
    def refusing(self, tip: TopicIdPartition, metadata_partition: int) -> Iterator[None]:
        """Refuse a topic for what concerns it alone; anything else ends the step."""
        try:
            yield
        except (RemoteLogError, StorageError) as e:
            if e.retriable or isinstance(e, StorageRootError) or isinstance(e.__cause__, OSError):
                raise
            logger.error("%s is not archived, and nothing of its topic will be deleted: %s", tip, e)
            self.refused.setdefault(kafka_uuid_str(tip.topic_id), not_archived(tip, metadata_partition, str(e)))


@dataclass(frozen=True, slots=True)
class PlanArchiver:
    """
    :param log: the metadata event log that the plan was made from.
    :param storage: remote storage.
    :param archive_uri: the folder of all archives.
    :param named: what the log names of the planned topics, in all of their partitions.
    :param clock: time.
    :param should_stop: why no further user partition may be begun, asked before each.
    :param encrypted_as_is: whether the objects of encrypted segments are archived as they are; otherwise their topics are
        refused.
    """

    log: MetadataLogReader
    storage: RemoteStorageManager
    archive_uri: str
    named: NamedByLog
    _: KW_ONLY
    clock: Clock
    should_stop: StopSource = never_stopped
    encrypted_as_is: bool = False

    def archive(self, name: str, summary: PlanSummary, planned: Mapping[int, PlannedSegments]) -> PlanArchive:
        """
        Archive all segments of a plan that are not finished yet.

        :param name: of the archive.
        :param summary: of the plan.
        :param planned: metadata partition → its planned segments.
        :raises LogReplacedError: if the log is not the one that the plan was made from.
        :raises EventLogError: if the log cannot be read.
        :raises ArchiveError: if the archive cannot be written or read.
        :raises StorageError: if storage fails in a way that may pass, or the root is gone.
        :raises StoppedError: if the kill switch is on.
        """
        work = _Work(name, summary, self.clock())
        try:
            self._archive_all(work, planned)
        except BaseException:
            # What is in the archive by now is named all the same; what went wrong is said by the error.
            with suppress(ArchiveError):
                self._leave_documents(work)
            raise
        self._leave_documents(work)
        return PlanArchive(
            name, summary.plan_id, summary.sha256, summary.cluster_id, self.archive_uri, work.began_ms,
            tuple(work.archived), work.refused,
        )  # fmt: skip

    def _archive_all(self, work: _Work, planned: Mapping[int, PlannedSegments]) -> None:
        for metadata_partition in sorted(planned):
            for history, ids in self._work(work.summary, metadata_partition, planned[metadata_partition]):
                tip = history.topic_id_partition
                require_not_stopped(self.should_stop())
                if kafka_uuid_str(tip.topic_id) in work.refused:
                    continue
                with work.refusing(tip, metadata_partition):
                    self._require_unbroken(metadata_partition)
                    work.begun.setdefault(tip.topic_id, (tip, metadata_partition))
                    found = self._archive(work.name, work.summary, metadata_partition, history, ids)
                    work.archived.append(found)

    def _require_unbroken(self, metadata_partition: int) -> None:
        lost = self.log.losses.get(metadata_partition)
        if lost is not None and lost.is_open:
            raise ArchiveError(f"{lost.why}: nothing is archived there. What to do: {lost.what_to_do}")

    def _leave_documents(self, work: _Work) -> None:
        """Leave a document in the archive of each topic that was begun; a topic that cannot have one is refused."""
        for tip, metadata_partition in work.begun.values():
            of_topic = [found for found in work.archived if found.topic_id == kafka_uuid_str(tip.topic_id)]
            with work.refusing(tip, metadata_partition):
                document = leave_document(
                    self.archive_uri, self._origin(work.name, work.summary, tip), of_topic, self.named[tip.topic_id]
                )
                for found in of_topic:
                    work.archived[work.archived.index(found)] = replace(found, document=document)

    def _work(
        self, summary: PlanSummary, metadata_partition: int, planned: PlannedSegments
    ) -> Iterator[tuple[UserPartitionHistory, frozenset[UUID]]]:
        if not planned:
            return
        require_tail(self.log, metadata_partition, summary.tail_of(metadata_partition))
        replay = MetadataPartitionReplay(self.log, metadata_partition, frozenset(topic_id for topic_id, _ in planned))
        replay.advance()
        for tip, history in replay.histories.items():
            if ids := planned.get((tip.topic_id, tip.partition)):
                yield history, ids

    def _archive(
        self,
        name: str,
        summary: PlanSummary,
        metadata_partition: int,
        history: UserPartitionHistory,
        ids: frozenset[UUID],
    ) -> ArchivedUserPartition:
        origin = self._origin(name, summary, history.topic_id_partition)
        return archive_segments(
            self.storage,
            self.archive_uri,
            origin,
            metadata_partition,
            history,
            ids,
            encrypted_as_is=self.encrypted_as_is,
        )

    def _origin(self, name: str, summary: PlanSummary, tip: TopicIdPartition) -> ArchiveOrigin:
        return ArchiveOrigin(name, summary.cluster_id, tip, self.clock(), summary.plan_id, summary.sha256)


def archive_user_partitions(
    log: MetadataLogReader,
    storage: RemoteStorageManager,
    archive_uri: str,
    tips: Sequence[TopicIdPartition],
    named: Mapping[int, Sequence[NamedSegment]],
    *,
    cluster_id: str,
    name: str,
    clock: Clock,
    allowed_quarantine: frozenset[str],
    encrypted_as_is: bool = False,
) -> list[ArchivedUserPartition]:
    """
    Archive all segments of some user partitions of a topic, as the log names them now.

    :param log: the metadata event log.
    :param storage: remote storage.
    :param archive_uri: the folder of all archives.
    :param tips: the user partitions, of one topic.
    :param named: what the log names in all partitions of the topic.
    :param cluster_id: the cluster.
    :param name: of the archive.
    :param clock: time.
    :param allowed_quarantine: names of error codes that raise no doubt about a history.
    :param encrypted_as_is: whether the objects of encrypted segments are archived as they are.
    :return: what was archived, by partition.
    :raises ArchiveError: if something does not compare, the log may not name all segments, or a user partition has two names.
    :raises RlmmError: if log or storage cannot be read.
    """
    if len({tip.partition for tip in tips}) != len(tips):
        raise ArchiveError(f"the log names the topic id of {tips[0]} under several names: look at its records")
    origins = [ArchiveOrigin(name, cluster_id, tip, clock()) for tip in sorted(tips, key=lambda t: t.partition)]

    def archive(origin: ArchiveOrigin) -> ArchivedUserPartition:
        tip = origin.topic_id_partition
        number = metadata_partition_for(tip, log.partition_count)
        if (lost := log.losses.get(number)) is not None:
            raise ArchiveError(
                f"{lost.why}: segments of {tip} may be missing from its archive, confirmed or not; take its objects from "
                "storage by hand"
            )
        replay = MetadataPartitionReplay(log, number, frozenset({tip.topic_id}))
        replay.advance()
        if (doubt := replay.doubt_about(tip, allowed_quarantine)) is not None:
            raise ArchiveError(
                f"{doubt.why}: segments of {tip} may be missing from its archive; have the doctor look at it"
            )
        history = replay.histories[tip]
        if history.without_add:
            raise ArchiveError(
                f"{incomplete_history(history, number).why} of metadata partition {number}: what they hold would be missing "
                f"from the archive of {tip}; take its objects from storage by hand"
            )
        return archive_segments(storage, archive_uri, origin, number, history, encrypted_as_is=encrypted_as_is)

    return archive_each(archive_uri, origins, named, archive)


def archive_each(
    archive_uri: str,
    origins: Sequence[ArchiveOrigin],
    named: Mapping[int, Sequence[NamedSegment]],
    archive: Callable[[ArchiveOrigin], ArchivedUserPartition],
) -> list[ArchivedUserPartition]:
    """
    Archive user partitions of a topic, and leave the document of what has to be there, however the work ends.

    :param archive_uri: the folder of all archives.
    :param origins: of each user partition.
    :param named: what is known of all partitions of the topic.
    :param archive: archives one.
    :return: what was archived, in the order of the origins.
    :raises ArchiveError: if the document cannot be written; besides, what ``archive`` raises.
    """
    archived: list[ArchivedUserPartition] = []
    try:
        for origin in origins:
            found = archive(origin)
            archived.append(found)
    except BaseException:
        if archived:
            with suppress(ArchiveError):
                leave_document(archive_uri, origins[0], archived, named)
        raise
    document = leave_document(archive_uri, origins[0], archived, named)
    return [replace(one, document=document) for one in archived]


def archive_segments(
    storage: RemoteStorageManager,
    archive_uri: str,
    origin: ArchiveOrigin,
    metadata_partition: int,
    history: UserPartitionHistory,
    ids: frozenset[UUID] | None = None,
    *,
    encrypted_as_is: bool = False,
) -> ArchivedUserPartition:
    """
    Archive segments of one user partition, and write the manifest that makes an archive of it.

    :param storage: remote storage.
    :param archive_uri: the folder of all archives.
    :param origin: what it is an archive of.
    :param metadata_partition: where the events of the user partition lie.
    :param history: of the user partition.
    :param ids: of its segments that are archived, ``None`` for all that are not finished.
    :param encrypted_as_is: whether the objects of encrypted segments are archived as they are.
    :raises ArchiveError: if something does not compare, or the archive cannot be written or read.
    :raises RemoteLogError: if a log cannot be what a broker has written.
    :raises StorageError: if storage fails.
    """
    segments = [
        SegmentToArchive(m, m.remote_log_segment_id.id in history.copied)
        for m in history.unfinished()
        if ids is None or m.remote_log_segment_id.id in ids
    ]
    return archive_listed(storage, archive_uri, origin, metadata_partition, segments, encrypted_as_is=encrypted_as_is)


def archive_listed(
    storage: RemoteStorageManager,
    archive_uri: str,
    origin: ArchiveOrigin,
    metadata_partition: int,
    segments: Sequence[SegmentToArchive],
    *,
    encrypted_as_is: bool = False,
) -> ArchivedUserPartition:
    """
    Archive a list of segments of one user partition; see :func:`archive_segments`.

    :param storage: remote storage.
    :param archive_uri: the folder of all archives.
    :param origin: what it is an archive of.
    :param metadata_partition: where the events of the user partition lie.
    :param segments: which segments.
    :param encrypted_as_is: whether the objects of encrypted segments are archived as they are.
    :raises ArchiveError: if something does not compare, or the archive cannot be written or read.
    :raises RemoteLogError: if a log cannot be what a broker has written.
    :raises StorageError: if storage fails.
    """
    tip = origin.topic_id_partition
    folder = folder_of(archive_uri, origin.cluster_id, tip)
    try:
        manifest = archive_user_partition(storage, folder, origin, segments, encrypted_as_is=encrypted_as_is)
        written = write_manifest(folder, manifest)
    except OSError as e:
        raise ArchiveError(f"the archive {folder} cannot be written or read: {e}") from e
    not_whole = sum(not segment.is_kept for segment in manifest.segments)
    as_is = sum(bool(segment.keys) for segment in manifest.segments)
    logger.info(
        "%s: %s, %s, %s are archived in %s",
        tip, number_of(len(segments), "segment"), number_of(manifest.records.count, "record"), human_bytes(manifest.bytes),
        folder,
    )  # fmt: skip
    return ArchivedUserPartition(
        metadata_partition, tip.topic, kafka_uuid_str(tip.topic_id), tip.partition, folder, written.name, written.sha256,
        len(segments), not_whole, manifest.bytes, manifest.records.count, manifest.records.sha256, as_is=as_is,
    )  # fmt: skip
