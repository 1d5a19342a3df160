# SPDX-License-Identifier: Apache-2.0
"""
The memory of a scrub, and how often its deletion lists.

Memory is that of a process that scrubs a store and a log which are made up while they are read
(:mod:`benchmarks.scrub_memory`). Listings are those of a deletion: objects of segments that nothing names lie before those of
living ones, in one folder. That store holds keys in memory, lists them by pages as S3 does, and counts. Where its order is
documented a look ends behind its batch; elsewhere the look after many deletions goes to the end of the folder. Neither
depends on the clock, so runs go side by side, one on each core. Ends with 1 if a budget is missed. Needs no broker.
"""

from __future__ import annotations

import argparse
import os
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.plans import limits
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.storage.layout_storage import LayoutRemoteStorageManager
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.core.storage.object_calls import DeleteCalls
from airflow_provider_rlmm.core.storage.remote_storage import StoredObject
from airflow_provider_rlmm.core.storage.stamps import Location
from airflow_provider_rlmm.features.scrub.scrub_effects import MOST_UNCONFIRMED
from benchmarks.measuring import Budget
from benchmarks.processes import taken_by
from benchmarks.reporting import add_option, report
from benchmarks.scrub_memory import living, objects_of_folder

LAYOUT = AivenLayout("tiered/")
TIP = TopicIdPartition(UUID(int=7), "orders", 0)
PAGE = 1_000
MOST_LISTINGS = 1_000
"""Of 100,000 leaked segments before 900,000 living ones."""

ALLOWED_BYTES, ALLOWED_OF_SEGMENT, ALLOWED_OF_OBJECT = 150_000_000, 300, 100
"""Memory of a scrub: however little there is, of each living segment, and of each object of the largest folder."""


class SimulatedStore:
    """
    Lists keys by pages and counts its answers: as much of the calls to a store as a deletion by key makes.

    :param keys: what it holds, sorted.
    :param location: where it says that it is.
    """

    listings_at_once = 1

    def __init__(self, keys: list[str], location: Location) -> None:
        self._keys = keys
        self._location = location
        self.requests = 0
        self.listings = 0

    def location(self, prefix: str) -> Location:
        """See :class:`~airflow_provider_rlmm.core.storage.object_calls.ObjectCalls`."""
        return self._location

    def identities(self, prefixes: Sequence[str] = ()) -> Sequence[object]:
        """See :class:`~airflow_provider_rlmm.core.storage.object_calls.ObjectCalls`."""
        return [None] * (1 + len(prefixes))

    def by_name(self, lookup: Any) -> None:
        """See :class:`~airflow_provider_rlmm.core.storage.object_calls.ObjectCalls`."""
        return

    def objects(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """See :class:`~airflow_provider_rlmm.core.storage.object_calls.ObjectCalls`."""
        at = bisect_left(self._keys, prefix) if after is None else bisect_right(self._keys, max(prefix, after))
        while True:
            self.listings += 1
            page = self._keys[at : at + PAGE]
            yield from (StoredObject(key, 1, 0) for key in page if key.startswith(prefix))
            at += len(page)
            if len(page) < PAGE or not page[-1].startswith(prefix):
                return

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """See :class:`~airflow_provider_rlmm.core.storage.object_calls.ObjectCalls`."""
        raise NotImplementedError("nothing is read here")

    def delete(self, keys: Sequence[str]) -> DeleteCalls:
        """See :class:`~airflow_provider_rlmm.core.storage.object_calls.ObjectCalls`."""
        self.requests += -(-len(keys) // PAGE)
        gone = frozenset(keys)
        first, end = bisect_left(self._keys, min(gone)), bisect_right(self._keys, max(gone))
        self._keys[first:end] = [key for key in self._keys[first:end] if key not in gone]
        return DeleteCalls({}, frozenset(keys))


def main() -> int:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--leaked", type=int, default=100_000, help="segments that go (default: %(default)s)")
    parser.add_argument("--living", type=int, default=900_000, help="segments behind them (default: %(default)s)")
    parser.add_argument("--objects", type=int, nargs="*", default=[1_000_000, 10_000_000], help="of scrubs, about")
    parser.add_argument("--runs", type=int, default=3, help="runs of each (default: %(default)s)")
    add_option(parser)
    arguments = parser.parse_args()
    memory = (_memory(objects, arguments.runs) for objects in arguments.objects)
    budgets = chain(_counted(arguments.leaked, arguments.living, arguments.runs), memory)
    return report(budgets, arguments.figures)


def _memory(objects: int, runs: int) -> Budget:
    """Measure the peak of processes that scrub, from their start to their end."""
    command = [sys.executable, "-m", "benchmarks.scrub_memory", str(objects)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        taken = list(pool.map(taken_by, [command] * runs))
    peaks = [each.rss_bytes for each in taken]
    allowed = ALLOWED_BYTES + ALLOWED_OF_SEGMENT * living(objects) + ALLOWED_OF_OBJECT * objects_of_folder(objects)
    told = [
        f"{max(peaks) / 1e6:,.0f} MB of {allowed / 1e6:,.0f}, {living(objects):,} living segments",
        f"{taken[-1].cpu_seconds:,.0f} s of CPU time, the making up of store and log included",
    ]
    name = f"P11 peak memory of a scrub of {objects:,} objects"
    return Budget(name, max(peaks) / allowed, 1.0, False, told, peaks, unit="B")


def _counted(leaked: int, living: int, runs: int) -> Iterator[Budget | str]:
    what = f"{leaked:,} leaked segments before {living:,} living ones"
    locations = [Location("s3", "http://minio:9000", "bucket"), *[Location("s3", bucket="bucket")] * runs]
    with ProcessPoolExecutor() as pool:
        elsewhere, *counts = pool.map(partial(_listings, leaked, living), locations)
    yield f"{what}, a store of one's own: {elsewhere:,} listings"
    found = max(counts)
    allowed = MOST_LISTINGS * leaked / 100_000
    told = f"{found:,} listings, where a store of one's own takes {elsewhere:,}"
    yield Budget("scrub, listings of a documented store", found / allowed, 1.0, False, [told], counts, unit="LIST")


def _listings(leaked: int, living: int, location: Location) -> int:
    """Delete all that leaked as a scrub does: each key is looked for right before it goes, and when it is to be gone."""
    store = SimulatedStore(sorted(key for number in range(leaked + living) for key in _keys(number)), location)
    storage = LayoutRemoteStorageManager(store, LAYOUT)  # type: ignore[arg-type] # only what a deletion asks for
    size, unconfirmed = limits.BATCH_SEGMENTS.default, list[str]()
    for end in range(leaked, 0, -size):
        keys = [key for number in range(max(0, end - size), end) for key in _keys(number)]
        assert len(storage.stored_objects(keys)) == len(keys)
        assert not storage.delete_objects(keys)
        unconfirmed += keys
        if end <= size or not storage.absence_takes_whole_folder or len(unconfirmed) >= MOST_UNCONFIRMED:
            assert not storage.still_there(unconfirmed, {})
            unconfirmed.clear()
    return store.listings


def _keys(number: int) -> tuple[str, ...]:
    return LAYOUT.required_keys(
        RemoteLogSegmentMetadata(
            RemoteLogSegmentId(TIP, UUID(int=number + 1)), number * 100, number * 100 + 99, 1, 1, 1, 10, None,
            RemoteLogSegmentState.COPY_SEGMENT_FINISHED, ((0, number * 100),),
        )
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
