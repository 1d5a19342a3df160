# SPDX-License-Identifier: Apache-2.0
"""A snapshot of a broker's disk is whole or refused, and has the times of what it shows."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.errors import LogDirectoryError
from airflow_provider_rlmm.features.copying.log_directory.disk import LogDisk
from airflow_provider_rlmm.features.copying.log_directory.names import TopicPartition
from airflow_provider_rlmm.features.copying.log_directory.partition import LogDirectory
from airflow_provider_rlmm.features.copying.log_directory.snapshot import take_snapshot
from tests.log_directories import HandmadeDisk, checkpoint
from tests.unit.features.copying.test_log_disk import held_by_another_process

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def disk(tmp_path: Path) -> HandmadeDisk:
    made = HandmadeDisk(tmp_path / "data")
    folder = made.add("orders-0", (0, 10, 20))
    (folder / f"{0:020d}.log.deleted").touch()
    (folder / f"{10:020d}.txnindex").write_bytes(bytes(34))
    made.add("payments-3", (0, 5))
    made.add("gone-1.0123-delete")
    (made.path / "replication-offset-checkpoint").write_text(checkpoint("orders 0 15"))
    (made.path / ".lock").touch()
    for number, path in enumerate(sorted(folder.iterdir())):
        os.utime(path, ns=(0, 1_700_000_000_123_456_789 + number))
    return made


def contents(path: Path) -> dict[str, tuple[bytes, int]]:
    """Path below a folder → content and modification time."""
    files = [file for file in path.rglob("*") if file.is_file()]
    return {file.relative_to(path).as_posix(): (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


@pytest.mark.parametrize("hard_links", [True, False])
def test_it_shows_all_that_a_broker_would_keep_with_its_times(
    disk: HandmadeDisk, tmp_path: Path, hard_links: bool
) -> None:
    before = contents(disk.path)
    snapshot = take_snapshot(disk.path, tmp_path / "snapshot", hard_links=hard_links)

    assert contents(disk.path) == before
    dropped = {".lock", f"orders-0/{0:020d}.log.deleted", *(name for name in before if name.startswith("gone-1"))}
    shown = contents(snapshot.path)
    assert shown.keys() == before.keys() - dropped
    assert all(shown[name] == before[name] for name in shown)
    assert snapshot.partitions == (ORDERS, TopicPartition("payments", 3))
    assert snapshot.high_watermarks == {ORDERS: 15}
    log = f"orders-0/{0:020d}.log"
    assert (snapshot.path / log).samefile(disk.path / log) is hard_links
    assert not (snapshot.path / "orders-0/leader-epoch-checkpoint").samefile(
        disk.path / "orders-0/leader-epoch-checkpoint"
    )

    originals = LogDirectory.open(LogDisk.open(disk.path), ORDERS).closed_segments
    copies = LogDirectory.open(snapshot, ORDERS).closed_segments
    assert [segment.modified_ms for segment in copies] == [segment.modified_ms for segment in originals]


def test_what_the_broker_deletes_stays_in_it(disk: HandmadeDisk, tmp_path: Path) -> None:
    snapshot = take_snapshot(disk.path, tmp_path / "snapshot")
    before = contents(snapshot.path)
    for file in (disk.path / "orders-0").iterdir():
        file.unlink()
    assert contents(snapshot.path) == before


def test_only_some_user_partitions(disk: HandmadeDisk, tmp_path: Path) -> None:
    snapshot = take_snapshot(disk.path, tmp_path / "snapshot", partitions=[TopicPartition("payments", 3)])
    assert snapshot.partitions == (TopicPartition("payments", 3),)
    with pytest.raises(LogDirectoryError, match="has no directory of payments-4"):
        take_snapshot(disk.path, tmp_path / "other", partitions=[TopicPartition("payments", 4)])
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM, errno.EMLINK])
def test_where_the_file_system_cannot_link_it_copies(
    disk: HandmadeDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_args: object, **_settings: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    snapshot = take_snapshot(disk.path, tmp_path / "snapshot")
    log = f"orders-0/{0:020d}.log"
    assert not (snapshot.path / log).samefile(disk.path / log)
    assert contents(snapshot.path)[log] == contents(disk.path)[log]


def test_a_running_broker_s_disk_is_refused_and_leaves_nothing(disk: HandmadeDisk, tmp_path: Path) -> None:
    with held_by_another_process(disk.path), pytest.raises(LogDirectoryError, match="held by a running broker"):
        take_snapshot(disk.path, tmp_path / "snapshot")
    assert not (tmp_path / "snapshot").exists()


@pytest.mark.parametrize("trace", [".lock", ".kafka_cleanshutdown"])
def test_a_broker_that_runs_meanwhile_makes_it_void(
    disk: HandmadeDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trace: str
) -> None:
    (disk.path / ".lock").unlink()
    link = os.link

    def start_a_broker(source: Path, target: Path, **settings: bool) -> None:
        (disk.path / trace).touch()
        link(source, target, **settings)

    monkeypatch.setattr(os, "link", start_a_broker)
    with pytest.raises(LogDirectoryError, match="meanwhile"):
        take_snapshot(disk.path, tmp_path / "snapshot")
    assert not (tmp_path / "snapshot").exists()


def test_a_full_disk_leaves_nothing(disk: HandmadeDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object, **_settings: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "some file")

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(LogDirectoryError, match="some file: No space left"):
        take_snapshot(disk.path, tmp_path / "snapshot")
    assert not (tmp_path / "snapshot").exists()


def test_a_snapshot_that_was_cut_short_is_none(disk: HandmadeDisk, tmp_path: Path) -> None:
    snapshot = take_snapshot(disk.path, tmp_path / "snapshot")
    (snapshot.path / "meta.properties").rename(snapshot.path / "meta.properties.unfinished")
    with pytest.raises(LogDirectoryError, match="unfinished snapshot"):
        LogDisk.open(snapshot.path)


def test_it_needs_a_folder_of_its_own(disk: HandmadeDisk, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(LogDirectoryError, match="folder of its own"):
        take_snapshot(disk.path, tmp_path / "there")
    with pytest.raises(LogDirectoryError, match="unknown folder"):
        take_snapshot(disk.path, disk.path / "snapshot")
    (tmp_path / "link").symlink_to(disk.path)
    with pytest.raises(LogDirectoryError, match="unknown folder"):
        take_snapshot(disk.path, tmp_path / "link" / "snapshot")
