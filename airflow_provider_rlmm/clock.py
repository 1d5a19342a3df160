# SPDX-License-Identifier: Apache-2.0
"""Time as an argument: whoever needs it takes a ``Clock``, so that tests can turn the hands."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Returns the current time, ms since the epoch."""

HOUR_MS = 3_600_000

MAX_CLOCK_SKEW_MS = 300_000
"""How far two clocks may differ before they contradict each other, ms."""


def system_clock() -> int:
    """Return the wall clock, ms since the epoch."""
    return time.time_ns() // 1_000_000
