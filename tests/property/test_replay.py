# SPDX-License-Identifier: Apache-2.0
"""A columnar state answers what one history per user partition answers, however its events are cut into batches."""

from __future__ import annotations

import io
import pickle
from itertools import groupby
from random import Random
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import MetadataError
from airflow_provider_rlmm.core.records.columnar import ColumnarState, decode
from airflow_provider_rlmm.core.records.fold import apply, events, steps, store
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from tests.examples import examples
from tests.property.histories import TABLES, Histories, Model, short_history

SEEDS = st.integers(0, 2**32)
WILDNESS = st.sampled_from([0, 0.02, 0.1, 0.5, 1])


def tables(state):
    return {name: sorted(rows(getattr(state, name)), key=repr) for name in TABLES}


def rows(table):
    return [tuple(row.values()) for row in table.to_pylist()]


def deletions(state):
    return {
        partition: (d.delete_state, d.observations, d.unsettled_marker_offset)
        for partition, d in state.deletions_under_way().items()
    }


class Batches:
    """Cuts values into batches, all of one topic."""

    def __init__(self, random, values, largest):
        self._random, self._values, self._largest = random, values, largest
        self._carried = {}
        if random.random() < 0.7:
            self._carried["metadata_partition"] = random.choice([0, 1])
            if random.random() < 0.3:
                self._carried["num_partitions"] = 2
        self._timed = random.random() < 0.5
        self._keyed = random.random() < 0.2

    def __iter__(self):
        at = 0
        while at < len(self._values):
            values = self._values[at : at + self._random.randint(1, self._largest)]
            carried = self._carried | {"offset": range(at, at + len(values))}
            if self._timed:
                carried["timestamp_ms"] = [self._random.choice([-1, *range(150)]) for _ in values]
            if self._keyed:
                carried["keys"] = [self._random.choice([None, b"key"]) for _ in values]
            yield decode(values, **carried).slice(self._random.choice([0, 0, 1]))
            at += len(values)


SAID = dict.fromkeys(("quarantined", "dropped", "would_end_consumer"), ("fate", "reason")) | {
    "deletions": ("state_before",)
}


def reported(report):
    return {
        name: [tuple(row[column] for column in ("offset", *columns)) for row in getattr(report, name).to_pylist()]
        for name, columns in SAID.items()
    }


def expected_report(model, batch):
    offsets = batch.column("offset").to_pylist()
    return {name: [(offsets[row], *why) for row, *why in found] for name, found in model.apply(batch).items()}


@pytest.mark.slow
@given(SEEDS, WILDNESS, st.integers(1, 150), st.sampled_from([3, 20, 150]))
@settings(max_examples=examples(150), deadline=None)
def test_a_replay_in_batches(seed, wild, size, largest_batch):
    history = Histories(seed, wild)
    random = history.random
    state, model = ColumnarState.empty(keep_finished=True), Model()
    for batch in Batches(random, history.values(size), largest_batch):
        before, (state, report) = state, state.apply(batch)
        assert reported(report) == expected_report(model, batch)
        assert report.applied == model.applied
        if random.random() < 0.3:
            state = pickle.loads(pickle.dumps(state))
        if random.random() < 0.3:
            assert tables(state) == model.tables()
        with pytest.raises(MetadataError, match="was advanced"):
            before.apply(batch)
    assert tables(state) == model.tables()
    assert deletions(state) == model.deletions()


@pytest.mark.slow
@given(SEEDS, WILDNESS, st.integers(1, 300), st.sampled_from([3, 20, 300]))
@settings(max_examples=examples(50), deadline=None)
def test_without_finished_segments_only_updates_that_come_after_them_look_different(seed, wild, size, largest_batch):
    history = Histories(seed, wild)
    state, model = ColumnarState.empty(), Model()
    for batch in Batches(history.random, history.values(size), largest_batch):
        state, report = state.apply(batch)
        assert reported(report) == expected_report(model, batch)
        if history.random.random() < 0.3:
            state = ColumnarState.from_ipc(state.to_ipc())
    found, expected = tables(state), model.tables()
    expected["finished_segments"] = []
    certain = {row[:5] for row in expected.pop("unresolved")}
    unresolved = found.pop("unresolved")
    assert found == expected
    assert deletions(state) == model.deletions()
    assert certain <= {row[:5] for row in unresolved}
    assert all(row[-1] for row in unresolved if row[:5] not in certain)


@pytest.mark.slow
@given(SEEDS, WILDNESS, st.integers(1, 150))
@settings(max_examples=examples(100), deadline=None)
def test_living_segments_where_they_lie_are_those_of_the_table_in_the_order_of_a_walk(seed, wild, size):
    history = Histories(seed, wild)
    state = ColumnarState.empty(keep_finished=history.random.random() < 0.5)
    for batch in Batches(history.random, history.values(size), 50):
        state, _ = state.apply(batch)
    before = tables(state)
    sink = pa.BufferOutputStream()
    state.write_ipc(sink)
    assert tables(state) == before, "it is not spent"
    for one in (state, ColumnarState.from_ipc(io.BytesIO(sink.getvalue().to_pybytes()))):
        assert tables(one) == before
        require_in_walk_order(one)
        require_selected(one, history.random)


def require_selected(state, random):
    """Segments where they lie are those of the table, whatever is asked for."""
    names = state.segments.schema.names
    by_table, selected = state.segments.to_pylist(), state.unfinished()

    def is_of(found, wanted):
        assert sorted(map(repr, found.table(names).to_pylist())) == sorted(map(repr, wanted))
        assert found.size == len(wanted)

    is_of(selected, by_table)
    copied = [row for row in by_table if row["state"] == int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)]
    is_of(selected.copied(), copied)
    is_of(selected.with_custom_metadata(), [row for row in by_table if row["custom_metadata"] is not None])
    known = sorted({row["topic_id"] for row in by_table})
    topics = {raw for raw in known if random.random() < 0.5}
    is_of(selected.of_topics([UUID(bytes=raw) for raw in topics]), [r for r in by_table if r["topic_id"] in topics])
    ids = {row["segment_id"] for row in by_table if random.random() < 0.3}
    is_of(selected.with_ids([UUID(bytes=raw) for raw in ids]), [r for r in by_table if r["segment_id"] in ids])
    assert selected.topic_ids() == {UUID(bytes=raw) for raw in known}
    newest = selected.newest_first().table(names).to_pylist()
    times = [(row["event_timestamp_ms"], row["event_offset"]) for row in newest]
    assert times == sorted(times, reverse=True)
    firsts = [
        next(row for row in newest if row["topic_id"] == raw) for raw in dict.fromkeys(r["topic_id"] for r in newest)
    ]
    assert selected.newest_first().first_of_topics().table(names).to_pylist() == firsts
    counted = {}
    for row in by_table:
        total = counted.setdefault((row["metadata_partition"], UUID(bytes=row["topic_id"])), [0, 0])
        total[0] += 1
        total[1] += row["segment_size_in_bytes"]
    counts = selected.counts()
    assert {(number, topic_id): [count, size] for number, topic_id, count, size in counts} == counted
    assert len(counts) == len(counted)


def require_in_walk_order(state):
    partition = ("topic_id", "topic", "partition")
    expected = sorted(
        state.segments.to_pylist(),
        key=lambda row: [row[name] for name in (*partition, "start_offset", "end_offset", "segment_id")],
    )
    living, names = state.living(), state.segments.schema.names
    assert living.table(slice(None), names).to_pylist() == expected
    pieces = [living.table(slice(at, at + 7), names[:9]).to_pylist() for at in range(0, living.size, 7)]
    assert [row for piece in pieces for row in piece] == [{name: row[name] for name in names[:9]} for row in expected]
    keys = [tuple(row[name] for name in partition) for row in expected]
    assert [tuple(row[name] for name in partition) for row in living.partitions.to_pylist()] == list(
        dict.fromkeys(keys)
    )
    assert [keys[at] for at in living.first] == list(dict.fromkeys(keys))
    assert living.sizes.tolist() == [len(list(group)) for _, group in groupby(keys)]
    uncertain = {tuple(row[name] for name in (*partition, "segment_id")) for row in state.unresolved.to_pylist()}
    found = [n for n, row in enumerate(expected) if (*keys[n], row["segment_id"]) in uncertain]
    assert living.uncertain.tolist() == found


@pytest.mark.slow
@given(SEEDS, st.sampled_from([1, 3, 6, 20]))
@settings(max_examples=examples(200), deadline=None)
def test_offsets_and_epochs_at_the_edges(seed, largest_batch):
    random = Random(seed)
    state, model = ColumnarState.empty(keep_finished=True), Model()
    for batch in Batches(random, short_history(random), largest_batch):
        state, report = state.apply(batch)
        assert reported(report) == expected_report(model, batch)
    assert tables(state) == model.tables()


@pytest.mark.slow
@pytest.mark.parametrize("wild", [0.02, 0.3])
@pytest.mark.parametrize("keep_finished", [True, False])
def test_small_parts_colliding_hashes_and_frequent_rebuilding_change_nothing(monkeypatch, wild, keep_finished):
    monkeypatch.setattr(apply, "_PART_EVENTS", 7)
    for module in (events, steps, store):
        monkeypatch.setattr(module, "hash_of", lambda high, low, code: (high ^ low) << np.uint64(61))
    monkeypatch.setattr(store, "_LOOKED_AT_BITS", 1)
    monkeypatch.setattr(store, "_TOLERATED", 8)
    monkeypatch.setattr(store, "_INDEXED_AT_ONCE", 8)
    values = Histories(405, wild).values(600)
    state, model = ColumnarState.empty(keep_finished=keep_finished), Model()
    for at in range(0, len(values), 100):
        batch = decode(values[at : at + 100], offset=range(at, at + 100))
        state, report = state.apply(batch)
        assert reported(report) == expected_report(model, batch)
    found, expected = tables(state), model.tables()
    if not keep_finished:
        for name in ("finished_segments", "unresolved"):
            del found[name], expected[name]
    assert found == expected
