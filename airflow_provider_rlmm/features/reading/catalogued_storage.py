# SPDX-License-Identifier: Apache-2.0
"""Segments as a catalogue names them: their objects are compared with it before the first byte of them is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.errors import CatalogueError
from airflow_provider_rlmm.core.plans.catalogue_rows import RECOVER_AGAIN
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager


@dataclass(frozen=True, slots=True)
class CataloguedObjects:
    """
    The objects of a segment, as a catalogue has them.

    :param place: name of the place where they lie.
    :param keys: their keys below the storage root.
    :param bytes: their sizes, summed.
    """

    place: str
    keys: tuple[str, ...]
    bytes: int


class CataloguedStorage:
    """
    The reading half of a storage; it reads no segment but those of a catalogue, and none whose objects have changed.

    One may be used by several threads.

    :param storage: the storage.
    :param objects: what the catalogue says of each segment that may be read.
    """

    def __init__(self, storage: RemoteStorageManager, objects: Mapping[RemoteLogSegmentId, CataloguedObjects]) -> None:
        self._storage = storage
        self.objects = objects
        """What the catalogue says of each segment that may be read."""
        self._compared: set[RemoteLogSegmentId] = set()

    @property
    def layout(self) -> Layout:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.SegmentStorage`."""
        return self._storage.layout

    def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int | None = None
    ) -> bytes:
        """
        See :class:`~airflow_provider_rlmm.core.storage.remote_storage.SegmentStorage`.

        :raises CatalogueError: if the segment is not as the catalogue says.
        """
        self._compare(metadata)
        return self._storage.fetch_log_segment(metadata, start_position, end_position)

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """
        See :class:`~airflow_provider_rlmm.core.storage.remote_storage.SegmentStorage`.

        :raises CatalogueError: if the segment is not as the catalogue says.
        """
        self._compare(metadata)
        return self._storage.fetch_index(metadata, index_type)

    def _compare(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Compare keys and sizes with the catalogue, once for each segment."""
        segment_id = metadata.remote_log_segment_id
        if segment_id in self._compared:
            return
        said = self.objects.get(segment_id)
        if said is None:
            raise CatalogueError(f"the catalogue does not name segment {segment_id} as one that can be read")
        place = next((place for place in self.layout.places if place.name == said.place), None)
        stem = None if place is None else self.layout.segment_stem(metadata, place)
        if stem is None or not all(key.startswith(stem) for key in said.keys):
            raise CatalogueError(
                f"the catalogue names keys of segment {segment_id} that the layout does not build, {said.keys[:1]} first: "
                f"look whether layout and key_prefix are those of the catalogue, or {RECOVER_AGAIN}"
            )
        if missing := sorted(set(self.layout.required_keys(metadata, place)) - set(said.keys)):
            raise CatalogueError(f"the catalogue names no object {missing[0]} of segment {segment_id}; {RECOVER_AGAIN}")
        there = self._storage.stored_objects(said.keys)
        if gone := sorted(set(said.keys) - there.keys()):
            raise CatalogueError(
                f"{number_of(len(gone), 'object')} of segment {segment_id} {agreeing(len(gone), 'has', 'have')} gone "
                f"since the catalogue was made, {gone[0]} first; {RECOVER_AGAIN}"
            )
        if (size := sum(stored.size for stored in there.values())) != said.bytes:
            raise CatalogueError(
                f"the objects of segment {segment_id} have {size:,} bytes, and the catalogue says {said.bytes:,}: they are "
                f"others than those that it was made of; {RECOVER_AGAIN}"
            )
        self._compared.add(segment_id)
