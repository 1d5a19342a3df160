# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import NewerVersionError
from airflow_provider_rlmm.core.records.columnar import decode, iter_events
from airflow_provider_rlmm.core.records.decoding.decode import metadata_partitions
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.serde import deserialize, serialize
from tests.examples import examples
from tests.property import strategies


@pytest.mark.slow
@given(strategies.records)
@settings(max_examples=examples(500), deadline=None)
def test_what_is_written_is_read_back(event):
    value = serialize(event)
    assert deserialize(value) == event
    assert serialize(deserialize(value)) == value


@pytest.mark.slow
@given(st.lists(strategies.records, max_size=12))
@settings(max_examples=examples(200), deadline=None)
def test_columns_hold_what_was_written(events):
    batch = decode([serialize(event) for event in events])
    batch.validate(full=True)
    assert list(iter_events(batch)) == events


@pytest.mark.slow
@given(strategies.keyed_records)
@settings(max_examples=examples(300), deadline=None)
def test_a_record_of_version_1_is_read_back_where_it_has_a_key_and_refused_where_it_has_none(event):
    value = serialize(event)
    assert deserialize(value, keyed=True) == event
    assert serialize(deserialize(value, keyed=True)) == value
    if value[2] == 1:
        with pytest.raises(NewerVersionError):
            deserialize(value)


@given(st.lists(strategies.partitions, max_size=20), st.integers(1, 2**31 - 1))
@settings(max_examples=examples(200), deadline=None)
def test_both_partitioners_agree(partitions, count):
    topic_ids = np.frombuffer(b"".join(partition.topic_id.bytes for partition in partitions), dtype="V16")
    numbers = np.array([partition.partition for partition in partitions], dtype=np.int32)
    expected = [metadata_partition_for(partition, count) for partition in partitions]
    assert metadata_partitions(topic_ids, numbers, count).tolist() == expected
    assert all(0 <= found < count for found in expected)
