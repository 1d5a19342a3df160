# SPDX-License-Identifier: Apache-2.0
"""Opens archived user partitions: all manifests of one together, every file that they name compared with its checksum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import ArchiveError
from airflow_provider_rlmm.core.base.file_systems import list_files, list_folders
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.features.archiving.archive.documents import read_documents
from airflow_provider_rlmm.features.archiving.archive.files import describe
from airflow_provider_rlmm.features.archiving.archive.manifests import named_manifest
from airflow_provider_rlmm.features.archiving.archive.places import MANIFESTS, folder_of
from airflow_provider_rlmm.features.archiving.archive.storage import ArchivedSegmentStorage
from airflow_provider_rlmm.features.archiving.archive.stream import RecordStream
from airflow_provider_rlmm.features.archiving.archive.unnamed import unnamed_files
from airflow_provider_rlmm.features.archiving.archive_manifest import ArchivedSegment, ArchiveManifest
from airflow_provider_rlmm.features.archiving.archive_run import NamedManifest
from airflow_provider_rlmm.features.archiving.archive_whole import HeldPartition, missing_from


@dataclass(frozen=True, slots=True)
class ArchivedLog:
    """
    All that was archived of a user partition, by one run or by several.

    :param folder_uri: of the user partition.
    :param manifests: by name.
    :param named: their names and checksums, in the same order.
    :param segments: each once; where one was archived several times, a whole one.
    """

    folder_uri: str
    manifests: tuple[ArchiveManifest, ...]
    named: tuple[NamedManifest, ...]
    segments: tuple[ArchivedSegment, ...]

    @property
    def partition(self) -> int:
        """The user partition."""
        return self.manifests[0].partition

    @property
    def segment_ids(self) -> frozenset[str]:
        """The ids of its segments, in Kafka's form."""
        return frozenset(kafka_uuid_str(s.as_metadata().remote_log_segment_id.id) for s in self.segments)

    @property
    def transactional(self) -> bool:
        """Whether there may be records of transactions."""
        return any(segment.transactional for segment in self.segments)

    def verify(self) -> None:
        """
        Read every file and compare it with its checksum.

        :raises ArchiveError: naming the first one that differs or cannot be read.
        """
        raw = [file for segment in self.segments for file in segment.files.values()]
        for file in (*raw, *(file for manifest in self.manifests for file in manifest.records.files)):
            try:
                found = describe(self.folder_uri, file.name)
            except OSError as e:
                raise ArchiveError(f"{self.folder_uri}/{file.name} cannot be read: {e}") from e
            if found != file:
                raise ArchiveError(f"{self.folder_uri}/{file.name} is not as it was archived: its checksum differs")

    def stream(self) -> RecordStream:
        """Return its records, as a consumer would have read them."""
        kept = ArchivedSegmentStorage(self.folder_uri, self.segments)
        tip = self.manifests[0].topic_id_partition
        return RecordStream(tip, kept.whole_segments(), cast("RemoteStorageManager", kept))


@dataclass(frozen=True, slots=True)
class ArchivedTopic:
    """
    All that was archived of a topic.

    :param topic: its name, as data only.
    :param logs: by user partition.
    :param missing: why this is not the whole archive, each a sentence; none where it is all that its documents name.
    """

    topic: str
    logs: tuple[ArchivedLog, ...]
    missing: tuple[str, ...]


def open_topic(archive_uri: str, cluster_id: str, topic_id: str) -> ArchivedTopic:
    """
    Open all archived user partitions of a topic id, and compare them with what the documents of its runs name.

    :param archive_uri: the folder of all archives.
    :param cluster_id: the cluster that it was archived from.
    :param topic_id: in Kafka's form.
    :raises ArchiveError: if there are none, or their manifests cannot be read or contradict each other.
    """
    root = f"{archive_uri.rstrip('/')}/{cluster_folder(cluster_id)}"
    try:
        folders = [f"{root}/{name}" for name in list_folders(root) if name.endswith(f"-{topic_id}")]
        if len(folders) > 1:
            raise ArchiveError(
                f"{root} has several folders of the topic id {topic_id}: {folders}; find out which one is its"
            )
        found = [f"{folder}/{name}" for folder in folders for name in list_folders(folder) if name.isdecimal()]
        names = {folder: list_files(f"{folder}/{MANIFESTS}") for folder in found}
    except OSError as e:
        raise ArchiveError(f"the archives in {root} cannot be listed: {e}") from e
    logs = sorted(
        (open_log(folder, of) for folder, of in names.items() if any(map(is_manifest, of))),
        key=lambda log: log.partition,
    )
    if not logs and names:
        raise ArchiveError(f"{folders[0]} has files and no manifest: its archive was never finished")
    if not logs:
        raise ArchiveError(f"{root} has no archive of the topic id {topic_id}: check archive_uri, cluster and topic id")
    for log in logs:
        _require_place(archive_uri, cluster_id, topic_id, log)
    missing = _missing_from(folders[0], topic_id, logs, names)
    try:
        unnamed = unnamed_files(folders[0], {log.folder_uri: log.manifests for log in logs})
    except OSError as e:
        raise ArchiveError(f"{folders[0]} cannot be listed: {e}") from e
    return ArchivedTopic(logs[0].manifests[0].topic, tuple(logs), (*missing, *unnamed))


def _missing_from(
    topic_uri: str, topic_id: str, logs: Sequence[ArchivedLog], names: Mapping[str, list[str]]
) -> list[str]:
    """Return why this is not the whole archive; a manifest with other bytes than a document names is an error."""
    runs, unreadable = read_documents(topic_uri, topic_id)
    held = {}
    for log in logs:
        checksums = {named.name: named.sha256 for named in log.named}
        # A file that is no manifest holds nothing; that it is there is said all the same.
        others = {f"{MANIFESTS}/{name}": "" for name in names[log.folder_uri] if not is_manifest(name)}
        held[log.partition] = HeldPartition(checksums | others, log.segment_ids)
    for manifest in (manifest for run in runs.values() for manifest in run.manifests):
        of = held.get(manifest.partition)
        if of is not None and of.manifests.get(manifest.name, manifest.sha256) != manifest.sha256:
            raise ArchiveError(
                f"{topic_uri}/{manifest.partition}/{manifest.name} is not the manifest that was written: its run has left "
                "another checksum"
            )
    unfinished = sorted(names.keys() - {log.folder_uri for log in logs})
    return [*unreadable, *missing_from(runs, held), *(f"{folder} has no manifest" for folder in unfinished)]


def _require_place(archive_uri: str, cluster_id: str, topic_id: str, log: ArchivedLog) -> None:
    """Refuse manifests that lie in the folder of another cluster, topic or user partition."""
    for manifest in log.manifests:
        says = (manifest.cluster_id, manifest.topic_id)
        if says != (cluster_id, topic_id):
            raise ArchiveError(f"{log.folder_uri} holds manifests of another cluster or topic id: {says}")
        if folder_of(archive_uri, cluster_id, manifest.topic_id_partition) != log.folder_uri:
            raise ArchiveError(f"{log.folder_uri} holds manifests of {manifest.topic_id_partition}: put them back")


def is_manifest(name: str) -> bool:
    """Tell whether a file among the manifests is taken for one."""
    return name.endswith(".json")


def open_log(folder_uri: str, names: Sequence[str]) -> ArchivedLog:
    """
    Open an archived user partition.

    :raises ArchiveError: if there is none, or they cannot be read or contradict each other.
    """
    found = [named_manifest(folder_uri, f"{MANIFESTS}/{name}") for name in sorted(names) if is_manifest(name)]
    if not found:
        raise ArchiveError(f"{folder_uri} has files and no manifest: its archive was never finished")
    manifests = tuple(manifest for _, manifest in found)
    if len({m.topic_id_partition for m in manifests}) > 1:
        raise ArchiveError(f"{folder_uri} holds manifests of several user partitions")
    named = tuple(named for named, _ in found)
    return ArchivedLog(folder_uri, manifests, named, tuple(_merged(folder_uri, manifests).values()))


def _merged(folder_uri: str, manifests: Sequence[ArchiveManifest]) -> Mapping[UUID, ArchivedSegment]:
    """Return each segment once; of one that was archived several times the file of a kind must be the same."""
    merged: dict[UUID, ArchivedSegment] = {}
    for segment in (segment for manifest in manifests for segment in manifest.segments):
        segment_id = segment.as_metadata().remote_log_segment_id.id
        known = merged.setdefault(segment_id, segment)
        if any(known.files[kind] != file for kind, file in segment.files.items() if kind in known.files):
            raise ArchiveError(f"{folder_uri}: two manifests have other checksums of segment {segment_id}")
        if segment.whole and not known.whole:
            merged[segment_id] = segment
    return merged
