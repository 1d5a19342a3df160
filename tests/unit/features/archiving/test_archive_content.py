# SPDX-License-Identifier: Apache-2.0
"""The checksum of records says whether two streams hold the same ones, however they were cut."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.core.segments.record_batches.arrow_columns import SCHEMA
from airflow_provider_rlmm.features.archiving.archive.content import WITH_OFFSETS, WITHOUT_OFFSETS, ContentDigest

small = st.one_of(st.none(), st.binary(max_size=3))
rows = st.lists(
    st.fixed_dictionaries(
        {
            "offset": st.integers(0, 3),
            "timestamp": st.integers(-1, 2),
            "key": small,
            "value": small,
            "headers": st.lists(st.fixed_dictionaries({"key": st.text("ab", max_size=2), "value": small}), max_size=2),
        }
    ),
    max_size=5,
)


def digest_of(records: list[dict[str, Any]], cuts: list[int], columns: tuple[str, ...] = WITH_OFFSETS) -> str:
    digest = ContentDigest(columns)
    whole = pa.RecordBatch.from_pylist(records, SCHEMA)
    places = sorted({0, len(records), *(c for c in cuts if c <= len(records))})
    for start, end in zip(places, [*places[1:], len(records)], strict=True):
        digest.update(whole.slice(start, end - start))
    return digest.hexdigest()


@given(rows, rows, st.lists(st.integers(0, 5)), st.lists(st.integers(0, 5)))
def test_it_is_the_same_for_the_same_records_and_for_no_others(
    first: list[dict[str, Any]], second: list[dict[str, Any]], cuts: list[int], others: list[int]
) -> None:
    assert (digest_of(first, cuts) == digest_of(second, others)) == (first == second)


@given(rows, st.integers(0, 5), st.data())
def test_one_record_more_or_other_is_noticed(records: list[dict[str, Any]], at: int, data: st.DataObject) -> None:
    changed = list(records)
    if records and data.draw(st.booleans()):
        row = dict(changed[at % len(changed)])
        name = data.draw(st.sampled_from(["key", "value"]))
        row[name] = b"another" if row[name] is None else None
        changed[at % len(changed)] = row
    else:
        changed.insert(at, {"offset": 0, "timestamp": 0, "key": None, "value": None, "headers": []})
    assert digest_of(records, []) != digest_of(changed, [])


@given(rows, st.integers(1, 100))
def test_without_offsets_others_are_the_same(records: list[dict[str, Any]], by: int) -> None:
    moved = [row | {"offset": row["offset"] + by} for row in records]
    assert digest_of(records, [], WITHOUT_OFFSETS) == digest_of(moved, [2], WITHOUT_OFFSETS)
