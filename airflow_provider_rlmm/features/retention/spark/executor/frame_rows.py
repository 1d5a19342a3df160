# SPDX-License-Identifier: Apache-2.0
"""What a task does for a DataFrame of people's own jobs: decode records, or read the rows of a generation's file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_rlmm.core.base.errors import SnapshotRefusedError
from airflow_provider_rlmm.core.records.columnar import decode
from airflow_provider_rlmm.features.retention.spark.columns import EVENT_COLUMNS, SEGMENT_COLUMNS, arrow_schema
from airflow_provider_rlmm.features.retention.spark.executor.files import read_whole
from airflow_provider_rlmm.features.retention.spark.generation import GenerationFile

EVENTS = arrow_schema(EVENT_COLUMNS)
"""Of single records."""

SEGMENTS = arrow_schema(SEGMENT_COLUMNS)
"""Of the rows of a generation."""


def event_rows(batches: Iterable[pa.RecordBatch], num_partitions: int) -> Iterator[pa.RecordBatch]:
    """
    Yield one row of :data:`EVENTS` for each record, in their order; a value that is refused has a row, too.

    :param batches: ``metadata_partition``, ``offset``, ``timestamp_ms``, ``key``, ``value``.
    :param num_partitions: how many metadata partitions the topic has.
    """
    for batch in batches:
        decoded = decode(
            batch["value"],
            keys=batch["key"],
            metadata_partition=batch["metadata_partition"],
            offset=batch["offset"],
            timestamp_ms=batch["timestamp_ms"],
            num_partitions=num_partitions,
        )
        yield pa.RecordBatch.from_arrays([decoded[f.name].cast(f.type) for f in EVENTS], schema=EVENTS)


def segment_rows(folder: str, file: GenerationFile, kinds: Collection[str]) -> Iterator[pa.RecordBatch]:
    """
    Yield the rows of a file that are of some kinds, by :data:`SEGMENTS`.

    :param folder: URI of the generation's folder.
    :param file: of one metadata partition.
    :param kinds: such as :data:`~airflow_provider_rlmm.features.retention.spark.columns.SEGMENT`.
    :raises SnapshotRefusedError: if the file is not the one that its manifest names.
    """
    wanted = pa.array(sorted(kinds), pa.string())
    try:
        rows = pq.ParquetFile(pa.BufferReader(read_whole(folder, file)))
        if not rows.schema_arrow.equals(SEGMENTS):
            raise SnapshotRefusedError(f"{folder}/{file.name} has other columns than this version writes")
        for batch in rows.iter_batches():
            yield batch.filter(pc.is_in(batch["kind"], value_set=wanted))
    except pa.ArrowException as e:
        raise SnapshotRefusedError(f"{folder}/{file.name} cannot be used ({e})") from e
