# SPDX-License-Identifier: Apache-2.0
"""
How often a scrub's deletion lists: objects of segments that nothing names lie before those of living ones, in one folder.

The store is simulated: it holds keys in memory, lists them by pages as S3 does, and counts. Where its order is documented a
look ends behind its batch; everywhere else the look after a deletion goes to the end of the folder. Prints both counts; ends
with 1 if the budget is missed. Needs no broker.
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
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
from benchmarks.measuring import Budget
from benchmarks.reporting import add_option, report

LAYOUT = AivenLayout("tiered/")
TIP = TopicIdPartition(UUID(int=7), "orders", 0)
PAGE = 1_000
MOST_LISTINGS = 1_000
"""Of 100,000 leaked segments before 900,000 living ones."""


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
    add_option(parser)
    arguments = parser.parse_args()
    return report(_counted(arguments.leaked, arguments.living), arguments.figures)


def _counted(leaked: int, living: int) -> Iterator[Budget | str]:
    what = f"{leaked:,} leaked segments before {living:,} living ones"
    elsewhere = _listings(leaked, living, Location("s3", "http://minio:9000", "bucket"))
    yield f"{what}, a store of one's own: {elsewhere:,} listings"
    found = _listings(leaked, living, Location("s3", bucket="bucket"))
    allowed = MOST_LISTINGS * leaked / 100_000
    told = f"{found:,} listings, where a store of one's own takes {elsewhere:,}"
    yield Budget("scrub, listings of a documented store", found / allowed, 1.0, False, [told], [found], unit="LIST")


def _listings(leaked: int, living: int, location: Location) -> int:
    """Delete all that leaked, batch by batch as a scrub does: each key is looked for right before it goes."""
    store = SimulatedStore(sorted(key for number in range(leaked + living) for key in _keys(number)), location)
    storage = LayoutRemoteStorageManager(store, LAYOUT)  # type: ignore[arg-type] # only what a deletion asks for
    size = limits.BATCH_SEGMENTS.default
    for end in range(leaked, 0, -size):
        keys = [key for number in range(max(0, end - size), end) for key in _keys(number)]
        assert len(storage.stored_objects(keys)) == len(keys)
        assert not storage.delete_objects(keys)
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
