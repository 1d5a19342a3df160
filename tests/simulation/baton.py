# SPDX-License-Identifier: Apache-2.0
"""
Processes that take turns: one holds the baton and runs, all others wait, and the seed decides who is next.

Each process is a thread, so the code under test needs no change; but no two ever run at once, and a switch happens only
where the world asks for one. The same seed makes the same interleaving.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence


class _AbortedError(BaseException):
    """Another process broke an invariant: this one has nothing more to say."""


class Baton:
    """
    :param random: decides who runs.
    :param switch_rate: probability that a process loses its turn when it may, 0 to 1.
    """

    def __init__(self, random: random.Random, switch_rate: float) -> None:
        self._random = random
        self._switch_rate = switch_rate
        self._turns: dict[int, threading.Lock] = {}
        self._failure: BaseException | None = None
        self.current = 0

    def run(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Run all tasks to their ends, taking turns; raise what the first one to fail raised."""
        self.current = 0
        if len(tasks) == 1:
            tasks[0]()
            return
        self._failure = None
        self._turns = {number: threading.Lock() for number in range(len(tasks))}
        for turn in self._turns.values():
            turn.acquire()
        first = self._turns[0]
        threads = [threading.Thread(target=self._play, args=(n, self._turns[n], t)) for n, t in enumerate(tasks)]
        for thread in threads:
            thread.start()
        first.release()
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise self._failure

    def _play(self, number: int, turn: threading.Lock, task: Callable[[], None]) -> None:
        turn.acquire()
        try:
            if self._failure is None:
                task()
        except _AbortedError:
            pass
        except BaseException as e:
            self._failure = e
        del self._turns[number]
        if self._turns:
            self._hand_to(self._random.choice(list(self._turns)))

    def pass_on(self, *, certainly: bool = False) -> None:
        """Let another process run first, perhaps."""
        if len(self._turns) < 2 or not (certainly or self._random.random() < self._switch_rate):
            return
        mine = self.current
        turn = self._turns[mine]
        self._hand_to(self._random.choice([n for n in self._turns if n != mine]))
        turn.acquire()
        if self._failure is not None:
            raise _AbortedError

    def _hand_to(self, number: int) -> None:
        self.current = number
        self._turns[number].release()
