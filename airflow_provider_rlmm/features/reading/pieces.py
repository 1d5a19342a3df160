# SPDX-License-Identifier: Apache-2.0
"""
One piece of a topic in remote storage: what an executor reads, with this package's core and what the driver tells it.

A piece is a range of offsets of one user partition, which remote storage had when the topic was cut. All its records are
read, or reading it fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from airflow_provider_rlmm.core.log.known_segments import KnownSegments
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, TopicIdPartition
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.segments.read_range import OffsetRange, ReadIsolation
from airflow_provider_rlmm.core.storage.layouts import LayoutOptions, layout_named
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.core.storage.remote_storage import SegmentStorage
from airflow_provider_rlmm.features.reading.catalogued_storage import CataloguedObjects, CataloguedStorage
from airflow_provider_rlmm.features.reading.reader import RemoteLogReader

ROWS: Final = pa.schema(
    {
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp_ms": pa.int64(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
    }
)
"""Records as rows of a DataFrame: Spark compares types with what it was told, and takes every column for one with nulls."""


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
class Piece:
    """A part of what is read."""

    tip: TopicIdPartition  # of this user partition
    offsets: OffsetRange  # these offsets


@dataclass(frozen=True, slots=True)
class PieceReader:
    """
    Reads pieces; all of it can be pickled.

    :param storage: where the segments lie.
    :param segments: knows the segments, as of the moment when the pieces were cut.
    :param lineages: user partition → the lineage by which it is read.
    :param isolation: whether records of aborted transactions are read.
    :param bytes_per_second: the most that each piece fetches in a second, ``None`` for as much as the store gives.
    :param catalogued: what a catalogue says of the objects of each segment, ``None`` where the metadata topic names segments.
    """

    storage: StorageToRead
    segments: KnownSegments
    lineages: Mapping[TopicIdPartition, LeaderEpochCheckpoint]
    isolation: ReadIsolation
    bytes_per_second: int | None = None
    catalogued: Mapping[RemoteLogSegmentId, CataloguedObjects] | None = None

    def read(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """
        Yield the records of a piece, as :meth:`~airflow_provider_rlmm.features.reading.reader.RemoteLogReader.read` does.

        :raises RlmmError: if storage cannot be read, or is damaged, or a segment has gone.
        """
        opened = self.storage.open()
        storage: SegmentStorage = opened if self.catalogued is None else CataloguedStorage(opened, self.catalogued)
        reader = RemoteLogReader(
            self.segments,
            storage,
            bytes_per_second=self.bytes_per_second,
            to_the_end=self.catalogued is not None,
        )
        return reader.read(
            piece.tip,
            piece.offsets.start,
            piece.offsets.end,
            isolation=self.isolation,
            leader_epochs=self.lineages[piece.tip],
        )

    def rows(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """
        Yield the records of a piece by :data:`ROWS`.

        :raises RlmmError: see :meth:`read`.
        """
        for batch in self.read(piece):
            partition = pa.repeat(pa.scalar(piece.tip.partition, pa.int32()), batch.num_rows)
            columns = [partition, *batch.columns]
            yield pa.RecordBatch.from_arrays(
                [column.cast(said.type) for column, said in zip(columns, ROWS, strict=True)], schema=ROWS
            )
