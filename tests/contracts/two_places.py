# SPDX-License-Identifier: Apache-2.0
"""A layout with two places, as one has whose prefix was changed: custom metadata says at which of them a copy lies."""

from __future__ import annotations

from airflow_provider_rlmm.metadata.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.storage.layouts import LocalTieredStorageLayout, ParsedKey, SegmentKeys
from airflow_provider_rlmm.storage.root import Place

OLD, NEW = Place("old", "old/"), Place("new", "new/")
_ONE = LocalTieredStorageLayout()


class TwoPlacesLayout:
    """The keys of ``LocalTieredStorage`` below ``old/`` or ``new/``; a copy that has not ended may be at either."""

    name = "two-places"
    places = (OLD, NEW)
    suffixes = _ONE.suffixes
    partition_prefix = _ONE.partition_prefix
    object_key = _ONE.object_key

    def places_of(self, metadata: RemoteLogSegmentMetadata) -> tuple[Place, ...]:
        named = tuple(place for place in self.places if place.name.encode() == metadata.custom_metadata)
        return named or self.places

    def segment_stem(self, metadata: RemoteLogSegmentMetadata) -> str:
        return self.places_of(metadata)[0].prefix + _ONE.segment_stem(metadata).removeprefix(_ONE.prefix)

    def segment_keys(self, metadata: RemoteLogSegmentMetadata) -> SegmentKeys:
        stem = self.segment_stem(metadata)
        required = tuple(stem + suffix for suffix, needed in self.suffixes.items() if needed)
        return SegmentKeys(required, (f"{stem}.txnindex",))

    def parse(self, key: str) -> ParsedKey | None:
        return _ONE.parse(self._below_one(key))

    def topic_id_of_directory(self, directory: str) -> object:
        return _ONE.topic_id_of_directory(self._below_one(directory))

    def _below_one(self, key: str) -> str:
        return _ONE.prefix + key.partition("/")[2]
