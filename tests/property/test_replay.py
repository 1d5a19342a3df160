# SPDX-License-Identifier: Apache-2.0
"""A columnar state answers what one cache per user partition answers, however its events are cut into batches."""

from __future__ import annotations

import pickle
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.errors import MetadataError
from airflow_provider_rlmm.metadata.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.metadata.columnar import ColumnarState, decode, fold, iter_events
from airflow_provider_rlmm.metadata.records import topic_id_partition_of
from airflow_provider_rlmm.metadata.serde import serialize
from tests.property.histories import EDGES, PARTITIONS, Histories, Model, short_history

SEEDS = st.integers(0, 2**32)
WILDNESS = st.sampled_from([0, 0.02, 0.1, 0.5, 1])


def tables(state):
    return {name: rows(getattr(state, name)) for name in Model().tables()}


def rows(table):
    return [tuple(row.values()) for row in table.to_pylist()]


def decoded(random, values, first_offset):
    arguments = {"offset": range(first_offset, first_offset + len(values))}
    if random.random() < 0.5:
        arguments |= {"metadata_partition": random.choice([0, 1])}
        if random.random() < 0.3:
            arguments |= {"num_partitions": 2}
    if random.random() < 0.2:
        arguments |= {"keys": [random.choice([None, b"key"]) for _ in values]}
    batch = decode(values, **arguments)
    cut = random.choice([0, 0, 1])
    return batch.slice(cut)


def reported(report):
    return {
        name: [(row["offset"], row["fate"], row["reason"]) for row in getattr(report, name).to_pylist()]
        for name in ("quarantined", "dropped", "would_end_consumer")
    }


def expected_report(model, batch):
    offsets = batch.column("offset").to_pylist()
    return {name: [(offsets[row], *why) for row, *why in found] for name, found in model.apply(batch).items()}


def answers(cache):
    return [cache.list_remote_log_segments()] + [
        (
            _list_or_complain(cache, epoch),
            cache.highest_offset_for_epoch(epoch),
            [cache.remote_log_segment_metadata(epoch, offset) for offset in (*range(0, 90, 4), *EDGES)],
        )
        for epoch in range(5)
    ]


def _list_or_complain(cache, epoch):
    try:
        return cache.list_remote_log_segments(epoch)
    except MetadataError as e:
        return str(e)


@given(SEEDS, WILDNESS, st.integers(1, 200), st.sampled_from([3, 20, 200]))
@settings(max_examples=60, deadline=None)
def test_a_replay_in_batches(seed, wild, size, largest_batch):
    history = Histories(seed, wild)
    values, random = history.values(size), history.random
    state, model, at, kept = ColumnarState.empty(), Model(), 0, []
    while at < len(values):
        batch = decoded(random, values[at : at + random.randint(1, largest_batch)], at)
        at += max(batch.num_rows, 1)
        kept.append((state, model.copy()))
        state, report = state.apply(batch)
        assert reported(report) == expected_report(model, batch)
        assert report.applied == model.applied
        if random.random() < 0.3:
            state = ColumnarState.from_ipc(state.to_ipc())
        if random.random() < 0.3:
            assert tables(state) == model.tables()
    assert tables(state) == model.tables()
    for older, its_model in random.sample(kept, min(3, len(kept))):
        assert tables(older) == its_model.tables()
        after, _ = older.apply(batch)
        its_model.apply(batch)
        assert tables(after) == its_model.tables()
    for partition in PARTITIONS:
        assert answers(state.cache(partition)) == answers(model.caches.get(partition, RemoteLogMetadataCache()))
        deletion = model.deletes.get(partition)
        assert state.partition_delete_state(partition) == (deletion and deletion.state)


@given(SEEDS, st.sampled_from([1, 3, 6, 20]))
@settings(max_examples=200, deadline=None)
def test_offsets_and_epochs_at_the_edges(seed, largest_batch):
    random = Random(seed)
    values = short_history(random)
    state, model, at = ColumnarState.empty(), Model(), 0
    while at < len(values):
        size = random.randint(1, largest_batch)
        batch = decode(values[at : at + size], offset=range(at, min(at + size, len(values))))
        at += size
        state, report = state.apply(batch)
        assert reported(report) == expected_report(model, batch)
    assert tables(state) == model.tables()
    assert answers(state.cache(PARTITIONS[0])) == answers(model.caches[PARTITIONS[0]])


@given(SEEDS, WILDNESS)
@settings(max_examples=15, deadline=None)
def test_states_of_disjoint_user_partitions_go_on_as_one(seed, wild):
    good = [event for event in iter_events(decode(Histories(seed, wild).values(150))) if event]
    whole, model = decode(values_of(good)), Model()
    model.apply(whole)
    parts = [[e for e in good if (topic_id_partition_of(e) in PARTITIONS[:2]) is first] for first in (True, False)]
    one, other = (ColumnarState.empty().apply(decode(values_of(part)))[0] for part in parts)
    merged = one.merge(other)
    assert tables(merged) == model.tables()
    assert pickle.loads(pickle.dumps(merged)).segments == merged.segments
    again = whole.slice(100)
    model.apply(again)
    assert tables(merged.apply(again)[0]) == model.tables()


def values_of(events):
    return [serialize(event) for event in events]


@pytest.mark.parametrize("wild", [0.02, 0.3])
def test_small_parts_colliding_hashes_and_frequent_rebuilding_change_nothing(monkeypatch, wild):
    monkeypatch.setattr(fold.apply, "_PART_EVENTS", 7)
    for module in (fold.batch, fold.caches, fold.steps, fold.store):
        monkeypatch.setattr(module, "hash_of", lambda high, low, code: (high ^ low) << np.uint64(61))
    monkeypatch.setattr(fold.store, "_TOLERATED", 8)
    monkeypatch.setattr(fold.store, "_INDEXED_AT_ONCE", 8)
    values = Histories(405, wild).values(600)
    state, model, kept = ColumnarState.empty(), Model(), []
    for at in range(0, len(values), 100):
        batch = decode(values[at : at + 100], offset=range(at, at + 100))
        kept.append((state, model.copy()))
        state, report = state.apply(batch)
        assert reported(report) == expected_report(model, batch)
    assert tables(state) == model.tables()
    for older, its_model in kept:
        assert tables(older) == its_model.tables()
