# SPDX-License-Identifier: Apache-2.0
"""
Where the files of an archive lie.

Below the archive folder each user partition has its own: ``<cluster>/<topic>-<topic id>/<partition>``, with ``segments/``,
``records/<name>.<try>/`` and ``manifests/<name>.<try>.json``. Beside them, in ``runs/<name>.<SHA-256>.json``, lies what each
run says of the whole topic. Nothing there is ever replaced. A segment never changes, so its files have one place, for every
run that archives it.
"""

from __future__ import annotations

import re
from typing import Final

from airflow_provider_rlmm.core.base.errors import ArchiveError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.storage.index_type import IndexType

LOG: Final = "log"
"""Stands among the kinds of files for the log itself."""

MANIFESTS: Final = "manifests"
DOCUMENTS: Final = "runs"
SEGMENTS: Final = "segments"
RECORDS: Final = "records"

_SUFFIXES: Final = {
    LOG: ".log",
    IndexType.OFFSET.value: ".index",
    IndexType.TIMESTAMP.value: ".timeindex",
    IndexType.PRODUCER_SNAPSHOT.value: ".snapshot",
    IndexType.LEADER_EPOCH.value: ".leader-epoch-checkpoint",
    IndexType.TRANSACTION.value: ".txnindex",
}
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def folder_of(archive_uri: str, cluster_id: str, tip: TopicIdPartition) -> str:
    """
    Return the folder of a user partition.

    :raises ArchiveError: if Kafka does not allow the topic's name: it is data of the log, and must walk no path.
    """
    if not _TOPIC.fullmatch(tip.topic):
        raise ArchiveError(f"the topic name {in_quotes(tip.topic)} is none that Kafka allows: {tip} cannot be archived")
    topic = f"{tip.topic}-{kafka_uuid_str(tip.topic_id)}"
    return f"{archive_uri.rstrip('/')}/{cluster_folder(cluster_id)}/{topic}/{tip.partition}"


def topic_folder(folder_uri: str) -> str:
    """
    Return the folder of a topic.

    :param folder_uri: of one of its user partitions.
    """
    return folder_uri.rpartition("/")[0]


def segment_file(metadata: RemoteLogSegmentMetadata, kind: str) -> str:
    """
    Return the path of a segment's file below the folder of its user partition.

    :param metadata: the segment.
    :param kind: :data:`LOG`, or the value of an
        :class:`~airflow_provider_rlmm.core.storage.index_type.IndexType`.
    """
    return _segment_stem(metadata) + _SUFFIXES[kind]


def object_file(metadata: RemoteLogSegmentMetadata, suffix: str) -> str:
    """
    Return the path of an object of an encrypted segment below the folder of its user partition.

    :param metadata: the segment.
    :param suffix: of the object's key, without a ``/``.
    """
    return f"{_segment_stem(metadata)}.as-is{suffix}"


def _segment_stem(metadata: RemoteLogSegmentMetadata) -> str:
    return f"{SEGMENTS}/{metadata.start_offset:020d}-{kafka_uuid_str(metadata.remote_log_segment_id.id)}"


def records_file(name: str, try_id: str, number: int) -> str:
    """
    Return the path of a file of records below the folder of its user partition.

    :param name: of the archive.
    :param try_id: of the try.
    :param number: of the file, 0 or more.
    """
    return f"{RECORDS}/{checked_name(name)}.{try_id}/part-{number:05d}.parquet"


def manifest_file(name: str, try_id: str) -> str:
    """Return the path of a manifest below the folder of its user partition."""
    return f"{MANIFESTS}/{checked_name(name)}.{try_id}.json"


def document_file(name: str, sha256: str) -> str:
    """
    Return the name of the document of a run.

    :param name: of the archive.
    :param sha256: of the document's bytes, lower-case hex.
    """
    return f"{checked_name(name)}.{sha256}.json"


def checked_name(name: str) -> str:
    """
    Return the name of an archive.

    :param name: letters, digits, dots, dashes and underscores, at most 128, a letter or digit first.
    :raises ArchiveError: for any other name.
    """
    if not _NAME.fullmatch(name):
        raise ArchiveError(f"{in_quotes(name)} cannot name an archive: it must match {_NAME.pattern}")
    return name
