# SPDX-License-Identifier: Apache-2.0
"""What a machine says of its memory: the kernel, and the control groups above a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.machine_room import free_disk, free_memory

MEMINFO = "MemTotal:       8000 kB\nMemFree:        10 kB\nMemAvailable:   4000 kB\n"


def machine(root: Path, own: str = "/", groups: dict[str, tuple[str, int, int]] | None = None) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(MEMINFO)
    (root / "proc/self/cgroup").write_text(f"4:memory:/other\n0::{own}\n")
    for group, (limit, used, files) in (groups or {}).items():
        folder = root / "sys/fs/cgroup" / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.max").write_text(limit)
        (folder / "memory.current").write_text(str(used))
        (folder / "memory.stat").write_text(f"anon 1\ninactive_file {files}\n")
    return root


@pytest.mark.parametrize(
    ("own", "groups", "expected"),
    [
        ("/", {}, 4_096_000),
        ("/", {"": ("max", 5, 0)}, 4_096_000),
        ("/", {"": ("1000000", 300_000, 100_000)}, 800_000),
        ("/a/b", {"a": ("1000000", 900_000, 0), "a/b": ("2000000", 100_000, 0)}, 100_000),
        ("/a", {"a": ("1000", 5000, 0)}, 0),
        ("/a", {"a": ("no number", 5, 0)}, 4_096_000),
    ],
)  # fmt: skip
def test_what_is_left(tmp_path: Path, own: str, groups: dict[str, tuple[str, int, int]], expected: int) -> None:
    assert free_memory(machine(tmp_path, own, groups)) == expected


def test_a_machine_that_says_nothing(tmp_path: Path) -> None:
    assert free_memory(tmp_path) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemAvailable:\n")
    assert free_memory(tmp_path) is None


def test_this_machine(tmp_path: Path) -> None:
    assert free_disk(str(tmp_path)) > 0
    assert free_memory() is None or free_memory() > 0  # type: ignore[operator]
