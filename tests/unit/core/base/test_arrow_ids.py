# SPDX-License-Identifier: Apache-2.0
"""Ids by the million, beside sets and dictionaries of Python; ids that are taken for one another among them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base import arrow_ids
from airflow_provider_rlmm.core.base.arrow_ids import IdSet, RowsOfIds, folded, folded_together

# Of few halves, so that many ids have the same exclusive or.
IDS = st.builds(lambda high, low: bytes([high] * 8 + [low] * 8), st.integers(0, 3), st.integers(0, 3))


def array(ids: list[bytes | None]) -> pa.Array:
    return pa.array(ids, pa.binary())


def fold(raw: bytes) -> int:
    return int.from_bytes(raw[:8], "little") ^ int.from_bytes(raw[8:], "little")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.one_of(IDS, st.none()), max_size=6), max_size=6), st.lists(IDS, max_size=6))
def test_a_set_holds_what_was_added(parts: list[list[bytes | None]], asked: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(arrow_ids, "_PARTS", 3)
        found = IdSet()
        for part in parts:
            found.add(array(part))
            # What was asked for before does not change what is held.
            found.holds(array(asked[:1]))
    known = {fold(one) for part in parts for one in part if one is not None}
    assert found.holds(array(asked)).tolist() == [fold(one) in known for one in asked]
    assert len(found) == len(known)


@settings(max_examples=100, deadline=None)
@given(st.lists(IDS, max_size=12), st.lists(IDS, max_size=6))
def test_rows_are_found_by_their_ids(rows: list[bytes], asked: list[bytes]) -> None:
    which, found = RowsOfIds(folded(array(list(rows)))).candidates(array(list(asked)))
    pairs = list(zip(which.tolist(), found.tolist(), strict=True))
    expected = [(at, row) for at, one in enumerate(asked) for row, id_ in enumerate(rows) if fold(id_) == fold(one)]
    assert pairs == expected


def test_ids_of_chunks_and_of_slices() -> None:
    ids: list[bytes | None] = [bytes([number] * 7 + [0] * 9) for number in range(6)]
    chunks = pa.chunked_array([array(ids[:2]), array([None, *ids[2:]]).slice(2)])
    assert folded(chunks).tolist() == folded(array([*ids[:2], *ids[3:]])).tolist()
    assert folded(pa.chunked_array([], pa.binary())).size == 0


def test_an_id_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="an id has 16 bytes"):
        IdSet().add(array([b"short"]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(IDS, IDS, st.integers(0, 2)), max_size=12))
def test_several_ids_and_a_number_are_told_apart(rows: list[tuple[bytes, bytes, int]]) -> None:
    first, second, number = zip(*rows, strict=True) if rows else ((), (), ())
    keys = folded_together([array(list(first)), array(list(second))], pa.array(number, pa.int32()))
    expected = {(fold(one), fold(other), n) for one, other, n in rows}
    assert len(set(keys.tolist())) == len(expected)
    found = IdSet()
    found.add_folded(keys)
    assert len(found) == len(expected)
