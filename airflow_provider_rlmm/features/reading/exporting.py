# SPDX-License-Identifier: Apache-2.0
"""
One piece of an export: what a Spark executor does, with nothing but this package's core and what the driver tells it.

A piece is a range of offsets of one user partition, and becomes one Parquet file, whole or not at all. Whoever tries it again
writes the same file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_rlmm.core.log.known_segments import KnownSegments
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.segments.read_range import OffsetRange, ReadIsolation
from airflow_provider_rlmm.core.storage.layouts import LayoutOptions, layout_named
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.features.reading.parquet import WrittenRecords, write_records
from airflow_provider_rlmm.features.reading.reader import RemoteLogReader


@dataclass(frozen=True, slots=True)
class StorageToRead:
    """Where segments lie, in what can be sent to another machine: no secret is in it."""

    uri: str  # root of the remote storage
    layout: str  # name of the layout
    layout_options: LayoutOptions  # what is said of it beside its name
    options: Mapping[str, str] = field(default_factory=dict)  # of the object store

    def open(self) -> ObjectStoreRemoteStorageManager:
        """
        Open it; credentials come from the environment.

        :raises ConfigurationError: if it cannot be opened like that.
        :raises StorageRootError: if a local folder does not exist here.
        """
        layout = layout_named(self.layout, self.layout_options)
        return ObjectStoreRemoteStorageManager(self.uri, layout, options=dict(self.options))


@dataclass(frozen=True, slots=True)
class ExportPiece:
    """A part of an export."""

    tip: TopicIdPartition  # of this user partition
    offsets: OffsetRange  # these offsets
    file: str  # URI of the Parquet file


@dataclass(frozen=True, slots=True)
class Exporter:
    """
    Exports pieces; all of it can be pickled.

    :param storage: where the segments lie.
    :param segments: knows the segments, as of the moment when the export was planned.
    :param lineages: user partition → the lineage by which it is read.
    :param isolation: whether records of aborted transactions are exported.
    :param bytes_per_second: the most that each piece fetches in a second, ``None`` for as much as the store gives.
    """

    storage: StorageToRead
    segments: KnownSegments
    lineages: Mapping[TopicIdPartition, LeaderEpochCheckpoint]
    isolation: ReadIsolation
    bytes_per_second: int | None = None

    def export(self, piece: ExportPiece) -> WrittenRecords:
        """
        Read a piece and write its file.

        :raises RlmmError: if storage cannot be read, or is damaged; no file is left then, or the older one.
        :raises OSError: if the file cannot be written.
        """
        reader = RemoteLogReader(self.segments, self.storage.open(), bytes_per_second=self.bytes_per_second)
        batches = reader.read(
            piece.tip,
            piece.offsets.start,
            piece.offsets.end,
            isolation=self.isolation,
            leader_epochs=self.lineages[piece.tip],
        )
        return write_records(batches, piece.file)
