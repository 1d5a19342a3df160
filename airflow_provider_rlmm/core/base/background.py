# SPDX-License-Identifier: Apache-2.0
"""Work that is begun before anybody asks for it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def begun(work: Callable[[], T], name: str) -> Future[T]:
    """
    Begin work in a thread of its own; what goes wrong is raised where its result is asked for.

    A thread that hangs in a store cannot be ended: this one ends with the process, and no call waits for it, as the threads
    of a pool would be waited for.

    :param work: what to do.
    :param name: of the thread.
    """
    result: Future[T] = Future()
    Thread(target=_do, args=(work, result), name=name, daemon=True).start()
    return result


def _do(work: Callable[[], T], result: Future[T]) -> None:
    try:
        result.set_result(work())
    except BaseException as e:
        result.set_exception(e)
