# SPDX-License-Identifier: Apache-2.0
"""``--seeds=N`` runs more seeds than CI does."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", type=int, default=2000, help="number of simulated seeds")


@pytest.fixture(scope="session")
def seeds(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--seeds"))
