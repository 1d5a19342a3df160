# SPDX-License-Identifier: Apache-2.0
"""The records of an archive as Parquet files: those of its whole segments, as a consumer would have read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_rlmm.core.base.errors import ArchiveError
from airflow_provider_rlmm.core.base.file_systems import replacing
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation
from airflow_provider_rlmm.core.segments.record_batches.arrow_columns import SCHEMA
from airflow_provider_rlmm.features.archiving.archive.content import WITH_OFFSETS, WITHOUT_OFFSETS, ContentDigest
from airflow_provider_rlmm.features.archiving.archive.files import describe, reading
from airflow_provider_rlmm.features.archiving.archive.places import records_file
from airflow_provider_rlmm.features.archiving.archive.stream import RecordStream
from airflow_provider_rlmm.features.archiving.archive_manifest import ArchivedFile, ArchivedRecords

ARCHIVE_SCHEMA: Final = SCHEMA.append(pa.field("committed", pa.bool_(), nullable=False))
"""Columns of an archive's Parquet files: ``committed`` tells what a consumer with ``read_committed`` would have read."""

FILE_BYTES: Final = 512 * 2**20
"""About how many bytes of records make a file, before compression."""
ROW_GROUP_BYTES: Final = 32 * 2**20


def archive_records(
    stream: RecordStream, folder_uri: str, name: str, try_id: str, *, transactional: bool
) -> ArchivedRecords:
    """
    Write the records, read them back and compare.

    :param stream: the records.
    :param folder_uri: of the user partition.
    :param name: of the archive.
    :param try_id: of the try.
    :param transactional: whether there may be records of transactions; without them all are committed.
    :raises ArchiveError: if what was written does not read back.
    :raises RemoteLogError: if the records cannot be read.
    :raises OSError: if they cannot be written.
    """
    draft = _Draft()
    committed = _Committed(stream.read(ReadIsolation.READ_COMMITTED)) if transactional else None
    files: list[ArchivedFile] = []
    waiting = draft.taking(stream.read(ReadIsolation.READ_UNCOMMITTED), committed)
    batch = next(waiting, None)
    while batch is not None:
        file = records_file(name, try_id, len(files))
        batch = _write_file(f"{folder_uri}/{file}", batch, waiting)
        files.append(describe(folder_uri, file))
    written = draft.content.hexdigest()
    if (found := _content_of(folder_uri, files)) != written:
        raise ArchiveError(
            f"the records in {folder_uri} do not read back as they were written: their checksum is {found[:12]}…, not "
            f"{written[:12]}…; archive again"
        )
    return draft.described(tuple(files), stream.gaps)


def _write_file(uri: str, batch: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    """Write a file that begins with a batch; return the batch that the next file begins with."""
    written = 0
    following: pa.RecordBatch | None = batch
    with replacing(uri) as file, pq.ParquetWriter(file, ARCHIVE_SCHEMA, compression="zstd") as writer:
        while following is not None and written < FILE_BYTES:
            group, size = [], 0
            while following is not None and size < ROW_GROUP_BYTES:
                group.append(following)
                size += following.nbytes
                following = next(rest, None)
            writer.write_table(pa.Table.from_batches(group, ARCHIVE_SCHEMA))
            written += size
    return following


def _content_of(folder_uri: str, files: list[ArchivedFile]) -> str:
    digest = ContentDigest((*WITH_OFFSETS, "committed"))
    for file in files:
        for batch in batches_of(folder_uri, file):
            digest.update(batch)
    return digest.hexdigest()


def batches_of(folder_uri: str, file: ArchivedFile) -> Iterator[pa.RecordBatch]:
    """
    Yield the records of a Parquet file of an archive, a row group at a time.

    :param folder_uri: of the user partition.
    :param file: which file.
    :raises ArchiveError: if it cannot be read.
    """
    uri = f"{folder_uri}/{file.name}"
    try:
        with reading(uri) as opened:
            parquet = pq.ParquetFile(opened)
            for group in range(parquet.num_row_groups):
                yield from parquet.read_row_group(group).to_batches()
    except (OSError, pa.ArrowException) as e:
        raise ArchiveError(f"{uri} cannot be read: {e}") from e


class _Committed:
    """Tells which records are among those of a second stream, of which both are in order."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._ahead = np.array([], np.int64)

    def among(self, offsets: Any) -> Any:
        while not self._ahead.size or self._ahead[-1] < offsets[-1]:
            if (batch := next(self._batches, None)) is None:
                break
            self._ahead = np.concatenate([self._ahead, np.asarray(batch.column("offset"))])
        found = np.isin(offsets, self._ahead, assume_unique=True)
        self._ahead = self._ahead[self._ahead > offsets[-1]]
        return found


@dataclass(slots=True)
class _Draft:
    """What is known of the records so far."""

    count: int = 0
    committed: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    times_ms: list[int] = field(default_factory=list)
    content: ContentDigest = field(default_factory=lambda: ContentDigest((*WITH_OFFSETS, "committed")))
    restorable: ContentDigest = field(default_factory=lambda: ContentDigest(WITHOUT_OFFSETS))

    def taking(self, batches: Iterator[pa.RecordBatch], committed: _Committed | None) -> Iterator[pa.RecordBatch]:
        """Yield batches with the column ``committed``, and note what is in them."""
        for batch in batches:
            if not batch.num_rows:
                continue
            offsets = np.asarray(batch.column("offset"))
            mask = np.ones(len(offsets), bool) if committed is None else committed.among(offsets)
            self._note(batch, offsets, mask)
            marked = pa.RecordBatch.from_arrays([*batch.columns, pa.array(mask)], schema=ARCHIVE_SCHEMA)
            self.content.update(marked)
            yield marked

    def described(self, files: tuple[ArchivedFile, ...], gaps: tuple[tuple[int, int], ...]) -> ArchivedRecords:
        """Return what was noted."""
        return ArchivedRecords(
            self.count, self.committed, gaps, self.first_offset, self.last_offset, min(self.times_ms, default=None),
            max(self.times_ms, default=None), self.content.hexdigest(), self.restorable.hexdigest(), files,
        )  # fmt: skip

    def _note(self, batch: pa.RecordBatch, offsets: Any, mask: Any) -> None:
        if self.first_offset is None:
            self.first_offset = int(offsets[0])
        if self.last_offset is not None and offsets[0] <= self.last_offset:
            raise ArchiveError(f"the records go back from offset {self.last_offset} to {offsets[0]}")
        self.last_offset = int(offsets[-1])
        self.count += batch.num_rows
        self.committed += int(mask.sum())
        times = pc.min_max(batch.column("timestamp")).as_py()
        self.times_ms = [min([*self.times_ms, times["min"]]), max([*self.times_ms, times["max"]])]
        self.restorable.update(batch if mask.all() else batch.filter(pa.array(mask)))
