# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pickle
from dataclasses import replace
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import PartitionNotAssignedError, TopicInDoubtError
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.log.known_segments import AdvancingSegments, KnownSegments, PartitionSegments
from airflow_provider_rlmm.core.records.keys import SegmentKey
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S

TIP = TopicIdPartition(UUID(int=1), "orders", 0)
OTHER = replace(TIP, partition=1)
PARTITIONS = 3


def started(number: int, start: int, end: int, tip: TopicIdPartition = TIP) -> RemoteLogSegmentMetadata:
    segment_id = RemoteLogSegmentId(tip, UUID(int=100 + number))
    return RemoteLogSegmentMetadata(
        segment_id, start, end, 0, 1, 0, 1000, None, S.COPY_SEGMENT_STARTED, ((0, start),)
    )  # fmt: skip


def update(metadata: RemoteLogSegmentMetadata, state: S) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(metadata.remote_log_segment_id, 1, None, state, 1)


class Log:
    def __init__(self) -> None:
        self.log = InProcessMetadataEventLog(PARTITIONS)

    def write(self, *events: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate) -> None:
        for event in events:
            number = metadata_partition_for(event.remote_log_segment_id.topic_id_partition, PARTITIONS)
            self.log.publish([(number, serialize(event))])

    def write_bytes(self, value: bytes) -> None:
        self.log.publish([(metadata_partition_for(TIP, PARTITIONS), value)])


def test_segments_are_looked_up_as_the_metadata_topic_names_them() -> None:
    log, first, second = Log(), started(1, 0, 9), started(2, 10, 19)
    log.write(first, update(first, S.COPY_SEGMENT_FINISHED), second)
    segments = PartitionSegments(log.log, [TIP])
    assert segments.remote_log_segment_metadata(TIP, 0, 9) == first.with_update(update(first, S.COPY_SEGMENT_FINISHED))
    assert segments.remote_log_segment_metadata(TIP, 0, 10) is None
    assert segments.highest_offset_for_epoch(TIP, 0) == 9
    assert [m.start_offset for m in segments.list_remote_log_segments(TIP)] == [0, 10]
    assert segments.next_segment_with_txn_index(TIP, 0, 0) is not None


def test_what_is_written_later_is_known_after_it_was_asked_for() -> None:
    log, first = Log(), started(1, 0, 9)
    segments = PartitionSegments(log.log, [TIP])
    assert isinstance(segments, AdvancingSegments)
    log.write(first, update(first, S.COPY_SEGMENT_FINISHED))
    assert segments.list_remote_log_segments(TIP) == []
    segments.advance()
    assert segments.highest_offset_for_epoch(TIP, 0) == 9
    segments.advance()
    assert len(segments.list_remote_log_segments(TIP)) == 1


def test_a_user_partition_that_was_not_named_is_no_empty_one() -> None:
    log = Log()
    log.write(started(1, 0, 9, OTHER))
    segments = PartitionSegments(log.log, [TIP])
    with pytest.raises(PartitionNotAssignedError, match="orders-1"):
        segments.list_remote_log_segments(OTHER)


def test_a_record_that_may_name_a_segment_and_cannot_be_read_is_an_error() -> None:
    log = Log()
    log.write_bytes(b"\x01\x63\x00")
    with pytest.raises(TopicInDoubtError, match=r"offset 0: UNKNOWN_API_KEY .* cannot be applied"):
        PartitionSegments(log.log, [TIP])
    allowed = PartitionSegments(log.log, [TIP], allowed_quarantine=frozenset({"UNKNOWN_API_KEY"}))
    assert allowed.list_remote_log_segments(TIP) == []


def test_a_record_that_comes_later_and_cannot_be_read_is_an_error_each_time() -> None:
    log, first = Log(), started(1, 0, 9)
    segments = PartitionSegments(log.log, [TIP])
    log.write(first)
    log.write_bytes(b"")
    for _ in range(2):
        with pytest.raises(TopicInDoubtError):
            segments.advance()


def test_a_metadata_partition_that_has_lost_its_beginning_is_an_error() -> None:
    log, first = Log(), started(1, 0, 9)
    log.write(first, update(first, S.COPY_SEGMENT_FINISHED))
    number = metadata_partition_for(TIP, PARTITIONS)
    log.log.truncate(number, 1)
    with pytest.raises(TopicInDoubtError, match=f"metadata partition {number} begins at offset 1"):
        PartitionSegments(log.log, [TIP])


def test_a_segment_whose_add_is_missing_is_no_end_of_the_log() -> None:
    log, first, second, elsewhere = Log(), started(1, 0, 9), started(2, 10, 19), started(3, 0, 9, OTHER)
    log.write(first, update(first, S.COPY_SEGMENT_FINISHED), elsewhere, update(elsewhere, S.COPY_SEGMENT_FINISHED))
    segments = PartitionSegments(log.log, [TIP])
    log.write(update(second, S.COPY_SEGMENT_FINISHED))
    for _ in range(2):
        with pytest.raises(TopicInDoubtError, match=r"1 segment of .*orders-0 has an incomplete history, see offset 2"):
            segments.advance()
    PartitionSegments(log.log, [OTHER])
    log.write(update(second, S.DELETE_SEGMENT_STARTED), update(second, S.DELETE_SEGMENT_FINISHED))
    segments.advance()
    assert len(segments.list_remote_log_segments(TIP)) == 1


def test_a_segment_that_is_to_be_forgotten_and_was_not_finished_is_no_end_of_the_log() -> None:
    log, first = Log(), started(1, 0, 9)
    log.write(first, update(first, S.COPY_SEGMENT_FINISHED))
    key = SegmentKey(TIP.topic_id, TIP.partition, first.remote_log_segment_id.id, S.COPY_SEGMENT_STARTED)
    log.log.append(metadata_partition_for(TIP, PARTITIONS), None, bytes(key))
    with pytest.raises(TopicInDoubtError, match=r"1 segment of .*orders-0 has an incomplete history, see offset 2"):
        PartitionSegments(log.log, [TIP])


def test_a_compacted_log_is_read_where_that_is_asked_for_and_one_that_becomes_it_is_not() -> None:
    log, first, second = Log(), started(1, 0, 9), started(2, 10, 19)
    log.write(first, update(first, S.COPY_SEGMENT_FINISHED), update(second, S.COPY_SEGMENT_FINISHED))
    log.log.policy = frozenset({"compact"})
    segments = PartitionSegments(log.log, [TIP], or_compacted=True)
    assert segments.why_not_whole == "compacted: its cleanup.policy is compact"
    assert segments.unknown_segments(TIP) == 1
    assert [m.start_offset for m in segments.list_remote_log_segments(TIP)] == [0]
    plain = Log()
    plain.write(first, update(first, S.COPY_SEGMENT_FINISHED))
    segments = PartitionSegments(plain.log, [TIP], or_compacted=True)
    assert segments.why_not_whole is None
    plain.log.policy = frozenset({"compact"})
    plain.write(second)
    with pytest.raises(TopicInDoubtError, match="records may be gone from anywhere"):
        segments.advance()


def test_a_list_of_segments_answers_as_the_log_it_came_from() -> None:
    log, segments = Log(), [started(n, n * 10, n * 10 + 9) for n in range(4)]
    log.write(*segments)
    log.write(*(update(m, S.COPY_SEGMENT_FINISHED) for m in segments[:3]))
    log.write(update(segments[0], S.DELETE_SEGMENT_STARTED))
    replayed = PartitionSegments(log.log, [TIP])
    known: KnownSegments = pickle.loads(pickle.dumps(KnownSegments.of(replayed.list_remote_log_segments(TIP))))
    assert known.list_remote_log_segments(TIP) == replayed.list_remote_log_segments(TIP)
    for offset in range(-1, 41):
        theirs = replayed.remote_log_segment_metadata(TIP, 0, offset)
        assert known.remote_log_segment_metadata(TIP, 0, offset) == theirs
    assert known.highest_offset_for_epoch(TIP, 0) == 29
