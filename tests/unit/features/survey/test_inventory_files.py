# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.features.survey import inventory_files as files
from airflow_provider_rlmm.features.survey.inventory import INVENTORY_DOCUMENT, Inventory, Totals

HOUR_MS = 3_600_000
NOW_MS = 1_780_000_000_000
NONE = Count(0, 0)
TOTALS = Totals(NONE, NONE, NONE, NONE, NONE, None, None, 0, 0, NONE, 0, 0, ())


def survey(folder: Path, created_at_ms: int, **changes: Any) -> Inventory:
    given: dict[str, Any] = {
        "cluster_id": "cluster",
        "connection": "rlmm_default",
        "artifact": "run",
        "created_at_ms": created_at_ms,
        "topics": files.topics_schema().empty_table(),
        "partitions": files.partitions_schema().empty_table(),
        "segments": [(0, files.segments_schema().empty_table())],
        "totals": TOTALS,
        **changes,
    }
    return files.write_inventory(str(folder), **given)


def named(folder: Path) -> Inventory:
    return Inventory.from_json((folder / INVENTORY_DOCUMENT).read_text())


def generations(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def test_the_document_names_every_file_as_it_lies_there(tmp_path: Path) -> None:
    inventory = survey(tmp_path, NOW_MS)
    assert named(tmp_path) == inventory
    for name, file in inventory.files.items():
        data = (tmp_path / inventory.generation / name).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (file.bytes, file.sha256)
        assert pq.read_metadata(pa.BufferReader(data)).num_rows == file.rows


def test_two_generations_are_kept(tmp_path: Path) -> None:
    for hour in range(4):
        survey(tmp_path, NOW_MS + hour * HOUR_MS)
    assert generations(tmp_path) == [f"inventory-{NOW_MS + hour * HOUR_MS}" for hour in (2, 3)]


def test_two_surveys_of_one_moment_have_a_generation_each(tmp_path: Path) -> None:
    first, second = survey(tmp_path, NOW_MS), survey(tmp_path, NOW_MS, artifact="another")
    assert (first.created_at_ms, second.created_at_ms) == (NOW_MS, NOW_MS + 1)
    assert named(tmp_path).artifact == "another"


def test_a_survey_that_was_overtaken_does_not_take_the_place_of_a_newer_one(tmp_path: Path) -> None:
    newer = survey(tmp_path, NOW_MS + 1_000)
    survey(tmp_path, NOW_MS, artifact="slow")
    assert named(tmp_path) == newer


def test_one_from_a_clock_that_was_wrong_is_replaced(tmp_path: Path) -> None:
    survey(tmp_path, NOW_MS + 1_000 * HOUR_MS)
    right = survey(tmp_path, NOW_MS)
    assert named(tmp_path) == right
    assert right.generation in generations(tmp_path)


def test_what_another_survey_is_writing_is_left_alone_and_what_a_killed_one_left_is_not(tmp_path: Path) -> None:
    for made in (NOW_MS - HOUR_MS // 2, NOW_MS - 2 * HOUR_MS):
        (tmp_path / f"inventory-{made}").mkdir()
        (tmp_path / f"inventory-{made}" / "topics.parquet").write_bytes(b"half")
    (tmp_path / "topic-x.snapshot").write_bytes(b"somebody else's")
    (tmp_path / "runs").mkdir()
    survey(tmp_path, NOW_MS)
    assert generations(tmp_path) == [f"inventory-{NOW_MS - HOUR_MS // 2}", f"inventory-{NOW_MS}", "runs"]
    assert (tmp_path / "topic-x.snapshot").exists()


def test_an_older_inventory_stays_where_a_survey_fails_midway(tmp_path: Path) -> None:
    before = survey(tmp_path, NOW_MS)

    def failing() -> Any:
        yield 0, files.segments_schema().empty_table()
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        survey(tmp_path, NOW_MS + 1_000, segments=failing())
    assert named(tmp_path) == before
    assert (tmp_path / before.generation / "topics.parquet").exists()


def test_a_document_that_cannot_be_read_is_replaced(tmp_path: Path) -> None:
    (tmp_path / INVENTORY_DOCUMENT).write_bytes(b"\xff not JSON")
    assert named_after(tmp_path) == NOW_MS


def named_after(folder: Path) -> int:
    survey(folder, NOW_MS)
    return named(folder).created_at_ms
