# SPDX-License-Identifier: Apache-2.0
"""Earlier snapshots that stay in the work folder: one of a day, the last few."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.clock import DAY_MS, HOUR_MS
from airflow_provider_rlmm.core.log.kept_snapshots import KeptSnapshots
from airflow_provider_rlmm.core.log.snapshot import Snapshot, TopicIdentity
from airflow_provider_rlmm.core.log.snapshot_file import SnapshotFile
from airflow_provider_rlmm.core.records.columnar import ColumnarState

TOPIC, OTHER = UUID(int=5), UUID(int=6)
START_MS = 1_700_000_000_000


def store(folder: Path, keep: int = 3, topic_id: UUID = TOPIC) -> KeptSnapshots:
    current = SnapshotFile(str(folder / f"topic-{topic_id}.snapshot"))
    return KeptSnapshots(current, str(folder / "snapshots"), topic_id, keep)


def snapshot(at_ms: int) -> Snapshot:
    return Snapshot(TopicIdentity("c", TOPIC, 1), {0: 0}, (), at_ms, ColumnarState.empty())


def kept(folder: Path, topic_id: UUID = TOPIC) -> list[int]:
    """Hours after the start of which snapshots are kept."""
    found = sorted((folder / "snapshots").glob(f"*.{topic_id}.snapshot"))
    assert [SnapshotFile(str(path)).read().created_at_ms for path in found] == [int(path.name[:15]) for path in found]
    return [(int(path.name[:15]) - START_MS) // HOUR_MS for path in found]


def test_one_of_a_day_is_kept_and_the_oldest_go(tmp_path: Path) -> None:
    snapshots = store(tmp_path)
    for hour in range(0, 5 * 24, 5):
        snapshots.write(snapshot(START_MS + hour * HOUR_MS))
        assert snapshots.read().created_at_ms == START_MS + hour * HOUR_MS
    assert kept(tmp_path) == [50, 75, 100]
    assert str(snapshots) == snapshots.uri == snapshots.current.uri


def test_zero_keeps_none_and_removes_none(tmp_path: Path) -> None:
    store(tmp_path).write(snapshot(START_MS))
    store(tmp_path, keep=0).write(snapshot(START_MS + 2 * DAY_MS))
    assert kept(tmp_path) == [0]
    assert store(tmp_path).read().created_at_ms == START_MS + 2 * DAY_MS


def test_those_of_another_topic_and_other_files_stay(tmp_path: Path) -> None:
    for day in range(4):
        store(tmp_path, topic_id=OTHER).write(snapshot(START_MS + day * DAY_MS))
    (tmp_path / "snapshots" / "notes.snapshot").write_text("mine")
    for day in range(4):
        store(tmp_path, keep=1).write(snapshot(START_MS + day * DAY_MS))
    assert (kept(tmp_path), kept(tmp_path, OTHER)) == ([72], [24, 48, 72])
    assert (tmp_path / "snapshots" / "notes.snapshot").exists()


def test_a_clock_that_was_put_back_does_not_end_it(tmp_path: Path) -> None:
    store(tmp_path).write(snapshot(START_MS + 100 * DAY_MS))
    store(tmp_path).write(snapshot(START_MS))
    assert kept(tmp_path) == [0, 2400]


def test_what_cannot_be_kept_is_said_and_the_newest_is_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "snapshots").write_text("in the way")
    with caplog.at_level(logging.WARNING):
        store(tmp_path).write(snapshot(START_MS))
    assert "no earlier snapshot of the metadata topic is kept" in caplog.text
    assert store(tmp_path).read().created_at_ms == START_MS


def doubled(folder: Path, keep: int = 3, topic_id: UUID = TOPIC, cluster: str = "c") -> KeptSnapshots:
    return replace(store(folder, keep, topic_id), second=str(folder / "elsewhere" / cluster / "snapshots"))


def kept_there(folder: Path, topic_id: UUID = TOPIC) -> list[int]:
    return kept(folder / "elsewhere" / "c", topic_id)


def test_a_second_place_has_the_same_ones_and_the_oldest_go_there_too(tmp_path: Path) -> None:
    for hour in range(0, 5 * 24, 5):
        doubled(tmp_path).write(snapshot(START_MS + hour * HOUR_MS))
    assert kept_there(tmp_path) == kept(tmp_path) == [50, 75, 100]
    for path in (tmp_path / "snapshots").iterdir():
        assert (tmp_path / "elsewhere" / "c" / "snapshots" / path.name).read_bytes() == path.read_bytes()


def test_a_second_place_gets_what_was_kept_before_it_was_named(tmp_path: Path) -> None:
    for day in range(3):
        store(tmp_path).write(snapshot(START_MS + day * DAY_MS))
    doubled(tmp_path).copy_to_second()
    assert kept_there(tmp_path) == [0, 24, 48]


def test_a_work_folder_that_was_made_anew_takes_nothing_but_the_oldest_from_the_second_place(tmp_path: Path) -> None:
    for day in range(3):
        doubled(tmp_path).write(snapshot(START_MS + day * DAY_MS))
    rmtree(tmp_path / "snapshots")
    doubled(tmp_path).write(snapshot(START_MS + 10 * DAY_MS))
    assert (kept(tmp_path), kept_there(tmp_path)) == ([240], [24, 48, 240])
    doubled(tmp_path, keep=0).write(snapshot(START_MS + 20 * DAY_MS))
    assert kept_there(tmp_path) == [24, 48, 240]


def test_those_of_another_topic_or_cluster_and_other_files_stay_in_the_second_place(tmp_path: Path) -> None:
    for day in range(3):
        doubled(tmp_path, topic_id=OTHER).write(snapshot(START_MS + day * DAY_MS))
        doubled(tmp_path, topic_id=OTHER, cluster="c2").write(snapshot(START_MS + day * DAY_MS))
    (tmp_path / "elsewhere" / "c" / "snapshots" / "notes.snapshot").write_text("mine")
    others = sorted((tmp_path / "elsewhere" / "c2").rglob("*.snapshot"))
    for day in range(3):
        doubled(tmp_path, keep=1).write(snapshot(START_MS + day * DAY_MS))
    assert (kept_there(tmp_path), kept_there(tmp_path, OTHER)) == ([48], [0, 24, 48])
    assert (tmp_path / "elsewhere" / "c" / "snapshots" / "notes.snapshot").exists()
    assert sorted((tmp_path / "elsewhere" / "c2").rglob("*.snapshot")) == others


def test_a_copy_that_was_cut_is_made_again(tmp_path: Path) -> None:
    doubled(tmp_path).write(snapshot(START_MS))
    (copy,) = (tmp_path / "elsewhere").rglob("*.snapshot")
    copy.write_bytes(copy.read_bytes()[:-1])
    doubled(tmp_path).copy_to_second()
    assert kept_there(tmp_path) == [0]


def test_a_second_place_that_cannot_be_written_is_said_and_the_first_one_has_all(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "elsewhere").write_text("in the way")
    with caplog.at_level(logging.ERROR):
        doubled(tmp_path).write(snapshot(START_MS))
    assert "the second place of snapshots" in caplog.text
    assert (kept(tmp_path), store(tmp_path).read().created_at_ms) == ([0], START_MS)
    with pytest.raises(OSError, match="elsewhere"):
        doubled(tmp_path).copy_to_second()
