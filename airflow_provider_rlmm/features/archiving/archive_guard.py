# SPDX-License-Identifier: Apache-2.0
"""
What a run may delete because it has archived it: asked before every batch, like the rules of absence.

It goes by what lies in the archive at that moment, and not by what the task before has become: the manifests are read again,
as the very bytes that were written for this very plan, and every file that they name must be there in its size. A look counts
for some seconds: an archive may be emptied, moved or unmounted while the task deletes.
"""

from __future__ import annotations

from typing import Final, Protocol

from airflow_provider_rlmm.core.base.clock import Clock, monotonic_clock
from airflow_provider_rlmm.core.base.errors import ArchiveError
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.plans.plan_archive import ArchivedUserPartition, PlanArchive, not_archived
from airflow_provider_rlmm.core.plans.refusals import Refusal
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    parse_kafka_uuid,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.features.archiving.archive_manifest import ArchivedSegment, ArchiveManifest

LOOK_AGE_MS: Final = 30_000
"""For how long a look at the archive of a user partition counts, ms."""


class ArchiveGuard(Protocol):
    """What may be deleted as far as an archive is concerned."""

    def refusal_of(self, tip: TopicIdPartition) -> Refusal | None:
        """
        Return why nothing of a user partition may be deleted, ``None`` where its archived segments may.

        :param tip: the user partition.
        """

    def holds(self, metadata: RemoteLogSegmentMetadata) -> bool:
        """
        Tell whether the archive holds a segment.

        :param metadata: as the log says them now.
        """


class NoArchive:
    """The guard of a run that archives nothing: it stands against nothing."""

    def refusal_of(self, tip: TopicIdPartition) -> Refusal | None:
        """See :class:`ArchiveGuard`."""
        return None

    def holds(self, metadata: RemoteLogSegmentMetadata) -> bool:
        """See :class:`ArchiveGuard`."""
        return True


NO_ARCHIVE = NoArchive()


class ArchivedPlan:
    """
    The guard of a run that archives before it deletes.

    :param archive: what was archived of the plan.
    :param summary: the plan that is applied.
    :param metadata_partition: which part of it.
    :param monotonic: ms, only ever growing.
    :raises ArchiveError: if the archive is of another plan.
    """

    def __init__(
        self,
        archive: PlanArchive,
        summary: PlanSummary,
        metadata_partition: int,
        *,
        monotonic: Clock = monotonic_clock,
    ) -> None:
        from airflow_provider_rlmm.features.archiving.archive_documents import DocumentLooks

        archive.check_plan(summary)
        self._documents = DocumentLooks(monotonic, LOOK_AGE_MS)
        self._archive = archive
        self._metadata_partition = metadata_partition
        self._monotonic = monotonic
        self._whole: dict[RemoteLogSegmentId, tuple[tuple[int, int, int], bool]] = {}
        self._broken: dict[TopicIdPartition, Refusal] = {}
        self._looked_ms: dict[TopicIdPartition, int] = {}
        self._partitions = {
            TopicIdPartition(parse_kafka_uuid(found.topic_id), found.topic, found.partition): found
            for found in archive.partitions_of(metadata_partition)
        }
        for tip, found in self._partitions.items():
            for segment in self._look(tip, found):
                metadata = segment.as_metadata()
                self._whole[metadata.remote_log_segment_id] = _unchanging(metadata), segment.is_kept

    def refusal_of(self, tip: TopicIdPartition) -> Refusal | None:
        """See :class:`ArchiveGuard`."""
        found = self._partitions.get(tip)
        if found is not None and self._monotonic() - self._looked_ms[tip] >= LOOK_AGE_MS:
            self._look(tip, found)
        return self._archive.refusal_of(tip) or self._broken.get(tip)

    def holds(self, metadata: RemoteLogSegmentMetadata) -> bool:
        """See :class:`ArchiveGuard`."""
        archived, whole = self._whole.get(metadata.remote_log_segment_id, (None, False))
        # A copy that was not finished when it was archived, and is now, was archived in part only.
        needed = metadata.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        return archived == _unchanging(metadata) and (whole or not needed)

    def _look(self, tip: TopicIdPartition, found: ArchivedUserPartition) -> tuple[ArchivedSegment, ...]:
        """Return the segments that the archive of a user partition holds now; none where it is not whole, from then on."""
        from airflow_provider_rlmm.features.archiving.archive.manifests import read_manifest, require_files

        try:
            self._documents.require(found)
            manifest = read_manifest(found.folder, found.manifest, found.manifest_sha256)
            self._check(manifest, tip)
            require_files(found.folder, manifest)
        except ArchiveError as e:
            self._broken[tip] = not_archived(tip, self._metadata_partition, str(e))
            return ()
        finally:
            self._looked_ms[tip] = self._monotonic()
        return manifest.segments

    def _check(self, manifest: ArchiveManifest, tip: TopicIdPartition) -> None:
        """Refuse a manifest of another run, plan or user partition, even if one of these named it."""
        archive = self._archive
        named = (archive.name, archive.plan_id, archive.plan_sha256, archive.cluster_id, tip)
        says = (manifest.name, manifest.plan_id, manifest.plan_sha256, manifest.cluster_id, manifest.topic_id_partition)
        if says != named:
            raise ArchiveError(f"the manifest of {tip} is of another plan, cluster or user partition: archive again")


def _unchanging(metadata: RemoteLogSegmentMetadata) -> tuple[int, int, int]:
    """Return what no event ever changes of a segment."""
    return metadata.start_offset, metadata.end_offset, metadata.segment_size_in_bytes
