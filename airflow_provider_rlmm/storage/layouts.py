# SPDX-License-Identifier: Apache-2.0
"""
Where a remote storage plugin puts the objects of a segment: the mapping between segments and object keys.

A layout makes no call. What it builds always lies under its own prefix: a topic name comes from the log, so it is data,
and one that Kafka itself would refuse is refused here too, before it can walk a path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Protocol
from uuid import UUID

from airflow_provider_rlmm.errors import ConfigurationError, UnsafeObjectKeyError
from airflow_provider_rlmm.metadata.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    kafka_uuid_str,
    parse_kafka_uuid,
)
from airflow_provider_rlmm.metadata.topic_names import is_legal_topic_name as is_legal_topic_name
from airflow_provider_rlmm.quoting import in_quotes
from airflow_provider_rlmm.storage.remote_storage import IndexType
from airflow_provider_rlmm.storage.root import Place

_MAX_INT32: Final = 2**31 - 1
_MAX_INT64: Final = 2**63 - 1


class Layout(Protocol):
    """The keys of one remote storage plugin, relative to the storage root, ``/``-separated."""

    @property
    def name(self) -> str:
        """The name under which :func:`layout_named` finds it."""

    @property
    def places(self) -> tuple[Place, ...]:
        """Every place below the root at which copies of segments can lie; every key is under the prefix of one."""

    def places_of(self, metadata: RemoteLogSegmentMetadata) -> tuple[Place, ...]:
        """
        Return every place at which the copy of a segment can lie, as far as its metadata tells.

        :param metadata: the segment.
        """

    @property
    def suffixes(self) -> Mapping[str, bool]:
        """Every file suffix that it knows → whether a complete segment must have it."""

    def partition_prefix(self, topic_id_partition: TopicIdPartition) -> str:
        """
        Return the prefix of a user partition's keys, ending in ``/``.

        :param topic_id_partition: the user partition.
        :raises UnsafeObjectKeyError: if Kafka would refuse the topic's name or the partition.
        """

    def segment_stem(self, metadata: RemoteLogSegmentMetadata) -> str:
        """
        Return what the keys of a segment have in common: a key is its stem and one of :attr:`suffixes`.

        :param metadata: the segment.
        :raises UnsafeObjectKeyError: if the key would leave the prefix or not match the layout's pattern.
        """

    def required_keys(self, metadata: RemoteLogSegmentMetadata) -> tuple[str, ...]:
        """
        Return the keys of a complete copy of a segment, without those that only some segments need.

        :param metadata: the segment.
        :raises UnsafeObjectKeyError: as :meth:`segment_stem`.
        """

    def object_key(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType | None) -> str:
        """
        Return the key of one file of a segment.

        :param metadata: the segment.
        :param index_type: which index; ``None`` for the log itself.
        :raises UnsafeObjectKeyError: as :meth:`segment_stem`.
        """

    def parse(self, key: str) -> RemoteLogSegmentId | None:
        """
        Return the segment that an object belongs to.

        :param key: the object's key, below the storage root.
        :return: ``None`` for a key that this layout would never build, whatever its suffix.
        """

    def topic_id_of_directory(self, directory: str) -> UUID | None:
        """
        Return the topic id that a directory right below a place's prefix belongs to.

        :param directory: the directory's path below the storage root, with or without a trailing ``/``.
        :return: ``None`` for a directory that is not of this layout.
        """


class LocalTieredStorageLayout:
    """
    The files of Kafka's ``LocalTieredStorage`` (class ``RemoteLogSegmentFileset``), whose ``dir`` is the storage root.

    ``kafka-tiered-storage/<topic>-<partition>-<topic id>/<start offset, 20 digits>-<segment id><suffix>``
    """

    name: Final = "local-tiered-storage"
    prefix: Final = "kafka-tiered-storage/"
    places: Final = (Place("kafka-tiered-storage", prefix),)
    _suffix_of: Final[Mapping[IndexType | None, str]] = MappingProxyType(
        {
            None: ".log",
            IndexType.OFFSET: ".index",
            IndexType.TIMESTAMP: ".timeindex",
            IndexType.PRODUCER_SNAPSHOT: ".snapshot",
            IndexType.LEADER_EPOCH: ".leader_epoch_checkpoint",
            IndexType.TRANSACTION: ".txnindex",
        }
    )
    suffixes: Final[Mapping[str, bool]] = MappingProxyType(
        {suffix: kind is not IndexType.TRANSACTION for kind, suffix in _suffix_of.items()}
    )
    # An id has 22 characters, "-" and "_" among them, and a topic name may end in "-7": only the fixed width tells.
    _directory: Final = re.compile(
        r"kafka-tiered-storage/(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>0|[1-9][0-9]*)-(?P<topic_id>[a-zA-Z0-9_-]{22})"
    )
    _file: Final = re.compile(r"(?P<start_offset>[0-9]{20})-(?P<segment_id>[a-zA-Z0-9_-]{22})\.[^/]+", re.DOTALL)

    def places_of(self, metadata: RemoteLogSegmentMetadata) -> tuple[Place, ...]:
        """See :class:`Layout`."""
        return self.places

    def partition_prefix(self, topic_id_partition: TopicIdPartition) -> str:
        """See :class:`Layout`; here ``kafka-tiered-storage/<topic>-<partition>-<topic id>/``."""
        topic, partition = topic_id_partition.topic, topic_id_partition.partition
        if not is_legal_topic_name(topic):
            raise UnsafeObjectKeyError(
                f"topic name {in_quotes(topic)} of topic id {kafka_uuid_str(topic_id_partition.topic_id)} is not one that "
                "Kafka accepts, so no object key is built from it; look at the metadata record that names it"
            )
        if not 0 <= partition <= _MAX_INT32:
            raise UnsafeObjectKeyError(f"user partition {partition} of topic {topic!r} is not in 0..{_MAX_INT32}")
        return f"{self.prefix}{topic}-{partition}-{kafka_uuid_str(topic_id_partition.topic_id)}/"

    def segment_stem(self, metadata: RemoteLogSegmentMetadata) -> str:
        """See :class:`Layout`. Custom metadata is ignored: ``LocalTieredStorage`` keeps none."""
        segment = metadata.remote_log_segment_id
        if not 0 <= metadata.start_offset <= _MAX_INT64:
            raise UnsafeObjectKeyError(f"start offset {metadata.start_offset} of segment {segment} is no offset")
        directory = self.partition_prefix(segment.topic_id_partition)
        return f"{directory}{metadata.start_offset:020d}-{kafka_uuid_str(segment.id)}"

    def required_keys(self, metadata: RemoteLogSegmentMetadata) -> tuple[str, ...]:
        """See :class:`Layout`; ``.txnindex`` is there only with aborted transactions."""
        stem = self.segment_stem(metadata)
        return tuple(stem + suffix for suffix, required in self.suffixes.items() if required)

    def object_key(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType | None) -> str:
        """See :class:`Layout`."""
        return self.segment_stem(metadata) + self._suffix_of[index_type]

    def parse(self, key: str) -> RemoteLogSegmentId | None:
        """See :class:`Layout`."""
        directory, _, file_name = key.rpartition("/")
        partition = self._parse_directory(directory)
        match = self._file.fullmatch(file_name)
        if partition is None or match is None:
            return None
        segment_id = _canonical_uuid(match["segment_id"])
        if segment_id is None or int(match["start_offset"]) > _MAX_INT64:
            return None
        return RemoteLogSegmentId(partition, segment_id)

    def topic_id_of_directory(self, directory: str) -> UUID | None:
        """See :class:`Layout`."""
        partition = self._parse_directory(directory.removesuffix("/"))
        return None if partition is None else partition.topic_id

    def _parse_directory(self, directory: str) -> TopicIdPartition | None:
        match = self._directory.fullmatch(directory)
        if match is None:
            return None
        topic_id = _canonical_uuid(match["topic_id"])
        partition = int(match["partition"])
        if topic_id is None or partition > _MAX_INT32 or not is_legal_topic_name(match["topic"]):
            return None
        return TopicIdPartition(topic_id, match["topic"], partition)


_LAYOUTS: Final[Mapping[str, Callable[[], Layout]]] = MappingProxyType(
    {LocalTieredStorageLayout.name: LocalTieredStorageLayout}
)


def layout_named(name: str) -> Layout:
    """
    Return the layout with the given name.

    :param name: for example ``local-tiered-storage``.
    :raises ConfigurationError: for an unknown name; the message lists the known ones.
    """
    factory = _LAYOUTS.get(name)
    if factory is None:
        raise ConfigurationError(f"unknown storage layout {name!r}; choose one of: {', '.join(sorted(_LAYOUTS))}")
    return factory()


def _canonical_uuid(text: str) -> UUID | None:
    # Base64 has four spellings for the last character of an id; Kafka writes only one of them.
    try:
        value = parse_kafka_uuid(text)
    except ValueError:
        return None
    return value if kafka_uuid_str(value) == text else None
