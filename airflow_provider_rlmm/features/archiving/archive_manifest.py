# SPDX-License-Identifier: Apache-2.0
"""
What an archive says of itself: one manifest per user partition and run, a JSON document with a checksum of its own.

It names every segment with its metadata and the checksums of its files, and the records with their count and the checksum of
their content. It is written last: files that no manifest names are no archive.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final
from uuid import UUID

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.documents import AbsentAs, Text, reader_of, sealed_text
from airflow_provider_rlmm.core.base.errors import ArchiveError, MalformedMetadataError
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, TopicIdPartition, parse_kafka_uuid
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.features.archiving.archive_run import FileName

ARCHIVE_FORMAT: Final = 1
"""Version of the form; an archive of another one is not read."""

MAX_MANIFEST_BYTES: Final = 256 * 2**20


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """
    One file of an archive.

    :param name: its path below the folder of the user partition.
    :param bytes: its size.
    :param sha256: of its bytes, lower-case hex.
    """

    name: FileName
    bytes: int
    sha256: Text


@dataclass(frozen=True, slots=True)
class ArchivedSegment:
    """
    One segment of an archive.

    :param metadata: its metadata as Kafka would write them, base64.
    :param whole: whether all that a broker needs to serve it is there: then its records are among those of the archive.
        A copy that was never finished, and a segment whose deletion had begun, may lack files: what was there is kept.
    :param transactional: whether its log holds records of transactions, as far as it was looked at.
    :param files: its files by kind: ``log`` and the values of
        :class:`~airflow_provider_rlmm.core.storage.index_type.IndexType`.
    :param missing: kinds of files that storage did not have.
    :param keys: of an encrypted segment the keys of its objects by kind, below the storage root: its files are these objects
        as they lay there, to be put back under these keys. None of its records is among those of the archive. ``None`` for
        any other segment.
    """

    metadata: Text
    whole: bool
    transactional: bool
    files: Mapping[Text, ArchivedFile]
    missing: tuple[Text, ...] = ()
    keys: Annotated[Mapping[Text, Text] | None, AbsentAs(None)] = None

    @property
    def is_kept(self) -> bool:
        """Whether all that a broker needs to serve it is there, in any form."""
        return self.whole or (bool(self.keys) and not self.missing)

    def as_metadata(self) -> RemoteLogSegmentMetadata:
        """
        Return its metadata.

        :raises ArchiveError: if they cannot be read.
        """
        try:
            # They are the document's own, so that api version 1 may hold them as well.
            found = deserialize(base64.b64decode(self.metadata, validate=True), keyed=True)
        except (ValueError, MalformedMetadataError) as e:
            raise ArchiveError(f"the metadata of an archived segment cannot be read: {e}") from e
        if not isinstance(found, RemoteLogSegmentMetadata):
            raise ArchiveError("an archived segment has metadata of another kind")
        return found


@dataclass(frozen=True, slots=True)
class ArchivedRecords:
    """
    The records of an archive, as a consumer would have read them from its whole segments.

    :param count: records, those of transactions that were aborted or never ended among them.
    :param committed: those of them that a consumer with ``isolation.level=read_committed`` would have read.
    :param gaps: offsets between the first and the last record that no whole segment of the lineage holds: first and last of
        each gap, both inclusive.
    :param first_offset: of the first record, ``None`` where there is none.
    :param last_offset: of the last record, ``None`` where there is none.
    :param min_timestamp_ms: the smallest timestamp, ms since the epoch, ``None`` where there is none.
    :param max_timestamp_ms: the largest timestamp, ms since the epoch, ``None`` where there is none.
    :param sha256: of the content of all records, offsets included, lower-case hex.
    :param committed_sha256: of the content of the committed ones without their offsets: what a restored topic is compared by.
    :param files: the Parquet files, in the order of their offsets.
    """

    count: int
    committed: int
    gaps: tuple[tuple[int, int], ...]
    first_offset: int | None
    last_offset: int | None
    min_timestamp_ms: Annotated[int, _timestamp] | None
    max_timestamp_ms: Annotated[int, _timestamp] | None
    sha256: Text
    committed_sha256: Text
    files: tuple[ArchivedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class ArchiveManifest:
    """
    What one run has archived of a user partition.

    :param name: of the archive: the run, or the name that a user gave.
    :param try_id: of the try: no two manifests have one, and nothing of an earlier try is ever replaced.
    :param cluster_id: the cluster.
    :param topic: name of the topic, as data only.
    :param topic_id: its id in Kafka's form.
    :param partition: the user partition.
    :param created_at_ms: ms since the epoch.
    :param plan_id: the plan whose segments these are, ``None`` where it is none.
    :param plan_sha256: of that plan, as its summary says.
    :param segments: by start offset.
    :param records: those of the whole segments.
    """

    name: Text
    try_id: Text
    cluster_id: Text
    topic: Text
    topic_id: Text
    partition: int
    created_at_ms: int
    plan_id: Text | None
    plan_sha256: Text | None
    segments: tuple[ArchivedSegment, ...]
    records: ArchivedRecords

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        """The user partition."""
        return TopicIdPartition(parse_kafka_uuid(self.topic_id), self.topic, self.partition)

    @property
    def segment_ids(self) -> frozenset[UUID]:
        """The ids of its segments."""
        return frozenset(segment.as_metadata().remote_log_segment_id.id for segment in self.segments)

    @property
    def bytes(self) -> int:
        """Size of all its files."""
        files = [file for segment in self.segments for file in segment.files.values()]
        return sum(file.bytes for file in (*files, *self.records.files))

    def to_json(self) -> str:
        """
        Return the document.

        :raises ArchiveError: if it does not read back.
        """
        return sealed_text(
            self, ARCHIVE_FORMAT, self.from_json, ArchiveError, f"the manifest of the archive {self.name}"
        )

    @classmethod
    def from_json(cls, text: str) -> ArchiveManifest:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises ArchiveError: if it is not, to the letter.
        """
        try:
            manifest = _READ(strict.unsealed(text, ARCHIVE_FORMAT), "manifest")
            manifest._check_consistent()
        except ValueError as e:
            raise ArchiveError(f"the manifest of an archive cannot be read: {e}") from e
        return manifest

    def _check_consistent(self) -> None:
        tip = self.topic_id_partition
        ids = set()
        for segment in self.segments:
            metadata = segment.as_metadata()
            if metadata.remote_log_segment_id.topic_id_partition != tip:
                raise ValueError(
                    f"it names a segment of {metadata.remote_log_segment_id.topic_id_partition}, not of {tip}"
                )
            ids.add(metadata.remote_log_segment_id.id)
            if segment.whole and "log" not in segment.files:
                raise ValueError(f"segment {metadata.remote_log_segment_id} is called whole and has no log")
            if segment.keys and (segment.whole or segment.keys.keys() != segment.files.keys()):
                raise ValueError(f"segment {metadata.remote_log_segment_id} has other files than keys of objects")
        if len(ids) != len(self.segments):
            raise ValueError("it names a segment twice")
        if self.records.committed > self.records.count:
            raise ValueError("more records are committed than there are")


def _timestamp(value: object, what: str) -> int:
    """Read a record's timestamp, ms since the epoch; -1 stands for none."""
    return -1 if type(value) is int and value == -1 else strict.integer(value, what)


_READ = reader_of(ArchiveManifest)
