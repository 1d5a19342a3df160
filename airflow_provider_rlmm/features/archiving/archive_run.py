# SPDX-License-Identifier: Apache-2.0
"""
What one run says of the archive of a topic: a document that is written once, after its manifests, and never changed.

A manifest says what is there. Only this document says what else has to be: the manifests of the run by their checksums, every
segment that the log named in any partition of the topic, archived or not, and the documents of earlier runs. A restore reads
all documents of a topic and compares them with what it finds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final
from uuid import UUID

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.documents import Text, reader_of, sealed_text
from airflow_provider_rlmm.core.base.errors import ArchiveError
from airflow_provider_rlmm.core.records.records import kafka_uuid_str, parse_kafka_uuid

ARCHIVE_RUN_FORMAT: Final = 1
MAX_ARCHIVE_RUN_BYTES: Final = 256 * 2**20


_PATH = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


def file_name(value: object, what: str) -> str:
    """
    Read a path below a folder that leaves it nowhere, in any way in which a store or a URI spells paths: ``%2e%2e`` is none.

    :param value: as it was read.
    :param what: what the error calls it.
    :raises ValueError: if it is none.
    """
    name = strict.string(value, what)
    if not _PATH.fullmatch(name) or any(part in (".", "..") for part in name.split("/")):
        raise ValueError(f"{what} is {strict.shown(name)}, no path below a folder")
    return name


def _id(value: object, what: str) -> str:
    text = strict.string(value, what)
    try:
        parse_kafka_uuid(text)
    except ValueError:
        raise ValueError(f"{what} is {strict.shown(text)}, no id in Kafka's form") from None
    return text


FileName = Annotated[str, file_name]
"""A path below a folder."""

KafkaId = Annotated[str, _id]
"""An id in Kafka's form."""


@dataclass(frozen=True, slots=True)
class NamedSegment:
    """
    A segment that has to be in the archive.

    :param segment_id: its id in Kafka's form.
    :param start_offset: first offset, inclusive.
    :param end_offset: last offset, inclusive.
    """

    segment_id: KafkaId
    start_offset: int
    end_offset: int

    @classmethod
    def of(cls, segment_id: UUID, start_offset: int, end_offset: int) -> NamedSegment:
        """
        Name a segment.

        :param segment_id: its id.
        :param start_offset: first offset, inclusive.
        :param end_offset: last offset, inclusive.
        """
        return cls(kafka_uuid_str(segment_id), start_offset, end_offset)


@dataclass(frozen=True, slots=True)
class NamedManifest:
    """
    A manifest that has to be in the archive.

    :param partition: the user partition.
    :param name: its path below the folder of the user partition.
    :param sha256: of its bytes, lower-case hex.
    :param segments: how many it holds.
    :param first_offset: of the first record that it holds, ``None`` where there is none.
    :param last_offset: of the last record that it holds, ``None`` where there is none.
    """

    partition: int
    name: FileName
    sha256: Text
    segments: int
    first_offset: int | None
    last_offset: int | None


@dataclass(frozen=True, slots=True)
class NamedPartition:
    """
    A user partition of the topic.

    :param partition: which one.
    :param segments: those that the log named when the run began and that were not finished, by start offset; copies that were
        never finished are not among them.
    """

    partition: int
    segments: tuple[NamedSegment, ...]


@dataclass(frozen=True, slots=True)
class ArchiveRun:
    """
    What one run says of the archive of a topic.

    :param name: of the run.
    :param cluster_id: the cluster.
    :param topic: name of the topic, as data only.
    :param topic_id: its id in Kafka's form.
    :param created_at_ms: ms since the epoch.
    :param plan_id: the plan that was archived, ``None`` where it is none.
    :param plan_sha256: of that plan, as its summary says.
    :param manifests: those of the run, by partition and name.
    :param partitions: what the log named, by partition.
    :param found: names of the documents that were there before, sorted; each name ends with the checksum of its document.
    """

    name: Text
    cluster_id: Text
    topic: Text
    topic_id: KafkaId
    created_at_ms: int
    plan_id: Text | None
    plan_sha256: Text | None
    manifests: tuple[NamedManifest, ...]
    partitions: tuple[NamedPartition, ...]
    found: tuple[FileName, ...]

    def to_json(self) -> str:
        """
        Return the document.

        :raises ArchiveError: if it does not read back.
        """
        return sealed_text(
            self, ARCHIVE_RUN_FORMAT, self.from_json, ArchiveError, f"the document of the archive {self.name}", indent=1
        )

    @classmethod
    def from_json(cls, text: str) -> ArchiveRun:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises ArchiveError: if it is not, to the letter.
        """
        try:
            return _READ(strict.unsealed(text, ARCHIVE_RUN_FORMAT), "document")
        except ValueError as e:
            raise ArchiveError(f"the document of an archive cannot be read: {e}") from e


_READ = reader_of(ArchiveRun)
