# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from uuid import UUID

import pytest

from airflow_provider_rlmm.core.records.keys import OffsetKey, SegmentKey, parse_key
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadataSnapshot, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState
from tests.unit.core.records import events

TOPIC_ID = events.PARTITION.topic_id
ADD, UPDATE = events.started(7), events.copied(7)

SEGMENT_KEY = bytes.fromhex(
    "3f0e218ffaa049f2828547520c8cecc6"  # topic id
    "00000002"  # partition
    "00000000000000000000000000000007"  # segment id
    "01"  # COPY_SEGMENT_FINISHED
)
ADD_KEY, UPDATE_KEY = b"Pw4hj_qgSfKChUdSDIzsxg:orders:2:99:5", b"Pw4hj_qgSfKChUdSDIzsxg:orders:2:99:5:UPDATE"


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        (SEGMENT_KEY, SegmentKey(TOPIC_ID, 2, UUID(int=7), RemoteLogSegmentState.COPY_SEGMENT_FINISHED)),
        (ADD_KEY, OffsetKey(TOPIC_ID, "orders", 2, 99, 5, is_update=False)),
        (UPDATE_KEY, OffsetKey(TOPIC_ID, "orders", 2, 99, 5, is_update=True)),
        (
            b"Pw4hj_qgSfKChUdSDIzsxg:orders:2147483647:9223372036854775807:-2147483648",
            OffsetKey(TOPIC_ID, "orders", 2**31 - 1, 2**63 - 1, -(2**31), is_update=False),
        ),
    ],
)
def test_a_key_of_each_design_is_read_and_is_what_was_written(raw: bytes, key: SegmentKey | OffsetKey) -> None:
    assert parse_key(raw) == key
    assert bytes(key) == raw


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"any",
        SEGMENT_KEY[:-1],
        SEGMENT_KEY + b"\x01",
        SEGMENT_KEY[:-1] + b"\x04",
        ADD_KEY + b":",
        ADD_KEY + b":update",
        ADD_KEY[1:],
        b"Pw4hj_qgSfKChUdSDIzsxh" + ADD_KEY[22:],
        ADD_KEY.replace(b":99:", b":099:"),
        ADD_KEY.replace(b":99:", b":+99:"),
        ADD_KEY.replace(b":99:", b":-0:"),
        ADD_KEY.replace(b":99:", "٣".encode()),
        ADD_KEY.replace(b":2:", b":2147483648:"),
        ADD_KEY.replace(b":2:", b":-2147483649:"),
        ADD_KEY.replace(b":99:", b":9223372036854775808:"),
        ADD_KEY.replace(b":99:", b":-9223372036854775809:"),
        ADD_KEY.replace(b":5", b":2147483648"),
        b"\xff" + ADD_KEY,
    ],
)
def test_what_is_of_neither_design_is_no_key(raw: bytes) -> None:
    assert parse_key(raw) is None


OTHER = TopicIdPartition(TOPIC_ID, "orders", 3)
RENAMED = TopicIdPartition(TOPIC_ID, "payments", 2)
RECREATED = TopicIdPartition(UUID(int=1), "orders", 2)


@pytest.mark.parametrize(
    ("raw", "named", "others"),
    [
        (
            SEGMENT_KEY,
            [UPDATE, events.copied(7, RENAMED)],
            [ADD, events.deleting(7), events.copied(8), events.copied(7, OTHER), events.copied(7, RECREATED)],
        ),
        (
            ADD_KEY,
            [ADD, events.started(8)],
            [
                *(UPDATE, events.started(7, end=98)),
                *(events.started(7, partition=tip) for tip in (OTHER, RENAMED, RECREATED)),
            ],
        ),
        (
            UPDATE_KEY,
            [UPDATE, events.deleted(8)],
            [ADD, *(events.copied(7, tip) for tip in (OTHER, RENAMED, RECREATED))],
        ),
    ],
)
def test_a_key_names_what_its_record_names_as_far_as_both_do(raw: bytes, named: list, others: list) -> None:
    key = parse_key(raw)
    assert key is not None
    assert [key.names(event) for event in named] == [True] * len(named)
    assert [key.names(event) for event in others] == [False] * len(others)


def test_records_that_are_about_no_segment_of_a_partition_have_no_key() -> None:
    marker = events.partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED)
    state = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    snapshot = RemoteLogSegmentMetadataSnapshot(UUID(int=7), 0, 99, 0, 0, 0, 0, None, state, ((0, 0),))
    for raw in (SEGMENT_KEY, ADD_KEY, UPDATE_KEY):
        key = parse_key(raw)
        assert key is not None
        assert not key.names(marker)
        assert not key.names(snapshot)
