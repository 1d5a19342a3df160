# SPDX-License-Identifier: Apache-2.0
"""
The document that a run leaves in the archive of a topic: what of the topic has to be there, archived by this run or not.

It comes after the manifests. A run that ends earlier leaves it, too, as long as it can be written: without it it is not known
what the archive lacks, and a restore refuses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from airflow_provider_rlmm.core.base.clock import Clock
from airflow_provider_rlmm.core.base.errors import ArchiveError
from airflow_provider_rlmm.core.plans.plan_archive import ArchivedUserPartition
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.features.archiving.archive.documents import (
    left_by_earlier_tries,
    list_documents,
    read_document,
    write_document,
)
from airflow_provider_rlmm.features.archiving.archive.manifests import named_manifest
from airflow_provider_rlmm.features.archiving.archive.places import folder_of, topic_folder
from airflow_provider_rlmm.features.archiving.archive.writing import ArchiveOrigin
from airflow_provider_rlmm.features.archiving.archive_run import ArchiveRun, NamedManifest, NamedPartition, NamedSegment

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.world.topic_view import TopicReplay

NamedByLog = Mapping[UUID, Mapping[int, Sequence[NamedSegment]]]
"""Topic id → user partition → its segments that are not finished; copies that were never finished are not among them."""

_NEVER_COPIED = int(RemoteLogSegmentState.COPY_SEGMENT_STARTED)
_COLUMNS = ["topic_id", "partition", "segment_id", "start_offset", "end_offset", "state"]


def named_by_log(topic: TopicReplay, topic_ids: Collection[UUID]) -> NamedByLog:
    """
    Return what the log names of some topics, in all of their partitions.

    :param topic: the metadata topic, read.
    :param topic_ids: which topics.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    found: dict[UUID, dict[int, list[NamedSegment]]] = {topic_id: {} for topic_id in topic_ids}
    for tip in topic.partitions():
        if tip.topic_id in found:
            found[tip.topic_id].setdefault(tip.partition, [])
    wanted = pa.array([topic_id.bytes for topic_id in topic_ids], pa.binary(16))
    segments = topic.segments.select(_COLUMNS)
    for row in segments.filter(pc.is_in(segments.column("topic_id"), value_set=wanted)).to_pylist():
        if row["state"] != _NEVER_COPIED:
            named = NamedSegment.of(UUID(bytes=row["segment_id"]), row["start_offset"], row["end_offset"])
            found[UUID(bytes=row["topic_id"])].setdefault(row["partition"], []).append(named)
    return {
        topic_id: {number: sorted(of, key=lambda s: (s.start_offset, s.segment_id)) for number, of in by_number.items()}
        for topic_id, by_number in found.items()
    }


def leave_document(
    archive_uri: str,
    origin: ArchiveOrigin,
    archived: Iterable[ArchivedUserPartition],
    named: Mapping[int, Sequence[NamedSegment]],
) -> str:
    """
    Write the document of a run about a topic.

    :param archive_uri: the folder of all archives.
    :param origin: what was archived; any user partition of the topic.
    :param archived: what was archived of the topic by this try.
    :param named: user partition → its segments that the log named.
    :return: name of the document.
    :raises ArchiveError: if the archive cannot be written or read, or what an earlier try has left there is not whole.
    """
    tip = origin.topic_id_partition
    topic_uri = topic_folder(folder_of(archive_uri, origin.cluster_id, tip))
    documents = list_documents(topic_uri)
    written = [_written(found) for found in archived]
    left = left_by_earlier_tries(topic_uri, origin.name, origin.plan_id, written, documents)
    run = ArchiveRun(
        origin.name, origin.cluster_id, tip.topic, kafka_uuid_str(tip.topic_id), origin.created_at_ms, origin.plan_id,
        origin.plan_sha256, tuple(sorted((*written, *left), key=lambda m: (m.partition, m.name))),
        tuple(NamedPartition(number, tuple(named[number])) for number in sorted(named)), tuple(documents),
    )  # fmt: skip
    return write_document(topic_uri, run)


class DocumentLooks:
    """
    Looks for the documents that name what was archived: without them nothing would be restored.

    A document names all user partitions of its topic, so one look serves them all.

    :param monotonic: ms, only ever growing.
    :param age_ms: for how long a look counts, ms.
    """

    def __init__(self, monotonic: Clock, age_ms: int) -> None:
        self._monotonic = monotonic
        self._age_ms = age_ms
        self._seen: dict[tuple[str, str], tuple[int, frozenset[tuple[int, str, str]]]] = {}

    def require(self, found: ArchivedUserPartition) -> None:
        """
        Look for the document of a user partition.

        :param found: what was archived of it.
        :raises ArchiveError: if it is not there, is not the one that was written, or names another manifest.
        """
        where, now_ms = (topic_folder(found.folder), found.document), self._monotonic()
        looked = self._seen.get(where)
        if looked is None or now_ms - looked[0] >= self._age_ms:
            named = frozenset((m.partition, m.name, m.sha256) for m in read_document(*where).manifests)
            looked = self._seen[where] = now_ms, named
        if (found.partition, found.manifest, found.manifest_sha256) not in looked[1]:
            raise ArchiveError(
                f"the document {found.document} does not name {found.folder}/{found.manifest}: archive again"
            )


def _written(found: ArchivedUserPartition) -> NamedManifest:
    named, _ = named_manifest(found.folder, found.manifest)
    if named.sha256 != found.manifest_sha256:
        raise ArchiveError(f"{found.folder}/{found.manifest} is not the manifest that was written: archive again")
    return named
