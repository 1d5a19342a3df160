# SPDX-License-Identifier: Apache-2.0
"""Disks that are not waited for, in tests where no machine loses its power; a conftest imports the fixture by its name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from unittest.mock import patch

import pytest


@pytest.fixture(scope="session", autouse=True)
def nothing_is_synced() -> Iterator[None]:
    """
    Have ``os.fsync`` return at once: thousands of calls, each of which waits for the disk.

    What was synced differs from what was not after a crash of the machine alone. Tests of what is synced, and when, put a
    function of their own there.
    """
    with patch.object(os, "fsync", lambda file: None):
        yield
