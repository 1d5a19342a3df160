# SPDX-License-Identifier: Apache-2.0
"""
Manifests of many segments, some of them read at once: a store answers each request late, and many as fast as one.

They come in the order of the segments. No more are fetched ahead than are read at once, whatever lies there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from airflow_provider_rlmm.core.base.errors import (
    DamagedObjectError,
    RemoteObjectNotFoundError,
    StorageAccessError,
    StorageRootError,
    StorageUnavailableError,
    UnsupportedMessageFormatError,
)
from airflow_provider_rlmm.core.segments.pacing import ByteQuota, StoragePatience
from airflow_provider_rlmm.core.storage.aiven_manifest import MAX_MANIFEST_BYTES
from airflow_provider_rlmm.core.storage.aiven_record import MANIFEST, RecordedSegment, read_recorded_segment
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.features.recovery.rules import Found, ListedSegment, OtherObject, Unread, manifest_key

READ_AT_ONCE: Final = 8
"""Manifests that are fetched at once."""

MAX_FAILURES: Final = 10
"""Manifests in a row that storage does not hand out before the others are not asked for: each may cost a time-out."""

Fetch = Callable[[str, int, int], bytes]
"""Reads an object: key, first and last byte, both inclusive."""

Said = RecordedSegment | Unread | None


class ManifestReads:
    """
    Reads manifests.

    :param fetch: reads an object; asked by several threads.
    :param layout: where objects lie.
    :param pace: lets so many manifests be asked for in a second.
    :param patience: for how long a storage that does not answer is asked again.
    :param at_once: how many are fetched at once; with 1 everything is done by the thread of the caller.
    """

    def __init__(
        self, fetch: Fetch, layout: Layout, pace: ByteQuota, patience: StoragePatience, at_once: int = READ_AT_ONCE
    ) -> None:
        self._fetch = fetch
        self._layout = layout
        self._pace = pace
        self._patience = patience
        self._at_once = at_once
        self._failures = 0

    def of(self, found: Iterable[Found]) -> Iterator[tuple[Found, Said]]:
        """
        Yield what was found with what its manifest says, in its order; ``None`` where none can prove anything.

        :param found: segments and other objects; only as many are asked for ahead as are read at once.
        :raises StorageRootError: if the storage root is gone.
        :raises StorageUnavailableError: if storage does not answer many times in a row.
        :raises StorageAccessError: if it forbids to read many manifests in a row.
        """
        if self._at_once < 2:
            for listed in found:
                yield listed, self._judged(self._begun(listed, None))
            return
        waiting: deque[tuple[Found, Future[Said]]] = deque()
        with ThreadPoolExecutor(self._at_once, "rlmm-manifests") as pool:
            try:
                for listed in found:
                    waiting.append((listed, self._begun(listed, pool)))
                    if len(waiting) > self._at_once:
                        done, future = waiting.popleft()
                        yield done, self._judged(future)
                while waiting:
                    done, future = waiting.popleft()
                    yield done, self._judged(future)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _begun(self, listed: Found, pool: ThreadPoolExecutor | None) -> Future[Said]:
        future: Future[Said] = Future()
        if isinstance(listed, OtherObject) or not listed.asks_for_manifest(self._layout):
            future.set_result(None)
        elif pool is not None:
            return pool.submit(self._read, listed)
        else:
            try:
                future.set_result(self._read(listed))
            except Exception as e:
                future.set_exception(e)
        return future

    def _read(self, listed: ListedSegment) -> Said:
        """Read one manifest; what it holds is told, what keeps storage from answering is raised."""
        key, size = manifest_key(listed), listed.sizes[MANIFEST]
        if size > MAX_MANIFEST_BYTES:
            return Unread(f"{key} has {size} bytes, more than a manifest can have", damaged=True)
        self._pace.take(1)
        try:
            # One byte more than was listed: what has grown since is told from what is whole.
            data = self._patience.call(lambda: self._fetch(key, 0, size))
            if len(data) != size:
                return Unread(f"{key} was listed with {size} bytes and read with {len(data)}", damaged=False)
            return read_recorded_segment(data, key)
        except RemoteObjectNotFoundError:
            return Unread(f"{key} was listed and is gone: objects are being deleted", damaged=False)
        except DamagedObjectError as e:
            return Unread(str(e), damaged=True)
        except UnsupportedMessageFormatError as e:
            return Unread(str(e), damaged=False)

    def _judged(self, future: Future[Said]) -> Said:
        try:
            said = future.result()
        except StorageRootError:
            raise
        except (StorageUnavailableError, StorageAccessError) as e:
            self._failures += 1
            if self._failures >= MAX_FAILURES:
                raise
            return Unread(str(e), damaged=False)
        if said is not None:
            self._failures = 0
        return said
