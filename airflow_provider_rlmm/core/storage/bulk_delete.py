# SPDX-License-Identifier: Apache-2.0
"""
A bulk deletion, request by request: at the pace of the store, and what is left of a failed request for its own reason.

Stores differ in what a failed request has done. S3 and Azure go through all keys, and obstore names one of those that failed;
local folders and Google Cloud Storage stop at the first one, after the ten or so that are in flight. So what is still listed
of a failed request is tried again, singly in the first case, in smaller and smaller requests in the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

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

    why: str  # without secrets; empty where somebody else was faster with one of the objects
    key: str | None = None  # the object that it is about, where the store names one: it has tried all others
    busy: bool = False  # it throttles, or does not answer: the same request may succeed later
    cut_short: bool = False  # it may have stopped at the first object that failed


class BulkDeletion:
    """
    Deletes objects once.

    :param send: makes one request; says what was refused, ``None`` for nothing.
    :param still_listed: returns those of some keys that are listed.
    :param pace: of the client.
    """

    def __init__(
        self,
        send: Callable[[Sequence[str]], Refused | None],
        still_listed: Callable[[Sequence[str]], list[str]],
        pace: Pace,
    ) -> None:
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
            cut_short, one_by_one = self._round(left, size)
            if one_by_one and size > 1:
                self._round(self._still_listed(one_by_one), 1)
            if self._over or not cut_short or size == 1:
                break
            left = self._still_listed(cut_short)
        return DeleteCalls(self._failures, self._sent, self._throttled)

    def _round(self, keys: Sequence[str], size: int) -> tuple[list[str], list[str]]:
        """Make requests of one size; return the keys of those cut short, and of those whose other keys were all tried."""
        cut_short: list[str] = []
        one_by_one: list[str] = []
        done = 0
        while done < len(keys) and not self._over:
            if self._refused_requests >= _MAX_REFUSED_REQUESTS:
                self._give_up(keys[done:], f"not tried again: the store has refused {_MAX_REFUSED_REQUESTS} requests")
                break
            chunk = keys[done : done + self._pace.wait(min(size, len(keys) - done))]
            self._sent.update(chunk)
            try:
                refused = self._send(chunk)
            except StorageUnavailableError as e:
                # No later request would be made, and what this one does in the end is for later listings to tell.
                self._failures.update(dict.fromkeys(chunk, str(e)))
                self._over = True
                break
            if refused is not None and refused.busy:
                # All of it again: what is gone by now is no failure.
                self._pace.throttled(len(chunk))
                if self._pace.gives_up:
                    self._throttled = {*keys[done:], *(key for key in cut_short if key not in self._failures)}
                    self._give_up(self._throttled, f"the store throttles or does not answer: {refused.why}")
                continue
            self._pace.answered(len(chunk))
            done += len(chunk)
            if refused is not None:
                self._note(chunk, refused)
                if refused.key is not None:
                    one_by_one += chunk
                elif refused.cut_short:
                    cut_short += chunk
        return cut_short, one_by_one

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
