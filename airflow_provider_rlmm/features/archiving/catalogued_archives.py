# SPDX-License-Identifier: Apache-2.0
"""The archive of a topic whose cluster is lost, of the segments that a catalogue names: raw, and their records as Parquet."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from airflow_provider_rlmm.core.base.clock import Clock, system_clock
from airflow_provider_rlmm.core.base.errors import CatalogueError
from airflow_provider_rlmm.core.base.given import argument
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation, ReadRange
from airflow_provider_rlmm.features.archiving.archive.segments import SegmentToArchive
from airflow_provider_rlmm.features.archiving.archive.writing import ArchiveOrigin
from airflow_provider_rlmm.features.archiving.archive_run import NamedSegment
from airflow_provider_rlmm.features.archiving.archiver import archive_each, archive_listed
from airflow_provider_rlmm.features.reading.catalogue_steps import open_catalogued_log

if TYPE_CHECKING:
    from uuid import UUID

    from airflow_provider_rlmm.core.plans.plan_archive import ArchivedUserPartition
    from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, TopicIdPartition
    from airflow_provider_rlmm.core.runs.storage_access import StorageAccess
    from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
    from airflow_provider_rlmm.features.reading.catalogue_steps import CatalogueAsked, CatalogueReader
    from airflow_provider_rlmm.features.reading.catalogued_log import CataloguedLog

NO_METADATA_PARTITION: Final = -1
"""Stands for where the events of a user partition lie: a catalogue does not know the metadata topic."""


def archive_by_catalogue(
    storage: StorageAccess,
    asked: CatalogueAsked,
    reader: CatalogueReader,
    topic_id: UUID,
    name: str,
    *,
    partitions: Collection[int] | None = None,
) -> tuple[list[ArchivedUserPartition], list[str]]:
    """
    Archive a topic whose cluster is lost; that it is read is on the audit log before an object is asked for.

    :param storage: opens the storage that the catalogue is of; its settings name the folder of all archives.
    :param asked: the catalogue, and what a person says with it. What a person should decide is refused, asked or not: no
        person looks at an archive again.
    :param reader: who archives, for the audit log.
    :param topic_id: the topic.
    :param name: of the archive.
    :param partitions: only these user partitions, ``None`` for all.
    :return: what was archived, by partition, and what was decided about how it is read, each a sentence.
    :raises ConfigurationError: if no folder for archives is named.
    :raises CatalogueError: if the topic may not be read; besides, what :func:`archive_catalogued_topic` raises.
    :raises AuditError: if the audit log cannot be written: nothing is read then.
    """
    archive_uri = storage.get_connection_settings().required_archive_uri()
    asked = replace(asked, or_doubtful=False)
    log = open_catalogued_log(storage, asked, reader, kafka_uuid_str(topic_id), partitions)
    return archive_catalogued_topic(log, archive_uri, name), log.said


def archive_catalogued_topic(
    log: CataloguedLog, archive_uri: str, name: str, *, clock: Clock = system_clock
) -> list[ArchivedUserPartition]:
    """
    Archive all segments of a topic that can be read by a catalogue; nothing is deleted.

    All are kept raw, those of older lineages, too. The records are those of the lineage with the highest last leader epoch.
    Each user partition is looked at whole before the first is archived: of one that lacks anything nothing is. An encrypted
    segment is not archived as it is: no broker knows the segments of a lost cluster, so none would ever serve it again.

    :param log: the topic; what a person should decide is refused, not said.
    :param archive_uri: the folder of all archives.
    :param name: of the archive.
    :param clock: ms since the epoch.
    :return: what was archived, by partition.
    :raises OffsetNotInRemoteLogError: if a segment cannot be read, or offsets are missing between those that can.
    :raises CatalogueError: if a segment is not as the catalogue says, or a person should decide what is read.
    :raises ArchiveError: if something does not compare, or the archive cannot be written or read.
    :raises RlmmError: if storage cannot be read.
    """
    for tip in log.partitions:
        _require_none_encrypted(log, tip)
        log.offsets(tip, ReadRange(), ReadIsolation.READ_UNCOMMITTED)
    named = {
        number: sorted((NamedSegment.of(*segment) for segment in of), key=lambda s: (s.start_offset, s.segment_id))
        for number, of in log.named.items()
    }
    origins = [ArchiveOrigin(name, log.cluster_id, tip, clock()) for tip in log.partitions]
    # All that is asked of it are the files of segments.
    storage = cast("RemoteStorageManager", log.storage)

    def archive(origin: ArchiveOrigin) -> ArchivedUserPartition:
        of_partition = sorted(log.segments(origin.topic_id_partition), key=_order)
        segments = [SegmentToArchive(metadata, was_copied=True, to_the_end=True) for metadata in of_partition]
        return archive_listed(storage, archive_uri, origin, NO_METADATA_PARTITION, segments)

    return archive_each(archive_uri, origins, named, archive)


def _require_none_encrypted(log: CataloguedLog, tip: TopicIdPartition) -> None:
    if found := log.encrypted(tip):
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        raise CatalogueError(
            f"nothing is archived of {tip}: {found[0]}{more}. archive_encrypted does not help here: archived objects serve "
            "only brokers that know their segments, and none knows those of a lost cluster. Keep the objects and the keys of "
            "the plugin, or copy both with the tools of the bucket; user partitions without such segments are archived by "
            f"{argument('partitions')}"
        )


def _order(metadata: RemoteLogSegmentMetadata) -> tuple[int, int, int]:
    """Return the order in which later segments take the places of earlier ones, and hide no offset of them."""
    return metadata.end_offset, -metadata.start_offset, metadata.event_timestamp_ms
