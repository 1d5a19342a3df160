# SPDX-License-Identifier: Apache-2.0
"""
Look at a change in half a minute: ``make quick``.

It lints the Python files that differ from main, has mypy follow what they change, and runs every unit and property test that
neither imports Airflow nor is marked ``slow``. Properties are tried with a tenth of their examples. A file's imports tell
whether it imports Airflow: a test's own, those of the ``conftest.py`` files above it, and those of the helpers that these
import. A face package of ours stands for Airflow.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from dev.lanes import Took, run, table

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("tests/unit", "tests/property")
PROCESSES = 2
TIMES = ROOT / "build" / "quick"
"""Where each process leaves what its files took, for the next look to deal them evenly."""
EXAMPLES = "10"
"""In percent, where the environment says nothing else (tests/examples.py)."""

PACKAGE = "airflow_provider_rlmm"
FACE = (
    *("assets", "dag_factory", "hooks", "links", "notifications", "observability"),
    *("operators", "plugins", "sensors", "settings", "task_groups", "triggers"),
)
AIRFLOW = ("airflow", "dags", "tests.airflow_home", *(f"{PACKAGE}.{room}" for room in FACE))
"""Whoever imports one of these, or what lies below it, imports Airflow."""

HELPERS = ("tests", "dev", "benchmarks")
"""Modules below these are read, too: below the face nothing else of ours imports Airflow, which ``make lint`` checks."""


@dataclass(frozen=True)
class Share:
    """
    How many test functions there are; parameters count nothing, nor do tests that a class inherits.

    :param quick: those that neither import Airflow nor are slow.
    :param airflow: those of files that import Airflow.
    :param slow: the rest, which is marked ``slow``.
    """

    quick: int
    airflow: int
    slow: int

    def __str__(self) -> str:
        of = self.quick + self.airflow + self.slow
        percent = 100 * self.quick // of if of else 0
        return (
            f"{self.quick:,} of {of:,} test functions ({percent} %): "
            f"{self.airflow:,} import Airflow, {self.slow:,} are slow"
        )


class Sources:
    """
    The Python files of a project, each read once.

    :param root: the folder from which modules are imported.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.parsed = cache(self._parsed)
        self._imported = cache(self._imported_once)

    def _parsed(self, path: Path) -> ast.Module:
        return ast.parse(path.read_bytes(), str(path))

    def _imported_once(self, path: Path) -> frozenset[str]:
        """Return the names that a file imports, anywhere in it; of ``from a import b`` both ``a`` and ``a.b``."""
        found: set[str] = set()
        for node in ast.walk(self.parsed(path)):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        return frozenset(found)

    def imports_airflow(self, test: Path) -> bool:
        """Tell whether a file of tests imports Airflow: itself, by a ``conftest.py`` above it, or by a helper."""
        above = [folder / "conftest.py" for folder in test.parents if folder.is_relative_to(self.root)]
        waiting = [test, *(path for path in above if path.is_file())]
        seen: set[Path] = set()
        while waiting:
            path = waiting.pop()
            if path in seen:
                continue
            seen.add(path)
            names = self._imported(path)
            if any(_lies_in(name, AIRFLOW) for name in names):
                return True
            waiting += [file for name in names if _lies_in(name, HELPERS) for file in self._files_of(name)]
        return False

    def _files_of(self, module: str) -> Iterator[Path]:
        place = self.root.joinpath(*module.split("."))
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.is_file():
                yield file

    def tests_of(self, path: Path) -> Iterator[bool]:
        """Yield, for each test function of a file, whether it is marked ``slow``."""
        body = self.parsed(path).body
        everything = any(isinstance(node, ast.Assign) and _is_slow(node.value) for node in body if _is_marks(node))
        for node in body:
            if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                slow = everything or any(map(_is_slow, node.decorator_list))
                yield from (slow or is_slow for is_slow in _functions(node.body))
        yield from (everything or is_slow for is_slow in _functions(body))


def _lies_in(name: str, rooms: Iterable[str]) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


def _is_marks(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets)


def _is_slow(marks: ast.expr) -> bool:
    return any(isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.mark.slow" for node in ast.walk(marks))


def _functions(body: Sequence[ast.stmt]) -> Iterator[bool]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            # A mark on one of many parameters leaves the others.
            yield any(_is_slow(mark) for mark in node.decorator_list if "parametrize" not in ast.unparse(mark))


def quick_tests(root: Path, folders: Iterable[str]) -> tuple[list[Path], Share]:
    """
    Return the files of tests that import no Airflow, and the share of their quick tests.

    :param root: the folder from which modules are imported.
    :param folders: where the tests lie, below the root.
    """
    sources, files = Sources(root), []
    quick = airflow = slow = 0
    for path in sorted(path for folder in folders for path in (root / folder).rglob("test_*.py")):
        marks = list(sources.tests_of(path))
        if sources.imports_airflow(path):
            airflow += len(marks)
            continue
        slow += sum(marks)
        quick += len(marks) - sum(marks)
        if not all(marks):
            files.append(path)
    return files, Share(quick, airflow, slow)


def changed_files(root: Path) -> list[str]:
    """
    Return the Python files that differ from main, new ones included: paths below the root.

    Where there is no main, as in a clone of one commit, it is what differs from the last commit.
    """

    def git(*arguments: str) -> list[str]:
        done = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True)
        return done.stdout.split("\0") if "-z" in arguments else done.stdout.split()

    try:
        (base,) = git("merge-base", "main", "HEAD")
    except subprocess.CalledProcessError:
        base = "HEAD"
    names = git("diff", "-z", "--name-only", "--diff-filter=d", base) + git(
        "ls-files", "-z", "-o", "--exclude-standard"
    )
    return sorted(name for name in set(names) if name.endswith(".py"))


def dealt(files: Sequence[Path], took: Mapping[str, float]) -> list[list[Path]]:
    """
    Return the files of each process, so that all take about as long.

    :param files: the files of tests.
    :param took: path below the root → processor time that it took last, seconds; files that are not in there count as one
        of the middle.
    """
    known = sorted(took.values())
    middle = known[len(known) // 2] if known else 1.0
    cost = {file: took.get(_below(file), middle) for file in files}
    hands: list[list[Path]] = [[] for _ in range(PROCESSES)]
    for file in sorted(files, key=lambda file: -cost[file]):
        min(hands, key=lambda hand: sum(cost[f] for f in hand)).append(file)
    return [sorted(hand) for hand in hands]


def _below(file: Path) -> str:
    return str(file.relative_to(ROOT) if file.is_relative_to(ROOT) else file)


def times() -> dict[str, float]:
    """Return what the files took last, and forget it: path below the root → processor time, seconds."""
    found: dict[str, float] = {}
    for kept in TIMES.glob("*.json"):
        found |= json.loads(kept.read_text())
        kept.unlink()
    return found


def commands(changed: Sequence[str], files: Sequence[Path], took: Mapping[str, float]) -> dict[str, list[str]]:
    """
    Return what runs side by side: name → command.

    :param changed: the files to lint.
    :param files: the files of tests to run, dealt to the processes.
    :param took: what they took last, see :func:`dealt`.
    """
    python = [sys.executable, "-m"]
    lint = {"ruff": [*python, "ruff", "check", *changed], "format": [*python, "ruff", "format", "--check", *changed]}
    test = [*python, "pytest", "-q", "-p", "no:cacheprovider", "-p", "dev.quick", "-m", "not slow"]
    hands = dealt(files, took)
    tests = {f"tests {number}": [*test, *map(str, hand)] for number, hand in enumerate(hands, 1) if hand}
    # mypy's cache tells what the change touches, in files that import what changed, too.
    return {**(lint if changed else {}), **tests, **({"mypy": [*python, "mypy"]} if changed else {})}


def pytest_configure() -> None:
    """As a plugin of the processes that test: wait for no disk, which these tests would do nine thousand times."""
    os.fsync = lambda fd: None


_took: defaultdict[str, float] = defaultdict(float)
_last = [time.process_time()]


def pytest_itemcollected(item: pytest.Item) -> None:
    """As a plugin: note what the import of a file took, with its first test."""
    _note(item.nodeid)


def pytest_runtest_logfinish(nodeid: str) -> None:
    """As a plugin: note what a test took."""
    _note(nodeid)


def _note(nodeid: str) -> None:
    now = time.process_time()
    _took[nodeid.partition("::")[0]] += now - _last[0]
    _last[0] = now


def pytest_sessionfinish(session: pytest.Session) -> None:
    """As a plugin of the processes that test: keep what its files took; fail where Airflow was imported all the same."""
    TIMES.mkdir(parents=True, exist_ok=True)
    (TIMES / f"{os.getpid()}.json").write_text(json.dumps(_took))
    if "airflow" in sys.modules:
        print("\nA test has imported Airflow, and no import says so: mark it slow, or import at the top of its file.")
        session.exitstatus = 1


def main() -> int:
    """Lint, type-check and test a change; return 0 where all of it passed."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    began = time.monotonic()
    changed = changed_files(ROOT)
    files, share = quick_tests(ROOT, FOLDERS)
    os.environ.setdefault("EXAMPLES", EXAMPLES)
    took: list[Took] = list(run(commands(changed, files, times()), PROCESSES + 1))
    print(table(took, time.monotonic() - began))
    print(f"{len(changed)} changed files; {share}")
    return 0 if all(ended.code == 0 for ended in took) else 1


if __name__ == "__main__":
    sys.exit(main())
