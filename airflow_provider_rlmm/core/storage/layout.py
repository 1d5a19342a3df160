# SPDX-License-Identifier: Apache-2.0
"""Where a plugin puts the files of segments: what every storage layout answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol
from uuid import UUID

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.root import Place
from airflow_provider_rlmm.core.storage.segment_files import ReadObject, SegmentFiles, SegmentPacker

if TYPE_CHECKING:
    import pyarrow as pa

LET_BROKERS_COPY: Final = (
    "Let brokers copy, whose plugin writes it: start one on this disk, then set remote.log.copy.disable of the topic to "
    "false, and remote.copy.lag.ms to 0 where it has a copy lag (Kafka 4.4)"
)
"""What helps where nothing can be copied into a layout."""


class Layout(Protocol):
    """The keys of one remote storage plugin, relative to the storage root, ``/``-separated."""

    @property
    def name(self) -> str:
        """The name under which :func:`layout_named` finds it."""

    @property
    def places(self) -> tuple[Place, ...]:
        """Every place below the root at which copies of segments can lie, the one that is written to first."""

    def places_of(self, metadata: RemoteLogSegmentMetadata) -> tuple[Place, ...]:
        """
        Return every place at which the copy of a segment can lie, as far as its metadata tells.

        :param metadata: the segment.
        :raises ForeignPrefixError: if its custom metadata names a place that is none of :attr:`places`.
        :raises UnsafeObjectKeyError: if its custom metadata names another key, or cannot be read.
        """

    def names_only(self, custom_metadata: pa.ChunkedArray, prefixes: Collection[str] = ()) -> pa.ChunkedArray:
        """
        Tell of the custom metadata of many segments which certainly name no place but :attr:`places`, and some more.

        :param custom_metadata: binary, one per segment, null where it has none.
        :param prefixes: more key prefixes, as :class:`~airflow_provider_rlmm.core.base.errors.ForeignPrefixError` names them.
        :return: one truth value per segment; of what is false :meth:`places_of` is asked.
        """

    def recorded_prefix(self, custom_metadata: bytes | None) -> str | None:
        """
        Return the key prefix that the custom metadata of a segment name.

        :param custom_metadata: of its metadata.
        :return: ``None`` where they name none, or cannot be read.
        """

    def below(self, key_prefix: str) -> Layout:
        """
        Return the same layout below one other prefix.

        :param key_prefix: what they begin with, as custom metadata name it.
        :raises ConfigurationError: if no store can address it.
        """

    @property
    def suffixes(self) -> Mapping[str, bool]:
        """Every file suffix that it knows → whether a complete segment must have it."""

    def partition_prefix(self, topic_id_partition: TopicIdPartition, place: Place | None = None) -> str:
        """
        Return the folder of a user partition's keys: empty, or ending in ``/``. Others' keys may lie there, too.

        :param topic_id_partition: the user partition.
        :param place: where; ``None`` for the first one.
        :raises UnsafeObjectKeyError: if Kafka would refuse the topic's name or the partition.
        """

    def segment_stem(self, metadata: RemoteLogSegmentMetadata, place: Place | None = None) -> str:
        """
        Return what the keys of a segment have in common: a key is its stem and one of :attr:`suffixes`.

        :param metadata: the segment.
        :param place: where; ``None`` for the first one at which its copy can lie.
        :raises UnsafeObjectKeyError: if the key would not match the layout's pattern.
        """

    def required_keys(self, metadata: RemoteLogSegmentMetadata, place: Place | None = None) -> tuple[str, ...]:
        """
        Return the keys of a complete copy of a segment, without those that only some segments need.

        :param metadata: the segment.
        :param place: where; ``None`` for the first one at which its copy can lie.
        :raises UnsafeObjectKeyError: as :meth:`segment_stem`.
        """

    def object_key(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType | None) -> str:
        """
        Return the key of one file of a segment.

        :param metadata: the segment.
        :param index_type: which index; ``None`` for the log itself.
        :raises UnsafeObjectKeyError: as :meth:`segment_stem`.
        :raises ConfigurationError: if the layout does not say which object holds it.
        """

    def parse(self, key: str, place: Place | None = None) -> RemoteLogSegmentId | None:
        """
        Return the segment that an object belongs to.

        :param key: the object's key, below the storage root.
        :param place: as a key of this place; ``None`` for the first one that it can be of.
        :return: ``None`` for a key that this layout would never build, with any suffix.
        """

    def parts(self, key: str, place: Place) -> tuple[RemoteLogSegmentId, str] | None:
        """
        Return the segment that an object belongs to, and its suffix, which may be none of :attr:`suffixes`.

        :param key: the object's key, below the storage root.
        :param place: as a key of this place.
        :return: ``None`` as :meth:`parse`.
        """

    def start_offset(self, key: str, place: Place) -> int | None:
        """
        Return the first offset of a segment, as the key of one of its objects names it.

        :param key: the object's key, below the storage root.
        :param place: as a key of this place.
        :return: ``None`` as :meth:`parse`, and where keys of this layout name no offset.
        """

    def recorded_size(self, log_bytes: int, custom_metadata: bytes | None) -> tuple[frozenset[str], int] | None:
        """
        Return how large objects of a segment are, as far as its metadata says so.

        :param log_bytes: ``segment_size_in_bytes`` of its metadata: the log as it lay on the broker's disk.
        :param custom_metadata: of its metadata.
        :return: suffixes of objects and their bytes, summed; ``None`` where it does not say, or cannot be understood.
        """

    @property
    def folders_name_topics(self) -> bool:
        """Whether the directories right below a place's prefix name topic ids: the others need not be looked into."""

    def topic_id_of_directory(self, directory: str, place: Place | None = None) -> UUID | None:
        """
        Return the topic id that a directory right below a place's prefix belongs to.

        :param directory: the directory's path below the storage root, with or without a trailing ``/``.
        :param place: which place; ``None`` for the first one that fits.
        :return: ``None`` for a directory that is not of this layout.
        """

    def segment_files(self, read: ReadObject) -> SegmentFiles:
        """
        Return what reads the files of segments out of their objects.

        :param read: reads an object of the store.
        """

    def packer(self, read: ReadObject, copies: Iterable[RemoteLogSegmentMetadata]) -> SegmentPacker:
        """
        Return what makes the objects of a copy.

        :param read: reads an object of the store.
        :param copies: copied segments, the newest first: they may show what the layout has to know.
        :raises ConfigurationError: if nothing can be copied into this layout; it says why, and what to do.
        :raises StorageError: if storage does not answer.
        """


def is_suffix(text: str, suffixes: Collection[str]) -> bool:
    """
    Tell whether what follows the stem of a segment makes the key of one of its objects, of a known kind or of another.

    :param text: what follows.
    :param suffixes: those that the layout knows.
    """
    if text in suffixes:
        return True
    # Where a segment has a folder, all in it is its own. The folder's name alone is what consoles leave there.
    in_a_folder = text.startswith("/") and any(suffix.startswith("/") for suffix in suffixes)
    return len(text) > 1 and (text.startswith(".") or in_a_folder)
