# SPDX-License-Identifier: Apache-2.0
"""What an export refuses before anything is read, and where it is cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError, RemoteLogError
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation, ReadRange
from airflow_provider_rlmm.features.reading.export_steps import Export
from tests.exporting import Exported


@pytest.fixture
def exported(tmp_path: Path) -> Exported:
    return Exported(tmp_path)


def export_all(export: Export) -> None:
    """Export as the Spark job does, in this process."""
    export.begin()
    export.end([export.exporter.export(piece) for piece in export.pieces])


def test_a_folder_with_other_files_is_refused(exported: Exported) -> None:
    (exported.folder / "out").mkdir()
    (exported.folder / "out" / "partition-0-of-yesterday.parquet").touch()
    with pytest.raises(
        RemoteLogError, match=r"1 files that are not of this export, such as \['partition-0-of-yesterday"
    ):
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
    exported.options = {"region": "eu-central-1"}
    assert exported.plan().exporter.storage.options == {"region": "eu-central-1"}


def test_each_segment_is_a_piece_and_small_ones_go_together(exported: Exported) -> None:
    wanted = ReadRange(start_offset=35, end_offset=130)
    pieces = exported.plan(wanted=wanted, partitions=[1]).pieces
    assert [(p.offsets.start, p.offsets.end) for p in pieces] == [(35, 60), (60, 90), (90, 120), (120, 130)]
    size = exported.world.segments[0].segment_size_in_bytes
    pieces = exported.plan(wanted=wanted, partitions=[1], piece_bytes=2 * size + 500).pieces
    assert [(p.offsets.start, p.offsets.end) for p in pieces] == [(35, 90), (90, 130)]
    assert pieces[0].file.endswith("/out/partition-1-00000000000000000035-00000000000000000090.parquet")
