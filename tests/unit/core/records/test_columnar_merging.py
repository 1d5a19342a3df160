# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import weakref
from dataclasses import replace

import pytest

from airflow_provider_rlmm.core.base.errors import MetadataError
from airflow_provider_rlmm.core.records.columnar import ColumnarState, decode
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState
from tests.unit.core.records.events import (
    PARTITION,
    copied,
    deleted,
    deleting,
    partition_delete,
    segment_id,
    started,
    update,
)

OTHER = replace(PARTITION, partition=3)
RENAMED = replace(PARTITION, topic="renamed")
FIRST = (
    started(1, 0, 99, ((0, 0), (3, 50))), update(1, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, b"first"),
    copied(8), started(4, 100, 120), copied(4), deleting(4), deleted(4),
    partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED),
)  # fmt: skip
SECOND = (
    started(1, 5, 70, ((1, 5), (2, 60)), OTHER),
    update(1, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, b"second", OTHER),
    started(2, 71, 80, partition=OTHER), copied(9, OTHER),
    partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED, OTHER),
)  # fmt: skip
LATER = (
    copied(2, OTHER),
    deleting(1),
    deleting(1, OTHER),
    started(7, 81, 90, partition=OTHER),
    copied(8),
    copied(9, OTHER),
)


def state_of(*history, metadata_partition=None, keep_finished=True, **carried):
    if metadata_partition is not None:
        carried["metadata_partition"] = metadata_partition
    return ColumnarState.empty(keep_finished=keep_finished).apply(decode(list(map(serialize, history)), **carried))[0]


def first(**carried):
    return state_of(*FIRST, metadata_partition=0, offset=range(len(FIRST)), **carried)


def second(**carried):
    return state_of(*SECOND, metadata_partition=1, offset=range(len(SECOND)), **carried)


def tables(state):
    names = ("segments", "finished_segments", "unresolved", "user_partitions", "partition_deletes")
    return {name: getattr(state, name).to_pylist() for name in names}


@pytest.mark.parametrize("keep_finished", [True, False])
def test_states_of_two_metadata_partitions_are_together_the_state_of_both(keep_finished):
    places = {"metadata_partition": [0] * len(FIRST) + [1] * len(SECOND)}
    offsets = [*range(len(FIRST)), *range(len(SECOND))]
    whole = state_of(*FIRST, *SECOND, offset=offsets, keep_finished=keep_finished, **places)
    merged = ColumnarState.merged([first(keep_finished=keep_finished), second(keep_finished=keep_finished)])
    later = decode(list(map(serialize, LATER)), offset=range(20, 20 + len(LATER)))
    for _ in range(2):
        assert tables(merged) == tables(whole)
        assert merged.deletions_under_way() == whole.deletions_under_way()
        assert len(merged.deletions_under_way()) == 2
        assert merged.digest() == whole.digest()
        assert tables(ColumnarState.from_ipc(merged.to_ipc())) == tables(whole)
        (merged, mine), (whole, theirs) = merged.apply(later), whole.apply(later)
        assert (mine.applied, mine.dropped.to_pylist()) == (theirs.applied, theirs.dropped.to_pylist())


def test_segments_keep_what_they_refer_to():
    rows = ColumnarState.merged([first(), second()]).segments.to_pylist()
    assert [
        (row["segment_id"], row["topic"], row["partition"], row["custom_metadata"], row["segment_leader_epochs"])
        for row in rows
    ] == [
        (segment_id(number).id.bytes, "orders", *said, [{"leader_epoch": e, "start_offset": s} for e, s in epochs])
        for number, *said, epochs in (
            (1, 2, b"first", ((0, 0), (3, 50))),
            (1, 3, b"second", ((1, 5), (2, 60))),
            (2, 3, None, ((0, 71),)),
        )
    ]


def test_each_topic_is_there_once():
    merged = ColumnarState.merged(
        [first(), second(), state_of(started(1, partition=replace(RENAMED, partition=4)), metadata_partition=2)]
    )
    assert merged._own().topics.to_pylist() == ["orders", "renamed"]
    assert merged.user_partitions.column("topic").to_pylist() == ["orders", "orders", "renamed"]


def test_a_user_partition_in_two_of_them_is_refused():
    again = state_of(started(5, partition=PARTITION), started(6, partition=RENAMED), metadata_partition=7)
    with pytest.raises(MetadataError) as e:
        ColumnarState.merged([first(), second(), again])
    assert f"{kafka_uuid_str(PARTITION.topic_id)}:orders-2 " in str(e.value)
    assert "of metadata partitions 0 and 7:" in str(e.value)
    with pytest.raises(MetadataError, match="0 and unknown"):
        ColumnarState.merged([first(), state_of(started(5))])


def test_another_topic_id_name_or_number_is_another_user_partition():
    other_id = replace(PARTITION, topic_id=segment_id(1).id)
    others = [
        state_of(started(1, partition=tip), metadata_partition=n) for n, tip in enumerate((OTHER, RENAMED, other_id))
    ]
    assert ColumnarState.merged([first(), *others]).user_partitions.num_rows == 4


def test_states_that_keep_finished_segments_are_none_with_others():
    with pytest.raises(MetadataError, match="some states keep finished segments"):
        ColumnarState.merged([first(), second(keep_finished=False)])


def test_of_none_the_empty_state_comes_that_keeps_finished_segments():
    state = ColumnarState.merged([])
    assert state.user_partitions.num_rows == 0
    state, _ = state.apply(decode(list(map(serialize, FIRST))))
    assert state.finished_segments.num_rows == 1


def test_states_are_spent():
    state, other = first(), second()
    merged = ColumnarState.merged([state, other])
    for spent in (state, other):
        with pytest.raises(MetadataError, match="was advanced"):
            spent.digest()
    with pytest.raises(MetadataError, match="was advanced"):
        ColumnarState.merged([merged, merged])


def test_a_state_is_dropped_before_the_next_is_asked_for():
    dropped = []

    def states():
        for make in (first, second):
            state = make()
            store = weakref.ref(state._own())
            yield state
            dropped.append(store() is None)

    assert ColumnarState.merged(states()).segments.num_rows == 3
    assert dropped == [True, True]


def test_events_without_offsets_go_on_behind_those_of_all():
    states = [state_of(started(1), copied(1)), state_of(started(1, partition=OTHER))]
    state, _ = ColumnarState.merged(states).apply(decode([serialize(deleting(1))]))
    assert state.segments.column("event_offset").to_pylist() == [2, 0]


def test_what_nothing_refers_to_is_left_behind():
    batch = decode([serialize(started(1, 0, 99, ((0, 0), (1, n)))) for n in range(50)])
    state, _ = ColumnarState.empty().apply(batch)
    for _ in range(4):
        state, _ = state.apply(batch)
    size = state._own().tables["epochs"].size
    merged = ColumnarState.merged([state])
    assert merged._own().tables["epochs"].size == 2 < size
    assert merged.segments.column("segment_leader_epochs").to_pylist()[0][1]["start_offset"] == 49
