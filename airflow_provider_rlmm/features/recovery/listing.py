# SPDX-License-Identifier: Apache-2.0
"""All objects below the places of a layout, gathered by segment: rows on the local disk, in the order of their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.spool import OrderedSpool
from airflow_provider_rlmm.core.plans.catalogue_table import ROWS_AS_OBJECTS
from airflow_provider_rlmm.core.runs.listed_objects import ListedObjects, listed_schema
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.features.recovery.rules import Found, KeyReading, ListedSegment, OtherObject

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = ["key", "bytes", "last_modified_ms", "is_whole"]
_SAID_EVERY = 10_000


def list_all(storage: RemoteStorageManager, on_listed: Callable[[int], None]) -> ListedObjects:
    """
    List everything below the places of a layout. A folder that cannot be listed does not end it.

    :param storage: the storage.
    :param on_listed: told now and then how many objects were listed.
    :raises RoomError: if the local disk has no room for the listing.
    :raises StorageRootError: if the storage root is gone, or another one takes its place.
    """
    # Where events would be is not asked for: one metadata partition is as good as any.
    listed = ListedObjects(storage.layout, 1)
    for count, found in enumerate(storage.walk(()), 1):
        listed.add(found)
        if count % _SAID_EVERY == 0:
            on_listed(count)
    listed.end()
    return listed


def in_order(listed: ListedObjects) -> OrderedSpool:
    """
    Return what was listed, to be read in the order of the keys: the objects of a segment come together.

    :param listed: what was listed.
    :raises RoomError: if the local disk has no room for it.
    """
    import pyarrow as pa

    schema = listed_schema()
    spool = OrderedSpool(pa.schema([schema.field(name) for name in _COLUMNS]), "key")
    # Which of several readings of a key is right only a manifest tells.
    for table in listed.tables(()):
        spool.append(table.select(_COLUMNS))
    return spool


def gathered(tables: Iterator[pa.Table], layout: Layout) -> Iterator[Found]:
    """
    Yield segments with all of their objects, and the objects of none.

    :param tables: with ``key``, ``bytes``, ``last_modified_ms`` and ``is_whole``, in the order of the keys.
    :param layout: where objects lie.
    """
    stem, readings, sizes, times, is_whole = "", tuple[KeyReading, ...](), dict[str, int](), dict[str, int](), True
    # As Python's objects rows take many times as much.
    few = (batch for table in tables for batch in table.to_batches(max_chunksize=ROWS_AS_OBJECTS))
    for row in (row for batch in few for row in batch.to_pylist()):
        key = row["key"]
        suffix: str = key[len(stem) :]
        # What begins as the one before was read with it: only the suffix differs.
        if not (sizes and key.startswith(stem) and suffix in layout.suffixes):
            found = _readings(key, layout)
            if found is None:
                yield OtherObject(key, row["bytes"])
                continue
            if sizes:
                yield ListedSegment(stem, readings, sizes, is_whole, times)
            suffix, readings = found
            stem, sizes, times, is_whole = key[: len(key) - len(suffix)], {}, {}, True
        sizes[suffix], times[suffix] = row["bytes"], row["last_modified_ms"]
        is_whole = is_whole and row["is_whole"]
    if sizes:
        yield ListedSegment(stem, readings, sizes, is_whole, times)


def _readings(key: str, layout: Layout) -> tuple[str, tuple[KeyReading, ...]] | None:
    """Return the suffix of a key and what the key can mean; ``None`` for one of no segment."""
    found, suffixes = [], set[str]()
    for place in layout.places:
        parts = layout.parts(key, place)
        if parts is not None and parts[1] in layout.suffixes:
            suffixes.add(parts[1])
            found.append(KeyReading(place, parts[0], layout.start_offset(key, place)))
    return (suffixes.pop(), tuple(found)) if len(suffixes) == 1 else None
