# SPDX-License-Identifier: Apache-2.0
"""The Parquet files of inventories and plans: their form is checked, and only the rows of a page become Python's."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.bounded_parquet import BoundedParquet, as_texts
from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.overview.documents import opened

MAX_ROWS = 1_000
"""Rows of a page, at most."""

_MAX_VALUES = 100_000
"""Values within the lists of a page, such as leader epochs."""

_MAX_TEXT_BYTES = 32 * 2**20
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
def parquet(work_uri: str, *steps: str, schema: pa.Schema, expected: Expected) -> Iterator[BoundedParquet]:
    """
    Open a Parquet file below the work folder, once its form was checked.

    :param work_uri: the work folder.
    :param steps: from there to the file.
    :param schema: that it must have.
    :param expected: what the document that names the file says of it.
    :raises FileNotFoundError: if there is none.
    :raises DocumentError: if it is not the file that is expected, ends in the midst, or is larger than anything that is read.
    """
    what = f"{steps[-1]} of {'/'.join(steps[:-1])}"
    with opened(work_uri, *steps) as file:
        if (size := file.seek(0, 2)) != expected.bytes:
            raise DocumentError(f"{what} has {size} bytes, {expected.bytes} were written")
        found = BoundedParquet.of(what, file, schema)
        if found.rows != expected.rows:
            raise DocumentError(f"{what} has {number_of(found.rows, 'row')}, {expected.rows} were written")
        try:
            yield found
        except (pa.ArrowException, ValueError, LookupError, TypeError) as e:
            raise DocumentError(f"{what} cannot be read ({type(e).__name__})") from e


def rows_with(
    file: BoundedParquet, key: Sequence[tuple[str, Any]], columns: Sequence[str], start: int, rows: int
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
    for number, whole in file.groups_with(key):
        mine = None
        if whole:
            count = file.groups[number].rows
        else:
            mine = _matches(file.read([number], [name for name, _ in key]), key)
            count = len(mine)
        first, last = max(0, start - before), min(count, start + rows - before)
        if first < last:
            group = file.read([number], columns)
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
    :raises DocumentError: if their texts or lists are larger than anything that a page shows.
    """
    for column in table.columns:
        if pa.types.is_list(column.type) and (pc.sum(pc.list_value_length(column)).as_py() or 0) > _MAX_VALUES:
            raise DocumentError(f"rows with lists of more than {_MAX_VALUES} values are asked for")
    return list(as_texts(table, _MAX_TEXT_BYTES).to_pylist())


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
_reading = Lock()


def whole_table(
    work_uri: str, *steps: str, schema: pa.Schema, expected: Expected, columns: Sequence[str] | None = None
) -> pa.Table:
    """
    Return all rows of a file that never changes; it is read once and then kept.

    :param work_uri: the work folder.
    :param steps: from there to the file.
    :param schema: that it must have.
    :param expected: what the document that names the file says of it.
    :param columns: which columns, ``None`` for all.
    :raises FileNotFoundError: if there is none.
    :raises DocumentError: if it is not the file that is expected.
    """
    names = schema.names if columns is None else columns
    # What a file's bytes are names it: one of another name, or one that replaced it, is another table.
    key = (work_uri, *steps, expected.sha256, *names)
    table = _cache.get(key)
    if table is None:
        with opened(work_uri, *steps) as file:
            if hashlib.file_digest(cast("Any", file), "sha256").hexdigest() != expected.sha256:
                raise DocumentError(f"{steps[-1]} of {'/'.join(steps[:-1])} is not the file that was written")
        # One at a time: each may take some hundred megabytes until it is put together.
        with _reading, parquet(work_uri, *steps, schema=schema, expected=expected) as found:
            table = found.read(range(len(found.groups)), names)
            table = table.unify_dictionaries().combine_chunks()
        _cache.put(key, table)
    return table
