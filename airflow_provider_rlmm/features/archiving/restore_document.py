# SPDX-License-Identifier: Apache-2.0
"""
What a restore has promised to write, before its first record: by it one that was interrupted goes on, and no other one does.

Pure. The document lies in the folder of the cluster that is written to, below ``restores``, named after the topic id. It is
created once and never changed; how far a restore has come, the topic itself says.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.documents import LongText, Text, reader_of, sealed_text
from airflow_provider_rlmm.core.base.errors import RestoreError
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.world.run_identity import RunIdentity
from airflow_provider_rlmm.features.archiving.restore_rules import Undecided

RESTORE_FORMAT: Final = 1
RESTORES_FOLDER: Final = "restores"
MAX_RESTORE_BYTES: Final = 64 * 2**20
"""Of a document: some hundred bytes for each user partition, and more where a lineage is long."""

_WHO: Final = frozenset({"time_ms", "dag_id", "run_id", "artifact", "triggered_by"})
"""Who began it, and when: another run may go on."""


@dataclass(frozen=True, slots=True)
class RestoreRun:
    """
    Who restores, and where that is written down.

    :param run: the run.
    :param work_uri: the work folder.
    """

    run: RunIdentity
    work_uri: str


@dataclass(frozen=True, slots=True)
class PromisedPartition:
    """
    What one user partition is to hold in the end.

    :param partition: which one.
    :param begin: the offset that its first record gets.
    :param count: records.
    :param content_sha256: checksum of the records without their offsets.
    :param first_offset: of the source, ``None`` where it has none.
    :param end_offset: of the source, exclusive, ``None`` where it has none.
    :param lineage: by which the source is read: (leader epoch, its first offset).
    """

    partition: int
    begin: int
    count: int
    content_sha256: Text
    first_offset: int | None
    end_offset: int | None
    lineage: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class RestoreDocument:
    """
    The document of one restore.

    :param time_ms: when it was begun, ms since the epoch.
    :param dag_id: as of :class:`~airflow_provider_rlmm.core.world.run_identity.RunIdentity`.
    :param run_id: likewise.
    :param artifact: likewise.
    :param triggered_by: likewise.
    :param cluster_id: the cluster that is written to.
    :param topic: the topic that is written to.
    :param topic_id: its id in Kafka's form.
    :param source: ``archive`` or ``catalogue``.
    :param source_sha256: of what names the source's files: the catalogue's document, or the manifests of the archive.
    :param source_cluster_id: the cluster that the records are of.
    :param source_topic: name of their topic.
    :param source_topic_id: its id in Kafka's form.
    :param start: from where on, as it was asked for, in words.
    :param undecided: what becomes of transactions whose end no segment of the source has.
    :param offset_header: whether each record gets a header with the offset that it had.
    :param partitions: what each is to hold.
    """

    time_ms: int
    dag_id: Text
    run_id: Text
    artifact: Text
    triggered_by: Text
    cluster_id: Text
    topic: Text
    topic_id: Text
    source: Text
    source_sha256: Text
    source_cluster_id: Text
    source_topic: Text
    source_topic_id: Text
    start: LongText
    undecided: Undecided
    offset_header: bool
    partitions: tuple[PromisedPartition, ...]

    def differences(self, other: RestoreDocument) -> list[str]:
        """
        Return what another restore would write otherwise: names of fields, each with both values where they are short.

        :param other: the other one.
        """
        found = []
        for name in (field.name for field in fields(self) if field.name not in _WHO):
            mine, others = getattr(self, name), getattr(other, name)
            if mine != others:
                found.append(name if name == "partitions" else f"{name} ({mine} then, {others} now)")
        return found

    def to_json(self) -> str:
        """
        Return the document.

        :raises RestoreError: if it does not read back as it was written: no restore could go on by it.
        """
        return sealed_text(
            self,
            RESTORE_FORMAT,
            self.from_json,
            RestoreError,
            f"the document of the restore into {self.topic}",
            indent=1,
        )

    @classmethod
    def from_json(cls, text: str) -> RestoreDocument:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises RestoreError: if it is not, to the letter.
        """
        try:
            return _READ(strict.unsealed(text, RESTORE_FORMAT), "restore")
        except ValueError as e:
            raise RestoreError(
                f"the document of an earlier restore cannot be read ({e}), so it cannot be told what it wrote: delete the "
                "topic, and restore into a new one"
            ) from e


_READ = reader_of(RestoreDocument)


def uri_of(work_uri: str, cluster_id: str, topic_id: str) -> str:
    """
    Return where the document of a restore lies.

    :param work_uri: the work folder.
    :param cluster_id: the cluster that is written to.
    :param topic_id: of the topic that is written to, in Kafka's form.
    """
    return f"{work_uri.rstrip('/')}/{cluster_folder(cluster_id)}/{RESTORES_FOLDER}/{topic_id}.json"


def offsets_uri_of(work_uri: str, document: RestoreDocument) -> str:
    """
    Return where a restore says which offset became which.

    :param work_uri: the work folder.
    :param document: of the restore.
    """
    return f"{uri_of(work_uri, document.cluster_id, document.topic_id).removesuffix('.json')}.offsets.parquet"


def require_same(begun: RestoreDocument, now: RestoreDocument) -> None:
    """
    Refuse to go on with a restore that would write anything else than it had promised.

    :param begun: what was promised.
    :param now: what would be written.
    :raises RestoreError: naming what differs.
    """
    if differences := begun.differences(now):
        raise RestoreError(
            f"a restore into {begun.topic} was begun that is another one: {'; '.join(differences)}. Go on with the same "
            "source and the same choices, or delete the topic, and restore into a new one"
        )
