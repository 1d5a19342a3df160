# SPDX-License-Identifier: Apache-2.0
"""The states of metadata partitions are together the state of the topic, and a digest tells what a state says."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.records.columnar import ColumnarState
from airflow_provider_rlmm.core.records.fold import apply, digest, events, steps, store, tables
from tests.examples import examples
from tests.property.histories import TABLES, Histories
from tests.property.routed_records import batches, folded, routed

SEEDS = st.integers(0, 2**32)
WILDNESS = st.sampled_from([0, 0.02, 0.1, 0.5, 1])
REPORTED = ("quarantined", "dropped", "would_end_consumer", "deletions", "misnamed")


def told(state):
    found = {name: sorted(getattr(state, name).to_pylist(), key=repr) for name in TABLES}
    living = state.living()
    found["living"] = living.table(slice(None), state.segments.schema.names).to_pylist()
    found["uncertain"] = living.uncertain.tolist()
    if found["finished_segments"]:
        # Where they are forgotten, some lie there still until the state is rebuilt.
        found["finished_over"] = living.finished_over.tolist()
    found["deletions"] = {
        tip: (d.delete_state, d.observations, d.unsettled_marker_offset)
        for tip, d in state.deletions_under_way().items()
    }
    return found


def reported(report):
    return report.applied, {name: getattr(report, name).to_pylist() for name in REPORTED}


@pytest.mark.slow
@given(SEEDS, WILDNESS, st.integers(1, 200), st.sampled_from([1, 2, 3, 7]), st.booleans(), st.booleans())
@settings(max_examples=examples(100), deadline=None)
def test_the_states_of_metadata_partitions_are_together_the_state_of_all(
    seed, wild, size, partitions, keep_finished, keyed
):
    history = Histories(seed, wild)
    random, records = history.random, routed(history, size, partitions, keyed=keyed)
    read = random.randint(0, size)

    def folded_of(records):
        return folded(batches(random, records, partitions, 40), keep_finished=keep_finished)

    whole = folded_of(records[:read])
    parts = (folded_of([r for r in records[:read] if r.metadata_partition == n]) for n in range(partitions))
    merged = ColumnarState.merged(parts)
    if random.random() < 0.3:
        merged = ColumnarState.from_ipc(merged.to_ipc())
    assert told(merged) == told(whole)
    assert merged.digest() == whole.digest()
    for batch in batches(random, records[read:], partitions, 60):
        (merged, mine), (whole, theirs) = merged.apply(batch), whole.apply(batch)
        assert reported(mine) == reported(theirs)
    assert told(merged) == told(whole)
    assert merged.digest() == whole.digest()


@pytest.mark.slow
@given(SEEDS, WILDNESS, st.integers(1, 200), st.booleans(), st.booleans())
@settings(max_examples=examples(80), deadline=None)
@example(seed=223, wild=0.5, size=188, keep_finished=False, keyed=True)  # a key is forgotten before its segment's add
def test_a_digest_tells_what_a_state_says(seed, wild, size, keep_finished, keyed):
    """States whose events are the same have the same one, and those that say the same of all but a few events have not."""
    history = Histories(seed, wild)
    random, records = history.random, routed(history, size, 1, keyed=keyed)
    state = folded(batches(random, records, 1, size), keep_finished=keep_finished)
    expected = state.digest()
    for largest in (1, 7, size):
        other = ColumnarState.empty(keep_finished=keep_finished)
        for batch in batches(random, records, 1, largest):
            other, _ = other.apply(batch)
            if random.random() < 0.2:
                other = ColumnarState.from_ipc(other.to_ipc())
        assert other.digest() == expected
    shorter = folded(batches(random, records[: random.randrange(size)], 1, size), keep_finished=keep_finished)
    if told(shorter) != told(state):
        assert shorter.digest() != expected


@pytest.mark.slow
@pytest.mark.parametrize("wild", [0.02, 0.3])
@pytest.mark.parametrize("keep_finished", [True, False])
def test_small_pieces_colliding_hashes_and_frequent_rebuilding_change_nothing(monkeypatch, wild, keep_finished):
    random, records = Random(1), routed(Histories(405, wild), 600, 3, keyed=True)

    def of_all():
        return folded(batches(random, records, 3, 100), keep_finished=keep_finished)

    def merged():
        each = (batches(random, [r for r in records if r.metadata_partition == n], 3, 100) for n in range(3))
        return ColumnarState.merged(folded(part, keep_finished=keep_finished) for part in each)

    expected = told(of_all())
    for module in (digest, tables):
        monkeypatch.setattr(module, "PIECE_ROWS", 5)
    in_pieces = of_all().digest()
    monkeypatch.setattr(apply, "_PART_EVENTS", 7)
    for module in (events, steps, store):
        monkeypatch.setattr(module, "hash_of", lambda high, low, code: (high ^ low) << np.uint64(61))
    monkeypatch.setattr(store, "_LOOKED_AT_BITS", 1)
    for constant in ("_TOLERATED", "_INDEXED_AT_ONCE", "_COPIED_AT_ONCE"):
        monkeypatch.setattr(store, constant, 8)
    for state in (of_all(), merged()):
        assert told(state) == expected
        assert state.digest() == in_pieces
