# SPDX-License-Identifier: Apache-2.0
"""
A bulk deletion, request by request: at the pace of the store, and what is left of a failed request for its own reason.

Stores differ in what a failed request has done. S3 and Azure go through all keys, and obstore names one of those that failed;
local folders and Google Cloud Storage stop at the first one, after the ten or so that are in flight. So what is still listed
of a failed request is tried again, singly in the first case, in smaller and smaller requests in the second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from airflow_provider_rlmm.core.base.background import begun
from airflow_provider_rlmm.core.base.errors import StorageUnavailableError
from airflow_provider_rlmm.core.storage.object_calls import DeleteCalls
from airflow_provider_rlmm.core.storage.pace import Pace

_SIZES: Final = (1_000, 100, 10, 1)
"""Objects per request, first what one DeleteObjects request of S3 takes, then less where a request was cut short."""

_MAX_REFUSED_REQUESTS: Final = 100
"""Requests that may fail for another reason than a missing object; what is left then is for the next run."""


@dataclass(frozen=True, slots=True)
class Refused:
    """What a store said to a request that it did not carry out whole."""

    why: str  # without secrets; empty where another program was faster with one of the objects
    key: str | None = None  # the object that it is about, where the store names one: it has tried all others
    busy: bool = False  # it throttles, or does not answer: the same request may succeed later
    cut_short: bool = False  # it may have stopped at the first object that failed


@dataclass(slots=True)
class _Round:
    """Requests of one size: what is left to be sent, what is under way, and what has come of the others."""

    left: list[str]
    under_way: deque[tuple[list[str], Callable[[], Refused | None]]] = field(default_factory=deque)
    cut_short: list[str] = field(default_factory=list)  # keys of requests that stopped at one of them
    one_by_one: list[str] = field(default_factory=list)  # keys of requests that refused one and tried all others


class BulkDeletion:
    """
    Deletes objects once.

    :param send: makes one request; says what was refused, ``None`` for nothing.
    :param still_listed: returns those of some keys that are listed.
    :param pace: of the client.
    :param at_once: requests under way at a time, each sent by a thread of its own, until the store throttles.
    """

    def __init__(
        self,
        send: Callable[[Sequence[str]], Refused | None],
        still_listed: Callable[[Sequence[str]], list[str]],
        pace: Pace,
        at_once: int = 1,
    ) -> None:
        self._at_once = at_once
        self._send = send
        self._still_listed = still_listed
        self._pace = pace
        self._failures: dict[str, str] = {}
        self._sent: set[str] = set()
        self._throttled: set[str] = set()
        self._refused_requests = 0
        self._over = False

    def delete(self, keys: Sequence[str]) -> DeleteCalls:
        """Delete objects; one that fails does not stop the others, and a missing one is no failure."""
        self._pace.begin()
        left = list(keys)
        for size in _SIZES:
            made = self._round(left, size)
            if made.one_by_one and size > 1:
                self._round(self._still_listed(made.one_by_one), 1)
            if self._over or not made.cut_short or size == 1:
                break
            left = self._still_listed(made.cut_short)
        return DeleteCalls(self._failures, self._sent, self._throttled)

    def _round(self, keys: Sequence[str], size: int) -> _Round:
        """Make requests of one size, some at a time; stop where the store does not answer, or has refused too much."""
        made = _Round(list(keys))
        while made.under_way or (made.left and not self._over):
            while made.left and not self._over and len(made.under_way) < self._at_once_now:
                self._begin_next(made, size)
            if not made.under_way:
                break
            objects = len(made.under_way[0][0])
            if (busy := self._take(made)) is None:
                continue
            # The others were sent before this answer: that they were too many, too, is no news.
            while made.under_way:
                self._take(made)
            self._pace.throttled(objects)
            if self._pace.gives_up:
                self._throttled = {*made.left, *(key for key in made.cut_short if key not in self._failures)}
                self._give_up(self._throttled, f"the store throttles or does not answer: {busy.why}")
        return made

    @property
    def _at_once_now(self) -> int:
        # A store that has throttled is asked for less, so for nothing side by side.
        return self._at_once if self._pace.rate is None else 1

    def _begin_next(self, made: _Round, size: int) -> None:
        if self._refused_requests >= _MAX_REFUSED_REQUESTS:
            self._give_up(made.left, f"not tried again: the store has refused {_MAX_REFUSED_REQUESTS} requests")
            return
        taken = self._pace.wait(min(size, len(made.left)))
        chunk, made.left = made.left[:taken], made.left[taken:]
        self._sent.update(chunk)
        send = partial(self._send, chunk)
        made.under_way.append((chunk, send if self._at_once == 1 else begun(send, "rlmm deletion").result))

    def _take(self, made: _Round) -> Refused | None:
        """Take note of the oldest answer; return it where the store is busy, and put its objects back."""
        chunk, answer = made.under_way.popleft()
        try:
            refused = answer()
        except StorageUnavailableError as e:
            # No later request would be made, and what this one does in the end is for later listings to tell.
            self._failures.update(dict.fromkeys(chunk, str(e)))
            self._over = True
            return None
        if refused is not None and refused.busy:
            # All of it again: what is gone by now is no failure.
            made.left = [*chunk, *made.left]
            return refused
        self._pace.answered()
        if refused is not None:
            self._note(chunk, refused)
            if refused.key is not None:
                made.one_by_one += chunk
            elif refused.cut_short:
                made.cut_short += chunk
        return None

    def _note(self, chunk: Sequence[str], refused: Refused) -> None:
        if not refused.why:
            return
        self._refused_requests += 1
        if refused.key is None:
            self._failures.update(dict.fromkeys(chunk, refused.why))
            return
        # Unless another request tells more about them.
        others = f"refused together with {refused.key}, of which the store says: {refused.why}"
        self._failures.update({key: others for key in chunk if key not in self._failures})
        self._failures[refused.key] = refused.why

    def _give_up(self, keys: Iterable[str], why: str) -> None:
        self._over = True
        for key in keys:
            self._failures.setdefault(key, why)
