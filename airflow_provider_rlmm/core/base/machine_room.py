# SPDX-License-Identifier: Apache-2.0
"""How much memory and disk this process can still have, as far as its machine says so."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/")


def free_memory(root: Path = _ROOT) -> int | None:
    """
    Return how many bytes of memory this process can still have: what the kernel calls available, and no more than its control
    groups leave it.

    :param root: where ``proc`` and ``sys`` are.
    :return: ``None`` where the machine does not say.
    """
    limits = [left for left in (_available(root), *_left_by_groups(root)) if left is not None]
    return min(limits, default=None)


def _available(root: Path) -> int | None:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def _left_by_groups(root: Path) -> list[int]:
    """Return what each control group above this process leaves it; in a container its own is the root."""
    try:
        [own] = [line for line in (root / "proc/self/cgroup").read_text().splitlines() if line.startswith("0::")]
    except (OSError, ValueError):
        return []
    top = root / "sys/fs/cgroup"
    folder = top / own.removeprefix("0::").lstrip("/")
    return [
        left for group in (folder, *folder.parents) if group.is_relative_to(top) if (left := _left(group)) is not None
    ]


def _left(group: Path) -> int | None:
    """Return what a control group leaves, ``None`` where it has no limit or does not say."""
    try:
        limit = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        # Pages of files are given back before anything is refused.
        return max(0, limit - used + int(stat.get("inactive_file", "0")))
    except (OSError, ValueError):
        return None


def temporary_folder() -> str:
    """Return where temporary files lie; ``TMPDIR`` says it."""
    return tempfile.gettempdir()


def free_disk(folder: str) -> int:
    """
    Return how many bytes can be written to the disk of a folder.

    :param folder: its path.
    :raises OSError: if it cannot be told.
    """
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
