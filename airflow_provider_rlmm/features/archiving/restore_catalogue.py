# SPDX-License-Identifier: Apache-2.0
"""
A catalogue that a topic is restored from: by the rules by which it is read, and nothing that a person should decide first.

A bucket is a way round deletions, and it cannot be known what retention had deleted: so the person who restores names the
start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.core.base.errors import CatalogueError, OffsetNotInRemoteLogError
from airflow_provider_rlmm.core.plans.catalogue_files import CatalogueFiles
from airflow_provider_rlmm.core.runs.storage_access import StorageAccess, StorageSource
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.segments.read_range import OffsetRange, ReadIsolation
from airflow_provider_rlmm.features.archiving.restore_document import RestoreRun
from airflow_provider_rlmm.features.archiving.restore_rules import INCOMPLETE_CATALOGUE, RestoreRange
from airflow_provider_rlmm.features.archiving.restore_source import SourceLog
from airflow_provider_rlmm.features.reading.catalogue_steps import CatalogueAsked, CatalogueReader, open_catalogued_log

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.records.records import TopicIdPartition
    from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
    from airflow_provider_rlmm.features.reading.catalogued_log import CataloguedLog

NOT_IN_A_BUCKET: Final = (
    "what lay only on brokers is lost; settings of the topic, ACLs, consumer groups and schemas are not in a bucket: make "
    "them anew"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueToRestore:
    """
    A catalogue, and which records of it are restored.

    :param asked: the catalogue, and what a person says with it. What a person should decide is refused, asked or not.
    :param wanted: where each user partition begins and ends.
    :param bytes_per_second: the most that is fetched in a second, ``None`` for as much as the store gives.
    """

    asked: CatalogueAsked
    wanted: RestoreRange
    bytes_per_second: int | None = None


class CatalogueSource:
    """
    What a catalogue has of a topic. It is on the audit log before an object is asked for.

    :param storage: opens the storage that the catalogue is of.
    :param catalogue: the catalogue, and from where on.
    :param by: who restores.
    :param cluster_id: the cluster whose segments these are, as a person names it; ``None`` where the catalogue says it.
    :param topic_id: in Kafka's form.
    :param or_incomplete: whether what there is is restored round holes, and round what cannot be read.
    :raises CatalogueError: if the topic may not be read, or the catalogue cannot be.
    :raises ConfigurationError: if the start does not say where each user partition begins.
    :raises AuditError: if the audit log cannot be written.
    """

    kind = "catalogue"

    def __init__(
        self,
        storage: StorageAccess,
        catalogue: CatalogueToRestore,
        by: RestoreRun,
        cluster_id: str | None,
        topic_id: str,
        *,
        or_incomplete: bool,
    ) -> None:
        files = CatalogueFiles(catalogue.asked.uri)
        if cluster_id is None and files.document.cluster_id is None:
            raise CatalogueError(
                "the catalogue does not say of which cluster its segments are, and what is read is written down there: name "
                "it by archived_cluster_id"
            )
        self.sha256 = files.sha256
        self.start = str(catalogue.wanted)
        self._wanted, self._or_incomplete = catalogue.wanted, or_incomplete
        self._log: CataloguedLog = open_catalogued_log(
            _StorageOfLostCluster(storage, cluster_id),
            replace(catalogue.asked, or_doubtful=False),
            CatalogueReader(run=by.run, work_uri=by.work_uri, what="restore"),
            topic_id,
            wanted=self._wanted.range_of,
            isolation=ReadIsolation.READ_COMMITTED,
            bytes_per_second=catalogue.bytes_per_second,
        )
        if not self._log.partitions:
            raise CatalogueError(
                f"the catalogue names no user partition of topic id {topic_id}: nothing can be restored"
            )
        self._wanted.require_all([tip.partition for tip in self._log.partitions])
        self.cluster_id = self._log.cluster_id
        self.topic = self._log.partitions[0].topic
        self.missing: Sequence[str] = ()

    @property
    def said(self) -> Sequence[str]:
        """By which lineage each user partition is read, and what no bucket holds."""
        return [*self._log.said, NOT_IN_A_BUCKET]

    def open(self) -> Sequence[SourceLog]:
        """
        Return what there is of each user partition, from its start to its end; :attr:`missing` then says what is not there.

        :raises OffsetNotInRemoteLogError: if some of it is in no segment that can be read, and that is not allowed.
        :raises CatalogueError: if a person should decide by what is read.
        """
        opened = [self._opened(tip) for tip in self._log.partitions]
        self.missing = [why for _, missing in opened for why in missing]
        return [log for log, _ in opened]

    def _opened(self, tip: TopicIdPartition) -> tuple[SourceLog, Sequence[str]]:
        ranges, missing = self._ranges(tip)
        lineage = self._log.lineage(tip) or LeaderEpochCheckpoint()
        return SourceLog(tip, self._log.reader, lineage, tuple(ranges)), missing

    def _ranges(self, tip: TopicIdPartition) -> tuple[Sequence[OffsetRange], Sequence[str]]:
        """Return which offsets are restored, and what is missing."""
        wanted = self._wanted.range_of(tip.partition)
        if self._or_incomplete:
            return self._log.parts(tip, wanted)
        try:
            # All that there is, committed or not: what of it is restored is decided when it is measured.
            found = self._log.offsets(tip, wanted, ReadIsolation.READ_UNCOMMITTED)
        except OffsetNotInRemoteLogError as e:
            raise OffsetNotInRemoteLogError(
                f"nothing was written: {e}. The override {INCOMPLETE_CATALOGUE} restores what there is, and names what is "
                "missing"
            ) from e
        return () if found is None or found.start >= found.end else (found,), ()


class _StorageOfLostCluster(StorageAccess):
    """The storage of the cluster that is gone: the settings name the one that is written to."""

    def __init__(self, storage: StorageAccess, cluster_id: str | None) -> None:
        settings = replace(storage.get_connection_settings(), allow_writes=False, expected_cluster_id=cluster_id)
        super().__init__(StorageSource(settings=lambda: settings, open_store=storage.open_store))
        self._storage = storage

    def get_storage_manager(self) -> ObjectStoreRemoteStorageManager:
        return self._storage.get_storage_manager()
