# SPDX-License-Identifier: Apache-2.0
"""
Run the lanes of ``make test`` side by side, or the suites of ``make full``, and say what each of them took.

A lane is a target of the Makefile. All of them run, whichever fails. Each prints as a whole when it ends, so that lanes do
not mix their lines.
A table of wall and processor time comes last; a server counts where its lane has waited for its end.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass


@dataclass(frozen=True)
class Took:
    """
    What a lane took.

    :param lane: its name.
    :param code: its exit code; negative for the signal that ended it.
    :param wall_s: from its start to its end, in seconds.
    :param cpu_s: processor time of all its processes, in seconds.
    """

    lane: str
    code: int
    wall_s: float
    cpu_s: float


def run(commands: Mapping[str, Sequence[str]], side_by_side: int) -> Iterator[Took]:
    """
    Run a command for each lane, so many at a time, and yield each as it ends; its output is printed before.

    :param commands: the command of each lane, in the order in which they start.
    :param side_by_side: how many run at a time.
    """
    with ThreadPoolExecutor(side_by_side) as lanes:
        for ended in as_completed(lanes.submit(_run_one, lane, command) for lane, command in commands.items()):
            took, printed = ended.result()
            sys.stdout.buffer.write(printed)
            sys.stdout.buffer.flush()
            yield took


def _run_one(lane: str, command: Sequence[str]) -> tuple[Took, bytes]:
    began = time.monotonic()
    # A file, not a pipe: what a lane leaves running would hold a pipe open.
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        # Popen.wait does not tell what a child and its children used.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        took = Took(lane, process.returncode, time.monotonic() - began, usage.ru_utime + usage.ru_stime)
        return took, output.read()


def table(took: Sequence[Took], wall_s: float) -> str:
    """
    Show what lanes took, the longest first, and all of them together.

    :param took: the lanes.
    :param wall_s: from the start of the first to the end of the last, in seconds.
    """
    rows = [(t.lane, t.wall_s, t.cpu_s, "" if t.code == 0 else f"failed: exit code {t.code}") for t in took]
    rows.sort(key=lambda row: -row[1])
    rows.append(("all", wall_s, sum(t.cpu_s for t in took), ""))
    width = max(14, *(len(lane) for lane, *_ in rows))
    lines = [f"{'lane':<{width}} {'wall':>7} {'CPU':>7}"]
    lines += [
        f"{lane:<{width}} {_minutes(wall):>7} {_minutes(cpu):>7}  {end}".rstrip() for lane, wall, cpu, end in rows
    ]
    return "\n".join(lines)


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


def main() -> int:
    """Run the lanes that are named; return 0 where all of them passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side-by-side", type=int, default=3, metavar="N", help="lanes that run at a time")
    parser.add_argument(
        "lanes", nargs="+", metavar="LANE", help="targets of the Makefile, in the order in which they start"
    )
    options = parser.parse_args()
    began, took = time.monotonic(), []
    for ended in run({lane: ["make", "--no-print-directory", lane] for lane in options.lanes}, options.side_by_side):
        took.append(ended)
        print(f"{ended.lane}: {'passed' if ended.code == 0 else 'FAILED'} after {_minutes(ended.wall_s)}", flush=True)
    print(table(took, time.monotonic() - began))
    return 0 if all(t.code == 0 for t in took) else 1


if __name__ == "__main__":
    sys.exit(main())
