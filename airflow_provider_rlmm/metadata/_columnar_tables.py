# SPDX-License-Identifier: Apache-2.0
"""The contents of a columnar state as tables and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pyarrow as pa

from airflow_provider_rlmm.metadata._columnar_fields import FIELDS
from airflow_provider_rlmm.metadata.cache import LeaderEpochState, RemoteLogMetadataCache
from airflow_provider_rlmm.metadata.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState, RemotePartitionDeleteState

_PARTITION = {"metadata_partition": pa.int32(), "topic_id": pa.binary(), "topic": pa.string(), "partition": pa.int32()}
_SEGMENT_FIELDS = [name for name in FIELDS if name in RemoteLogSegmentMetadata.__slots__]

SCHEMAS = {
    "segments": pa.schema(
        {**_PARTITION, "segment_id": pa.binary(), **{name: FIELDS[name][0] for name in _SEGMENT_FIELDS}}
    ),
    "epoch_offsets": pa.schema(
        {
            **_PARTITION,
            "leader_epoch": pa.int32(),
            "start_offset": pa.int64(),
            "segment_id": pa.binary(),
            "referenced": pa.bool_(),
        }
    ),
    "epoch_highest": pa.schema({**_PARTITION, "leader_epoch": pa.int32(), "highest_offset": pa.int64()}),
    "partition_deletes": pa.schema(
        {
            **_PARTITION,
            "state": pa.int8(),
            "event_timestamp_ms": pa.int64(),
            "broker_id": pa.int32(),
            "was_finished": pa.bool_(),
        }
    ),
}
"""The tables of a state."""

Row = dict[str, Any]


@dataclass(slots=True)
class Contents:
    """
    What a state holds of each user partition.

    :param caches: its segments.
    :param deletes: the last event of its deletion.
    :param metadata_partitions: the metadata partition that its events were read from, if that is known.
    :param finished: those that were ``DELETE_PARTITION_FINISHED`` at some time: another marker does not give a broker
        that serves them the cache back.
    """

    caches: dict[TopicIdPartition, RemoteLogMetadataCache] = field(default_factory=dict)
    deletes: dict[TopicIdPartition, RemotePartitionDeleteMetadata] = field(default_factory=dict)
    metadata_partitions: dict[TopicIdPartition, int | None] = field(default_factory=dict)
    finished: set[TopicIdPartition] = field(default_factory=set)

    def table(self, name: str) -> Any:
        """
        Return one of the tables of :data:`SCHEMAS`.

        :param name: which one.
        """
        rows = {
            "segments": self._segments,
            "epoch_offsets": self._epoch_offsets,
            "epoch_highest": self._epoch_highest,
            "partition_deletes": self._partition_deletes,
        }[name]
        return pa.Table.from_pylist(list(rows()), SCHEMAS[name])

    def _key(self, topic_id_partition: TopicIdPartition) -> Row:
        return {
            "metadata_partition": self.metadata_partitions.get(topic_id_partition),
            "topic_id": topic_id_partition.topic_id.bytes,
            "topic": topic_id_partition.topic,
            "partition": topic_id_partition.partition,
        }

    def _segments(self) -> Iterator[Row]:
        for topic_id_partition in _sorted(self.caches):
            for segment in self.caches[topic_id_partition].list_remote_log_segments():
                row = {**self._key(topic_id_partition), "segment_id": segment.remote_log_segment_id.id.bytes}
                row.update((name, getattr(segment, name)) for name in _SEGMENT_FIELDS)
                row["segment_leader_epochs"] = [
                    {"leader_epoch": epoch, "start_offset": start} for epoch, start in segment.segment_leader_epochs
                ]
                yield row

    def _epochs(self) -> Iterator[tuple[Row, LeaderEpochState]]:
        for topic_id_partition in _sorted(self.caches):
            for leader_epoch, state in sorted(self.caches[topic_id_partition].leader_epochs.items()):
                yield {**self._key(topic_id_partition), "leader_epoch": leader_epoch}, state

    def _epoch_offsets(self) -> Iterator[Row]:
        for key, state in self._epochs():
            for start_offset, segment_id in sorted(state.referenced.items()):
                yield {**key, "start_offset": start_offset, "segment_id": segment_id.id.bytes, "referenced": True}
            for segment_id in state.unreferenced:
                yield {**key, "start_offset": None, "segment_id": segment_id.id.bytes, "referenced": False}

    def _epoch_highest(self) -> Iterator[Row]:
        for key, state in self._epochs():
            if state.highest_offset is not None:
                yield {**key, "highest_offset": state.highest_offset}

    def _partition_deletes(self) -> Iterator[Row]:
        for topic_id_partition in _sorted(self.deletes):
            event = self.deletes[topic_id_partition]
            yield {
                **self._key(topic_id_partition),
                "state": event.state,
                "event_timestamp_ms": event.event_timestamp_ms,
                "broker_id": event.broker_id,
                "was_finished": topic_id_partition in self.finished,
            }


def contents_of(tables: dict[str, Any]) -> Contents:
    """
    Return what the tables of a state hold.

    :param tables: one per name of :data:`SCHEMAS`.
    :raises ValueError: if ids or states are none.
    """
    contents = Contents()
    segments: dict[TopicIdPartition, list[RemoteLogSegmentMetadata]] = {}
    epochs: dict[TopicIdPartition, dict[int, LeaderEpochState]] = {}
    for topic_id_partition, row in _keyed(contents, tables["segments"]):
        segments.setdefault(topic_id_partition, []).append(_segment(topic_id_partition, row))
    for topic_id_partition, row in _keyed(contents, tables["epoch_highest"]):
        highest = LeaderEpochState(highest_offset=row["highest_offset"])
        epochs.setdefault(topic_id_partition, {})[row["leader_epoch"]] = highest
    for topic_id_partition, row in _keyed(contents, tables["epoch_offsets"]):
        epoch = epochs.setdefault(topic_id_partition, {}).setdefault(row["leader_epoch"], LeaderEpochState())
        segment_id = RemoteLogSegmentId(topic_id_partition, UUID(bytes=row["segment_id"]))
        if row["referenced"]:
            epoch.referenced[row["start_offset"]] = segment_id
        else:
            epoch.unreferenced[segment_id] = None
    for topic_id_partition, row in _keyed(contents, tables["partition_deletes"]):
        contents.deletes[topic_id_partition] = RemotePartitionDeleteMetadata(
            topic_id_partition, RemotePartitionDeleteState(row["state"]), row["event_timestamp_ms"], row["broker_id"]
        )
        if row["was_finished"]:
            contents.finished.add(topic_id_partition)
    for topic_id_partition in {**segments, **epochs}:
        # The copies build the index of what was filled in above.
        own_epochs = {epoch: state.copy() for epoch, state in epochs.get(topic_id_partition, {}).items()}
        contents.caches[topic_id_partition] = RemoteLogMetadataCache(segments.get(topic_id_partition, ()), own_epochs)
    return contents


def _keyed(contents: Contents, table: Any) -> Iterator[tuple[TopicIdPartition, Row]]:
    for row in table.to_pylist():
        topic_id_partition = TopicIdPartition(UUID(bytes=row["topic_id"]), row["topic"], row["partition"])
        contents.metadata_partitions[topic_id_partition] = row["metadata_partition"]
        yield topic_id_partition, row


def _segment(topic_id_partition: TopicIdPartition, row: Row) -> RemoteLogSegmentMetadata:
    fields = {name: row[name] for name in _SEGMENT_FIELDS}
    fields["state"] = RemoteLogSegmentState(row["state"])
    fields["segment_leader_epochs"] = tuple(
        (epoch["leader_epoch"], epoch["start_offset"]) for epoch in row["segment_leader_epochs"]
    )
    return RemoteLogSegmentMetadata(RemoteLogSegmentId(topic_id_partition, UUID(bytes=row["segment_id"])), **fields)


def _sorted(keys: Iterable[TopicIdPartition]) -> list[TopicIdPartition]:
    return sorted(keys, key=lambda key: (key.topic_id.bytes, key.topic, key.partition))
