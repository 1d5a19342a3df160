# SPDX-License-Identifier: Apache-2.0
"""
``--seeds=N`` plays more stories, or fewer; ``make test`` plays few. Every run plays others: ``--first-seed=N`` repeats it.
"""

from __future__ import annotations

import random

import pytest

WHOLE = 2000
"""What ``make simulate`` plays; with fewer, runs are killed at every effect of fewer seeds."""

LAST = 1_000_000_000
"""Where the seeds of a run begin below that."""


def pytest_addoption(parser: pytest.Parser) -> None:
    fresh = random.SystemRandom().randrange(LAST)
    parser.addoption("--seeds", type=int, default=WHOLE, help="number of simulated seeds")
    parser.addoption("--first-seed", type=int, default=fresh, help="the first of them (default: drawn)")


def played(config: pytest.Config) -> range:
    """Return the seeds of this run."""
    first = int(config.getoption("--first-seed"))
    return range(first, first + int(config.getoption("--seeds")))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.write_line(_again(played(config)))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Say which stories these are before the first one is played: who ends a run of hours can repeat it."""
    session.config.get_terminal_writer().line(_again(played(session.config)))


def _again(seeds: range) -> str:
    many = len(seeds)
    return f"{many} stories of each kind; again with --first-seed={seeds.start} --seeds={many}"


@pytest.fixture(scope="session")
def seeds(request: pytest.FixtureRequest) -> range:
    return played(request.config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Kill runs at every effect of the seeds that a test names; where few stories are played, of the first of them alone."""
    if "exhaustive_seed" in metafunc.fixturenames:
        named = metafunc.module.EXHAUSTIVE_SEEDS
        whole = len(played(metafunc.config)) >= WHOLE
        metafunc.parametrize("exhaustive_seed", named if whole else named[:1])
