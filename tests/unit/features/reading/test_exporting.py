# SPDX-License-Identifier: Apache-2.0
"""What an export refuses before anything is read, and where it is cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    OffsetNotInRemoteLogError,
    RemoteLogError,
    SegmentGoneError,
)
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation, ReadRange
from airflow_provider_rlmm.features.reading.export_steps import Export
from airflow_provider_rlmm.features.reading.exporting import export_piece
from airflow_provider_rlmm.features.reading.pieces import ROWS
from tests.exporting import Exported


@pytest.fixture
def exported(tmp_path: Path) -> Exported:
    return Exported(tmp_path)


def export_all(export: Export) -> None:
    """Export as the Spark job does, in this process."""
    export.begin()
    export.end([export_piece(export.reader, piece) for piece in export.pieces])


def test_a_folder_with_other_files_is_refused(exported: Exported) -> None:
    (exported.folder / "out").mkdir()
    (exported.folder / "out" / "partition-0-of-yesterday.parquet").touch()
    with pytest.raises(RemoteLogError, match=r"1 file that is not of this export, such as \['partition-0-of-yesterday"):
        exported.plan().begin()


def test_an_export_of_another_topic_with_the_same_offsets_is_not_overwritten(exported: Exported) -> None:
    export = exported.plan(partitions=[0])
    export_all(export)
    before = {file: (exported.folder / "out" / file).read_bytes() for file in exported.files()}
    others = (
        replace(export, topic_id="AAAAAAAAAAAAAAAAAAAAAQ"),
        replace(export, cluster_id="cluster-2"),
        exported.plan(partitions=[0], isolation=ReadIsolation.READ_COMMITTED),
    )
    for other in others:
        assert [piece.file for piece in other.pieces] == [piece.file for piece in export.pieces]
        with pytest.raises(RemoteLogError, match="another export, which has written there first"):
            other.begin()
    assert {file: (exported.folder / "out" / file).read_bytes() for file in exported.files()} == before


def test_files_of_which_nothing_says_whose_they_are_are_not_overwritten(exported: Exported) -> None:
    export = exported.plan(partitions=[0])
    export_all(export)
    (exported.folder / "out" / "export-begun.json").unlink()
    with pytest.raises(RemoteLogError, match="nothing says whose they are"):
        exported.plan(partitions=[0]).begin()


def test_an_export_that_is_begun_again_has_not_ended(exported: Exported) -> None:
    export_all(exported.plan(partitions=[0]))
    assert "export.json" in exported.files()
    again = exported.plan(partitions=[0])
    again.begin()
    assert "export.json" not in exported.files()
    export_all(again)
    assert "export.json" in exported.files()


def test_secrets_of_the_store_are_sent_nowhere(exported: Exported) -> None:
    exported.options = {"endpoint": "http://127.0.0.1:1", "aws_secret_access_key": "correct-horse"}
    with pytest.raises(ConfigurationError, match=r"\['aws_secret_access_key'\]") as refused:
        exported.plan()
    assert "correct-horse" not in str(refused.value)
    exported.options = {"endpoint": "http://user:correct-horse@127.0.0.1:1"}
    with pytest.raises(ConfigurationError, match=r"\['endpoint'\]"):
        exported.plan()
    # Executors need the authorities that the driver was told of, too: a certificate is public.
    public = {
        "region": "eu-central-1",
        "root_certificate": "-----BEGIN CERTIFICATE-----",
        "aws_conditional_put": "etag",
    }
    exported.options = public
    assert exported.plan().reader.storage.options == public


def test_each_segment_is_a_piece_and_small_ones_go_together(exported: Exported) -> None:
    wanted = ReadRange(start_offset=35, end_offset=130)
    pieces = exported.plan(wanted=wanted, partitions=[1]).pieces
    assert [(p.offsets.start, p.offsets.end) for p in pieces] == [(35, 60), (60, 90), (90, 120), (120, 130)]
    size = exported.world.segments[0].segment_size_in_bytes
    pieces = exported.plan(wanted=wanted, partitions=[1], piece_bytes=2 * size + 500).pieces
    assert [(p.offsets.start, p.offsets.end) for p in pieces] == [(35, 90), (90, 130)]
    assert pieces[0].file.endswith("/out/partition-1-00000000000000000035-00000000000000000090.parquet")


def test_a_range_that_is_not_all_there_is_cut_only_where_that_is_asked_for(exported: Exported) -> None:
    beyond = ReadRange(start_offset=140, end_offset=151)
    with pytest.raises(OffsetNotInRemoteLogError, match=r"offset 150 of .*orders-1 is wanted"):
        exported.cut(wanted=beyond, partitions=[1])
    (piece,) = exported.cut(wanted=beyond, partitions=[1], allow_incomplete=True).pieces
    assert (piece.offsets.start, piece.offsets.end) == (140, 150)


def test_rows_of_a_piece_are_its_records_with_their_partition(exported: Exported) -> None:
    source = exported.cut(wanted=ReadRange(start_offset=7, end_offset=143), partitions=[1])
    rows = pa.Table.from_batches(batch for piece in source.pieces for batch in source.reader.rows(piece))
    assert rows.schema == ROWS
    read = exported.as_read(1, 7, 143)
    said = {name: read[name].to_pylist() for name in ("offset", "key", "value", "headers")}
    assert rows.to_pydict() == {"partition": [1] * 136, "timestamp_ms": read["timestamp"].to_pylist()} | said


@pytest.mark.slow
def test_a_segment_that_has_gone_since_is_an_error_and_no_end_of_the_rows(exported: Exported) -> None:
    source = exported.cut(partitions=[1])
    for path in (exported.folder / "storage").rglob("*0000000060*"):
        if "orders-1" in str(path):
            path.unlink()
    read = [sum(batch.num_rows for batch in source.reader.rows(piece)) for piece in source.pieces[:2]]
    assert read == [30, 30]
    with pytest.raises(SegmentGoneError, match="offsets 60 to 89"):
        list(source.reader.rows(source.pieces[2]))
