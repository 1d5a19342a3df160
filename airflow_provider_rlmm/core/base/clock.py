# SPDX-License-Identifier: Apache-2.0
"""Time as an argument: what needs it takes a ``Clock``, so that tests can turn the hands."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

Clock = Callable[[], int]
"""Returns the current time, ms since the epoch."""

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
DAY_MS = 24 * HOUR_MS

MAX_CLOCK_SKEW_MS = 300_000
"""How far two clocks may differ before they contradict each other, ms."""

MAX_PROOF_AGE_MS = 300_000
"""For how long a proof of the time is carried on by the monotonic clock, ms."""

_MAX_DRIFT_MS = 5_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


def elapsed_in_words(age_ms: int) -> str:
    """
    Return how long ago something was, for people; it is rounded down, so that nothing is called older than it is.

    :param age_ms: ms; less than 0 counts as none.
    """
    seconds = max(0, age_ms) // 1000
    return duration_in_words((seconds if seconds < 60 else seconds // 60 * 60) * 1000)


def monotonic_clock() -> int:
    """Return a time that only ever grows, ms since any moment."""
    return time.monotonic_ns() // 1_000_000


def time_text(time_ms: int) -> str:
    """
    Say a time in words, at any value.

    :param time_ms: ms since the epoch.
    """
    try:
        return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds")
    except OverflowError:
        return f"{time_ms} ms since 1970"


def since(timestamp_ms: int | None) -> str:
    """
    Return a time for people; what comes from the log may be no time at all.

    :param timestamp_ms: ms since the epoch.
    """
    if timestamp_ms is None:
        return "an unknown time"
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"


def difference_text(difference_ms: int) -> str:
    """
    Say how far a clock is from another.

    :param difference_ms: its time less the other's, ms.
    """
    if difference_ms == 0:
        return "the same"
    size = abs(difference_ms)
    amount = f"{size} ms" if size < 10_000 else duration_in_words(size)
    return f"{amount} {'ahead' if difference_ms > 0 else 'behind'}"


@dataclass(frozen=True, slots=True)
class TimeReading:
    """What the clock of another machine said just now."""

    source: str  # whose clock, and how it was read: a noun, as in "LogAppendTime of topic 'clock'"
    time_ms: int  # what it said, ms since the epoch
    worker_ms: int  # what this worker's own clock said right after, ms since the epoch


@dataclass(frozen=True, slots=True)
class TimeBound:
    """What the clock of another machine said at some earlier moment: now cannot be before that."""

    source: str  # whose clock, and how it was read: a noun
    not_before_ms: int  # what it said, ms since the epoch


@dataclass(frozen=True, slots=True)
class TimeProof:
    """
    What time it is, and who says so.

    :param time_ms: ms since the epoch.
    :param worker_ms: what this worker's own clock said at that moment, ms since the epoch.
    :param source: whose time it is: a noun.
    :param proven: whether anybody but this worker says so.
    :param remarks: sentences without a full stop: what it was compared with, and why nothing better was to be had.
    :param not_before_ms: a time that has passed by a clock other than this worker's, ms since the epoch; ``None`` where none
        does.
    """

    time_ms: int
    worker_ms: int
    source: str
    proven: bool
    remarks: tuple[str, ...] = ()
    not_before_ms: int | None = None

    @property
    def difference_ms(self) -> int:
        """How far this worker's own clock is ahead, ms; negative where it is behind."""
        return self.worker_ms - self.time_ms

    def __str__(self) -> str:
        """Say it in one or more sentences, for logs, dry runs and reports."""
        if self.proven:
            said = f"Time {time_text(self.time_ms)} is proven by {self.source}"
            words = [f"{said}; this worker's own clock is {difference_text(self.difference_ms)}"]
        else:
            words = [f"Time {time_text(self.time_ms)} is unproven: it is {self.source}"]
        return ". ".join([*words, *self.remarks]) + "."


class ProvenClock:
    """
    A :data:`Clock` that goes by proven time, never by this worker's own clock.

    The time is proven when the clock is built; after that the monotonic clock carries it on. It is proven anew when the
    proof is old, and when wall clock and monotonic clock have drifted apart: one of them was set, or the machine slept.
    Not to be shared between threads or processes; what measures durations wants the monotonic clock instead.

    :param prove: proves the time; called at once, and again whenever a new proof is due.
    :param worker_clock: this worker's own wall clock.
    :param monotonic: a clock that is never set, ms.
    :raises RlmmError: what ``prove`` raises, here and from any later call.
    """

    def __init__(
        self, prove: Callable[[], TimeProof], *, worker_clock: Clock = system_clock, monotonic: Clock = monotonic_clock
    ) -> None:
        self._prove = prove
        self._worker_clock = worker_clock
        self._monotonic = monotonic
        self._renew()

    def __call__(self) -> int:
        """Return the time, ms since the epoch."""
        elapsed = self._monotonic() - self._proven_at
        drift = self._worker_clock() - self._worker_at - elapsed
        if elapsed > MAX_PROOF_AGE_MS or abs(drift) > _MAX_DRIFT_MS:
            self._renew()
            elapsed = 0
        return self.proof.time_ms + elapsed

    def not_before_ms(self) -> int | None:
        """
        Return a time that has passed, also where this worker's own clock is wrong, ms since the epoch: the time itself where
        it is proven, ``None`` where only this worker's clock is known.
        """
        now_ms = self()
        return now_ms if self.proof.proven else self.proof.not_before_ms

    def _renew(self) -> None:
        self.proof = self._prove()
        self._proven_at, self._worker_at = self._monotonic(), self._worker_clock()

    def __str__(self) -> str:
        """Say which time this is, who says so, and how far this worker's own clock is from it."""
        return str(self.proof)
