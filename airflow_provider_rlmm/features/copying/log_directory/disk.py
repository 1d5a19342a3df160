# SPDX-License-Identifier: Apache-2.0
"""One of a broker's ``log.dirs`` as the broker has left it: whose it is, what lies there, and its checkpoints."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import LogDirectoryError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.records.records import parse_kafka_uuid
from airflow_provider_rlmm.features.copying.log_directory.broker_lock import kept_from_brokers
from airflow_provider_rlmm.features.copying.log_directory.names import TopicPartition, parse_partition_name, why_marked
from airflow_provider_rlmm.features.copying.log_directory.text_files import read_offset_checkpoint, read_properties

__all__ = ["LogDisk"]

META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
CLEANED_OFFSETS: Final = "cleaner-offset-checkpoint"

TEXT_FILES: Final = (
    META_PROPERTIES,
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CLEANED_OFFSETS,
)
"""The files of the disk itself."""

_OWN_LOG = "__cluster_metadata-0"
"""The log of the KRaft quorum: no user partition."""


@dataclass(frozen=True, slots=True)
class LogDisk:
    """
    One of a broker's ``log.dirs``, not held by a running broker.

    :param path: the folder.
    :param cluster_id: id of the broker's cluster.
    :param node_id: id of the broker, ``None`` where the disk does not name it.
    :param directory_id: id of the disk, ``None`` where an earlier Kafka has formatted it.
    :param clean_shutdown: whether the broker has ended in an orderly way; after any other end, what it had not yet flushed
        may be missing or damaged.
    :param high_watermarks: user partition → what was replicated to all in-sync replicas, exclusive, as of some seconds before
        the end.
    :param log_start_offsets: user partition → its first offset, where it is not the one of its first segment.
    :param recovery_points: user partition → what was flushed, exclusive. It says nothing of replication.
    :param cleaned_offsets: user partition → up to where the log cleaner has compacted it.
    :param partitions: the user partitions that lie here, internal topics included.
    :param passed_over: directory that is no user partition's, or no more → why.
    """

    path: Path
    cluster_id: str
    node_id: int | None
    directory_id: UUID | None
    clean_shutdown: bool
    high_watermarks: Mapping[TopicPartition, int]
    log_start_offsets: Mapping[TopicPartition, int]
    recovery_points: Mapping[TopicPartition, int]
    cleaned_offsets: Mapping[TopicPartition, int]
    partitions: tuple[TopicPartition, ...]
    passed_over: Mapping[str, str]

    @classmethod
    def open(cls, path: Path) -> LogDisk:
        """
        Look at a disk, or at a snapshot of one.

        :param path: the folder, which has a ``meta.properties``.
        :raises LogDirectoryError: if a running broker holds it, it is no broker's, or one of its checkpoints is damaged.
        """
        with kept_from_brokers(path):
            return read_disk(path)

    def directory_of(self, partition: TopicPartition) -> Path:
        """
        Return the directory of a user partition.

        :param partition: one of :attr:`partitions`.
        :raises LogDirectoryError: if it does not lie here, or a broker has marked it; the message says what for.
        """
        if partition in self.partitions:
            return self.path / f"{partition.topic}-{partition.partition}"
        marked = self.marked(partition.topic, [partition.partition])
        raise LogDirectoryError(
            f"{self.path} has no directory of {partition}"
            + (f", only such a one: {'; '.join(marked)}" if marked else ": name one of the broker's other log.dirs")
        )

    def marked(self, topic: str, partitions: Collection[int] | None = None) -> list[str]:
        """
        Say which directories of a topic a broker has marked, and what for: they are never copied.

        :param topic: its name.
        :param partitions: of it, ``None`` for all.
        """
        of_topic = re.compile(rf"{re.escape(topic)}-([0-9]+)\..*")
        return [
            why
            for name, why in self.passed_over.items()
            if (found := of_topic.fullmatch(name)) and (partitions is None or int(found[1]) in partitions)
        ]


def read_disk(path: Path) -> LogDisk:
    """
    Look at a disk of which the caller makes sure that no broker holds it.

    :raises LogDirectoryError: if it is no broker's, or one of its checkpoints is damaged.
    """
    properties = read_properties(path / META_PROPERTIES)
    if properties is None:
        raise LogDirectoryError(
            f"{path} has no {META_PROPERTIES}: it is none of a broker's log.dirs, or an unfinished snapshot of one; name the"
            " folder above the directories of the user partitions"
        )
    if not properties.get("cluster.id"):
        raise LogDirectoryError(f"{path / META_PROPERTIES} names no cluster.id: nothing says whose disk this is")
    partitions, passed_over = _directories(path)
    return LogDisk(
        path=path,
        cluster_id=properties["cluster.id"],
        node_id=_node_id(path, properties),
        directory_id=_directory_id(path, properties),
        clean_shutdown=(path / CLEAN_SHUTDOWN).is_file(),
        high_watermarks=read_offset_checkpoint(path / HIGH_WATERMARKS),
        log_start_offsets=read_offset_checkpoint(path / LOG_START_OFFSETS),
        recovery_points=read_offset_checkpoint(path / RECOVERY_POINTS),
        cleaned_offsets=read_offset_checkpoint(path / CLEANED_OFFSETS),
        partitions=partitions,
        passed_over=passed_over,
    )


def _directories(path: Path) -> tuple[tuple[TopicPartition, ...], Mapping[str, str]]:
    partitions: list[TopicPartition] = []
    passed_over: dict[str, str] = {}
    try:
        with os.scandir(path) as entries:
            folders = sorted((entry.name, entry.is_symlink()) for entry in entries if entry.is_dir())
    except OSError as e:
        raise LogDirectoryError(f"{path} cannot be listed: {e.strerror}") from e
    for name, is_link in folders:
        partition = parse_partition_name(name)
        if is_link:
            passed_over[name] = f"{in_quotes(name)}: a symbolic link, which no broker makes"
        elif (why := why_marked(name)) is not None:
            passed_over[name] = why
        elif name == _OWN_LOG or partition is None:
            passed_over[name] = f"{in_quotes(name)}: not of a user partition"
        else:
            partitions.append(partition)
    return tuple(sorted(partitions)), passed_over


def _node_id(path: Path, properties: Mapping[str, str]) -> int | None:
    # Version 1 says node.id, version 0 broker.id.
    text = properties.get("node.id", properties.get("broker.id"))
    if text is not None and not re.fullmatch(r"[0-9]{1,10}", text):
        raise LogDirectoryError(f"{path / META_PROPERTIES} is damaged: {in_quotes(text, 80)} is no id of a broker")
    return None if text is None else int(text)


def _directory_id(path: Path, properties: Mapping[str, str]) -> UUID | None:
    text = properties.get("directory.id")
    try:
        return None if text is None else parse_kafka_uuid(text)
    except ValueError as e:
        raise LogDirectoryError(
            f"{path / META_PROPERTIES} is damaged: {in_quotes(text or '', 80)} is no directory.id"
        ) from e
