# SPDX-License-Identifier: Apache-2.0
"""How many bytes per second are moved: Kafka's read and copy quotas of the remote log."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock


class ByteQuota:
    """
    Lets bytes pass at a rate. One object is shared by all threads that move bytes under the same quota.

    What passes is paid for by those who come after it. So a chunk of any size passes, the first one at once, and over any
    time no more passes than the rate allows and one chunk.

    :param bytes_per_second: the rate.
    :param clock: seconds, monotonic.
    :param sleep: waits for seconds. One that returns early, such as ``Event.wait``, lets the chunk pass early.
    :raises ValueError: if the rate is not above 0.
    """

    def __init__(
        self,
        bytes_per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        if not bytes_per_second > 0:
            raise ValueError(f"a quota must be above 0 bytes per second, not {bytes_per_second}")
        self._bytes_per_second = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._lock = Lock()
        self._free_at = clock()

    def take(self, size: int) -> None:
        """
        Wait until a chunk may pass.

        :param size: its bytes.
        """
        with self._lock:
            now = self._clock()
            begin = max(now, self._free_at)
            self._free_at = begin + size / self._bytes_per_second
        if begin > now:
            self._sleep(begin - now)
