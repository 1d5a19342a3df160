# SPDX-License-Identifier: Apache-2.0
"""Which batches belong to aborted transactions, compared with a plain loop."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from airflow_provider_rlmm.core.segments.indexes.transaction_index import AbortedTransaction
from airflow_provider_rlmm.core.segments.record_batches.control import read_markers
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders
from airflow_provider_rlmm.features.reading.transactions import AbortedTransactions, MarkerCheck
from tests.kafka_log import CONTROL, TRANSACTIONAL, Batch, Record, control_batch, log_of
from tests.remote_log_world import random_world


def headers_of(batches: list[Batch]) -> tuple[bytes, BatchHeaders]:
    data = log_of(batches)
    return data, BatchHeaders.find(data, location="log", position=0)[0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50))
def test_batches_of_aborted_transactions_are_those_that_a_loop_finds(seed: int) -> None:
    world = random_world(f"aborted {seed}", batches=120)
    _, headers = headers_of(world.batches)
    aborted = AbortedTransactions([AbortedTransaction(*entry) for entry in world.aborted * 2])
    expected = [
        bool(batch.attributes & TRANSACTIONAL)
        and any(t[0] == batch.producer_id and t[1] <= batch.records[0].offset <= t[2] for t in world.aborted)
        for batch in world.batches
    ]
    assert aborted.contain(headers).tolist() == expected
    assert any(expected)
    assert not AbortedTransactions([]).contain(headers).any()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50))
def test_end_markers_agree_with_what_is_true_and_with_nothing_else(seed: int) -> None:
    world, rng = random_world(f"markers {seed}", batches=120), random.Random(seed)
    data, headers = headers_of(world.batches)
    aborted = AbortedTransactions([AbortedTransaction(*entry) for entry in world.aborted]).contain(headers)
    cuts = sorted({0, *rng.sample(range(1, len(headers)), 4), len(headers)})

    def finds_a_disagreement(said: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> bool:
        check = MarkerCheck()
        for first, behind in pairwise(cuts):
            part = headers[first:behind]
            if check.disagreement(part, said[first:behind], read_markers(data, part[part.is_control])) is not None:
                return True
        return False

    assert not finds_a_disagreement(aborted)
    opened = (
        {}
        if world.open_since is None
        else {b.producer_id for b in world.batches if b.records[-1].offset >= world.open_since}
    )
    decided = [
        row
        for row, batch in enumerate(world.batches)
        if batch.attributes & TRANSACTIONAL and not batch.attributes & CONTROL and batch.producer_id not in opened
    ]
    for row in rng.sample(decided, min(8, len(decided))):
        said = aborted.copy()
        said[row] = not said[row]
        assert finds_a_disagreement(said)


def test_what_has_no_end_marker_yet_is_undecided() -> None:
    batches = [
        Batch((Record(0),), attributes=TRANSACTIONAL, producer_id=1),
        control_batch(1, 1, commit=True),
        Batch((Record(2),), attributes=TRANSACTIONAL, producer_id=1),
    ]
    data, headers = headers_of(batches)
    check = MarkerCheck()
    assert check.disagreement(headers, np.zeros(3, bool), read_markers(data, headers[headers.is_control])) is None
    assert check.waits_but_for(())
    data, end = headers_of([control_batch(3, 1, commit=False)])
    kept = check.copy()
    marker = check.disagreement(end, np.zeros(1, bool), read_markers(data, end))
    assert marker is not None
    assert marker.offset == 3
    assert not check.waits_but_for(())
    assert kept.waits_but_for(())
