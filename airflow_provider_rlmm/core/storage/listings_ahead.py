# SPDX-License-Identifier: Apache-2.0
"""
Listings of many folders, some of them at once: a store answers each request late, and many requests as fast as one.

They come in the order in which they are asked for, and as lazily: of each of the next few folders a few pages are fetched
ahead, never more, in folders of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from queue import Full, Queue
from threading import Event, Thread
from typing import Final

from airflow_provider_rlmm.core.storage.remote_storage import StoredObject

_PAGE: Final = 1_000
_PAGES_AHEAD: Final = 2
"""Pages of one folder that wait to be asked for."""

_LOOK_AGAIN_S: Final = 0.5

_Page = list[StoredObject] | BaseException | None
"""Objects of a listing, what it ended with, or ``None`` for its end."""


class ListingsAhead:
    """
    Lists folders ahead of the caller.

    :param objects: lists one folder.
    :param prefixes: the folders, in the order in which they will be asked for.
    :param at_once: how many are listed at once.
    """

    def __init__(self, objects: Callable[[str], Iterator[StoredObject]], prefixes: Sequence[str], at_once: int) -> None:
        self._objects = objects
        self._next = iter(prefixes)
        self._at_once = at_once
        self._begun: dict[str, Queue[_Page]] = {}
        self._threads: list[Thread] = []
        self._over = Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Put this around all that asks: at its end no thread is left."""
        try:
            yield
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join()

    def objects(self, prefix: str) -> Iterator[StoredObject]:
        """
        List a folder: the next one of those that were named, or any other.

        :param prefix: the folder.
        :raises StorageError: as the listing does, after what it has listed.
        """
        while len(self._begun) < self._at_once and (begun := next(self._next, None)) is not None:
            self._begin(begun)
        if (pages := self._begun.pop(prefix, None)) is None:
            yield from self._objects(prefix)
            return
        while (page := pages.get()) is not None:
            if isinstance(page, BaseException):
                raise page
            yield from page

    def _begin(self, prefix: str) -> None:
        pages: Queue[_Page] = Queue(_PAGES_AHEAD)
        self._begun[prefix] = pages
        thread = Thread(target=self._list, args=(prefix, pages), name="rlmm listing", daemon=True)
        self._threads = [running for running in self._threads if running.is_alive()]
        self._threads.append(thread)
        thread.start()

    def _list(self, prefix: str, pages: Queue[_Page]) -> None:
        try:
            listing = self._objects(prefix)
            while (page := list(islice(listing, _PAGE))) and self._put(pages, page):
                """The next page is fetched."""
        except BaseException as e:
            self._put(pages, e)
        else:
            self._put(pages, None)

    def _put(self, pages: Queue[_Page], page: _Page) -> bool:
        """Hand a page over as soon as there is room; tell whether anybody still wants it."""
        while not self._over.is_set():
            try:
                pages.put(page, timeout=_LOOK_AGAIN_S)
            except Full:
                continue
            return True
        return False
