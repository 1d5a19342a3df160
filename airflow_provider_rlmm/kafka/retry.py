# SPDX-License-Identifier: Apache-2.0
"""
Trying again, within a limit, what may succeed without anybody changing anything.

Written here because the libraries for it measure time and draw random numbers by themselves: a test could not turn the hands.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from airflow_provider_rlmm.errors import RlmmError

MAX_WAIT_MS = 10_000
"""No wait between two attempts is longer."""

_logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retry:
    """
    Exponential back-off with full jitter: each wait is drawn between zero and a bound that doubles.

    :param interval_ms: bound of the first wait, ms.
    :param max_timeout_ms: time for all attempts and waits together, ms; 0 means one attempt.
    :param clock: monotonic time, s.
    :param sleep: waits, s.
    :param draw: returns a random number of [0, 1).
    """

    interval_ms: int
    max_timeout_ms: int
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    draw: Callable[[], float] = random.random

    def call(self, what: str, attempt: Callable[[float], T]) -> T:
        """
        Try until it succeeds, fails for good, or the time is over.

        :param what: names the attempt in messages, such as ``initializing the metadata topic``.
        :param attempt: called with the seconds that are left, which it must respect.
        :return: what the attempt returned.
        :raises RlmmError: the attempt's own error: at once if it is not retriable; of the last attempt, saying how many
            there were, when the time is over.
        """
        deadline = self.clock() + self.max_timeout_ms / 1000
        bound_s = self.interval_ms / 1000
        attempts = 0
        while True:
            attempts += 1
            try:
                return attempt(max(0.0, deadline - self.clock()))
            except RlmmError as error:
                if not error.retriable:
                    raise
                wait_s = self.draw() * min(bound_s, MAX_WAIT_MS / 1000)
                if self.clock() + wait_s >= deadline:
                    # In place: an error may hold more than its message.
                    tried = f"{what} failed for {self.max_timeout_ms / 1000:g} s, attempts: {attempts}"
                    error.args = (f"{tried}; the last one: {error}",)
                    raise
                _logger.info("%s failed, trying again in %.1f s: %s", what, wait_s, error)
            self.sleep(wait_s)
            bound_s *= 2
