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


def duration_in_words(duration_ms: int) -> str:
    """
    Return a duration for people, such as ``23 h 47 min``; it is rounded up, so that a wait is over when it says so.

    :param duration_ms: ms, 0 or more.
    """
    seconds = -(-duration_ms // 1000)
    if seconds < 60:
        return f"{seconds} s"
    hours, minutes = divmod(-(-seconds // 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
