# SPDX-License-Identifier: Apache-2.0
"""Records with keys, as columns: what one look at them together says (more of it in ``tests/property``)."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import NewerVersionError
from airflow_provider_rlmm.core.records.columnar import ColumnarState, ErrorCode, decode
from airflow_provider_rlmm.core.records.decoding.key_match import _MIX
from airflow_provider_rlmm.core.records.keys import OffsetKey, SegmentKey
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import SegmentEvent
from airflow_provider_rlmm.core.records.serde import deserialize, serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from tests.unit.core.records import events

TOPIC_ID, TIP = events.PARTITION.topic_id, events.PARTITION
UPDATE = replace(events.copied(7), end_offset=99, broker_leader_epoch=5)
ADD = replace(events.started(7), broker_leader_epoch=5)
SEGMENT_KEY = SegmentKey(TOPIC_ID, 2, UPDATE.remote_log_segment_id.id, S.COPY_SEGMENT_FINISHED)
OFFSET_KEY = OffsetKey(TOPIC_ID, "orders", 2, 99, 5, is_update=True)
HOME = metadata_partition_for(TIP, 5)


def codes(values: list[bytes | None], keys: list[bytes | None], **places: int) -> list[ErrorCode]:
    return [ErrorCode(code) for code in decode(values, keys=keys, **places).column("error_code").to_pylist()]


def test_only_a_key_that_names_what_its_value_names_is_good() -> None:
    named = [bytes(SEGMENT_KEY), bytes(OFFSET_KEY)]
    others = [
        bytes(replace(SEGMENT_KEY, state=S.DELETE_SEGMENT_STARTED)),
        bytes(replace(SEGMENT_KEY, partition=3)),
        bytes(replace(OFFSET_KEY, end_offset=98)),
        bytes(replace(OFFSET_KEY, leader_epoch=4)),
        bytes(replace(OFFSET_KEY, is_update=False)),
        b"any",
        b"",
    ]
    for value in (serialize(UPDATE), serialize(events.copied(7))):
        assert codes([value] * 2, named) == [ErrorCode.GOOD] * 2
    value = serialize(UPDATE)
    assert codes([value] * len(others), others) == [ErrorCode.KEYED] * len(others)
    assert codes([value] * len(others), others[::-1]) == [ErrorCode.KEYED] * len(others)


def test_a_key_that_could_be_cut_in_another_way_is_not_good() -> None:
    tip = replace(TIP, topic="orders:2")
    update = replace(UPDATE, remote_log_segment_id=replace(UPDATE.remote_log_segment_id, topic_id_partition=tip))
    assert codes([serialize(update)], [bytes(replace(OFFSET_KEY, topic="orders:2"))]) == [ErrorCode.KEYED]


def test_keys_of_records_that_differ_in_one_thing_are_not_mistaken_for_each_other() -> None:
    named = [
        OFFSET_KEY,
        replace(OFFSET_KEY, topic="payments"),
        replace(OFFSET_KEY, partition=3),
        replace(OFFSET_KEY, topic_id=UUID(int=7)),
        replace(OFFSET_KEY, end_offset=98),
        replace(OFFSET_KEY, leader_epoch=4),
        replace(OFFSET_KEY, is_update=False),
    ]
    keys, values = [bytes(key) for key in named], [serialize(_event_of(key)) for key in named]
    for turn in range(len(named)):
        code = ErrorCode.KEYED if turn else ErrorCode.GOOD
        assert codes(values, keys[turn:] + keys[:turn]) == [code] * len(named)


def test_ids_that_make_the_same_number_are_told_apart() -> None:
    # Whoever knows the factor of key_match can make an id whose number is that of another one.
    bits = 2**64
    high, last = (int.from_bytes(half, "little") for half in (TOPIC_ID.bytes[:8], TOPIC_ID.bytes[8:]))
    other_high = high + 1
    other_last = (other_high * int(_MIX) ^ high * int(_MIX) ^ last) % bits
    other = UUID(bytes=other_high.to_bytes(8, "little") + other_last.to_bytes(8, "little"))
    named = [OFFSET_KEY, replace(OFFSET_KEY, topic_id=other)]
    keys, values = [bytes(key) for key in named], [serialize(_event_of(key)) for key in named]
    assert codes(values, keys) == [ErrorCode.GOOD] * 2
    assert codes(values, [keys[0]] * 2) == [ErrorCode.GOOD, ErrorCode.KEYED]


def _event_of(key: OffsetKey) -> SegmentEvent:
    tip = replace(TIP, topic_id=key.topic_id, topic=key.topic, partition=key.partition)
    event: SegmentEvent = UPDATE if key.is_update else ADD
    segment_id = replace(event.remote_log_segment_id, topic_id_partition=tip)
    said = {"end_offset": key.end_offset, "broker_leader_epoch": key.leader_epoch}
    return replace(event, remote_log_segment_id=segment_id, **said)


def test_a_record_of_version_1_without_a_key_is_not_read() -> None:
    value = serialize(UPDATE)
    assert codes([value, value], [None, bytes(OFFSET_KEY)]) == [ErrorCode.NEWER_VERSION, ErrorCode.GOOD]
    assert decode([value]).column("error_code").to_pylist() == [ErrorCode.NEWER_VERSION]
    with pytest.raises(NewerVersionError, match="api version 1 of api key 1 is newer than 0"):
        deserialize(value)


def test_a_version_above_1_is_not_read_with_a_key_either() -> None:
    value = serialize(UPDATE)
    assert codes([value[:2] + b"\2" + value[3:]], [bytes(OFFSET_KEY)]) == [ErrorCode.NEWER_VERSION]


@pytest.mark.parametrize("key", [SEGMENT_KEY, OFFSET_KEY])
def test_a_null_value_is_forgotten_only_where_its_key_names_a_segment_and_lies_where_it_belongs(
    key: SegmentKey | OffsetKey,
) -> None:
    keys = [bytes(key), b"any", None]
    assert codes([None] * 3, keys) == [ErrorCode.FORGOTTEN, ErrorCode.TOMBSTONE, ErrorCode.TOMBSTONE]
    assert codes([None], [bytes(key)], metadata_partition=HOME, num_partitions=5) == [ErrorCode.FORGOTTEN]
    elsewhere = (HOME + 1) % 5
    assert codes([None], [bytes(key)], metadata_partition=elsewhere, num_partitions=5) == [ErrorCode.TOMBSTONE]


def test_a_null_value_whose_key_says_a_number_that_kafka_has_no_room_for_ends_no_reading() -> None:
    too_large = bytes(replace(OFFSET_KEY, end_offset=2**63)), bytes(replace(OFFSET_KEY, partition=-(2**31) - 1))
    values, keys = [serialize(ADD), None, None], [bytes(replace(OFFSET_KEY, is_update=False)), *too_large]
    assert codes(values, keys) == [ErrorCode.GOOD, ErrorCode.TOMBSTONE, ErrorCode.TOMBSTONE]
    state, _ = ColumnarState.empty().apply(decode(values, keys=keys))
    assert (state.segments.num_rows, state.unresolved.num_rows) == (1, 0)
