# SPDX-License-Identifier: Apache-2.0
"""What this package's replays answer, in the form of :class:`~tests.differential.kafka_replay.KafkaAnswer`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import InvalidStateTransitionError, MalformedMetadataError, MetadataError
from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.columnar import ColumnarState
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState
from tests.differential.kafka_replay import Partition, Probe

FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
NOTHING: dict[str, Any] = {"deletion": None, "segments": [], "listed": {}, "highest": {}}

Deletion = tuple[int, int, int]
"""State, event timestamp in ms, broker id."""


class ScalarReplay:
    """One value after the other: ``serde.deserialize`` and a ``RemoteLogMetadataCache`` per user partition."""

    def __init__(self) -> None:
        self.caches: dict[TopicIdPartition, RemoteLogMetadataCache] = {}
        self.deletions: dict[TopicIdPartition, Deletion] = {}
        self.finished: set[TopicIdPartition] = set()

    def apply(self, values: Iterable[bytes | None]) -> str:
        """
        Apply values; the result is that of :class:`~tests.differential.kafka_replay.KafkaAnswer`.

        :param values: in the order of the topic.
        """
        return "".join(self._apply(value) for value in values)

    def _apply(self, value: bytes | None) -> str:
        try:
            event = None if value is None else deserialize(value)
        except MalformedMetadataError:
            return "r"
        if event is None or isinstance(event, RemoteLogSegmentMetadataSnapshot):
            return "r"
        if isinstance(event, RemotePartitionDeleteMetadata):
            partition = event.topic_id_partition
            self.deletions[partition] = (event.state, event.event_timestamp_ms, event.broker_id)
            if event.state is FINISHED:
                del self.deletions[partition]
                self.caches.pop(partition, None)
                self.finished.add(partition)
            return "a"
        partition = event.remote_log_segment_id.topic_id_partition
        cache = self.caches.setdefault(partition, RemoteLogMetadataCache())
        try:
            if isinstance(event, RemoteLogSegmentMetadata):
                outcome = "a" if cache.add_copy_in_progress_segment(event).applied else "d"
            else:
                outcome = "a" if cache.update_remote_log_segment_metadata(event).applied else "d"
        except InvalidStateTransitionError:
            outcome = "t"
        return outcome.upper() if partition in self.finished else outcome

    def answers(self, probes: Sequence[Probe]) -> dict[Partition, dict[str, Any]]:
        """
        Return what the caches hold.

        :param probes: what to look up in each.
        """
        return answers_of(self.caches, self.deletions, probes)


def columnar_answers(state: ColumnarState) -> dict[Partition, dict[str, Any]]:
    """
    Return what a state's tables hold: segments and deletions. Lookups by leader epoch are the cache's.

    :param state: the state.
    """
    answers: dict[Partition, dict[str, Any]] = {}

    def of(row: Mapping[str, Any]) -> dict[str, Any]:
        key = row["topic_id"].hex(), row["topic"], row["partition"]
        return answers.setdefault(key, {"deletion": None, "segments": []})

    for row in state.segments.to_pylist():
        of(row)["segments"].append(_fields(_segment_of(row)))
    for row in state.partition_deletes.to_pylist():
        # It stays here, and Kafka forgets it.
        if row["state"] != FINISHED:
            of(row)["deletion"] = [row["state"], row["event_timestamp_ms"], row["broker_id"]]
    for answer in answers.values():
        answer["segments"].sort(key=lambda fields: fields[0])
    return answers


def answers_of(
    caches: Mapping[TopicIdPartition, RemoteLogMetadataCache],
    deletions: Mapping[TopicIdPartition, Deletion],
    probes: Sequence[Probe],
) -> dict[Partition, dict[str, Any]]:
    """
    Return what there is to know of each user partition; those without anything are left out.

    :param caches: their segments.
    :param deletions: their last deletion events, but for DELETE_PARTITION_FINISHED.
    :param probes: what to look up in each.
    """
    answers: dict[Partition, dict[str, Any]] = {}
    for partition in {**caches, **deletions}:
        described = {
            "deletion": list(deletions[partition]) if partition in deletions else None,
            **_describe(caches.get(partition, RemoteLogMetadataCache()), probes),
        }
        answers[partition.topic_id.hex, partition.topic, partition.partition] = described
    return without_empty(answers)


def without_empty(answers: Mapping[Partition, dict[str, Any]]) -> dict[Partition, dict[str, Any]]:
    """
    Leave out the partitions of which there is nothing to say.

    :param answers: by user partition.
    """
    return {key: value for key, value in answers.items() if any(value[name] != NOTHING[name] for name in NOTHING)}


def _describe(cache: RemoteLogMetadataCache, probes: Sequence[Probe]) -> dict[str, Any]:
    listed = {str(epoch): _listed(cache, epoch) for epoch in cache.leader_epochs}
    highest = {str(epoch): cache.highest_offset_for_epoch(epoch) for epoch in cache.leader_epochs}
    found = (cache.remote_log_segment_metadata(epoch, offset) for epoch, offset in probes)
    return {
        "segments": sorted((_fields(segment) for segment in cache.list_remote_log_segments()), key=lambda row: row[0]),
        "listed": {epoch: ids for epoch, ids in listed.items() if ids != []},
        "highest": {epoch: offset for epoch, offset in highest.items() if offset is not None},
        "found": [None if segment is None else segment.remote_log_segment_id.id.hex for segment in found],
    }


def _listed(cache: RemoteLogMetadataCache, leader_epoch: int) -> list[str] | None:
    try:
        return sorted(s.remote_log_segment_id.id.hex for s in cache.list_remote_log_segments(leader_epoch))
    except MetadataError:
        return None


def _fields(segment: RemoteLogSegmentMetadata) -> list[Any]:
    custom_metadata = segment.custom_metadata
    return [
        segment.remote_log_segment_id.id.hex, segment.start_offset, segment.end_offset, segment.max_timestamp_ms,
        segment.broker_id, segment.event_timestamp_ms, segment.segment_size_in_bytes,
        None if custom_metadata is None else custom_metadata.hex(), int(segment.state),
        [list(epoch) for epoch in segment.segment_leader_epochs], segment.txn_idx_empty,
    ]  # fmt: skip


def _partition_of(row: Mapping[str, Any]) -> TopicIdPartition:
    return TopicIdPartition(UUID(bytes=row["topic_id"]), row["topic"], row["partition"])


def _segment_of(row: Mapping[str, Any]) -> RemoteLogSegmentMetadata:
    epochs = ((epoch["leader_epoch"], epoch["start_offset"]) for epoch in row["segment_leader_epochs"])
    return RemoteLogSegmentMetadata(
        RemoteLogSegmentId(_partition_of(row), UUID(bytes=row["segment_id"])),
        row["start_offset"],
        row["end_offset"],
        row["max_timestamp_ms"],
        row["broker_id"],
        row["event_timestamp_ms"],
        row["segment_size_in_bytes"],
        row["custom_metadata"],
        RemoteLogSegmentState(row["state"]),
        tuple(epochs),
        row["txn_idx_empty"],
    )
