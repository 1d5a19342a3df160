# SPDX-License-Identifier: Apache-2.0
"""
What a run has archived of its plan: the document that allows to delete it.

It is bound to one plan by its checksum, and names for each user partition the manifest of its archive by the checksum of its
bytes. A run that deletes reads both, and deletes nothing that they do not name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.documents import AbsentAs, Text, reader_of, sealed_text
from airflow_provider_rlmm.core.base.errors import ArchiveError
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str

PLAN_ARCHIVE_FORMAT: Final = 2
ARCHIVE_DOCUMENT: Final = "archive.json"
NOT_ARCHIVED_ADVICE: Final = (
    "see the reason; what cannot be archived stays until a person decides: put the topic on hold to keep it, or run without "
    "an archive to delete it for good"
)


@dataclass(frozen=True, slots=True)
class ArchivedUserPartition:
    """
    One user partition of a plan, archived, read back and compared.

    :param metadata_partition: where its events lie.
    :param topic: name of the topic.
    :param topic_id: its id in Kafka's form.
    :param partition: the user partition.
    :param folder: URI of its folder in the archive.
    :param manifest: path of the manifest below it.
    :param manifest_sha256: of the manifest's bytes, lower-case hex.
    :param segments: archived.
    :param not_whole: those of them that lack files: copies that were never finished, and segments whose deletion had begun.
    :param bytes: of all files.
    :param records: in the whole segments.
    :param records_sha256: of their content, lower-case hex.
    :param as_is: encrypted segments whose objects were archived as they are; ``None`` where an earlier release archived.
    :param document: name of the document of the run in the archive of the topic; empty before it is written.
    """

    metadata_partition: int
    topic: Text
    topic_id: Text
    partition: int
    folder: Text
    manifest: Text
    manifest_sha256: Text
    segments: int
    not_whole: int
    bytes: int
    records: int
    records_sha256: Text
    document: Text = ""
    as_is: Annotated[int | None, AbsentAs(None)] = None

    def to_report(self) -> dict[str, Any]:
        """Return what a report says of it, as plain JSON types."""
        named = (
            "topic", "topic_id", "partition", "segments", "not_whole", "as_is", "bytes", "records", "records_sha256",
        )  # fmt: skip
        manifest = {"manifest": f"{self.folder}/{self.manifest}", "manifest_sha256": self.manifest_sha256}
        return {name: getattr(self, name) for name in named} | manifest


@dataclass(frozen=True, slots=True)
class PlanArchive:
    """
    :param name: of the archive.
    :param plan_id: the plan.
    :param plan_sha256: of that plan, as its summary says.
    :param cluster_id: the cluster.
    :param archive_uri: the folder of all archives.
    :param created_at_ms: when the work began, ms since the epoch.
    :param partitions: what was archived.
    :param refused: topic id in Kafka's form → why nothing of that topic may be deleted by this run.
    """

    name: Text
    plan_id: Text
    plan_sha256: Text
    cluster_id: Text
    archive_uri: Text
    created_at_ms: int
    partitions: tuple[ArchivedUserPartition, ...]
    refused: Mapping[Text, Refusal]

    def check_plan(self, summary: PlanSummary) -> None:
        """
        Refuse to delete by an archive of another plan.

        :param summary: the plan that is applied.
        :raises ArchiveError: if it is not the one that was archived.
        """
        if (summary.plan_id, summary.sha256, summary.cluster_id) != (self.plan_id, self.plan_sha256, self.cluster_id):
            raise ArchiveError(
                f"the archive {self.name} is of plan {self.plan_id} with the checksum {self.plan_sha256[:12]}…, and the run "
                f"applies plan {summary.plan_id} with {summary.sha256[:12]}…: nothing is deleted; archive again"
            )

    def refusal_of(self, tip: TopicIdPartition) -> Refusal | None:
        """
        Return why nothing of a topic may be deleted, ``None`` where nothing stands against it.

        :param tip: a user partition of the topic.
        """
        return self.refused.get(kafka_uuid_str(tip.topic_id))

    def partitions_of(self, metadata_partition: int) -> Sequence[ArchivedUserPartition]:
        """
        Return what was archived of one metadata partition.

        :param metadata_partition: which one.
        """
        return [found for found in self.partitions if found.metadata_partition == metadata_partition]

    def counts(self) -> dict[str, int]:
        """Return what the archive holds, added up, and how many topics were refused."""
        return {
            "partitions": len(self.partitions),
            "segments": sum(found.segments for found in self.partitions),
            "not_whole": sum(found.not_whole for found in self.partitions),
            "as_is": sum(found.as_is or 0 for found in self.partitions),
            "records": sum(found.records for found in self.partitions),
            "bytes": sum(found.bytes for found in self.partitions),
            "refused_topics": len(self.refused),
        }

    def to_report(self) -> dict[str, Any]:
        """Return what the report of the run says of the archive, as plain JSON types."""
        partitions = [found.to_report() for found in self.partitions]
        return {"name": self.name, "uri": self.archive_uri, "counts": self.counts(), "partitions": partitions}

    def to_json(self) -> str:
        """
        Return the document.

        :raises ArchiveError: if it does not read back.
        """
        return sealed_text(
            self, PLAN_ARCHIVE_FORMAT, self.from_json, ArchiveError, f"the document of the archive {self.name}"
        )

    @classmethod
    def from_json(cls, text: str) -> PlanArchive:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises ArchiveError: if it is not, to the letter.
        """
        try:
            return _READ(strict.unsealed(text, PLAN_ARCHIVE_FORMAT), "archive")
        except ValueError as e:
            raise ArchiveError(f"{ARCHIVE_DOCUMENT} cannot be read: {e}; archive again") from e


def not_archived(tip: TopicIdPartition, metadata_partition: int, why: str) -> Refusal:
    """
    Say that a user partition is not archived.

    :param tip: the user partition.
    :param metadata_partition: where its events lie.
    :param why: the reason.
    """
    return Refusal(str(tip), why, NOT_ARCHIVED_ADVICE, RefusalKind.ARCHIVE, metadata_partition, topic=tip.topic)


_READ = reader_of(PlanArchive)
