# SPDX-License-Identifier: Apache-2.0
"""
What a manifest of Aiven's plugin says of its segment, without the metadata topic: nearly the whole record.

The plugin copies the metadata that the broker hands it, so what is there is as exact as the event that began the copy.
State and custom metadata come later and are not in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.storage.aiven_manifest import ManifestReading
from airflow_provider_rlmm.core.storage.key_pattern import canonical_uuid

LOG: Final = ".log"
INDEXES: Final = ".indexes"
MANIFEST: Final = ".rsm-manifest"

_EPOCH: Final = re.compile(r"[0-9]{1,10}")
_MAX_INT32: Final = 2**31 - 1
_MAX_INT64: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RecordedSegment:
    """A segment as its manifest names it."""

    remote_log_segment_id: RemoteLogSegmentId  # id of the segment
    start_offset: int  # inclusive
    end_offset: int  # inclusive
    max_timestamp_ms: int  # largest record timestamp, ms since the epoch; -1 where there is none
    broker_id: int  # the broker that copied it
    event_timestamp_ms: int  # when its copy began, ms since the epoch
    segment_size_in_bytes: int  # of the log as it lay on the broker's disk
    segment_leader_epochs: tuple[tuple[int, int], ...]  # (leader epoch, its start offset within the segment), by epoch
    txn_idx_empty: bool | None  # whether it has no aborted transactions; ``None`` where the manifest does not say
    compressed: bool  # whether each chunk of the log is a zstd frame
    encrypted: bool  # whether its objects are encrypted: only brokers can read them
    log_bytes: int  # size of the object of the log
    index_bytes: int  # size of the object of all indexes

    def as_begun(self) -> RemoteLogSegmentMetadata:
        """Return the metadata with which its copy began: the keys of its objects are made of them."""
        return RemoteLogSegmentMetadata(
            self.remote_log_segment_id, self.start_offset, self.end_offset, self.max_timestamp_ms, self.broker_id,
            self.event_timestamp_ms, self.segment_size_in_bytes, None, RemoteLogSegmentState.COPY_SEGMENT_STARTED,
            self.segment_leader_epochs, bool(self.txn_idx_empty),
        )  # fmt: skip


def read_recorded_segment(data: bytes, location: str) -> RecordedSegment:
    """
    Read what a manifest says of its segment.

    :param data: the bytes of the manifest.
    :param location: its key.
    :raises DamagedObjectError: if the plugin cannot have written it.
    :raises UnsupportedMessageFormatError: if it is of a version or kind that is not known here.
    """
    reading = ManifestReading(location)
    document = reading.document(data)
    named = reading.field(document, "remoteLogSegmentMetadata", dict)
    packing = reading.packing(document)
    start, end = _number(reading, named, "startOffset"), _number(reading, named, "endOffset")
    if end < start:
        reading.refuse(f"names offsets from {start} to {end}")
    return RecordedSegment(
        _segment(reading, named),
        start,
        end,
        _number(reading, named, "maxTimestampMs", least=-1),
        _number(reading, named, "brokerId", least=-_MAX_INT32 - 1, most=_MAX_INT32),
        _number(reading, named, "eventTimestampMs", least=-1),
        packing.log_size,
        _epochs(reading, named, start, end),
        None if named.get("txnIdxEmpty") is None else reading.field(named, "txnIdxEmpty", bool),
        packing.compressed,
        document.get("encryption") is not None,
        packing.chunk_ends[-1] if packing.chunk_ends else 0,
        max((position + size for position, size in packing.indexes.values()), default=0),
    )


def _segment(reading: ManifestReading, named: dict[str, Any]) -> RemoteLogSegmentId:
    segment = reading.field(named, "remoteLogSegmentId", dict)
    partition = reading.field(segment, "topicIdPartition", dict)
    topic_partition = reading.field(partition, "topicPartition", dict)
    topic_id = canonical_uuid(reading.field(partition, "topicId", str))
    segment_id = canonical_uuid(reading.field(segment, "id", str))
    if topic_id is None or segment_id is None:
        reading.refuse("names no id of a topic or of a segment as Kafka writes it")
    topic = reading.field(topic_partition, "topic", str)
    number = _number(reading, topic_partition, "partition", most=_MAX_INT32)
    return RemoteLogSegmentId(TopicIdPartition(topic_id, topic, number), segment_id)


def _epochs(reading: ManifestReading, named: dict[str, Any], start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Return the leader epochs of a segment; every offset of it must have one."""
    found = reading.field(named, "segmentLeaderEpochs", dict)
    epochs = []
    for text in found:
        if not _EPOCH.fullmatch(text) or int(text) > _MAX_INT32:
            reading.refuse("names a leader epoch that is no number")
        epochs.append((int(text), _number(reading, found, text)))
    epochs.sort()
    offsets = [offset for _, offset in epochs]
    if len(dict(epochs)) != len(epochs) or not epochs or offsets != sorted(offsets):
        reading.refuse("names leader epochs that do not follow one another")
    if offsets[0] > start or offsets[-1] > end:
        reading.refuse(f"names leader epochs from offset {offsets[0]} to {offsets[-1]} for offsets {start} to {end}")
    return tuple(epochs)


def _number(
    reading: ManifestReading, document: dict[str, Any], name: str, *, least: int = 0, most: int = _MAX_INT64
) -> int:
    value: int = reading.field(document, name, int)
    if isinstance(value, bool) or not least <= value <= most:
        reading.refuse(f"has no number from {least} to {most} named {name}")
    return value
