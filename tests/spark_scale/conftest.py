# SPDX-License-Identifier: Apache-2.0
"""``--scale=0.01`` makes the topics a hundredth as large, to try the tests themselves."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--scale", type=float, default=1.0, help="share of the records (default: 1, which is 1.25 million)"
    )


@pytest.fixture(scope="session")
def scale(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--scale"))
