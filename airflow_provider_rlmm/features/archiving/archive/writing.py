# SPDX-License-Identifier: Apache-2.0
"""Archives some segments of a user partition: first their files, then the records in them, each read back and compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast
from uuid import uuid4

from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.features.archiving.archive.records import archive_records
from airflow_provider_rlmm.features.archiving.archive.segments import SegmentArchiver, SegmentToArchive
from airflow_provider_rlmm.features.archiving.archive.storage import ArchivedSegmentStorage
from airflow_provider_rlmm.features.archiving.archive.stream import RecordStream
from airflow_provider_rlmm.features.archiving.archive_manifest import ArchiveManifest


@dataclass(frozen=True, slots=True)
class ArchiveOrigin:
    """
    What an archive is of.

    :param name: of the archive.
    :param cluster_id: the cluster.
    :param topic_id_partition: the user partition.
    :param created_at_ms: ms since the epoch.
    :param plan_id: the plan whose segments these are, ``None`` where it is none.
    :param plan_sha256: of that plan.
    """

    name: str
    cluster_id: str
    topic_id_partition: TopicIdPartition
    created_at_ms: int
    plan_id: str | None = None
    plan_sha256: str | None = None


def archive_user_partition(
    storage: RemoteStorageManager,
    folder_uri: str,
    origin: ArchiveOrigin,
    segments: Sequence[SegmentToArchive],
    *,
    encrypted_as_is: bool = False,
) -> ArchiveManifest:
    """
    Archive some segments. The archive is there once its manifest is written, which is the caller's to do.

    The records are read from the archived files: what is compared and counted is what was kept.

    :param storage: remote storage.
    :param folder_uri: of the user partition in the archive.
    :param origin: what it is an archive of.
    :param segments: which segments.
    :param encrypted_as_is: whether the objects of encrypted segments are archived as they are.
    :raises ArchiveError: if something is missing that must be there, or does not compare.
    :raises RemoteLogError: if a log cannot be what a broker has written.
    :raises StorageError: if storage fails.
    :raises OSError: if the archive cannot be written or read.
    """
    archiver = SegmentArchiver(storage, folder_uri, encrypted_as_is=encrypted_as_is)
    archived = tuple(archiver.archive(segment) for segment in segments)
    kept = ArchivedSegmentStorage(folder_uri, archived)
    # All that a reader asks of storage is to fetch logs and indexes.
    stream = RecordStream(origin.topic_id_partition, kept.whole_segments(), cast("RemoteStorageManager", kept))
    transactional = any(segment.transactional for segment in archived)
    try_id = uuid4().hex[:16]
    records = archive_records(stream, folder_uri, origin.name, try_id, transactional=transactional)
    tip = origin.topic_id_partition
    return ArchiveManifest(
        origin.name, try_id, origin.cluster_id, tip.topic, kafka_uuid_str(tip.topic_id), tip.partition, origin.created_at_ms,
        origin.plan_id, origin.plan_sha256, archived, records,
    )  # fmt: skip
