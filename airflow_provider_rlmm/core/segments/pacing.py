# SPDX-License-Identifier: Apache-2.0
"""How fast bytes may flow, and for how long a storage that does not answer is asked again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from threading import Lock
from typing import Final, TypeVar

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    StorageError,
    StorageRootError,
    StorageUnavailableError,
)

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 10.0

Answer = TypeVar("Answer")

MAX_FAILURES: Final = 10
"""Segments in a row of which storage hands out nothing before the others are not asked for: each may cost a time-out."""


class ByteQuota:
    """
    Lets no more bytes per second flow than a limit, on average; safe under threads.

    :param bytes_per_second: the limit, ``None`` for none.
    :param clock: seconds, monotonic.
    :param sleep: waits for seconds.
    :raises ConfigurationError: if the limit is not above 0.
    """

    def __init__(
        self,
        bytes_per_second: int | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        if bytes_per_second is not None and bytes_per_second <= 0:
            raise ConfigurationError(f"bytes_per_second is {bytes_per_second}: a quota is above 0, or there is none")
        self.bytes_per_second = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._free_at = clock()
        self._lock = Lock()

    def take(self, size: int) -> None:
        """
        Wait until so many bytes may flow.

        :param size: bytes; more than a second's worth makes the next caller wait the longer.
        """
        if self.bytes_per_second is None:
            return
        with self._lock:
            begin = max(self._free_at, self._clock())
            self._free_at = begin + size / self.bytes_per_second
        if (delay := begin - self._clock()) > 0:
            self._sleep(delay)


class StoragePatience:
    """
    Asks a storage again that does not answer, after pauses that double and have jitter, until the time is up.

    :param timeout_s: seconds after the first try of a call, from which on it is not tried again.
    :param clock: seconds, monotonic.
    :param sleep: waits for seconds.
    :param jitter: returns a number from 0 to 1, exclusive.
    """

    def __init__(
        self,
        timeout_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.timeout_s = timeout_s
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter

    def call(self, ask: Callable[[], Answer]) -> Answer:
        """
        Return what a call to the storage returns in the end.

        :raises StorageUnavailableError: if it fails in a way that may pass, until the time is up.
        :raises StorageError: if it fails in another way, at once.
        """
        begun, pause_s, tries = self._clock(), FIRST_PAUSE_S, 0
        while True:
            tries += 1
            try:
                return ask()
            except StorageError as e:
                # Clients that failed together must not come back together.
                wait_s = pause_s * (1 + self._jitter()) / 2
                spent_s = self._clock() - begun
                if not e.retriable:
                    raise
                if spent_s + wait_s >= self.timeout_s:
                    raise StorageUnavailableError(f"{e} (asked {number_of(tries, 'time')} in {spent_s:.1f} s)") from e
            self._sleep(wait_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


class FailuresInARow:
    """Counts the segments in a row that storage does not hand out; it is used by one thread."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def met(self, error: StorageError) -> None:
        """
        Note one that was not handed out.

        :param error: why; raised where there are too many, or the storage root is gone.
        """
        self._in_a_row += 1
        if self._in_a_row >= MAX_FAILURES or isinstance(error, StorageRootError):
            raise error

    def ended(self) -> None:
        """Note one that was."""
        self._in_a_row = 0
