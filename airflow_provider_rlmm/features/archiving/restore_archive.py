# SPDX-License-Identifier: Apache-2.0
"""An archive that a topic is restored from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import ArchiveError
from airflow_provider_rlmm.features.archiving.restore_source import SourceLog

if TYPE_CHECKING:
    from airflow_provider_rlmm.features.archiving.archive.reading import ArchivedLog


class ArchiveSource:
    """
    All that was archived of a topic.

    :param archive_uri: the folder of all archives.
    :param cluster_id: the cluster that it was archived from.
    :param topic_id: in Kafka's form.
    :raises ArchiveError: if there is no archive, it cannot be read, or is encrypted.
    """

    kind = "archive"
    start = "the beginning"

    def __init__(self, archive_uri: str, cluster_id: str, topic_id: str) -> None:
        from airflow_provider_rlmm.features.archiving.archive.reading import open_topic

        self.cluster_id = cluster_id
        self._archived = open_topic(archive_uri, cluster_id, topic_id)
        _require_readable(self._archived.logs)
        self.topic = self._archived.topic
        names = [f"{log.partition} {named.name} {named.sha256}" for log in self._archived.logs for named in log.named]
        self.sha256 = hashlib.sha256("\n".join(names).encode()).hexdigest()
        self.missing: Sequence[str] = self._archived.missing
        self.said: Sequence[str] = ()

    def open(self) -> Sequence[SourceLog]:
        """
        Compare every file with its checksum, and return the archived logs.

        :raises ArchiveError: naming the first file that differs or cannot be read.
        :raises RemoteLogError: if the lineage of a newest segment cannot be read.
        """
        for log in self._archived.logs:
            log.verify()
        return [source_log(log) for log in self._archived.logs]


def source_log(log: ArchivedLog) -> SourceLog:
    """
    Return the records of an archived user partition.

    :param log: the archived user partition.
    :raises RemoteLogError: if the lineage of its newest segment cannot be read.
    """
    stream = log.stream()
    return SourceLog(log.manifests[0].topic_id_partition, stream.reader, stream.lineage, tuple(stream.ranges))


def _require_readable(logs: Sequence[ArchivedLog]) -> None:
    """Refuse what only a broker with the key can read: its records are in no file of the archive."""
    encrypted = [keys for log in logs for segment in log.segments if (keys := segment.keys)]
    if encrypted:
        key = next(iter(encrypted[0].values()))
        raise ArchiveError(
            f"nothing was written: {number_of(len(encrypted), 'archived segment is', 'archived segments are')} "
            "encrypted, and their keys are with the brokers. "
            f"Their objects were archived as they are: put each file back under the key that its manifest names, such as "
            f"{key}; brokers that know the segment and have its key serve it then"
        )
