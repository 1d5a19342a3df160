# SPDX-License-Identifier: Apache-2.0
"""Figures as data: what is final, what the table says, and whose load counts."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import __main__ as bench
from benchmarks import reporting
from benchmarks.measuring import Budget, beside, faster
from benchmarks.reporting import Figure, Load, read_figures, report, table, taken_over, under_load, with_table

ROOT = Path(__file__).parents[3]
FINAL = Figure("P4 deletion", 1.8, 2.0, True, 2.8, 5.0, runs=5, date="2026-11-28", load=0.1)
BURNS = "import time\nbegan = time.process_time()\nwhile time.process_time() < began + 0.5: pass"


def test_a_benchmark_leaves_its_figures_as_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    budgets = [
        beside("P13 orphans", [2.0, 3.0, 4.0], [3.0, 3.0, 3.0], 1.2, ["more"]),
        "a line of its own",
        faster("P7 replay of the topic", [10.0], [30.0], 1_000_000, 2.5),
        Budget("P6 memory", -1.0, 0.25, False, []),
    ]
    assert report(iter(budgets), file) == 1
    said = capsys.readouterr().out
    assert "a line of its own\n" in said
    assert said.count("budget") == 3
    orphans, replay, memory = read_figures(file)
    assert (orphans.ratio, orphans.measured, orphans.peer, orphans.runs) == (1.0, 3.0, 3.0, 3)
    assert replay.floor == pytest.approx(0.27)
    assert memory.ratio is None
    assert report(budgets[:3]) == 0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, ""),
        ({"load": 0.5}, ""),
        ({"load": 0.51}, "others kept 0.5 cores busy, of at most 0.5"),
        ({"load": 3.2}, "others kept 3.2 cores busy, of at most 0.5"),
        ({"load": None}, "nobody counted the load of others"),
        ({"runs": 2}, "2 runs, of at least 3"),
        ({"ratio": None}, "it was not measured"),
    ],
)
def test_what_is_final(change: dict[str, float | None], why: str) -> None:
    assert replace(FINAL, **change).why_not_final == why  # type: ignore[arg-type]


def test_only_what_is_final_takes_the_place_of_an_older_figure() -> None:
    others = Figure("P12 the DAG", None, 1.0, False)
    busy = replace(FINAL, ratio=9.0, load=2.0)
    better, new = replace(FINAL, ratio=2.2, date="2026-12-01"), replace(FINAL, name="P14 another")
    assert taken_over([FINAL, others], [busy]) == [FINAL, others]
    assert taken_over([FINAL, others], [better, new]) == [better, others, new]
    assert [figure.load for figure in under_load([FINAL], 1.234)] == [1.23]


def test_the_table_says_all_of_a_figure() -> None:
    missed = replace(FINAL, floor=0.59)
    part = replace(FINAL, name="P1 decode", ratio=2.5, load=None, date="")
    said = table([part, missed, Figure("P12 the DAG", None, 1.0, False)])
    whole, parts = said.split("Parts of these:")
    assert (
        "| P4 deletion | ≥ 2 | 1.80, **missed** | 2.8 s | 5 s | 0.56 | 0.59 s | 4.75 | 5 | 2026-11-28 | 0.1 |" in whole
    )
    assert "| P12 the DAG | ≤ 1 | not measured yet | | | | | | | | |" in whole
    assert "| P1 decode | ≥ 2 | 2.50 | 2.8 s | 5 s | 0.56 |  |  | 5 |  | not counted |" in parts
    columns = {line.count("|") for line in said.splitlines() if line.startswith("|")}
    assert columns == {12}


def test_a_table_takes_the_place_of_the_older_one_alone() -> None:
    page = f"before\n{reporting.BEGIN}\nold\n{reporting.END}\nafter\n"
    once = with_table(page, [FINAL])
    assert "old" not in once
    assert (once.startswith("before\n"), once.endswith("\nafter\n")) == (True, True)
    assert with_table(once, [FINAL]) == once
    with pytest.raises(AssertionError, match="has no"):
        with_table("before", [FINAL])


def test_the_page_has_the_table_of_the_figures() -> None:
    page, figures = reporting.PAGE.read_text(), read_figures()
    assert with_table(page, figures) == page, "write it with benchmarks.reporting.with_table"
    assert len({figure.name for figure in figures}) == len(figures)


def test_the_load_is_what_nobody_of_ours_has_worked(monkeypatch: pytest.MonkeyPatch) -> None:
    # Ten seconds in which the cores worked for 12 s, 5 of them for us.
    for name, first, last in (("_busy_seconds", 100.0, 112.0), ("_own_seconds", 3.0, 8.0)):
        monkeypatch.setattr(reporting, name, iter((first, last)).__next__)
    monkeypatch.setattr(reporting.time, "monotonic", iter((20.0, 30.0)).__next__)
    with Load() as load:
        pass
    assert load.cores == pytest.approx(0.7)


def test_children_that_were_waited_for_are_ours() -> None:
    before, busy = reporting._own_seconds(), reporting._busy_seconds()
    subprocess.run([sys.executable, "-c", BURNS], check=True)
    assert reporting._own_seconds() - before >= 0.5
    assert reporting._busy_seconds() - busy >= 0.4


def test_every_benchmark_with_figures_is_run_and_none_other() -> None:
    with_figures = {
        path.stem
        for path in (ROOT / "benchmarks").glob("*.py")
        if "add_option(parser)" in path.read_text() and path.stem != "reporting"
    }
    assert with_figures == set(bench.TRIES)
