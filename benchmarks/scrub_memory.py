# SPDX-License-Identifier: Apache-2.0
"""
One scrub in a process of its own, over a store and a log that are made up while they are read, so that neither takes memory:
its comparison and its table, as a run makes them. Prints how much was found. What the process takes is measured outside.

Of each ten segments eight are copied, one was finished and has left its objects, and one is named by no record.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.base.arrow_arrays import array_of
from airflow_provider_rlmm.core.log.event_encoding import encode
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.log.in_process_topics import InProcessClusterTopics
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
    kafka_uuid_str,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as State
from airflow_provider_rlmm.core.storage.layout_storage import LayoutRemoteStorageManager
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.core.storage.remote_storage import StoredObject
from airflow_provider_rlmm.core.storage.stamps import Location
from airflow_provider_rlmm.features.scrub.comparison import scrub
from airflow_provider_rlmm.features.scrub.scrub_files import ScrubOrigin, write_scrub

if TYPE_CHECKING:
    import pyarrow as pa

LAYOUT = AivenLayout("tiered/")
TOPICS = 3
PARTITIONS_OF_TOPIC = 10
METADATA_PARTITIONS = 50
OBJECTS_OF_SEGMENT = 3
NOW_MS = 1_790_000_000_000
_ROWS = 20_000
_SUFFIXES = (".indexes", ".log", ".rsm-manifest")
_MARK = UUID(int=0x0123456789ABCDEF_FEDCBA9876543210)


def tips() -> list[TopicIdPartition]:
    """Return the user partitions, in the order in which the store lists their folders."""
    found = [
        TopicIdPartition(UUID(int=topic + 1), f"topic{topic}", partition)
        for topic in range(TOPICS)
        for partition in range(PARTITIONS_OF_TOPIC)
    ]
    return sorted(found, key=LAYOUT.partition_prefix)


def segments_of_partition(objects: int) -> int:
    """
    Return how many segments each user partition has.

    :param objects: in the whole store, about.
    """
    return objects // OBJECTS_OF_SEGMENT // (TOPICS * PARTITIONS_OF_TOPIC) // 10 * 10


def living(objects: int) -> int:
    """
    Return how many segments the log names as not finished.

    :param objects: in the whole store, about.
    """
    return segments_of_partition(objects) * TOPICS * PARTITIONS_OF_TOPIC * 8 // 10


def objects_of_folder(objects: int) -> int:
    """
    Return how many objects the largest folder holds, which is that of a topic.

    :param objects: in the whole store, about.
    """
    return segments_of_partition(objects) * PARTITIONS_OF_TOPIC * OBJECTS_OF_SEGMENT


class MadeUpStore:
    """
    Lists the objects of as many segments for each user partition.

    :param segments: of each user partition.
    """

    listings_at_once = 1

    def __init__(self, segments: int) -> None:
        self._segments = segments
        self._folders = {LAYOUT.partition_prefix(tip): number for number, tip in enumerate(tips())}

    def location(self, prefix: str) -> Location:
        """See :class:`~airflow_provider_rlmm.core.storage.object_calls.ObjectCalls`."""
        return Location("s3", bucket="bucket")

    def identities(self, prefixes: Sequence[str] = ()) -> Sequence[object]:
        """See :class:`~airflow_provider_rlmm.core.storage.object_calls.ObjectCalls`."""
        return [None] * (1 + len(prefixes))

    def by_name(self, lookup: Any) -> None:
        """See :class:`~airflow_provider_rlmm.core.storage.object_calls.ObjectCalls`."""

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """See :class:`~airflow_provider_rlmm.core.storage.object_calls.ObjectCalls`."""
        raise NotImplementedError("nothing is read here")

    def level(self, prefix: str) -> tuple[Sequence[str], Sequence[StoredObject]]:
        """See :class:`~airflow_provider_rlmm.core.storage.walk.ListingCalls`."""
        below = {folder[len(prefix) :].partition("/")[0] for folder in self._folders if folder.startswith(prefix)}
        return [f"{prefix}{name}" for name in sorted(below)], []

    def objects(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """See :class:`~airflow_provider_rlmm.core.storage.object_calls.ObjectCalls`."""
        for folder, number in self._folders.items():
            if folder.startswith(prefix):
                for segment in range(self._segments):
                    key = f"{folder}{segment * 100:020}-{kafka_uuid_str(segment_id(number, segment))}"
                    yield from (StoredObject(f"{key}{suffix}", 10, NOW_MS) for suffix in _SUFFIXES)


def segment_id(partition: int, segment: int) -> UUID:
    """
    Return the id of a segment.

    :param partition: number of its user partition.
    :param segment: its number within that.
    """
    return UUID(int=((partition << 40 | segment) * 0x9E3779B97F4A7C15F39CC0605CEDC835) % 2**128)


class MadeUpLog(InProcessMetadataEventLog):
    """
    Says of as many segments for each user partition what has become of them.

    :param segments: of each user partition.
    """

    def __init__(self, segments: int) -> None:
        super().__init__(METADATA_PARTITIONS)
        self._segments = segments
        self._homes: dict[int, list[int]] = {number: [] for number in range(METADATA_PARTITIONS)}
        for number, tip in enumerate(tips()):
            self._homes[metadata_partition_for(tip, METADATA_PARTITIONS)].append(number)
        self._templates = {number: _templates(tip) for number, tip in enumerate(tips())}

    def _events(self) -> int:
        """Events of one user partition: four of each tenth segment, two of each other, none of each other tenth."""
        return sum(_events_of(segment) for segment in range(10)) * self._segments // 10

    def beginning_offsets(self) -> Mapping[int, int]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`."""
        return dict.fromkeys(self._homes, 0)

    def high_water_marks(self) -> Mapping[int, int]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`."""
        return {home: len(numbers) * self._events() for home, numbers in self._homes.items()}

    def read(self, metadata_partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """See :class:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader`; only whole batches are asked for."""
        offset = 0
        for number in self._homes[metadata_partition]:
            for values in _parts(self._values(number)):
                if start < offset + len(values) and offset < end:
                    yield _batch(offset, values).slice(max(0, start - offset), end - max(offset, start))
                offset += len(values)

    def _values(self, number: int) -> Iterator[bytes]:
        for segment in range(self._segments):
            mine = segment_id(number, segment).bytes
            for template in self._templates[number][: _events_of(segment)]:
                yield template.replace(_MARK.bytes, mine)


def _events_of(segment: int) -> int:
    return {8: 4, 9: 0}.get(segment % 10, 2)


def _parts(values: Iterator[bytes]) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    for value in values:
        part.append(value)
        if len(part) == _ROWS:
            yield part
            part = []
    if part:
        yield part


def _batch(first: int, values: Sequence[bytes]) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa

    count = len(values)
    columns = [
        array_of(np.arange(first, first + count)), array_of(np.full(count, NOW_MS - 10**8)),
        pa.nulls(count, pa.binary()), array_of(values, pa.binary()),
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(columns, names=["offset", "timestamp_ms", "key", "value"])


def _templates(tip: TopicIdPartition) -> list[bytes]:
    mine = RemoteLogSegmentId(tip, _MARK)
    begun = RemoteLogSegmentMetadata(
        mine, 0, 99, NOW_MS - 10**8, 1, NOW_MS - 10**8, 10, None, State.COPY_SEGMENT_STARTED, ((0, 0),)
    )
    steps = (State.COPY_SEGMENT_FINISHED, State.DELETE_SEGMENT_STARTED, State.DELETE_SEGMENT_FINISHED)
    return [
        encode(begun),
        *(encode(RemoteLogSegmentMetadataUpdate(mine, NOW_MS - 10**8, None, step, 1)) for step in steps),
    ]


def main() -> int:
    """Scrub, and print how much was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("objects", type=int, help="in the store, about")
    segments = segments_of_partition(parser.parse_args().objects)
    log = MadeUpLog(segments)
    topics = InProcessClusterTopics({tip.topic: tip.topic_id for tip in tips()})
    storage = LayoutRemoteStorageManager(MadeUpStore(segments), LAYOUT)  # type: ignore[arg-type] # only what is listed
    found = scrub(log, topics, storage, known=tips(), clock=lambda: NOW_MS)
    origin = ScrubOrigin("scrub", topics.cluster_id(), log.topic_id, "a clock", True, {}, None)
    with tempfile.TemporaryDirectory() as folder:
        summary = write_scrub(folder, found, origin, None)
    print(summary.listed, {kind: amount.objects for kind, amount in summary.classes.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
