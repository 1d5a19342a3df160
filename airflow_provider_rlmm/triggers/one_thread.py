# SPDX-License-Identifier: Apache-2.0
"""A thread for calls that block, beside an event loop that must not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")


class OneThread:
    """
    Runs calls in a thread of its own, one after the other, so that what they share needs no lock.

    The threads of the event loop are few and shared by all triggers: one whose broker is silent would hold up the others.

    :param at_end: the last call of the thread, after the one that may be running when the block is left: it closes clients.
        It is not waited for, as a triggerer ends its triggers all at once.
    """

    def __init__(self, at_end: Callable[[], None] | None = None) -> None:
        self._at_end = at_end
        self._executor = ThreadPoolExecutor(1, "rlmm-trigger")

    async def call(self, function: Callable[[], T]) -> T:
        """
        Run a function in the thread and return what it returns.

        :param function: it may block, for a bounded time: a thread cannot be cancelled.
        """
        return await asyncio.get_running_loop().run_in_executor(self._executor, function)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._at_end is not None:
            self._executor.submit(self._at_end)
        self._executor.shutdown(wait=False)
