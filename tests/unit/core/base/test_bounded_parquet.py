# SPDX-License-Identifier: Apache-2.0
"""Parquet within bounds: what an honest file holds is read, and whatever else a file says is refused or cut."""

from __future__ import annotations

from functools import cache
from io import BytesIO
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.base import bounded_parquet
from airflow_provider_rlmm.core.base.bounded_parquet import MAX_TEXT, BoundedParquet, as_texts
from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.base.parquet_pages import pages_of

ROWS = 50_000
SCHEMA = pa.schema([("id", pa.binary()), ("name", pa.string()), ("number", pa.int64()), ("flag", pa.bool_())])


@cache
def table(rows: int = ROWS) -> pa.Table:
    ids = [number.to_bytes(16) for number in range(rows)]
    names = [None if number % 7 == 0 else f"name {number % 100}" for number in range(rows)]
    flags = [number % 3 == 0 for number in range(rows)]
    return pa.table([ids, names, range(rows), flags], SCHEMA)


def written(rows: pa.Table, **options: Any) -> BytesIO:
    file = BytesIO()
    pq.write_table(rows, file, **options)
    return file


def opened(file: BytesIO, schema: pa.Schema = SCHEMA) -> BoundedParquet:
    return BoundedParquet.of("it", file, schema)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {}, {"row_group_size": 20_000}, {"compression": "zstd"}, {"compression": "none", "use_dictionary": False},
        {"data_page_version": "2.0"}, {"data_page_size": 1_000}, {"write_statistics": False}, {"store_schema": False},
        {"write_page_checksum": True},
    ],
)  # fmt: skip
def test_an_honest_file_is_read_as_it_was_written(options: dict[str, Any]) -> None:
    file = opened(written(table(), **options))
    groups = range(len(file.groups))
    assert as_texts(file.read(groups, SCHEMA.names), 10**8).cast(SCHEMA).equals(table())
    slices = [as_texts(rows, 10**8).cast(SCHEMA) for rows in file.slices(groups, SCHEMA.names, 7_000)]
    assert max(rows.num_rows for rows in slices) <= 7_000
    assert pa.concat_tables(slices).equals(table())


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_the_headers_of_pages_say_what_the_footer_sums_up(version: str) -> None:
    file = written(table(), data_page_version=version, data_page_size=10_000)
    chunk = pq.read_metadata(file).row_group(0).column(2)
    pages = list(pages_of(file, opened(file).groups[0].chunks[2]))
    assert len(pages) > 3
    dictionary = 1 if chunk.has_dictionary_page else 0
    assert sum(page.values for page in pages[dictionary:]) == ROWS
    assert sum(page.uncompressed_bytes for page in pages) < chunk.total_uncompressed_size


def test_row_groups_are_found_by_what_the_footer_says_of_their_values() -> None:
    file = opened(written(table(300), row_group_size=100))
    assert file.rows == 300
    assert file.groups_with([("number", 150)]) == [(1, False)]
    assert file.groups_with([("id", (250).to_bytes(16))]) == [(2, False)]
    assert file.groups_with([("number", 300)]) == []
    same = opened(
        written(pa.table({"number": [5] * 10, "name": ["a"] * 9 + [None]})), pa.schema([("number", pa.int64())])
    )
    assert same.groups_with([("number", 5)]) == [(0, True)]
    assert same.groups_with([("number", 5), ("name", b"a")]) == [(0, False)]
    unknown = opened(written(table(300), row_group_size=100, write_statistics=False))
    assert unknown.groups_with([("number", 150)]) == [(0, False), (1, False), (2, False)]


@pytest.mark.parametrize("options", [{"column_encoding": {"name": "DELTA_BYTE_ARRAY"}, "use_dictionary": False}])
def test_encodings_in_which_a_text_repeats_another_are_refused(options: dict[str, Any]) -> None:
    file = opened(written(table(), **options))
    with pytest.raises(DocumentError, match="it cannot be read"):
        file.read([0], ["name"])
    with pytest.raises(DocumentError, match="it cannot be read"):
        list(file.slices([0], ["name"]))
    assert file.read([0], ["number"]).num_rows == ROWS


def test_more_than_is_read_at_once_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    file = opened(written(table()))
    monkeypatch.setattr(bounded_parquet, "MAX_READ_BYTES", 100_000)
    with pytest.raises(DocumentError, match="no page reads more than 100000"):
        file.read([0], ["number"])
    monkeypatch.setattr(bounded_parquet, "MAX_PAGE_BYTES", 100)
    with pytest.raises(DocumentError, match="it has a page of"):
        list(file.slices([0], ["name"]))


def test_long_texts_are_cut_and_their_sum_is_bounded() -> None:
    schema = pa.schema([("name", pa.string())])
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 1_000, pa.int32()), pa.array(["é" * 2**20]))
    rows = opened(written(pa.table({"name": texts}), store_schema=False), schema).read([0], ["name"])
    assert as_texts(rows, 10**8).column("name").to_pylist() == ["é" * MAX_TEXT] * 1_000
    with pytest.raises(DocumentError, match="no page shows more than"):
        as_texts(rows, 10**6)


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"", "no Parquet"), (b"PAR1", "no Parquet"), (b"x" * 99, "no Parquet"), (b"\xff\xff\xff\x7fPAR1", "a footer of")],
)
def test_what_is_no_parquet_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(DocumentError, match=words):
        opened(BytesIO(data))


def test_another_column_or_type_is_refused() -> None:
    file = written(table(10))
    with pytest.raises(DocumentError, match="lacks the column no"):
        opened(file, pa.schema([("no", pa.string())]))
    with pytest.raises(DocumentError, match="column number is int64, not string"):
        opened(file, pa.schema([("number", pa.string())]))


@pytest.mark.slow
def test_whatever_a_damaged_file_says_it_is_read_or_refused() -> None:
    data, random = written(table(500), row_group_size=100).getvalue(), Random(27)
    outcomes = set()
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(random.randint(1, 8)):
            damaged[random.randrange(len(data))] = random.randrange(256)
        try:
            file = opened(BytesIO(bytes(damaged)))
            read = file.read(range(len(file.groups)), SCHEMA.names)
            outcomes.add(as_texts(read, 10**6).num_rows >= 0)
        except DocumentError:
            outcomes.add(False)
    assert outcomes == {True, False}
