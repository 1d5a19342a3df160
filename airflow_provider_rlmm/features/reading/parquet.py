# SPDX-License-Identifier: Apache-2.0
"""Records as Parquet files: each whole or not at all, however long it gets, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_rlmm.core.base.file_systems import replacing
from airflow_provider_rlmm.core.segments.record_batches.arrow_columns import SCHEMA

ROW_GROUP_BYTES: Final = 32 * 2**20
"""About how many bytes of records make a row group, before compression: a writer holds one, and gathers the next one."""


@dataclass(frozen=True, slots=True)
class WrittenRecords:
    """
    What lies in a Parquet file of records.

    :param records: number of records.
    :param bytes: of their columns in memory, before compression.
    :param first_offset: of the first record, ``None`` where there is none.
    :param last_offset: of the last record, ``None`` where there is none.
    :param min_timestamp_ms: the smallest timestamp, ms since the epoch, ``None`` where there is no record.
    :param max_timestamp_ms: the largest timestamp, ms since the epoch, ``None`` where there is no record.
    """

    records: int = 0
    bytes: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    min_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None

    def followed_by(self, later: WrittenRecords) -> WrittenRecords:
        """
        Return what lies in two files together.

        :param later: of records behind these.
        """
        if not later.records or not self.records:
            return later if later.records else self
        mins = [self.min_timestamp_ms, later.min_timestamp_ms]
        maxes = [self.max_timestamp_ms, later.max_timestamp_ms]
        return WrittenRecords(
            self.records + later.records,
            self.bytes + later.bytes,
            self.first_offset,
            later.last_offset,
            min(t for t in mins if t is not None),
            max(t for t in maxes if t is not None),
        )


def write_records(batches: Iterable[pa.RecordBatch], uri: str) -> WrittenRecords:
    """
    Write a Parquet file of records in the place of an older one. One without records has the columns all the same.

    :param batches: of the schema of :meth:`~airflow_provider_rlmm.features.reading.reader.RemoteLogReader.read`, by offset.
    :param uri: of the file; directories are made.
    :raises ConfigurationError: if the URI is not understood.
    :raises OSError: if it cannot be written; an older file is still there, whole.
    """
    written = WrittenRecords()
    waiting, size = list[pa.RecordBatch](), 0
    with (
        replacing(uri) as file,
        pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer,
        _RowGroups(writer) as row_groups,
    ):
        for batch in batches:
            if batch.num_rows:
                waiting.append(batch)
                size += batch.nbytes
                written = written.followed_by(_described(batch))
            if size >= ROW_GROUP_BYTES:
                row_groups.write(waiting)
                waiting, size = [], 0
        row_groups.write(waiting)
    return written


class _RowGroups:
    """
    Writes row groups in another thread: while one is compressed, the records of the next one are read.

    :param writer: of the file; it is closed after this.
    """

    def __init__(self, writer: pq.ParquetWriter) -> None:
        self._writer = writer
        self._thread = ThreadPoolExecutor(1, "rlmm row group")
        self._under_way: Future[None] | None = None

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        """
        Write a row group, once the one before it is written.

        :param batches: its records; none are none.
        :raises OSError: if one could not be written.
        """
        self._finish()
        if batches:
            table = pa.Table.from_batches(batches, SCHEMA)
            self._under_way = self._thread.submit(self._writer.write_table, table)

    def _finish(self) -> None:
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._thread.shutdown()
        if kind is None:
            self._finish()


def _described(batch: pa.RecordBatch) -> WrittenRecords:
    offsets, times = batch.column("offset"), pc.min_max(batch.column("timestamp"))
    return WrittenRecords(
        batch.num_rows,
        batch.nbytes,
        offsets[0].as_py(),
        offsets[-1].as_py(),
        times["min"].as_py(),
        times["max"].as_py(),
    )
