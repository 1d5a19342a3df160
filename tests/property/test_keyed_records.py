# SPDX-License-Identifier: Apache-2.0
"""Of records with keys, columns say what a look at one record after the other says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.records.columnar import ErrorCode, decode, iter_events
from airflow_provider_rlmm.core.records.keys import OffsetKey
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.serde import serialize
from tests.examples import examples
from tests.property import strategies
from tests.property.record_keys import judged, offset_key, segment_key
from tests.unit.core.records import events

PARTITIONS = 3


@st.composite
def records(draw: st.DrawFn) -> tuple[bytes | None, bytes | None, int]:
    """A record's value and key, and where it lies: as one of the designs writes it, or changed in something."""
    event = draw(strategies.keyed_records | strategies.segments() | strategies.updates)
    named = draw(st.sampled_from([event, event, event, draw(strategies.keyed_records)]))
    key = draw(st.sampled_from([segment_key(named), offset_key(named, draw(strategies.int64), draw(strategies.int32))]))
    spoil = draw(st.sampled_from(["nothing"] * 4 + ["key", "no key", "value", "null", "place", "record"]))
    value = serialize(event)
    home = metadata_partition_for(topic_id_partition_of(event), PARTITIONS)
    if spoil == "key":
        at = draw(st.integers(0, len(key) - 1))
        key = key[:at] + draw(st.binary(max_size=2)) + key[at + 1 :]
    if spoil == "value":
        value = value[: draw(st.integers(0, len(value)))]
    if spoil == "record":
        value = serialize(draw(strategies.records))
    return (
        None if spoil == "null" else value,
        None if spoil == "no key" else key,
        (home + 1) % PARTITIONS if spoil == "place" else home,
    )


@pytest.mark.slow
@given(st.lists(records(), max_size=12))
@settings(max_examples=examples(500), deadline=None)
def test_columns_judge_keys_as_a_look_at_one_record_does(read):
    values, keys, places = zip(*read, strict=True) if read else ((), (), ())
    batch = decode(list(values), keys=list(keys), metadata_partition=list(places), num_partitions=PARTITIONS)
    batch.validate(full=True)
    found = zip(map(ErrorCode, batch.column("error_code").to_pylist()), iter_events(batch), strict=True)
    assert list(found) == [judged(*record, PARTITIONS) for record in read]


@pytest.mark.slow
@given(st.lists(strategies.keyed_records, min_size=1, max_size=12))
@settings(max_examples=examples(200), deadline=None)
def test_what_one_design_writes_is_good_and_what_it_says_is_kept(written):
    keys = [segment_key(event) for event in written]
    batch = decode([serialize(event) for event in written], keys=keys)
    assert set(batch.column("error_code").to_pylist()) == {ErrorCode.GOOD}
    assert list(iter_events(batch)) == written


def test_a_key_that_names_another_end_of_an_update_is_not_its_key():
    event = replace(events.copied(7), end_offset=99, broker_leader_epoch=4)
    for end_offset, epoch, code in ((99, 4, ErrorCode.GOOD), (98, 4, ErrorCode.KEYED), (99, 5, ErrorCode.KEYED)):
        tip = event.remote_log_segment_id.topic_id_partition
        key = bytes(OffsetKey(tip.topic_id, tip.topic, tip.partition, end_offset, epoch, is_update=True))
        assert decode([serialize(event)], keys=[key]).column("error_code").to_pylist() == [code]
