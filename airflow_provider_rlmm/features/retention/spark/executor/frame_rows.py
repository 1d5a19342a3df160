# SPDX-License-Identifier: Apache-2.0
"""What a task does for a DataFrame of people's own jobs: decode records, or tell the segments of a generation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_rlmm.core.base.errors import SnapshotRefusedError
from airflow_provider_rlmm.core.generations.files import read_whole
from airflow_provider_rlmm.core.generations.folding import Folding
from airflow_provider_rlmm.core.generations.manifest import GenerationFile, NumberedPart
from airflow_provider_rlmm.core.records.columnar import decode
from airflow_provider_rlmm.core.records.fold.living import LivingSegments
from airflow_provider_rlmm.features.retention.spark.columns import EVENT_COLUMNS, SEGMENT, SEGMENT_COLUMNS, arrow_schema
from airflow_provider_rlmm.features.retention.spark.executor.rows import ROWS_AT_ONCE, as_listed

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


def segment_rows(
    folder: str, numbered: NumberedPart, num_partitions: int, kinds: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """
    Yield the rows of a metadata partition that are of some kinds, by :data:`SEGMENTS`.

    :param folder: URI of the folder that the names of its files are below.
    :param numbered: the metadata partition, and what is known of it.
    :param num_partitions: how many metadata partitions the topic has.
    :param kinds: such as :data:`~airflow_provider_rlmm.features.retention.spark.columns.SEGMENT`.
    :raises SnapshotRefusedError: if a file is not the one that its manifest names.
    """
    number, part = numbered
    if part.rows is None:
        return
    written = _written(folder, part.rows)
    for kind in kinds:
        found = written.filter(pc.equal(written["kind"], kind))
        if kind == SEGMENT:
            # Of what goes without saying there is no row, but in the state.
            yield from _with_the_others(Folding(number, num_partitions, part, folder).state.living(), found)
        else:
            yield from found.to_batches()


def _written(folder: str, file: GenerationFile) -> pa.Table:
    try:
        rows = pq.read_table(pa.BufferReader(read_whole(folder, file)))
    except pa.ArrowException as e:
        raise SnapshotRefusedError(f"{folder}/{file.name} cannot be used ({e})") from e
    if not rows.schema.equals(SEGMENTS):
        raise SnapshotRefusedError(f"{folder}/{file.name} has other columns than this version writes")
    return rows


def _with_the_others(segments: LivingSegments, written: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield rows of all segments, in their order; those that have a row as it was written."""
    keys, seen = _keys(written), 0
    for start in range(0, segments.size, ROWS_AT_ONCE):
        table = segments.table(slice(start, start + ROWS_AT_ONCE), SEGMENTS.names)
        # Both are in one order, so what is looked for is among the next ones.
        has_row = pc.is_in(_keys(table), value_set=keys.slice(seen, table.num_rows)).to_numpy(zero_copy_only=False)
        count = int(has_row.sum())
        rows = pa.concat_tables([written.slice(seen, count), as_listed(table.filter(pa.array(~has_row)))])
        places = np.where(has_row, np.cumsum(has_row) - 1, count + np.cumsum(~has_row) - 1)
        yield from rows.take(pa.array(places)).to_batches()
        seen += count
    if seen != written.num_rows:
        raise SnapshotRefusedError("the rows of a generation name segments that its state does not have")


def _keys(table: pa.Table) -> pa.Array:
    """Return what tells the segments of a metadata partition apart, as bytes: ids are of one length, numbers end at a dot."""
    parts = [table["topic_id"], table["segment_id"], table["partition"].cast(pa.string()), table["topic"]]
    first, *rest = (column.cast(pa.binary()).combine_chunks() for column in parts)
    return pc.binary_join_element_wise(first, *rest, b".")
