# SPDX-License-Identifier: Apache-2.0
"""``--seeds=N`` plays more stories, or fewer; ``make test`` plays few."""

from __future__ import annotations

import pytest

WHOLE = 2000
"""What ``make simulate`` plays; with fewer, runs are killed at every effect of fewer seeds."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", type=int, default=WHOLE, help="number of simulated seeds")


@pytest.fixture(scope="session")
def seeds(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--seeds"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Kill runs at every effect of the seeds that a test names; where few stories are played, of the first of them alone."""
    if "exhaustive_seed" in metafunc.fixturenames:
        named = metafunc.module.EXHAUSTIVE_SEEDS
        whole = int(metafunc.config.getoption("--seeds")) >= WHOLE
        metafunc.parametrize("exhaustive_seed", named if whole else named[:1])
