# SPDX-License-Identifier: Apache-2.0
"""What remembers the offsets that restored records had: a header of each, and a Parquet file of all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_rlmm.core.base.errors import RestoreError
from airflow_provider_rlmm.core.base.file_systems import replacing
from airflow_provider_rlmm.features.archiving.restore_rules import OFFSET_HEADER

RUNS: Final = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("source_offset", pa.int64(), nullable=False),
        pa.field("new_offset", pa.int64(), nullable=False),
        pa.field("records", pa.int64(), nullable=False),
    ]
)
"""One row for each run of records whose offsets follow each other in both topics."""

_ROWS: Final = 100_000


def first_with_header(batch: pa.RecordBatch) -> int | None:
    """
    Return the offset of the first record that has a header of the fixed name, ``None`` where none has.

    :param batch: records.
    """
    headers = batch.column("headers")
    named = np.flatnonzero(np.asarray(pc.equal(headers.flatten().field("key"), OFFSET_HEADER).fill_null(False)))
    if not named.size:
        return None
    return int(batch.column("offset")[int(pc.list_parent_indices(headers)[int(named[0])].as_py())].as_py())


def with_header(batch: pa.RecordBatch) -> pa.RecordBatch:
    """
    Return the records, each with its offset in a further header, the last one.

    :param batch: records.
    """
    headers = batch.column("headers")
    ends, entries = np.cumsum(_lengths(headers)), headers.flatten()
    offsets = pc.cast(pc.cast(batch.column("offset"), pa.string()), pa.binary())
    kind = entries.type
    added = pa.StructArray.from_arrays(
        [pa.array([OFFSET_HEADER] * batch.num_rows, kind.field("key").type), offsets.cast(kind.field("value").type)],
        fields=list(kind),
    )
    order = np.insert(np.arange(len(entries)), ends, len(entries) + np.arange(batch.num_rows))
    together = pa.concat_arrays([entries, added]).take(pa.array(order))
    return _with_headers(batch, ends + np.arange(1, batch.num_rows + 1), together)


def without_header(batch: pa.RecordBatch) -> pa.RecordBatch:
    """
    Return the records as they were, with the offsets that their last headers name.

    :param batch: records as they are read back.
    :raises RestoreError: if a record has no such header.
    """
    headers = batch.column("headers")
    lengths, entries = _lengths(headers), headers.flatten()
    ends = np.cumsum(lengths)
    if not lengths.all():
        raise RestoreError(
            f"a record that was read back has no header {OFFSET_HEADER}: another producer has written it"
        )
    last = entries.take(pa.array(ends - 1))
    texts = last.field("value").to_pylist()
    if set(last.field("key").to_pylist()) - {OFFSET_HEADER} or not all(text and text.isdigit() for text in texts):
        raise RestoreError(
            f"a record that was read back has no header {OFFSET_HEADER}: another producer has written it"
        )
    kept = np.ones(len(entries), bool)
    kept[ends - 1] = False
    stripped = _with_headers(batch, ends - np.arange(1, batch.num_rows + 1), entries.filter(pa.array(kept)))
    place = batch.schema.get_field_index("offset")
    return stripped.set_column(place, batch.schema.field(place), pa.array([int(text) for text in texts], pa.int64()))


def _lengths(headers: Any) -> Any:
    return np.asarray(pc.list_value_length(headers)).astype("i8")


def _with_headers(batch: pa.RecordBatch, ends: Any, entries: Any) -> pa.RecordBatch:
    place = batch.schema.get_field_index("headers")
    offsets = pa.array(np.concatenate([[0], ends]).astype("i4"))
    field = batch.schema.field(place)
    return batch.set_column(place, field, pa.ListArray.from_arrays(offsets, entries).cast(field.type))


@contextmanager
def writing_runs(uri: str) -> Iterator[OffsetRuns]:
    """
    Write a Parquet file of which offset became which, whole or not at all.

    :param uri: of the file; an older one is replaced.
    :raises OSError: if it cannot be written.
    """
    with replacing(uri) as file, pq.ParquetWriter(file, RUNS, compression="zstd") as writer:
        runs = OffsetRuns(writer)
        yield runs
        runs.flush()


class OffsetRuns:
    """
    Writes which offset became which, as runs.

    :param writer: of a Parquet file of the schema :data:`RUNS`.
    """

    def __init__(self, writer: pq.ParquetWriter) -> None:
        self._writer = writer
        self._rows: list[tuple[int, int, int, int]] = []

    def following(self, partition: int, begin: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """
        Yield records on, and write down what becomes of their offsets.

        :param partition: the user partition.
        :param begin: the offset that its first record gets.
        :param batches: all its records, in order.
        """
        run: tuple[int, int, int] | None = None  # offset in the source, in the new topic, records
        new = begin
        for batch in batches:
            offsets = np.asarray(batch.column("offset"))
            starts = np.flatnonzero(np.diff(offsets, prepend=-2) != 1)
            for start, end in pairwise([*starts.tolist(), offsets.size]):
                old, count = int(offsets[start]), end - start
                if run is not None and run[0] + run[2] == old:
                    run = (run[0], run[1], run[2] + count)
                else:
                    self._add(partition, run)
                    run = (old, new + start, count)
            new += offsets.size
            yield batch
        self._add(partition, run)

    def _add(self, partition: int, run: tuple[int, int, int] | None) -> None:
        if run is not None:
            self._rows.append((partition, *run))
        if len(self._rows) >= _ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered."""
        if self._rows:
            columns = [
                pa.array(column, field.type) for column, field in zip(zip(*self._rows, strict=True), RUNS, strict=True)
            ]
            self._writer.write_table(pa.Table.from_arrays(columns, schema=RUNS))
            self._rows = []
