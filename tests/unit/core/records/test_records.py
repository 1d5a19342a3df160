# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pickle
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.records.records import (
    RemoteLogMetadata,
    kafka_uuid_str,
    parse_kafka_uuid,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState
from tests.unit.core.records import events
from tests.unit.core.records.recorded import GOLDEN, event_of

ID = UUID("d96e43ff-409c-8932-1c1b-fe1d299deab4")


def test_ids_have_kafkas_text_form():
    assert kafka_uuid_str(ID) == "2W5D_0CciTIcG_4dKZ3qtA"
    assert parse_kafka_uuid("2W5D_0CciTIcG_4dKZ3qtA") == ID
    assert parse_kafka_uuid("2W5D/0CciTIcG/4dKZ3qtA==") == ID


@pytest.mark.parametrize(
    "text", ["", "2W5D_0CciTIcG_4dKZ3q", "2W5D_0CciTIcG_4dKZ3qtAAA", "no id! no id! no id! !", "é" * 22]
)
def test_what_is_no_id_is_refused(text):
    with pytest.raises(ValueError, match="not a Kafka id"):
        parse_kafka_uuid(text)


def test_ids_print_as_kafkas_do():
    assert str(events.PARTITION) == "Pw4hj_qgSfKChUdSDIzsxg:orders-2"
    assert str(events.segment_id(1)) == "Pw4hj_qgSfKChUdSDIzsxg:orders-2/AAAAAAAAAAAAAAAAAAAAAQ"


def test_records_can_be_hashed_and_pickled():
    records: list[RemoteLogMetadata] = [event_of(case) for case in GOLDEN]
    assert pickle.loads(pickle.dumps(records)) == records
    assert len(set(records)) == len(records)


def test_an_update_replaces_custom_metadata_even_by_none():
    segment = events.started(1).with_update(events.update(1, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, b"there"))
    assert segment.custom_metadata == b"there"
    after = segment.with_update(events.deleting(1))
    assert (after.custom_metadata, after.state, after.broker_id) == (
        None,
        RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
        7,
    )
    assert (after.start_offset, after.segment_leader_epochs) == (segment.start_offset, segment.segment_leader_epochs)


def test_an_update_of_another_segment_is_refused():
    with pytest.raises(ValueError, match="does not fit"):
        events.started(1).with_update(events.copied(2))


def test_every_event_of_a_partition_names_it():
    everything = [
        events.started(1),
        events.copied(1),
        events.partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED),
    ]
    assert {topic_id_partition_of(event) for event in everything} == {events.PARTITION}


@pytest.mark.parametrize(
    ("states", "allowed"),
    [
        (RemoteLogSegmentState, {(None, 0), (0, 1), (0, 2), (1, 2), (2, 3)}),
        (RemotePartitionDeleteState, {(None, 0), (0, 1), (1, 2)}),
    ],
)
def test_transitions_are_kafkas(states, allowed):
    allowed = allowed | {(int(state), int(state)) for state in states}
    found = {
        (source, int(target))
        for source in (None, *states)
        for target in states
        if states.is_valid_transition(source, target)
    }
    assert found == allowed
