# SPDX-License-Identifier: Apache-2.0
"""
How fast objects are deleted: as fast as the store answers until it throttles, then by additive increase and multiplicative
decrease, as networks share a line.

Stores count objects, not requests: S3 allows 3,500 deletions per second and prefix, and each key of a DeleteObjects request
is one. So the rate is in objects per second, and a request holds no more of them than the rate allows in a second. Brokers
upload below the same prefix and share what S3 allows; so there it is bounded before anything is throttled.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final

from airflow_provider_rlmm.core.base.values import refused

INCREASE: Final = 0.05
"""Share of the rate that was too much, by which the rate grows with each second in which the store answers."""

DECREASE: Final = 0.5
"""What is left of the rate where the store throttles."""

SLOWEST: Final = 1.0
"""Objects per second below which the rate never falls."""

MOST_IN_A_ROW: Final = 7
"""Throttled requests without a good one between them, after which a deletion gives up: about a minute of waiting."""

PATIENCE_S: Final = 300.0
"""Seconds after the first throttled request of a deletion, after which it gives up even if some requests pass."""

KEYS_PER_SECOND: Final = "keys_per_second"
"""Option of any store: the most objects that one task deletes in a second, from 1 to :data:`S3_ALLOWS`."""

S3_ALLOWS: Final = 3_500
"""Deletions and uploads per second and prefix (docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html)."""

OF_S3: Final = 1_000
"""Objects per second on S3 at its own address, where no other number is set."""

_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 20.0


class Pace:
    """
    The pace of one client's deletions; it is kept from one deletion to the next. It is used by one thread.

    Waits have jitter: clients that were throttled together must not come back together.

    :param clock: seconds, monotonic.
    :param sleep: waits for seconds.
    :param jitter: returns a number from 0 to 1, exclusive.
    :param most: objects per second that are never exceeded, ``None`` for as many as the store takes.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        jitter: Callable[[], float] = random.random,
        most: float | None = None,
    ) -> None:
        self._most = most
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter
        self._rate: float | None = None
        self._step = 0.0
        self._grown_at = self._not_before = clock()
        self._in_a_row = 0
        self._throttled_since: float | None = None

    @property
    def rate(self) -> float | None:
        """Objects per second, ``None`` as long as the store has never throttled."""
        return self._rate

    @property
    def gives_up(self) -> bool:
        """Whether the store has throttled for so long that the deletion must end."""
        since = self._throttled_since
        return self._in_a_row >= MOST_IN_A_ROW or (since is not None and self._clock() - since >= PATIENCE_S)

    def begin(self) -> None:
        """Begin a deletion: its patience is whole, the rate is what the one before has found."""
        self._in_a_row = 0
        self._throttled_since = None

    def wait(self, wanted: int) -> int:
        """
        Wait until the next request may be sent; others may be under way.

        :param wanted: objects that it would hold.
        :return: how many it may hold, at least one.
        """
        delay = self._not_before - self._clock()
        if delay > 0:
            self._sleep(delay)
        if (allowed := self._allowed) is None:
            return wanted
        granted = min(wanted, max(1, int(allowed)))
        self._not_before = self._clock() + granted / allowed * (1 + self._jitter() / 10)
        return granted

    @property
    def _allowed(self) -> float | None:
        """Objects per second that may be deleted now, ``None`` for any."""
        return min((bound for bound in (self._rate, self._most) if bound is not None), default=None)

    def answered(self) -> None:
        """Note that the store has done the work of a request, also where it refused single objects."""
        self._in_a_row = 0
        now = self._clock()
        if self._rate is not None:
            self._rate += self._step * min(1.0, now - self._grown_at)
            self._grown_at = now

    def throttled(self, objects: int) -> None:
        """
        Note that the store has throttled, or has not answered.

        :param objects: objects in the request.
        """
        now = self._clock()
        too_much = self._rate or float(objects)
        self._rate, self._step = max(SLOWEST, too_much * DECREASE), max(1.0, too_much * INCREASE)
        self._grown_at = now
        if self._throttled_since is None:
            self._throttled_since = now
        longest = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0**self._in_a_row)
        self._not_before = now + longest * (1 + self._jitter()) / 2
        self._in_a_row += 1


def read_keys_per_second(given: str) -> int:
    """
    Read the option.

    :param given: its value.
    :raises ConfigurationError: if it is no number from 1 to :data:`S3_ALLOWS`.
    """
    if not given.isascii() or not given.isdigit() or not 1 <= int(given) <= S3_ALLOWS:
        raise refused(KEYS_PER_SECOND, given, f"a number from 1 to {S3_ALLOWS}")
    return int(given)
