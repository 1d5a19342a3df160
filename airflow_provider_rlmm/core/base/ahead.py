# SPDX-License-Identifier: Apache-2.0
"""Work on many things, some of them at once, told in their order: a store answers late, and many as fast as one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Thing = TypeVar("Thing")
Done = TypeVar("Done")


def done_ahead(
    things: Iterable[Thing], work: Callable[[Thing], Done], at_once: int, name: str
) -> Iterator[tuple[Thing, Future[Done]]]:
    """
    Yield things in their order, each with what became of the work on it.

    :param things: no more of them are asked for ahead than are worked on at once.
    :param work: done by other threads; what it raises the future raises.
    :param at_once: how many are worked on at once; below 2 the caller's thread does everything.
    :param name: of the threads.
    """
    if at_once < 2:
        for thing in things:
            yield thing, _done_here(work, thing)
        return
    waiting: deque[tuple[Thing, Future[Done]]] = deque()
    with ThreadPoolExecutor(at_once, name) as pool:
        try:
            for thing in things:
                waiting.append((thing, pool.submit(work, thing)))
                if len(waiting) > at_once:
                    yield waiting.popleft()
            while waiting:
                yield waiting.popleft()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def ahead(work: Callable[[Thing], Done], things: Iterable[Thing], at_once: int, name: str) -> Iterator[Done]:
    """
    Yield the results of work on things, in their order.

    :param work: as of :func:`done_ahead`.
    :param things: likewise.
    :param at_once: likewise.
    :param name: likewise.
    :raises Exception: what the work raises, where its result would have come.
    """
    for _, done in done_ahead(things, work, at_once, name):
        yield done.result()


def _done_here(work: Callable[[Thing], Done], thing: Thing) -> Future[Done]:
    future: Future[Done] = Future()
    try:
        future.set_result(work(thing))
    except Exception as e:
        future.set_exception(e)
    return future
