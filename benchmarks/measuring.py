# SPDX-License-Identifier: Apache-2.0
"""Turn by turn, median and spread, and whether a budget is kept."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
RLMM = str(Path(sys.executable).with_name("rlmm"))
"""The command of this installation."""


@dataclass(frozen=True, slots=True)
class Budget:
    """
    One line of the report.

    :param name: as in docs/benchmarks.md.
    :param ratio: ours to the peer's.
    :param bound: the budget.
    :param at_least: whether the ratio must be at least the bound; at most, otherwise.
    :param details: what was measured, a line each.
    :param ours: what was measured of each run, from process start where the budget counts so.
    :param peer: likewise, of the peer.
    :param unit: of both.
    :param count: values of one run.
    """

    name: str
    ratio: float
    bound: float
    at_least: bool
    details: Sequence[str]
    ours: Sequence[float] = ()
    peer: Sequence[float] = ()
    unit: str = "s"
    count: int = 0

    @property
    def measured(self) -> bool:
        """Whether the ratio is one of two quantities: a heap or a process that shrank tells nothing about what it holds."""
        return self.ratio > 0

    @property
    def met(self) -> bool:
        """Whether the budget is kept; what was not measured keeps none."""
        if not self.measured:
            return False
        return self.ratio >= self.bound if self.at_least else self.ratio <= self.bound

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        verdict = ("met" if self.met else "MISSED") if self.measured else "not measured"
        lines = [f"{self.name:40} {self.ratio:8.2f}x   budget {sign} {self.bound:.2f}x   {verdict}"]
        return "\n".join([*lines, *(f"    {line}" for line in self.details)])


def seconds(work: Callable[[], object]) -> float:
    """
    Return how long one run takes.

    :param work: the run.
    """
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


@dataclass(frozen=True, slots=True)
class Effort:
    """
    What one run took.

    :param seconds: by the clock.
    :param cpu_seconds: of processor time, in all processes that worked on it.
    """

    seconds: float
    cpu_seconds: float


def effort(work: Callable[[], object], cpu_seconds: Callable[[], float]) -> Effort:
    """
    Return what one run takes.

    :param work: the run.
    :param cpu_seconds: the processor time that all who work on it have taken until now, s.
    """
    before = cpu_seconds()
    taken = seconds(work)
    return Effort(taken, cpu_seconds() - before)


def process_effort(command: Sequence[str], *, expected: int = 0) -> Effort:
    """
    Return what a process takes from its start to its end, as whoever types the command waits for it.

    :param command: the process and its arguments; what it prints is dropped.
    :param expected: its exit code.
    """
    with tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        taken = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        assert process.returncode == expected, f"exit code {process.returncode}: {errors.read().decode()}"
    return Effort(taken, usage.ru_utime + usage.ru_stime)


def resident_bytes(name: str = "VmHWM") -> int:
    """
    Return what the kernel counts of this process: what ``getrusage`` says begins with what its parent held.

    :param name: of a line in ``/proc/self/status``: ``VmRSS`` for now, ``VmHWM`` for the most so far.
    """
    [kilobytes] = re.findall(rf"^{name}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(kilobytes) * 1024


def turn_by_turn(ours: Callable[[], float], peer: Callable[[], float], runs: int) -> tuple[list[float], list[float]]:
    """
    Run both in turns, so that a machine whose speed drifts is as slow for the one as for the other.

    :param ours: one run; seconds.
    :param peer: likewise.
    :param runs: of each.
    """
    mine, theirs = in_turns((ours, peer), runs)
    return mine, theirs


def in_turns(works: Sequence[Callable[[], T]], runs: int) -> list[list[T]]:
    """
    Run several, one after the other, again and again: see :func:`turn_by_turn`.

    :param works: what runs; each returns what was measured of it.
    :param runs: of each.
    :return: for each of them what its runs returned.
    """
    turns = [[work() for work in works] for _ in range(runs)]
    return [list(measured) for measured in zip(*turns, strict=True)]


def spread(name: str, times: Sequence[float], count: int, what: str = "values") -> str:
    """
    Say median and range of some runs.

    :param name: whose they are.
    :param times: s.
    :param count: values of one run.
    :param what: they are.
    """
    return (
        f"{name:6} {statistics.median(times):8.3f} s ({min(times):.3f} to {max(times):.3f}, n={len(times)}), "
        f"{count / statistics.median(times):>12,.0f} {what}/s"
    )


def beside(
    name: str, ours: Sequence[float], peer: Sequence[float], bound: float, details: Sequence[str], count: int = 0
) -> Budget:
    """
    Compare what two take: the ratio says how many times as much ours is.

    :param name: of the budget.
    :param ours: s.
    :param peer: s.
    :param bound: the most.
    :param details: what was measured, a line each.
    :param count: values of one run.
    """
    ratio = statistics.median(ours) / statistics.median(peer)
    return Budget(name, ratio, bound, False, details, ours, peer, count=count)


def within(
    name: str, ours: Sequence[float], most: float, details: Sequence[str], peer: Sequence[float] = (), count: int = 0
) -> Budget:
    """
    Compare what was measured with the most that it may be: the ratio says how many times as much it is.

    :param name: of the budget.
    :param ours: s.
    :param most: s.
    :param details: what was measured, a line each.
    :param peer: s.
    :param count: values of one run.
    """
    return Budget(name, statistics.median(ours) / most, 1.0, False, details, ours, peer, count=count)


def faster(
    name: str, ours: Sequence[float], peer: Sequence[float], count: int, bound: float, *more: str, what: str = "values"
) -> Budget:
    """
    Compare two times of the same work: the ratio says how many times faster ours is.

    :param name: of the budget.
    :param ours: s.
    :param peer: s.
    :param count: values of one run.
    :param bound: the least ratio.
    :param more: further details.
    :param what: the values are.
    """
    ratio = statistics.median(peer) / statistics.median(ours)
    return Budget(
        name,
        ratio,
        bound,
        True,
        [spread(who, times, count, what) for who, times in (("ours", ours), ("peer", peer))] + [*more],
        ours,
        peer,
        count=count,
    )
