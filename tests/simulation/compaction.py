# SPDX-License-Identifier: Apache-2.0
"""
What the next Kafka may do to the metadata topic: its records with keys, and compacted (KIP-1266).

Keys have one of the two forms that were proposed, or one that nobody has proposed and that loses most: one key a segment. The
log cleaner keeps the last record of each key below a dirty point, drops records without a key there, and drops those without
a value below a horizon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import MalformedMetadataError
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.records.keys import OffsetKey, SegmentKey
from airflow_provider_rlmm.core.records.records import (
    RemoteLogMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    SegmentEvent,
)
from airflow_provider_rlmm.core.records.serde import deserialize, serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S

EPOCH = 3
"""Epoch of the leader that copies."""


class KeyForm(Enum):
    """What keys name."""

    STATE = "segment and state"
    END_OFFSET = "end offset"
    SEGMENT = "segment"


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a metadata partition."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


Records = Sequence[Record]


def records_of(log: InProcessMetadataEventLog, metadata_partition: int) -> list[Record]:
    """Return the records of a metadata partition."""
    begin, end = log.beginning_offsets()[metadata_partition], log.high_water_marks()[metadata_partition]
    columns = ("offset", "timestamp_ms", "key", "value")
    return [
        Record(*row)
        for batch in log.read(metadata_partition, begin, end)
        for row in zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
    ]


def log_of(
    partitions: Sequence[Records], ends: Sequence[int], policy: Iterable[str], clock: Callable[[], int]
) -> InProcessMetadataEventLog:
    """
    Return a log that holds these records and no others.

    :param partitions: the records of each metadata partition.
    :param ends: its high watermark: the last offsets may hold no record.
    :param policy: the names in its ``cleanup.policy``.
    :param clock: time.
    """
    log = InProcessMetadataEventLog(len(partitions), clock=clock)
    log.policy = frozenset(policy)
    for number, (records, end) in enumerate(zip(partitions, ends, strict=True)):
        held = {record.offset: record for record in records}
        for offset in range(end):
            record = held.get(offset, Record(offset, 0, None, None))
            log.append(number, record.value, record.key, record.timestamp_ms)
        log.remove(number, range(end) - held.keys())
    return log


def with_keys(records: Records, form: KeyForm) -> list[Record]:
    """Return the same records as brokers would write them that give the events of segments keys; others stay as they are."""
    ends: dict[UUID, int] = {}
    found = []
    for record in records:
        event = segment_event_of(record)
        if event is None:
            found.append(record)
            continue
        if isinstance(event, RemoteLogSegmentMetadata):
            ends[event.remote_log_segment_id.id] = event.end_offset
        said = _said(event, ends) if form is KeyForm.END_OFFSET else event
        found.append(replace(record, key=key_of(said, form), value=serialize(said)))
    return found


def _said(event: SegmentEvent, ends: dict[UUID, int]) -> SegmentEvent:
    """Return an event as api version 1 says it."""
    if isinstance(event, RemoteLogSegmentMetadata):
        return replace(event, broker_leader_epoch=EPOCH)
    segment_id = event.remote_log_segment_id.id
    # Its broker knows it, also where the record that adds the segment is lost: another segment's is another number.
    unknown = int.from_bytes(segment_id.bytes[:6], "big")
    return replace(event, end_offset=ends.get(segment_id, unknown), broker_leader_epoch=EPOCH)


def key_of(event: SegmentEvent, form: KeyForm) -> bytes:
    """Return the key of an event of a segment."""
    segment_id = event.remote_log_segment_id
    tip = segment_id.topic_id_partition
    if form is KeyForm.SEGMENT:
        return b"segment " + segment_id.id.bytes
    if form is KeyForm.STATE:
        return bytes(SegmentKey(tip.topic_id, tip.partition, segment_id.id, event.state))
    is_update = isinstance(event, RemoteLogSegmentMetadataUpdate)
    return bytes(OffsetKey(tip.topic_id, tip.topic, tip.partition, event.end_offset, EPOCH, is_update))


def with_tombstones(records: Records, end: int) -> list[Record]:
    """
    Return the records, and behind them what asks to forget all that was said of finished segments.

    No broker holds a segment for finished whose deletion nobody had started, and asks to forget it.
    """
    keys: dict[UUID, dict[bytes, None]] = {}
    started: set[UUID] = set()
    finished: dict[UUID, int] = {}
    for record in records:
        event = segment_event_of(record, keyed=True)
        if event is not None and record.key is not None:
            segment_id = event.remote_log_segment_id.id
            keys.setdefault(segment_id, {})[record.key] = None
            if event.state is S.DELETE_SEGMENT_STARTED:
                started.add(segment_id)
            elif event.state is S.DELETE_SEGMENT_FINISHED and segment_id in started:
                finished.setdefault(segment_id, record.timestamp_ms)
    behind = [(key, time_ms) for segment_id, time_ms in finished.items() for key in keys[segment_id]]
    return [*records, *(Record(end + i, time_ms, key, None) for i, (key, time_ms) in enumerate(behind))]


def compacted(records: Records, dirty: int, horizon: int) -> list[Record]:
    """
    Return what the log cleaner leaves.

    :param records: all of a metadata partition.
    :param dirty: the first offset that it does not reach.
    :param horizon: the first offset whose record without a value it keeps.
    """
    last = {record.key: record.offset for record in records if record.offset < dirty}

    def stays(record: Record) -> bool:
        if record.offset >= dirty:
            return True
        forgotten = record.value is None and record.offset < horizon
        return record.key is not None and last[record.key] == record.offset and not forgotten

    return [record for record in records if stays(record)]


def event_of(record: Record, *, keyed: bool = False) -> RemoteLogMetadata | None:
    """
    Return what a record says, ``None`` where it says nothing.

    :param record: of whatever kind, of which nobody knows that it can be decoded.
    :param keyed: whether it is read as one with a key is.
    """
    if record.value is None:
        return None
    try:
        return deserialize(record.value, keyed=keyed)
    except MalformedMetadataError:
        return None


def segment_event_of(record: Record, *, keyed: bool = False) -> SegmentEvent | None:
    """
    Return what a record says of a segment, ``None`` where it says nothing of one.

    :param record: as for :func:`event_of`.
    :param keyed: whether it is read as one with a key is.
    """
    event = event_of(record, keyed=keyed)
    return event if isinstance(event, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate) else None


def events_behind(log: InProcessMetadataEventLog, ends: Sequence[int]) -> Iterator[RemoteLogMetadata]:
    """Yield what was written behind some offsets, all of it ours."""
    for number, end in enumerate(ends):
        for record in records_of(log, number):
            if record.offset >= end and record.value is not None:
                yield deserialize(record.value)
