# SPDX-License-Identifier: Apache-2.0
"""Segments of a topic whose histories were kept while all of the log was read are those that its own read finds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import RlmmError
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.log.in_process_topics import InProcessClusterTopics
from airflow_provider_rlmm.core.log.known_segments import PartitionSegments
from airflow_provider_rlmm.core.log.topic_histories import ReadHistories, TopicHistories
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.read_tail import KEPT
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.world.topic_view import TopicReplay

PARTITIONS = 3
ORDERS = [TopicIdPartition(UUID(int=1), "orders", number) for number in range(4)]
OTHERS = [TopicIdPartition(UUID(int=2), "orders", 0), TopicIdPartition(UUID(int=3), "payments", 0)]
HERE = metadata_partition_for(ORDERS[0], PARTITIONS)


class CountedLog(InProcessMetadataEventLog):
    """Counts the offsets that are asked for."""

    asked = 0

    def read_many(self, ranges: Mapping[int, tuple[int, int]]) -> Iterator[tuple[int, Any]]:
        """See :class:`MetadataLogReader`."""
        self.asked += sum(end - start for start, end in ranges.values())
        return super().read_many(ranges)


def filled(seed: int) -> CountedLog:
    """Return a log in which segments of several topics are copied, replaced and deleted, in any order that brokers allow."""
    rng, log = random.Random(seed), CountedLog(PARTITIONS)
    steps: list[tuple[RemoteLogSegmentMetadata, list[S]]] = []
    for number in range(40):
        tip, start = rng.choice([*ORDERS, *OTHERS]), 10 * rng.randrange(8)
        metadata = RemoteLogSegmentMetadata(
            RemoteLogSegmentId(tip, UUID(int=100 + number)), start, start + rng.choice((9, 19)), 0, 1, 0, 1000, None,
            S.COPY_SEGMENT_STARTED, ((0, start),),
        )  # fmt: skip
        states = [S.COPY_SEGMENT_FINISHED, S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED][: rng.randrange(4)]
        log.publish([(metadata_partition_for(tip, PARTITIONS), serialize(metadata))])
        steps.append((metadata, states))
        while steps and rng.random() < 0.7:
            metadata, states = rng.choice(steps)
            if not states:
                steps.remove((metadata, states))
                continue
            tip = metadata.remote_log_segment_id.topic_id_partition
            update = RemoteLogSegmentMetadataUpdate(metadata.remote_log_segment_id, 1, None, states.pop(0), 1)
            log.publish([(metadata_partition_for(tip, PARTITIONS), serialize(update))])
    return log


def read_all(log: CountedLog, topic: str = "orders", topic_id: UUID | None = None) -> ReadHistories:
    topics = InProcessClusterTopics()
    replay, histories = TopicReplay(log, topics, lambda: 0), TopicHistories(topic, topic_id)
    replay.advance(on_decoded=histories.take)
    read = replay.read_histories(histories, range(PARTITIONS))
    assert read is not None
    return read


def answers(segments: PartitionSegments, tip: TopicIdPartition) -> list[object]:
    served = [segments.remote_log_segment_metadata(tip, 0, offset) for offset in range(0, 100, 3)]
    listed = segments.list_remote_log_segments(tip)
    return [*served, *listed, segments.highest_offset_for_epoch(tip, 0), segments.unknown_segments(tip)]


@pytest.mark.parametrize("seed", range(10))
def test_the_segments_are_those_of_a_read_of_their_own(seed: int) -> None:
    log = filled(seed)
    given, own = PartitionSegments(log, ORDERS, read=read_all(log)), PartitionSegments(log, ORDERS)
    assert [answers(given, tip) for tip in ORDERS] == [answers(own, tip) for tip in ORDERS]
    by_id = PartitionSegments(log, ORDERS, read=read_all(log, "of no name", ORDERS[0].topic_id))
    assert [answers(by_id, tip) for tip in ORDERS] == [answers(own, tip) for tip in ORDERS]


def test_what_was_read_is_not_read_again() -> None:
    log = filled(1)
    read = read_all(log)
    all_of_it = log.asked
    PartitionSegments(log, ORDERS, read=read)
    assert all_of_it == sum(log.high_water_marks().values())
    assert log.asked - all_of_it <= KEPT * PARTITIONS


def test_what_is_written_after_the_read_counts() -> None:
    log, tip = filled(2), ORDERS[0]
    read, segment_id = read_all(log), RemoteLogSegmentId(ORDERS[0], UUID(int=999))
    late = RemoteLogSegmentMetadata(segment_id, 500, 509, 0, 1, 0, 1, None, S.COPY_SEGMENT_STARTED, ((0, 500),))
    log.publish([(HERE, serialize(late))])
    segments = PartitionSegments(log, [tip], read=read)
    assert segments.list_remote_log_segments(tip)[-1].start_offset == 500


def unreadable(log: CountedLog) -> None:
    log.publish([(HERE, b"\x01\x63\x00")])


def without_add(log: CountedLog) -> None:
    unknown = RemoteLogSegmentId(ORDERS[0], UUID(int=998))
    log.publish([(HERE, serialize(RemoteLogSegmentMetadataUpdate(unknown, 1, None, S.COPY_SEGMENT_FINISHED, 1)))])


def lost_beginning(log: CountedLog) -> None:
    log.truncate(HERE, 2)


def compacted(log: CountedLog) -> None:
    log.policy = frozenset({"compact"})


@pytest.mark.parametrize("before", [True, False], ids=["before it is read", "after it was read"])
@pytest.mark.parametrize("damage", [unreadable, without_add, lost_beginning, compacted])
def test_a_doubt_is_a_doubt_whoever_has_read_the_log(damage: Callable[[CountedLog], None], before: bool) -> None:
    log = filled(3)
    if before:
        damage(log)
    read = read_all(log)
    if not before:
        damage(log)
    with pytest.raises(RlmmError) as own:
        PartitionSegments(log, ORDERS[:1])
    with pytest.raises(type(own.value)) as refused:
        PartitionSegments(log, ORDERS[:1], read=read)
    assert str(refused.value) == str(own.value)


def test_a_record_in_doubt_elsewhere_is_nobodys_here() -> None:
    log = filled(4)
    elsewhere = next(number for number in range(PARTITIONS) if number != HERE)
    log.publish([(elsewhere, b"\x01\x63\x00")])
    own = [tip for tip in ORDERS if metadata_partition_for(tip, PARTITIONS) == HERE]
    given = PartitionSegments(log, own, read=read_all(log))
    assert [answers(given, tip) for tip in own] == [answers(PartitionSegments(log, own), tip) for tip in own]
