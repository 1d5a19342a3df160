# SPDX-License-Identifier: Apache-2.0
"""
Python processes that have imported already what no mutation touches: Airflow and Arrow take longer than most tests.

A server imports the libraries once and forks for each mutation. Package and tests are imported in the fork, from the broken copy.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUTPUT = "output.txt"
OURS = ("airflow_provider_rlmm", "tests")

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.mutations.libraries"])


def run_forked(copy: Path, job: Callable[..., int], *arguments: object, timeout_s: float) -> tuple[int, str]:
    """
    Run a job in a copy of package and tests.

    :param copy: where the copy lies; what the job leaves in a temporary place is gone afterwards.
    :param job: a function of a module; it imports what it needs by itself.
    :param arguments: for the job.
    :param timeout_s: seconds that it may take.
    :return: what it returned, and what it wrote.
    :raises TimeoutError: if it takes longer.
    """
    with tempfile.TemporaryDirectory(prefix="mutation-") as scratch:
        process = _FORKS.Process(target=_run, args=(str(copy), scratch, job, arguments))
        process.start()
        process.join(timeout_s)
        if process.is_alive():
            process.kill()
            process.join()
            raise TimeoutError(f"{job.__name__}{arguments} takes longer than {timeout_s} s")
        return process.exitcode or 0, (Path(scratch) / OUTPUT).read_text(errors="replace")


def _run(copy: str, scratch: str, job: Callable[..., int], arguments: tuple[object, ...]) -> None:
    target = os.open(Path(scratch) / OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.chdir(copy)
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]
    # Tests also import what is not copied.
    sys.path[:] = [copy, *(path for path in sys.path if Path(path).resolve() != ROOT), str(ROOT)]
    importlib.invalidate_caches()
    tempfile.tempdir = scratch
    os.environ |= {"PYTHONPATH": copy, "TMPDIR": scratch}
    sys.exit(job(*arguments))


def run_pytest(*arguments: str) -> int:
    """Run tests; what :func:`run_forked` takes."""
    import pytest

    return int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "pytest_timeout", *arguments]))


def play_seeds(seeds: int) -> int:
    """Play the first seeds of the simulation; what :func:`run_forked` takes."""
    from tests.simulation.runs import play_chunk

    logging.disable(logging.CRITICAL)
    play_chunk(range(seeds))
    return 0
