# SPDX-License-Identifier: Apache-2.0
"""Values at the limits of what Kafka 4.4 and newer read, and beyond them; older Kafkas read them all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

from airflow_provider_rlmm.core.records import wire
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState

MOST_TAGS, MOST_EPOCHS = 10_000, 1_000_000
NEGATIVE = b"\x80\x80\x80\x80\x08"
"""The smallest 32-bit number as an unsigned varint."""

_TIP = TopicIdPartition(UUID(int=44), "orders", 1)
_ID = RemoteLogSegmentId(_TIP, UUID(int=4))
ADD = RemoteLogSegmentMetadata(_ID, 0, 9, 7, 1, 8, 100, None, RemoteLogSegmentState.COPY_SEGMENT_STARTED, ((0, 0),))
COPIED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
UPDATE = RemoteLogSegmentMetadataUpdate(_ID, 9, None, COPIED, 1)
DELETION = RemotePartitionDeleteMetadata(_TIP, RemotePartitionDeleteState.DELETE_PARTITION_MARKED, 9, -1)

_OF_TIP = 3 + 1 + len(_TIP.topic) + 16 + 4
_OF_ID = _OF_TIP + 1 + 16
_OF_EPOCH = _OF_ID + 1 + 36 + 1 + 12
SECTIONS = {
    "topic id partition": (ADD, _OF_TIP),
    "segment id": (ADD, _OF_ID),
    "leader epoch": (ADD, _OF_EPOCH),
    "segment": (ADD, -1),
    "topic id partition of an update": (UPDATE, _OF_TIP),
    "segment id of an update": (UPDATE, _OF_ID),
    "update": (UPDATE, -1),
    "topic id partition of a deletion": (DELETION, _OF_TIP),
    "deletion": (DELETION, -1),
}
"""Each section of tagged fields: a record that has it, and the byte of its value that says there are none."""


def tags(count: int) -> bytes:
    """A section of so many unknown tagged fields without a byte each."""
    out = bytearray()
    wire.write_uvarint(out, count)
    return bytes(out) + b"\x07\x00" * count


def with_section(section: str, written: bytes) -> bytes:
    """A value in which a section is written so."""
    event, at = SECTIONS[section]
    value = serialize(event)
    place = len(value) + at if at < 0 else at
    assert value[place] == 0, "an empty section is one zero"
    return value[:place] + written + value[place + 1 :]


def with_epochs(count: int) -> bytes:
    """A segment with so many leader epochs, in a state in which no cache takes it: a million of them fill a JVM's memory."""
    epochs = tuple((n, n) for n in range(count))
    return serialize(replace(ADD, end_offset=count, state=COPIED, segment_leader_epochs=epochs))


def within() -> Iterator[tuple[str, bytes]]:
    """Values that every Kafka reads, and which each one is."""
    for section in SECTIONS:
        yield section, with_section(section, tags(MOST_TAGS))
    yield "leader epochs", with_epochs(MOST_EPOCHS)


def beyond() -> Iterator[tuple[str, bytes]]:
    """Values that no Kafka from 4.4 on reads, and which each one is."""
    for section in SECTIONS:
        yield section, with_section(section, tags(MOST_TAGS + 1))
        yield f"{section}, negative", with_section(section, NEGATIVE)
    yield "leader epochs", with_epochs(MOST_EPOCHS + 1)
