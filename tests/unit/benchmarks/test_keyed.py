# SPDX-License-Identifier: Apache-2.0
"""The keyed forms of the benchmarks' workload are what brokers would write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_rlmm.core.records.columnar import decode
from airflow_provider_rlmm.core.records.keys import OffsetKey, SegmentKey, parse_key
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, RemotePartitionDeleteMetadata
from airflow_provider_rlmm.core.records.serde import deserialize, serialize
from benchmarks.keyed import KeyedRecords, keyed_by_end_offset, keyed_by_state, plain
from benchmarks.workload import generate


@pytest.fixture(scope="module")
def values():
    return generate(3_000).values


def _written(records: KeyedRecords):
    return zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True)


def test_keys_of_37_bytes_name_the_states_of_the_same_values(values):
    records = keyed_by_state(values)
    assert records.values.equals(values)
    for key, value in _written(records):
        event = deserialize(value)
        if isinstance(event, RemotePartitionDeleteMetadata):
            assert key is None
            continue
        tip = event.remote_log_segment_id.topic_id_partition
        assert key == bytes(SegmentKey(tip.topic_id, tip.partition, event.remote_log_segment_id.id, event.state))


def test_keys_of_text_name_the_ends_of_segments_and_values_say_them_too(values):
    ends = {}
    for (key, value), before in zip(_written(keyed_by_end_offset(values)), values.to_pylist(), strict=True):
        event, old = deserialize(value, keyed=True), deserialize(before)
        if isinstance(event, RemotePartitionDeleteMetadata):
            assert (key, value) == (None, before)
            continue
        is_add = isinstance(event, RemoteLogSegmentMetadata)
        if is_add:
            ends[event.remote_log_segment_id] = event.end_offset, event.segment_leader_epochs[-1][0]
        end_offset, epoch = ends.get(event.remote_log_segment_id, (0, 0))
        said = {"broker_leader_epoch": epoch} | ({} if is_add else {"end_offset": end_offset})
        assert event == replace(old, **said)
        assert value == serialize(event)
        parsed = parse_key(key)
        assert isinstance(parsed, OffsetKey)
        assert (parsed.end_offset, parsed.leader_epoch, parsed.is_update) == (end_offset, epoch, not is_add)
        assert parsed.names(event)


def test_every_form_is_good_and_has_its_size(values):
    for form in (plain, keyed_by_state, keyed_by_end_offset):
        records = form(values)
        assert set(decode(records.values, keys=records.keys).column("error_code").to_pylist()) == {0}
        assert records.size == sum(len(key or b"") + len(value) for key, value in _written(records))
