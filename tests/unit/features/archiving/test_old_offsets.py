# SPDX-License-Identifier: Apache-2.0
"""The offsets that restored records had: in a header where that is asked for, and in a Parquet file always."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.base.errors import RestoreError
from airflow_provider_rlmm.core.segments.record_batches.arrow_columns import SCHEMA
from airflow_provider_rlmm.features.archiving import restore_effects
from airflow_provider_rlmm.features.archiving.archive.old_offsets import (
    first_with_header,
    with_header,
    without_header,
    writing_runs,
)
from airflow_provider_rlmm.features.archiving.restore_progress import at_rest
from airflow_provider_rlmm.features.archiving.restore_rules import OFFSET_HEADER, OFFSET_HEADER_BYTES
from tests.catalogued import CataloguedTopic, files_of
from tests.kafka_log import Batch, Record
from tests.restoring import FakeTopic, Killed
from tests.tiered_orders import record
from tests.unit.features.archiving.test_restoring_catalogues import into, restored, source

__all__ = ["into", "source"]


def header(offset: int) -> dict[str, object]:
    return {"key": OFFSET_HEADER, "value": str(offset).encode()}


def batch_of(*headers: list[dict[str, object]]) -> pa.RecordBatch:
    rows = [
        {"offset": 7 * n, "timestamp": n, "key": None, "value": b"v", "headers": given}
        for n, given in enumerate(headers)
    ]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


HEADERS: list[list[dict[str, object]]] = [
    [], [{"key": "a", "value": b"1"}, {"key": "a", "value": None}], [], [{"key": "ä", "value": b""}],
]  # fmt: skip


def test_a_header_is_added_behind_all_others_and_taken_off_again() -> None:
    batch = batch_of(*HEADERS)
    added = with_header(batch)
    assert added.schema == batch.schema
    found = [row["headers"] for row in added.to_pylist()]
    assert found == [[*given, header(7 * n)] for n, given in enumerate(HEADERS)]
    assert without_header(added).equals(batch)
    sliced = batch.slice(1, 2)
    assert without_header(with_header(sliced)).to_pylist() == sliced.to_pylist()
    assert with_header(batch.slice(0, 0)).num_rows == without_header(added.slice(0, 0)).num_rows == 0


@pytest.mark.parametrize("last", [[], [{"key": "other", "value": b"1"}], [{"key": OFFSET_HEADER, "value": b"x"}]])
def test_a_record_without_it_is_of_somebody_else(last: list[dict[str, object]]) -> None:
    with pytest.raises(RestoreError, match="another producer has written it"):
        without_header(batch_of([header(0)], last))


def test_the_first_record_that_has_it_is_found() -> None:
    assert first_with_header(batch_of(*HEADERS)) is None
    assert first_with_header(batch_of(*HEADERS, [*HEADERS[1], header(3)], [header(4)])) == 28


def test_records_say_which_offset_they_had(source: CataloguedTopic, into: FakeTopic) -> None:
    report = restored(source, offset_header=True)
    plain = [record(offset).as_row() for offset in range(10, 100)]
    assert into.rows == [{**row, "headers": [*row["headers"], header(row["offset"])]} for row in plain]  # type: ignore[misc,call-overload]
    (partition,) = report.partitions
    into.rows.clear()
    source.folder = source.folder / "again"
    assert partition.content_sha256 == restored(source).partitions[0].content_sha256


def test_the_header_counts_where_sizes_are_checked(source: CataloguedTopic, into: FakeTopic) -> None:
    (plain,), (more,) = (restored(source, offset_header=h, dry_run=True).partitions for h in (False, True))
    assert more.bytes == plain.bytes + 90 * OFFSET_HEADER_BYTES
    assert more.largest_bytes == plain.largest_bytes + OFFSET_HEADER_BYTES


def test_a_record_that_has_the_header_already_is_refused(tmp_path: Path, into: FakeTopic) -> None:
    has_it = Record(3, headers=((OFFSET_HEADER, b"1"),))
    source = CataloguedTopic(tmp_path, files_of(0, 0, written=[Batch((record(0), record(1), record(2), has_it))]))
    with pytest.raises(
        RestoreError, match=f"the record at offset 3 of the source has a header {OFFSET_HEADER} already"
    ):
        restored(source, offset_header=True)
    assert into.rows == []
    assert restored(source).records == 4


def test_a_header_that_says_another_offset_is_noticed(source: CataloguedTopic, into: FakeTopic) -> None:
    into.spoil = lambda topic: topic.rows[5]["headers"].__setitem__(-1, header(16))
    with pytest.raises(RestoreError, match="does not hold what its source does"):
        restored(source, offset_header=True)


def test_all_offsets_are_told_by_a_restore_that_went_on(
    source: CataloguedTopic, into: FakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    rest = partial(at_rest, clock=lambda: now[0], sleep=lambda s: now.append(now.pop() + s))
    monkeypatch.setattr(restore_effects, "at_rest", rest)
    catalogue = source.recover()
    into.dies_at = 42
    with pytest.raises(Killed):
        restored(source, catalogue=catalogue, offset_header=True)
    into.dies_at = None
    report = restored(source, catalogue=catalogue, offset_header=True)
    assert [row["headers"][-1] for row in into.rows] == [header(offset) for offset in range(10, 100)]
    told = pq.read_table(report.offsets_uri).to_pylist()
    assert told == [{"partition": 0, "source_offset": 10, "new_offset": 0, "records": 90}]
    assert restored(source, catalogue=catalogue, offset_header=True, dry_run=True).offsets_uri is None


def test_offsets_are_told_as_runs_that_go_on_from_batch_to_batch(tmp_path: Path) -> None:
    def batches(*offsets: list[int]) -> list[pa.RecordBatch]:
        plain: dict[str, Any] = {"timestamp": 1, "key": None, "value": None, "headers": []}
        return [pa.RecordBatch.from_pylist([{"offset": o, **plain} for o in some], SCHEMA) for some in offsets]

    uri = str(tmp_path / "offsets.parquet")
    with writing_runs(uri) as runs:
        given = batches([3, 4], [], [5, 7, 8], [9], [20])
        assert list(runs.following(0, 100, given)) == given
        assert list(runs.following(2, 0, batches())) == []
        list(runs.following(1, 5, batches([0, 1])))
    assert [tuple(row.values()) for row in pq.read_table(uri).to_pylist()] == [
        (0, 3, 100, 3), (0, 7, 103, 3), (0, 20, 106, 1), (1, 0, 5, 2),
    ]  # fmt: skip
