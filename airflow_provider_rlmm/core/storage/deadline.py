# SPDX-License-Identifier: Apache-2.0
"""
An end for calls that have none: a folder on a network mount whose server is gone blocks each reader, for good.

Such a call cannot be broken off. It is made in another thread, which is left behind where it does not return, and ends with
the process.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, TypeVar, cast

from airflow_provider_rlmm.core.base.errors import StorageUnavailableError

T = TypeVar("T")

CALL_DEADLINE_S: Final = 300.0
"""
Seconds for one call to a store. HTTP requests end before: obstore gives up after 30 s without success, and one request lasts
30 s at most.
"""


class PanicError(Exception):
    """Raised where obstore panics: its own exception is no ``Exception``, and would pass every handler."""


class Deadline:
    """
    Makes calls that end in time.

    As long as a call hangs, no other one is made: each would take as long to fail, and leave a thread behind. Threads are
    used again, since a new one for each call slows down deletions; they end with this object.

    :param seconds: for each call.
    :param wait: waits for a call's end for so many seconds at most, and tells whether it has come.
    """

    def __init__(
        self, seconds: float = CALL_DEADLINE_S, wait: Callable[[threading.Event, float], bool] = threading.Event.wait
    ) -> None:
        self._seconds = seconds
        self._wait = wait
        self._hanging: _Attempt | None = None
        self._idle: list[_Worker] = []
        weakref.finalize(self, _dismiss, self._idle)

    def call(self, what: str, function: Callable[[], T], extra_s: float = 0.0) -> T:
        """
        Call a function, and wait for it until the deadline.

        :param what: completes "cannot …" in an error: the call and its key.
        :param function: the call.
        :param extra_s: seconds on top, for one that moves much.
        :raises StorageUnavailableError: if it does not return in time, or an earlier one still has not.
        :raises PanicError: if obstore panics.
        """
        if self._hanging is not None and not self._hanging.done.is_set():
            raise StorageUnavailableError(
                f"cannot {what}: an earlier call ({self._hanging.what}) still hangs; look at the mount or "
                "the store, then run again"
            )
        attempt = _Attempt(what, function)
        worker = self._take_worker()
        worker.attempts.put(attempt)
        seconds = self._seconds + extra_s
        ended = False
        try:
            ended = self._wait(attempt.done, seconds)
        finally:
            if ended:
                self._idle.append(worker)
            else:
                worker.attempts.put(None)
        if not ended:
            self._hanging = attempt
            raise StorageUnavailableError(
                f"cannot {what}: no answer within {seconds:g} s; look at the mount or the store, then run again"
            )
        return cast("T", attempt.result())

    def _take_worker(self) -> _Worker:
        # Calls are made side by side: another one may take what was seen to be idle.
        with suppress(IndexError):
            while True:
                # Threads do not survive a fork.
                if (worker := self._idle.pop()).is_alive():
                    return worker
        worker = _Worker()
        worker.start()
        return worker


class _Worker(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name="rlmm storage", daemon=True)
        self.attempts: SimpleQueue[_Attempt | None] = SimpleQueue()

    def run(self) -> None:
        while (attempt := self.attempts.get()) is not None:
            attempt.run()
            # What a call was about, such as an open listing, must not live until the next one.
            del attempt


def _dismiss(workers: list[_Worker]) -> None:
    for worker in workers:
        worker.attempts.put(None)


class _Attempt:
    def __init__(self, what: str, function: Callable[[], Any]) -> None:
        self.what = what
        self.done = threading.Event()
        self._function = function
        self._value: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._value = self._function()
        except BaseException as e:
            self._error = e
        finally:
            self.done.set()

    def result(self) -> Any:
        error = self._error
        if error is None:
            return self._value
        # A cycle through the traceback would keep this frame's objects alive.
        self._error = None
        # The class is made in Rust and cannot be imported.
        if type(error).__name__ == "PanicException":
            raise PanicError(str(error)) from None
        raise error
