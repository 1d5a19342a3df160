# SPDX-License-Identifier: Apache-2.0
"""The runner of the lanes of ``make test``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dev.lanes import Took, run, table

BUSY = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.mark.slow
def test_a_lane_prints_as_a_whole_and_tells_how_it_ended_and_what_it_took(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    child = f"import subprocess, sys; print('one'); sys.exit(subprocess.call([sys.executable, '-c', {BUSY!r}]) or 3)"
    took = {ended.lane: ended for ended in run({"broken": python(child), "fine": python("print('two')")}, 1)}
    assert capfdbinary.readouterr().out.split() == [b"one", b"two"]
    assert (took["broken"].code, took["fine"].code) == (3, 0)
    assert took["broken"].cpu_s >= 0.3, "what its child used counts"


def test_lanes_run_side_by_side(tmp_path: Path) -> None:
    # Each waits for the file of the other one.
    meet = "import pathlib, sys, time\npathlib.Path(sys.argv[1]).touch()\n"
    meet += "while not pathlib.Path(sys.argv[2]).exists(): time.sleep(0.01)"
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    took = run({"one": [*python(meet), one, two], "two": [*python(meet), two, one]}, 2)
    assert {ended.code for ended in took} == {0}


def test_the_table_has_the_longest_first_and_names_what_failed() -> None:
    shown = table([Took("unit", 0, 61.4, 59.9), Took("system", 2, 600, 301), Took("docs", -9, 1, 1)], 661)
    assert shown.splitlines() == [
        "lane              wall     CPU",
        "system           10:00    5:01  failed: exit code 2",
        "unit              1:01    1:00",
        "docs              0:01    0:01  failed: exit code -9",
        "all              11:01    6:02",
    ]


def test_long_names_keep_the_columns() -> None:
    shown = table([Took("simulate-protections", 0, 1, 1), Took("rare", 1, 1, 1)], 2).splitlines()
    assert {line.index(":") for line in shown[1:]} == {shown[1].index(":")}
    assert len({len(line.partition("  failed")[0]) for line in shown}) == 1
