# SPDX-License-Identifier: Apache-2.0
"""What a try of a task leaves behind when it ends, and when it is killed."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_rlmm.operators.task_folder import handed_over, task_folder

PREFIX = "rlmm-test-"
SECRET = "correct-horse-battery-staple"
A_TRY = f"""
import sys, time
from airflow_provider_rlmm.operators.task_folder import handed_over, task_folder
with task_folder({PREFIX!r}) as folder:
    (folder / "cluster_state.json").write_text("{{}}")
    with handed_over(folder / "client.properties", {SECRET!r}):
        print(folder, flush=True)
        sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@contextmanager
def running_try() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Run a try in a process of its own, up to where its job runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", A_TRY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ.copy()
    )
    with process:
        try:
            assert process.stdout is not None
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_the_folder_is_this_users_and_goes_with_the_block() -> None:
    with task_folder(PREFIX) as folder:
        (folder / "file").write_text("x")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not folder.exists()
    with pytest.raises(RuntimeError), task_folder(PREFIX) as folder:
        raise RuntimeError
    assert not folder.exists()


def test_a_killed_try_leaves_no_secret_and_the_next_try_nothing_at_all(temporary: Path) -> None:
    with running_try() as (process, killed):
        assert stat.S_ISFIFO((killed / "client.properties").stat().st_mode)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    left = [path for path in killed.iterdir() if path.is_file()]
    assert [path.name for path in left] == ["cluster_state.json"], "the try was killed before it could clean up"
    assert not any(SECRET in path.read_text() for path in left)
    with task_folder(PREFIX) as folder:
        assert list(temporary.iterdir()) == [folder]


def test_a_try_that_still_runs_keeps_its_folder(temporary: Path) -> None:
    with running_try() as (process, other), task_folder(PREFIX) as mine:
        assert set(temporary.iterdir()) == {other, mine}
        assert (other / "client.properties").read_text() == SECRET
        process.communicate("", timeout=30)
        assert process.returncode == 0
        assert list(temporary.iterdir()) == [mine]


def test_what_is_no_folder_of_ours_stays(temporary: Path) -> None:
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("x")
    (temporary / f"{PREFIX}link").symlink_to(elsewhere)
    (temporary / f"{PREFIX}file").write_text("x")
    with task_folder(PREFIX):
        pass
    assert {path.name for path in temporary.iterdir()} == {"elsewhere", f"{PREFIX}link", f"{PREFIX}file"}
    assert (elsewhere / "file").exists()


@pytest.mark.parametrize("size", [10, 1_000_000], ids=["short", "longer-than-a-pipe"])
def test_a_text_is_handed_over_once_and_only_to_this_user(tmp_path: Path, size: int) -> None:
    path = tmp_path / "client.properties"
    with handed_over(path, "x" * size):
        found = path.stat().st_mode
        assert (stat.S_ISFIFO(found), stat.S_IMODE(found)) == (True, 0o600)
        assert path.read_text() == "x" * size
    assert not path.exists()


@pytest.mark.parametrize("size", [10, 1_000_000], ids=["short", "longer-than-a-pipe"])
@pytest.mark.parametrize("reads", [0, 5], ids=["nothing", "a-little"])
def test_a_text_that_nobody_reads_to_its_end_holds_nobody_up(tmp_path: Path, size: int, reads: int) -> None:
    path = tmp_path / "client.properties"
    before = threading.active_count()
    with handed_over(path, "x" * size):
        if reads:
            with path.open("rb", buffering=0) as pipe:
                assert pipe.read(reads) == b"x" * reads
    assert not path.exists()
    assert threading.active_count() == before
