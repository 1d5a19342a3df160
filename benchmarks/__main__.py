# SPDX-License-Identifier: Apache-2.0
"""
All budgets, each beside its peer, one benchmark after the other: ``make bench``.

A figure is final if it has three runs at least, and other processes kept no more than half a core busy while it was measured.
Final figures go into the table of docs/benchmarks.md. The others are printed, and the table keeps what it said. ``--try``
runs everything once, small, and writes nothing.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.reporting import (
    FIGURES,
    PAGE,
    Figure,
    Load,
    read_figures,
    taken_over,
    under_load,
    with_table,
    write_figures,
)

TRIES: Mapping[str, Sequence[str]] = {
    "main_job": ("--events", "20000", "--runs", "1"),
    "whole_dag": ("--segments", "1000", "--runs", "1"),
    "scale": ("--events", "50000", "--runs", "1"),
    "replay": (
        "--values", "100000", "--events", "100000", "--keyed-events", "100000", "--snapshot-events", "100000",
        "--runs", "1",
    ),
    "deletion": ("--segments", "100", "--small", "8", "--large", "300", "--runs", "1"),
    "whole_deletion": ("--segments", "100", "--runs", "1"),
    "start_up": ("--runs", "1"),
    "remote_log": ("--megabytes", "64", "--runs", "1"),
    "executor_memory": ("--events", "300000", "--runs", "1"),
    "scrub": ("--leaked", "2000", "--living", "8000", "--objects", "3000", "--runs", "1"),
    "survey": ("--segments", "20000", "--runs", "1"),
    "record_batches": ("--megabytes", "8", "--runs", "1"),
    "contents": ("--megabytes", "8", "--runs", "1"),
    "roads": ("--partitions", "20", "--runs", "1"),
}  # fmt: skip
"""Benchmark → its arguments for a try."""
_SUBREAPER = 36
"""Linux's PR_SET_CHILD_SUBREAPER: who loses its parent becomes a child of this process, so that its time is not of others."""

_ENDING_S = 60.0
"""What a benchmark has left behind has ended by then."""


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(TRIES), default=list(TRIES), help="some benchmarks")
    parser.add_argument("--try", dest="small", action="store_true", help="run everything once, small; write nothing")
    arguments = parser.parse_args()
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    found: list[Figure] = []
    failed: list[str] = []
    for name in arguments.only:
        figures, code = _measured(name, TRIES[name] if arguments.small else ())
        found += figures
        # 1 is a missed budget.
        failed += [name] if code not in (0, 1) or not figures else []
    if not arguments.small:
        kept = taken_over(read_figures(), found)
        write_figures(kept, FIGURES)
        PAGE.write_text(with_table(PAGE.read_text(), kept))
    return _told(found, failed)


def _measured(name: str, arguments: Sequence[str]) -> tuple[list[Figure], int]:
    """Run a benchmark in a process of its own; return its figures and its exit code."""
    with tempfile.TemporaryDirectory(prefix="rlmm-bench-") as folder:
        file = Path(folder, "figures.json")
        with Load() as load:
            command = [sys.executable, "-m", f"benchmarks.{name}", *arguments, "--figures", str(file)]
            code = subprocess.run(command, check=False).returncode
            _await_orphans()
        figures = read_figures(file) if file.exists() else []
    print(f"{name}: exit code {code}, others kept {load.cores:.2f} cores busy", flush=True)
    return under_load(figures, load.cores), code


def _await_orphans() -> None:
    """Wait for what a benchmark has left behind, such as Spark's JVM, which ends after it: its time would be of others."""
    until = time.monotonic() + _ENDING_S
    with suppress(ChildProcessError):
        while time.monotonic() < until:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.1)


def _told(figures: Sequence[Figure], failed: Sequence[str]) -> int:
    """Say of each figure whether it is met and final; return the exit code."""
    for figure in figures:
        why = figure.why_not_final
        print(f"{'met' if figure.met else 'MISSED':6} {f'not final: {why}' if why else 'final':45} {figure.name}")
    for name in failed:
        print(f"FAILED {name}")
    good = not failed and all(figure.met and not figure.why_not_final for figure in figures)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
