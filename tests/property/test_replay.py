# SPDX-License-Identifier: Apache-2.0
"""A columnar state answers what one cache per user partition answers, however its events are cut into batches."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.errors import InvalidStateTransitionError
from airflow_provider_rlmm.metadata.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.metadata.columnar import ColumnarState, decode
from airflow_provider_rlmm.metadata.serde import serialize
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState
from tests.unit.metadata.events import PARTITION, started, update

PARTITIONS = [replace(PARTITION, partition=number) for number in range(3)]


@st.composite
def segment_events(draw):
    partition = draw(st.sampled_from(PARTITIONS))
    number = draw(st.integers(1, 4))
    if draw(st.integers(0, 3)):
        return update(number, draw(st.sampled_from(RemoteLogSegmentState)), draw(st.none() | st.just(b"m")), partition)
    start = draw(st.integers(0, 30))
    offsets = sorted(draw(st.lists(st.integers(start, start + 20), min_size=1, max_size=3)))
    epochs = sorted(draw(st.sets(st.integers(0, 3), min_size=len(offsets), max_size=len(offsets))))
    return started(number, start, start + 20, tuple(zip(epochs, offsets, strict=True)), partition)


def replay_in_caches(events):
    caches = {}
    counts = {"applied": 0, "dropped": 0, "thrown": 0}
    for event in events:
        cache = caches.setdefault(event.remote_log_segment_id.topic_id_partition, RemoteLogMetadataCache())
        try:
            if hasattr(event, "start_offset"):
                outcome = cache.add_copy_in_progress_segment(event)
            else:
                outcome = cache.update_remote_log_segment_metadata(event)
            counts["applied" if outcome.applied else "dropped"] += 1
        except InvalidStateTransitionError:
            counts["thrown"] += 1
    return caches, counts


@given(st.lists(segment_events(), max_size=40), st.integers(1, 10))
@settings(max_examples=150, deadline=None)
def test_a_replay_in_batches(events, size):
    state = ColumnarState.empty()
    counts = {"applied": 0, "dropped": 0, "thrown": 0}
    for at in range(0, len(events), size):
        state, report = state.apply(decode([serialize(event) for event in events[at : at + size]]))
        counts["applied"] += report.applied
        counts["dropped"] += report.dropped.num_rows
        counts["thrown"] += report.would_end_consumer.num_rows
        state = ColumnarState.from_ipc(state.to_ipc())
    caches, expected = replay_in_caches(events)
    assert counts == expected
    assert rows_of_segments(state) == {
        (partition.partition, segment.remote_log_segment_id.id.bytes, segment.state, segment.start_offset)
        for partition, cache in caches.items()
        for segment in cache.list_remote_log_segments()
    }
    assert {
        (row["partition"], row["leader_epoch"], row["highest_offset"]) for row in state.epoch_highest.to_pylist()
    } == {
        (partition.partition, epoch, cache.highest_offset_for_epoch(epoch))
        for partition, cache in caches.items()
        for epoch in range(4)
        if cache.highest_offset_for_epoch(epoch) is not None
    }
    assert rows_of_epochs(state) == {
        (partition.partition, epoch, segment_id.id.bytes, start_offset)
        for partition, cache in caches.items()
        for epoch, of_epoch in cache.leader_epochs.items()
        for start_offset, segment_id in [*of_epoch.referenced.items(), *((None, key) for key in of_epoch.unreferenced)]
    }


def rows_of_segments(state):
    names = ("partition", "segment_id", "state", "start_offset")
    return {tuple(row[name] for name in names) for row in state.segments.to_pylist()}


def rows_of_epochs(state):
    names = ("partition", "leader_epoch", "segment_id", "start_offset")
    rows = state.epoch_offsets.to_pylist()
    assert all(row["referenced"] == (row["start_offset"] is not None) for row in rows)
    return {tuple(row[name] for name in names) for row in rows}
