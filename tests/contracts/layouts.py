# SPDX-License-Identifier: Apache-2.0
"""Layouts of tests: the keys of ``LocalTieredStorage`` under other prefixes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

import pyarrow as pa

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.layouts import (
    AivenLayout,
    LayoutOptions,
    LocalTieredStorageLayout,
    PlainFiles,
    PlainPacker,
    layout_named,
)
from airflow_provider_rlmm.core.storage.root import Place
from airflow_provider_rlmm.core.storage.segment_files import ReadObject, SegmentFiles, SegmentPacker

OLD, NEW = Place("old", "old/"), Place("new", "new/er/")
_LOCAL = LocalTieredStorageLayout()


class RelocatedLayout:
    """
    Copies may lie at any of some places. Custom metadata names the place of a copy; without it the first one is taken.

    :param places: where.
    """

    name = "relocated"
    suffixes: Mapping[str, bool] = {**_LOCAL.suffixes, ".timeindex": False}

    def __init__(self, *places: Place) -> None:
        self.places = places

    def places_of(self, metadata: RemoteLogSegmentMetadata) -> tuple[Place, ...]:
        named = tuple(place for place in self.places if place.name.encode() == metadata.custom_metadata)
        return named or self.places

    def names_only(self, custom_metadata: pa.ChunkedArray, prefixes: Collection[str] = ()) -> pa.ChunkedArray:
        return _LOCAL.names_only(custom_metadata, prefixes)

    def partition_prefix(self, topic_id_partition: TopicIdPartition, place: Place | None = None) -> str:
        return self._relocated(_LOCAL.partition_prefix(topic_id_partition), place or self.places[0])

    def segment_stem(self, metadata: RemoteLogSegmentMetadata, place: Place | None = None) -> str:
        return self._relocated(_LOCAL.segment_stem(metadata), place or self.places_of(metadata)[0])

    def required_keys(self, metadata: RemoteLogSegmentMetadata, place: Place | None = None) -> tuple[str, ...]:
        stem = self.segment_stem(metadata, place)
        return tuple(stem + suffix for suffix, required in self.suffixes.items() if required)

    def object_key(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType | None) -> str:
        return self._relocated(_LOCAL.object_key(metadata, index_type), self.places_of(metadata)[0])

    folders_name_topics = True

    def parse(self, key: str, place: Place | None = None) -> RemoteLogSegmentId | None:
        local = self._local(key, place)
        return None if local is None else _LOCAL.parse(local)

    def parts(self, key: str, place: Place) -> tuple[RemoteLogSegmentId, str] | None:
        local = self._local(key, place)
        return None if local is None else _LOCAL.parts(local, _LOCAL.places[0])

    def topic_id_of_directory(self, directory: str, place: Place | None = None) -> UUID | None:
        local = self._local(directory, place)
        return None if local is None else _LOCAL.topic_id_of_directory(local)

    def segment_files(self, read: ReadObject) -> SegmentFiles:
        return PlainFiles(self, read)

    def packer(self, read: ReadObject, copies: Iterable[RemoteLogSegmentMetadata]) -> SegmentPacker:
        return PlainPacker(self)

    def _relocated(self, key: str, place: Place) -> str:
        return place.prefix + key.removeprefix(_LOCAL.prefix)

    def _local(self, key: str, place: Place | None) -> str | None:
        places = self.places if place is None else (place,)
        found = (_LOCAL.prefix + key.removeprefix(p.prefix) for p in places if key.startswith(p.prefix))
        return next(found, None)


def foreign_template() -> Layout:
    """A layout that this project does not ship: objects without suffix, folders that name no topic id."""
    pattern = "{partition}/{topic}.{topic_id}/{start_offset}.{segment_id}"
    return layout_named(
        "template", LayoutOptions("tiered/", (), pattern, {"": True, ".index": True, ".txnindex": False})
    )


def in_house_template() -> Layout:
    """Another one: a salt, ids as UUIDs, numbers with a width, and a folder for each segment."""
    pattern = (
        "{md5(topic_id,'/',partition):2}-{topic}/{topic_id:uuid}/{partition:05}/{end_offset:020}_{segment_id:uuid}"
    )
    return layout_named(
        "template", LayoutOptions("tiered/", (), pattern, {"/log": True, "/index": True, "/txnindex": False})
    )


WITHOUT_COPIES = {
    "aiven": lambda: AivenLayout("kafka/prod-"),
    "template": foreign_template,
    "in-house": in_house_template,
}
"""Layouts that do not say which object holds which index: nothing can be copied or read by them."""
