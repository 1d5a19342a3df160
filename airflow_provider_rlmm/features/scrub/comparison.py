# SPDX-License-Identifier: Apache-2.0
"""
The scrub: what lies in storage beside what the log says, in the order that cannot lie.

Watermarks W1, the listing of all places, watermarks W2, one read of the log from its beginning to W2 or later; then a look at
the cluster for the topic ids of what no record names. Nothing is written or deleted.

The listing lies on the local disk, and so does what is found; both are looked at some ten thousand rows at a time. Of the log
only the segments that are not finished and those that were listed are held.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.arrow_arrays import equals, table_of_rows
from airflow_provider_rlmm.core.base.clock import Clock
from airflow_provider_rlmm.core.base.errors import UnsafeObjectKeyError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.base.spool import SPOOLED_ROWS
from airflow_provider_rlmm.core.log.protocol import ClusterTopics, MetadataLogReader
from airflow_provider_rlmm.core.plans.limits import MAX_COPY
from airflow_provider_rlmm.core.records.era import LogEra
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.records.segment_rows import OF_METADATA, metadata_of
from airflow_provider_rlmm.core.runs.listed_objects import ListedObjects
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.features.scrub.forgotten_prefixes import look_below
from airflow_provider_rlmm.features.scrub.found import Found, found_schema
from airflow_provider_rlmm.features.scrub.log_view import LogIndex, LogView
from airflow_provider_rlmm.features.scrub.rules import ScrubClass, classify_objects
from airflow_provider_rlmm.features.scrub.scrub_reading import ScrubReading
from airflow_provider_rlmm.features.scrub.scrub_summary import Amount, ForgottenPrefix
from airflow_provider_rlmm.features.scrub.stored_segments import StoredSegments
from airflow_provider_rlmm.features.scrub.unnamed_objects import Observed, UnnamedGroups, with_observations

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

_MISSING = {*OF_METADATA, "metadata_partition", "event_offset"}
"""What is told of a segment that lacks an object."""


@dataclass(frozen=True, slots=True)
class Scrub:
    """
    What a scrub found.

    :param listed: all objects.
    :param listed_segments: segments of which an object was listed.
    :param in_use: the objects that are in use: they are counted only.
    :param found: every other object, each segment that lacks one, and each folder of no topic.
    :param observed: what the cluster says of topic ids of which there are objects that no record names.
    :param foreign: folders of no topic, which were not looked into.
    :param unseen: those of them of which it is not known whether they hold folders of topics → why.
    :param forgotten: key prefixes that finished segments name and the connection does not, with what lies there.
    :param forgotten_left_out: how many records name further prefixes, below which was not looked.
    :param unmarkable: topic id and partition of objects that no record names and for which no marker will ever come.
    :param incomplete: folder → why not all of it was listed.
    :param doubtful: metadata partition → why what it does not say proves nothing.
    :param lost: metadata partition → what to do, where it has lost what an earlier run had read and that is not confirmed.
    :param before: W1: metadata partition → offset, exclusive.
    :param read_until: metadata partition → offset up to which the log was read, exclusive.
    :param began_at_ms: when W1 was taken, ms since the epoch.
    :param era: the era of the log, as of all that was read.
    """

    listed: Amount
    listed_segments: int
    in_use: Amount
    found: Found
    observed: Observed
    foreign: tuple[str, ...]
    unseen: Mapping[str, str]
    forgotten: tuple[ForgottenPrefix, ...]
    forgotten_left_out: int
    unmarkable: frozenset[tuple[bytes, int]]
    incomplete: Mapping[str, str]
    doubtful: Mapping[int, str]
    lost: Mapping[int, str]
    before: Mapping[int, int]
    read_until: Mapping[int, int]
    began_at_ms: int
    era: LogEra

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield each class with rows of it, as :meth:`Found.tables` does, and with what the cluster says of each."""
        for kind, rows in self.found.tables():
            yield kind, with_observations(rows, self.observed)


def scrub(
    log: MetadataLogReader,
    topics: ClusterTopics,
    storage: RemoteStorageManager,
    *,
    known: Iterable[TopicIdPartition],
    known_prefixes: Collection[str] = (),
    clock: Clock,
    max_copy_ms: int = MAX_COPY.default,
) -> Scrub:
    """
    Compare storage and log.

    :param log: the log.
    :param topics: the cluster.
    :param storage: remote storage, listed only; its root was proved before.
    :param known: user partitions that are looked for by name where the folder above them cannot be listed.
    :param known_prefixes: key prefixes that records named which the log may have lost since.
    :param clock: time.
    :param max_copy_ms: for how long a copy may be under way, ms.
    :raises ClusterMismatchError: if another cluster answers than the one whose log is read.
    :raises EventLogError: if the log cannot be read whole, or the cluster not be asked.
    :raises StorageRootError: if the root is not the one that was proved, or is replaced meanwhile.
    """
    began_at_ms, known = clock(), frozenset(known)
    before = dict(log.high_water_marks())
    listed = ListedObjects(storage.layout, log.partition_count, known)
    for met in storage.walk(known):
        listed.add(met)
    listed.end()
    after = log.high_water_marks()
    reading = ScrubReading(log, topics, clock, listed.segment_ids, storage.layout, known_prefixes)
    reading.read(after)
    view, names = reading.last_view(before, began_at_ms - max_copy_ms), reading.names()
    below = look_below(reading.forgotten_prefixes(), storage, log.partition_count)
    index, stored = LogIndex(view), StoredSegments(view, storage.layout)
    for rows in listed.tables(names):
        stored.note(rows, index.rows_of(rows))
    judged = _Judged()
    for rows in listed.tables(names):
        segments = index.rows_of(rows)
        said, wrong_size = index.said_of(rows, segments), stored.are_wrong(segments)
        judged.add(below.without_found_again(classify_objects(rows, view, said, wrong_size)))
    for rows in below.fresh():
        judged.add(rows)
    required = [suffix for suffix, is_required in storage.layout.suffixes.items() if is_required]
    for rows in _missing(view, stored, listed, storage.layout, required):
        judged.found.add(rows)
    foreign = tuple(folder for folder in sorted(listed.foreign) if not below.names(folder))
    judged.found.add(_folders(foreign))
    logger.info("scrub: %d objects and %d records", judged.listed.objects, reading.records)
    return Scrub(
        judged.listed,
        listed.segments,
        judged.in_use,
        judged.found,
        judged.unnamed.observed(reading, topics, log),
        foreign,
        {folder: why for folder, why in sorted(listed.unseen.items()) if not below.names(folder)},
        below.prefixes,
        reading.prefixes.left_out if reading.prefixes else 0,
        judged.unnamed.unmarkable(reading),
        listed.broken,
        reading.doubtful,
        {number: lost.what_to_do for number, lost in log.losses.items() if lost.is_open},
        before,
        dict(reading.state.next_offsets),
        began_at_ms,
        reading.state.era,
    )


class _Judged:
    """Objects with their classes: those in use are counted, the others kept."""

    def __init__(self) -> None:
        self.listed = Amount(0, 0)
        self.in_use = Amount(0, 0)
        self.found = Found()
        self.unnamed = UnnamedGroups()

    def add(self, rows: pa.Table) -> None:
        import pyarrow.compute as pc

        is_used = equals(rows.column("class"), ScrubClass.IN_USE.value)
        self.listed += Amount.of(rows)
        self.in_use += Amount.of(rows.filter(is_used))
        others = rows.filter(pc.invert(is_used))
        self.unnamed.note(others)
        where = pc.coalesce(others["metadata_partition"], others["home"])
        self.found.add(
            others.set_column(others.schema.get_field_index("metadata_partition"), "metadata_partition", where)
        )


def _missing(
    view: LogView, stored: StoredSegments, listed: ListedObjects, layout: Layout, required: Collection[str]
) -> Iterator[pa.Table]:
    """Yield the segments that lack an object at every place that their copies can lie at, with class and reason."""
    import numpy as np

    rows, there = stored.lacking(required)
    for part in np.array_split(np.arange(rows.size), -(-rows.size // SPOOLED_ROWS) or 1):
        segments = view.segments.table(rows[part], _MISSING).to_pylist()
        told = (
            _told(row, objects, listed, layout, len(required))
            for row, objects in zip(segments, there[part].tolist(), strict=True)
        )
        yield table_of_rows([row for row in told if row is not None], found_schema())


def _told(
    row: Mapping[str, Any], objects: int, listed: ListedObjects, layout: Layout, required: int
) -> dict[str, Any] | None:
    """Return what is told of a segment that lacks an object, ``None`` where a folder of it was not listed whole."""
    metadata = metadata_of(row)
    tip = metadata.remote_log_segment_id.topic_id_partition
    try:
        folders = [layout.partition_prefix(tip, place) for place in layout.places_of(metadata)]
    except UnsafeObjectKeyError as e:
        kind, why = ScrubClass.UNKNOWN, f"it cannot be told where it lies: {e}"
    else:
        if not all(map(listed.is_whole, folders)):
            return None
        there = f"{objects} of {number_of(required, 'object')} {agreeing(objects, 'is', 'are')} there"
        kind, why = ScrubClass.MISSING, f"{there}, in {in_quotes(folders[0])}"
    size, offset = row["segment_size_in_bytes"], row["event_offset"]
    told = {"class": kind.value, "bytes": size, "offset": offset, "why": why}
    return {name: row.get(name) for name in found_schema().names} | told


def _folders(foreign: Collection[str]) -> pa.Table:
    """Return the folders of no topic as rows."""
    told = {"class": ScrubClass.NOT_OF_THIS_LAYOUT.value, "why": "a folder of no topic, which was not looked into"}
    empty: dict[str, Any] = dict.fromkeys(found_schema().names)
    return table_of_rows([empty | told | {"key": folder} for folder in foreign], found_schema())
