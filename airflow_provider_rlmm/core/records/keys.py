# SPDX-License-Identifier: Apache-2.0
"""
Keys of records of the metadata topic, as the two designs of KIP-1266 write them. Kafka up to 4.4 writes none.

A key says what compaction may put in the place of what: of all records with one key the log need only keep the last. So a
record whose key names something else than its value does is not believed, and a record without a value says that
another one was removed, and nothing of what was deleted.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from uuid import UUID

from airflow_provider_rlmm.core.records.records import (
    NOT_SAID,
    RemoteLogMetadata,
    RemoteLogSegmentMetadata,
    SegmentEvent,
    kafka_uuid_str,
    parse_kafka_uuid,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState

SEGMENT_KEY_BYTES = 37
"""Length of a key that names a segment and a state: topic id, partition, segment id, state."""

UPDATE_SUFFIX = "UPDATE"
"""Ends the keys of all updates of a segment, where keys name an end offset."""

_SEGMENT_KEY = struct.Struct(">16si16sb")
_NUMBER = r"(-?[0-9]{1,19})"
_BITS_OF_NUMBERS = (32, 64, 32)
"""Of partition, end offset and leader epoch, which are signed numbers in Kafka."""
_OFFSET_KEY = re.compile(rf"([A-Za-z0-9_-]{{22}}):([^:]*):{_NUMBER}:{_NUMBER}:{_NUMBER}(:{UPDATE_SUFFIX})?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SegmentKey:
    """
    A key that names one state of one segment (apache/kafka pull request 22774).

    :param topic_id: the topic's id.
    :param partition: the user partition.
    :param segment_id: id of the segment.
    :param state: the state that a record with this key sets.
    """

    topic_id: UUID
    partition: int
    segment_id: UUID
    state: RemoteLogSegmentState

    def __bytes__(self) -> bytes:
        return _SEGMENT_KEY.pack(self.topic_id.bytes, self.partition, self.segment_id.bytes, self.state)

    def names(self, event: RemoteLogMetadata) -> bool:
        """
        Tell whether it names what a record names.

        :param event: what the value of the record says; only those about a segment have a key.
        """
        if not isinstance(event, SegmentEvent):
            return False
        segment_id = event.remote_log_segment_id
        tip = segment_id.topic_id_partition
        named = tip.topic_id, tip.partition, segment_id.id, event.state
        return named == (self.topic_id, self.partition, self.segment_id, self.state)

    def may_be_of(self, metadata: RemoteLogSegmentMetadata) -> bool:
        """
        Tell whether records of a segment may have this key.

        :param metadata: the segment.
        """
        segment_id = metadata.remote_log_segment_id
        tip = segment_id.topic_id_partition
        return (tip.topic_id, tip.partition, segment_id.id) == (self.topic_id, self.partition, self.segment_id)


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """
    A key that names where a segment ends: ``topicId:topic:partition:endOffset:leaderEpoch[:UPDATE]`` (apache/kafka pull
    request 22459). Two copies of the same offsets in the same leader epoch have the same key.

    :param topic_id: the topic's id.
    :param topic: the topic's name.
    :param partition: the user partition.
    :param end_offset: the segment's last offset, inclusive.
    :param leader_epoch: the epoch of the leader that copied it.
    :param is_update: whether it is the key of the segment's updates, else that of its add.
    """

    topic_id: UUID
    topic: str
    partition: int
    end_offset: int
    leader_epoch: int
    is_update: bool

    def __bytes__(self) -> bytes:
        parts = (kafka_uuid_str(self.topic_id), self.topic, self.partition, self.end_offset, self.leader_epoch)
        return ":".join(map(str, (*parts, *[UPDATE_SUFFIX] * self.is_update))).encode()

    def names(self, event: RemoteLogMetadata) -> bool:
        """
        Tell whether it names what a record names, compared in what both name: of api version 0 no record says a leader epoch,
        and no update where its segment ends.

        :param event: what the value of the record says; only those about a segment have a key.
        """
        if not isinstance(event, SegmentEvent):
            return False
        tip = event.remote_log_segment_id.topic_id_partition
        if (tip.topic_id, tip.topic, tip.partition) != (self.topic_id, self.topic, self.partition):
            return False
        if self.is_update == isinstance(event, RemoteLogSegmentMetadata):
            return False
        return event.end_offset in (self.end_offset, NOT_SAID) and event.broker_leader_epoch in (
            self.leader_epoch,
            NOT_SAID,
        )

    def may_be_of(self, metadata: RemoteLogSegmentMetadata) -> bool:
        """
        Tell whether records of a segment may have this key: so may those of a copy that failed and of the one after it.

        :param metadata: the segment.
        """
        tip = metadata.remote_log_segment_id.topic_id_partition
        named = tip.topic_id, tip.partition, metadata.end_offset
        same_epoch = metadata.broker_leader_epoch in (self.leader_epoch, NOT_SAID)
        return same_epoch and named == (self.topic_id, self.partition, self.end_offset)


RecordKey = SegmentKey | OffsetKey
"""A key that names a segment, by one of the two designs."""


def parse_key(key: bytes) -> RecordKey | None:
    """
    Return what a key names, ``None`` where it is of neither design.

    :param key: the key of a record.
    """
    return _parse_offset_key(key) or _parse_segment_key(key)


def _parse_segment_key(key: bytes) -> SegmentKey | None:
    if len(key) != SEGMENT_KEY_BYTES:
        return None
    topic_id, partition, segment_id, state = _SEGMENT_KEY.unpack(key)
    try:
        return SegmentKey(UUID(bytes=topic_id), partition, UUID(bytes=segment_id), RemoteLogSegmentState(state))
    except ValueError:
        return None


def _parse_offset_key(key: bytes) -> OffsetKey | None:
    try:
        match = _OFFSET_KEY.fullmatch(key.decode())
        if match is None:
            return None
        topic_id = parse_kafka_uuid(match[1])
    except ValueError:
        return None
    partition, end_offset, leader_epoch = numbers = [int(digits) for digits in match.group(3, 4, 5)]
    if any(not -1 << bits - 1 <= n < 1 << bits - 1 for n, bits in zip(numbers, _BITS_OF_NUMBERS, strict=True)):
        return None
    parsed = OffsetKey(topic_id, match[2], partition, end_offset, leader_epoch, match[6] is not None)
    # Of several texts of one id or number Kafka writes one: another one would be another key.
    return parsed if bytes(parsed) == key else None
