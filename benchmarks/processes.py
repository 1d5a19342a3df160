# SPDX-License-Identifier: Apache-2.0
"""What a process takes from its start to its end: time, processor time, and the most memory that it and its children hold."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

LOOK_EVERY_S = 0.05
"""How often memory is looked at. The kernel remembers the most of each process, but not what all share at that moment."""

_KILOBYTES = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Taken:
    """
    What a process has taken, with all that it has started and waited for.

    :param seconds: by the clock, from its start to its end.
    :param cpu_seconds: of processor time.
    :param rss_bytes: the most that one of its processes held, as the kernel remembers it.
    :param pss_bytes: the most that all of its processes held at a look, what is shared counted once.
    """

    seconds: float
    cpu_seconds: float
    rss_bytes: int
    pss_bytes: int

    @classmethod
    def together(cls, parts: Sequence[Taken]) -> Taken:
        """
        Return what processes have taken that ran one after the other.

        :param parts: of each of them.
        """
        return cls(
            sum(part.seconds for part in parts),
            sum(part.cpu_seconds for part in parts),
            max(part.rss_bytes for part in parts),
            max(part.pss_bytes for part in parts),
        )


def taken_by(command: Sequence[str], *, environment: Mapping[str, str] | None = None, expected: int = 0) -> Taken:
    """
    Run a process, as whoever types the command waits for it.

    :param command: the process and its arguments; what it prints is dropped.
    :param environment: its own; ``None``: this process's.
    :param expected: its exit code.
    """
    with tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
        )
        with _Memory(process.pid) as memory:
            _, status, usage = os.wait4(process.pid, 0)
        taken = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        assert process.returncode == expected, f"exit code {process.returncode}: {errors.read().decode()}"
    return Taken(taken, usage.ru_utime + usage.ru_stime, memory.rss_bytes, memory.pss_bytes)


class _Memory:
    """
    Looks at the memory of a process and its descendants while the block waits for it.

    :param pid: of the process.
    """

    def __init__(self, pid: int) -> None:
        self.rss_bytes = self.pss_bytes = 0
        self._pid = pid
        self._over = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            shared = 0
            for pid in family(self._pid):
                # It may end while it is looked at.
                with suppress(OSError):
                    self.rss_bytes = max(self.rss_bytes, _numbers(pid, "status").get("VmHWM", 0))
                    shared += _numbers(pid, "smaps_rollup").get("Pss", 0)
            self.pss_bytes = max(self.pss_bytes, shared)


def family(pid: int) -> Iterator[int]:
    """
    Yield a process and all its descendants.

    :param pid: of the process.
    """
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            children.setdefault(_parent(int(folder.name)), []).append(int(folder.name))
    found = [pid]
    while found:
        yield (member := found.pop())
        found += children.get(member, [])


def _parent(pid: int) -> int:
    # The name in parentheses may hold any character.
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _numbers(pid: int, file: str) -> dict[str, int]:
    return {name: int(amount) * 1024 for name, amount in _KILOBYTES.findall(Path(f"/proc/{pid}/{file}").read_text())}


def folder_bytes(folder: Path) -> int:
    """
    Return how much lies in a folder.

    :param folder: the folder; it need not be there.
    """
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
