# SPDX-License-Identifier: Apache-2.0
"""How fast a copier copies, and when it stops within a segment."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from airflow_provider_rlmm.core.base.errors import CopyCancelledError
from airflow_provider_rlmm.core.segments.pacing import ByteQuota

_NAP_S: Final = 0.5
"""The longest wait without asking whether to go on."""


class CopyPace:
    """
    Called before each chunk: it asks whether to go on, and waits for the quota.

    :param bytes_per_second: the most on an average, ``None`` for no limit.
    :param why_stop: returns why to stop now, ``None`` to go on.
    :param clock: seconds, monotonic.
    :param sleep: waits for seconds.
    """

    def __init__(
        self,
        bytes_per_second: int | None,
        why_stop: Callable[[], str | None],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._why_stop = why_stop
        self._clock = clock
        self._sleep = sleep
        self._quota = ByteQuota(bytes_per_second, clock=clock, sleep=self._nap)

    def __call__(self, size: int) -> None:
        """
        Wait until a chunk may be sent.

        :param size: its bytes.
        :raises CopyCancelledError: if the copy is to stop.
        """
        self._ask()
        self._quota.take(size)

    def _nap(self, seconds: float) -> None:
        until = self._clock() + seconds
        while (left := until - self._clock()) > 0:
            self._sleep(min(left, _NAP_S))
            self._ask()

    def _ask(self) -> None:
        if (why := self._why_stop()) is not None:
            raise CopyCancelledError(f"the copy was stopped in the middle of a segment, which is taken back: {why}")
