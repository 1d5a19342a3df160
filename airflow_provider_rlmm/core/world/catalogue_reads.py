# SPDX-License-Identifier: Apache-2.0
"""
What the audit log says of records that were read from a catalogue: who read them, of which topic id, and which range.

A bucket is a way round the rights and the deletions of Kafka, so nothing is read from it that is not written down before.
Each read is a document of its own, beside the files of deletions of its day, created and never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid4

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.documents import LongText, Text, reader_of, sealed_text
from airflow_provider_rlmm.core.base.errors import AuditError, ConfigurationError
from airflow_provider_rlmm.core.base.file_systems import create_file
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation, ReadRange
from airflow_provider_rlmm.core.world.audit import AUDIT_FOLDER, day_of, read_file_name
from airflow_provider_rlmm.core.world.run_identity import RunIdentity

CATALOGUE_READ_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class AuditedRange:
    """
    Which records of a user partition were asked for; what is ``None`` was left open.

    :param partition: the user partition.
    :param start_offset: first offset, inclusive.
    :param end_offset: last offset, exclusive.
    :param start_ms: instead of ``start_offset``: ms since the epoch, inclusive.
    :param end_ms: instead of ``end_offset``: ms since the epoch, exclusive.
    """

    partition: int
    start_offset: int | None
    end_offset: int | None
    start_ms: int | None
    end_ms: int | None

    @classmethod
    def of(cls, partition: int, wanted: ReadRange) -> AuditedRange:
        """
        Return the range of a user partition as it was asked for.

        :param partition: the user partition.
        :param wanted: the range.
        """
        return cls(partition, wanted.start_offset, wanted.end_offset, wanted.start_ms, wanted.end_ms)


@dataclass(frozen=True, slots=True)
class CatalogueRead:
    """
    The document of one read.

    :param time_ms: when it was written, ms since the epoch by the clock of this machine: there is no cluster to be asked.
    :param dag_id: as of :class:`~airflow_provider_rlmm.core.world.run_identity.RunIdentity`.
    :param run_id: likewise.
    :param artifact: likewise.
    :param triggered_by: likewise.
    :param what: what the records were read for.
    :param cluster_id: the cluster whose segments these are.
    :param catalogue: path or URI of the catalogue.
    :param catalogue_sha256: of its document, lower-case hex.
    :param topic: name of the topic.
    :param topic_id: its id in Kafka's form: a person has said of it that it was not deleted.
    :param isolation: by which it was read.
    :param ranges: by user partition.
    """

    time_ms: int
    dag_id: Text
    run_id: Text
    artifact: Text
    triggered_by: Text
    what: Text
    cluster_id: Text
    catalogue: LongText
    catalogue_sha256: Text
    topic: Text
    topic_id: Text
    isolation: ReadIsolation
    ranges: tuple[AuditedRange, ...]

    @classmethod
    def of(
        cls,
        run: RunIdentity,
        what: str,
        time_ms: int,
        *,
        cluster_id: str,
        catalogue: str,
        sha256: str,
        topic_id: UUID,
        topic: str,
        isolation: ReadIsolation,
        ranges: Sequence[AuditedRange],
    ) -> CatalogueRead:
        """
        Return the document of a read.

        :param run: who reads.
        :param what: what the records are read for.
        :param time_ms: now, ms since the epoch.
        :param cluster_id: the cluster whose segments these are.
        :param catalogue: path or URI of the catalogue.
        :param sha256: of its document.
        :param topic_id: the topic.
        :param topic: its name.
        :param isolation: by which it is read.
        :param ranges: by user partition.
        """
        return cls(
            time_ms, run.dag_id, run.run_id, run.artifact, run.triggered_by, what, cluster_id, catalogue, sha256, topic,
            kafka_uuid_str(topic_id), isolation, tuple(ranges),
        )  # fmt: skip

    def to_json(self) -> str:
        """
        Return the document.

        :raises AuditError: if it does not read back as it was written: what cannot be read later is not written down.
        """
        return sealed_text(
            self, CATALOGUE_READ_FORMAT, self.from_json, AuditError, f"what the audit log would say of {self.artifact}"
        )

    @classmethod
    def from_json(cls, text: str) -> CatalogueRead:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises AuditError: if it is not, to the letter.
        """
        try:
            return _READ(strict.unsealed(text, CATALOGUE_READ_FORMAT), "read")
        except ValueError as e:
            raise AuditError(f"what the audit log says of a read from a catalogue cannot be read ({e})") from e


_READ = reader_of(CatalogueRead)


def write_catalogue_read(cluster_uri: str, read: CatalogueRead) -> str:
    """
    Write down a read, before it begins.

    :param cluster_uri: folder of the cluster in the work folder.
    :param read: the document.
    :return: URI of the file.
    :raises AuditError: if it cannot be written: nothing may be read then.
    """
    name = read_file_name(read.artifact, read.time_ms, uuid4().hex[:8])
    uri = f"{cluster_uri}/{AUDIT_FOLDER}/{day_of(read.time_ms)}/{name}"
    try:
        create_file(uri, [read.to_json().encode()])
    except (OSError, ConfigurationError) as e:
        raise AuditError(
            f"the audit log cannot be written ({uri}: {e}), so nothing is read from the catalogue; see that the work folder "
            "has room and may be written"
        ) from e
    return uri
