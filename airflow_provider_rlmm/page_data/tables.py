# SPDX-License-Identifier: Apache-2.0
"""
Parquet files that others may have written: their form is checked, texts stay dictionaries, and only the rows of a page
become Python's.

A small file may stand for any number of bytes: one text of a megabyte, named by every row. As long as texts are dictionaries
each of them is there once.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_rlmm.errors import DocumentError
from airflow_provider_rlmm.page_data.documents import opened

MAX_ROWS = 1_000
"""Rows of a page, at most."""

MAX_TABLE_BYTES = 512 * 2**20
"""The largest table that is read whole, bytes; as its file says, uncompressed."""

_MAX_CACHED_BYTES = 512 * 2**20


class Rows(NamedTuple):
    """Rows of one page."""

    rows: tuple[Any, ...]  # of the page
    total: int  # of all pages


class Expected(NamedTuple):
    """What is known of a file before it is opened."""

    rows: int  # its rows
    bytes: int  # its size
    sha256: str  # of its bytes; compared where the file is read whole


@contextmanager
def parquet(work_uri: str, *steps: str, schema: pa.Schema, expected: Expected) -> Iterator[pq.ParquetFile]:
    """
    Open a Parquet file below the work folder, once its form was checked.

    :param work_uri: the work folder.
    :param steps: from there to the file.
    :param schema: that it must have.
    :param expected: what the document that names the file says of it.
    :raises FileNotFoundError: if there is none.
    :raises DocumentError: if it is not the file that is expected, or ends in the midst.
    """
    what = f"{steps[-1]} of {'/'.join(steps[:-1])}"
    with opened(work_uri, *steps) as file:
        file.seek(0, 2)
        if file.tell() != expected.bytes:
            raise DocumentError(f"{what} has {file.tell()} bytes, {expected.bytes} were written")
        file.seek(0)
        try:
            source = pa.PythonFile(file, "r")
            metadata = pq.read_metadata(source)
            if metadata.num_rows != expected.rows:
                raise DocumentError(f"{what} has {metadata.num_rows} rows, {expected.rows} were written")
            _check_schema(what, metadata.schema.to_arrow_schema(), schema)
            found = pq.ParquetFile(source, metadata=metadata, read_dictionary=_texts(schema), pre_buffer=False)
            yield found
        except (pa.ArrowException, ValueError, LookupError, TypeError) as e:
            raise DocumentError(f"{what} cannot be read ({type(e).__name__})") from e


def _texts(schema: pa.Schema) -> list[str]:
    return [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_binary(field.type)]


def _check_schema(what: str, found: pa.Schema, schema: pa.Schema) -> None:
    for field in schema:
        if field.name not in found.names:
            raise DocumentError(f"{what} lacks the column {field.name}")
        kind = found.field(field.name).type
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        if plain != field.type:
            raise DocumentError(f"{what}: column {field.name} is {plain}, not {field.type}")


def read_groups(file: pq.ParquetFile, groups: Sequence[int], columns: Sequence[str]) -> pa.Table:
    """
    Read some row groups.

    :param file: the file.
    :param groups: their numbers.
    :param columns: which columns.
    :raises DocumentError: if they are larger than anything that is read at once.
    """
    size = sum(file.metadata.row_group(number).total_byte_size for number in groups)
    if size > MAX_TABLE_BYTES:
        raise DocumentError(f"{size} bytes of a file are asked for, and no page reads more than {MAX_TABLE_BYTES}")
    return file.read_row_groups(list(groups), columns=list(columns), use_threads=False)


def groups_of(file: pq.ParquetFile, key: Sequence[tuple[str, Any]]) -> list[tuple[int, bool]]:
    """
    Return the row groups that can hold rows with a key, and whether all of their rows have it.

    :param file: the file.
    :param key: column and value.
    """
    names = {file.schema.column(number).path: number for number in range(len(file.schema))}
    found = []
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        verdicts = [_holds(group.column(names[name]), value) for name, value in key]
        if all(verdict is not False for verdict in verdicts):
            found.append((number, all(verdict is True for verdict in verdicts)))
    return found


def _holds(column: Any, value: Any) -> bool | None:
    """Tell whether all rows of a chunk have a value (``True``), none (``False``), or nobody knows."""
    statistics = column.statistics
    if statistics is None or not statistics.has_min_max:
        return None
    if value < statistics.min or statistics.max < value:
        return False
    alone = statistics.min == statistics.max and not (statistics.has_null_count and statistics.null_count)
    return True if alone else None


def rows_with(
    file: pq.ParquetFile, key: Sequence[tuple[str, Any]], columns: Sequence[str], start: int, rows: int
) -> tuple[list[dict[str, Any]], int]:
    """
    Return some of the rows with a key, in the order of the file, and how many there are in all.

    :param file: the file.
    :param key: column and value.
    :param columns: which columns.
    :param start: how many are left out before.
    :param rows: how many are returned, at most.
    """
    found: list[dict[str, Any]] = []
    before = 0
    for number, whole in groups_of(file, key):
        mine = None
        if whole:
            count = file.metadata.row_group(number).num_rows
        else:
            mine = _matches(read_groups(file, [number], [name for name, _ in key]), key)
            count = len(mine)
        first, last = max(0, start - before), min(count, start + rows - before)
        if first < last:
            group = read_groups(file, [number], columns)
            group = group if mine is None else group.take(mine)
            found += plain(group.slice(first, last - first))
        before += count
    return found, before


def _matches(table: pa.Table, key: Sequence[tuple[str, Any]]) -> pa.Array:
    wanted = None
    for name, value in key:
        column = table.column(name)
        same = pc.equal(column, pa.scalar(value, _value_type(column.type)))
        wanted = same if wanted is None else pc.and_(wanted, same)
    return pc.indices_nonzero(pc.fill_null(wanted, False))


def _value_type(kind: Any) -> Any:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def plain(table: pa.Table) -> list[dict[str, Any]]:
    """
    Return rows as Python values.

    :param table: a page of rows.
    """
    return list(table.to_pylist())


class _Cache:
    """Whole tables of the newest generations: as much of them as fits, the one that was asked for last stays longest."""

    def __init__(self) -> None:
        self._tables: OrderedDict[tuple[str, ...], pa.Table] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[str, ...]) -> pa.Table | None:
        with self._lock:
            table = self._tables.get(key)
            if table is not None:
                self._tables.move_to_end(key)
            return table

    def put(self, key: tuple[str, ...], table: pa.Table) -> None:
        with self._lock:
            self._tables[key] = table
            self._tables.move_to_end(key)
            while len(self._tables) > 1 and sum(t.nbytes for t in self._tables.values()) > _MAX_CACHED_BYTES:
                self._tables.popitem(last=False)


_cache = _Cache()


def whole_table(work_uri: str, *steps: str, schema: pa.Schema, expected: Expected) -> pa.Table:
    """
    Return a file that never changes, whole; it is read once and then kept.

    :param work_uri: the work folder.
    :param steps: from there to the file.
    :param schema: that it must have.
    :param expected: what the document that names the file says of it.
    :raises FileNotFoundError: if there is none.
    :raises DocumentError: if it is not the file that is expected.
    """
    # What a file's bytes are names it: one of another name, or one that replaced it, is another table.
    key = (work_uri, *steps, expected.sha256)
    table = _cache.get(key)
    if table is None:
        with opened(work_uri, *steps) as file:
            if hashlib.file_digest(cast("Any", file), "sha256").hexdigest() != expected.sha256:
                raise DocumentError(f"{steps[-1]} of {'/'.join(steps[:-1])} is not the file that was written")
        with parquet(work_uri, *steps, schema=schema, expected=expected) as found:
            table = read_groups(found, range(found.metadata.num_row_groups), schema.names)
            table = table.unify_dictionaries().combine_chunks()
        _cache.put(key, table)
    return table
