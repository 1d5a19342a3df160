# SPDX-License-Identifier: Apache-2.0
"""Work that is begun before anybody asks for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from threading import Thread
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")


def begun(work: Callable[[], T], name: str) -> Future[T]:
    """
    Begin work in a thread of its own; what goes wrong is raised where its result is asked for.

    A thread that hangs in a store cannot be ended: this one ends with the process, and nobody waits for it, as the threads
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


def ahead(work: Callable[[S], T], of: Iterable[S], at_once: int, name: str) -> Iterator[T]:
    """
    Do work for one thing after the other, begun for the next few before they are asked for; results come in order.

    :param work: what to do.
    :param of: for what.
    :param at_once: how many at a time; one at a time takes no thread, and nothing is begun before it is asked for.
    :param name: of the threads.
    :raises BaseException: what the work raises, where its result would have come.
    """
    if at_once < 2:
        yield from map(work, of)
        return
    under_way: deque[Future[T]] = deque()
    for one in of:
        under_way.append(begun(partial(work, one), name))
        if len(under_way) >= at_once:
            yield under_way.popleft().result()
    while under_way:
        yield under_way.popleft().result()
