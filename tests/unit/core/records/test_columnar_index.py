# SPDX-License-Identifier: Apache-2.0
"""The index of a columnar state finds what a dictionary finds, and its helpers do what slower functions of numpy do."""

from __future__ import annotations

import numpy as np
import pytest

from airflow_provider_rlmm.core.records.fold.index import HashIndex, hash_of, spread


def mixed(numbers):
    return hash_of(numbers.astype(np.uint64), numbers.astype(np.uint64), numbers)


HASHES = {
    "mixed": mixed,
    "all the same": lambda numbers: np.zeros(numbers.size, np.uint64),
    "behind the last slot": lambda numbers: np.full(numbers.size, 2**64 - 1, np.uint64),
    "differing where slots do not look": lambda numbers: numbers.astype(np.uint64),
}


@pytest.mark.parametrize("name", HASHES)
@pytest.mark.parametrize("first", [0, 1, 100])
def test_finds_what_was_inserted(name, first):
    keys = np.random.default_rng(405).permutation(400)
    known, unknown = keys[:300], keys[300:]
    index = HashIndex(300)
    for some in (np.arange(first), np.arange(first, 300)):
        index.insert(HASHES[name](known[some]), some)
    asked = np.concatenate([unknown, known])
    found = index.find(HASHES[name](asked), lambda which, positions: known[positions] == asked[which])
    assert found.tolist() == [-1] * 100 + list(range(300))
    found = index.find(HASHES[name](known), lambda which, positions: known[positions] == known[which])
    assert found.tolist() == list(range(300))


def test_an_index_has_room_for_what_was_expected():
    index = HashIndex(1000)
    assert index.has_room(1000)
    index.insert(mixed(np.arange(900)), np.arange(900))
    assert index.has_room(100)
    assert not index.has_room(index.nbytes)
    assert HashIndex(1000, 1 / 8).nbytes > 2 * index.nbytes


@pytest.mark.parametrize("lengths", [[1, 1, 1], [2, 1, 3], [0, 2, 0, 1, 0], [0], []])
def test_spread(lengths):
    at = np.arange(len(lengths)) * 10
    positions, owner = spread(at, np.array(lengths, np.int32))
    expected = [
        (first + i, run) for run, (first, n) in enumerate(zip(at.tolist(), lengths, strict=True)) for i in range(n)
    ]
    assert list(zip(positions.tolist(), owner.tolist(), strict=True)) == expected
