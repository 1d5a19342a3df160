# SPDX-License-Identifier: Apache-2.0
"""Opens archived user partitions: all manifests of one together, every file that they name compared with its checksum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast
from uuid import UUID

from airflow_provider_rlmm.errors import ArchiveError
from airflow_provider_rlmm.file_systems import list_files, list_folders
from airflow_provider_rlmm.policy.archive_manifest import ArchivedSegment, ArchiveManifest
from airflow_provider_rlmm.policy.work_folder import cluster_folder
from airflow_provider_rlmm.remote_log.archive.files import describe
from airflow_provider_rlmm.remote_log.archive.manifests import read_manifest
from airflow_provider_rlmm.remote_log.archive.places import MANIFESTS
from airflow_provider_rlmm.remote_log.archive.storage import ArchivedSegmentStorage
from airflow_provider_rlmm.remote_log.archive.stream import RecordStream
from airflow_provider_rlmm.storage.remote_storage import RemoteStorageManager


@dataclass(frozen=True, slots=True)
class ArchivedLog:
    """
    All that was archived of a user partition, by one run or by several.

    :param folder_uri: of the user partition.
    :param manifests: by name.
    :param segments: each once; where one was archived several times, a whole one.
    """

    folder_uri: str
    manifests: tuple[ArchiveManifest, ...]
    segments: tuple[ArchivedSegment, ...]

    @property
    def partition(self) -> int:
        """The user partition."""
        return self.manifests[0].partition

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


def open_topic(archive_uri: str, cluster_id: str, topic_id: str) -> Sequence[ArchivedLog]:
    """
    Open all archived user partitions of a topic id.

    :param archive_uri: the folder of all archives.
    :param cluster_id: the cluster that it was archived from.
    :param topic_id: in Kafka's form.
    :raises ArchiveError: if there are none, or their manifests cannot be read or contradict each other.
    """
    root = f"{archive_uri.rstrip('/')}/{cluster_folder(cluster_id)}"
    try:
        folders = [f"{root}/{name}" for name in list_folders(root) if name.endswith(f"-{topic_id}")]
        found = [f"{folder}/{name}" for folder in folders for name in list_folders(folder) if name.isdecimal()]
        logs = [open_log(folder, list_files(f"{folder}/{MANIFESTS}")) for folder in sorted(found)]
    except OSError as e:
        raise ArchiveError(f"the archives in {root} cannot be listed: {e}") from e
    if not logs:
        raise ArchiveError(f"{root} has no archive of the topic id {topic_id}: check archive_uri, cluster and topic id")
    for log in logs:
        says = {(m.cluster_id, m.topic_id) for m in log.manifests}
        if says != {(cluster_id, topic_id)}:
            raise ArchiveError(f"{log.folder_uri} holds manifests of another cluster or topic id: {sorted(says)}")
    return sorted(logs, key=lambda log: log.partition)


def open_log(folder_uri: str, names: Sequence[str]) -> ArchivedLog:
    """
    Open an archived user partition.

    :param folder_uri: its folder.
    :param names: of its manifests.
    :raises ArchiveError: if there is none, or they cannot be read or contradict each other.
    """
    manifests = tuple(
        read_manifest(folder_uri, f"{MANIFESTS}/{name}") for name in sorted(names) if name.endswith(".json")
    )
    if not manifests:
        raise ArchiveError(f"{folder_uri} has files and no manifest: its archive was never finished")
    if len({m.topic_id_partition for m in manifests}) > 1:
        raise ArchiveError(f"{folder_uri} holds manifests of several user partitions")
    return ArchivedLog(folder_uri, manifests, tuple(_merged(folder_uri, manifests).values()))


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
