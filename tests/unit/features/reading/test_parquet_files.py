# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.segments.record_batches.arrow_columns import SCHEMA
from airflow_provider_rlmm.features.reading import parquet
from airflow_provider_rlmm.features.reading.parquet import write_records

BATCHES = 5


def batch(number: int) -> pa.RecordBatch:
    row = {"offset": number, "timestamp": 10 * number, "key": None, "value": b"x" * 1000, "headers": []}
    return pa.RecordBatch.from_pylist([row], schema=SCHEMA)


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 1500)
    return tmp_path / "records.parquet"


def test_records_lie_in_row_groups_in_their_order(file: Path) -> None:
    written = write_records(map(batch, range(BATCHES)), file.as_uri())
    assert (written.records, written.first_offset, written.last_offset) == (BATCHES, 0, BATCHES - 1)
    assert pq.read_table(file) == pa.Table.from_batches(map(batch, range(BATCHES)))
    assert pq.ParquetFile(file).num_row_groups == 3


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_row_group_that_cannot_be_written_is_an_error_and_leaves_the_older_file(
    file: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    write_records([batch(77)], file.as_uri())
    write_table, tries = pq.ParquetWriter.write_table, list[int]()

    def fail(self: pq.ParquetWriter, table: pa.Table) -> None:
        tries.append(len(tries) + 1)
        if tries[-1] == failing:
            raise OSError("no room left")
        write_table(self, table)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fail)
    with pytest.raises(OSError, match="no room left"):
        write_records(map(batch, range(BATCHES)), file.as_uri())
    assert pq.read_table(file)["offset"].to_pylist() == [77]
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_what_ends_the_read_ends_the_write(file: Path) -> None:
    def broken() -> Any:
        yield from map(batch, range(3))
        raise ValueError("the read failed")

    with pytest.raises(ValueError, match="the read failed"):
        write_records(broken(), file.as_uri())
    assert list(file.parent.iterdir()) == []
