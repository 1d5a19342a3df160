# SPDX-License-Identifier: Apache-2.0
"""``--gib=10`` makes the remote log larger."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gib", type=float, default=2.0, help="GiB of segments (default: 2)")
