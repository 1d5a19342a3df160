# SPDX-License-Identifier: Apache-2.0
"""Rows on the local disk: those that were written, in their order, however they came."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base import spool
from airflow_provider_rlmm.core.base.errors import RoomError
from airflow_provider_rlmm.core.base.spool import OrderedSpool, Spool

SCHEMA = pa.schema({"key": pa.string(), "number": pa.int64()})


def rows(keys: list[str], first: int = 0) -> pa.Table:
    return pa.table({"key": keys, "number": range(first, first + len(keys))}, schema=SCHEMA)


@pytest.mark.parametrize("in_memory", [0, 10**6])
def test_rows_are_read_as_often_as_they_are_asked_for(monkeypatch: pytest.MonkeyPatch, in_memory: int) -> None:
    monkeypatch.setattr(spool, "_IN_MEMORY", in_memory)
    written = Spool(SCHEMA)
    parts = [rows(["b", "a"]), rows([]), rows(["c"], 2)]
    for part in parts:
        written.append(part)
    assert (written.rows, written.parts) == (3, 2)
    for _ in range(2):
        assert [table.to_pylist() for table in written.tables()] == [parts[0].to_pylist(), parts[2].to_pylist()]


def test_a_spool_without_rows_has_none() -> None:
    assert list(Spool(SCHEMA).tables()) == list(OrderedSpool(SCHEMA, "key").tables()) == []


def test_the_file_is_gone_with_the_spool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(spool, "_IN_MEMORY", 0)
    monkeypatch.setattr(spool, "temporary_folder", lambda: str(tmp_path))
    written = Spool(SCHEMA)
    written.append(rows(["a"]))
    descriptor = written._file.fileno()  # type: ignore[union-attr]
    assert list(tmp_path.iterdir()) == []
    del written
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_full_disk_is_said_before_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_IN_MEMORY", 0)
    monkeypatch.setattr(spool, "free_disk", lambda _: spool.KEPT_FREE)
    with pytest.raises(RoomError, match=r"2 rows take 0 B of it so far; make room there, or set TMPDIR"):
        Spool(SCHEMA).append(rows(["a", "b"]))


def test_an_error_of_the_disk_that_is_full_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_IN_MEMORY", 0)

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spool.tempfile, "TemporaryFile", full)
    with pytest.raises(RoomError, match="set TMPDIR"):
        Spool(SCHEMA).append(rows(["a"]))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.text("abc", max_size=4), max_size=12), max_size=12),
    st.integers(1, 9),
    st.integers(1, 20),
    st.none() | st.integers(1, 9),
)
def test_rows_come_in_the_order_of_their_keys(
    parts: list[list[str]], bucket: int, at_once: int, together: int | None
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        for name, value in {
            "_IN_MEMORY": 200,
            "_SAMPLED": 2,
            "_BUCKET_ROWS": 2 * bucket,
            "SPOOLED_ROWS": at_once,
        }.items():
            patched.setattr(spool, name, value)
        written, first = OrderedSpool(SCHEMA, "key", together), 0
        for part in parts:
            written.append(rows(part, first))
            first += len(part)
        read = [row for table in written.tables() for row in table.to_pylist()]
    everything = [key for part in parts for key in part]
    assert written.rows == len(read) == len(everything)
    assert [row["key"] for row in read] == sorted(everything)
    assert {row["number"]: row["key"] for row in read} == dict(enumerate(everything))


def test_no_more_rows_are_ordered_together_than_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_BUCKET_ROWS": 100, "_SAMPLED": 1, "SPOOLED_ROWS": 10}.items():
        monkeypatch.setattr(spool, name, value)
    for together, most in ((None, 100), (10, 10)):
        written = OrderedSpool(SCHEMA, "key", together)
        for first in range(10):
            written.append(rows([f"{first + 10 * number:03}" for number in range(10)]))
        assert max(table.num_rows for table in written.tables()) == most


def test_rows_that_came_in_order_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_BUCKET_ROWS", 2)
    monkeypatch.setattr(spool, "_SAMPLED", 1)
    monkeypatch.setattr(spool, "SPOOLED_ROWS", 2)
    read: list[int] = []
    part = Spool.part

    def counted(self: Spool, number: int) -> pa.Table:
        read.append(number)
        return part(self, number)

    monkeypatch.setattr(Spool, "part", counted)
    written = OrderedSpool(SCHEMA, "key")
    for keys in (["e", "f"], ["a", "b"], ["c", "d"]):
        written.append(rows(keys))
    assert [row["key"] for table in written.tables() for row in table.to_pylist()] == list("abcdef")
    assert read == [1, 2, 0]


def test_few_rows_at_a_time_make_few_parts() -> None:
    written = OrderedSpool(SCHEMA, "key")
    for number in range(100):
        written.append(rows([str(number)], number))
    assert written.rows == 100
    (table,) = written.tables()
    assert table.column("key").to_pylist() == sorted(map(str, range(100)))
