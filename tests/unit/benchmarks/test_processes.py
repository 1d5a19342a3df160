# SPDX-License-Identifier: Apache-2.0
"""What a process takes, measured on real ones."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from benchmarks.processes import Taken, family, folder_bytes, taken_by

MEGABYTE = 1_000_000
HOLDS_AND_WORKS = """
import subprocess, sys, time
held = b"x" * (40 * 1000 * 1000)
child = "import time; held = b'x' * (60 * 1000 * 1000); began = time.process_time()\\n"
child += "while time.process_time() < began + 0.3: pass"
subprocess.run([sys.executable, "-c", child], check=True)
"""


def test_children_count_in_time_and_memory() -> None:
    taken = taken_by([sys.executable, "-c", HOLDS_AND_WORKS])
    assert taken.cpu_seconds >= 0.3
    assert taken.rss_bytes >= 60 * MEGABYTE
    assert taken.pss_bytes >= 100 * MEGABYTE


def test_an_unexpected_end_is_told() -> None:
    with pytest.raises(AssertionError, match="exit code 3: why"):
        taken_by([sys.executable, "-c", "import sys; print('why', end='', file=sys.stderr); sys.exit(3)"])


def test_processes_one_after_the_other_share_no_memory() -> None:
    assert Taken.together([Taken(1, 2, 30, 40), Taken(5, 6, 70, 8)]) == Taken(6, 8, 70, 40)


def test_a_family_begins_with_the_process() -> None:
    assert next(family(os.getpid())) == os.getpid()


def test_all_files_of_a_folder_count(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"12345")
    (tmp_path / "other").write_bytes(b"6")
    assert folder_bytes(tmp_path) == 6
    assert folder_bytes(tmp_path / "missing") == 0
