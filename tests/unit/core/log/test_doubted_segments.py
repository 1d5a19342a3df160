# SPDX-License-Identifier: Apache-2.0
"""Which segments are known of many user partitions, and of which nobody knows whether that is all."""

from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.base.errors import EventLogAccessError, EventLogUnavailableError
from airflow_provider_rlmm.core.log.doubted_segments import DoubtedSegments, groups_of, records_of
from airflow_provider_rlmm.core.log.in_process import ReadEffect
from airflow_provider_rlmm.core.records.keys import SegmentKey
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from tests.tiered_orders import METADATA_PARTITIONS, ORDERS, TieredOrders

FIRST, SECOND = ORDERS
TOPIC_IDS = {FIRST.topic_id}
ALL = range(METADATA_PARTITIONS)
NUMBER = metadata_partition_for(FIRST, METADATA_PARTITIONS)


def read(orders: TieredOrders) -> DoubtedSegments:
    segments = DoubtedSegments(orders.log, ALL, TOPIC_IDS)
    segments.advance()
    return segments


def test_the_segments_of_all_user_partitions_are_read_in_one_go() -> None:
    orders, counted = TieredOrders(), list[int]()
    segments = DoubtedSegments(orders.log, ALL, TOPIC_IDS, counted.append)
    segments.advance()
    assert sum(counted) == orders.events
    for tip in ORDERS:
        assert segments.names(tip)
        assert segments.doubt(tip) is None
        assert [s.start_offset for s in segments.cache(tip).list_remote_log_segments()] == [0, 30, 60]
    orders.update(orders.segments[0], RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
    orders.update(orders.segments[0], RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)
    segments.advance()
    assert [s.start_offset for s in segments.cache(FIRST).list_remote_log_segments()] == [30, 60]
    assert not DoubtedSegments(orders.log, ALL, set()).names(FIRST)


def test_a_segment_whose_add_is_missing_is_a_doubt_of_its_own_user_partition() -> None:
    segments = read(TieredOrders(without_add=[(0, 1)]))
    assert "1 of its segments has an incomplete history, see offset" in str(segments.doubt(FIRST))
    assert segments.doubt(SECOND) is None


def test_a_segment_that_is_to_be_forgotten_and_was_not_finished_is_a_doubt_of_its_own_user_partition() -> None:
    orders = TieredOrders()
    segment_id, state = orders.segments[1].remote_log_segment_id.id, RemoteLogSegmentState.COPY_SEGMENT_STARTED
    key = SegmentKey(FIRST.topic_id, FIRST.partition, segment_id, state)
    offset = orders.log.append(NUMBER, None, bytes(key))
    segments = read(orders)
    assert f"1 of its segments has an incomplete history, see offset {offset}" in str(segments.doubt(FIRST))
    assert segments.doubt(SECOND) is None


def test_records_that_hold_nothing_in_the_middle_are_a_doubt_of_their_metadata_partition() -> None:
    orders = TieredOrders()
    orders.log.remove(NUMBER, [2])
    segments = read(orders)
    assert f"metadata partition {NUMBER} has no record at offsets 2 to 2" in str(segments.doubt(FIRST))
    assert segments.doubt(SECOND) is None


def test_what_cannot_be_read_is_a_doubt_and_no_shorter_list(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = TieredOrders()
    segments = read(orders)

    def fail(ranges: object) -> ReadEffect:
        raise EventLogUnavailableError("no broker answers")

    monkeypatch.setattr(orders.log, "read_many", fail)
    segments.advance()
    assert segments.doubt(FIRST) == segments.doubt(SECOND) == "no broker answers"

    def deny(ranges: object) -> ReadEffect:
        raise EventLogAccessError("READ is missing")

    monkeypatch.setattr(orders.log, "read_many", deny)
    with pytest.raises(EventLogAccessError):
        segments.advance()


def test_a_compacted_topic_tells_nothing_for_certain() -> None:
    orders = TieredOrders()
    orders.log.policy = frozenset({"compact"})
    segments = read(orders)
    assert "records may be gone from anywhere" in str(segments.doubt(FIRST))


def test_metadata_partitions_are_read_in_groups_that_memory_holds() -> None:
    assert list(groups_of({0: 5, 1: 5, 2: 11, 3: 1, 4: 8}, 10)) == [[0, 1], [2], [3, 4]]
    assert list(groups_of({}, 10)) == []
    orders = TieredOrders()
    records = records_of(orders.log, ALL)
    assert sum(records.values()) == orders.events
    assert records_of(orders.log, [NUMBER]) == {NUMBER: records[NUMBER]}
