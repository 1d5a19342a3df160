# SPDX-License-Identifier: Apache-2.0
"""How long a start or a wait may take, on a machine that has other work too."""

from __future__ import annotations

import os
import time
from typing import Final

MOST_SLOWED_DOWN: Final = 20.0
"""By how much a busy machine may slow a wait down, as far as this is believed."""


class Patience:
    """
    A time limit in seconds of an idle machine: where processes wait for the processors, it passes more slowly.

    A fixed limit fails what only waits for its turn, and a limit that is long enough for every machine is none.

    :param seconds: as long as there is a processor for everybody.
    """

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._asked_at = time.monotonic()

    def over(self) -> bool:
        """Tell whether the time is up; to be asked again and again."""
        now = time.monotonic()
        self._left -= (now - self._asked_at) / _slowed_down()
        self._asked_at = now
        return self._left <= 0


def _slowed_down() -> float:
    """Return how many processes share a processor, on average over the last minute; 1 where each has its own."""
    share = os.getloadavg()[0] / (os.cpu_count() or 1)
    return min(max(1.0, share), MOST_SLOWED_DOWN)
