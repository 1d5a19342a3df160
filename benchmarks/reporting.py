# SPDX-License-Identifier: Apache-2.0
"""
Figures of budgets as data: what a benchmark has measured, under which load of others, and the table of docs/benchmarks.md.

Each benchmark prints its budgets by :func:`report`, and leaves their figures in a file where it is told to. ``python -m
benchmarks`` collects them; what is final takes the place of the older figure in :data:`FIGURES`, of which the table is made.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

from benchmarks.measuring import Budget

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
FIGURES = Path(__file__).with_name("figures.json")
"""What the table says: one figure for each budget, the last one that was final."""
BEGIN, END = "<!-- figures: made by make bench -->", "<!-- end of figures -->"
LEAST_RUNS = 3
MOST_LOAD = 0.5
"""Cores that other processes may keep busy while a figure is measured that is to be final."""
COMPONENTS = ("P1 ", "P2 ", "P8 mark and plan, nothing kept", "P8 peak memory", "P9 an ", "P4 4 user")
"""How the names of budgets begin that are about a part of what a user starts: their figures stand below the table."""
NOT_MEASURED = "not measured yet"

FIVE_UNLINKS = (59e-6, "five unlinks of a segment, by the kernel")
FLOORS: Mapping[str, tuple[float, str]] = {
    "P4 4 user partitions": FIVE_UNLINKS,
    "P4 tasks by execute": FIVE_UNLINKS,
    "P4 rlmm clean, 4 user": FIVE_UNLINKS,
    "P7 ": (0.27e-6, "reading alone, gathered by compiled code from librdkafka's batches"),
    "P8 mark and plan": (0.27e-6, "reading alone, gathered by compiled code from librdkafka's batches"),
}
"""How a budget's name begins → seconds that each of its values takes at least, whoever does it, and what takes them."""


@dataclass(frozen=True, slots=True)
class Figure:
    """
    One budget, and what was measured of it.

    :param name: of the budget.
    :param ratio: what the budget is about; ``None`` where it was not measured yet.
    :param bound: the budget.
    :param at_least: whether the ratio must be at least the bound; at most, otherwise.
    :param measured: median of the runs.
    :param peer: likewise, of the peer; ``None`` where there is none.
    :param unit: of both.
    :param floor: what would be measured at least, see :data:`FLOORS`; ``None`` where nobody knows.
    :param runs: of each side.
    :param date: of the run, YYYY-MM-DD.
    :param load: cores that others kept busy meanwhile; ``None`` where nobody counted.
    """

    name: str
    ratio: float | None
    bound: float
    at_least: bool
    measured: float | None = None
    peer: float | None = None
    unit: str = "s"
    floor: float | None = None
    runs: int = 0
    date: str = ""
    load: float | None = None

    @classmethod
    def of(cls, budget: Budget) -> Figure:
        """
        Return what a budget says, before anybody has said under which load.

        :param budget: as it is printed.
        """
        each = next((floor for begin, (floor, _) in FLOORS.items() if budget.name.startswith(begin)), None)
        return cls(
            budget.name,
            budget.ratio if budget.measured else None,
            budget.bound,
            budget.at_least,
            statistics.median(budget.ours) if budget.ours else None,
            statistics.median(budget.peer) if budget.peer else None,
            budget.unit,
            each * budget.count if each and budget.count else None,
            len(budget.ours),
            time.strftime("%Y-%m-%d"),
        )

    @property
    def met(self) -> bool:
        """Whether the budget is kept; what was not measured keeps none."""
        if self.ratio is None:
            return False
        return self.ratio >= self.bound if self.at_least else self.ratio <= self.bound

    @property
    def why_not_final(self) -> str:
        """Why the figure may not take the place of an older one; empty where it may."""
        if self.ratio is None:
            return "it was not measured"
        if self.runs < LEAST_RUNS:
            return f"{self.runs} runs, of at least {LEAST_RUNS}"
        if self.load is None:
            return "nobody counted the load of others"
        return f"others kept {self.load:.1f} cores busy, of at most {MOST_LOAD}" if self.load > MOST_LOAD else ""

    def row(self) -> str:
        """Return its line of the table."""
        sign = "≥" if self.at_least else "≤"
        if self.ratio is None:
            return f"| {self.name} | {sign} {self.bound:g} | {NOT_MEASURED} |{' |' * 8}"
        cells = (
            self.name,
            f"{sign} {self.bound:g}",
            f"{self.ratio:.2f}{'' if self.met else ', **missed**'}",
            self._amount(self.measured),
            self._amount(self.peer),
            self._times(self.peer),
            self._amount(self.floor),
            self._times(self.floor),
            str(self.runs or ""),
            self.date,
            "not counted" if self.load is None else f"{self.load:.1f}",
        )
        return f"| {' | '.join(cells)} |"

    def _times(self, other: float | None) -> str:
        return "" if not other or self.measured is None else f"{self.measured / other:.2f}"

    def _amount(self, amount: float | None) -> str:
        return "" if amount is None else f"{amount:,.3g} {self.unit}" if amount < 1000 else f"{amount:,.0f} {self.unit}"


def add_option(parser: argparse.ArgumentParser) -> None:
    """
    Let a benchmark be told where to leave its figures.

    :param parser: of its arguments.
    """
    parser.add_argument("--figures", type=Path, metavar="FILE", help="leave the figures there as JSON, too")


def report(budgets: Iterable[Budget | str], figures: Path | None = None) -> int:
    """
    Print budgets as they are measured, and leave their figures.

    :param budgets: and what else a benchmark says, a line each.
    :param figures: the file for them; ``None``: nobody wants them.
    :return: the exit code: 1 where a budget is missed.
    """
    found: list[Budget] = []
    for line in budgets:
        print(line, flush=True)
        if isinstance(line, Budget):
            found.append(line)
            if figures is not None:
                # After each of them: what was measured stays where a later one fails.
                figures.write_text(json.dumps([asdict(Figure.of(budget)) for budget in found]))
    return 0 if all(budget.met for budget in found) else 1


class Load:
    """Counts how many cores other processes than this one and its children keep busy while the block runs."""

    def __init__(self) -> None:
        self.cores = 0.0

    def __enter__(self) -> Load:
        self._began = time.monotonic(), _busy_seconds(), _own_seconds()
        return self

    def __exit__(self, *_: object) -> None:
        began, busy, own = self._began
        others = _busy_seconds() - busy - (_own_seconds() - own)
        self.cores = max(0.0, others) / (time.monotonic() - began)


def _busy_seconds() -> float:
    """Return for how long the cores of this machine have worked, those together, or were taken by its host."""
    first = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, softirq, steal = map(int, first[:8])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    """Return the processor time of this process, and of all its descendants that have ended and were waited for."""
    return sum(usage.ru_utime + usage.ru_stime for usage in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))


def read_figures(path: Path = FIGURES) -> list[Figure]:
    """
    Read figures.

    :param path: of a file that :func:`report` or :func:`write_figures` has written.
    """
    return [Figure(**plain) for plain in json.loads(path.read_text())]


def write_figures(figures: Sequence[Figure], path: Path = FIGURES) -> None:
    """
    Write figures, one a line.

    :param figures: what is written.
    :param path: the file.
    """
    lines = ",\n".join(json.dumps(asdict(figure), ensure_ascii=False) for figure in figures)
    path.write_text(f"[\n{lines}\n]\n")


def taken_over(old: Sequence[Figure], new: Sequence[Figure]) -> list[Figure]:
    """
    Return the older figures, those replaced that are new and final.

    :param old: what the table says.
    :param new: what was measured now.
    """
    final = {figure.name: figure for figure in new if not figure.why_not_final}
    kept = [final.pop(figure.name, figure) for figure in old]
    return [*kept, *final.values()]


def under_load(figures: Sequence[Figure], cores: float) -> list[Figure]:
    """
    Return figures that say under which load they were measured.

    :param figures: of one benchmark.
    :param cores: that others kept busy meanwhile.
    """
    return [replace(figure, load=round(cores, 2)) for figure in figures]


def table(figures: Sequence[Figure]) -> str:
    """
    Return the table of docs/benchmarks.md, and the one of components below it.

    :param figures: of all budgets.
    """
    parts = [figure for figure in figures if figure.name.startswith(COMPONENTS)]
    whole = [figure for figure in figures if figure not in parts]
    floors = "; ".join(f"{begin.strip()}: {1e6 * each:g} µs, {what}" for begin, (each, what) in FLOORS.items())
    names = ("", "budget", "ratio", "measured", "peer", "of it", "bound", "of it", "n", "date", "load")
    head = f"| {' | '.join(names)} |\n|{'---|' * len(names)}"
    return "\n".join(
        [
            head,
            *(figure.row() for figure in whole),
            "",
            f"Bounds, for each value: {floors}.",
            "",
            "Parts of these:",
            "",
            head,
        ]
        + [figure.row() for figure in parts]
    )


def with_table(page: str, figures: Sequence[Figure]) -> str:
    """
    Return the page with the table of today's figures.

    :param page: the text of docs/benchmarks.md.
    :param figures: of all budgets.
    """
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    assert found, f"{PAGE.name} has no {BEGIN} and {END}"
    return f"{before}{BEGIN}\n{table(figures)}\n{END}{after}"
