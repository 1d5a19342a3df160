# SPDX-License-Identifier: Apache-2.0
"""Catalogues that are killed, find no room, or whose storage is away or slow: none is half, and each is made in the end."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.core.base import file_systems, spool
from airflow_provider_rlmm.core.base.errors import CatalogueError, RoomError, StorageUnavailableError
from airflow_provider_rlmm.core.generations.files import HashedFile
from airflow_provider_rlmm.core.plans.catalogue_document import CATALOGUE_DOCUMENT, CATALOGUE_TABLE
from airflow_provider_rlmm.core.plans.catalogue_files import CatalogueFiles
from airflow_provider_rlmm.core.plans.catalogue_rows import ProvedBy, RowKind
from airflow_provider_rlmm.core.segments.pacing import StoragePatience
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.features.recovery.progress_parts import is_part
from airflow_provider_rlmm.features.recovery.steps import CatalogueRequest, make_catalogue
from tests.recovery import Bucket, put_into, rows_in, segment

ROOT = Path(__file__).parents[4]
POINTS, SEGMENTS = 20, 6


@pytest.fixture
def bucket() -> Bucket:
    bucket = Bucket(LocalTieredStorageLayout())
    for number in range(SEGMENTS):
        bucket.copy_plain(segment(number, 20 * number, 20 * number + 19))
    return bucket


def make(bucket: Bucket, folder: Path, patience: StoragePatience | None = None, **asked: Any) -> str:
    """Make a catalogue; return the hash of its table."""
    request = CatalogueRequest(storage_uri="memory:///", output=str(folder), prove=True, **asked)
    return make_catalogue(bucket.storage, request, clock=lambda: 77_000_000, patience=patience).file.sha256


def points_of(count: int) -> list[int]:
    """Return twenty of the steps from 1 on: the last ten, and ten of those before."""
    first = [1 + (count - 10) * number // 10 for number in range(10)]
    return [*first, *range(count - 9, count + 1)]


def killed(storage: str, output: Path, point: int) -> subprocess.CompletedProcess[str]:
    asked = [sys.executable, "-m", "tests.killed_recovery", storage, str(output), str(point)]
    return subprocess.run(asked, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, check=False)


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_killed_run_leaves_nothing_that_is_believed_and_the_next_one_converges(
    bucket: Bucket, tmp_path: Path
) -> None:
    storage = put_into(tmp_path / "bucket", bucket)
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "bucket").rglob("*")}
    whole = killed(storage, tmp_path / "whole", 0)
    assert whole.returncode == 0, whole.stderr
    steps = whole.stdout.splitlines()[-1].split()
    assert {"walk", "fetch_object", "append", "write", "open", "os.rename"} <= set(steps)
    expected = CatalogueFiles(str(tmp_path / "whole")).document
    points, seals, total, saved = points_of(len(steps)), Counter[bool](), steps.count("fetch_object"), list[int]()
    for point in points:
        output = tmp_path / f"killed-{point}"
        assert killed(storage, output, point).returncode == -signal.SIGKILL
        # Its document has come to its place, whole, or there is none.
        sealed = (output / CATALOGUE_DOCUMENT).exists()
        seals[sealed] += 1
        if not sealed:
            with pytest.raises(CatalogueError, match="there is no catalogue"):
                CatalogueFiles(str(output))
            again = killed(storage, output, 0)
            assert again.returncode == 0, again.stderr
            # What was read and written down is not read again: all but the last rows.
            read, read_again = (
                done.count("fetch_object") for done in (steps[: point - 1], again.stdout.splitlines()[-1].split())
            )
            assert read + read_again <= total + 4 * total // SEGMENTS, f"step {point}: {steps[point - 1]}"
            saved.append(total - read_again)
        # What it says besides is how much of it was taken up.
        assert replace(CatalogueFiles(str(output)).document, taken_up=None) == expected, (
            f"step {point}: {steps[point - 1]}"
        )
        assert rows_in(str(output)) == rows_in(str(tmp_path / "whole"))
        assert not sealed or "already holds" in killed(storage, output, 0).stderr
        left = {file.name for file in output.iterdir()} - {CATALOGUE_TABLE, CATALOGUE_DOCUMENT}
        assert sealed or not left
    assert len(set(points)) == POINTS
    assert seals[False] >= POINTS // 2
    assert max(saved) == total
    assert before == {file: file.stat().st_mtime_ns for file in (tmp_path / "bucket").rglob("*")}


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("at", [1, 2, 5, 8])
def test_a_disk_without_room_for_temporary_files_is_no_catalogue(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    asked, free = [0], spool.free_disk

    def filling(folder: str) -> int:
        asked[0] += 1
        return 0 if asked[0] >= at else free(folder)

    with monkeypatch.context() as patched:
        patched.setattr(spool, "free_disk", filling)
        with pytest.raises(RoomError, match="set TMPDIR"):
            make(bucket, tmp_path / "c")
    assert not (tmp_path / "c" / CATALOGUE_DOCUMENT).exists()
    assert make(bucket, tmp_path / "c") == make(bucket, tmp_path / "whole")


@pytest.mark.parametrize("at", [1, 2, 3, "table", "document"])
def test_a_disk_without_room_for_the_catalogue_is_named_and_holds_none(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int | str
) -> None:
    left, flush, write = [at], file_systems.flush, HashedFile.write

    def writing(file: HashedFile, data: Any) -> Any:
        if isinstance(left[0], int):
            left[0] -= 1
        return full() if left[0] == 0 else write(file, data)

    def flushing(file: Any) -> None:
        if left[0] == "table" or (left[0] == "document" and "json" in str(file.name)):
            full()
        flush(file)

    with monkeypatch.context() as patched:
        patched.setattr(HashedFile, "write", writing)
        patched.setattr(file_systems, "flush", flushing)
        with pytest.raises(OSError, match="make room there, or choose a folder on another disk"):
            make(bucket, tmp_path / "c")
    left = {file.name for file in (tmp_path / "c").iterdir()}
    assert {name for name in left if not is_part(name)} <= {CATALOGUE_TABLE}
    assert make(bucket, tmp_path / "c") == make(bucket, tmp_path / "whole")


def test_a_storage_that_goes_away_at_any_request_is_no_catalogue(bucket: Bucket, tmp_path: Path) -> None:
    expected, requests = make(bucket, tmp_path / "whole"), [0]

    def count(what: str, _: str) -> None:
        requests[0] += 1

    bucket.storage.on_effect = count
    make(bucket, tmp_path / "counted", at_once=1)
    total = requests[0]
    for number in range(POINTS):
        away_from, output = 1 + number * total // (2 * POINTS), tmp_path / f"away-{number}"
        requests[0] = 0

        def away(what: str, key: str, since: int = away_from) -> None:
            requests[0] += 1
            if requests[0] >= since:
                raise StorageUnavailableError("connection refused")

        bucket.storage.on_effect = away
        patience = StoragePatience(0.0, sleep=lambda _: None)
        try:
            make(bucket, output, patience, at_once=1)
        except StorageUnavailableError:
            assert not (output / CATALOGUE_DOCUMENT).exists()
            bucket.storage.on_effect = None
            assert make(bucket, output) == expected
        else:
            # A folder broke off, or less than ten segments in a row: what was not seen is said, and nothing else is.
            assert list(CatalogueFiles(str(output)).document.problems())
            unproved = {row.kind for row in rows_in(str(output)) if row.proved_by is not ProvedBy.CONTENTS}
            assert unproved <= {RowKind.CANNOT_TELL}


@pytest.mark.parametrize("at_once", [1, 8])
def test_a_storage_that_slows_down_is_asked_again_until_all_is_there(
    bucket: Bucket, tmp_path: Path, at_once: int
) -> None:
    expected, asked = make(bucket, tmp_path / "whole"), Counter[tuple[str, str]]()

    def throttled(what: str, key: str) -> None:
        asked[what, key] += 1
        if what == "get" and asked[what, key] % 3:
            raise StorageUnavailableError("503 SlowDown")

    bucket.storage.on_effect = throttled
    slept = list[float]()
    patience = StoragePatience(60.0, clock=lambda: 0.0, sleep=slept.append)
    assert make(bucket, tmp_path / "c", patience, at_once=at_once) == expected
    assert slept
