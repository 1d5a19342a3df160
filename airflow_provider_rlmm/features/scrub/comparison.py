# SPDX-License-Identifier: Apache-2.0
"""
The scrub: what lies in storage beside what the log says, in the order that cannot lie.

Watermarks W1, the listing of all places, watermarks W2, one read of the log from its beginning to W2 or later; then a look at
the cluster for the topic ids of what no record names. Of the log only the segments that are not finished and those that were
listed are held. Nothing is written or deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.clock import Clock
from airflow_provider_rlmm.core.base.errors import UnsafeObjectKeyError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.log.protocol import ClusterTopics, MetadataLogReader
from airflow_provider_rlmm.core.plans.limits import MAX_COPY
from airflow_provider_rlmm.core.records.era import LogEra
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.records.segment_rows import metadata_of
from airflow_provider_rlmm.core.runs.listed_objects import ListedObjects
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.features.scrub.forgotten_prefixes import look_below
from airflow_provider_rlmm.features.scrub.rules import (
    ScrubClass,
    classify_objects,
    missing_segments,
    settled_copies,
    size_differs,
)
from airflow_provider_rlmm.features.scrub.scrub_reading import ScrubReading
from airflow_provider_rlmm.features.scrub.scrub_summary import ForgottenPrefix
from airflow_provider_rlmm.features.scrub.unnamed_objects import observed, unmarkable, with_observations

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Scrub:
    """
    What a scrub found.

    :param objects: every listed object, with what
        :func:`~airflow_provider_rlmm.features.scrub.rules.classify_objects` added, and what the cluster says of topic ids
        of which it holds objects that no record names.
    :param missing: one row per segment that lacks an object, with ``class`` and ``why``.
    :param foreign: folders of no topic, which were not looked into.
    :param unseen: those of them of which nobody knows whether they hold folders of topics → why.
    :param forgotten: key prefixes that finished segments name and the connection does not, with what lies there.
    :param forgotten_left_out: how many records name further prefixes, of which nobody has looked what lies there.
    :param unmarkable: topic id and partition of objects that no record names and for which no marker will ever come.
    :param incomplete: folder → why not all of it was listed.
    :param doubtful: metadata partition → why what it does not say proves nothing.
    :param lost: metadata partition → what to do, where it has lost what an earlier run had read and nobody has confirmed it.
    :param before: W1: metadata partition → offset, exclusive.
    :param read_until: metadata partition → offset up to which the log was read, exclusive.
    :param began_at_ms: when W1 was taken, ms since the epoch.
    :param era: the era of the log, as of all that was read.
    """

    objects: pa.Table
    missing: pa.Table
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
    for found in storage.walk(known):
        listed.add(found)
    after = log.high_water_marks()
    reading = ScrubReading(log, topics, clock, listed.segment_ids(), storage.layout, known_prefixes)
    reading.read(after)
    objects = listed.table(reading.names())
    view = reading.view(before, began_at_ms - max_copy_ms)
    copied = settled_copies(view)
    classes = classify_objects(objects, view, size_differs(objects, copied, storage.layout.recorded_size))
    classes = with_observations(classes, observed(classes, reading, topics, log))
    below = look_below(reading.forgotten_prefixes(), storage, log.partition_count)
    required = [suffix for suffix, is_required in storage.layout.suffixes.items() if is_required]
    missing = _of_whole_folders(missing_segments(objects, copied, required), listed, storage.layout, len(required))
    logger.info("scrub: %d objects and %d records", objects.num_rows, reading.records)
    return Scrub(
        below.added_to(classes),
        missing,
        tuple(folder for folder in sorted(listed.foreign) if not below.names(folder)),
        {folder: why for folder, why in sorted(listed.unseen.items()) if not below.names(folder)},
        below.prefixes,
        reading.prefixes.left_out if reading.prefixes else 0,
        unmarkable(classes, reading),
        listed.broken,
        reading.doubtful,
        {number: lost.what_to_do for number, lost in log.losses.items() if lost.is_open},
        before,
        dict(reading.state.next_offsets),
        began_at_ms,
        reading.state.era,
    )


def _of_whole_folders(missing: pa.Table, listed: ListedObjects, layout: Layout, required: int) -> pa.Table:
    """Return the segments whose folders were listed at every place that their copies can lie at, with class and reason."""
    import pyarrow as pa

    kinds, whys, kept = [], [], []
    for row in missing.to_pylist():
        metadata = metadata_of(row)
        tip = metadata.remote_log_segment_id.topic_id_partition
        try:
            folders = [layout.partition_prefix(tip, place) for place in layout.places_of(metadata)]
        except UnsafeObjectKeyError as e:
            kind, why = ScrubClass.UNKNOWN, f"nobody can tell where it lies: {e}"
        else:
            if not all(map(listed.is_whole, folders)):
                kept.append(False)
                continue
            kind, why = (
                ScrubClass.MISSING,
                f"{row['objects']} of {required} objects are there, in {in_quotes(folders[0])}",
            )
        kept.append(True)
        kinds.append(kind.value)
        whys.append(why)
    rows = missing.filter(pa.array(kept, pa.bool_()))
    return rows.append_column("class", pa.array(kinds, pa.string())).append_column("why", pa.array(whys, pa.string()))
