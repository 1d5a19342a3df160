# SPDX-License-Identifier: Apache-2.0
"""
What many segments say of themselves, some of them read at once: a store answers each request late, and many as fast as one.

They come in the order of the segments. No more are read ahead than are read at once, in a bucket of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Final, Protocol

from airflow_provider_rlmm.core.base.ahead import done_ahead
from airflow_provider_rlmm.core.base.errors import (
    StorageAccessError,
    StorageRootError,
    StorageUnavailableError,
)
from airflow_provider_rlmm.core.segments.pacing import ByteQuota, FailuresInARow, StoragePatience
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.features.recovery.rules import Found, ListedSegment, OtherObject, Said, Unread

READ_AT_ONCE: Final = 8
"""Segments that are read at once."""

Fetch = Callable[[str, int, int], bytes]
"""Reads an object: key, first and last byte, both inclusive."""


class Witness(Protocol):
    """Reads what a layout keeps of a segment beside its records; it is used by many threads."""

    @property
    def reads(self) -> str:
        """What it reads, told from any other way to read."""

    def asks(self, listed: ListedSegment, layout: Layout) -> bool:
        """
        Tell whether anything of a segment is to be read.

        :param listed: the segment.
        :param layout: its layout.
        """

    def read(self, listed: ListedSegment, fetch: Fetch) -> Said:
        """
        Read what is said of a segment; of what cannot be used, why.

        :param listed: a segment that is asked for.
        :param fetch: reads an object.
        :raises StorageError: if storage does not answer.
        """


class SegmentReads:
    """
    Reads segments.

    :param witness: what is read of each.
    :param fetch: reads an object; asked by several threads.
    :param layout: where objects lie.
    :param pace: lets so many segments be asked for in a second.
    :param patience: for how long a storage that does not answer is asked again.
    :param at_once: how many are read at once; with 1 everything is done by the thread of the caller.
    """

    def __init__(
        self,
        witness: Witness,
        fetch: Fetch,
        layout: Layout,
        pace: ByteQuota,
        patience: StoragePatience,
        at_once: int = READ_AT_ONCE,
    ) -> None:
        self._witness = witness
        self._fetch = fetch
        self._layout = layout
        self._pace = pace
        self._patience = patience
        self._at_once = at_once
        self._failures = FailuresInARow()

    def of(self, found: Iterable[Found]) -> Iterator[tuple[Found, Said]]:
        """
        Yield what was found with what is said of it, in its order; ``None`` where nothing can prove anything, or what it says
        is known.

        :param found: segments and other objects; only as many are asked for ahead as are read at once.
        :raises StorageRootError: if the storage root is gone.
        :raises StorageUnavailableError: if storage does not answer many times in a row.
        :raises StorageAccessError: if it forbids to read many segments in a row.
        """
        for listed, future in done_ahead(found, self._asked, self._at_once, "rlmm-segments"):
            yield listed, self._judged(future)

    def _asked(self, listed: Found) -> Said:
        if isinstance(listed, OtherObject) or listed.before.row is not None:
            return None
        if not self._witness.asks(listed, self._layout):
            return None
        return self._read(listed)

    def _read(self, listed: ListedSegment) -> Said:
        self._pace.take(1)
        return self._witness.read(
            listed, lambda key, first, last: self._patience.call(lambda: self._fetch(key, first, last))
        )

    def _judged(self, future: Future[Said]) -> Said:
        try:
            said = future.result()
        except (StorageUnavailableError, StorageAccessError, StorageRootError) as e:
            self._failures.met(e)
            return Unread(str(e), damaged=False)
        if said is not None:
            self._failures.ended()
        return said
