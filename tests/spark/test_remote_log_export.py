# SPDX-License-Identifier: Apache-2.0
"""The export of remote logs on a real Spark: it equals the reader, whatever the pieces, and whatever fails on the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.base.errors import RemoteLogError
from airflow_provider_rlmm.core.base.strict_json import unsealed
from airflow_provider_rlmm.core.segments.read_range import OffsetRange, ReadIsolation, ReadRange
from airflow_provider_rlmm.data_frames import require_executors
from spark_jobs.remote_log_export import export_pieces
from tests.exporting import Exported
from tests.tiered_orders import ORDERS, START_MS, batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def exported(tmp_path: Path) -> Exported:
    return Exported(tmp_path)


def test_an_export_equals_the_reader(exported: Exported, spark: SparkSession) -> None:
    require_executors(spark)
    export = exported.plan(wanted=ReadRange(start_offset=7, end_offset=143))
    assert [(p.tip.partition, p.offsets.start, p.offsets.end) for p in export.pieces] == [
        (number, start, end) for number in (0, 1) for start, end in ((7, 30), (30, 60), (60, 90), (90, 120), (120, 143))
    ]
    document = export.end(export_pieces(spark, export))
    for number in (0, 1):
        files = [f for f in document["files"] if f["partition"] == number]
        read = pa.concat_tables(pq.read_table(exported.folder / "out" / f["file"]) for f in files)
        assert read.equals(exported.as_read(number, 7, 143))
        assert [f["records"] for f in files] == [23, 30, 30, 30, 23]
    assert document["records"] == 2 * 136
    written = unsealed((exported.folder / "out" / "export.json").read_text(), 1)
    assert written["partitions"] == {str(n): {"start": 7, "end": 143} for n in (0, 1)}
    assert (written["cluster_id"], written["topic"], written["isolation_level"]) == (
        "cluster-1",
        "orders",
        "read_uncommitted",
    )
    assert set(exported.files()) == {
        "export-begun.json",
        "export.json",
        *(f["file"] for f in document["files"]),
    }


def test_no_record_passes_the_driver_and_small_segments_go_together(exported: Exported, spark: SparkSession) -> None:
    export = exported.plan(piece_bytes=2**30, partitions=[1], isolation=ReadIsolation.READ_COMMITTED)
    assert [p.offsets for p in export.pieces] == [OffsetRange(0, 150)]
    (written,) = export_pieces(spark, export)
    assert (written.records, written.first_offset, written.last_offset) == (150, 0, 149)
    assert (written.min_timestamp_ms, written.max_timestamp_ms) == (START_MS, START_MS + 149_000)


def test_a_piece_that_fails_leaves_no_document_and_the_next_try_is_whole(
    exported: Exported, spark: SparkSession
) -> None:
    export = exported.plan(partitions=[0])
    (log,) = [
        path
        for path in (exported.folder / "storage").rglob("*.log")
        if "0000060" in path.name and "orders-0" in str(path)
    ]
    whole = log.read_bytes()
    log.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    with pytest.raises(RemoteLogError, match=r"a task failed for good: .*DamagedObjectError: .*00000000000000000060"):
        export_pieces(spark, export)
    assert not {"export.json", export.pieces[2].file.rpartition("/")[2]} & set(exported.files())
    log.write_bytes(whole)
    again = exported.plan(partitions=[0])
    document = again.end(export_pieces(spark, again))
    assert document["records"] == 150
    assert [f["file"] for f in document["files"]] == [p.file.rpartition("/")[2] for p in export.pieces]
    read = pa.concat_tables(pq.read_table(exported.folder / "out" / f["file"]) for f in document["files"])
    assert read.equals(exported.as_read(0, 0, 150))


def test_an_empty_topic_has_an_empty_export(exported: Exported, spark: SparkSession) -> None:
    export = exported.plan(wanted=ReadRange(start_offset=150))
    assert export.end(export_pieces(spark, export))["records"] == 0
    assert json.loads((exported.folder / "out" / "export.json").read_text())["files"] == []


def test_a_segment_that_is_copied_meanwhile_is_not_half_of_it(exported: Exported, spark: SparkSession) -> None:
    export = exported.plan(partitions=[0])
    exported.world.copy(ORDERS[0], batches(150))
    assert sum(w.records for w in export_pieces(spark, export)) == 150
