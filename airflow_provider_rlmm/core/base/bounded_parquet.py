# SPDX-License-Identifier: Apache-2.0
"""
Parquet files that others may have written, read within bounds.

A few kilobytes may stand for any number of bytes: a text of a megabyte that every row names, a page of zeros, a run of 2^31
values. What a footer says of all this may be a lie, so the header of each page is read before the first page is: it is what
the reader of Arrow goes by. Texts stay dictionaries, are cut there, and become texts only where their sum is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_rlmm.core.base.arrow_arrays import scalar_of
from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.base.parquet_pages import Chunk, Page, RowGroup, pages_of, row_groups_of

MAX_FOOTER_BYTES: Final = 16 * 2**20
"""A footer has some 150 bytes for each column of each row group."""

MAX_PAGE_BYTES: Final = 32 * 2**20
"""The largest page, bytes, uncompressed: writers end a page at one megabyte."""

MAX_READ_BYTES: Final = 256 * 2**20
"""What is read at once, decoded, at most."""

MAX_TEXT: Final = 4_096
"""Characters of a text; what is longer is cut. Kafka's longest name has 249."""

SLICE_ROWS: Final = 20_000
"""Rows that are read at a time where a file is read in slices, and of a row group of the files that this package writes."""

_MAX_BINARY: Final = 64
_FOOTER_ENDS: Final = 8
_MAGIC: Final = b"PAR1"
# Of a value in memory; a text is a number in a dictionary, which is counted with its pages.
_WIDTHS: Final = {0: 1, 1: 4, 2: 8, 4: 4, 5: 8, 6: 8}  # by physical type
_TEXT: Final = 6
_LEVELS: Final = 8
_UNREADABLE: Final = (pa.ArrowException, ValueError, LookupError, TypeError, AttributeError, OSError)


@dataclass(frozen=True, slots=True)
class BoundedParquet:
    """
    A Parquet file whose columns are those that are expected.

    :param what: it is, for messages.
    :param file: its bytes.
    :param parquet: the same, opened.
    :param columns: the name of the column of each chunk of a row group.
    :param groups: its row groups.
    """

    what: str
    file: IO[bytes]
    parquet: pq.ParquetFile
    columns: tuple[str, ...]
    groups: tuple[RowGroup, ...]

    @classmethod
    def of(cls, what: str, file: IO[bytes], schema: pa.Schema) -> BoundedParquet:
        """
        Open a file.

        :param what: it is, for messages.
        :param file: its bytes; it can seek.
        :param schema: columns that it must have, with their types. Others are never read.
        :raises DocumentError: if it is no Parquet file, or another one.
        """
        try:
            row_groups = row_groups_of(_footer(what, file))
            source = pa.PythonFile(file, "r")
            metadata = pq.read_metadata(source)
            if {len(group.chunks) for group in row_groups} - {metadata.num_columns}:
                raise DocumentError(f"{what} has row groups of other columns")
            _check_schema(what, metadata.schema.to_arrow_schema(), schema)
            parquet = pq.ParquetFile(source, metadata=metadata, read_dictionary=_texts(schema), pre_buffer=False)
        except _UNREADABLE as e:
            raise _unreadable(what, e) from e
        columns = tuple(parquet.schema.column(number).path.partition(".")[0] for number in range(metadata.num_columns))
        return cls(what, file, parquet, columns, tuple(row_groups))

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(group.rows for group in self.groups)

    def read(self, groups: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """
        Read row groups; texts are dictionaries.

        :raises DocumentError: if they cannot be read, or would be larger than :data:`MAX_READ_BYTES`.
        """
        try:
            size = sum(self._decoded_bytes(group, columns) for group in groups)
            if size > MAX_READ_BYTES:
                raise DocumentError(f"{self.what} holds {size} bytes, and no page reads more than {MAX_READ_BYTES}")
            return _cut(self.parquet.read_row_groups(list(groups), columns=list(columns), use_threads=False))
        except _UNREADABLE as e:
            raise _unreadable(self.what, e) from e

    def slices(self, groups: Sequence[int], columns: Sequence[str], rows: int = SLICE_ROWS) -> Iterator[pa.Table]:
        """
        Read row groups in slices; texts are dictionaries, each slice has its own.

        :param groups: their numbers.
        :param columns: which columns; none is a list.
        :param rows: of a slice, at most.
        :raises DocumentError: if they cannot be read.
        """
        try:
            for group in groups:
                for _ in self._pages(group, columns):
                    pass
                batches = self.parquet.iter_batches(rows, row_groups=[group], columns=list(columns), use_threads=False)
                for batch in batches:
                    yield _cut(pa.Table.from_batches([batch]))
        except _UNREADABLE as e:
            raise _unreadable(self.what, e) from e

    def groups_with(self, key: Sequence[tuple[str, Any]]) -> list[tuple[int, bool]]:
        """
        Return the row groups that can hold rows with a key, and whether all of their rows have it.

        :param key: column and value.
        """
        found = []
        for number, group in enumerate(self.groups):
            verdicts = [_holds(group.chunks[self.columns.index(name)], value) for name, value in key]
            if all(verdict is not False for verdict in verdicts):
                found.append((number, all(verdict is True for verdict in verdicts)))
        return found

    def _decoded_bytes(self, group: int, columns: Sequence[str]) -> int:
        return sum(page.values * width + kept for page, width, kept in self._pages(group, columns))

    def _pages(self, group: int, columns: Sequence[str]) -> Iterator[tuple[Page, int, int]]:
        """Yield each page, the bytes of each of its values in memory, and how many of its own bytes stay there."""
        for name, chunk in zip(self.columns, self.groups[group].chunks, strict=True):
            if name not in columns:
                continue
            width = _WIDTHS.get(chunk.kind, MAX_READ_BYTES) + _LEVELS
            for page in pages_of(self.file, chunk):
                if page.uncompressed_bytes > MAX_PAGE_BYTES:
                    raise DocumentError(f"{self.what} has a page of {page.uncompressed_bytes} bytes")
                yield page, width, page.uncompressed_bytes if chunk.kind == _TEXT else 0


def as_texts(table: pa.Table, max_bytes: int) -> pa.Table:
    """
    Return a table with texts in the place of dictionaries.

    :param table: of a :class:`BoundedParquet`.
    :param max_bytes: of all texts together, counted before they are made.
    :raises DocumentError: if they are larger.
    """
    dictionaries = [name for name in table.column_names if pa.types.is_dictionary(table.schema.field(name).type)]
    size = sum(_text_bytes(chunk) for name in dictionaries for chunk in table.column(name).chunks)
    if size > max_bytes:
        raise DocumentError(f"rows with {size} bytes of text are asked for, and no page shows more than {max_bytes}")
    fields = [f.with_type(f.type.value_type) if f.name in dictionaries else f for f in table.schema]
    return table.cast(pa.schema(fields))


def _text_bytes(chunk: Any) -> int:
    return pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0


def _footer(what: str, file: IO[bytes]) -> bytes:
    size = file.seek(0, 2)
    file.seek(max(0, size - _FOOTER_ENDS))
    end = file.read(_FOOTER_ENDS)
    if len(end) != _FOOTER_ENDS or end[4:] != _MAGIC:
        raise DocumentError(f"{what} is no Parquet file")
    if (length := int.from_bytes(end[:4], "little")) > min(MAX_FOOTER_BYTES, size - _FOOTER_ENDS):
        raise DocumentError(f"{what} has a footer of {length} bytes")
    file.seek(size - _FOOTER_ENDS - length)
    footer = file.read(length)
    file.seek(0)
    return footer


def _check_schema(what: str, found: pa.Schema, schema: pa.Schema) -> None:
    for field in schema:
        if found.names.count(field.name) != 1:
            raise DocumentError(f"{what} lacks the column {field.name}")
        kind = found.field(field.name).type
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        if plain != field.type:
            raise DocumentError(f"{what}: column {field.name} is {plain}, not {field.type}")


def _texts(schema: pa.Schema) -> list[str]:
    return [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_binary(field.type)]


def _cut(table: pa.Table) -> pa.Table:
    for number, name in enumerate(table.column_names):
        column = table.column(name)
        if pa.types.is_dictionary(column.type):
            chunks = [pa.DictionaryArray.from_arrays(c.indices, _short(c.dictionary)) for c in column.chunks]
            table = table.set_column(number, name, pa.chunked_array(chunks, column.type))
    return table


def _short(texts: Any) -> Any:
    """Return texts none of which is longer than anything that a page shows."""
    texts.validate(full=True)
    if pa.types.is_binary(texts.type):
        long = pc.any(pc.greater(pc.binary_length(texts), scalar_of(_MAX_BINARY, pa.int32()))).as_py()
        return pc.binary_slice(texts, 0, _MAX_BINARY) if long else texts
    long = pc.any(pc.greater(pc.binary_length(texts), scalar_of(MAX_TEXT, pa.int32()))).as_py()
    return pc.utf8_slice_codeunits(texts, 0, MAX_TEXT) if long else texts


def _holds(chunk: Chunk, value: Any) -> bool | None:
    """Tell whether all rows of a chunk have a value (``True``), none (``False``), or that is not known."""
    if chunk.lowest is None or chunk.highest is None:
        return None
    if value < chunk.lowest or chunk.highest < value:
        return False
    return True if chunk.lowest == chunk.highest and not chunk.has_nulls else None


def _unreadable(what: str, error: BaseException) -> BaseException:
    # A file that is gone meanwhile is looked for elsewhere.
    if isinstance(error, FileNotFoundError):
        return error
    return DocumentError(f"{what} cannot be read ({type(error).__name__})")
