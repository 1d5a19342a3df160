# SPDX-License-Identifier: Apache-2.0
"""What an export refuses before anything is read, and where it is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_rlmm.errors import ConfigurationError, RemoteLogError
from airflow_provider_rlmm.policy.read_range import ReadRange
from tests.exporting import Exported


@pytest.fixture
def exported(tmp_path: Path) -> Exported:
    return Exported(tmp_path)


def test_a_folder_of_another_export_is_refused(exported: Exported) -> None:
    (exported.folder / "out").mkdir()
    (exported.folder / "out" / "partition-0-of-yesterday.parquet").touch()
    with pytest.raises(
        RemoteLogError, match=r"1 files that are not of this export, such as \['partition-0-of-yesterday"
    ):
        exported.plan()


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
