# SPDX-License-Identifier: Apache-2.0
"""
Break the package on purpose, once per row of the table, and see each break caught: ``python -m tests.mutations``.

Each mutation is applied to a copy of the package, which is mended behind it. A text that is not there exactly once is an error, so the table cannot
silently fall behind the code; a mutation that its test or the simulation does not notice fails the run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue

from tests.mutations.forked import play_seeds, run_forked, run_pytest
from tests.mutations.mutation import Mutation
from tests.mutations.table import MUTATIONS, as_markdown

ROOT = Path(__file__).parents[2]
SEEDS = 600  # it ends at the first one that notices
TIMEOUT_S = 900
ASIDE = ".whole"
UNIT_TESTS = (
    "features/cleanup",
    "features/scrub",
    "features/archiving",
    "features/survey",
    "library/test_topic_based.py",
    "features/copying",
    "core",
)


def mutated(source: str, mutation: Mutation) -> str:
    """
    Return the broken source.

    :raises ValueError: if the text to break is not there exactly once.
    """
    if (count := source.count(mutation.old)) != 1:
        raise ValueError(f"{mutation.file} has the text of {mutation.name!r} {count} times")
    return source.replace(mutation.old, mutation.new)


class Copies:
    """
    Copies of the package, of what lies inside of it in a wheel, and of the tests, one for each row that runs at a time.

    Each is made once: to copy two thousand files takes as long as most rows.
    """

    def __init__(self, folder: Path, many: int) -> None:
        """
        :param folder: where they are made.
        :param many: how many rows run at a time.
        """
        self._free: SimpleQueue[Path] = SimpleQueue()
        for number in range(many):
            copy = folder / f"copy-{number}"
            copy.mkdir()
            shutil.copy(ROOT / "pyproject.toml", copy)
            for part in ("airflow_provider_rlmm", "benchmarks", "dags", "spark_jobs", "tests"):
                # Compiled modules come along and stay valid.
                shutil.copytree(ROOT / part, copy / part)
            self._free.put(copy)

    @contextmanager
    def broken(self, mutation: Mutation) -> Iterator[Path]:
        """Break a copy that is free, and mend it afterwards; what tests left beside the code goes, too."""
        copy = self._free.get()
        target = copy / "airflow_provider_rlmm" / mutation.file
        try:
            with set_aside(target), set_aside(Path(cache_from_source(str(target)))):
                target.write_text(mutated((target.parent / f"{target.name}{ASIDE}").read_text(), mutation))
                yield copy
        finally:
            shutil.rmtree(copy / ".hypothesis", ignore_errors=True)
            self._free.put(copy)


@contextmanager
def set_aside(file: Path) -> Iterator[None]:
    """Have a file out of the way for a while, if there is one: it comes back with its time, by which compiled modules are valid."""
    aside = file.parent / f"{file.name}{ASIDE}"
    there = file.exists()
    if there:
        file.rename(aside)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        if there:
            aside.rename(file)


def failing_test(copy: Path, *tests: str) -> str | None:
    """Return the first unit test that fails, ``None`` where none does."""
    paths = [f"tests/unit/{test}" for test in tests]
    code, output = run_forked(copy, run_pytest, *paths, timeout_s=TIMEOUT_S)
    failed = [line.split()[1] for line in output.splitlines() if line.startswith("FAILED ")]
    if code != bool(failed):
        raise RuntimeError(f"pytest {paths} ended with {code}: {output[-4000:]}")
    return failed[0].removeprefix("tests/unit/").partition("[")[0] if failed else None


def broken_invariant(copy: Path) -> str | None:
    """Return what the simulation says of the first seed that breaks an invariant, ``None`` where none does."""
    code, output = run_forked(copy, play_seeds, SEEDS, timeout_s=TIMEOUT_S)
    if code == 0:
        return None
    last = output.strip().splitlines()[-1]
    if not last.startswith("AssertionError: seed "):
        raise RuntimeError(f"the simulation ended with {code}: {output[-4000:]}")
    return last.removeprefix("AssertionError: ")


def check(copies: Copies, mutation: Mutation) -> str | None:
    """Return what let a mutation survive, ``None`` where everything that must notice it does."""
    try:
        return _check(copies, mutation)
    except (RuntimeError, TimeoutError) as e:
        return str(e)


def _check(copies: Copies, mutation: Mutation) -> str | None:
    with copies.broken(mutation) as copy:
        if mutation.test and failing_test(copy, mutation.test) is None:
            return f"{mutation.test} does not notice it"
        if mutation.simulated and broken_invariant(copy) is None:
            return f"{SEEDS} simulated seeds do not notice it"
    return None if mutation.test or mutation.simulated else "the table names nothing that must notice it"


def find(copies: Copies, mutation: Mutation) -> str:
    """Return who notices a mutation."""
    with copies.broken(mutation) as copy:
        return f"{failing_test(copy, *UNIT_TESTS)} | {broken_invariant(copy)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only mutations whose names contain one of these")
    parser.add_argument("--find", action="store_true", help="say who notices each mutation, whatever the table says")
    parser.add_argument("--table", action="store_true", help="print the table of docs/proofs.md")
    options = parser.parse_args()
    if options.table:
        print(as_markdown(), end="")  # noqa: T201
        return 0
    chosen = [m for m in MUTATIONS if not options.names or any(name in m.name for name in options.names)]
    began = time.monotonic()
    survivors = 0
    many = os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder, ThreadPoolExecutor(many) as pool:
        job = partial(find if options.find else check, Copies(Path(folder), many))
        for mutation, answer in zip(chosen, pool.map(job, chosen), strict=True):
            survived = answer is not None and not options.find
            survivors += survived
            verdict = answer if options.find else f"SURVIVED: {answer}" if survived else "caught"
            print(f"{mutation.promise}: {mutation.name}: {verdict}", flush=True)  # noqa: T201  # a program's output
    print(f"{len(chosen)} mutations, {survivors} survived, {time.monotonic() - began:.0f} s")  # noqa: T201
    return 1 if survivors or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
